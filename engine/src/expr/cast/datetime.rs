//! Casts among DATE, TIME, TIMESTAMP and TIMESTAMP_LTZ; an LTZ is an instant, seen in the session zone.
//!
//! The day of a TIMESTAMP before 1970 is rounded toward zero by CAST to DATE, as Flink's is.

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::*;

use super::{Cast, LocalClock};
use crate::error::Result;
use crate::expr::calendar::{
    MILLIS_PER_DAY, from_millis, nanos_of_milli, to_millis, units_per_milli,
};
use crate::types::TypeRoot;

/// Casts between types that are points in time.
pub(super) fn cast(cast: &Cast) -> Result<ArrayRef> {
    match &cast.from.root {
        TypeRoot::Date => {
            let days = cast.array.as_primitive::<Date32Type>().values();
            from_local(cast, |row| (days[row] as i64 * MILLIS_PER_DAY, 0))
        }
        TypeRoot::Time(_) => {
            let times = cast.array.as_primitive::<Time32MillisecondType>().values();
            from_local(cast, |row| (times[row] as i64, 0))
        }
        TypeRoot::Timestamp(p) => {
            let values = ticks(cast.array);
            from_local(cast, |row| {
                (to_millis(values[row], *p), nanos_of_milli(values[row], *p))
            })
        }
        TypeRoot::TimestampLtz(p) => from_instant(cast, *p),
        other => unreachable!("{other} is no point in time"),
    }
}

/// The values of a timestamp column of any unit.
pub(crate) fn ticks(array: &dyn Array) -> &[i64] {
    fn values<T: ArrowPrimitiveType<Native = i64>>(array: &dyn Array) -> &[i64] {
        let array: &PrimitiveArray<T> = array.as_primitive();
        array.values()
    }
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Millisecond, _) => values::<TimestampMillisecondType>(array),
        DataType::Timestamp(TimeUnit::Microsecond, _) => values::<TimestampMicrosecondType>(array),
        _ => values::<TimestampNanosecondType>(array),
    }
}

/// From a wall clock: milliseconds and nanoseconds inside the millisecond.
fn from_local(cast: &Cast, wall_clock: impl Fn(usize) -> (i64, i64)) -> Result<ArrayRef> {
    match &cast.to.root {
        TypeRoot::TimestampLtz(p) => {
            let mut clock = LocalClock::new(cast.context.time_zone);
            timestamps(cast, *p, |row| {
                let (millis, nanos) = wall_clock(row);
                (clock.instant_of(millis), nanos)
            })
        }
        _ => to_local_type(cast, wall_clock),
    }
}

fn from_instant(cast: &Cast, from: u8) -> Result<ArrayRef> {
    let values = ticks(cast.array);
    match &cast.to.root {
        TypeRoot::TimestampLtz(p) => timestamps(cast, *p, |row| {
            (
                to_millis(values[row], from),
                nanos_of_milli(values[row], from),
            )
        }),
        _ => {
            let mut clock = LocalClock::new(cast.context.time_zone);
            // A local day is rounded down whatever the year: only TIMESTAMP has the other rounding.
            if cast.to.root == TypeRoot::Date {
                return Ok(cast.map::<Date32Type>(|row| {
                    clock
                        .local_of(to_millis(values[row], from))
                        .div_euclid(MILLIS_PER_DAY) as i32
                }));
            }
            to_local_type(cast, |row| {
                let millis = clock.local_of(to_millis(values[row], from));
                (millis, nanos_of_milli(values[row], from))
            })
        }
    }
}

fn to_local_type(cast: &Cast, mut wall_clock: impl FnMut(usize) -> (i64, i64)) -> Result<ArrayRef> {
    Ok(match &cast.to.root {
        TypeRoot::Date => cast.map::<Date32Type>(|row| (wall_clock(row).0 / MILLIS_PER_DAY) as i32),
        TypeRoot::Time(p) => {
            let unit = 10_i64.pow(3 - (*p).min(3) as u32);
            cast.map::<Time32MillisecondType>(|row| {
                let of_day = wall_clock(row).0.rem_euclid(MILLIS_PER_DAY);
                (of_day / unit * unit) as i32
            })
        }
        TypeRoot::Timestamp(p) => timestamps(cast, *p, wall_clock)?,
        other => unreachable!("{other} is no wall clock"),
    })
}

fn timestamps(cast: &Cast, p: u8, mut time: impl FnMut(usize) -> (i64, i64)) -> Result<ArrayRef> {
    let mut convert = |row: usize| {
        let (millis, nanos) = time(row);
        from_millis(millis, nanos, p)
    };
    match units_per_milli(p) {
        1 => cast.convert::<TimestampMillisecondType>(&mut convert),
        1_000 => cast.convert::<TimestampMicrosecondType>(&mut convert),
        _ => cast.convert::<TimestampNanosecondType>(&mut convert),
    }
}
