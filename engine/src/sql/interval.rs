//! INTERVAL literals: the text and the units give milliseconds or months.

use sqlparser::ast::{DateTimeField, Expr, Interval, UnaryOperator, Value};

use crate::error::{Error, Result};
use crate::expr::{Expression, Literal};
use crate::types::{LogicalType, TypeRoot};

/// The constant that an INTERVAL literal stands for. Errors lack the place.
pub(super) fn bind_interval(interval: &Interval) -> Result<Expression> {
    let Interval {
        value,
        leading_field,
        leading_precision: _, // Intervals are held in full range whatever precision is written.
        last_field,
        fractional_seconds_precision: _,
    } = interval;
    let (text, negated) = text_of(value)?;
    let Some(leading) = leading_field else {
        return Err(Error::user(format!("INTERVAL '{text}' needs a unit"))
            .hint("as in INTERVAL '5' SECOND"));
    };
    let last = last_field.as_ref().unwrap_or(leading);
    let (first, last) = (Unit::of(leading)?, Unit::of(last)?);
    let amount = read(text, first, last).ok_or_else(|| wrong_form(text, first, last))?;
    let amount = if negated { -amount } else { amount };
    let root = if first.is_month() {
        TypeRoot::IntervalYearMonth
    } else {
        TypeRoot::IntervalDayTime
    };
    Ok(Expression::literal(
        Literal::Integer(amount),
        LogicalType::not_null(root),
    ))
}

fn text_of(value: &Expr) -> Result<(&str, bool)> {
    match value {
        Expr::Value(literal) => match &literal.value {
            Value::SingleQuotedString(text) => Ok((text.trim(), false)),
            _ => Err(not_a_string(value)),
        },
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => text_of(expr).map(|(text, negated)| (text, !negated)),
        Expr::UnaryOp {
            op: UnaryOperator::Plus,
            expr,
        } => text_of(expr),
        _ => Err(not_a_string(value)),
    }
}

fn not_a_string(value: &Expr) -> Error {
    Error::user(format!(
        "INTERVAL takes a string in single quotes, not {value}"
    ))
    .hint("as in INTERVAL '5' SECOND")
}

/// The units in falling order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
}

impl Unit {
    fn of(field: &DateTimeField) -> Result<Unit> {
        Ok(match field {
            DateTimeField::Year | DateTimeField::Years => Unit::Year,
            DateTimeField::Quarter => Unit::Quarter,
            DateTimeField::Month | DateTimeField::Months => Unit::Month,
            DateTimeField::Week(None) | DateTimeField::Weeks => Unit::Week,
            DateTimeField::Day | DateTimeField::Days => Unit::Day,
            DateTimeField::Hour | DateTimeField::Hours => Unit::Hour,
            DateTimeField::Minute | DateTimeField::Minutes => Unit::Minute,
            DateTimeField::Second | DateTimeField::Seconds => Unit::Second,
            other => {
                return Err(Error::user(format!("INTERVAL has no unit {other}"))
                    .hint("units: YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND"));
            }
        })
    }

    fn is_month(self) -> bool {
        self <= Unit::Month
    }

    /// Months, or milliseconds.
    fn size(self) -> i64 {
        match self {
            Unit::Year => 12,
            Unit::Quarter => 3,
            Unit::Month => 1,
            Unit::Week => 7 * 86_400_000,
            Unit::Day => 86_400_000,
            Unit::Hour => 3_600_000,
            Unit::Minute => 60_000,
            Unit::Second => 1_000,
        }
    }

    /// How many make one of the next larger unit.
    fn limit(self) -> i64 {
        match self {
            Unit::Month => 12,
            Unit::Hour => 24,
            Unit::Minute | Unit::Second => 60,
            Unit::Year | Unit::Quarter | Unit::Week | Unit::Day => i64::MAX,
        }
    }

    fn name(self) -> String {
        format!("{self:?}").to_uppercase()
    }
}

fn wrong_form(text: &str, first: Unit, last: Unit) -> Error {
    let units = if first == last {
        first.name()
    } else {
        format!("{} TO {}", first.name(), last.name())
    };
    let example = match (first, last) {
        (Unit::Year, Unit::Month) => "'1-2'".to_string(),
        (Unit::Day, Unit::Second) => "'1 02:03:04.567'".to_string(),
        (Unit::Day, Unit::Hour) => "'1 02'".to_string(),
        (Unit::Day, Unit::Minute) => "'1 02:03'".to_string(),
        (Unit::Hour, Unit::Minute) | (Unit::Minute, Unit::Second) => "'01:02'".to_string(),
        (Unit::Hour, Unit::Second) => "'01:02:03'".to_string(),
        _ => "'5'".to_string(),
    };
    Error::user(format!("'{text}' is no INTERVAL of {units}"))
        .hint(format!("as in INTERVAL {example} {units}"))
}

