//! Literals: numbers, strings, DATE, TIME and TIMESTAMP with the types that Flink gives them.

use chrono::{NaiveDate, NaiveTime, Timelike};
use sqlparser::ast::{DataType, TypedString, Value};

use crate::error::{Error, Result};
use crate::expr::{Expression, Literal};
use crate::types::{LogicalType, TypeRoot};

/// The constant that a literal stands for. Errors lack the place.
pub(super) fn bind_literal(value: &Value) -> Result<Expression> {
    match value {
        Value::Number(digits, long) => {
            if *long {
                return Err(Error::user(format!("{digits}L is no number")));
            }
            bind_number(digits)
        }
        Value::SingleQuotedString(text) | Value::UnicodeStringLiteral(text) => Ok(string(text)),
        Value::HexStringLiteral(digits) => bind_binary(digits),
        Value::Boolean(value) => Ok(Expression::literal(
            Literal::Boolean(*value),
            LogicalType::not_null(TypeRoot::Boolean),
        )),
        Value::Null => Ok(null()),
        Value::DoubleQuotedString(text) => Err(Error::user(format!(
            "syntax error: \"{text}\" is neither a name nor a string"
        ))
        .hint(format!(
            "quote strings with ' and names with back-ticks: '{text}' or `{text}`"
        ))),
        other => Err(Error::unsupported(format!("the literal {other}"))),
    }
}

/// The bare NULL.
pub(super) fn null() -> Expression {
    Expression::literal(Literal::Null, LogicalType::nullable(TypeRoot::Null))
}

/// A string constant, CHAR(n) NOT NULL.
pub(super) fn string(text: &str) -> Expression {
    Expression::literal(
        Literal::String(text.to_string()),
        LogicalType::not_null(TypeRoot::Char(text.chars().count() as u32)),
    )
}

/// A number: INT or BIGINT where it has no fraction and fits, else DECIMAL, or DOUBLE where it has an exponent. `digits` may
/// begin with a minus sign.
pub(super) fn bind_number(digits: &str) -> Result<Expression> {
    if digits.contains(['e', 'E']) {
        let value: f64 = digits
            .parse()
            .map_err(|_| Error::user(format!("{digits} is no number")))?;
        return Ok(Expression::literal(
            Literal::double(value),
            LogicalType::not_null(TypeRoot::Double),
        ));
    }
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if fraction.is_empty()
        && let Ok(value) = whole.parse::<i64>()
    {
        let root = match i32::try_from(value) {
            Ok(_) => TypeRoot::Int,
            Err(_) => TypeRoot::BigInt,
        };
        return Ok(Expression::literal(
            Literal::Integer(value),
            LogicalType::not_null(root),
        ));
    }
    bind_decimal(digits, whole, fraction)
}

/// The precision counts all digits as written, leading zeros too: 0.001 is DECIMAL(4, 3).
fn bind_decimal(digits: &str, whole: &str, fraction: &str) -> Result<Expression> {
    let precision = whole.trim_start_matches('-').len() + fraction.len();
    if precision > 38 {
        return Err(Error::user(format!(
            "the number {digits} has more than 38 digits"
        )));
    }
    let unscaled: i128 = format!("{whole}{fraction}")
        .parse()
        .map_err(|_| Error::user(format!("{digits} is no number")))?;
    Ok(Expression::literal(
        Literal::Decimal(unscaled.to_string()),
        LogicalType::not_null(TypeRoot::Decimal {
            precision: precision as u8,
            scale: fraction.len() as u8,
        }),
    ))
}

fn bind_binary(digits: &str) -> Result<Expression> {
    let wrong = || {
        Error::user(format!(
            "X'{digits}' does not hold an even number of hexadecimal digits"
        ))
    };
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return Err(wrong());
    }
    let bytes = (0..digits.len())
        .step_by(2)
        .map(|start| u8::from_str_radix(&digits[start..start + 2], 16).map_err(|_| wrong()))
        .collect::<Result<Vec<u8>>>()?;
    let root = TypeRoot::Binary(bytes.len() as u32);
    Ok(Expression::literal(
        Literal::Binary(bytes),
        LogicalType::not_null(root),
    ))
}

