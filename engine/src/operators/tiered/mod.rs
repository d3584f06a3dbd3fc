//! Two tiers of keyed state around any operator that can take its state apart ([`KeyedState`]).
//!
//! The operator keeps the keys at hand in its own columnar structures, which are the authority. Keys that were not used for long are
//! taken out and lie in a [`UnitStore`], one value a key; they are put back before a batch with rows of them, or before a
//! watermark or a time at which they act, many keys in one access. What changed since the last snapshot is noted by key, so that
//! a checkpoint holds that alone; a changed key that is taken out is written to a part of the next snapshot at once. Without a lower tier all
//! is told anew from time to time ([`volume`]), where the operator can have it copied while rows go on.
//!
//! While everything fits, nothing is looked up: the first eviction begins to tell keys at hand from others.

mod changes;
mod eviction;
mod pace;
mod residents;
#[cfg(test)]
mod tests;
mod volume;

use std::collections::VecDeque;
use std::sync::Arc;

use self::changes::Changes;
use self::pace::Pace;
use self::residents::Residents;
pub use self::volume::MOST_CHANGES;
use super::keyed_state::Frozen;
use super::{Context, DueTime, Flow, InputIndex, KeyedState, Operator, Output, key_hashes};
use crate::error::Result;
use crate::planted::{Bug, is_planted};
use crate::state::{
    EncodedUnits, MemoryShare, StateBackend, StatePart, StateSnapshot, UnitCodec, UnitStore,
};
use crate::stream::{ChangelogBatch, CheckpointId, WatermarkSteps};
use crate::types::{EventTime, ProcessingTime};

/// The most keys that are put back at once because they are due.
const DUE_KEYS: usize = 64 << 10;

/// In how many pieces a state is restored that memory may not hold.
const PIECES_BEYOND_MEMORY: usize = 16;

/// What the tiers of one operator instance are made of.
pub struct TierOptions {
    /// The lower tier; `None`: all keys stay at hand.
    pub store: Option<Box<dyn UnitStore>>,
    /// The instance's share of the memory for keys at hand, where there is a lower tier.
    pub memory: Option<MemoryShare>,
    /// Whether snapshots hold what changed alone.
    pub incremental: bool,
    /// How many rows of changes snapshots tell for each row of all until all is told anew: [`MOST_CHANGES`], or fewer in tests.
    pub most_changes: u64,
    /// About how many bytes of keys are copied for a snapshot between two batches.
    pub copied_bytes: usize,
    /// In whose local directory parts of snapshots are written.
    pub backend: Arc<dyn StateBackend>,
    /// The instance's name, by which its files are told apart.
    pub name: String,
}

/// The operator with its state in tiers if it can take its state apart; else as it is. With neither a lower tier nor incremental snapshots
/// it still copies snapshots while rows go on.
pub fn tiered(mut operator: Box<dyn Operator>, options: TierOptions) -> Box<dyn Operator> {
    let Some(keyed) = operator.keyed_state() else {
        return operator;
    };
    let due_time = keyed.due_time();
    let changes = Changes::new(options.incremental, options.most_changes, keyed);
    Box::new(TieredOperator {
        inner: operator,
        due_time,
        lower: options.store.map(|store| Lower {
            store,
            codec: UnitCodec::default(),
            units: EncodedUnits::default(),
            residents: Residents::default(),
        }),
        memory: options.memory,
        changes,
        pace: Pace::new(options.copied_bytes),
        parts: Parts {
            backend: options.backend,
            name: options.name,
            written: Vec::new(),
        },
        actions: VecDeque::new(),
        busy: false,
        held_back: None,
        rows_since_check: 0,
        has_finished: false,
    })
}

