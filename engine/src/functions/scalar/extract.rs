//! EXTRACT and its short forms YEAR, MONTH, HOUR, …: parts of a date or time as BIGINT.
//!
//! Before 1970 Flink rounds the day toward zero and takes the remainder for the time of day with its sign; so it is here,
//! because results must be equal. A TIMESTAMP_LTZ is read on the wall clock of the session.

use arrow::array::ArrayRef;
use arrow::datatypes::*;

use crate::error::{Error, Result};
use crate::expr::calendar::*;
use crate::expr::cast::{LocalClock, ticks};
use crate::expr::{Arguments, Call, Expression, Kernel, Literal};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::functions::registry::Rewrite;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[ScalarFunction::new("EXTRACT", bind, extract)];

pub(super) const REWRITES: &[Rewrite] = &[
    short_form("YEAR"),
    short_form("QUARTER"),
    short_form("MONTH"),
    short_form("WEEK"),
    short_form("DAYOFYEAR"),
    short_form("DAYOFMONTH"),
    short_form("DAYOFWEEK"),
    short_form("HOUR"),
    short_form("MINUTE"),
    short_form("SECOND"),
];

const fn short_form(name: &'static str) -> Rewrite {
    Rewrite {
        name,
        rewrite: |binding| {
            binding.count(1..=1)?;
            let unit = match binding.name {
                "DAYOFYEAR" => "DOY",
                "DAYOFMONTH" => "DAY",
                "DAYOFWEEK" => "DOW",
                unit => unit,
            };
            let length = TypeRoot::Char(unit.len() as u32);
            let unit = Expression::literal(
                Literal::String(unit.to_string()),
                LogicalType::not_null(length),
            );
            binding.call("EXTRACT", vec![unit, binding.arguments[0].clone()])
        },
    }
}

/// What EXTRACT can take out.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// Of the day since 1970.
    OfDate(fn(i64) -> i64),
    /// Of the milliseconds: the remainder by the first, divided by the second.
    OfTime(i64, i64),
    /// Microseconds or nanoseconds of the second: the nanoseconds that make one.
    OfSecond(i64),
    /// Seconds since 1970.
    Epoch,
}

fn part(unit: &str) -> Option<Part> {
    use Part::*;
    Some(match unit.to_ascii_uppercase().as_str() {
        "MILLENNIUM" => OfDate(|days| (year(days) + 999) / 1000),
        "CENTURY" => OfDate(|days| (year(days) + 99) / 100),
        "DECADE" => OfDate(|days| year(days) / 10),
        "YEAR" => OfDate(year),
        "ISOYEAR" => OfDate(|days| iso_week(days).0),
        "QUARTER" => OfDate(|days| (date_from_days(days).1 + 2) / 3),
        "MONTH" => OfDate(|days| date_from_days(days).1),
        "WEEK" => OfDate(|days| iso_week(days).1),
        "DAY" => OfDate(|days| date_from_days(days).2),
        "DOY" => OfDate(day_of_year),
        "DOW" => OfDate(|days| iso_day_of_week(days) % 7 + 1),
        "ISODOW" => OfDate(iso_day_of_week),
        "HOUR" => OfTime(MILLIS_PER_DAY, MILLIS_PER_HOUR),
        "MINUTE" => OfTime(MILLIS_PER_HOUR, MILLIS_PER_MINUTE),
        "SECOND" => OfTime(MILLIS_PER_MINUTE, MILLIS_PER_SECOND),
        "MILLISECOND" => OfTime(MILLIS_PER_SECOND, 1),
        "MICROSECOND" => OfSecond(1_000),
        "NANOSECOND" => OfSecond(1),
        "EPOCH" => Epoch,
        _ => return None,
    })
}

fn year(days: i64) -> i64 {
    date_from_days(days).0
}

