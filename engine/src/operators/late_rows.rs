//! Late rows as rows of the late-rows table: which operator, which window, at which watermark, and the row as JSON.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, StringBuilder, TimestampMillisecondArray,
};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::LateRows;
use crate::error::Result;
use crate::stream::ChangelogBatch;
use crate::types::{Field, LogicalType, Schema, TypeRoot};

/// The columns of the table that `volley.late-rows.sink` names: operator STRING, window_end TIMESTAMP(3), watermark
/// TIMESTAMP(3), row STRING.
pub fn late_rows_schema() -> Schema {
    let time = LogicalType::nullable(TypeRoot::Timestamp(3));
    Schema::new(vec![
        Field::new("operator", LogicalType::STRING),
        Field::new("window_end", time.clone()),
        Field::new("watermark", time),
        Field::new("row", LogicalType::STRING),
    ])
}

/// The late rows of the named operator with the columns of [`late_rows_schema`]; all of them inserts.
pub fn late_rows_batch(operator: &str, late: &LateRows) -> Result<ChangelogBatch> {
    let rows = late.rows.num_rows();
    let mut names = StringBuilder::with_capacity(rows, rows * operator.len());
    (0..rows).for_each(|_| names.append_value(operator));
    let time = |column: &TimestampMillisecondArray| -> ArrayRef {
        Arc::new(column.clone().with_timezone_opt::<Arc<str>>(None))
    };
    let columns = vec![
        Arc::new(names.finish()) as ArrayRef,
        time(&late.window_end),
        time(&late.watermark),
        json_rows(&late.rows)?,
    ];
    let rows = RecordBatch::try_new(late_rows_schema().to_arrow(), columns)?;
    Ok(ChangelogBatch::insert_only(rows))
}

/// Each row as a JSON object.
fn json_rows(rows: &RecordBatch) -> Result<ArrayRef> {
    let names: Vec<String> = rows
        .schema_ref()
        .fields()
        .iter()
        .map(|field| quoted(field.name()))
        .collect();
    let columns = rows
        .columns()
        .iter()
        .map(JsonColumn::new)
        .collect::<Result<Vec<_>>>()?;
    let mut builder = StringBuilder::with_capacity(rows.num_rows(), 0);
    for row in 0..rows.num_rows() {
        write_object(&mut builder, &names, &columns, row);
        builder.append_value("");
    }
    Ok(Arc::new(builder.finish()))
}

fn write_object(out: &mut impl Write, names: &[String], columns: &[JsonColumn], row: usize) {
    let mut before = '{';
    for (name, column) in names.iter().zip(columns) {
        write!(out, "{before}{name}:").expect(IN_MEMORY);
        column.write(out, row);
        before = ',';
    }
    write!(out, "{}", if before == '{' { "{}" } else { "}" }).expect(IN_MEMORY);
}

