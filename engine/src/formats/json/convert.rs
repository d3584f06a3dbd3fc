//! One JSON number or boolean into one column, by Flink's rules: which SQL types read it, and how. (For strings, see
//! `text_value`.)
//!
//! Both readers, the fast and the tolerant one, end here, so that they cannot differ in what a value means.

use std::str::FromStr;

use crate::formats::columns::{Column, ColumnData};
use crate::formats::number_text::parse_integer;
use crate::formats::text_value::{done, narrow, push, push_decimal};

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