/// `EXTRACT(unit, time)`.
fn bind(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=2)?;
    let unit = binding.literal_text(0)?.to_string();
    let Some(part) = part(&unit) else {
        return Err(Error::user(format!("EXTRACT has no unit {unit}")).hint(
            "units: YEAR, QUARTER, MONTH, WEEK, DAY, DOY, DOW, HOUR, MINUTE, SECOND, MILLISECOND, EPOCH, …",
        ));
    };
    match (binding.root(1), part) {
        (TypeRoot::Null, _) => binding.cast(1, &TypeRoot::Timestamp(3)),
        (TypeRoot::Date, _) => {}
        (TypeRoot::Time(_), Part::OfTime(_, _)) => {}
        (root, _) if root.is_timestamp() => {}
        (root, _) => {
            return Err(Error::user(format!(
                "a {root} has no {}",
                unit.to_ascii_uppercase()
            )));
        }
    }
    Ok(binding.result(TypeRoot::BigInt))
}

fn extract(call: &Call) -> Result<Kernel> {
    let unit = call.text(0).unwrap_or_default();
    let part = part(unit).ok_or_else(|| Error::internal("EXTRACT is bound with a known unit"))?;
    let zone = call.context.time_zone;
    Ok(match call.argument_type(1).root.clone() {
        TypeRoot::Date => Box::new(move |arguments| {
            let days = arguments.primitives::<Date32Type>(1);
            Ok(arguments.map::<Int64Type>(|row| of_date(part, days.get(row) as i64)))
        }),
        TypeRoot::Time(_) => Box::new(move |arguments| {
            let times = arguments.primitives::<Time32MillisecondType>(1);
            Ok(arguments.map::<Int64Type>(|row| of_wall_clock(part, times.get(row) as i64, 0)))
        }),
        TypeRoot::TimestampLtz(p) => {
            Box::new(move |arguments| Ok(of_instants(arguments, part, p, LocalClock::new(zone))))
        }
        TypeRoot::Timestamp(p) => Box::new(move |arguments| Ok(of_timestamps(arguments, part, p))),
        other => return Err(Error::internal(format!("EXTRACT from {other}"))),
    })
}

fn of_date(part: Part, days: i64) -> i64 {
    match part {
        Part::OfDate(of_day) => of_day(days),
        Part::Epoch => days * (MILLIS_PER_DAY / MILLIS_PER_SECOND),
        Part::OfTime(_, _) | Part::OfSecond(_) => 0,
    }
}

/// Rounds toward zero, see the head of this file.
#[inline]
fn of_wall_clock(part: Part, millis: i64, nanos_of_milli: i64) -> i64 {
    match part {
        Part::OfDate(of_day) => of_day(millis / MILLIS_PER_DAY),
        Part::OfTime(modulus, unit) => millis % modulus / unit,
        Part::OfSecond(nanos) => (millis % 1000 * 1_000_000 + nanos_of_milli) / nanos,
        Part::Epoch => millis / MILLIS_PER_SECOND,
    }
}

fn of_timestamps(arguments: &Arguments, part: Part, p: u8) -> ArrayRef {
    let value = arguments.value(1);
    let times = ticks(&value.array);
    // One loop a part, for the hot ones: nothing is decided a row.
    match (part, p) {
        (Part::OfDate(of_day), 0..=3) => {
            arguments.map::<Int64Type>(|row| of_day(times[value.index(row)] / MILLIS_PER_DAY))
        }
        (Part::OfTime(modulus, unit), 0..=3) => {
            arguments.map::<Int64Type>(|row| times[value.index(row)] % modulus / unit)
        }
        _ => arguments.map::<Int64Type>(|row| {
            let time = times[value.index(row)];
            of_wall_clock(part, to_millis(time, p), nanos_of_milli(time, p))
        }),
    }
}

fn of_instants(arguments: &Arguments, part: Part, p: u8, mut clock: LocalClock) -> ArrayRef {
    let value = arguments.value(1);
    let times = ticks(&value.array);
    let values: Vec<i64> = (0..arguments.rows())
        .map(|row| {
            let time = times[value.index(row)];
            let local = clock.local_of(to_millis(time, p));
            of_wall_clock(part, local, nanos_of_milli(time, p))
        })
        .collect();
    let array = arrow::array::Int64Array::new(values.into(), arguments.nulls());
    std::sync::Arc::new(array)
}