const IN_MEMORY: &str = "writing to memory does not fail";

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A column whose values can be written as JSON.
enum JsonColumn<'a> {
    /// Numbers and booleans, as they are.
    Bare(ArrayFormatter<'a>, &'a ArrayRef),
    /// FLOAT and DOUBLE: infinities and NaN are text.
    Float(&'a ArrayRef),
    /// Everything that is written as text: strings, times, binary.
    Text(ArrayFormatter<'a>, &'a ArrayRef),
    Array(Box<JsonColumn<'a>>, &'a ArrayRef),
    Map(ArrayFormatter<'a>, Box<JsonColumn<'a>>, &'a ArrayRef),
    Row(Vec<String>, Vec<JsonColumn<'a>>, &'a ArrayRef),
}

const FORMAT: FormatOptions<'static> = FormatOptions::new()
    .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.fZ"));

impl<'a> JsonColumn<'a> {
    fn new(column: &'a ArrayRef) -> Result<Self> {
        let formatter = |column: &'a ArrayRef| ArrayFormatter::try_new(column.as_ref(), &FORMAT);
        Ok(match column.data_type() {
            DataType::Boolean
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Decimal128(_, _) => JsonColumn::Bare(formatter(column)?, column),
            DataType::Float32 | DataType::Float64 => JsonColumn::Float(column),
            DataType::List(_) => {
                let elements = JsonColumn::new(column.as_list::<i32>().values())?;
                JsonColumn::Array(Box::new(elements), column)
            }
            DataType::Map(_, _) => {
                let map = column.as_map();
                let values = JsonColumn::new(map.values())?;
                JsonColumn::Map(formatter(map.keys())?, Box::new(values), column)
            }
            DataType::Struct(fields) => {
                let names = fields.iter().map(|field| quoted(field.name())).collect();
                let columns = column.as_struct().columns().iter().map(JsonColumn::new);
                JsonColumn::Row(names, columns.collect::<Result<_>>()?, column)
            }
            _ => JsonColumn::Text(formatter(column)?, column),
        })
    }

    fn array(&self) -> &ArrayRef {
        match self {
            JsonColumn::Bare(_, array)
            | JsonColumn::Float(array)
            | JsonColumn::Text(_, array)
            | JsonColumn::Array(_, array)
            | JsonColumn::Map(_, _, array)
            | JsonColumn::Row(_, _, array) => array,
        }
    }

    fn write(&self, out: &mut impl Write, row: usize) {
        if self.array().is_null(row) {
            return write!(out, "null").expect(IN_MEMORY);
        }
        match self {
            JsonColumn::Bare(values, _) => write!(out, "{}", values.value(row)).expect(IN_MEMORY),
            JsonColumn::Float(array) => write_float(out, array, row),
            JsonColumn::Text(values, _) => {
                write!(out, "{}", quoted(&values.value(row).to_string())).expect(IN_MEMORY)
            }
            JsonColumn::Array(elements, array) => write_array(out, elements, array, row),
            JsonColumn::Map(keys, values, array) => write_map(out, keys, values, array, row),
            JsonColumn::Row(names, columns, _) => write_object(out, names, columns, row),
        }
    }
}

fn write_float(out: &mut impl Write, array: &ArrayRef, row: usize) {
    let (text, finite) = match array.data_type() {
        DataType::Float32 => {
            let value = array.as_primitive::<Float32Type>().value(row);
            (format!("{value:?}"), value.is_finite())
        }
        _ => {
            let value = array.as_primitive::<Float64Type>().value(row);
            (format!("{value:?}"), value.is_finite())
        }
    };
    if finite {
        write!(out, "{text}").expect(IN_MEMORY);
    } else {
        write!(out, "\"{text}\"").expect(IN_MEMORY);
    }
}

fn write_array(out: &mut impl Write, elements: &JsonColumn, array: &ArrayRef, row: usize) {
    let offsets = array.as_list::<i32>().value_offsets();
    write!(out, "[").expect(IN_MEMORY);
    for index in offsets[row]..offsets[row + 1] {
        if index > offsets[row] {
            write!(out, ",").expect(IN_MEMORY);
        }
        elements.write(out, index as usize);
    }
    write!(out, "]").expect(IN_MEMORY);
}

fn write_map(
    out: &mut impl Write,
    keys: &ArrayFormatter,
    values: &JsonColumn,
    array: &ArrayRef,
    row: usize,
) {
    let offsets = array.as_map().value_offsets();
    write!(out, "{{").expect(IN_MEMORY);
    for index in offsets[row]..offsets[row + 1] {
        if index > offsets[row] {
            write!(out, ",").expect(IN_MEMORY);
        }
        let key = quoted(&keys.value(index as usize).to_string());
        write!(out, "{key}:").expect(IN_MEMORY);
        values.write(out, index as usize);
    }
    write!(out, "}}").expect(IN_MEMORY);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::test_bench::batch;

    #[test]
    fn a_late_row_says_where_and_when_it_was_late_and_what_it_was() {
        let schema = Schema::new(vec![
            Field::new("id", LogicalType::INT),
            Field::new("na\"me", LogicalType::STRING),
            Field::new("price", LogicalType::DOUBLE),
            Field::new("ts", LogicalType::nullable(TypeRoot::Timestamp(3))),
        ]);
        let late = LateRows {
            rows: batch(&schema, "+I 1, a\"b, 2, 1500\n+I null, c, null, null").rows,
            window_end: TimestampMillisecondArray::from(vec![Some(2_000), None]),
            watermark: TimestampMillisecondArray::from(vec![5_000, 6_000]),
        };
        let rows = late_rows_batch("WindowAggregate[3]", &late).unwrap().rows;
        let json = rows.column(3).as_string::<i32>();
        assert_eq!(
            json.value(0),
            r#"{"id":1,"na\"me":"a\"b","price":2.0,"ts":"1970-01-01 00:00:01.500"}"#
        );
        assert_eq!(
            json.value(1),
            r#"{"id":null,"na\"me":"c","price":null,"ts":null}"#
        );
        assert_eq!(
            rows.column(0).as_string::<i32>().value(1),
            "WindowAggregate[3]"
        );
        assert!(rows.column(1).is_null(1));
    }
}
