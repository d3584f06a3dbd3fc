//! CASE and COALESCE: each row takes the first branch that applies, and no other branch is evaluated for it.
//!
//! A branch that cannot fail and is cheap would not need that, but choosing rows costs about what evaluating saves, and the
//! rule stays simple: a branch sees only the rows that take it. Constants are not evaluated at all.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::zip::zip;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

use super::physical::{Evaluation, to_value};
use super::selection::{Selection, merge};
use super::values::expand;
use super::{Expression, Value};
use crate::error::Result;
use crate::functions::can_fail;

/// `CASE WHEN c1 THEN r1 … ELSE e END`; children are c1, r1, …, e.
pub(super) struct CaseEvaluation {
    selections: Vec<Selection>,
    /// Whether it is one WHEN whose results cannot fail: then a vector kernel chooses between whole columns.
    is_simple: bool,
}

impl CaseEvaluation {
    pub(super) fn new(arguments: &[Expression]) -> Self {
        CaseEvaluation {
            selections: arguments.iter().map(Selection::of).collect(),
            is_simple: arguments.len() == 3 && !can_fail(&arguments[1]) && !can_fail(&arguments[2]),
        }
    }
}

impl Evaluation for CaseEvaluation {
    fn evaluate(
        &self,
        rows: &RecordBatch,
        children: &[Arc<dyn PhysicalExpr>],
    ) -> Result<ColumnarValue> {
        if self.is_simple {
            return evaluate_simple(rows, children);
        }
        let mut branches = Branches::new(rows.num_rows());
        let (otherwise, pairs) = children.split_last().expect("CASE has an ELSE");
        for (pair, [condition, result]) in pairs.as_chunks::<2>().0.iter().enumerate() {
            let open = branches.open.clone();
            if open.count_set_bits() == 0 {
                break;
            }
            let holds = self.selections[2 * pair].evaluate(condition, rows, &open)?;
            let taken = branches.take(holds.as_boolean(), &open);
            let values = self.selections[2 * pair + 1].evaluate(result, rows, &taken)?;
            branches.parts.push(values);
        }
        let open = branches.open.clone();
        let last = self.selections[children.len() - 1].evaluate(otherwise, rows, &open)?;
        branches.finish(last)
    }
}

fn evaluate_simple(
    rows: &RecordBatch,
    children: &[Arc<dyn PhysicalExpr>],
) -> Result<ColumnarValue> {
    let condition = to_value(children[0].evaluate(rows)?)?;
    let condition = expand(&condition, rows.num_rows())?;
    let truthy = to_value(children[1].evaluate(rows)?)?;
    let falsy = to_value(children[2].evaluate(rows)?)?;
    Ok(ColumnarValue::Array(zip(
        condition.as_boolean(),
        &truthy,
        &falsy,
    )?))
}

/// `COALESCE(a, b, …)`: the first value that is not NULL.
pub(super) struct CoalesceEvaluation {
    selections: Vec<Selection>,
}

impl CoalesceEvaluation {
    pub(super) fn new(arguments: &[Expression]) -> Self {
        CoalesceEvaluation {
            selections: arguments.iter().map(Selection::of).collect(),
        }
    }
}

impl Evaluation for CoalesceEvaluation {
    fn evaluate(
        &self,
        rows: &RecordBatch,
        children: &[Arc<dyn PhysicalExpr>],
    ) -> Result<ColumnarValue> {
        let first: Value = to_value(children[0].evaluate(rows)?)?;
        let first = expand(&first, rows.num_rows())?;
        if children.len() == 1 || first.logical_null_count() == 0 {
            return Ok(ColumnarValue::Array(first));
        }
        let mut branches = Branches::new(rows.num_rows());
        let mut values = first;
        for (index, child) in children.iter().enumerate() {
            let open = branches.open.clone();
            if index > 0 {
                values = self.selections[index].evaluate(child, rows, &open)?;
            }
            if index + 1 == children.len() {
                return branches.finish(values);
            }
            let present = arrow::compute::is_not_null(&values)?;
            branches.take(&present, &open);
            branches
                .parts
                .push(arrow::compute::filter(&values, &present)?);
        }
        unreachable!("the last argument finishes")
    }
}

/// Which branch each row has taken, and which rows are still open.
struct Branches {
    open: BooleanBuffer,
    source: Vec<u32>,
    parts: Vec<ArrayRef>,
}

impl Branches {
    fn new(rows: usize) -> Self {
        Branches {
            open: BooleanBuffer::new_set(rows),
            source: vec![0; rows],
            parts: Vec::new(),
        }
    }

    /// The open rows for which `holds` (a value an open row) is TRUE; they take the next part and are open no longer.
    fn take(&mut self, holds: &BooleanArray, open: &BooleanBuffer) -> BooleanBuffer {
        let part = self.parts.len() as u32;
        let mut taken = arrow::array::BooleanBufferBuilder::new(open.len());
        taken.append_n(open.len(), false);
        for (index, row) in open.set_indices().enumerate() {
            if holds.is_valid(index) && holds.value(index) {
                taken.set_bit(row, true);
                self.source[row] = part;
            }
        }
        let taken = taken.finish();
        self.open = open & &!&taken;
        taken
    }

    /// The rows that are still open take `last`.
    fn finish(mut self, last: ArrayRef) -> Result<ColumnarValue> {
        let part = self.parts.len() as u32;
        if self.open.count_set_bits() == self.open.len() {
            return Ok(ColumnarValue::Array(last));
        }
        for row in self.open.set_indices() {
            self.source[row] = part;
        }
        self.parts.push(last);
        let source = UInt32Array::from(self.source);
        Ok(ColumnarValue::Array(merge(&self.parts, source.values())?))
    }
}
