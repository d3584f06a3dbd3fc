//! FLOOR and CEIL of numbers and of times TO a unit; ROUND and TRUNCATE.

use arrow::array::ArrayRef;
use arrow::datatypes::*;

use crate::error::{Error, Result};
use crate::expr::calendar::*;
use crate::expr::cast::{LocalClock, ticks};
use crate::expr::{Arguments, Call, Expression, Kernel, Literal, decimal};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("FLOOR", bind_step, |call| step(call, false)).failing(fails_on_time),
    ScalarFunction::new("CEIL", bind_step, |call| step(call, true)).failing(fails_on_time),
    ScalarFunction::new("ROUND", bind_round, |call| round(call, true)),
    ScalarFunction::new("TRUNCATE", bind_round, |call| round(call, false)),
];

/// Only nanoseconds can run out of 64 bits.
fn fails_on_time(arguments: &[Expression]) -> bool {
    matches!(
        arguments[0].logical_type().root,
        TypeRoot::Timestamp(7..) | TypeRoot::TimestampLtz(7..)
    )
}

/// `FLOOR(number)` or `FLOOR(time, unit)`.
fn bind_step(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=2)?;
    if binding.arguments.len() == 2 {
        return bind_time_step(binding);
    }
    let root = match binding.root(0) {
        TypeRoot::Null => TypeRoot::Int,
        TypeRoot::Decimal { precision, scale } => TypeRoot::Decimal {
            precision: if *scale == 0 {
                *precision
            } else {
                precision - scale + 1
            }
            .min(38),
            scale: 0,
        },
        root if root.is_numeric() => root.clone(),
        _ => return Err(binding.wrong_argument(0, "a number, or a time and a unit")),
    };
    if *binding.root(0) == TypeRoot::Null {
        binding.cast(0, &root);
    }
    Ok(binding.result(root))
}

fn bind_time_step(binding: &mut Binding) -> Result<LogicalType> {
    let unit = binding.literal_text(1)?.to_string();
    if Step::of(&unit).is_none() {
        return Err(Error::user(format!("{} has no unit {unit}", binding.name)).hint(
            "units: MILLENNIUM, CENTURY, DECADE, YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, MILLISECOND",
        ));
    }
    match binding.root(0) {
        TypeRoot::Null => binding.cast(0, &TypeRoot::Timestamp(3)),
        TypeRoot::Date | TypeRoot::Time(_) => {}
        root if root.is_timestamp() => {}
        _ => return Err(binding.wrong_argument(0, "a date or time")),
    }
    Ok(binding.result(binding.root(0).clone()))
}

fn step(call: &Call, is_up: bool) -> Result<Kernel> {
    if call.arguments.len() == 2 {
        return step_of_time(call, is_up);
    }
    Ok(match call.argument_type(0).root {
        TypeRoot::Float => Box::new(move |arguments| {
            let values = arguments.primitives::<Float32Type>(0);
            let function = if is_up { f32::ceil } else { f32::floor };
            Ok(arguments.map::<Float32Type>(|row| function(values.get(row))))
        }),
        TypeRoot::Double => Box::new(move |arguments| {
            let values = arguments.primitives::<Float64Type>(0);
            let function = if is_up { f64::ceil } else { f64::floor };
            Ok(arguments.map::<Float64Type>(|row| function(values.get(row))))
        }),
        TypeRoot::Decimal { scale, .. } => Box::new(move |arguments| {
            let values = arguments.primitives::<Decimal128Type>(0);
            let unit = decimal::power_of_ten(scale);
            Ok(arguments.map::<Decimal128Type>(|row| {
                let value = values.get(row);
                let floor = value.div_euclid(unit);
                floor + i128::from(is_up && floor * unit != value)
            }))
        }),
        // Whole numbers are what they are.
        _ => Box::new(|arguments| arguments.expanded(0)),
    })
}

/// A distance to which times are rounded.
#[derive(Debug, Clone, Copy)]
enum Step {
    Millis(i64),
    /// Weeks begin on Sunday.
    Week,
    Months(i64),
    /// Centuries and millennia begin with the year 1 of them.
    Years(i64, i64),
}

