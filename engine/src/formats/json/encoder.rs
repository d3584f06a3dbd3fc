//! Encodes rows as JSON lines, as Flink's `json` format writes them, straight from the arrays.
//!
//! Every column is looked at once a batch (its array type, its key with quotes and colon); a row is then a walk over writers.

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BooleanArray, Decimal128Array,
    ListArray, MapArray, PrimitiveArray, RecordBatch, StringArray, StructArray,
};
use arrow::datatypes::{
    Date32Type, DurationMillisecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalYearMonthType, Time32MillisecondType, TimeUnit,
};
use base64::Engine;

use super::escape::write_string;
use super::{JsonOptions, MapNullKey};
use crate::error::{Error, Result};
use crate::formats::format::{only_inserts, timestamp_values};
use crate::formats::number_text::{write_decimal, write_floating, write_integer};
use crate::formats::time_text::{write_date, write_time, write_timestamp};
use crate::formats::{Encoder, FormatContext};
use crate::types::{LogicalType, RowKinds, Schema, TypeRoot};

/// The encoder of `json`.
pub struct JsonEncoder {
    options: JsonOptions,
    schema: Schema,
    table: String,
}

impl JsonEncoder {
    /// An encoder of the projected columns. Fails on maps without text keys.
    pub fn new(context: &FormatContext) -> Result<Self> {
        Ok(JsonEncoder {
            options: JsonOptions::new(context)?,
            schema: context.schema(),
            table: context.table.clone(),
        })
    }
}

impl Encoder for JsonEncoder {
    fn encode(&mut self, rows: &RecordBatch, kinds: &RowKinds, out: &mut Vec<u8>) -> Result<()> {
        only_inserts(kinds, "json", &self.table)?;
        let fields = self
            .schema
            .fields
            .iter()
            .zip(rows.columns())
            .map(|(field, array)| FieldWriter::new(&field.name, &field.logical_type, array))
            .collect();
        let object = ObjectWriter { fields };
        for row in 0..rows.num_rows() {
            object
                .write(row, &self.options, out)
                .map_err(|error| error.prefixed(&format!("table \"{}\": ", self.table)))?;
            out.push(b'\n');
        }
        Ok(())
    }
}

