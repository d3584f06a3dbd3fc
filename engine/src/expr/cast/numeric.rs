//! Casts among numbers and BOOLEAN, with Java's narrowing: integers wrap, doubles saturate, DECIMAL rounds half up.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::*;

use super::Cast;
use crate::error::Result;
use crate::expr::decimal::{self, Parsed};
use crate::expr::java_number;
use crate::types::TypeRoot;

/// Casts a numeric or BOOLEAN column to a numeric type or BOOLEAN.
pub(super) fn cast(cast: &Cast) -> Result<ArrayRef> {
    match &cast.from.root {
        TypeRoot::Boolean => {
            let values = cast.array.as_boolean();
            from_integer(cast, |row| i64::from(values.value(row)))
        }
        TypeRoot::TinyInt => from_integers::<Int8Type>(cast),
        TypeRoot::SmallInt => from_integers::<Int16Type>(cast),
        TypeRoot::Int => from_integers::<Int32Type>(cast),
        TypeRoot::BigInt => from_integers::<Int64Type>(cast),
        TypeRoot::Float => {
            let values = cast.array.as_primitive::<Float32Type>().values();
            from_double(cast, |row| values[row] as f64)
        }
        TypeRoot::Double => {
            let values = cast.array.as_primitive::<Float64Type>().values();
            from_double(cast, |row| values[row])
        }
        TypeRoot::Decimal { scale, .. } => from_decimal(cast, *scale),
        other => unreachable!("{other} is no number"),
    }
}

fn from_integers<T: ArrowPrimitiveType<Native: Into<i64>>>(cast: &Cast) -> Result<ArrayRef> {
    let values = cast.array.as_primitive::<T>().values();
    from_integer(cast, |row| values[row].into())
}

#[inline]
fn from_integer(cast: &Cast, value: impl Fn(usize) -> i64) -> Result<ArrayRef> {
    Ok(match &cast.to.root {
        TypeRoot::Boolean => booleans(cast, |row| value(row) != 0),
        TypeRoot::TinyInt => cast.map::<Int8Type>(|row| value(row) as i8),
        TypeRoot::SmallInt => cast.map::<Int16Type>(|row| value(row) as i16),
        TypeRoot::Int => cast.map::<Int32Type>(|row| value(row) as i32),
        TypeRoot::BigInt => cast.map::<Int64Type>(value),
        TypeRoot::Float => cast.map::<Float32Type>(|row| value(row) as f32),
        TypeRoot::Double => cast.map::<Float64Type>(|row| value(row) as f64),
        TypeRoot::Decimal { precision, scale } => {
            cast.convert_or_null::<Decimal128Type>(|row| {
                decimal::rescale(value(row) as i128, 0, *precision, *scale)
            })?
        }
        other => unreachable!("{other} is no number"),
    })
}

#[inline]
fn from_double(cast: &Cast, value: impl Fn(usize) -> f64) -> Result<ArrayRef> {
    Ok(match &cast.to.root {
        TypeRoot::Boolean => booleans(cast, |row| value(row) != 0.0),
        TypeRoot::TinyInt => cast.map::<Int8Type>(|row| value(row) as i32 as i8),
        TypeRoot::SmallInt => cast.map::<Int16Type>(|row| value(row) as i32 as i16),
        TypeRoot::Int => cast.map::<Int32Type>(|row| value(row) as i32),
        TypeRoot::BigInt => cast.map::<Int64Type>(|row| value(row) as i64),
        TypeRoot::Float => cast.map::<Float32Type>(|row| value(row) as f32),
        TypeRoot::Double => cast.map::<Float64Type>(value),
        TypeRoot::Decimal { precision, scale } => {
            if let Some(row) = (0..cast.array.len())
                .find(|row| cast.array.is_valid(*row) && !value(*row).is_finite())
                && cast.mode == crate::expr::CastMode::Fail
            {
                return Err(cast.failed(row));
            }
            let mut text = String::new();
            cast.convert_or_null::<Decimal128Type>(|row| {
                text.clear();
                java_number::write_double(&mut text, value(row));
                parsed(decimal::parse(&text, *precision, *scale))
            })?
        }
        other => unreachable!("{other} is no number"),
    })
}

fn parsed(parsed: Parsed) -> Option<i128> {
    match parsed {
        Parsed::Value(value) => Some(value),
        Parsed::Overflow | Parsed::NotANumber => None,
    }
}

fn from_decimal(cast: &Cast, from_scale: u8) -> Result<ArrayRef> {
    let values = cast.array.as_primitive::<Decimal128Type>().values();
    let unit = decimal::power_of_ten(from_scale);
    let whole = |row: usize| (values[row] / unit) as i64;
    Ok(match &cast.to.root {
        TypeRoot::Boolean => booleans(cast, |row| values[row] != 0),
        TypeRoot::TinyInt => cast.map::<Int8Type>(|row| whole(row) as i8),
        TypeRoot::SmallInt => cast.map::<Int16Type>(|row| whole(row) as i16),
        TypeRoot::Int => cast.map::<Int32Type>(|row| whole(row) as i32),
        TypeRoot::BigInt => cast.map::<Int64Type>(whole),
        TypeRoot::Float => {
            cast.map::<Float32Type>(|row| decimal::to_double(values[row], from_scale) as f32)
        }
        TypeRoot::Double => {
            cast.map::<Float64Type>(|row| decimal::to_double(values[row], from_scale))
        }
        TypeRoot::Decimal { precision, scale } => {
            cast.convert_or_null::<Decimal128Type>(|row| {
                decimal::rescale(values[row], from_scale, *precision, *scale)
            })?
        }
        other => unreachable!("{other} is no number"),
    })
}

fn booleans(cast: &Cast, value: impl FnMut(usize) -> bool) -> ArrayRef {
    let bits = BooleanBuffer::collect_bool(cast.array.len(), value);
    Arc::new(BooleanArray::new(bits, cast.array.nulls().cloned()))
}
