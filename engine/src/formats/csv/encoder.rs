//! Encodes rows as CSV lines with the quoting of Jackson's CSV module.
//!
//! It quotes generously: any text of more than 24 characters, or with a character at or below the delimiter or the quote (such
//! as a blank), so that it need not look closer.

use arrow::array::{Array, ArrayRef, AsArray, ListArray, RecordBatch};
use arrow::datatypes::{
    Date32Type, Decimal128Type, DurationMillisecondType, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, IntervalYearMonthType, Time32MillisecondType,
};
use base64::Engine;

use super::CsvOptions;
use crate::error::Result;
use crate::formats::format::{only_inserts, timestamp_values};
use crate::formats::number_text::{write_decimal, write_floating, write_integer};
use crate::formats::time_text::{TimestampStyle, write_date, write_time, write_timestamp};
use crate::formats::{Encoder, FormatContext};
use crate::types::{LogicalType, RowKinds, Schema, TypeRoot};

/// Texts up to this many characters are looked through before they are quoted.
const LONGEST_CHECKED: usize = 24;

/// The encoder of `csv`.
pub struct CsvEncoder {
    options: CsvOptions,
    table: String,
    schema: Schema,
}

impl CsvEncoder {
    /// An encoder of the projected columns. Fails on options and types that CSV cannot have.
    pub fn new(context: &FormatContext) -> Result<Self> {
        Ok(CsvEncoder {
            options: CsvOptions::new(context)?,
            table: context.table.clone(),
            schema: context.schema(),
        })
    }
}

impl Encoder for CsvEncoder {
    fn encode(&mut self, rows: &RecordBatch, kinds: &RowKinds, out: &mut Vec<u8>) -> Result<()> {
        only_inserts(kinds, "csv", &self.table)?;
        let fields = self.schema.fields.iter().zip(rows.columns());
        let columns: Vec<ColumnWriter> = fields
            .map(|(field, array)| ColumnWriter::new(&field.logical_type, array, &self.options))
            .collect();
        let mut text = Vec::new();
        for row in 0..rows.num_rows() {
            for (index, column) in columns.iter().enumerate() {
                if index > 0 {
                    out.push(self.options.delimiter);
                }
                text.clear();
                if column.write(row, &mut text) {
                    write_quoted(&text, &self.options, out);
                } else {
                    out.extend_from_slice(&text);
                }
            }
            out.push(b'\n');
        }
        Ok(())
    }
}

/// A column with what writes the text of one of its rows; it says whether the text may need quotes.
struct ColumnWriter<'a> {
    array: &'a ArrayRef,
    null: &'a [u8],
    write: WriteText<'a>,
}

impl<'a> ColumnWriter<'a> {
    fn new(logical_type: &LogicalType, array: &'a ArrayRef, options: &'a CsvOptions) -> Self {
        ColumnWriter {
            array,
            null: options.null_literal.as_deref().unwrap_or("").as_bytes(),
            write: writer(&logical_type.root, array, options),
        }
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) -> bool {
        if self.array.is_null(row) {
            out.extend_from_slice(self.null);
            return false;
        }
        (self.write)(row, out)
    }
}

type WriteText<'a> = Box<dyn Fn(usize, &mut Vec<u8>) -> bool + 'a>;

fn raw<'a>(write: impl Fn(usize, &mut Vec<u8>) + 'a) -> WriteText<'a> {
    Box::new(move |row, out| {
        write(row, out);
        false
    })
}

fn text<'a>(write: impl Fn(usize, &mut Vec<u8>) + 'a) -> WriteText<'a> {
    Box::new(move |row, out| {
        write(row, out);
        true
    })
}