/// See the module.
struct TieredOperator {
    inner: Box<dyn Operator>,
    due_time: DueTime,
    lower: Option<Lower>,
    memory: Option<MemoryShare>,
    changes: Changes,
    pace: Pace,
    parts: Parts,
    /// What is still to be done of the call that runs.
    actions: VecDeque<Action>,
    /// Whether the inner operator has not completed a call.
    busy: bool,
    /// The watermark that the inner operator has told while keys were put back piece by piece.
    held_back: Option<EventTime>,
    rows_since_check: usize,
    /// Whether the input has ended.
    has_finished: bool,
}

/// The lower tier with what it takes to use it.
struct Lower {
    store: Box<dyn UnitStore>,
    codec: UnitCodec,
    /// A buffer, used again.
    units: EncodedUnits,
    residents: Residents,
}

/// Pieces of the next snapshot.
struct Parts {
    backend: Arc<dyn StateBackend>,
    name: String,
    written: Vec<StatePart>,
}

impl Parts {
    fn write(&self, snapshot: &StateSnapshot) -> Result<StatePart> {
        StatePart::write(&self.backend, &self.name, snapshot)
    }
}

/// A step of a call.
enum Action {
    Batch(InputIndex, ChangelogBatch),
    /// The watermark of the operator comes to here, on its input or between rows.
    Watermark(EventTime),
    /// The watermarks that were held back go out.
    ReleaseWatermark,
    Timer,
    Flush,
    Evict,
    Finish,
}

impl TieredOperator {
    fn keyed(&mut self) -> &mut dyn KeyedState {
        self.inner
            .keyed_state()
            .expect("an operator does not lose its keyed state")
    }

    /// Goes on until everything is done or the inner operator cannot.
    fn drive(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.changes.listen(ctx);
        loop {
            if !self.busy {
                let Some(action) = self.next_action(ctx)? else {
                    return Ok(Flow::Done);
                };
                self.busy = true;
                let flow = self.start(action, ctx, out)?;
                if flow != Flow::Done {
                    return Ok(flow);
                }
            } else {
                let flow = self.inner.resume(ctx, out)?;
                if flow != Flow::Done {
                    return Ok(flow);
                }
            }
            self.busy = false;
            self.after_inner(ctx, out);
            if out.is_full() && !self.actions.is_empty() {
                return Ok(Flow::Blocked);
            }
        }
    }

    fn next_action(&mut self, ctx: &Context) -> Result<Option<Action>> {
        if let Some(action) = self.actions.pop_front() {
            return Ok(Some(action));
        }
        if self.is_over_budget(ctx) {
            self.actions.push_back(Action::Evict);
            return Ok(Some(Action::Flush));
        }
        Ok(None)
    }

    fn start(&mut self, action: Action, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        match action {
            Action::Batch(input, batch) => {
                self.put_back_for(ctx, input, &batch)?;
                self.rows_since_check = self.rows_since_check.saturating_add(batch.num_rows());
                self.inner.process_batch(ctx, input, batch, out)
            }
            Action::Watermark(watermark) => {
                if watermark > ctx.watermark() {
                    ctx.advance_watermark(watermark);
                }
                if self.put_back_due(ctx, watermark.millis())? {
                    out.hold_back_watermarks(true);
                    self.after_piece(Action::Watermark(watermark));
                }
                self.inner.process_watermark(ctx, watermark, out)
            }
            Action::ReleaseWatermark => {
                out.hold_back_watermarks(false);
                if let Some(watermark) = self.held_back.take() {
                    out.watermark(watermark);
                }
                Ok(Flow::Done)
            }
            Action::Timer => {
                let now = ctx.processing_time();
                if self.put_back_due(ctx, now.millis())? {
                    self.after_piece(Action::Timer);
                }
                if self
                    .inner
                    .next_processing_timer()
                    .is_some_and(|due| due <= now)
                {
                    return self.inner.on_processing_time(ctx, out);
                }
                Ok(Flow::Done)
            }
            Action::Flush => self.inner.flush_bundle(ctx, out),
            Action::Evict => {
                self.evict_cold(ctx)?;
                Ok(Flow::Done)
            }
            Action::Finish => self.inner.finish(ctx, out),
        }
    }

