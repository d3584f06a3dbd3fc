//! Values as text, as CAST to STRING writes them: for sinks, messages and late rows.

use std::fmt::Write;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::*;

use super::datetime::ticks;
use crate::expr::calendar::{self, MILLIS_PER_DAY};
use crate::expr::{decimal, java_number};
use crate::types::{LogicalType, TimeZone, TypeRoot};

/// Writes the values of columns of one type.
#[derive(Debug, Clone)]
pub struct ValueFormatter {
    logical_type: LogicalType,
    zone: TimeZone,
}

impl ValueFormatter {
    /// A formatter for a type; TIMESTAMP_LTZ is written in `zone`.
    pub fn new(logical_type: &LogicalType, zone: &TimeZone) -> Self {
        ValueFormatter {
            logical_type: logical_type.clone(),
            zone: *zone,
        }
    }

    /// Writes the value of a row; writes nothing and returns false where it is NULL.
    pub fn write(&self, out: &mut impl Write, array: &ArrayRef, row: usize) -> bool {
        if array.is_null(row) || self.logical_type.root == TypeRoot::Null {
            return false;
        }
        write_value(out, array, &self.logical_type.root, row, &self.zone);
        true
    }
}

/// The value of a row as CAST to STRING would print it; `None` for NULL.
pub fn format_value(
    array: &ArrayRef,
    logical_type: &LogicalType,
    row: usize,
    zone: &TimeZone,
) -> Option<String> {
    let mut text = String::new();
    ValueFormatter::new(logical_type, zone)
        .write(&mut text, array, row)
        .then_some(text)
}

/// Writes a value that is not NULL.
pub(super) fn write_value(
    out: &mut impl Write,
    array: &ArrayRef,
    root: &TypeRoot,
    row: usize,
    zone: &TimeZone,
) {
    let _ = match root {
        TypeRoot::Null => Ok(()),
        TypeRoot::Boolean => out.write_str(boolean(array.as_boolean().value(row))),
        TypeRoot::TinyInt => write!(out, "{}", array.as_primitive::<Int8Type>().value(row)),
        TypeRoot::SmallInt => write!(out, "{}", array.as_primitive::<Int16Type>().value(row)),
        TypeRoot::Int => write!(out, "{}", array.as_primitive::<Int32Type>().value(row)),
        TypeRoot::BigInt => write!(out, "{}", array.as_primitive::<Int64Type>().value(row)),
        TypeRoot::Char(_) | TypeRoot::Varchar(_) => {
            out.write_str(array.as_string::<i32>().value(row))
        }
        TypeRoot::Binary(_) | TypeRoot::Varbinary(_) => {
            write_hex(out, array.as_binary::<i32>().value(row))
        }
        _ => {
            write_other(out, array, root, row, zone);
            Ok(())
        }
    };
}

fn write_other(
    out: &mut impl Write,
    array: &ArrayRef,
    root: &TypeRoot,
    row: usize,
    zone: &TimeZone,
) {
    match root {
        TypeRoot::Float => {
            java_number::write_float(out, array.as_primitive::<Float32Type>().value(row))
        }
        TypeRoot::Double => {
            java_number::write_double(out, array.as_primitive::<Float64Type>().value(row))
        }
        TypeRoot::Decimal { scale, .. } => decimal::write(
            out,
            array.as_primitive::<Decimal128Type>().value(row),
            *scale,
        ),
        TypeRoot::Date => {
            calendar::write_date(out, array.as_primitive::<Date32Type>().value(row) as i64)
        }
        TypeRoot::Time(p) => {
            let time = array.as_primitive::<Time32MillisecondType>().value(row);
            calendar::write_time(out, time as i64, *p)
        }
        TypeRoot::Timestamp(p) => calendar::write_timestamp(out, ticks(array)[row], *p),
        TypeRoot::TimestampLtz(p) => {
            let value = ticks(array)[row];
            let shift = shift_of(zone, value, *p);
            calendar::write_timestamp(out, value.saturating_add(shift), *p)
        }
        TypeRoot::IntervalDayTime => write_day_time(
            out,
            array.as_primitive::<DurationMillisecondType>().value(row),
        ),
        TypeRoot::IntervalYearMonth => write_year_month(
            out,
            array.as_primitive::<IntervalYearMonthType>().value(row),
        ),
        _ => write_nested(out, array, root, row, zone),
    }
}

