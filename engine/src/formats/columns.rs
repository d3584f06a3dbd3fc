//! Columns under construction: typed buffers that a decoder appends to and whose last rows it can take back.
//!
//! Arrow's own builders cannot forget a row; a decoder must, when a record turns out to be odd halfway through.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, BooleanBufferBuilder, Date32Array, Decimal128Array,
    DurationMillisecondArray, Float32Array, Float64Array, Int8Array, Int16Array, Int32Array,
    Int64Array, IntervalYearMonthArray, ListArray, MapArray, NullArray, NullBufferBuilder,
    PrimitiveArray, StringArray, StructArray, Time32MillisecondArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowTimestampType, DataType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType,
};

use crate::error::{Error, Result};
use crate::types::{LogicalType, TypeRoot};

/// One column, or one level of a nested one.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) logical_type: LogicalType,
    pub(super) data: ColumnData,
    validity: NullBufferBuilder,
}

/// The values of a column, by SQL type.
#[derive(Debug)]
pub(super) enum ColumnData {
    Null,
    Boolean(BooleanBufferBuilder),
    TinyInt(Vec<i8>),
    SmallInt(Vec<i16>),
    Int(Vec<i32>),
    BigInt(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Decimal {
        values: Vec<i128>,
        precision: u8,
        scale: u8,
    },
    Text(VariableBytes),
    Binary(VariableBytes),
    Date(Vec<i32>),
    Time {
        values: Vec<i32>,
        precision: u8,
    },
    Timestamp {
        values: Vec<i64>,
        unit: TimeUnit,
        zoned: bool,
    },
    Millis(Vec<i64>),
    Months(Vec<i32>),
    List {
        offsets: Vec<i32>,
        element: Box<Column>,
    },
    Map {
        offsets: Vec<i32>,
        key: Box<Column>,
        value: Box<Column>,
    },
    Row {
        names: Vec<String>,
        columns: Vec<Column>,
    },
}

/// Texts or byte strings one after the other, with the end of each.
#[derive(Debug)]
pub(super) struct VariableBytes {
    offsets: Vec<i32>,
    pub(super) bytes: Vec<u8>,
}

impl VariableBytes {
    fn new() -> Self {
        VariableBytes {
            offsets: vec![0],
            bytes: Vec::new(),
        }
    }

    /// Ends the value which was appended to `bytes`.
    pub(super) fn close(&mut self) {
        // A batch of more than 2 GiB is refused in `take`, before anyone sees a wrapped offset.
        self.offsets.push(self.bytes.len() as i32);
    }

    pub(super) fn push(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.close();
    }

    /// The values of rows `from ..`.
    pub(super) fn since(&self, from: usize) -> impl Iterator<Item = &[u8]> {
        self.offsets[from..]
            .windows(2)
            .map(|ends| &self.bytes[ends[0] as usize..ends[1] as usize])
    }

    fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.bytes.truncate(self.offsets[rows] as usize);
    }

    fn take(&mut self) -> Result<(OffsetBuffer<i32>, Vec<u8>)> {
        if self.bytes.len() > i32::MAX as usize {
            return Err(Error::resource(
                "the texts of one batch take more than 2 GiB",
            ));
        }
        let bytes = Vec::with_capacity(self.bytes.len());
        Ok((
            take_offsets(&mut self.offsets),
            std::mem::replace(&mut self.bytes, bytes),
        ))
    }
}

