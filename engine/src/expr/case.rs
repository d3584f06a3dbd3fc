//! CASE and COALESCE: each row takes the first branch that applies.
//!
//! Where a branch can fail or is costly, it is evaluated only for the rows that take it. Where nothing can, conditions and
//! results are computed for all rows by vector kernels, and the results are picked; constants stay single values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::zip::zip;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

use super::physical::{Evaluation, to_value};
use super::selection::{Selection, is_better_lazy, merge};
use super::values::expand;
use super::{Expression, Value};
use crate::error::Result;

/// `CASE WHEN c1 THEN r1 … ELSE e END`; children are c1, r1, …, e.
pub(super) struct CaseEvaluation {
    selections: Vec<Selection>,
    is_lazy: bool,
}

impl CaseEvaluation {
    pub(super) fn new(arguments: &[Expression]) -> Self {
        CaseEvaluation {
            selections: arguments.iter().map(Selection::of).collect(),
            is_lazy: arguments[1..].iter().any(is_better_lazy),
        }
    }

    fn evaluate_lazily(
        &self,
        rows: &RecordBatch,
        children: &[Arc<dyn PhysicalExpr>],
    ) -> Result<ColumnarValue> {
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

impl Evaluation for CaseEvaluation {
    fn evaluate(
        &self,
        rows: &RecordBatch,
        children: &[Arc<dyn PhysicalExpr>],
    ) -> Result<ColumnarValue> {
        if self.is_lazy {
            self.evaluate_lazily(rows, children)
        } else {
            evaluate_all(rows, children)
        }
    }
}

/// Conditions and results of all rows; then each row picks.
fn evaluate_all(rows: &RecordBatch, children: &[Arc<dyn PhysicalExpr>]) -> Result<ColumnarValue> {
    let (otherwise, pairs) = children.split_last().expect("CASE has an ELSE");
    let pairs = pairs.as_chunks::<2>().0;
    let mut conditions = Vec::with_capacity(pairs.len());
    let mut results = Vec::with_capacity(pairs.len() + 1);
    for [condition, result] in pairs {
        let condition = to_value(condition.evaluate(rows)?)?;
        conditions.push(expand(&condition, rows.num_rows())?);
        results.push(to_value(result.evaluate(rows)?)?);
    }
    results.push(to_value(otherwise.evaluate(rows)?)?);
    if let ([condition], [truthy, falsy]) = (&conditions[..], &results[..]) {
        return Ok(ColumnarValue::Array(zip(
            condition.as_boolean(),
            truthy,
            falsy,
        )?));
    }
    let mut choice = vec![pairs.len() as u32; rows.num_rows()];
    // From the last to the first, so that the first that holds is what stays.
    for (branch, condition) in conditions.iter().enumerate().rev() {
        let condition = condition.as_boolean();
        let holds = match condition.nulls() {
            Some(nulls) => condition.values() & nulls.inner(),
            None => condition.values().clone(),
        };
        for row in holds.set_indices() {
            choice[row] = branch as u32;
        }
    }
    Ok(ColumnarValue::Array(pick(&results, choice)?))
}

/// Of each row the value of the part that it chose.
fn pick(parts: &[Value], choice: Vec<u32>) -> Result<ArrayRef> {
    let arrays: Vec<&dyn Array> = parts.iter().map(|part| part.array.as_ref()).collect();
    if parts.iter().all(|part| part.is_scalar) {
        let constants = arrow::compute::concat(&arrays)?;
        let choice = UInt32Array::from(choice);
        return Ok(arrow::compute::take(&constants, &choice, None)?);
    }
    let indices: Vec<(usize, usize)> = choice
        .iter()
        .enumerate()
        .map(|(row, part)| (*part as usize, parts[*part as usize].index(row)))
        .collect();
    Ok(arrow::compute::interleave(&arrays, &indices)?)
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
