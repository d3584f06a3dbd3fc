//! Reads cells of test files as values of a column's type, makes Arrow columns of values and takes values out of them.
//!
//! A [`Value`] is what a cell means, whatever it is written like: `00:00:00` and `00:00:00.000` are one value. Tests compare
//! values, so neither the text of a file nor the layout of an array decides.

use std::fmt;
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::*;
use chrono::{Datelike, NaiveDate};
use serde_yaml_ng::Value as Yaml;

use super::case::scalar_text;
use crate::types::{LogicalType, RowField, TimeZone, TypeRoot};

/// The value of a cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// NULL of any type.
    Null,
    /// BOOLEAN.
    Boolean(bool),
    /// TINYINT to BIGINT.
    Integer(i64),
    /// FLOAT and DOUBLE.
    Double(f64),
    /// DECIMAL: `digits` / 10^`scale`, without trailing zeros behind the point.
    Decimal {
        /// All digits.
        digits: i128,
        /// How many of them stand behind the point.
        scale: u8,
    },
    /// CHAR, VARCHAR, STRING.
    Text(String),
    /// BINARY, VARBINARY, BYTES.
    Bytes(Vec<u8>),
    /// Days since 1970-01-01.
    Date(i32),
    /// Milliseconds of the day.
    Time(i64),
    /// TIMESTAMP: nanoseconds since 1970-01-01 00:00:00 of its own wall clock.
    Timestamp(i128),
    /// TIMESTAMP_LTZ: nanoseconds since the epoch.
    Instant(i128),
    /// Milliseconds, or months.
    Interval(i64),
    /// ARRAY.
    List(Vec<Value>),
    /// MAP and MULTISET, sorted by key.
    Map(Vec<(Value, Value)>),
    /// ROW.
    Row(Vec<Value>),
}

const NANOS_PER_MILLI: i128 = 1_000_000;
const MILLIS_PER_DAY: i64 = 86_400_000;

impl Value {
    /// DECIMAL without trailing zeros behind the point.
    pub fn decimal(mut digits: i128, mut scale: u8) -> Value {
        while scale > 0 && digits % 10 == 0 {
            digits /= 10;
            scale -= 1;
        }
        Value::Decimal { digits, scale }
    }

    /// TIMESTAMP from milliseconds.
    pub fn timestamp_millis(millis: i64) -> Value {
        Value::Timestamp(millis as i128 * NANOS_PER_MILLI)
    }

    /// TIMESTAMP_LTZ from milliseconds.
    pub fn instant_millis(millis: i64) -> Value {
        Value::Instant(millis as i128 * NANOS_PER_MILLI)
    }

