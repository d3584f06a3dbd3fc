//! One text into one column, by Flink's rules: how each SQL type reads a JSON string or a CSV field.

use base64::Engine;

use super::columns::{Column, ColumnData, VariableBytes};
use super::number_text::{DecimalText, parse_decimal, parse_floating, parse_integer, trim};
use super::time_text::{
    TimestampStyle, parse_date, parse_lenient_date, parse_time, parse_timestamp,
};

/// Where formats differ.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextRules {
    pub(super) timestamps: TimestampStyle,
    /// CSV's dates roll over, its times need no seconds, and blanks around timestamps do not matter.
    pub(super) lenient: bool,
}

/// Appends a text. False where the type cannot read it; then nothing was appended.
pub(super) fn push_text(column: &mut Column, text: &[u8], rules: &TextRules) -> bool {
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
        ColumnData::Date(values) if rules.lenient => push(values, parse_lenient_date(text)),
        ColumnData::Date(values) => push(values, parse_date(text)),
        ColumnData::Time { values, precision } => push(values, time(text, *precision, rules)),
        ColumnData::Timestamp {
            values,
            unit,
            zoned,
        } => {
            let text = if rules.lenient { trim(text) } else { text };
            push(
                values,
                parse_timestamp(text, rules.timestamps, *zoned, *unit),
            )
        }
        ColumnData::Null => {
            column.push_null();
            return true;
        }
        ColumnData::List { .. } | ColumnData::Map { .. } | ColumnData::Row { .. } => None,
    };
    done(column, pushed)
}

pub(super) fn done(column: &mut Column, pushed: Option<()>) -> bool {
    if pushed.is_some() {
        column.valid();
    }
    pushed.is_some()
}

pub(super) fn push<T>(values: &mut Vec<T>, value: Option<T>) -> Option<()> {
    values.push(value?);
    Some(())
}

pub(super) fn narrow<T: TryFrom<i64>>(value: Option<i64>) -> Option<T> {
    T::try_from(value?).ok()
}

/// JSON keeps all milliseconds of a TIME, CSV as many digits as its precision says.
fn time(text: &[u8], precision: u8, rules: &TextRules) -> Option<i32> {
    if !rules.lenient {
        return parse_time(text, TimestampStyle::Sql);
    }
    let millis = parse_time(text, TimestampStyle::Iso)?;
    let step = 10_i32.pow(3_u32.saturating_sub(precision.into()));
    Some(millis / step * step)
}

/// Appends a DECIMAL; one that is too wide is NULL.
pub(super) fn push_decimal(column: &mut Column, text: &[u8]) -> bool {
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