    /// Some of the keys that are due have been put back: once they have acted, room is made and the rest follows.
    fn after_piece(&mut self, again: Action) {
        let more = self.earliest_due().is_some_and(|due| match again {
            Action::Watermark(watermark) => due <= watermark.millis(),
            _ => true,
        });
        match again {
            Action::Watermark(_) if !more => self.actions.push_front(Action::ReleaseWatermark),
            again if more => self.actions.push_front(again),
            _ => {}
        }
        self.actions.push_front(Action::Evict);
        self.actions.push_front(Action::Flush);
    }

    fn after_inner(&mut self, ctx: &mut Context, out: &mut Output) {
        self.held_back = self.held_back.max(out.take_held_back());
        self.changes.note_told(ctx);
    }

    fn earliest_due(&self) -> Option<i64> {
        self.lower.as_ref()?.store.earliest_due()
    }

    /// A batch, cut where the watermark makes keys act that are not at hand.
    fn plan_batch(&mut self, ctx: &Context, input: InputIndex, batch: ChangelogBatch) {
        let last = batch.steps.iter().map(|step| step.watermark).max();
        let acts = match (self.due_time, self.earliest_due(), last) {
            (DueTime::Event, Some(due), Some(last)) => due <= last.millis(),
            _ => false,
        };
        if !acts {
            self.actions.push_back(Action::Batch(input, batch));
            return;
        }
        let mut watermark = ctx.watermark();
        for slice in batch.by_steps(watermark) {
            if slice.watermark > watermark {
                watermark = slice.watermark;
                self.actions.push_back(Action::Watermark(watermark));
            }
            let mut rows = batch.slice(slice.offset, slice.length);
            rows.steps = WatermarkSteps::NONE;
            self.actions.push_back(Action::Batch(input, rows));
        }
    }

    /// Puts the keys of a batch's rows back, and notes that they change.
    fn put_back_for(
        &mut self,
        ctx: &mut Context,
        input: InputIndex,
        batch: &ChangelogBatch,
    ) -> Result<()> {
        let looks_up = self
            .lower
            .as_ref()
            .is_some_and(|lower| lower.residents.are_known());
        if !looks_up && !self.changes.notes_rows() {
            return Ok(());
        }
        let key = self.keyed().key_columns(input).to_vec();
        let hashes = key_hashes(batch, &key)?;
        self.changes.note_rows(hashes.values());
        if looks_up {
            let lower = self.lower.as_mut().expect("there is one");
            let missing = lower.residents.touch(hashes.values());
            self.put_back(ctx, &missing)?;
        }
        Ok(())
    }

    /// Puts some of the keys back that act up to a time; whether there were any.
    fn put_back_due(&mut self, ctx: &mut Context, time: i64) -> Result<bool> {
        let Some(lower) = &mut self.lower else {
            return Ok(false);
        };
        if lower.store.earliest_due().is_none_or(|due| due > time) {
            return Ok(false);
        }
        let mut due = lower.store.take_due(time, DUE_KEYS)?;
        if is_planted(Bug::DueForgotten) {
            due.pop();
        }
        let missing = lower.residents.touch(&due);
        self.put_back(ctx, &missing)?;
        Ok(true)
    }
}

