//! Arithmetic of dates, times and INTERVALs; TIMESTAMPADD and TIMESTAMPDIFF.
//!
//! An INTERVAL of days to seconds adds milliseconds; one of years and months moves in the calendar, and a day that the month
//! does not have becomes its last. A TIMESTAMP_LTZ moves on the clock of UTC, as in Flink. A result that 64 bits do not hold
//! is an error.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::*;

use crate::error::{Error, Result};
use crate::expr::calendar::*;
use crate::expr::cast::ticks;
use crate::expr::{Arguments, Call, Expression, Kernel, Literal, Value};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::functions::registry::Rewrite;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[ScalarFunction::new(
    "TIMESTAMPDIFF",
    bind_difference,
    difference,
)];

pub(super) const REWRITES: &[Rewrite] = &[Rewrite {
    name: "TIMESTAMPADD",
    rewrite: timestamp_add,
}];

fn is_interval(root: &TypeRoot) -> bool {
    matches!(
        root,
        TypeRoot::IntervalDayTime | TypeRoot::IntervalYearMonth
    )
}

fn is_time_point(root: &TypeRoot) -> bool {
    root.is_timestamp() || matches!(root, TypeRoot::Date | TypeRoot::Time(_))
}

/// The type of `+` or `-` where an operand is a time or an INTERVAL; `None` where none is. The time comes first.
pub(super) fn bind_sum(binding: &mut Binding) -> Result<Option<LogicalType>> {
    let (left, right) = (binding.root(0).clone(), binding.root(1).clone());
    let is_temporal = |root: &TypeRoot| is_interval(root) || is_time_point(root);
    if !is_temporal(&left) && !is_temporal(&right) {
        return Ok(None);
    }
    if is_interval(&left) && is_time_point(&right) && binding.name == "+" {
        binding.arguments.swap(0, 1);
        return bind_sum(binding);
    }
    match (&left, &right) {
        (TypeRoot::Null, right) if is_interval(right) => binding.cast(0, right),
        (left, TypeRoot::Null) if is_interval(left) => binding.cast(1, left),
        (left, TypeRoot::Null) if is_time_point(left) => {
            binding.cast(1, &TypeRoot::IntervalDayTime)
        }
        (left, right) if is_interval(left) && left == right => {}
        (left, right) if is_time_point(left) && is_interval(right) => {}
        (left, right) if is_time_point(left) && is_time_point(right) && binding.name == "-" => {
            return Err(
                Error::user(format!("{right} cannot be subtracted from {left}"))
                    .hint("TIMESTAMPDIFF(SECOND, a, b) is the difference b - a in seconds"),
            );
        }
        (left, right) => {
            return Err(Error::user(format!(
                "{} is not defined for {left} and {right}",
                binding.name
            )));
        }
    }
    let root = match (binding.root(0), binding.root(1)) {
        (TypeRoot::Date, TypeRoot::IntervalDayTime) if !is_whole_days(&binding.arguments[1]) => {
            TypeRoot::Timestamp(6)
        }
        (left, _) => left.clone(),
    };
    Ok(Some(binding.result(root)))
}

/// Whether all constants in an INTERVAL are days: then a DATE stays a DATE.
fn is_whole_days(interval: &Expression) -> bool {
    let mut whole = true;
    interval.walk(&mut |part| {
        if let Expression::Literal {
            value: Literal::Integer(millis),
            logical_type,
        } = part
            && logical_type.root == TypeRoot::IntervalDayTime
        {
            whole &= millis % MILLIS_PER_DAY == 0;
        }
    });
    whole
}

/// The type of `*` where an operand is an INTERVAL; `None` where none is. The INTERVAL comes first.
pub(super) fn bind_product(binding: &mut Binding) -> Result<Option<LogicalType>> {
    if is_interval(binding.root(1)) {
        binding.arguments.swap(0, 1);
    }
    if !is_interval(binding.root(0)) {
        return Ok(None);
    }
    binding.integer(1)?;
    Ok(Some(binding.result(binding.root(0).clone())))
}

