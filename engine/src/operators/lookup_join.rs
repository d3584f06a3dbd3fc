//! Joins each row with what a table outside has for its key at the moment.
//!
//! Nothing is remembered: the row comes out once, with the rows that the table has when it comes, and never changes because
//! the table does.

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::buffer::NullBuffer;
use arrow::compute;
use arrow::datatypes::SchemaRef;

use super::calc::batch_of;
use super::window_buffer::OUTPUT_ROWS;
use super::{Context, Flow, InputIndex, Operator, Output};
use crate::connectors::{LookupFunction, LookupRequest, LookupRows};
use crate::error::Result;
use crate::expr::{CompiledExpression, RowContext};
use crate::stream::{ChangelogBatch, WatermarkSteps};
use crate::types::{JoinKind, Schema};

/// What a lookup join does.
pub struct LookupJoinSpec {
    /// INNER or LEFT.
    pub kind: JoinKind,
    /// What is asked for, in the order of the function's keys.
    pub keys: Vec<LookupKeyValue>,
    /// What a row and a row of the table must satisfy besides, over the left columns, then the table's.
    pub condition: Option<CompiledExpression>,
    /// Left columns, then the table's.
    pub output: Schema,
}

/// One value of a key.
pub enum LookupKeyValue {
    /// A column of the input.
    Column(usize),
    /// A constant.
    Constant(CompiledExpression),
}

/// Takes changes, gives changes of the same kinds. No state.
pub struct LookupJoinOperator {
    spec: LookupJoinSpec,
    schema: SchemaRef,
    function: Box<dyn LookupFunction>,
    /// What is left of the batch at hand.
    rest: Option<ChangelogBatch>,
}

/// Left rows beside rows of the table; `None`: nothing was found.
struct Pairs {
    left: Vec<u32>,
    table: Vec<Option<u32>>,
}

impl LookupJoinOperator {
    /// An operator as `spec` says, asking `function`.
    pub fn new(spec: LookupJoinSpec, function: Box<dyn LookupFunction>) -> Self {
        LookupJoinOperator {
            schema: spec.output.to_arrow(),
            spec,
            function,
            rest: None,
        }
    }

    fn work_off(&mut self, ctx: &Context, out: &mut Output) -> Result<Flow> {
        while let Some(batch) = self.rest.take() {
            if out.is_full() {
                self.rest = Some(batch);
                return Ok(Flow::Blocked);
            }
            let rows = batch.num_rows().min(OUTPUT_ROWS);
            if rows < batch.num_rows() {
                self.rest = Some(batch.slice(rows, batch.num_rows() - rows));
            }
            out.emit(self.joined(ctx, &batch.slice(0, rows))?);
        }
        Ok(Flow::Done)
    }

    fn joined(&mut self, ctx: &Context, batch: &ChangelogBatch) -> Result<ChangelogBatch> {
        let found = self.look_up(ctx, batch)?;
        let matches = self.satisfying(ctx, batch, &found)?;
        let pairs = self.pairs(batch.num_rows(), &found.of, &matches);
        let left = UInt32Array::from(pairs.left);
        let table = UInt32Array::from(pairs.table);
        let (taken, _) = batch.take(&left)?;
        let mut columns = taken.rows.columns().to_vec();
        for column in found.rows.columns() {
            columns.push(compute::take(column, &table, None)?);
        }
        let rows = batch_of(&self.schema, columns, left.len())?;
        Ok(taken.with_rows(rows))
    }

    /// What the table has for the rows whose keys have no NULL; `of` counts rows of the batch.
    fn look_up(&mut self, ctx: &Context, batch: &ChangelogBatch) -> Result<LookupRows> {
        let keys = self.keys(ctx, batch)?;
        let nulls = keys.iter().fold(None, |all, key| {
            NullBuffer::union(all.as_ref(), key.logical_nulls().as_ref())
        });
        let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
            return self.ask(ctx, &keys);
        };
        let asked: Vec<u32> = nulls.valid_indices().map(|row| row as u32).collect();
        let mask = BooleanArray::new(nulls.into_inner(), None);
        let keys = keys
            .iter()
            .map(|key| compute::filter(key, &mask))
            .collect::<Result<Vec<_>, _>>()?;
        let mut found = self.ask(ctx, &keys)?;
        found
            .of
            .iter_mut()
            .for_each(|row| *row = asked[*row as usize]);
        Ok(found)
    }

    fn ask(&mut self, ctx: &Context, keys: &[ArrayRef]) -> Result<LookupRows> {
        let found = self.function.lookup(&LookupRequest {
            keys,
            now: ctx.processing_time(),
        })?;
        assert_eq!(
            found.rows.num_rows(),
            found.of.len(),
            "a lookup says for each row whose it is"
        );
        Ok(found)
    }

    fn keys(&self, ctx: &Context, batch: &ChangelogBatch) -> Result<Vec<ArrayRef>> {
        let context = row_context(ctx);
        let value = |key: &LookupKeyValue| match key {
            LookupKeyValue::Column(column) => Ok(batch.rows.column(*column).clone()),
            LookupKeyValue::Constant(constant) => constant.evaluate(&batch.rows, &context),
        };
        self.spec.keys.iter().map(value).collect()
    }

    /// Which of the rows found satisfy the condition.
    fn satisfying(
        &self,
        ctx: &Context,
        batch: &ChangelogBatch,
        found: &LookupRows,
    ) -> Result<Vec<bool>> {
        let Some(condition) = &self.spec.condition else {
            return Ok(vec![true; found.of.len()]);
        };
        let left = UInt32Array::from(found.of.clone());
        let left = compute::take_record_batch(&batch.rows, &left)?;
        let columns = [left.columns(), found.rows.columns()].concat();
        let pairs: RecordBatch = batch_of(&self.schema, columns, found.of.len())?;
        let mask = condition.evaluate_mask(&pairs, &row_context(ctx))?;
        Ok(mask.values().iter().collect())
    }

    /// The rows in their order, each with what was found for it.
    fn pairs(&self, rows: usize, of: &[u32], matches: &[bool]) -> Pairs {
        let keeps = self.spec.kind == JoinKind::Left;
        let mut pairs = Pairs {
            left: Vec::with_capacity(rows),
            table: Vec::with_capacity(rows),
        };
        let mut next = 0;
        for row in 0..rows as u32 {
            let before = pairs.left.len();
            while next < of.len() && of[next] == row {
                if matches[next] {
                    pairs.left.push(row);
                    pairs.table.push(Some(next as u32));
                }
                next += 1;
            }
            if keeps && pairs.left.len() == before {
                pairs.left.push(row);
                pairs.table.push(None);
            }
        }
        pairs
    }
}

fn row_context(ctx: &Context) -> RowContext<'static> {
    static NO_STEPS: WatermarkSteps = WatermarkSteps::NONE;
    RowContext {
        processing_time: ctx.processing_time(),
        watermark: ctx.watermark(),
        steps: &NO_STEPS,
    }
}

impl Operator for LookupJoinOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        self.rest = Some(batch);
        self.work_off(ctx, out)
    }

    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.work_off(ctx, out)
    }
}

#[cfg(test)]
mod tests;
