//! Casts of anything to CHAR, VARCHAR and STRING: the value's text, cut to the length, and padded for CHAR.

use std::sync::Arc;

use arrow::array::builder::StringBuilder;
use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::*;

use super::datetime::ticks;
use super::format::{boolean, write_value};
use super::{Cast, LocalClock};
use crate::error::Result;
use crate::expr::calendar::{to_millis, units_per_milli, write_date, write_timestamp};
use crate::expr::{decimal, java_number};
use crate::types::TypeRoot;

/// Casts a column to text.
pub(super) fn cast(cast: &Cast) -> Result<ArrayRef> {
    let texts = match &cast.from.root {
        from if from.is_string() => cast.array.clone(),
        from if from.is_binary() => from_utf8(cast),
        _ => write_all(cast),
    };
    Ok(fit(texts, &cast.to.root))
}

fn write_all(cast: &Cast) -> ArrayRef {
    let array = cast.array;
    match &cast.from.root {
        TypeRoot::Boolean => {
            let values = array.as_boolean();
            strings(array, 5, |out, row| {
                use std::fmt::Write;
                let _ = out.write_str(boolean(values.value(row)));
            })
        }
        TypeRoot::Int => integers::<Int32Type>(array),
        TypeRoot::BigInt => integers::<Int64Type>(array),
        TypeRoot::Double => {
            let values = array.as_primitive::<Float64Type>().values();
            strings(array, 10, |out, row| {
                java_number::write_double(out, values[row])
            })
        }
        TypeRoot::Decimal { scale, .. } => {
            let values = array.as_primitive::<Decimal128Type>().values();
            strings(array, 10, |out, row| {
                decimal::write(out, values[row], *scale)
            })
        }
        TypeRoot::Date => {
            let values = array.as_primitive::<Date32Type>().values();
            strings(array, 10, |out, row| write_date(out, values[row] as i64))
        }
        TypeRoot::Timestamp(p) => {
            let values = ticks(array);
            strings(array, 24, |out, row| write_timestamp(out, values[row], *p))
        }
        TypeRoot::TimestampLtz(p) => {
            let values = ticks(array);
            let mut clock = LocalClock::new(cast.context.time_zone);
            strings(array, 24, |out, row| {
                let millis = to_millis(values[row], *p);
                let shift = (clock.local_of(millis) - millis) * units_per_milli(*p);
                write_timestamp(out, values[row].saturating_add(shift), *p)
            })
        }
        root => strings(array, 16, |out, row| {
            write_value(out, array, root, row, &cast.context.time_zone)
        }),
    }
}

fn integers<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &ArrayRef) -> ArrayRef {
    let values = array.as_primitive::<T>().values();
    strings(array, 8, |out, row| {
        use std::fmt::Write;
        let _ = write!(out, "{}", Into::<i64>::into(values[row]));
    })
}

fn strings(
    array: &ArrayRef,
    bytes_a_value: usize,
    mut write: impl FnMut(&mut StringBuilder, usize),
) -> ArrayRef {
    let mut builder = StringBuilder::with_capacity(array.len(), array.len() * bytes_a_value);
    for row in 0..array.len() {
        if array.is_null(row) {
            builder.append_null();
        } else {
            write(&mut builder, row);
            builder.append_value("");
        }
    }
    Arc::new(builder.finish())
}

/// Bytes that are no UTF-8 become replacement characters, as in Java.
fn from_utf8(cast: &Cast) -> ArrayRef {
    let values = cast.array.as_binary::<i32>();
    if let Ok(texts) = StringArray::try_from_binary(values.clone()) {
        return Arc::new(texts);
    }
    let texts = values
        .iter()
        .map(|value| value.map(String::from_utf8_lossy));
    Arc::new(StringArray::from_iter(texts))
}

/// Cuts to `n` characters and, for CHAR, pads with spaces. The same array where nothing changes.
fn fit(texts: ArrayRef, to: &TypeRoot) -> ArrayRef {
    let (length, pads) = match to {
        TypeRoot::Char(n) => (*n as usize, true),
        TypeRoot::Varchar(n) => (*n as usize, false),
        other => unreachable!("{other} is not text"),
    };
    let values = texts.as_string::<i32>();
    let fits = |text: &str| {
        if !pads && text.len() <= length {
            return true;
        }
        let characters = text.chars().count();
        characters == length || (characters < length && !pads)
    };
    if !pads && length == i32::MAX as usize || values.iter().flatten().all(fits) {
        return texts;
    }
    strings(&texts, length.min(64), |out, row| {
        use std::fmt::Write;
        let text = values.value(row);
        let mut characters = 0;
        for character in text.chars().take(length) {
            let _ = out.write_char(character);
            characters += 1;
        }
        if pads {
            (characters..length).for_each(|_| {
                let _ = out.write_char(' ');
            });
        }
    })
}