impl Column {
    pub(super) fn new(logical_type: &LogicalType) -> Self {
        Column {
            logical_type: logical_type.clone(),
            data: ColumnData::new(&logical_type.root),
            validity: NullBufferBuilder::new(1024),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.validity.len()
    }

    /// Says that a value was appended to `data`.
    pub(super) fn valid(&mut self) {
        self.validity.append_non_null();
    }

    pub(super) fn push_null(&mut self) {
        self.validity.append_null();
        self.data.push_filler();
    }

    /// Forgets all rows from `rows` on.
    pub(super) fn truncate(&mut self, rows: usize) {
        if self.validity.len() > rows {
            self.validity.truncate(rows);
        }
        self.data.truncate(rows);
    }

    /// The rows so far as an array; the column goes on empty.
    pub(super) fn take(&mut self) -> Result<ArrayRef> {
        let nulls = self.validity.finish();
        self.data.take(&self.logical_type.root, nulls)
    }
}

impl ColumnData {
    fn new(root: &TypeRoot) -> Self {
        match root {
            TypeRoot::Null => ColumnData::Null,
            TypeRoot::Boolean => ColumnData::Boolean(BooleanBufferBuilder::new(1024)),
            TypeRoot::TinyInt => ColumnData::TinyInt(Vec::new()),
            TypeRoot::SmallInt => ColumnData::SmallInt(Vec::new()),
            TypeRoot::Int => ColumnData::Int(Vec::new()),
            TypeRoot::BigInt => ColumnData::BigInt(Vec::new()),
            TypeRoot::Float => ColumnData::Float(Vec::new()),
            TypeRoot::Double => ColumnData::Double(Vec::new()),
            TypeRoot::Decimal { precision, scale } => ColumnData::Decimal {
                values: Vec::new(),
                precision: *precision,
                scale: *scale,
            },
            TypeRoot::Char(_) | TypeRoot::Varchar(_) => ColumnData::Text(VariableBytes::new()),
            TypeRoot::Binary(_) | TypeRoot::Varbinary(_) => {
                ColumnData::Binary(VariableBytes::new())
            }
            TypeRoot::Date => ColumnData::Date(Vec::new()),
            TypeRoot::Time(precision) => ColumnData::Time {
                values: Vec::new(),
                precision: *precision,
            },
            TypeRoot::Timestamp(precision) | TypeRoot::TimestampLtz(precision) => {
                ColumnData::Timestamp {
                    values: Vec::new(),
                    unit: TypeRoot::time_unit(*precision),
                    zoned: matches!(root, TypeRoot::TimestampLtz(_)),
                }
            }
            TypeRoot::IntervalDayTime => ColumnData::Millis(Vec::new()),
            TypeRoot::IntervalYearMonth => ColumnData::Months(Vec::new()),
            TypeRoot::Array(element) => ColumnData::List {
                offsets: vec![0],
                element: Box::new(Column::new(element)),
            },
            TypeRoot::Map(key, value) => ColumnData::Map {
                offsets: vec![0],
                key: Box::new(Column::new(key)),
                value: Box::new(Column::new(value)),
            },
            TypeRoot::Multiset(element) => ColumnData::Map {
                offsets: vec![0],
                key: Box::new(Column::new(element)),
                value: Box::new(Column::new(&LogicalType::not_null(TypeRoot::Int))),
            },
            TypeRoot::Row(fields) => ColumnData::Row {
                names: fields.iter().map(|field| field.name.clone()).collect(),
                columns: fields
                    .iter()
                    .map(|field| Column::new(&field.logical_type))
                    .collect(),
            },
        }
    }

    /// Appends what stands below a NULL.
    fn push_filler(&mut self) {
        match self {
            ColumnData::Null => {}
            ColumnData::Boolean(values) => values.append(false),
            ColumnData::TinyInt(values) => values.push(0),
            ColumnData::SmallInt(values) => values.push(0),
            ColumnData::Int(values)
            | ColumnData::Date(values)
            | ColumnData::Time { values, .. }
            | ColumnData::Months(values) => values.push(0),
            ColumnData::BigInt(values)
            | ColumnData::Timestamp { values, .. }
            | ColumnData::Millis(values) => values.push(0),
            ColumnData::Float(values) => values.push(0.0),
            ColumnData::Double(values) => values.push(0.0),
            ColumnData::Decimal { values, .. } => values.push(0),
            ColumnData::Text(values) | ColumnData::Binary(values) => values.close(),
            ColumnData::List { offsets, .. } | ColumnData::Map { offsets, .. } => {
                offsets.push(*offsets.last().expect("offsets begin with 0"));
            }
            ColumnData::Row { columns, .. } => columns.iter_mut().for_each(Column::push_null),
        }
    }

    fn truncate(&mut self, rows: usize) {
        match self {
            ColumnData::Null => {}
            ColumnData::Boolean(values) => values.truncate(rows),
            ColumnData::TinyInt(values) => values.truncate(rows),
            ColumnData::SmallInt(values) => values.truncate(rows),
            ColumnData::Int(values)
            | ColumnData::Date(values)
            | ColumnData::Time { values, .. }
            | ColumnData::Months(values) => values.truncate(rows),
            ColumnData::BigInt(values)
            | ColumnData::Timestamp { values, .. }
            | ColumnData::Millis(values) => values.truncate(rows),
            ColumnData::Float(values) => values.truncate(rows),
            ColumnData::Double(values) => values.truncate(rows),
            ColumnData::Decimal { values, .. } => values.truncate(rows),
            ColumnData::Text(values) | ColumnData::Binary(values) => values.truncate(rows),
            ColumnData::List { offsets, element } => {
                offsets.truncate(rows + 1);
                element.truncate(offsets[rows] as usize);
            }
            ColumnData::Map {
                offsets,
                key,
                value,
            } => {
                offsets.truncate(rows + 1);
                key.truncate(offsets[rows] as usize);
                value.truncate(offsets[rows] as usize);
            }
            ColumnData::Row { columns, .. } => {
                columns.iter_mut().for_each(|column| column.truncate(rows));
            }
        }
    }

