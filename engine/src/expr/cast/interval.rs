//! Casts between INTERVALs and whole numbers: milliseconds or months.

use arrow::array::{ArrayRef, AsArray};
use arrow::compute;
use arrow::datatypes::*;

use super::{Cast, cast_array, rules};
use crate::error::Result;
use crate::types::{LogicalType, TypeRoot};

/// Casts an INTERVAL to a number, or a whole number to an INTERVAL.
pub(super) fn cast(cast: &Cast) -> Result<ArrayRef> {
    let bigint = LogicalType::BIGINT;
    match (&cast.from.root, &cast.to.root) {
        (TypeRoot::IntervalDayTime | TypeRoot::IntervalYearMonth, to) if to.is_numeric() => {
            let number = compute::cast(cast.array, &to_integer(&cast.from.root))?;
            let number = compute::cast(&number, &DataType::Int64)?;
            cast_array(&number, &bigint, cast.to, cast.mode, cast.context)
        }
        (from, TypeRoot::IntervalDayTime) if from.is_integer() => {
            let number = cast_array(cast.array, cast.from, &bigint, cast.mode, cast.context)?;
            let values = number.as_primitive::<Int64Type>().values();
            Ok(cast.map::<DurationMillisecondType>(|row| values[row]))
        }
        (from, TypeRoot::IntervalYearMonth) if from.is_integer() => {
            let number = cast_array(cast.array, cast.from, &bigint, cast.mode, cast.context)?;
            let values = number.as_primitive::<Int64Type>().values();
            cast.convert::<IntervalYearMonthType>(|row| values[row].try_into().ok())
        }
        _ => Err(rules::no_cast(cast.from, cast.to)),
    }
}

fn to_integer(root: &TypeRoot) -> DataType {
    match root {
        TypeRoot::IntervalDayTime => DataType::Int64,
        _ => DataType::Int32,
    }
}