/// `DATE '…'`, `TIME '…'`, `TIMESTAMP '…'`.
pub(super) fn bind_typed_string(literal: &TypedString) -> Result<Expression> {
    let TypedString {
        data_type,
        value,
        uses_odbc_syntax,
    } = literal;
    let Value::SingleQuotedString(text) = &value.value else {
        return Err(Error::user(format!(
            "{data_type} takes a string in single quotes, not {value}"
        )));
    };
    if *uses_odbc_syntax {
        return Err(Error::unsupported("the literal form {…}"));
    }
    let bound = match data_type {
        DataType::Date => read_date(text),
        DataType::Time(None, sqlparser::ast::TimezoneInfo::None) => read_time(text),
        DataType::Timestamp(None, sqlparser::ast::TimezoneInfo::None) => read_timestamp(text),
        other => {
            return Err(
                Error::unsupported(format!("the literal {other} '{text}'")).hint(format!(
                    "literals are DATE '…', TIME '…' and TIMESTAMP '…'; else write CAST('{text}' AS {other})"
                )),
            );
        }
    };
    bound.ok_or_else(|| {
        Error::user(format!("'{text}' is no {data_type}")).hint(
            "as in DATE '2024-01-31', TIME '12:30:00.5' and TIMESTAMP '2024-01-31 12:30:00.123'",
        )
    })
}

fn read_date(text: &str) -> Option<Expression> {
    Some(Expression::literal(
        Literal::Integer(parse_date(text)?),
        LogicalType::not_null(TypeRoot::Date),
    ))
}

fn read_time(text: &str) -> Option<Expression> {
    let (nanos, digits) = parse_time(text)?;
    Some(Expression::literal(
        Literal::Integer(nanos / 1_000_000),
        LogicalType::not_null(TypeRoot::Time(digits)),
    ))
}

/// The precision is the number of digits behind the point.
fn read_timestamp(text: &str) -> Option<Expression> {
    let text = text.trim();
    let (date, (nanos, digits)) = match text.split_once(' ') {
        Some((date, time)) => (parse_date(date)?, parse_time(time)?),
        None => (parse_date(text)?, (0, 0)),
    };
    let unit_nanos = match digits {
        0..=3 => 1_000_000,
        4..=6 => 1_000,
        _ => 1,
    };
    let value = date
        .checked_mul(86_400_000_000_000 / unit_nanos)?
        .checked_add(nanos / unit_nanos)?;
    Some(Expression::literal(
        Literal::Integer(value),
        LogicalType::not_null(TypeRoot::Timestamp(digits)),
    ))
}

/// `yyyy-mm-dd` as days since 1970.
fn parse_date(text: &str) -> Option<i64> {
    let mut parts = text.trim().split('-');
    let mut number = |digits: usize| {
        let part = parts.next()?;
        let fits = (1..=digits).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        fits.then(|| part.parse::<u32>().ok()).flatten()
    };
    let (year, month, day) = (number(4)?, number(2)?, number(2)?);
    if parts.next().is_some() || year == 0 {
        return None;
    }
    let date = NaiveDate::from_ymd_opt(year as i32, month, day)?;
    Some(date.signed_duration_since(NaiveDate::default()).num_days())
}

/// `hh:mm[:ss[.f…]]` as nanoseconds of the day and the number of digits behind the point.
fn parse_time(text: &str) -> Option<(i64, u8)> {
    let text = text.trim();
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let time = NaiveTime::parse_from_str(clock, "%H:%M:%S")
        .or_else(|_| NaiveTime::parse_from_str(clock, "%H:%M"))
        .ok()?;
    let nanos: i64 = format!("{fraction:0<9}").parse().ok()?;
    let seconds = time.num_seconds_from_midnight() as i64;
    Some((seconds * 1_000_000_000 + nanos, fraction.len() as u8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(digits: &str) -> String {
        let bound = bind_number(digits).unwrap();
        format!("{bound} {}", bound.logical_type())
    }

    #[test]
    fn numbers_have_the_types_of_flink() {
        assert_eq!(number("1"), "1 INT NOT NULL");
        assert_eq!(number("-2147483648"), "-2147483648 INT NOT NULL");
        assert_eq!(number("2147483648"), "2147483648 BIGINT NOT NULL");
        assert_eq!(number("0.001"), "1:DECIMAL(4, 3) DECIMAL(4, 3) NOT NULL");
        assert_eq!(number(".5"), "5:DECIMAL(1, 1) DECIMAL(1, 1) NOT NULL");
        assert_eq!(number("1e3"), "1000.0 DOUBLE NOT NULL");
        assert!(bind_number(&"9".repeat(39)).is_err());
    }

    #[test]
    fn timestamps_have_the_precision_that_is_written() {
        let bound = read_timestamp("1970-01-02 00:00:01.5").unwrap();
        assert_eq!(
            bound,
            Expression::literal(
                Literal::Integer(86_401_500),
                LogicalType::not_null(TypeRoot::Timestamp(1))
            )
        );
        let micros = read_timestamp("1969-12-31 23:59:59.999999").unwrap();
        assert_eq!(
            micros,
            Expression::literal(
                Literal::Integer(-1),
                LogicalType::not_null(TypeRoot::Timestamp(6))
            )
        );
        assert!(read_timestamp("2024-02-30 00:00:00").is_none());
        assert!(read_timestamp("2024-02-03T00:00:00").is_none());
        assert!(read_date("2024-1-2").is_some());
    }
}