    fn take(&mut self, root: &TypeRoot, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        Ok(match self {
            // A column of type NULL has only NULLs, counted by its validity.
            ColumnData::Null => Arc::new(NullArray::new(nulls.map_or(0, |nulls| nulls.len()))),
            ColumnData::Boolean(values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            ColumnData::TinyInt(values) => Arc::new(Int8Array::new(take_values(values), nulls)),
            ColumnData::SmallInt(values) => Arc::new(Int16Array::new(take_values(values), nulls)),
            ColumnData::Int(values) => Arc::new(Int32Array::new(take_values(values), nulls)),
            ColumnData::BigInt(values) => Arc::new(Int64Array::new(take_values(values), nulls)),
            ColumnData::Float(values) => Arc::new(Float32Array::new(take_values(values), nulls)),
            ColumnData::Double(values) => Arc::new(Float64Array::new(take_values(values), nulls)),
            ColumnData::Decimal {
                values,
                precision,
                scale,
            } => Arc::new(
                Decimal128Array::new(take_values(values), nulls)
                    .with_precision_and_scale(*precision, *scale as i8)?,
            ),
            ColumnData::Text(values) => {
                let (offsets, bytes) = values.take()?;
                Arc::new(StringArray::try_new(offsets, bytes.into(), nulls)?)
            }
            ColumnData::Binary(values) => {
                let (offsets, bytes) = values.take()?;
                Arc::new(BinaryArray::try_new(offsets, bytes.into(), nulls)?)
            }
            ColumnData::Date(values) => Arc::new(Date32Array::new(take_values(values), nulls)),
            ColumnData::Time { values, .. } => {
                Arc::new(Time32MillisecondArray::new(take_values(values), nulls))
            }
            ColumnData::Timestamp { values, unit, .. } => {
                timestamps(take_values(values), *unit, root, nulls)
            }
            ColumnData::Millis(values) => {
                Arc::new(DurationMillisecondArray::new(take_values(values), nulls))
            }
            ColumnData::Months(values) => {
                Arc::new(IntervalYearMonthArray::new(take_values(values), nulls))
            }
            ColumnData::List { offsets, element } => {
                let DataType::List(field) = root.to_arrow() else {
                    unreachable!("an ARRAY is an Arrow list")
                };
                let elements = element.take()?;
                Arc::new(
                    ListArray::try_new(field, take_offsets(offsets), elements, nulls)
                        .map_err(null_inside)?,
                )
            }
            ColumnData::Map {
                offsets,
                key,
                value,
            } => map(
                root,
                take_offsets(offsets),
                vec![key.take()?, value.take()?],
                nulls,
            )?,
            ColumnData::Row { columns, .. } => {
                let DataType::Struct(fields) = root.to_arrow() else {
                    unreachable!("a ROW is an Arrow struct")
                };
                let columns = columns
                    .iter_mut()
                    .map(Column::take)
                    .collect::<Result<Vec<_>>>()?;
                Arc::new(StructArray::try_new(fields, columns, nulls).map_err(null_inside)?)
            }
        })
    }
}

fn timestamps(
    values: ScalarBuffer<i64>,
    unit: TimeUnit,
    root: &TypeRoot,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    fn of<T: ArrowTimestampType>(
        values: ScalarBuffer<i64>,
        root: &TypeRoot,
        nulls: Option<NullBuffer>,
    ) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::new(values, nulls).with_data_type(root.to_arrow()))
    }
    match unit {
        TimeUnit::Second | TimeUnit::Millisecond => {
            of::<TimestampMillisecondType>(values, root, nulls)
        }
        TimeUnit::Microsecond => of::<TimestampMicrosecondType>(values, root, nulls),
        TimeUnit::Nanosecond => of::<TimestampNanosecondType>(values, root, nulls),
    }
}

fn map(
    root: &TypeRoot,
    offsets: OffsetBuffer<i32>,
    columns: Vec<ArrayRef>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let DataType::Map(entries, sorted) = root.to_arrow() else {
        unreachable!("a MAP or MULTISET is an Arrow map")
    };
    let DataType::Struct(fields) = entries.data_type().clone() else {
        unreachable!("the entries of an Arrow map are a struct")
    };
    let rows = StructArray::try_new(fields, columns, None).map_err(null_inside)?;
    Ok(Arc::new(
        MapArray::try_new(entries, offsets, rows, nulls, sorted).map_err(null_inside)?,
    ))
}

/// The only way in which arrays built here can fail to fit together.
fn null_inside(error: arrow::error::ArrowError) -> Error {
    Error::data(format!(
        "a NULL stands where its type says NOT NULL: {error}"
    ))
}

fn take_values<T: arrow::datatypes::ArrowNativeType>(values: &mut Vec<T>) -> ScalarBuffer<T> {
    let next = Vec::with_capacity(values.len());
    std::mem::replace(values, next).into()
}

fn take_offsets(offsets: &mut Vec<i32>) -> OffsetBuffer<i32> {
    let mut next = Vec::with_capacity(offsets.len());
    next.push(0);
    OffsetBuffer::new(std::mem::replace(offsets, next).into())
}