impl Step {
    fn of(unit: &str) -> Option<Step> {
        Some(match unit.to_ascii_uppercase().as_str() {
            "MILLISECOND" => Step::Millis(1),
            "SECOND" => Step::Millis(MILLIS_PER_SECOND),
            "MINUTE" => Step::Millis(MILLIS_PER_MINUTE),
            "HOUR" => Step::Millis(MILLIS_PER_HOUR),
            "DAY" => Step::Millis(MILLIS_PER_DAY),
            "WEEK" => Step::Week,
            "MONTH" => Step::Months(1),
            "QUARTER" => Step::Months(3),
            "YEAR" => Step::Months(12),
            "DECADE" => Step::Years(10, 0),
            "CENTURY" => Step::Years(100, 1),
            "MILLENNIUM" => Step::Years(1000, 1),
            _ => return None,
        })
    }

    fn floor_days(self, days: i64) -> i64 {
        match self {
            Step::Millis(_) => days,
            Step::Week => days - iso_day_of_week(days) % 7,
            Step::Months(step) => {
                let (year, month, _) = date_from_days(days);
                let months = year * 12 + month - 1;
                days_from_date(0, months.div_euclid(step) * step + 1, 1)
            }
            Step::Years(step, first) => {
                let (year, _, _) = date_from_days(days);
                days_from_date((year - first).div_euclid(step) * step + first, 1, 1)
            }
        }
    }

    fn next_days(self, floor: i64) -> i64 {
        match self {
            Step::Millis(_) => floor + 1,
            Step::Week => floor + 7,
            Step::Months(step) => add_months_to_days(floor, step),
            Step::Years(step, _) => add_months_to_days(floor, 12 * step),
        }
    }

    /// A wall clock in milliseconds, rounded down or up; `had_more` tells that the time lies behind its millisecond.
    ///
    /// From WEEK on Flink looks at the day only, which it rounds toward zero before 1970, and CEIL ignores the time of day:
    /// 10:00 on the first of a month is rounded up to that day.
    #[inline]
    fn round(self, millis: i64, is_up: bool, had_more: bool) -> i64 {
        if let Step::Millis(step) = self {
            let floor = millis.div_euclid(step) * step;
            return if is_up && (floor != millis || had_more) {
                floor.saturating_add(step)
            } else {
                floor
            };
        }
        let day = millis / MILLIS_PER_DAY;
        let floor = self.floor_days(day);
        if is_up && floor != day {
            self.next_days(floor) * MILLIS_PER_DAY
        } else {
            floor * MILLIS_PER_DAY
        }
    }
}

fn step_of_time(call: &Call, is_up: bool) -> Result<Kernel> {
    let step = call
        .text(1)
        .and_then(Step::of)
        .ok_or_else(|| Error::internal("FLOOR is bound with a known unit"))?;
    let zone = call.context.time_zone;
    if let (Step::Millis(step), TypeRoot::Timestamp(0..=3), false) =
        (step, &call.argument_type(0).root, is_up)
    {
        // The hot one: hours of milliseconds.
        return Ok(Box::new(move |arguments| {
            let times = arguments.primitives::<TimestampMillisecondType>(0);
            Ok(arguments.map::<TimestampMillisecondType>(|row| {
                let time = times.get(row);
                time.saturating_sub(time.rem_euclid(step))
            }))
        }));
    }
    Ok(match call.argument_type(0).root.clone() {
        TypeRoot::Date => Box::new(move |arguments| {
            let days = arguments.primitives::<Date32Type>(0);
            Ok(arguments.map::<Date32Type>(|row| {
                let millis = days.get(row) as i64 * MILLIS_PER_DAY;
                step.round(millis, is_up, false).div_euclid(MILLIS_PER_DAY) as i32
            }))
        }),
        TypeRoot::Time(_) => Box::new(move |arguments| {
            let times = arguments.primitives::<Time32MillisecondType>(0);
            Ok(arguments.map::<Time32MillisecondType>(|row| {
                step.round(times.get(row) as i64, is_up, false) as i32
            }))
        }),
        TypeRoot::Timestamp(p) => Box::new(move |arguments| {
            timestamps(arguments, p, |millis, more| step.round(millis, is_up, more))
        }),
        // On the wall clock, and back by the offset of the time itself: as in Flink, the day of a change of the clock does
        // not begin at its midnight.
        TypeRoot::TimestampLtz(p) => Box::new(move |arguments| {
            let mut clock = LocalClock::new(zone);
            timestamps(arguments, p, |millis, more| {
                let local = clock.local_of(millis);
                step.round(local, is_up, more) - (local - millis)
            })
        }),
        other => return Err(Error::internal(format!("FLOOR of {other}"))),
    })
}