/// The units of a literal from the first to the last, as they may stand in one.
fn units(first: Unit, last: Unit) -> Option<Vec<Unit>> {
    if first == last {
        return Some(vec![first]);
    }
    if (first, last) == (Unit::Year, Unit::Month) {
        return Some(vec![first, last]);
    }
    let times = [Unit::Day, Unit::Hour, Unit::Minute, Unit::Second];
    let start = times.iter().position(|unit| *unit == first)?;
    let end = times.iter().position(|unit| *unit == last)?;
    (start < end).then(|| times[start..=end].to_vec())
}

fn read(text: &str, first: Unit, last: Unit) -> Option<i64> {
    let (sign, text) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let units = units(first, last)?;
    let parts = split(text, &units)?;
    let mut amount: i64 = 0;
    for (index, (unit, part)) in units.iter().zip(parts).enumerate() {
        let limit = if index == 0 { i64::MAX } else { unit.limit() };
        amount = amount.checked_add(read_part(part, *unit, limit)?)?;
    }
    Some(sign * amount)
}

/// The parts of the text, one a unit: a blank behind days, a dash behind years, colons else.
fn split<'t>(text: &'t str, units: &[Unit]) -> Option<Vec<&'t str>> {
    let mut parts = Vec::with_capacity(units.len());
    let mut rest = text;
    for unit in &units[..units.len() - 1] {
        let separator = match unit {
            Unit::Year => '-',
            Unit::Day => ' ',
            _ => ':',
        };
        let (part, behind) = rest.split_once(separator)?;
        parts.push(part);
        rest = behind.trim_start();
    }
    parts.push(rest);
    Some(parts)
}

fn read_part(text: &str, unit: Unit, limit: i64) -> Option<i64> {
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) if unit == Unit::Second => (whole, fraction),
        Some(_) => return None,
        None => (text, ""),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || (text.contains('.') && (!digits(fraction) || fraction.len() > 9)) {
        return None;
    }
    let whole: i64 = whole.parse().ok().filter(|whole| *whole < limit)?;
    let millis: i64 = format!("{:0<3}", fraction)[..3].parse().ok()?;
    whole.checked_mul(unit.size())?.checked_add(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day_time(text: &str, first: Unit, last: Unit) -> Option<i64> {
        read(text, first, last)
    }

    #[test]
    fn all_forms_are_read() {
        assert_eq!(day_time("5", Unit::Second, Unit::Second), Some(5_000));
        assert_eq!(day_time("0.001", Unit::Second, Unit::Second), Some(1));
        assert_eq!(day_time("-1.5", Unit::Second, Unit::Second), Some(-1_500));
        assert_eq!(day_time("90", Unit::Minute, Unit::Minute), Some(5_400_000));
        assert_eq!(
            day_time("1 02:03:04.5", Unit::Day, Unit::Second),
            Some(93_784_500)
        );
        assert_eq!(day_time("1 02", Unit::Day, Unit::Hour), Some(93_600_000));
        assert_eq!(day_time("2:30", Unit::Hour, Unit::Minute), Some(9_000_000));
        assert_eq!(day_time("1-2", Unit::Year, Unit::Month), Some(14));
        assert_eq!(day_time("2", Unit::Quarter, Unit::Quarter), Some(6));
        assert_eq!(day_time("1", Unit::Week, Unit::Week), Some(604_800_000));
    }

    #[test]
    fn wrong_forms_are_refused() {
        assert_eq!(day_time("", Unit::Second, Unit::Second), None);
        assert_eq!(day_time("x", Unit::Second, Unit::Second), None);
        assert_eq!(day_time("1.5", Unit::Minute, Unit::Minute), None);
        assert_eq!(day_time("1 25", Unit::Day, Unit::Hour), None);
        assert_eq!(day_time("1-12", Unit::Year, Unit::Month), None);
        assert_eq!(day_time("1 1", Unit::Month, Unit::Day), None);
        assert_eq!(day_time("99999999999999999999", Unit::Day, Unit::Day), None);
        assert_eq!(day_time("9223372036854775807", Unit::Day, Unit::Day), None);
    }
}