    /// Whether a test takes both for the same: DOUBLE and FLOAT to 1e-9 relative, NaN is NaN, −0.0 is not 0.0.
    pub fn same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Double(a), Value::Double(b)) => same_double(*a, *b),
            (Value::List(a), Value::List(b)) | (Value::Row(a), Value::Row(b)) => same_row(a, b),
            (Value::Map(a), Value::Map(b)) => {
                a.len() == b.len()
                    && std::iter::zip(a, b).all(|(a, b)| a.0.same(&b.0) && a.1.same(&b.1))
            }
            _ => self == other,
        }
    }

    /// A total order for showing rows and for finding equal ones; NULL first, doubles by `total_cmp`.
    pub fn order(&self, other: &Value) -> std::cmp::Ordering {
        match (self, other) {
            (Value::Double(a), Value::Double(b)) => a.total_cmp(b),
            (Value::Integer(a), Value::Integer(b)) => a.cmp(b),
            (Value::Text(a), Value::Text(b)) => a.cmp(b),
            (Value::Boolean(a), Value::Boolean(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (Value::Date(a), Value::Date(b)) => a.cmp(b),
            (Value::Time(a), Value::Time(b)) | (Value::Interval(a), Value::Interval(b)) => a.cmp(b),
            (Value::Timestamp(a), Value::Timestamp(b)) | (Value::Instant(a), Value::Instant(b)) => {
                a.cmp(b)
            }
            (
                Value::Decimal { digits, scale },
                Value::Decimal {
                    digits: other_digits,
                    scale: other_scale,
                },
            ) => compare_decimals((*digits, *scale), (*other_digits, *other_scale)),
            (Value::List(a), Value::List(b)) | (Value::Row(a), Value::Row(b)) => order_rows(a, b),
            (Value::Map(a), Value::Map(b)) => {
                let flat = |entries: &[(Value, Value)]| -> Vec<Value> {
                    entries
                        .iter()
                        .flat_map(|(key, value)| [key.clone(), value.clone()])
                        .collect()
                };
                order_rows(&flat(a), &flat(b))
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Value::Null => 0,
            Value::Boolean(_) => 1,
            Value::Integer(_) => 2,
            Value::Double(_) => 3,
            Value::Decimal { .. } => 4,
            Value::Text(_) => 5,
            Value::Bytes(_) => 6,
            Value::Date(_) => 7,
            Value::Time(_) => 8,
            Value::Timestamp(_) => 9,
            Value::Instant(_) => 10,
            Value::Interval(_) => 11,
            Value::List(_) => 12,
            Value::Map(_) => 13,
            Value::Row(_) => 14,
        }
    }
}

/// Whether two rows are the same cell by cell.
pub fn same_row(a: &[Value], b: &[Value]) -> bool {
    a.len() == b.len() && std::iter::zip(a, b).all(|(a, b)| a.same(b))
}

/// [`Value::order`] over rows, cell by cell.
pub fn order_rows(a: &[Value], b: &[Value]) -> std::cmp::Ordering {
    std::iter::zip(a, b)
        .map(|(a, b)| a.order(b))
        .find(|order| order.is_ne())
        .unwrap_or(a.len().cmp(&b.len()))
}

fn same_double(a: f64, b: f64) -> bool {
    if a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()) {
        return true;
    }
    if a == 0.0 || b == 0.0 || !a.is_finite() || !b.is_finite() {
        return false;
    }
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn compare_decimals(a: (i128, u8), b: (i128, u8)) -> std::cmp::Ordering {
    let scale = a.1.max(b.1);
    let scaled = |(digits, own): (i128, u8)| digits.checked_mul(10i128.pow((scale - own) as u32));
    match (scaled(a), scaled(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => {
            (a.0 as f64 / 10f64.powi(a.1 as i32)).total_cmp(&(b.0 as f64 / 10f64.powi(b.1 as i32)))
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => write!(f, "null"),
            Value::Boolean(value) => write!(f, "{value}"),
            Value::Integer(value) | Value::Interval(value) => write!(f, "{value}"),
            Value::Double(value) => write!(f, "{value:?}"),
            Value::Decimal { digits, scale } => f.write_str(&decimal_text(*digits, *scale)),
            Value::Text(text) if is_plain(text) => write!(f, "{text}"),
            Value::Text(text) => write!(f, "{text:?}"),
            Value::Bytes(bytes) => {
                write!(f, "x'")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                write!(f, "'")
            }
            Value::Date(days) => write!(f, "{}", date_text(*days as i64)),
            Value::Time(millis) => f.write_str(&clock_text(*millis as i128 * NANOS_PER_MILLI)),
            Value::Timestamp(nanos) => f.write_str(&timestamp_text(*nanos)),
            Value::Instant(nanos) => write!(f, "{}Z", timestamp_text(*nanos)),
            Value::List(values) => write_list(f, "[", values, "]"),
            Value::Row(values) => write_list(f, "(", values, ")"),
            Value::Map(entries) => {
                let parts: Vec<String> = entries
                    .iter()
                    .map(|(key, value)| format!("{key}: {value}"))
                    .collect();
                write!(f, "{{{}}}", parts.join(", "))
            }
        }
    }
}

fn is_plain(text: &str) -> bool {
    let printable = |c: char| !c.is_control() && !matches!(c, ',' | '"' | '[' | ']');
    !text.is_empty() && text.trim() == text && text != "null" && text.chars().all(printable)
}

fn write_list(
    f: &mut fmt::Formatter<'_>,
    open: &str,
    values: &[Value],
    close: &str,
) -> fmt::Result {
    write!(f, "{open}{}{close}", row_text(values))
}

/// The cells of a row side by side.
pub fn row_text(values: &[Value]) -> String {
    let parts: Vec<String> = values.iter().map(Value::to_string).collect();
    parts.join(", ")
}

fn decimal_text(digits: i128, scale: u8) -> String {
    if scale == 0 {
        return digits.to_string();
    }
    let sign = if digits < 0 { "-" } else { "" };
    let width = scale as usize + 1;
    let text = format!("{:0>width$}", digits.unsigned_abs());
    let (whole, fraction) = text.split_at(text.len() - scale as usize);
    format!("{sign}{whole}.{fraction}")
}

fn date_text(days: i64) -> String {
    match NaiveDate::from_num_days_from_ce_opt((days + DAYS_FROM_CE) as i32) {
        Some(date) => format!("{:04}-{:02}-{:02}", date.year(), date.month(), date.day()),
        None => format!("day {days}"),
    }
}

/// Days from 0001-01-01 (day 1) to 1970-01-01.
const DAYS_FROM_CE: i64 = 719_163;

fn clock_text(nanos: i128) -> String {
    let seconds = nanos / 1_000_000_000;
    let fraction = nanos % 1_000_000_000;
    let clock = format!(
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    if fraction == 0 {
        return clock;
    }
    format!("{clock}.{}", format!("{fraction:09}").trim_end_matches('0'))
}

fn timestamp_text(nanos: i128) -> String {
    let day = MILLIS_PER_DAY as i128 * NANOS_PER_MILLI;
    let days = nanos.div_euclid(day);
    format!(
        "{} {}",
        date_text(days as i64),
        clock_text(nanos.rem_euclid(day))
    )
}

/// Reads a cell as a value of `logical_type`. TIMESTAMP_LTZ text without `Z` is wall clock in `zone`.
pub fn read_cell(
    cell: &Yaml,
    logical_type: &LogicalType,
    zone: &TimeZone,
) -> Result<Value, String> {
    if cell.is_null() {
        return Ok(Value::Null);
    }
    let read = match &logical_type.root {
        TypeRoot::Array(element) => cell
            .as_sequence()
            .map(|items| read_all(items, element, zone).map(Value::List)),
        TypeRoot::Map(key, value) => read_map(cell, key, value, zone),
        TypeRoot::Multiset(element) => read_map(cell, element, &LogicalType::INT, zone),
        TypeRoot::Row(fields) => read_row(cell, fields, zone),
        root => scalar_text(cell).map(|text| read_scalar(&text, root, zone)),
    };
    let shown = || serde_yaml_ng::to_string(cell).unwrap_or_default();
    read.unwrap_or_else(|| Err(String::new())).map_err(|inner| {
        let inner = if inner.is_empty() {
            inner
        } else {
            format!(" ({inner})")
        };
        format!(
            "{} is not a {}{inner}",
            shown().trim_end(),
            logical_type.root
        )
    })
}

fn read_all(items: &[Yaml], element: &LogicalType, zone: &TimeZone) -> Result<Vec<Value>, String> {
    items
        .iter()
        .map(|item| read_cell(item, element, zone))
        .collect()
}

fn read_map(
    cell: &Yaml,
    key: &LogicalType,
    value: &LogicalType,
    zone: &TimeZone,
) -> Option<Result<Value, String>> {
    let entries: Result<Vec<(Value, Value)>, String> = cell
        .as_mapping()?
        .iter()
        .map(|(k, v)| Ok((read_cell(k, key, zone)?, read_cell(v, value, zone)?)))
        .collect();
    Some(entries.map(sorted_map))
}

fn sorted_map(mut entries: Vec<(Value, Value)>) -> Value {
    entries.sort_by(|a, b| a.0.order(&b.0));
    Value::Map(entries)
}

fn read_row(cell: &Yaml, fields: &[RowField], zone: &TimeZone) -> Option<Result<Value, String>> {
    if let Some(map) = cell.as_mapping() {
        if let Some(unknown) = map
            .keys()
            .filter_map(Yaml::as_str)
            .find(|key| fields.iter().all(|field| field.name != *key))
        {
            return Some(Err(format!("there is no field {unknown}")));
        }
        let values = fields.iter().map(|field| {
            let cell = map.get(field.name.as_str()).unwrap_or(&Yaml::Null);
            read_cell(cell, &field.logical_type, zone)
        });
        return Some(values.collect::<Result<_, _>>().map(Value::Row));
    }
    let items = cell.as_sequence()?;
    if items.len() != fields.len() {
        return Some(Err(format!("it has {} fields", fields.len())));
    }
    let values = std::iter::zip(items, fields)
        .map(|(item, field)| read_cell(item, &field.logical_type, zone))
        .collect::<Result<_, _>>();
    Some(values.map(Value::Row))
}

fn read_scalar(text: &str, root: &TypeRoot, zone: &TimeZone) -> Result<Value, String> {
    let parsed = match root {
        TypeRoot::Null => None,
        TypeRoot::Boolean => match text.to_ascii_lowercase().as_str() {
            "true" => Some(Value::Boolean(true)),
            "false" => Some(Value::Boolean(false)),
            _ => None,
        },
        TypeRoot::TinyInt => text.parse::<i8>().ok().map(|v| Value::Integer(v as i64)),
        TypeRoot::SmallInt => text.parse::<i16>().ok().map(|v| Value::Integer(v as i64)),
        TypeRoot::Int => text.parse::<i32>().ok().map(|v| Value::Integer(v as i64)),
        TypeRoot::BigInt => text.parse().ok().map(Value::Integer),
        TypeRoot::Float => read_double(text).map(|v| Value::Double(v as f32 as f64)),
        TypeRoot::Double => read_double(text).map(Value::Double),
        TypeRoot::Decimal { .. } => read_decimal(text),
        TypeRoot::Char(_) | TypeRoot::Varchar(_) => Some(Value::Text(text.to_string())),
        TypeRoot::Binary(_) | TypeRoot::Varbinary(_) => Some(Value::Bytes(read_bytes(text))),
        TypeRoot::Date => read_date(text).map(|days| Value::Date(days as i32)),
        TypeRoot::Time(_) => {
            read_clock(text).map(|nanos| Value::Time((nanos / NANOS_PER_MILLI) as i64))
        }
        TypeRoot::Timestamp(_) => read_timestamp(text).map(Value::Timestamp),
        TypeRoot::TimestampLtz(_) => read_instant(text, zone).map(Value::Instant),
        TypeRoot::IntervalDayTime | TypeRoot::IntervalYearMonth => {
            text.parse().ok().map(Value::Interval)
        }
        TypeRoot::Array(_) | TypeRoot::Map(..) | TypeRoot::Multiset(_) | TypeRoot::Row(_) => None,
    };
    parsed.ok_or_else(String::new)
}

fn read_double(text: &str) -> Option<f64> {
    match text {
        "NaN" | ".nan" | ".NaN" => Some(f64::NAN),
        "Infinity" | "+Infinity" | ".inf" => Some(f64::INFINITY),
        "-Infinity" | "-.inf" => Some(f64::NEG_INFINITY),
        _ => text.parse().ok().filter(|value: &f64| value.is_finite()),
    }
}

fn read_decimal(text: &str) -> Option<Value> {
    let (text, exponent) = match text.split_once(['e', 'E']) {
        Some((text, exponent)) => (text, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    let scale = fraction.len() as i32 - exponent;
    if scale >= 0 {
        return Some(Value::decimal(digits, u8::try_from(scale).ok()?));
    }
    let factor = 10i128.checked_pow(scale.unsigned_abs())?;
    Some(Value::decimal(digits.checked_mul(factor)?, 0))
}

/// `x'6869'` as hexadecimal digits, anything else as its UTF-8 bytes.
fn read_bytes(text: &str) -> Vec<u8> {
    let hex = text
        .strip_prefix("x'")
        .and_then(|rest| rest.strip_suffix('\''))
        .filter(|hex| hex.len() % 2 == 0 && hex.bytes().all(|b| b.is_ascii_hexdigit()));
    match hex {
        Some(hex) => (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits"))
            .collect(),
        None => text.as_bytes().to_vec(),
    }
}

fn read_date(text: &str) -> Option<i64> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text),
    };
    let mut parts = text.split('-');
    let year: i32 = parts.next().filter(|year| year.len() >= 4)?.parse().ok()?;
    let month = parts.next()?.parse().ok()?;
    let day = parts.next()?.parse().ok()?;
    let date = NaiveDate::from_ymd_opt(sign * year, month, day)?;
    parts
        .next()
        .is_none()
        .then_some(date.num_days_from_ce() as i64 - DAYS_FROM_CE)
}

/// Nanoseconds of the day.
fn read_clock(text: &str) -> Option<i128> {
    let (text, fraction) = text.split_once('.').unwrap_or((text, ""));
    let parts: Vec<i128> = text
        .split(':')
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let (hours, minutes, seconds) = match parts[..] {
        [hours, minutes] => (hours, minutes, 0),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    if !(0..24).contains(&hours) || !(0..60).contains(&minutes) || !(0..60).contains(&seconds) {
        return None;
    }
    let is_fraction = fraction.len() <= 9 && fraction.bytes().all(|b| b.is_ascii_digit());
    let nanos: i128 = match fraction {
        "" => 0,
        _ if is_fraction => format!("{fraction:0<9}").parse().ok()?,
        _ => return None,
    };
    Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + nanos)
}

fn read_timestamp(text: &str) -> Option<i128> {
    let (date, clock) = text.split_once([' ', 'T']).unwrap_or((text, "00:00"));
    let day = MILLIS_PER_DAY as i128 * NANOS_PER_MILLI;
    Some(read_date(date)? as i128 * day + read_clock(clock)?)
}

fn read_instant(text: &str, zone: &TimeZone) -> Option<i128> {
    if let Some(utc) = text.strip_suffix('Z') {
        return read_timestamp(utc);
    }
    if let Ok(millis) = text.parse::<i64>() {
        return Some(millis as i128 * NANOS_PER_MILLI);
    }
    let local = read_timestamp(text)?;
    let millis = zone.to_instant_millis(local.div_euclid(NANOS_PER_MILLI) as i64);
    Some(millis as i128 * NANOS_PER_MILLI + local.rem_euclid(NANOS_PER_MILLI))
}

/// An Arrow column of the given values; an error says which value does not fit the type.
pub fn build_array(values: &[&Value], logical_type: &LogicalType) -> Result<ArrayRef, String> {
    let misfit = |value: &Value| format!("{value} does not fit {}", logical_type.root);
    Ok(match &logical_type.root {
        TypeRoot::Null => Arc::new(NullArray::new(values.len())),
        TypeRoot::Boolean => {
            let mut builder = BooleanBuilder::with_capacity(values.len());
            for value in values {
                match value {
                    Value::Null => builder.append_null(),
                    Value::Boolean(value) => builder.append_value(*value),
                    other => return Err(misfit(other)),
                }
            }
            Arc::new(builder.finish())
        }
        TypeRoot::TinyInt => primitives::<Int8Type>(values, misfit, integer)?,
        TypeRoot::SmallInt => primitives::<Int16Type>(values, misfit, integer)?,
        TypeRoot::Int => primitives::<Int32Type>(values, misfit, integer)?,
        TypeRoot::BigInt => primitives::<Int64Type>(values, misfit, integer)?,
        TypeRoot::Float => primitives::<Float32Type>(values, misfit, |value| {
            double(value).map(|value| value as f32)
        })?,
        TypeRoot::Double => primitives::<Float64Type>(values, misfit, double)?,
        TypeRoot::Decimal { precision, scale } => {
            let digits = collect(values, misfit, |value| unscaled(value, *precision, *scale))?;
            let array = Decimal128Array::from(digits)
                .with_precision_and_scale(*precision, *scale as i8)
                .map_err(|error| error.to_string())?;
            Arc::new(array)
        }
        TypeRoot::Char(_) | TypeRoot::Varchar(_) => {
            let texts = collect(values, misfit, |value| match value {
                Value::Text(text) => Some(text.as_str()),
                _ => None,
            })?;
            Arc::new(StringArray::from(texts))
        }
        TypeRoot::Binary(_) | TypeRoot::Varbinary(_) => {
            let bytes = collect(values, misfit, |value| match value {
                Value::Bytes(bytes) => Some(bytes.as_slice()),
                _ => None,
            })?;
            Arc::new(BinaryArray::from(bytes))
        }
        TypeRoot::Date => primitives::<Date32Type>(values, misfit, |value| match value {
            Value::Date(days) => Some(*days),
            _ => None,
        })?,
        TypeRoot::Time(_) => {
            primitives::<Time32MillisecondType>(values, misfit, |value| match value {
                Value::Time(millis) => Some(*millis as i32),
                _ => None,
            })?
        }
        TypeRoot::Timestamp(p) | TypeRoot::TimestampLtz(p) => timestamps(
            values,
            misfit,
            TypeRoot::time_unit(*p),
            &logical_type.to_arrow(),
        )?,
        TypeRoot::IntervalDayTime => {
            primitives::<DurationMillisecondType>(values, misfit, |value| match value {
                Value::Interval(millis) => Some(*millis),
                _ => None,
            })?
        }
        TypeRoot::IntervalYearMonth => {
            primitives::<IntervalYearMonthType>(values, misfit, |value| match value {
                Value::Interval(months) => i32::try_from(*months).ok(),
                _ => None,
            })?
        }
        TypeRoot::Array(element) => list_array(values, element, misfit)?,
        TypeRoot::Map(key, value) => {
            map_array(values, key, value, &logical_type.to_arrow(), misfit)?
        }
        TypeRoot::Multiset(element) => {
            let counts = LogicalType::not_null(TypeRoot::Int);
            map_array(values, element, &counts, &logical_type.to_arrow(), misfit)?
        }
        TypeRoot::Row(fields) => struct_array(values, fields, &logical_type.to_arrow(), misfit)?,
    })
}

/// The native values, `None` for NULL; the first value that `native` refuses is the error.
fn collect<'v, T>(
    values: &[&'v Value],
    misfit: impl Fn(&Value) -> String,
    native: impl Fn(&'v Value) -> Option<T>,
) -> Result<Vec<Option<T>>, String> {
    values
        .iter()
        .map(|value| match value {
            Value::Null => Ok(None),
            value => native(value).map(Some).ok_or_else(|| misfit(value)),
        })
        .collect()
}

fn primitives<T: ArrowPrimitiveType>(
    values: &[&Value],
    misfit: impl Fn(&Value) -> String,
    native: impl Fn(&Value) -> Option<T::Native>,
) -> Result<ArrayRef, String> {
    let natives = collect(values, misfit, native)?;
    Ok(Arc::new(PrimitiveArray::<T>::from_iter(natives)))
}

fn integer<T: TryFrom<i64>>(value: &Value) -> Option<T> {
    match value {
        Value::Integer(value) => T::try_from(*value).ok(),
        _ => None,
    }
}

fn double(value: &Value) -> Option<f64> {
    match value {
        Value::Double(value) => Some(*value),
        _ => None,
    }
}

fn unscaled(value: &Value, precision: u8, scale: u8) -> Option<i128> {
    let Value::Decimal { digits, scale: own } = value else {
        return None;
    };
    let digits = digits.checked_mul(10i128.checked_pow(scale.checked_sub(*own)? as u32)?)?;
    (digits.unsigned_abs() < 10u128.pow(precision as u32)).then_some(digits)
}

fn timestamps(
    values: &[&Value],
    misfit: impl Fn(&Value) -> String,
    unit: TimeUnit,
    data_type: &DataType,
) -> Result<ArrayRef, String> {
    let per_unit: i128 = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    let natives = collect(values, misfit, |value| match value {
        Value::Timestamp(nanos) | Value::Instant(nanos) if nanos % per_unit == 0 => {
            i64::try_from(nanos / per_unit).ok()
        }
        _ => None,
    })?;
    let integers = Int64Array::from(natives);
    arrow::compute::cast(&integers, data_type).map_err(|error| error.to_string())
}

fn nulls(values: &[&Value]) -> NullBuffer {
    values
        .iter()
        .map(|value| !matches!(value, Value::Null))
        .collect::<Vec<bool>>()
        .into()
}

fn list_array(
    values: &[&Value],
    element: &LogicalType,
    misfit: impl Fn(&Value) -> String,
) -> Result<ArrayRef, String> {
    let mut items = Vec::new();
    let mut lengths = Vec::with_capacity(values.len());
    for value in values {
        let before = items.len();
        match value {
            Value::Null => {}
            Value::List(elements) => items.extend(elements),
            other => return Err(misfit(other)),
        }
        lengths.push(items.len() - before);
    }
    let array = ListArray::try_new(
        Arc::new(element.to_arrow_field("item")),
        OffsetBuffer::from_lengths(lengths),
        build_array(&items, element)?,
        Some(nulls(values)),
    );
    Ok(Arc::new(array.map_err(|error| error.to_string())?))
}

fn map_array(
    values: &[&Value],
    key: &LogicalType,
    value: &LogicalType,
    data_type: &DataType,
    misfit: impl Fn(&Value) -> String,
) -> Result<ArrayRef, String> {
    let DataType::Map(entries_field, _) = data_type else {
        return Err("a MAP is an Arrow map".to_string());
    };
    let DataType::Struct(fields) = entries_field.data_type() else {
        return Err("the entries of an Arrow map are structs".to_string());
    };
    let (mut keys, mut items) = (Vec::new(), Vec::new());
    let mut lengths = Vec::with_capacity(values.len());
    for value in values {
        let before = keys.len();
        match value {
            Value::Null => {}
            Value::Map(entries) => {
                keys.extend(entries.iter().map(|(key, _)| key));
                items.extend(entries.iter().map(|(_, value)| value));
            }
            other => return Err(misfit(other)),
        }
        lengths.push(keys.len() - before);
    }
    let columns = vec![build_array(&keys, key)?, build_array(&items, value)?];
    let array = StructArray::try_new(fields.clone(), columns, None).and_then(|entries| {
        MapArray::try_new(
            entries_field.clone(),
            OffsetBuffer::from_lengths(lengths),
            entries,
            Some(nulls(values)),
            false,
        )
    });
    Ok(Arc::new(array.map_err(|error| error.to_string())?))
}

fn struct_array(
    values: &[&Value],
    fields: &[RowField],
    data_type: &DataType,
    misfit: impl Fn(&Value) -> String,
) -> Result<ArrayRef, String> {
    let DataType::Struct(arrow_fields) = data_type else {
        return Err("a ROW is an Arrow struct".to_string());
    };
    let mut columns = Vec::with_capacity(fields.len());
    for (index, field) in fields.iter().enumerate() {
        let cells: Vec<&Value> = values
            .iter()
            .map(|value| match value {
                Value::Null => Ok(&Value::Null),
                Value::Row(cells) if cells.len() == fields.len() => Ok(&cells[index]),
                other => Err(misfit(other)),
            })
            .collect::<Result<_, _>>()?;
        columns.push(build_array(&cells, &field.logical_type)?);
    }
    let array = StructArray::try_new_with_length(
        arrow_fields.clone(),
        columns,
        Some(nulls(values)),
        values.len(),
    );
    Ok(Arc::new(array.map_err(|error| error.to_string())?))
}

/// The value of one row of a column of the given type.
pub fn value_at(array: &dyn Array, row: usize, logical_type: &LogicalType) -> Value {
    if array.is_null(row) || matches!(logical_type.root, TypeRoot::Null) {
        return Value::Null;
    }
    match &logical_type.root {
        TypeRoot::Null => Value::Null,
        TypeRoot::Boolean => Value::Boolean(array.as_boolean().value(row)),
        TypeRoot::TinyInt => Value::Integer(array.as_primitive::<Int8Type>().value(row) as i64),
        TypeRoot::SmallInt => Value::Integer(array.as_primitive::<Int16Type>().value(row) as i64),
        TypeRoot::Int => Value::Integer(array.as_primitive::<Int32Type>().value(row) as i64),
        TypeRoot::BigInt => Value::Integer(array.as_primitive::<Int64Type>().value(row)),
        TypeRoot::Float => Value::Double(array.as_primitive::<Float32Type>().value(row) as f64),
        TypeRoot::Double => Value::Double(array.as_primitive::<Float64Type>().value(row)),
        TypeRoot::Decimal { scale, .. } => {
            Value::decimal(array.as_primitive::<Decimal128Type>().value(row), *scale)
        }
        TypeRoot::Char(_) | TypeRoot::Varchar(_) => {
            Value::Text(array.as_string::<i32>().value(row).to_string())
        }
        TypeRoot::Binary(_) | TypeRoot::Varbinary(_) => {
            Value::Bytes(array.as_binary::<i32>().value(row).to_vec())
        }
        TypeRoot::Date => Value::Date(array.as_primitive::<Date32Type>().value(row)),
        TypeRoot::Time(_) => {
            Value::Time(array.as_primitive::<Time32MillisecondType>().value(row) as i64)
        }
        TypeRoot::Timestamp(p) => Value::Timestamp(nanos_at(array, row, *p)),
        TypeRoot::TimestampLtz(p) => Value::Instant(nanos_at(array, row, *p)),
        TypeRoot::IntervalDayTime => {
            Value::Interval(array.as_primitive::<DurationMillisecondType>().value(row))
        }
        TypeRoot::IntervalYearMonth => {
            Value::Interval(array.as_primitive::<IntervalYearMonthType>().value(row) as i64)
        }
        TypeRoot::Array(element) => {
            Value::List(values_of(&array.as_list::<i32>().value(row), element))
        }
        TypeRoot::Map(key, value) => map_at(array, row, key, value),
        TypeRoot::Multiset(element) => map_at(array, row, element, &LogicalType::INT),
        TypeRoot::Row(fields) => {
            let columns = array.as_struct().columns();
            Value::Row(
                fields
                    .iter()
                    .enumerate()
                    .map(|(index, field)| value_at(&columns[index], row, &field.logical_type))
                    .collect(),
            )
        }
    }
}

/// All values of a column.
pub fn values_of(array: &dyn Array, logical_type: &LogicalType) -> Vec<Value> {
    (0..array.len())
        .map(|row| value_at(array, row, logical_type))
        .collect()
}

fn map_at(array: &dyn Array, row: usize, key: &LogicalType, value: &LogicalType) -> Value {
    let entries = array.as_map().value(row);
    let keys = values_of(entries.column(0), key);
    let values = values_of(entries.column(1), value);
    sorted_map(std::iter::zip(keys, values).collect())
}

fn nanos_at(array: &dyn Array, row: usize, precision: u8) -> i128 {
    match TypeRoot::time_unit(precision) {
        TimeUnit::Second => {
            array.as_primitive::<TimestampSecondType>().value(row) as i128 * 1_000_000_000
        }
        TimeUnit::Millisecond => {
            array.as_primitive::<TimestampMillisecondType>().value(row) as i128 * 1_000_000
        }
        TimeUnit::Microsecond => {
            array.as_primitive::<TimestampMicrosecondType>().value(row) as i128 * 1_000
        }
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().value(row) as i128,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(text: &str) -> Yaml {
        serde_yaml_ng::from_str(text).unwrap()
    }

    fn read(text: &str, root: TypeRoot) -> Value {
        read_cell(&yaml(text), &LogicalType::nullable(root), &TimeZone::UTC).unwrap()
    }

    fn refused(text: &str, root: TypeRoot) -> String {
        read_cell(&yaml(text), &LogicalType::nullable(root), &TimeZone::UTC).unwrap_err()
    }

    fn row_type() -> TypeRoot {
        let field = |name: &str, logical_type| RowField {
            name: name.to_string(),
            logical_type,
        };
        TypeRoot::Row(vec![
            field("a", LogicalType::INT),
            field("b", LogicalType::STRING),
        ])
    }

    #[test]
    fn every_type_goes_into_an_array_and_comes_out_again() {
        let decimal = TypeRoot::Decimal {
            precision: 6,
            scale: 3,
        };
        let cases = [
            ("true", TypeRoot::Boolean),
            ("-128", TypeRoot::TinyInt),
            ("32767", TypeRoot::SmallInt),
            ("-5", TypeRoot::Int),
            ("'9223372036854775807'", TypeRoot::BigInt),
            ("1.5", TypeRoot::Float),
            ("'-0.0'", TypeRoot::Double),
            ("NaN", TypeRoot::Double),
            ("'-999.995'", decimal),
            ("a😀b", TypeRoot::STRING),
            ("x'00ff'", TypeRoot::BYTES),
            ("'1969-12-31'", TypeRoot::Date),
            ("'23:59:59.123'", TypeRoot::Time(3)),
            ("'1600-06-01 12:00:00'", TypeRoot::Timestamp(3)),
            ("'2024-01-01 00:00:00.123456'", TypeRoot::Timestamp(6)),
            (
                "'2024-01-01 00:00:00.123456789Z'",
                TypeRoot::TimestampLtz(9),
            ),
            ("1500", TypeRoot::IntervalDayTime),
            ("14", TypeRoot::IntervalYearMonth),
            ("[1, null, 3]", TypeRoot::Array(Box::new(LogicalType::INT))),
            (
                "{b: 1, a: null}",
                TypeRoot::Map(Box::new(LogicalType::STRING), Box::new(LogicalType::INT)),
            ),
            (
                "{b: 1, a: 2}",
                TypeRoot::Multiset(Box::new(LogicalType::STRING)),
            ),
            ("[1, x]", row_type()),
            ("{b: x}", row_type()),
        ];
        for (text, root) in cases {
            let logical_type = LogicalType::nullable(root.clone());
            let value = read(text, root);
            let array = build_array(&[&Value::Null, &value], &logical_type).unwrap();
            assert_eq!(array.data_type(), &logical_type.to_arrow());
            let back = values_of(&array, &logical_type);
            assert_eq!(back[0], Value::Null);
            assert!(back[1].same(&value), "{text}: {} is not {value}", back[1]);
        }
    }

    #[test]
    fn cells_are_values_not_texts() {
        assert_eq!(
            read("'2024-01-01 00:00'", TypeRoot::Timestamp(3)),
            read("'2024-01-01T00:00:00.000'", TypeRoot::Timestamp(3))
        );
        let decimal = TypeRoot::Decimal {
            precision: 38,
            scale: 2,
        };
        assert_eq!(read("5", decimal.clone()), read("'5.00'", decimal.clone()));
        assert_eq!(read("12e2", decimal.clone()), read("'1200'", decimal));
        assert_eq!(read("1", TypeRoot::STRING), Value::Text("1".into()));
        assert_eq!(
            read("'1969-12-31 23:59:59.999'", TypeRoot::Timestamp(3)).to_string(),
            "1969-12-31 23:59:59.999"
        );
    }

    #[test]
    fn ltz_text_without_z_is_local() {
        let zone = TimeZone::parse("GMT+08:00").unwrap();
        let ltz = LogicalType::nullable(TypeRoot::TimestampLtz(3));
        let local = read_cell(&yaml("'1970-01-01 08:00:09.999'"), &ltz, &zone).unwrap();
        assert_eq!(local, Value::instant_millis(9_999));
        let utc = read_cell(&yaml("'1970-01-01 00:00:09.999Z'"), &ltz, &zone).unwrap();
        assert_eq!(local, utc);
    }

    #[test]
    fn doubles_are_the_same_to_a_billionth() {
        let same = |a: f64, b: f64| Value::Double(a).same(&Value::Double(b));
        assert!(same(1.0, 1.0 + 1e-10));
        assert!(!same(1.0, 1.0 + 1e-8));
        assert!(same(f64::NAN, -f64::NAN));
        assert!(!same(0.0, -0.0));
        assert!(!same(f64::INFINITY, f64::MAX));
        assert!(
            Value::List(vec![Value::Double(1.0)])
                .same(&Value::List(vec![Value::Double(1.0 + 1e-10)]))
        );
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert!(refused("300", TypeRoot::TinyInt).contains("TINYINT"));
        assert!(refused("x", TypeRoot::Int).contains('x'));
        assert!(refused("[1]", TypeRoot::Int).contains("INT"));
        assert!(refused("{c: 1}", row_type()).contains("no field c"));
        assert!(refused("'2024-02-30 00:00:00'", TypeRoot::Timestamp(3)).contains("TIMESTAMP"));
        let decimal = LogicalType::nullable(TypeRoot::Decimal {
            precision: 3,
            scale: 1,
        });
        for digits in ["'1.25'", "'100'"] {
            let value = read(digits, decimal.root.clone());
            assert!(build_array(&[&value], &decimal).is_err());
        }
        let micros = read("'2024-01-01 00:00:00.0001'", TypeRoot::Timestamp(3));
        assert!(build_array(&[&micros], &LogicalType::nullable(TypeRoot::Timestamp(3))).is_err());
    }
}