fn timestamps(
    arguments: &Arguments,
    p: u8,
    mut round: impl FnMut(i64, bool) -> i64,
) -> Result<ArrayRef> {
    let value = arguments.value(0);
    let times = ticks(&value.array);
    let mut rounded = |row: usize| {
        let time = times[value.index(row)];
        let millis = round(to_millis(time, p), nanos_of_milli(time, p) != 0);
        from_millis(millis, 0, p).ok_or_else(|| Error::data("the rounded time is out of range"))
    };
    match units_per_milli(p) {
        1 => arguments.try_map::<TimestampMillisecondType>(&mut rounded),
        1_000 => arguments.try_map::<TimestampMicrosecondType>(&mut rounded),
        _ => arguments.try_map::<TimestampNanosecondType>(&mut rounded),
    }
}

/// `ROUND(number[, places])`, half up; `TRUNCATE(number[, places])`, toward zero. A DECIMAL keeps at most `places` digits
/// behind the point where that is a literal.
fn bind_round(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=2)?;
    if binding.arguments.len() == 1 {
        let zero = Expression::literal(Literal::Integer(0), LogicalType::not_null(TypeRoot::Int));
        binding.arguments.push(zero);
    }
    let places = binding.literal_integer(1);
    binding.integer(1)?;
    let root = match binding.root(0) {
        TypeRoot::Null => TypeRoot::Int,
        TypeRoot::Decimal { precision, scale } => match places {
            Some(places) => rounded_decimal(*precision, *scale, places),
            None => binding.root(0).clone(),
        },
        root if root.is_numeric() => root.clone(),
        _ => return Err(binding.wrong_argument(0, "a number")),
    };
    if *binding.root(0) == TypeRoot::Null {
        binding.cast(0, &root);
    }
    Ok(binding.result(root))
}

/// One digit more before the point, for 9.9 becomes 10.
fn rounded_decimal(precision: u8, scale: u8, places: i64) -> TypeRoot {
    if places >= scale as i64 {
        return TypeRoot::Decimal { precision, scale };
    }
    let kept = places.max(0) as u8;
    TypeRoot::Decimal {
        precision: (precision - scale + 1 + kept).min(38),
        scale: kept,
    }
}

fn round(call: &Call, is_half_up: bool) -> Result<Kernel> {
    let root = call.logical_type.root.clone();
    Ok(match (&call.argument_type(0).root, root) {
        (TypeRoot::Decimal { scale, .. }, TypeRoot::Decimal { scale: to, .. }) => {
            let scale = *scale;
            Box::new(move |arguments| {
                let values = arguments.primitives::<Decimal128Type>(0);
                let places = arguments.primitives::<Int64Type>(1);
                arguments.try_map_optional::<Decimal128Type>(|row| {
                    let places = places.get(row).clamp(-38, 38);
                    let rounded = round_decimal(values.get(row), scale, places, is_half_up);
                    Ok(Some(if to < scale {
                        rounded / decimal::power_of_ten(scale - to)
                    } else {
                        rounded
                    }))
                })
            })
        }
        (TypeRoot::Float | TypeRoot::Double, root) => Box::new(move |arguments| {
            let places = arguments.primitives::<Int64Type>(1);
            if root == TypeRoot::Float {
                let values = arguments.primitives::<Float32Type>(0);
                return Ok(arguments.map::<Float32Type>(|row| {
                    round_double(values.get(row) as f64, places.get(row), is_half_up) as f32
                }));
            }
            let values = arguments.primitives::<Float64Type>(0);
            Ok(arguments.map::<Float64Type>(|row| {
                round_double(values.get(row), places.get(row), is_half_up)
            }))
        }),
        (TypeRoot::TinyInt, _) => integers::<Int8Type>(is_half_up, |value| value as i8),
        (TypeRoot::SmallInt, _) => integers::<Int16Type>(is_half_up, |value| value as i16),
        (TypeRoot::Int, _) => integers::<Int32Type>(is_half_up, |value| value as i32),
        (TypeRoot::BigInt, _) => integers::<Int64Type>(is_half_up, |value| value),
        (other, _) => return Err(Error::internal(format!("ROUND of {other}"))),
    })
}

