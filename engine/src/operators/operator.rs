//! The contract of an operator: a synchronous state machine over batches, watermarks and timers.
//!
//! Operators never wait, read a clock, draw a random number or start a thread; what they need comes with the
//! [`Context`], what they give goes to the [`Output`]. Only [`Operator::process_batch`] is required; every other method
//! passes things on.

use arrow::datatypes::SchemaRef;

use crate::error::Result;
use crate::operators::{Context, KeyedState, Output};
use crate::state::StateSnapshot;
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{EventTime, ProcessingTime};

/// Which input of an operator: 0 for the only or the left one, 1 for the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InputIndex(pub usize);

impl InputIndex {
    /// The only input, or the left one.
    pub const FIRST: InputIndex = InputIndex(0);
    /// The right input.
    pub const SECOND: InputIndex = InputIndex(1);
}

/// What the caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// The call is complete.
    Done,
    /// The output is full before the call was complete: drain it, then call [`Operator::resume`] until it is `Done`.
    /// Nothing else is called meanwhile.
    Blocked,
    /// The call cannot be completed before something outside has happened: call [`Operator::resume`] when
    /// [`Operator::next_processing_timer`] is due, until it is `Done`. Nothing else is called meanwhile, so no barrier passes; for
    /// short waits only.
    Waiting,
}

/// In how many pieces a state in memory is restored, so that one is read while another is taken up: few, for what was written together is read
/// together.
pub(crate) const RESTORE_PIECES: usize = 8;

/// A logical operator's parallel instance.
///
/// The runtime calls these methods one at a time. It keeps `ctx.watermark()` at the minimum over the inputs and calls
/// [`Operator::process_watermark`] only with a watermark above it, after setting it.
pub trait Operator: Send {
    /// Takes rows of one input. `batch.steps` say how the watermark advanced between the rows, above `ctx.watermark()`.
    /// An operator of time loops `for slice in batch.by_steps(ctx.watermark())`, calling [`Context::advance_watermark`] and
    /// firing where a slice's watermark is above; any other passes the steps on with the rows. A watermark at least as high
    /// as the last step follows every batch that has steps.
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow>;

    /// Event time has come to `watermark` on all inputs. Results due by it go out before it. Default: pass it on.
    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        let _ = ctx;
        out.watermark(watermark);
        Ok(Flow::Done)
    }

    /// Goes on with the call that returned [`Flow::Blocked`] or [`Flow::Waiting`].
    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        let _ = (ctx, out);
        Ok(Flow::Done)
    }

    /// When [`Operator::on_processing_time`] wants to be called next.
    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        None
    }

    /// The clock has reached [`Operator::next_processing_timer`]; `ctx.processing_time()` tells it.
    fn on_processing_time(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        let _ = (ctx, out);
        Ok(Flow::Done)
    }

    /// Emits what a mini-batch bundle or a local aggregation holds back: called before a barrier and at the end of input. An
    /// operator that holds a bundle flushes it itself before it passes a watermark on.
    fn flush_bundle(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        let _ = (ctx, out);
        Ok(Flow::Done)
    }

    /// Freezes the state as of now, between two batches, for `checkpoint`. Default: stateless.
    fn snapshot_state(
        &mut self,
        ctx: &mut Context,
        checkpoint: CheckpointId,
    ) -> Result<StateSnapshot> {
        let _ = (ctx, checkpoint);
        Ok(StateSnapshot::default())
    }

    /// Goes on with the last [`Operator::snapshot_state`], which may leave state by key to be copied while rows go on: gives a piece of it as
    /// it was then, with rows of keys that no other piece has, or `None` when that was all. Called between any two calls until
    /// it gives `None`, and before the next snapshot. Default: nothing was left.
    fn continue_snapshot(&mut self, ctx: &mut Context) -> Result<Option<StateSnapshot>> {
        let _ = ctx;
        Ok(None)
    }

    /// The tables of [`Operator::snapshot_state`] whose columns another plan of the same operator may have otherwise, each as this
    /// operator writes it and wants to be given it. What a snapshot holds is brought into this form before
    /// [`Operator::restore_state`]: columns are matched by name, missing ones filled, narrower types widened. Asked before the
    /// first element. Default: none; tables are given as they were written.
    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        Vec::new()
    }

    /// Takes state up again before the first element. The snapshot holds the keyed rows of this subtask's key groups, from
    /// however many subtasks wrote them, and all rows of unkeyed tables.
    fn restore_state(&mut self, ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        let _ = (ctx, snapshot);
        Ok(())
    }

    /// All operators of the job have been restored, and none has seen a row.
    fn on_restored(&mut self) -> Result<()> {
        Ok(())
    }

    /// In how many pieces a state is best restored: [`Operator::restore_state`] is called for each of them, with the rows of other keys; tables
    /// that are not by key come with the first call. Default: one.
    fn restore_pieces(&self) -> usize {
        1
    }

    /// The state by key, where it can be taken apart. Default: it cannot, and stays in memory and in every snapshot as a whole.
    fn keyed_state(&mut self) -> Option<&mut dyn KeyedState> {
        None
    }

    /// The checkpoint is complete: sinks commit what they prepared for it and for those before it.
    fn notify_checkpoint_complete(
        &mut self,
        ctx: &mut Context,
        checkpoint: CheckpointId,
    ) -> Result<()> {
        let _ = (ctx, checkpoint);
        Ok(())
    }

    /// All inputs have ended (the watermark at the end of bounded input has passed before). Open processing-time timers do not
    /// fire. What is emitted here goes out before the end.
    fn finish(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        let _ = (ctx, out);
        Ok(Flow::Done)
    }
}