/// One line a type: numbers and truth values never need quotes, all others may.
fn writer<'a>(root: &TypeRoot, array: &'a ArrayRef, options: &'a CsvOptions) -> WriteText<'a> {
    macro_rules! values {
        ($arrow:ty) => {
            array.as_primitive::<$arrow>().values()
        };
    }
    match root {
        TypeRoot::Null => raw(|_, _| {}),
        TypeRoot::Boolean => {
            let values = array.as_boolean();
            raw(move |row, out| {
                out.extend_from_slice(if values.value(row) { b"true" } else { b"false" })
            })
        }
        TypeRoot::TinyInt => {
            let values = values!(Int8Type);
            raw(move |row, out| write_integer(values[row].into(), out))
        }
        TypeRoot::SmallInt => {
            let values = values!(Int16Type);
            raw(move |row, out| write_integer(values[row].into(), out))
        }
        TypeRoot::Int => {
            let values = values!(Int32Type);
            raw(move |row, out| write_integer(values[row].into(), out))
        }
        TypeRoot::BigInt => {
            let values = values!(Int64Type);
            raw(move |row, out| write_integer(values[row], out))
        }
        TypeRoot::Float => {
            let values = values!(Float32Type);
            raw(move |row, out| write_float(values[row].is_finite(), values[row], out))
        }
        TypeRoot::Double => {
            let values = values!(Float64Type);
            raw(move |row, out| write_float(values[row].is_finite(), values[row], out))
        }
        TypeRoot::Decimal { scale, .. } => {
            let (values, scale) = (values!(Decimal128Type), *scale);
            raw(move |row, out| write_decimal(values[row], scale, options.plain_decimals, out))
        }
        TypeRoot::Char(_) | TypeRoot::Varchar(_) => {
            let values = array.as_string::<i32>();
            text(move |row, out| out.extend_from_slice(values.value(row).as_bytes()))
        }
        TypeRoot::Binary(_) | TypeRoot::Varbinary(_) => {
            let values = array.as_binary::<i32>();
            text(move |row, out| {
                let encoded = base64::engine::general_purpose::STANDARD.encode(values.value(row));
                out.extend_from_slice(encoded.as_bytes());
            })
        }
        TypeRoot::Date => {
            let values = values!(Date32Type);
            text(move |row, out| write_date(values[row].into(), out))
        }
        TypeRoot::Time(_) => {
            let values = values!(Time32MillisecondType);
            text(move |row, out| write_time(values[row] as i64 * 1_000_000, out))
        }
        TypeRoot::Timestamp(p) | TypeRoot::TimestampLtz(p) => {
            let unit = TypeRoot::time_unit(*p);
            let zoned = matches!(root, TypeRoot::TimestampLtz(_));
            let values = timestamp_values(array, unit);
            text(move |row, out| {
                write_timestamp(values[row], unit, TimestampStyle::Sql, zoned, out)
            })
        }
        TypeRoot::IntervalDayTime => {
            let values = values!(DurationMillisecondType);
            raw(move |row, out| write_integer(values[row], out))
        }
        TypeRoot::IntervalYearMonth => {
            let values = values!(IntervalYearMonthType);
            raw(move |row, out| write_integer(values[row].into(), out))
        }
        TypeRoot::Array(element) => {
            let list: &ListArray = array.as_list();
            let elements = ColumnWriter::new(element, list.values(), options);
            text(move |row, out| {
                let offsets = list.value_offsets();
                let (first, end) = (offsets[row] as usize, offsets[row + 1] as usize);
                for element in first..end {
                    separate(element > first, options, out);
                    elements.write(element, out);
                }
            })
        }
        TypeRoot::Row(fields) => {
            let columns = array.as_struct().columns();
            let writers: Vec<_> = fields
                .iter()
                .zip(columns)
                .map(|(field, column)| ColumnWriter::new(&field.logical_type, column, options))
                .collect();
            text(move |row, out| {
                for (index, writer) in writers.iter().enumerate() {
                    separate(index > 0, options, out);
                    writer.write(row, out);
                }
            })
        }
        TypeRoot::Map(..) | TypeRoot::Multiset(_) => unreachable!("CSV refuses maps at the start"),
    }
}

fn separate(is_behind: bool, options: &CsvOptions, out: &mut Vec<u8>) {
    if is_behind {
        out.extend_from_slice(options.element_delimiter.as_bytes());
    }
}

fn write_float(
    is_finite: bool,
    value: impl std::fmt::LowerExp + std::fmt::Display,
    out: &mut Vec<u8>,
) {
    if is_finite {
        return write_floating(value, out);
    }
    out.extend_from_slice(match value.to_string().as_str() {
        "NaN" => b"NaN".as_slice(),
        "inf" => b"Infinity",
        _ => b"-Infinity",
    });
}

fn needs_quotes(text: &[u8], quote: u8, options: &CsvOptions) -> bool {
    let highest_unsafe = options.delimiter.max(quote);
    text.len() > LONGEST_CHECKED
        && String::from_utf8_lossy(text).encode_utf16().count() > LONGEST_CHECKED
        || text
            .iter()
            .any(|byte| *byte <= highest_unsafe || Some(*byte) == options.escape)
}

fn write_quoted(text: &[u8], options: &CsvOptions, out: &mut Vec<u8>) {
    let Some(quote) = options
        .quote
        .filter(|quote| needs_quotes(text, *quote, options))
    else {
        out.extend_from_slice(text);
        return;
    };
    out.push(quote);
    for byte in text {
        if *byte == quote || Some(*byte) == options.escape {
            out.push(*byte);
        }
        out.push(*byte);
    }
    out.push(quote);
}
