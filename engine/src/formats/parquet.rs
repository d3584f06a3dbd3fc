//! Parquet types and ours: an array as the file has it becomes an array of the declared SQL type.
//!
//! Parquet is a format of whole files, so that reading and writing it is the filesystem connector's; what a value means is here.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, PrimitiveArray, StructArray};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    DataType, Field as ArrowField, Fields, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};

use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::FormatContext;
use super::format::option;
use crate::config::{OptionSpec, OptionType};
use crate::error::{Error, Result};
use crate::types::{LogicalType, TypeRoot};

/// The options of `'format' = 'parquet'`.
pub(crate) const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "parquet.compression",
        OptionType::Enum(&[
            "SNAPPY",
            "ZSTD",
            "LZ4_RAW",
            "UNCOMPRESSED",
            "snappy",
            "zstd",
            "lz4_raw",
            "uncompressed",
        ]),
        Some("SNAPPY"),
        "How a sink compresses pages.",
    ),
    OptionSpec::new(
        ROW_GROUP_OPTION,
        OptionType::Integer,
        Some("134217728"),
        "The size in bytes at which a sink ends a row group; each writer keeps the open one in memory.",
    ),
    OptionSpec::new(
        "parquet.utc-timezone",
        OptionType::Boolean,
        Some("true"),
        "Accepted for Flink's sake: TIMESTAMP values are read and written as they are, as Flink does in a JVM whose zone is UTC.",
    ),
    OptionSpec::new(
        "parquet.write.int64.timestamp",
        OptionType::Enum(&["true"]),
        Some("true"),
        "Timestamps are written as 64-bit integers, never as INT96.",
    ),
];

const ROW_GROUP_OPTION: &str = "parquet.block.size";

/// Refuses types that Parquet, like Flink's format for it, cannot hold.
pub(crate) fn check_types(context: &FormatContext) -> Result<()> {
    for field in &context.physical.fields {
        let root = &field.logical_type.root;
        if matches!(
            root,
            TypeRoot::Null | TypeRoot::IntervalDayTime | TypeRoot::IntervalYearMonth
        ) {
            return Err(Error::unsupported(format!(
                "table \"{}\": column \"{}\": {root} in Parquet",
                context.table, field.name
            )));
        }
    }
    Ok(())
}

/// How files of a table are written.
pub(crate) fn writer_properties(context: &FormatContext) -> Result<WriterProperties> {
    let name = option(&context.options, "parquet.compression").unwrap_or("SNAPPY");
    let compression = match name.to_ascii_uppercase().as_str() {
        "SNAPPY" => Compression::SNAPPY,
        "ZSTD" => Compression::ZSTD(ZstdLevel::default()),
        "LZ4_RAW" => Compression::LZ4_RAW,
        "UNCOMPRESSED" => Compression::UNCOMPRESSED,
        _ => {
            return Err(Error::user(format!(
                "table \"{}\": there is no 'parquet.compression' = '{name}'",
                context.table
            ))
            .hint("SNAPPY, ZSTD, LZ4_RAW or UNCOMPRESSED"));
        }
    };
    Ok(WriterProperties::builder()
        .set_compression(compression)
        // Row groups end by their bytes.
        .set_max_row_group_row_count(None)
        .build())
}

/// The size at which a row group ends: `parquet.block.size`.
pub(crate) fn row_group_bytes(context: &FormatContext) -> Result<usize> {
    let text = option(&context.options, ROW_GROUP_OPTION).unwrap_or("134217728");
    let bytes = text.trim().parse().ok().filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| {
        Error::user(format!(
            "table \"{}\": '{text}' is no value for '{ROW_GROUP_OPTION}': it must be a number of bytes above 0",
            context.table
        ))
    })
}

/// `array` as a column of `logical_type`. An error of the data where a value does not fit, of the user where the types have
/// nothing to do with each other.
pub(crate) fn adapt(array: &ArrayRef, logical_type: &LogicalType) -> Result<ArrayRef> {
    adapt_to(array, &logical_type.to_arrow()).map_err(|mismatch| match mismatch {
        Mismatch::Type(from) => Error::user(format!(
            "the file has {from}, which cannot be read as {}",
            logical_type.root
        )),
        Mismatch::Value(error) => Error::data(format!(
            "a value does not fit {}: {error}",
            logical_type.root
        )),
    })
}

enum Mismatch {
    Type(DataType),
    Value(arrow::error::ArrowError),
}

impl From<arrow::error::ArrowError> for Mismatch {
    fn from(error: arrow::error::ArrowError) -> Self {
        Mismatch::Value(error)
    }
}

fn adapt_to(array: &ArrayRef, to: &DataType) -> std::result::Result<ArrayRef, Mismatch> {
    use DataType::*;
    let from = array.data_type();
    if from == to {
        return Ok(array.clone());
    }
    match (from, to) {
        (Dictionary(_, value), _) => adapt_to(&cast(array, value)?, to),
        (Timestamp(unit, _), Timestamp(finer, _)) => timestamp(array, *unit, *finer, to),
        (List(_) | LargeList(_) | FixedSizeList(_, _), List(element)) => list(array, element),
        (Struct(_), Struct(fields)) => row(array.as_struct(), fields),
        (Map(_, _), Map(entries, _)) => map(array.as_map(), entries),
        _ if fits(from, to) => {
            let strict = CastOptions {
                safe: false,
                ..Default::default()
            };
            Ok(cast_with_options(array, to, &strict)?)
        }
        _ => Err(Mismatch::Type(from.clone())),
    }
}