impl Operator for TieredOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        self.plan_batch(ctx, input, batch);
        self.drive(ctx, out)
    }

    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        self.actions.push_back(Action::Watermark(watermark));
        self.drive(ctx, out)
    }

    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.drive(ctx, out)
    }

    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        let own = match self.due_time {
            DueTime::Processing => self.earliest_due().map(ProcessingTime),
            _ => None,
        };
        let inner = self.inner.next_processing_timer();
        own.into_iter().chain(inner).min()
    }

    fn on_processing_time(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.actions.push_back(Action::Timer);
        self.drive(ctx, out)
    }

    fn flush_bundle(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.actions.push_back(Action::Flush);
        self.drive(ctx, out)
    }

    fn snapshot_state(
        &mut self,
        ctx: &mut Context,
        checkpoint: CheckpointId,
    ) -> Result<StateSnapshot> {
        let mut snapshot = if self.changes.are_tracked() {
            self.snapshot_changes(ctx)?
        } else {
            self.snapshot_all(ctx)?
        };
        let unkeyed = self.keyed().snapshot_unkeyed(ctx, checkpoint)?;
        snapshot.tables.extend(unkeyed.tables);
        Ok(snapshot)
    }

    fn continue_snapshot(&mut self, ctx: &mut Context) -> Result<Option<StateSnapshot>> {
        let keys = self.pace.keys();
        let mut piece = self.keyed().thaw(ctx, keys)?;
        if let Some(piece) = &piece {
            self.changes.note_thawed(piece);
            self.pace.copied(piece);
        }
        if let Some(piece) = piece
            .as_mut()
            .filter(|_| is_planted(Bug::TombstoneForgotten))
        {
            piece.gone = Some(Vec::new());
        }
        Ok(piece)
    }

    fn restore_state(&mut self, ctx: &mut Context, mut snapshot: StateSnapshot) -> Result<()> {
        if self.lower.is_some() {
            // Not all of it may stay.
            snapshot.first_of = 0;
        }
        let keys = match &mut self.lower {
            Some(lower) if lower.residents.are_known() => snapshot.key_hashes(),
            _ => Vec::new(),
        };
        self.changes.listen(ctx);
        self.changes.note_restored(snapshot.keyed_rows());
        self.inner.restore_state(ctx, snapshot)?;
        if let Some(lower) = &mut self.lower {
            lower.residents.add(&keys);
        }
        self.rows_since_check = usize::MAX;
        while self.is_over_budget(ctx) {
            self.evict_cold(ctx)?;
            self.rows_since_check = usize::MAX;
        }
        Ok(())
    }

    fn on_restored(&mut self) -> Result<()> {
        self.inner.on_restored()
    }

    fn restore_pieces(&self) -> usize {
        match self.lower {
            Some(_) => PIECES_BEYOND_MEMORY,
            None => self.inner.restore_pieces(),
        }
    }

    fn notify_checkpoint_complete(
        &mut self,
        ctx: &mut Context,
        checkpoint: CheckpointId,
    ) -> Result<()> {
        self.inner.notify_checkpoint_complete(ctx, checkpoint)
    }

    fn finish(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.has_finished = true;
        self.actions.push_back(Action::Finish);
        self.drive(ctx, out)
    }
}

impl TieredOperator {
    fn snapshot_changes(&mut self, ctx: &mut Context) -> Result<StateSnapshot> {
        let keyed = self
            .inner
            .keyed_state()
            .expect("an operator does not lose its keyed state");
        // What a task tells at its end is kept as long as the job runs.
        let may_be_all = self.lower.is_none() && !self.has_finished;
        let mut snapshot = self.changes.export(ctx, keyed, may_be_all)?;
        if is_planted(Bug::TombstoneForgotten) {
            snapshot.gone = snapshot.gone.map(|_| Vec::new());
        }
        snapshot.parts = std::mem::take(&mut self.parts.written);
        Ok(snapshot)
    }

    /// What is at hand, or nothing of it yet ([`KeyedState::freeze`]), and in parts what is not.
    fn snapshot_all(&mut self, ctx: &mut Context) -> Result<StateSnapshot> {
        let mut snapshot = match self.keyed().freeze(ctx, Frozen::All)? {
            true => StateSnapshot::default(),
            false => self.keyed().snapshot_keyed(ctx)?,
        };
        if let Some(lower) = &self.lower {
            let mut pieces = Vec::new();
            lower.for_each_piece(self.memory.as_ref(), &mut |piece| {
                pieces.push(self.parts.write(&piece)?);
                Ok(())
            })?;
            snapshot.parts = pieces;
        }
        Ok(snapshot)
    }
}