/// One column of a batch, ready to write any of its rows.
enum ValueWriter<'a> {
    Null,
    Boolean(&'a BooleanArray),
    TinyInt(&'a PrimitiveArray<Int8Type>),
    SmallInt(&'a PrimitiveArray<Int16Type>),
    Int(&'a PrimitiveArray<Int32Type>),
    BigInt(&'a PrimitiveArray<Int64Type>),
    Float(&'a PrimitiveArray<Float32Type>),
    Double(&'a PrimitiveArray<Float64Type>),
    Decimal(&'a Decimal128Array, u8),
    Text(&'a StringArray),
    Binary(&'a BinaryArray),
    Date(&'a PrimitiveArray<Date32Type>),
    Time(&'a PrimitiveArray<Time32MillisecondType>),
    Timestamp(&'a [i64], TimeUnit, bool),
    Millis(&'a PrimitiveArray<DurationMillisecondType>),
    Months(&'a PrimitiveArray<IntervalYearMonthType>),
    List(&'a ListArray, Box<Writer<'a>>),
    Map(&'a MapArray, &'a StringArray, Box<Writer<'a>>),
    Row(ObjectWriter<'a>),
}

struct Writer<'a> {
    array: &'a ArrayRef,
    value: ValueWriter<'a>,
}

struct FieldWriter<'a> {
    /// The name in quotes, with the colon behind.
    key: Vec<u8>,
    writer: Writer<'a>,
}

struct ObjectWriter<'a> {
    fields: Vec<FieldWriter<'a>>,
}

impl<'a> FieldWriter<'a> {
    fn new(name: &str, logical_type: &LogicalType, array: &'a ArrayRef) -> Self {
        let mut key = Vec::new();
        write_string(name.as_bytes(), &mut key);
        key.push(b':');
        FieldWriter {
            key,
            writer: Writer::new(logical_type, array),
        }
    }
}

impl ObjectWriter<'_> {
    fn write(&self, row: usize, options: &JsonOptions, out: &mut Vec<u8>) -> Result<()> {
        out.push(b'{');
        let mut first = true;
        for field in &self.fields {
            if options.ignore_null_fields && field.writer.array.is_null(row) {
                continue;
            }
            if !first {
                out.push(b',');
            }
            first = false;
            out.extend_from_slice(&field.key);
            field.writer.write(row, options, out)?;
        }
        out.push(b'}');
        Ok(())
    }
}

fn primitive<T: ArrowPrimitiveType>(array: &ArrayRef) -> &PrimitiveArray<T> {
    array.as_primitive::<T>()
}

impl<'a> Writer<'a> {
    fn new(logical_type: &LogicalType, array: &'a ArrayRef) -> Self {
        Writer {
            array,
            value: ValueWriter::new(&logical_type.root, array),
        }
    }

    fn write(&self, row: usize, options: &JsonOptions, out: &mut Vec<u8>) -> Result<()> {
        if self.array.is_null(row) {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        self.value.write(row, options, out)
    }
}

impl<'a> ValueWriter<'a> {
    fn new(root: &TypeRoot, array: &'a ArrayRef) -> Self {
        match root {
            TypeRoot::Null => ValueWriter::Null,
            TypeRoot::Boolean => ValueWriter::Boolean(array.as_boolean()),
            TypeRoot::TinyInt => ValueWriter::TinyInt(primitive(array)),
            TypeRoot::SmallInt => ValueWriter::SmallInt(primitive(array)),
            TypeRoot::Int => ValueWriter::Int(primitive(array)),
            TypeRoot::BigInt => ValueWriter::BigInt(primitive(array)),
            TypeRoot::Float => ValueWriter::Float(primitive(array)),
            TypeRoot::Double => ValueWriter::Double(primitive(array)),
            TypeRoot::Decimal { scale, .. } => ValueWriter::Decimal(primitive(array), *scale),
            TypeRoot::Char(_) | TypeRoot::Varchar(_) => ValueWriter::Text(array.as_string()),
            TypeRoot::Binary(_) | TypeRoot::Varbinary(_) => ValueWriter::Binary(array.as_binary()),
            TypeRoot::Date => ValueWriter::Date(primitive(array)),
            TypeRoot::Time(_) => ValueWriter::Time(primitive(array)),
            TypeRoot::Timestamp(p) | TypeRoot::TimestampLtz(p) => {
                let unit = TypeRoot::time_unit(*p);
                let zoned = matches!(root, TypeRoot::TimestampLtz(_));
                ValueWriter::Timestamp(timestamp_values(array, unit), unit, zoned)
            }
            TypeRoot::IntervalDayTime => ValueWriter::Millis(primitive(array)),
            TypeRoot::IntervalYearMonth => ValueWriter::Months(primitive(array)),
            TypeRoot::Array(element) => {
                let list = array.as_list::<i32>();
                ValueWriter::List(list, Box::new(Writer::new(element, list.values())))
            }
            TypeRoot::Map(_, value) => Self::map(array.as_map(), value),
            TypeRoot::Multiset(_) => {
                Self::map(array.as_map(), &LogicalType::not_null(TypeRoot::Int))
            }
            TypeRoot::Row(fields) => {
                let row: &StructArray = array.as_struct();
                let fields = fields
                    .iter()
                    .zip(row.columns())
                    .map(|(field, array)| FieldWriter::new(&field.name, &field.logical_type, array))
                    .collect();
                ValueWriter::Row(ObjectWriter { fields })
            }
        }
    }

    fn map(map: &'a MapArray, value: &LogicalType) -> Self {
        ValueWriter::Map(
            map,
            map.keys().as_string(),
            Box::new(Writer::new(value, map.values())),
        )
    }

    fn write(&self, row: usize, options: &JsonOptions, out: &mut Vec<u8>) -> Result<()> {
        match self {
            ValueWriter::Null => out.extend_from_slice(b"null"),
            ValueWriter::Boolean(values) => {
                out.extend_from_slice(if values.value(row) { b"true" } else { b"false" });
            }
            ValueWriter::TinyInt(values) => write_integer(values.value(row).into(), out),
            ValueWriter::SmallInt(values) => write_integer(values.value(row).into(), out),
            ValueWriter::Int(values) => write_integer(values.value(row).into(), out),
            ValueWriter::BigInt(values) => write_integer(values.value(row), out),
            ValueWriter::Float(values) => write_float(values.value(row), f32::is_finite, out),
            ValueWriter::Double(values) => write_float(values.value(row), f64::is_finite, out),
            ValueWriter::Decimal(values, scale) => {
                write_decimal(values.value(row), *scale, options.plain_decimals, out);
            }
            ValueWriter::Text(values) => write_string(values.value(row).as_bytes(), out),
            ValueWriter::Binary(values) => {
                let text = base64::engine::general_purpose::STANDARD.encode(values.value(row));
                quoted(out, |out| out.extend_from_slice(text.as_bytes()));
            }
            ValueWriter::Date(values) => {
                quoted(out, |out| write_date(values.value(row).into(), out));
            }
            ValueWriter::Time(values) => {
                quoted(out, |out| {
                    write_time(values.value(row) as i64 * 1_000_000, out)
                });
            }
            ValueWriter::Timestamp(values, unit, zoned) => quoted(out, |out| {
                write_timestamp(values[row], *unit, options.text.timestamps, *zoned, out);
            }),
            ValueWriter::Millis(values) => write_integer(values.value(row), out),
            ValueWriter::Months(values) => write_integer(values.value(row).into(), out),
            ValueWriter::List(list, elements) => {
                return write_list(list, elements, row, options, out);
            }
            ValueWriter::Map(map, keys, values) => {
                return write_map(map, keys, values, row, options, out);
            }
            ValueWriter::Row(object) => return object.write(row, options, out),
        }
        Ok(())
    }
}

fn quoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    write(out);
    out.push(b'"');
}

/// JSON has no words for NaN and the infinities: Jackson writes them as texts.
fn write_float<T: Copy + std::fmt::LowerExp + std::fmt::Display>(
    value: T,
    is_finite: fn(T) -> bool,
    out: &mut Vec<u8>,
) {
    if is_finite(value) {
        return write_floating(value, out);
    }
    out.extend_from_slice(match value.to_string().as_str() {
        "NaN" => b"\"NaN\"".as_slice(),
        "inf" => b"\"Infinity\"",
        _ => b"\"-Infinity\"",
    });
}

fn write_list(
    list: &ListArray,
    elements: &Writer,
    row: usize,
    options: &JsonOptions,
    out: &mut Vec<u8>,
) -> Result<()> {
    let offsets = list.value_offsets();
    out.push(b'[');
    for element in offsets[row]..offsets[row + 1] {
        if element > offsets[row] {
            out.push(b',');
        }
        elements.write(element as usize, options, out)?;
    }
    out.push(b']');
    Ok(())
}

fn write_map(
    map: &MapArray,
    keys: &StringArray,
    values: &Writer,
    row: usize,
    options: &JsonOptions,
    out: &mut Vec<u8>,
) -> Result<()> {
    let offsets = map.value_offsets();
    out.push(b'{');
    let mut first = true;
    for entry in offsets[row] as usize..offsets[row + 1] as usize {
        let key = match (&options.map_null_key, keys.is_null(entry)) {
            (_, false) => keys.value(entry),
            (MapNullKey::Literal(literal), true) => literal,
            (MapNullKey::Drop, true) => continue,
            (MapNullKey::Fail, true) => return Err(null_key()),
        };
        if !first {
            out.push(b',');
        }
        first = false;
        write_string(key.as_bytes(), out);
        out.push(b':');
        values.write(entry, options, out)?;
    }
    out.push(b'}');
    Ok(())
}

fn null_key() -> Error {
    Error::data("a map has a NULL key, which JSON cannot hold").hint(
        "'json.map-null-key.mode' = 'DROP' leaves such entries out, 'LITERAL' writes a text for them",
    )
}