/// Whether values of a flat type may be read as another: the same kind of value, maybe of another width.
fn fits(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    match to {
        Boolean => false,
        _ if to.is_integer() => from.is_integer(),
        Float32 | Float64 => from.is_floating() || matches!((from, to), (Int32, Float64)),
        Decimal128(..) => from.is_decimal() || from.is_integer(),
        Utf8 => matches!(
            from,
            LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView
        ),
        Binary => matches!(
            from,
            LargeBinary | BinaryView | FixedSizeBinary(_) | Utf8 | LargeUtf8 | Utf8View
        ),
        Time32(_) => matches!(from, Time32(_) | Time64(_)),
        Duration(_) => matches!(from, Duration(_) | Int64),
        Interval(_) => matches!(from, Interval(_) | Int32),
        Date32 => matches!(from, Date64),
        _ => matches!(from, Null),
    }
}

fn timestamp(
    array: &ArrayRef,
    unit: TimeUnit,
    to_unit: TimeUnit,
    to: &DataType,
) -> std::result::Result<ArrayRef, Mismatch> {
    let values = match unit {
        TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
        TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
        TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
    };
    let (have, want) = (per_second(unit), per_second(to_unit));
    // Coarser units cut downwards, also before 1970; finer ones must not wrap.
    let converted: Vec<i64> = if have >= want {
        let factor = have / want;
        values
            .iter()
            .map(|value| value.div_euclid(factor))
            .collect()
    } else {
        let factor = want / have;
        let multiply = |(row, value): (usize, &i64)| match value.checked_mul(factor) {
            Some(value) => Ok(value),
            None if array.is_null(row) => Ok(0),
            None => Err(arrow::error::ArrowError::ComputeError(format!(
                "{value} {unit:?}s since 1970 lie outside of the years 1677 to 2262"
            ))),
        };
        values
            .iter()
            .enumerate()
            .map(multiply)
            .collect::<std::result::Result<_, _>>()?
    };
    let nulls = array.nulls().cloned();
    Ok(match to_unit {
        TimeUnit::Second => Arc::new(
            PrimitiveArray::<TimestampSecondType>::new(converted.into(), nulls)
                .with_data_type(to.clone()),
        ),
        TimeUnit::Millisecond => Arc::new(
            PrimitiveArray::<TimestampMillisecondType>::new(converted.into(), nulls)
                .with_data_type(to.clone()),
        ),
        TimeUnit::Microsecond => Arc::new(
            PrimitiveArray::<TimestampMicrosecondType>::new(converted.into(), nulls)
                .with_data_type(to.clone()),
        ),
        TimeUnit::Nanosecond => Arc::new(
            PrimitiveArray::<TimestampNanosecondType>::new(converted.into(), nulls)
                .with_data_type(to.clone()),
        ),
    })
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn list(array: &ArrayRef, element: &Arc<ArrowField>) -> std::result::Result<ArrayRef, Mismatch> {
    let inner = match array.data_type() {
        DataType::List(inner) | DataType::LargeList(inner) | DataType::FixedSizeList(inner, _) => {
            inner
        }
        other => return Err(Mismatch::Type(other.clone())),
    };
    let plain = cast(array, &DataType::List(inner.clone()))?;
    let list: &ListArray = plain.as_list();
    let values = adapt_to(list.values(), element.data_type())?;
    Ok(Arc::new(ListArray::try_new(
        element.clone(),
        list.offsets().clone(),
        values,
        list.nulls().cloned(),
    )?))
}

/// Fields go by name; one that the file lacks is NULL.
fn row(array: &StructArray, fields: &Fields) -> std::result::Result<ArrayRef, Mismatch> {
    let columns = fields
        .iter()
        .map(|field| match array.column_by_name(field.name()) {
            Some(column) => adapt_to(column, field.data_type()),
            None => Ok(arrow::array::new_null_array(field.data_type(), array.len())),
        })
        .collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(Arc::new(StructArray::try_new(
        fields.clone(),
        columns,
        array.nulls().cloned(),
    )?))
}

fn map(array: &MapArray, entries: &Arc<ArrowField>) -> std::result::Result<ArrayRef, Mismatch> {
    let DataType::Struct(fields) = entries.data_type() else {
        unreachable!("the entries of an Arrow map are a struct");
    };
    let columns = vec![
        adapt_to(array.keys(), fields[0].data_type())?,
        adapt_to(array.values(), fields[1].data_type())?,
    ];
    let rows = StructArray::try_new(fields.clone(), columns, None)?;
    Ok(Arc::new(MapArray::try_new(
        entries.clone(),
        array.offsets().clone(),
        rows,
        array.nulls().cloned(),
        false,
    )?))
}