fn integers<T: arrow::array::ArrowPrimitiveType<Native: Into<i64>>>(
    is_half_up: bool,
    narrow: fn(i64) -> T::Native,
) -> Kernel {
    Box::new(move |arguments| {
        let values = arguments.primitives::<T>(0);
        let places = arguments.primitives::<Int64Type>(1);
        Ok(arguments.map::<T>(|row| {
            let value: i64 = values.get(row).into();
            let places = places.get(row).clamp(-38, 38);
            narrow(round_decimal(value as i128, 0, places, is_half_up) as i64)
        }))
    })
}

/// The value with digits behind `places` (of the decimal point; negative: before it) made 0.
fn round_decimal(value: i128, scale: u8, places: i64, is_half_up: bool) -> i128 {
    let dropped = scale as i64 - places;
    if dropped <= 0 {
        return value;
    }
    if dropped > 38 {
        return 0;
    }
    let unit = decimal::power_of_ten(dropped as u8);
    let rest = value % unit;
    let floor = value - rest;
    if is_half_up && rest.abs() >= unit - rest.abs() {
        floor + unit * value.signum()
    } else {
        floor
    }
}

/// By the digits that the number is written with, as Java's BigDecimal.
fn round_double(value: f64, places: i64, is_half_up: bool) -> f64 {
    if !value.is_finite() {
        return value;
    }
    let text = format!("{:e}", value.abs());
    let (digits, exponent) = text.split_once('e').expect("scientific notation has an e");
    let exponent: i64 = exponent.parse().expect("an exponent is a number");
    let fraction = digits
        .split_once('.')
        .map_or(0, |(_, fraction)| fraction.len() as i64);
    let scale = fraction - exponent;
    if places >= scale {
        return value;
    }
    let unscaled: i128 = digits.replace('.', "").parse().expect("at most 17 digits");
    let dropped = scale - places;
    let rounded = if dropped > 37 {
        0
    } else {
        let unit = decimal::power_of_ten(dropped as u8);
        let rest = unscaled % unit;
        (unscaled - rest) / unit + i128::from(is_half_up && rest >= unit - rest)
    };
    let text = format!("{rounded}e{}", -places);
    let magnitude: f64 = text.parse().expect("digits and an exponent are a number");
    magnitude.copysign(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_round_by_their_digits() {
        assert_eq!(
            round_double(2.675, 2, true),
            2.68,
            "not 2.67: the digits decide"
        );
        assert_eq!(round_double(-1.5, 0, true), -2.0);
        assert_eq!(round_double(1.25, 1, false), 1.2);
        assert_eq!(round_double(1234.5, -2, true), 1200.0);
        assert_eq!(round_double(1e300, 2, true), 1e300);
        assert_eq!(round_double(1e-300, 2, true), 0.0);
    }

    #[test]
    fn times_round_to_units_before_and_after_1970() {
        let at = |y, m, d| days_from_date(y, m, d) * MILLIS_PER_DAY;
        let floor = |unit: &str, millis| Step::of(unit).unwrap().round(millis, false, false);
        let ceil = |unit: &str, millis| Step::of(unit).unwrap().round(millis, true, false);
        assert_eq!(floor("HOUR", -1), -MILLIS_PER_HOUR);
        assert_eq!(floor("MONTH", at(1969, 12, 31)), at(1969, 12, 1));
        assert_eq!(floor("MONTH", -1), 0, "the day is rounded toward zero");
        assert_eq!(floor("QUARTER", at(2024, 6, 30) + 5), at(2024, 4, 1));
        assert_eq!(floor("WEEK", at(2024, 1, 3)), at(2023, 12, 31), "a Sunday");
        assert_eq!(ceil("YEAR", at(2024, 1, 1)), at(2024, 1, 1));
        assert_eq!(
            ceil("YEAR", at(2024, 1, 1) + 1),
            at(2024, 1, 1),
            "the day decides"
        );
        assert_eq!(ceil("YEAR", at(2024, 1, 2)), at(2025, 1, 1));
        assert_eq!(floor("CENTURY", at(2000, 5, 5)), at(1901, 1, 1));
    }
}