/// The kernel of `+`, `-` or `*` with a time or INTERVAL as its result; `None` for numbers.
pub(super) fn kernel(is_plus: bool, is_times: bool, call: &Call) -> Option<Kernel> {
    let root = &call.logical_type.root;
    let sign = if is_plus { 1 } else { -1 };
    if !is_interval(root) && !is_time_point(root) {
        return None;
    }
    if is_times {
        return Some(product(root));
    }
    let adds_months = call.argument_type(1).root == TypeRoot::IntervalYearMonth;
    Some(match (&call.argument_type(0).root, root) {
        (left, _) if is_interval(left) => sum_of_intervals(adds_months, sign),
        (TypeRoot::Date, TypeRoot::Date) => Box::new(move |arguments| {
            let days = arguments.primitives::<Date32Type>(0);
            let interval = Interval::new(arguments, 1, sign);
            Ok(arguments
                .map::<Date32Type>(|row| interval.move_days(days.get(row) as i64, row) as i32))
        }),
        (TypeRoot::Date, _) => Box::new(move |arguments| {
            let days = arguments.primitives::<Date32Type>(0);
            let interval = Interval::new(arguments, 1, sign);
            arguments.try_map::<TimestampMicrosecondType>(|row| {
                let micros = days.get(row) as i64 * MILLIS_PER_DAY * 1_000;
                interval
                    .move_time(micros, 1_000, row)
                    .ok_or_else(out_of_range)
            })
        }),
        (TypeRoot::Time(_), _) => Box::new(move |arguments| {
            let times = arguments.primitives::<Time32MillisecondType>(0);
            let interval = Interval::new(arguments, 1, sign);
            Ok(arguments.map::<Time32MillisecondType>(|row| {
                interval.move_time_of_day(times.get(row) as i64, row) as i32
            }))
        }),
        (TypeRoot::Timestamp(p) | TypeRoot::TimestampLtz(p), _) => {
            let units = units_per_milli(*p);
            match units {
                1 => move_timestamp::<TimestampMillisecondType>(units, sign),
                1_000 => move_timestamp::<TimestampMicrosecondType>(units, sign),
                _ => move_timestamp::<TimestampNanosecondType>(units, sign),
            }
        }
        _ => return None,
    })
}

fn out_of_range() -> Error {
    Error::data("the resulting time is out of range")
}

fn move_timestamp<T: ArrowPrimitiveType<Native = i64>>(units: i64, sign: i64) -> Kernel {
    Box::new(move |arguments| {
        if let Some(moved) = move_by_constant::<T>(arguments, units, sign) {
            return Ok(moved);
        }
        let times = arguments.primitives::<T>(0);
        let interval = Interval::new(arguments, 1, sign);
        arguments.try_map::<T>(|row| {
            interval
                .move_time(times.get(row), units, row)
                .ok_or_else(out_of_range)
        })
    })
}

/// `column - INTERVAL '5' SECOND` and its like, which every watermark is: one vectorised loop. `None` where it is another
/// case, or where a sum does not fit.
fn move_by_constant<T: ArrowPrimitiveType<Native = i64>>(
    arguments: &Arguments,
    units: i64,
    sign: i64,
) -> Option<ArrayRef> {
    let (times, interval) = (arguments.value(0), arguments.value(1));
    if times.is_scalar || !interval.is_scalar {
        return None;
    }
    let millis = interval
        .array
        .as_primitive_opt::<DurationMillisecondType>()?
        .value(0);
    let delta = millis.checked_mul(sign)?.checked_mul(units)?;
    let times = times.array.as_primitive::<T>();
    let mut overflows = false;
    let moved: Vec<i64> = times
        .values()
        .iter()
        .map(|time| {
            let (moved, overflow) = time.overflowing_add(delta);
            overflows |= overflow;
            moved
        })
        .collect();
    if overflows {
        return None;
    }
    let moved = PrimitiveArray::<T>::new(moved.into(), times.nulls().cloned());
    Some(Arc::new(moved.with_data_type(times.data_type().clone())))
}

/// An INTERVAL argument, added (sign 1) or subtracted (-1).
struct Interval<'a> {
    values: IntervalValues<'a>,
    sign: i64,
}

