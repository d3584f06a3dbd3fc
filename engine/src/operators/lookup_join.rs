//! Joins each row with what a table outside has for its key at the moment.
//!
//! The row comes out once, with the rows that the table has when it is asked, and never changes because the table does. Where
//! no row has to wait, nothing is remembered: [`LookupJoinOperator`]. Rows that wait for an answer, or for a key that was not
//! found to be asked for again, stand in a queue: [`QueuedLookupJoinOperator`].

mod joiner;
mod queue;
mod queue_state;
mod queued;

use super::window_buffer::OUTPUT_ROWS;
use super::{Context, Flow, InputIndex, Operator, Output};
use crate::connectors::LookupFunction;
use crate::error::Result;
use crate::expr::CompiledExpression;
use crate::stream::ChangelogBatch;
use crate::types::{JoinKind, Schema};

use joiner::Joiner;

pub use queue_state::lookup_state_schema;
pub use queued::{AsyncLookupSpec, LookupAsking, LookupRetrySpec, QueuedLookupJoinOperator};

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
    joiner: Joiner,
    function: Box<dyn LookupFunction>,
    /// What is left of the batch at hand.
    rest: Option<ChangelogBatch>,
}

impl LookupJoinOperator {
    /// An operator as `spec` says, asking `function`.
    pub fn new(spec: LookupJoinSpec, function: Box<dyn LookupFunction>) -> Self {
        LookupJoinOperator {
            joiner: Joiner::new(spec),
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
            let batch = batch.slice(0, rows);
            let question = self.joiner.question(ctx, &batch)?;
            let found = question.by_row(self.function.lookup(&question.request(ctx))?);
            out.emit(self.joiner.joined(ctx, &batch, &found)?);
        }
        Ok(Flow::Done)
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
