//! AND and OR with three-valued logic, and without evaluating what the left side has decided.
//!
//! Where nothing on the right can fail (nor is costly), both sides are computed for all rows and joined by Kleene kernels: that is faster
//! than choosing rows. Where it can, it is evaluated only on the rows that the left side leaves open (for AND the rows that
//! are not FALSE), whatever their share, so that the result does not depend on how rows were cut into batches.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::{and_kleene, or_kleene};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

use super::Expression;
use super::physical::{Evaluation, to_value};
use super::selection::{Selection, is_better_lazy};
use super::values::expand;
use crate::error::Result;

/// AND or OR over any number of conditions, from left to right.
pub(super) struct LogicalEvaluation {
    is_and: bool,
    /// For each condition: how to evaluate it on a selection, where that is needed.
    selections: Vec<Option<Selection>>,
}

impl LogicalEvaluation {
    pub(super) fn new(is_and: bool, arguments: &[Expression]) -> Self {
        LogicalEvaluation {
            is_and,
            selections: arguments
                .iter()
                .map(|argument| is_better_lazy(argument).then(|| Selection::of(argument)))
                .collect(),
        }
    }

    fn join(&self, left: &BooleanArray, right: &BooleanArray) -> Result<BooleanArray> {
        Ok(if self.is_and {
            and_kleene(left, right)?
        } else {
            or_kleene(left, right)?
        })
    }

    /// The rows that `left` does not decide: not FALSE for AND, not TRUE for OR.
    fn open(&self, left: &BooleanArray) -> BooleanBuffer {
        let undecided = if self.is_and {
            left.values().clone()
        } else {
            !left.values()
        };
        match left.nulls() {
            Some(nulls) => &undecided | &!nulls.inner(),
            None => undecided,
        }
    }
}

impl Evaluation for LogicalEvaluation {
    fn evaluate(
        &self,
        rows: &RecordBatch,
        children: &[Arc<dyn PhysicalExpr>],
    ) -> Result<ColumnarValue> {
        let mut result = evaluate_all(&children[0], rows)?;
        for (child, selection) in children.iter().zip(&self.selections).skip(1) {
            let right = match selection {
                None => evaluate_all(child, rows)?,
                Some(selection) => {
                    let open = self.open(&result);
                    let values = selection.evaluate(child, rows, &open)?;
                    scatter(values.as_boolean(), &open, self.is_and)
                }
            };
            result = self.join(&result, &right)?;
        }
        let result: ArrayRef = Arc::new(result);
        Ok(ColumnarValue::Array(result))
    }
}

fn evaluate_all(child: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<BooleanArray> {
    let value = to_value(child.evaluate(rows)?)?;
    Ok(expand(&value, rows.num_rows())?.as_boolean().clone())
}

/// The values at the open rows; `neutral` at the others, where the left side decides anyway.
fn scatter(values: &BooleanArray, open: &BooleanBuffer, neutral: bool) -> BooleanArray {
    if values.len() == open.len() {
        return values.clone();
    }
    let mut bits = arrow::array::BooleanBufferBuilder::new(open.len());
    bits.append_n(open.len(), neutral);
    let mut valid = values.nulls().map(|_| {
        let mut valid = arrow::array::BooleanBufferBuilder::new(open.len());
        valid.append_n(open.len(), true);
        valid
    });
    for (index, row) in open.set_indices().enumerate() {
        bits.set_bit(row, values.value(index));
        if let Some(valid) = &mut valid {
            valid.set_bit(row, values.is_valid(index));
        }
    }
    let nulls = valid.map(|mut valid| NullBuffer::new(valid.finish()));
    BooleanArray::new(bits.finish(), nulls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_rows_are_those_the_left_side_does_not_decide() {
        let left = BooleanArray::from(vec![Some(true), Some(false), None]);
        let bits = |is_and| -> Vec<bool> {
            LogicalEvaluation::new(is_and, &[])
                .open(&left)
                .iter()
                .collect()
        };
        assert_eq!(bits(true), [true, false, true]);
        assert_eq!(bits(false), [false, true, true]);
    }
}