enum IntervalValues<'a> {
    Millis(crate::expr::Primitives<'a, DurationMillisecondType>),
    Months(crate::expr::Primitives<'a, IntervalYearMonthType>),
}

impl<'a> Interval<'a> {
    fn new(arguments: &Arguments<'a>, index: usize, sign: i64) -> Self {
        let values = match arguments.value(index).array.data_type() {
            DataType::Duration(_) => IntervalValues::Millis(arguments.primitives(index)),
            _ => IntervalValues::Months(arguments.primitives(index)),
        };
        Interval { values, sign }
    }

    #[inline]
    fn move_time(&self, time: i64, units: i64, row: usize) -> Option<i64> {
        match &self.values {
            IntervalValues::Millis(values) => {
                let millis = values.get(row).checked_mul(self.sign)?;
                time.checked_add(millis.checked_mul(units)?)
            }
            IntervalValues::Months(values) => {
                let months = values.get(row) as i64 * self.sign;
                let moved = add_months_to_millis(time.div_euclid(units), months)?;
                moved
                    .checked_mul(units)?
                    .checked_add(time.rem_euclid(units))
            }
        }
    }

    fn move_days(&self, days: i64, row: usize) -> i64 {
        match &self.values {
            IntervalValues::Millis(values) => days + self.sign * (values.get(row) / MILLIS_PER_DAY),
            IntervalValues::Months(values) => {
                add_months_to_days(days, self.sign * values.get(row) as i64)
            }
        }
    }

    fn move_time_of_day(&self, time: i64, row: usize) -> i64 {
        match &self.values {
            IntervalValues::Millis(values) => {
                (time + self.sign * (values.get(row) % MILLIS_PER_DAY)).rem_euclid(MILLIS_PER_DAY)
            }
            IntervalValues::Months(_) => time,
        }
    }
}

fn sum_of_intervals(are_months: bool, sign: i64) -> Kernel {
    if are_months {
        return Box::new(move |arguments| {
            let left = arguments.primitives::<IntervalYearMonthType>(0);
            let right = arguments.primitives::<IntervalYearMonthType>(1);
            Ok(arguments.map::<IntervalYearMonthType>(|row| {
                left.get(row)
                    .wrapping_add(right.get(row).wrapping_mul(sign as i32))
            }))
        });
    }
    Box::new(move |arguments| {
        let left = arguments.primitives::<DurationMillisecondType>(0);
        let right = arguments.primitives::<DurationMillisecondType>(1);
        Ok(arguments.map::<DurationMillisecondType>(|row| {
            left.get(row)
                .wrapping_add(right.get(row).wrapping_mul(sign))
        }))
    })
}

fn product(root: &TypeRoot) -> Kernel {
    if *root == TypeRoot::IntervalYearMonth {
        return Box::new(|arguments| {
            let months = arguments.primitives::<IntervalYearMonthType>(0);
            let factors = arguments.primitives::<Int64Type>(1);
            Ok(arguments.map::<IntervalYearMonthType>(|row| {
                months.get(row).wrapping_mul(factors.get(row) as i32)
            }))
        });
    }
    Box::new(|arguments| {
        let millis = arguments.primitives::<DurationMillisecondType>(0);
        let factors = arguments.primitives::<Int64Type>(1);
        Ok(arguments
            .map::<DurationMillisecondType>(|row| millis.get(row).wrapping_mul(factors.get(row))))
    })
}

/// `TIMESTAMPADD(unit, n, time)` is `time + n * INTERVAL '1' unit`.
fn timestamp_add(binding: Binding) -> Result<Expression> {
    binding.count(3..=3)?;
    let unit = binding.literal_text(0)?;
    let (value, root) = match unit_length(unit) {
        Some(UnitLength::Millis(millis)) => (millis, TypeRoot::IntervalDayTime),
        Some(UnitLength::Months(months)) => (months, TypeRoot::IntervalYearMonth),
        None => return Err(unknown_unit(binding.name, unit)),
    };
    let one = Expression::literal(Literal::Integer(value), LogicalType::not_null(root));
    let interval = binding.call("*", vec![one, binding.arguments[1].clone()])?;
    binding.call("+", vec![binding.arguments[2].clone(), interval])
}

enum UnitLength {
    Millis(i64),
    Months(i64),
}

fn unit_length(unit: &str) -> Option<UnitLength> {
    use UnitLength::*;
    let unit = unit.to_ascii_uppercase();
    let unit = unit.strip_prefix("SQL_TSI_").unwrap_or(&unit);
    Some(match unit {
        "MILLISECOND" | "MILLISECONDS" => Millis(1),
        "SECOND" | "SECONDS" => Millis(MILLIS_PER_SECOND),
        "MINUTE" | "MINUTES" => Millis(MILLIS_PER_MINUTE),
        "HOUR" | "HOURS" => Millis(MILLIS_PER_HOUR),
        "DAY" | "DAYS" => Millis(MILLIS_PER_DAY),
        "WEEK" | "WEEKS" => Millis(7 * MILLIS_PER_DAY),
        "MONTH" | "MONTHS" => Months(1),
        "QUARTER" | "QUARTERS" => Months(3),
        "YEAR" | "YEARS" => Months(12),
        _ => return None,
    })
}

fn unknown_unit(function: &str, unit: &str) -> Error {
    Error::user(format!("{function} has no unit {unit}"))
        .hint("units: MILLISECOND, SECOND, MINUTE, HOUR, DAY, WEEK, MONTH, QUARTER, YEAR")
}

fn bind_difference(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(3..=3)?;
    let unit = binding.literal_text(0)?;
    if unit_length(unit).is_none() {
        return Err(unknown_unit(binding.name, unit));
    }
    for index in [1, 2] {
        match binding.root(index) {
            TypeRoot::Null => binding.cast(index, &TypeRoot::Timestamp(3)),
            TypeRoot::Date => {}
            root if root.is_timestamp() => {}
            _ => return Err(binding.wrong_argument(index, "a DATE or TIMESTAMP")),
        }
    }
    let is_instant = |index: usize| matches!(binding.root(index), TypeRoot::TimestampLtz(_));
    if is_instant(1) != is_instant(2) {
        return Err(Error::user(format!(
            "{} takes two times of one kind, not {} and {}",
            binding.name,
            binding.root(1),
            binding.root(2)
        ))
        .hint("CAST one of them: TIMESTAMP_LTZ is an instant, TIMESTAMP a wall clock"));
    }
    Ok(binding.result(TypeRoot::Int))
}

/// A DATE or timestamp argument as milliseconds, one a row of its array.
fn millis_of(value: &Value, root: &TypeRoot) -> Vec<i64> {
    match root {
        TypeRoot::Date => {
            let days = value.array.as_primitive::<Date32Type>().values();
            days.iter()
                .map(|day| *day as i64 * MILLIS_PER_DAY)
                .collect()
        }
        TypeRoot::Timestamp(p) | TypeRoot::TimestampLtz(p) => {
            let times = ticks(&value.array);
            times.iter().map(|time| to_millis(*time, *p)).collect()
        }
        other => unreachable!("{other} was refused when it was bound"),
    }
}

fn difference(call: &Call) -> Result<Kernel> {
    let unit = call
        .text(0)
        .and_then(unit_length)
        .ok_or_else(|| Error::internal("TIMESTAMPDIFF is bound with a known unit"))?;
    let from_root = call.argument_type(1).root.clone();
    let to_root = call.argument_type(2).root.clone();
    Ok(Box::new(move |arguments| -> Result<ArrayRef> {
        let (from_value, to_value) = (arguments.value(1), arguments.value(2));
        let from_millis = millis_of(from_value, &from_root);
        let to_millis = millis_of(to_value, &to_root);
        let from = |row: usize| from_millis[from_value.index(row)];
        let to = |row: usize| to_millis[to_value.index(row)];
        Ok(match unit {
            UnitLength::Millis(millis) => {
                arguments.map::<Int32Type>(|row| (to(row).wrapping_sub(from(row)) / millis) as i32)
            }
            UnitLength::Months(months) => arguments
                .map::<Int32Type>(|row| (subtract_months(to(row), from(row)) / months) as i32),
        })
    }))
}
