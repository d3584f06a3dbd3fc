//! Casts of text to numbers, BOOLEAN, dates and times.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::*;

use super::{Cast, LocalClock};
use crate::error::Result;
use crate::expr::calendar::{
    from_millis, parse_date, parse_time, parse_timestamp, units_per_milli,
};
use crate::expr::decimal::{self, Parsed};
use crate::expr::{CastMode, java_number};
use crate::types::TypeRoot;

/// Casts a string column to anything but strings and binary.
pub(super) fn cast(cast: &Cast) -> Result<ArrayRef> {
    let texts = cast.array.as_string::<i32>();
    let text = |row: usize| texts.value(row);
    match &cast.to.root {
        TypeRoot::Boolean => booleans(cast),
        TypeRoot::TinyInt => integers::<Int8Type>(cast),
        TypeRoot::SmallInt => integers::<Int16Type>(cast),
        TypeRoot::Int => integers::<Int32Type>(cast),
        TypeRoot::BigInt => integers::<Int64Type>(cast),
        TypeRoot::Float => cast.convert::<Float32Type>(|row| {
            java_number::parse_double(text(row)).map(|value| value as f32)
        }),
        TypeRoot::Double => cast.convert::<Float64Type>(|row| java_number::parse_double(text(row))),
        TypeRoot::Decimal { precision, scale } => decimals(cast, *precision, *scale),
        TypeRoot::Date => {
            cast.convert::<Date32Type>(|row| parse_date(text(row)).map(|days| days as i32))
        }
        TypeRoot::Time(_) => cast
            .convert::<Time32MillisecondType>(|row| parse_time(text(row)).map(|time| time as i32)),
        TypeRoot::Timestamp(p) => timestamps(cast, *p, None),
        TypeRoot::TimestampLtz(p) => {
            timestamps(cast, *p, Some(LocalClock::new(cast.context.time_zone)))
        }
        _ => Err(super::rules::no_cast(cast.from, cast.to)),
    }
}

fn integers<T: ArrowPrimitiveType<Native: TryFrom<i64>>>(cast: &Cast) -> Result<ArrayRef> {
    let texts = cast.array.as_string::<i32>();
    cast.convert::<T>(|row| {
        java_number::parse_integer(texts.value(row))?
            .try_into()
            .ok()
    })
}

/// Unlike a number, a text that does not fit fails, too.
fn decimals(cast: &Cast, precision: u8, scale: u8) -> Result<ArrayRef> {
    let texts = cast.array.as_string::<i32>();
    cast.convert::<Decimal128Type>(|row| {
        match decimal::parse(texts.value(row).trim(), precision, scale) {
            Parsed::Value(value) => Some(value),
            Parsed::Overflow | Parsed::NotANumber => None,
        }
    })
}

fn booleans(cast: &Cast) -> Result<ArrayRef> {
    let texts = cast.array.as_string::<i32>();
    let values = (0..texts.len()).map(|row| {
        if texts.is_null(row) {
            return Ok(None);
        }
        match parse_boolean(texts.value(row)) {
            None if cast.mode == CastMode::Fail => Err(cast.failed(row)),
            value => Ok(value),
        }
    });
    Ok(Arc::new(values.collect::<Result<BooleanArray>>()?))
}

fn parse_boolean(text: &str) -> Option<bool> {
    let is_one_of = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is_one_of(&["t", "true", "y", "yes", "1"]) {
        Some(true)
    } else if is_one_of(&["f", "false", "n", "no", "0"]) {
        Some(false)
    } else {
        None
    }
}

fn timestamps(cast: &Cast, p: u8, mut clock: Option<LocalClock>) -> Result<ArrayRef> {
    let texts = cast.array.as_string::<i32>();
    let mut convert = |row: usize| {
        let (millis, nanos) = parse_timestamp(texts.value(row))?;
        let millis = match &mut clock {
            Some(clock) => clock.instant_of(millis),
            None => millis,
        };
        from_millis(millis, nanos, p)
    };
    match units_per_milli(p) {
        1 => cast.convert::<TimestampMillisecondType>(&mut convert),
        1_000 => cast.convert::<TimestampMicrosecondType>(&mut convert),
        _ => cast.convert::<TimestampNanosecondType>(&mut convert),
    }
}
