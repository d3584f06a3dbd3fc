//! The laws of streams, checked around every operator in builds with debug assertions.

use arrow::datatypes::SchemaRef;

use crate::error::Result;
use crate::operators::{Context, Flow, InputIndex, Operator, Output};
use crate::state::StateSnapshot;
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{EventTime, ProcessingTime};

/// The operator, with the laws checked where debug assertions are on.
pub(crate) fn checked(name: &str, operator: Box<dyn Operator>) -> Box<dyn Operator> {
    if cfg!(debug_assertions) {
        Box::new(Checked {
            name: name.to_string(),
            operator,
            watermark: EventTime::MIN,
            checkpoint: CheckpointId(0),
            blocked: false,
        })
    } else {
        operator
    }
}

struct Checked {
    name: String,
    operator: Box<dyn Operator>,
    watermark: EventTime,
    checkpoint: CheckpointId,
    blocked: bool,
}

impl Checked {
    fn check_batch(&self, batch: &ChangelogBatch) {
        let rows = batch.num_rows();
        assert!(
            batch.kinds.bytes().is_none_or(|kinds| kinds.len() == rows),
            "{}: a batch has one row kind a row",
            self.name
        );
        assert!(
            batch
                .hashes
                .as_ref()
                .is_none_or(|hashes| hashes.values().len() == rows),
            "{}: a batch has one hash a row",
            self.name
        );
        assert!(
            batch.steps.iter().all(|step| step.row < rows),
            "{}: a watermark step stands before a row of its batch",
            self.name
        );
        assert!(!self.blocked, "{}: called while blocked", self.name);
    }

    fn note(&mut self, flow: Result<Flow>) -> Result<Flow> {
        let flow = flow?;
        self.blocked = flow != Flow::Done;
        Ok(flow)
    }
}

impl Operator for Checked {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        self.check_batch(&batch);
        let flow = self.operator.process_batch(ctx, input, batch, out);
        self.note(flow)
    }

    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        assert!(
            watermark > self.watermark,
            "{}: watermark went back from {} to {watermark}",
            self.name,
            self.watermark
        );
        assert_eq!(
            ctx.watermark(),
            watermark,
            "{}: the context tells the watermark before the call",
            self.name
        );
        self.watermark = watermark;
        let flow = self.operator.process_watermark(ctx, watermark, out);
        self.note(flow)
    }

    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        assert!(
            self.blocked,
            "{}: resumed although no call is open",
            self.name
        );
        let flow = self.operator.resume(ctx, out);
        self.note(flow)
    }

    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        self.operator.next_processing_timer()
    }

    fn on_processing_time(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        let flow = self.operator.on_processing_time(ctx, out);
        self.note(flow)
    }

    fn flush_bundle(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        let flow = self.operator.flush_bundle(ctx, out);
        self.note(flow)
    }

    fn snapshot_state(
        &mut self,
        ctx: &mut Context,
        checkpoint: CheckpointId,
    ) -> Result<StateSnapshot> {
        assert!(
            checkpoint > self.checkpoint,
            "{}: barriers come in order: {checkpoint} after {}",
            self.name,
            self.checkpoint
        );
        self.checkpoint = checkpoint;
        self.operator.snapshot_state(ctx, checkpoint)
    }

    fn continue_snapshot(&mut self, ctx: &mut Context) -> Result<Option<StateSnapshot>> {
        self.operator.continue_snapshot(ctx)
    }

    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        self.operator.state_schema()
    }

    fn on_restored(&mut self) -> Result<()> {
        self.operator.on_restored()
    }

    fn restore_pieces(&self) -> usize {
        self.operator.restore_pieces()
    }

    fn restore_state(&mut self, ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        self.watermark = ctx.watermark();
        self.operator.restore_state(ctx, snapshot)
    }

    fn notify_checkpoint_complete(
        &mut self,
        ctx: &mut Context,
        checkpoint: CheckpointId,
    ) -> Result<()> {
        self.operator.notify_checkpoint_complete(ctx, checkpoint)
    }

    fn finish(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        let flow = self.operator.finish(ctx, out);
        self.note(flow)
    }
}
