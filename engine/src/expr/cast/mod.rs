//! CAST and TRY_CAST: which pairs of types there are, and a file for each family of conversions.
//!
//! A value that cannot be converted fails the job under CAST and is NULL under TRY_CAST; an overflowing DECIMAL is NULL under
//! both, as in Flink.

mod binary;
mod datetime;
mod format;
mod from_string;
mod local_clock;
mod nested;
mod numeric;
mod rules;
mod to_string;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, new_null_array,
};
use arrow::buffer::NullBuffer;
use datafusion_common::ScalarValue;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

use super::call::Failure;
use super::physical::{Evaluation, to_value};
use super::{CastMode, Expression, ExpressionContext};
use crate::error::{Error, Result};
use crate::types::{LogicalType, TypeRoot};

pub(crate) use datetime::ticks;
pub use format::{ValueFormatter, format_value};
pub(crate) use local_clock::LocalClock;
pub(crate) use rules::{can_fail, check_explicit, supports_implicit};

/// Converts a column. Fails with a data error where `mode` is [`CastMode::Fail`] and a value cannot be converted, and with a
/// user error where no such cast exists.
pub fn cast_array(
    array: &ArrayRef,
    from: &LogicalType,
    to: &LogicalType,
    mode: CastMode,
    context: &ExpressionContext,
) -> Result<ArrayRef> {
    let cast = Cast {
        array,
        from,
        to,
        mode,
        context,
    };
    let result = cast.run()?;
    debug_assert_eq!(result.data_type(), &to.to_arrow(), "CAST {from} AS {to}");
    Ok(result)
}

/// One conversion of a column.
struct Cast<'a> {
    array: &'a ArrayRef,
    from: &'a LogicalType,
    to: &'a LogicalType,
    mode: CastMode,
    context: &'a ExpressionContext,
}

impl Cast<'_> {
    fn run(&self) -> Result<ArrayRef> {
        let (from, to) = (&self.from.root, &self.to.root);
        if from == to {
            return Ok(self.array.clone());
        }
        match (from, to) {
            (TypeRoot::Null, _) => Ok(new_null_array(&self.to.to_arrow(), self.array.len())),
            (_, to) if to.is_string() => to_string::cast(self),
            (from, to) if from.is_string() && to.is_binary() => binary::from_string(self),
            (from, _) if from.is_string() => from_string::cast(self),
            (from, to) if is_number(from) && is_number(to) => numeric::cast(self),
            (from, to) if is_time_point(from) && is_time_point(to) => datetime::cast(self),
            (from, to) if from.is_binary() && to.is_binary() => binary::cast(self),
            (TypeRoot::Array(_), TypeRoot::Array(_))
            | (TypeRoot::Map(_, _), TypeRoot::Map(_, _))
            | (TypeRoot::Multiset(_), TypeRoot::Multiset(_))
            | (TypeRoot::Row(_), TypeRoot::Row(_)) => nested::cast(self),
            _ => Err(rules::no_cast(self.from, self.to)),
        }
    }

    /// A primitive column of what `convert` makes of each row that is not NULL; its `None` is a failure.
    fn convert<T: ArrowPrimitiveType>(
        &self,
        convert: impl FnMut(usize) -> Option<T::Native>,
    ) -> Result<ArrayRef> {
        self.convert_with_mode::<T>(self.mode, convert)
    }

    /// As [`Cast::convert`], but `None` is NULL under CAST too.
    fn convert_or_null<T: ArrowPrimitiveType>(
        &self,
        convert: impl FnMut(usize) -> Option<T::Native>,
    ) -> Result<ArrayRef> {
        self.convert_with_mode::<T>(CastMode::Null, convert)
    }

    fn convert_with_mode<T: ArrowPrimitiveType>(
        &self,
        mode: CastMode,
        mut convert: impl FnMut(usize) -> Option<T::Native>,
    ) -> Result<ArrayRef> {
        let rows = self.array.len();
        let mut values = vec![T::Native::default(); rows];
        let mut bad: Vec<usize> = Vec::new();
        for (row, slot) in values.iter_mut().enumerate() {
            if self.array.is_null(row) {
                continue;
            }
            match convert(row) {
                Some(value) => *slot = value,
                None if mode == CastMode::Fail => return Err(self.failed(row)),
                None => bad.push(row),
            }
        }
        let nulls = without(self.array.nulls(), &bad, rows);
        Ok(self.primitive::<T>(values, nulls))
    }

    /// A primitive column of what `convert` makes of each value; it cannot fail.
    fn map<T: ArrowPrimitiveType>(&self, convert: impl FnMut(usize) -> T::Native) -> ArrayRef {
        let values = (0..self.array.len()).map(convert).collect();
        self.primitive::<T>(values, self.array.nulls().cloned())
    }

    fn primitive<T: ArrowPrimitiveType>(
        &self,
        values: Vec<T::Native>,
        nulls: Option<NullBuffer>,
    ) -> ArrayRef {
        let array = PrimitiveArray::<T>::new(values.into(), nulls);
        Arc::new(array.with_data_type(self.to.to_arrow()))
    }

    /// The error for a value that cannot be converted.
    fn failed(&self, row: usize) -> Error {
        let zone = &self.context.time_zone;
        let value = format_value(self.array, self.from, row, zone).unwrap_or_default();
        let quote = if self.from.root.is_string() { "'" } else { "" };
        Error::data(format!(
            "cannot cast {quote}{value}{quote} from {} to {}",
            self.from.root, self.to.root
        ))
        .hint("TRY_CAST gives NULL instead")
    }
}

/// The valid rows without the `bad` ones.
fn without(nulls: Option<&NullBuffer>, bad: &[usize], rows: usize) -> Option<NullBuffer> {
    if bad.is_empty() {
        return nulls.cloned();
    }
    let mut valid = vec![true; rows];
    bad.iter().for_each(|row| valid[*row] = false);
    NullBuffer::union(nulls, Some(&NullBuffer::from(valid)))
}

fn is_number(root: &TypeRoot) -> bool {
    root.is_numeric() || *root == TypeRoot::Boolean
}

fn is_time_point(root: &TypeRoot) -> bool {
    root.is_timestamp() || matches!(root, TypeRoot::Date | TypeRoot::Time(_))
}

/// CAST or TRY_CAST of its only child.
pub(super) struct CastEvaluation {
    from: LogicalType,
    to: LogicalType,
    mode: CastMode,
    context: ExpressionContext,
    failure: Failure,
}

impl CastEvaluation {
    /// `source` is a cast.
    pub(super) fn new(source: &Expression, context: &ExpressionContext) -> Self {
        let Expression::Cast {
            input,
            logical_type,
            mode,
            ..
        } = source
        else {
            unreachable!("only casts are compiled to casts")
        };
        CastEvaluation {
            from: input.logical_type().clone(),
            to: logical_type.clone(),
            mode: *mode,
            context: *context,
            failure: Failure::of(source),
        }
    }
}

impl Evaluation for CastEvaluation {
    fn evaluate(
        &self,
        rows: &RecordBatch,
        children: &[Arc<dyn PhysicalExpr>],
    ) -> Result<ColumnarValue> {
        let value = to_value(children[0].evaluate(rows)?)?;
        let result = cast_array(&value.array, &self.from, &self.to, self.mode, &self.context)
            .map_err(|error| self.failure.explain(error))?;
        if value.is_scalar {
            let scalar = ScalarValue::try_from_array(&result, 0)?;
            return Ok(ColumnarValue::Scalar(scalar));
        }
        Ok(ColumnarValue::Array(result))
    }
}
