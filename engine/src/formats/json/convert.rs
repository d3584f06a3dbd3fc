//! One JSON scalar into one column, by Flink's rules: which kinds of values each SQL type reads, and how.
//!
//! Both readers, the fast and the tolerant one, end here, so that they cannot differ in what a value means.

use std::str::FromStr;

use base64::Engine;

use super::JsonOptions;
use crate::formats::columns::{Column, ColumnData, VariableBytes};
use crate::formats::number_text::{
    DecimalText, parse_decimal, parse_floating, parse_integer, trim,
};
use crate::formats::time_text::{TimestampStyle, parse_date, parse_time, parse_timestamp};

/// Appends a JSON string (unescaped). False where the type cannot read it; then nothing was appended.
pub(super) fn push_string(column: &mut Column, text: &[u8], options: &JsonOptions) -> bool {
    let style = options.timestamp_style;
    let pushed = match &mut column.data {
        ColumnData::Text(values) => {
            values.push(text);
            Some(())
        }
        ColumnData::Boolean(values) => {
            values.append(trim(text).eq_ignore_ascii_case(b"true"));
            Some(())
        }
        ColumnData::TinyInt(values) => push(values, narrow(parse_integer(trim(text)))),
        ColumnData::SmallInt(values) => push(values, narrow(parse_integer(trim(text)))),
        ColumnData::Int(values) | ColumnData::Months(values) => {
            push(values, narrow(parse_integer(trim(text))))
        }
        ColumnData::BigInt(values) | ColumnData::Millis(values) => {
            push(values, parse_integer(trim(text)))
        }
        ColumnData::Float(values) => push(values, parse_floating(trim(text))),
        ColumnData::Double(values) => push(values, parse_floating(trim(text))),
        ColumnData::Decimal { .. } => return push_decimal(column, trim(text)),
        ColumnData::Binary(values) => push_base64(values, text),
        ColumnData::Date(values) => push(values, parse_date(text)),
        ColumnData::Time { values, .. } => push(values, parse_time(text, TimestampStyle::Sql)),
        ColumnData::Timestamp {
            values,
            unit,
            zoned,
        } => push(values, parse_timestamp(text, style, *zoned, *unit)),
        ColumnData::Null => {
            column.push_null();
            return true;
        }
        ColumnData::List { .. } | ColumnData::Map { .. } | ColumnData::Row { .. } => None,
    };
    done(column, pushed)
}

/// Appends a JSON number, `token` being as it is written, of JSON's grammar. False where the type cannot read it; then nothing
/// was appended. INT and BIGINT cut a fraction, as Jackson's parser does; the smaller integers refuse it.
pub(super) fn push_number(column: &mut Column, token: &[u8]) -> bool {
    let pushed = match &mut column.data {
        ColumnData::Text(values) => {
            values.push(token);
            Some(())
        }
        ColumnData::Boolean(values) => {
            values.append(false);
            Some(())
        }
        ColumnData::TinyInt(values) => push(values, narrow(parse_integer(token))),
        ColumnData::SmallInt(values) => push(values, narrow(parse_integer(token))),
        ColumnData::Int(values) | ColumnData::Months(values) => {
            push(values, narrow(whole_part(token)))
        }
        ColumnData::BigInt(values) | ColumnData::Millis(values) => push(values, whole_part(token)),
        ColumnData::Float(values) => push(values, parse_number(token)),
        ColumnData::Double(values) => push(values, parse_number(token)),
        ColumnData::Decimal { .. } => return push_decimal(column, token),
        ColumnData::Null => {
            column.push_null();
            return true;
        }
        ColumnData::Binary(_)
        | ColumnData::Date(_)
        | ColumnData::Time { .. }
        | ColumnData::Timestamp { .. }
        | ColumnData::List { .. }
        | ColumnData::Map { .. }
        | ColumnData::Row { .. } => None,
    };
    done(column, pushed)
}

/// Appends `true` or `false`. False where the type cannot read it; then nothing was appended.
pub(super) fn push_boolean(column: &mut Column, value: bool) -> bool {
    let pushed = match &mut column.data {
        ColumnData::Boolean(values) => {
            values.append(value);
            Some(())
        }
        ColumnData::Text(values) => {
            values.push(if value { b"true" } else { b"false" });
            Some(())
        }
        ColumnData::Null => {
            column.push_null();
            return true;
        }
        _ => None,
    };
    done(column, pushed)
}

fn done(column: &mut Column, pushed: Option<()>) -> bool {
    if pushed.is_some() {
        column.valid();
    }
    pushed.is_some()
}

fn push<T>(values: &mut Vec<T>, value: Option<T>) -> Option<()> {
    values.push(value?);
    Some(())
}

fn narrow<T: TryFrom<i64>>(value: Option<i64>) -> Option<T> {
    T::try_from(value?).ok()
}

fn parse_number<T: FromStr>(token: &[u8]) -> Option<T> {
    std::str::from_utf8(token).ok()?.parse().ok()
}

/// The part of a number before its point; `None` past 64 bits.
fn whole_part(token: &[u8]) -> Option<i64> {
    if let Some(value) = parse_integer(token) {
        return Some(value);
    }
    if token.iter().all(|byte| !matches!(byte, b'.' | b'e' | b'E')) {
        return None;
    }
    let value: f64 = parse_number(token)?;
    let fits = value >= i64::MIN as f64 && value < -(i64::MIN as f64);
    fits.then_some(value as i64)
}

fn push_decimal(column: &mut Column, text: &[u8]) -> bool {
    let ColumnData::Decimal {
        values,
        precision,
        scale,
    } = &mut column.data
    else {
        return false;
    };
    match parse_decimal(text, *precision, *scale) {
        DecimalText::Unscaled(value) => {
            values.push(value);
            column.valid();
            true
        }
        DecimalText::TooWide => {
            column.push_null();
            true
        }
        DecimalText::Malformed => false,
    }
}

fn push_base64(values: &mut VariableBytes, text: &[u8]) -> Option<()> {
    let before = values.bytes.len();
    let dense: Vec<u8> = text
        .iter()
        .copied()
        .filter(|byte| !byte.is_ascii_whitespace())
        .collect();
    let decoded = base64::engine::general_purpose::STANDARD.decode_vec(&dense, &mut values.bytes);
    if decoded.is_err() {
        values.bytes.truncate(before);
        return None;
    }
    values.close();
    Some(())
}
