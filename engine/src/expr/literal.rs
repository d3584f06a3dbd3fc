//! A literal as DataFusion's scalar, of exactly the Arrow type of its SQL type.

use std::sync::Arc;

use datafusion_common::ScalarValue;

use super::Literal;
use crate::error::{Error, Result};
use crate::types::{LogicalType, TypeRoot};

/// The scalar of a literal.
pub(super) fn to_scalar(value: &Literal, logical_type: &LogicalType) -> Result<ScalarValue> {
    let arrow_type = logical_type.to_arrow();
    let mismatch = || Error::internal(format!("{value:?} is no literal of {logical_type}"));
    Ok(match (value, &logical_type.root) {
        (Literal::Null, _) => ScalarValue::try_from(&arrow_type)?,
        (Literal::Boolean(value), TypeRoot::Boolean) => ScalarValue::Boolean(Some(*value)),
        (Literal::Integer(value), root) => integer(*value, root).ok_or_else(mismatch)?,
        (Literal::Decimal(digits), TypeRoot::Decimal { precision, scale }) => {
            let unscaled = digits.parse().map_err(|_| mismatch())?;
            ScalarValue::Decimal128(Some(unscaled), *precision, *scale as i8)
        }
        (Literal::DoubleBits(bits), TypeRoot::Double) => {
            ScalarValue::Float64(Some(f64::from_bits(*bits)))
        }
        (Literal::DoubleBits(bits), TypeRoot::Float) => {
            ScalarValue::Float32(Some(f64::from_bits(*bits) as f32))
        }
        (Literal::String(text), root) if root.is_string() => ScalarValue::Utf8(Some(text.clone())),
        (Literal::Binary(bytes), root) if root.is_binary() => {
            ScalarValue::Binary(Some(bytes.clone()))
        }
        _ => return Err(mismatch()),
    })
}

fn integer(value: i64, root: &TypeRoot) -> Option<ScalarValue> {
    Some(match root {
        TypeRoot::TinyInt => ScalarValue::Int8(Some(value.try_into().ok()?)),
        TypeRoot::SmallInt => ScalarValue::Int16(Some(value.try_into().ok()?)),
        TypeRoot::Int => ScalarValue::Int32(Some(value.try_into().ok()?)),
        TypeRoot::BigInt => ScalarValue::Int64(Some(value)),
        TypeRoot::Date => ScalarValue::Date32(Some(value.try_into().ok()?)),
        TypeRoot::Time(_) => ScalarValue::Time32Millisecond(Some(value.try_into().ok()?)),
        TypeRoot::Timestamp(0..=3) => ScalarValue::TimestampMillisecond(Some(value), None),
        TypeRoot::Timestamp(4..=6) => ScalarValue::TimestampMicrosecond(Some(value), None),
        TypeRoot::Timestamp(_) => ScalarValue::TimestampNanosecond(Some(value), None),
        TypeRoot::TimestampLtz(precision) => {
            let zone: Option<Arc<str>> = Some("UTC".into());
            match precision {
                0..=3 => ScalarValue::TimestampMillisecond(Some(value), zone),
                4..=6 => ScalarValue::TimestampMicrosecond(Some(value), zone),
                _ => ScalarValue::TimestampNanosecond(Some(value), zone),
            }
        }
        TypeRoot::IntervalDayTime => ScalarValue::DurationMillisecond(Some(value)),
        TypeRoot::IntervalYearMonth => ScalarValue::IntervalYearMonth(Some(value.try_into().ok()?)),
        _ => return None,
    })
}