fn shift_of(zone: &TimeZone, value: i64, p: u8) -> i64 {
    let millis = calendar::to_millis(value, p);
    (zone.to_local_millis(millis) - millis) * calendar::units_per_milli(p)
}

fn write_nested(
    out: &mut impl Write,
    array: &ArrayRef,
    root: &TypeRoot,
    row: usize,
    zone: &TimeZone,
) {
    // The writer is made an object here, or the types of nested writers would never end.
    let out: &mut dyn Write = out;
    match root {
        TypeRoot::Array(element) => {
            write_list(out, &array.as_list::<i32>().value(row), element, zone)
        }
        TypeRoot::Map(key, value) => write_map(out, array, row, key, value, zone),
        TypeRoot::Multiset(element) => write_map(out, array, row, element, &LogicalType::INT, zone),
        TypeRoot::Row(fields) => {
            let columns = array.as_struct().columns();
            let _ = out.write_char('(');
            for (index, field) in fields.iter().enumerate() {
                separate(out, index);
                write_element(out, &columns[index], &field.logical_type, row, zone);
            }
            let _ = out.write_char(')');
        }
        other => unreachable!("{other} is written elsewhere"),
    }
}

fn separate(out: &mut dyn Write, index: usize) {
    if index > 0 {
        let _ = out.write_str(", ");
    }
}

fn write_element(
    out: &mut dyn Write,
    array: &ArrayRef,
    logical_type: &LogicalType,
    row: usize,
    zone: &TimeZone,
) {
    if array.is_null(row) || logical_type.root == TypeRoot::Null {
        let _ = out.write_str("NULL");
    } else {
        write_value(&mut &mut *out, array, &logical_type.root, row, zone);
    }
}

fn write_list(out: &mut dyn Write, values: &ArrayRef, element: &LogicalType, zone: &TimeZone) {
    let _ = out.write_char('[');
    for index in 0..values.len() {
        separate(out, index);
        write_element(out, values, element, index, zone);
    }
    let _ = out.write_char(']');
}

fn write_map(
    out: &mut dyn Write,
    array: &ArrayRef,
    row: usize,
    key: &LogicalType,
    value: &LogicalType,
    zone: &TimeZone,
) {
    let entries = array.as_map().value(row);
    let _ = out.write_char('{');
    for index in 0..entries.len() {
        separate(out, index);
        write_element(out, entries.column(0), key, index, zone);
        let _ = out.write_char('=');
        write_element(out, entries.column(1), value, index, zone);
    }
    let _ = out.write_char('}');
}

/// TRUE or FALSE.
pub(super) fn boolean(value: bool) -> &'static str {
    if value { "TRUE" } else { "FALSE" }
}

fn write_hex(out: &mut impl Write, bytes: &[u8]) -> std::fmt::Result {
    out.write_str("x'")?;
    bytes
        .iter()
        .try_for_each(|byte| write!(out, "{byte:02x}"))?;
    out.write_char('\'')
}

/// `+1 02:03:04.005`.
fn write_day_time(out: &mut impl Write, millis: i64) {
    let sign = if millis < 0 { '-' } else { '+' };
    let total = millis.unsigned_abs();
    let (days, of_day) = (
        total / MILLIS_PER_DAY as u64,
        (total % MILLIS_PER_DAY as u64) as i64,
    );
    let _ = write!(out, "{sign}{days} ");
    calendar::write_time(out, of_day, 3);
}

/// `+1-02`.
fn write_year_month(out: &mut impl Write, months: i32) {
    let sign = if months < 0 { '-' } else { '+' };
    let total = months.unsigned_abs();
    let _ = write!(out, "{sign}{}-{:02}", total / 12, total % 12);
}
