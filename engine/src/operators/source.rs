//! The head of a source task: polls a reader, computes the declared columns and tells the time.
//!
//! Each batch of the reader comes from one split. Its rows get the table's computed columns, then the watermark
//! expression is evaluated over the batch, and the split's generator says how the watermark of the reader advanced between
//! the rows. Positions, generators and the watermark are one snapshot, so that time never goes back across a restore.

use std::collections::BTreeMap;

use arrow::array::{Array, RecordBatch};
use serde::{Deserialize, Serialize};

use super::{CalcSpec, Context, Output, Subtask};
use crate::connectors::source::PollRequest;
use crate::connectors::{SourcePoll, SourceReader, SplitState};
use crate::error::{Error, Result};
use crate::expr::{CompiledExpression, RowContext};
use crate::planted::{Bug, is_planted};
use crate::state::StateSnapshot;
use crate::stream::{ChangelogBatch, StreamElement, WatermarkStatus, WatermarkSteps};
use crate::types::{EventTime, ProcessingTime, RowKinds};
use crate::watermark::{
    SourceWatermarks, SourceWatermarksState, WatermarkStrategy, event_time_millis, watermark_millis,
};

/// The name of the one document in a snapshot.
const STATE: &str = "source";

/// The WATERMARK clause of a table, compiled.
pub struct WatermarkAssignerSpec {
    /// The event-time column, among the columns behind the computed ones.
    pub time_column: usize,
    /// The watermark of a row, over the same columns.
    pub expression: CompiledExpression,
    /// The table's name, for messages.
    pub table: String,
    /// The event-time column's name, for messages.
    pub column: String,
    /// When splits emit and go idle.
    pub strategy: WatermarkStrategy,
    /// Whether the plan reads CURRENT_WATERMARK, so that every step must stay.
    pub keep_all_steps: bool,
}

/// What a poll came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceStatus {
    /// Something was emitted, or a split changed; poll again at once.
    Emitted,
    /// Nothing now. Poll again at this time at the latest; `None`: when the reader wakes the task, or never.
    Pending(Option<ProcessingTime>),
    /// All splits have ended; the largest watermark has been emitted. Nothing follows.
    Ended,
}

/// Reads the splits of one subtask. Driven by the runtime, as no input feeds it.
pub struct SourceOperator {
    reader: Box<dyn SourceReader>,
    calc: Option<CalcSpec>,
    assigner: Option<WatermarkAssignerSpec>,
    watermarks: SourceWatermarks,
    /// What was put out last, so that only changes go out.
    emitted: EventTime,
    status: WatermarkStatus,
    records: u64,
}

/// What one instance keeps in a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SourceState {
    /// Index and parallelism; `None`: written before they were always known.
    subtask: Option<(usize, usize)>,
    splits: Vec<SplitState>,
    watermarks: SourceWatermarksState,
}

impl SourceOperator {
    /// A source without splits. `calc` gives the declared columns from those of the reader; `None`: they are the same.
    pub fn new(
        reader: Box<dyn SourceReader>,
        calc: Option<CalcSpec>,
        assigner: Option<WatermarkAssignerSpec>,
    ) -> Self {
        let strategy = assigner
            .as_ref()
            .map_or(WatermarkStrategy::default(), |assigner| assigner.strategy);
        SourceOperator {
            reader,
            calc,
            assigner,
            watermarks: SourceWatermarks::new(strategy),
            emitted: EventTime::MIN,
            status: WatermarkStatus::Active,
            records: 0,
        }
    }

    /// Rows read by this instance since it was started.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The times of its splits.
    pub(crate) fn watermarks(&self) -> SourceWatermarksState {
        self.watermarks.state()
    }

    /// Splits to read, unread ones at the start of a job. (Restored ones come with [`SourceOperator::restore_state`].)
    pub fn add_splits(&mut self, splits: Vec<SplitState>) -> Result<()> {
        for split in &splits {
            self.watermarks.add_split(&split.id);
        }
        self.reader.add_splits(splits)
    }

    /// Whether there is a split that has not ended.
    pub fn has_splits(&self) -> bool {
        self.watermarks.has_splits()
    }

    /// Reads on: emits the next rows of some split and, behind them, the watermark where it has advanced.
    pub fn poll(
        &mut self,
        ctx: &mut Context,
        request: &PollRequest,
        out: &mut Output,
    ) -> Result<SourceStatus> {
        if let Some(slowest) = self
            .watermarks
            .slowest_split()
            .filter(|_| self.assigner.is_some())
        {
            self.reader.prefer_split(slowest);
        }
        match self.reader.poll(request)? {
            SourcePoll::Rows { split, rows, kinds } => {
                self.rows(ctx, request.now, &split, rows, kinds, out)?
            }
            SourcePoll::SplitEnd(split) => self.watermarks.split_ended(&split),
            SourcePoll::SplitIdle(split) => self.watermarks.split_idle(&split),
            SourcePoll::Pending { until } => return Ok(self.pending(ctx, request.now, until, out)),
            SourcePoll::End => return Ok(self.end(ctx, out)),
        }
        self.watermarks.check_idleness(request.now);
        self.put_out(ctx, out);
        Ok(SourceStatus::Emitted)
    }

    fn rows(
        &mut self,
        ctx: &mut Context,
        now: ProcessingTime,
        split: &str,
        rows: RecordBatch,
        kinds: RowKinds,
        out: &mut Output,
    ) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        self.records += rows.num_rows() as u64;
        self.watermarks.on_rows(split, rows.num_rows(), now);
        self.put_out(ctx, out);
        let mut batch = ChangelogBatch::new(rows, kinds);
        if let Some(calc) = &self.calc {
            batch = calc.evaluate(batch, self.emitted, ctx.processing_time())?;
        }
        if let Some(assigner) = &self.assigner {
            let (watermarks, before) = (&mut self.watermarks, self.emitted);
            batch.steps = assigner.advance(watermarks, ctx, before, split, &batch.rows)?;
        }
        out.emit(batch);
        Ok(())
    }

    fn pending(
        &mut self,
        ctx: &mut Context,
        now: ProcessingTime,
        until: Option<ProcessingTime>,
        out: &mut Output,
    ) -> SourceStatus {
        self.watermarks.check_idleness(now);
        self.put_out(ctx, out);
        self.put_out_status(self.watermarks.status(), out);
        let next = [until, self.watermarks.next_idleness_check()];
        SourceStatus::Pending(next.into_iter().flatten().min())
    }

    /// Ends as if all splits had, at the positions where they are: the job is being drained.
    pub fn drain(&mut self, ctx: &mut Context, out: &mut Output) -> SourceStatus {
        self.end(ctx, out)
    }

    fn end(&mut self, ctx: &mut Context, out: &mut Output) -> SourceStatus {
        self.put_out_status(WatermarkStatus::Active, out);
        self.watermarks.restore_combined(EventTime::MAX);
        self.put_out_watermark(ctx, out);
        SourceStatus::Ended
    }

    /// What has changed: an active status before the watermark, for a watermark of an idle input counts nowhere, an idle one
    /// behind it. A reader whose last split has ended mostly ends itself at the next poll; it is idle only where it waits.
    fn put_out(&mut self, ctx: &mut Context, out: &mut Output) {
        let status = self.watermarks.status();
        if status == WatermarkStatus::Active {
            self.put_out_status(status, out);
        }
        self.put_out_watermark(ctx, out);
        if self.watermarks.has_splits() {
            self.put_out_status(status, out);
        }
    }

    fn put_out_status(&mut self, status: WatermarkStatus, out: &mut Output) {
        if self.status != status {
            self.status = status;
            out.element(StreamElement::Status(status));
        }
    }

    fn put_out_watermark(&mut self, ctx: &mut Context, out: &mut Output) {
        let combined = self.watermarks.combined();
        if combined > self.emitted {
            self.emitted = combined;
            ctx.advance_watermark(combined.max(ctx.watermark()));
            out.watermark(combined);
        }
    }

    /// The reader's positions and the time, as of the last poll. `subtask`: whose they are, also of one that was not polled yet, for
    /// at the same parallelism rows on their way keep their order only if every split stays where it is.
    pub fn snapshot_state(&self, subtask: Subtask) -> Result<StateSnapshot> {
        let state = SourceState {
            subtask: Some((subtask.index, subtask.parallelism)),
            splits: self.reader.snapshot()?,
            watermarks: self.watermarks.state(),
        };
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_json(STATE, &state)?;
        Ok(snapshot)
    }

    /// Takes up this subtask's share of a snapshot of all subtasks, before the first poll and instead of the splits of a fresh
    /// start. At the same parallelism every subtask goes on with its own splits; else the splits, sorted by their names, are
    /// dealt round robin, and no subtask starts behind the watermark of the slowest.
    pub fn restore_state(&mut self, ctx: &mut Context, snapshot: &StateSnapshot) -> Result<()> {
        let states: Vec<SourceState> = snapshot.json(STATE)?;
        let (index, parallelism) = (ctx.subtask().index, ctx.subtask().parallelism);
        let own = |state: &&SourceState| state.subtask == Some((index, parallelism));
        let same_parallelism =
            |state: &SourceState| state.subtask.is_some_and(|(_, of)| of == parallelism);
        let same = states.len() == parallelism && states.iter().all(same_parallelism);
        let mine: Vec<SourceState> = match states.iter().find(own) {
            Some(own) if same => vec![own.clone()],
            _ => states,
        };
        if !is_planted(Bug::SourceWatermarkForgotten) {
            self.watermarks.restore_combined(slowest(&mine));
        }
        let mut splits: BTreeMap<String, _> = BTreeMap::new();
        for state in mine {
            let mut generators = state.watermarks.splits;
            splits.extend(state.splits.into_iter().map(|split| {
                let mut generator = generators.remove(&split.id);
                if is_planted(Bug::SourceWatermarkForgotten) {
                    generator = None;
                }
                if let Some(generator) = &mut generator {
                    generator.idle &= !is_planted(Bug::IdleForgotten);
                }
                (split.id.clone(), (split, generator))
            }));
        }
        let dealt = splits.into_values().enumerate();
        let dealt = dealt.filter(|(place, _)| same || place % parallelism == index);
        let mut restored = Vec::new();
        for (_, (split, generator)) in dealt {
            match generator {
                Some(generator) => self.watermarks.restore_split(&split.id, generator),
                None => self.watermarks.add_split(&split.id),
            }
            restored.push(split);
        }
        self.watermarks.restored();
        self.reader.add_splits(restored)
    }

    /// A checkpoint with the last snapshot is complete.
    pub fn notify_checkpoint_complete(&mut self) -> Result<()> {
        self.reader.notify_checkpoint_complete()
    }
}

/// The least watermark of the instances; those that were idle before their first watermark held nothing back.
fn slowest(states: &[SourceState]) -> EventTime {
    states
        .iter()
        .map(|state| &state.watermarks)
        .filter(|watermarks| {
            let active = watermarks.splits.values().any(|split| !split.idle);
            active || watermarks.combined > EventTime::MIN
        })
        .map(|watermarks| watermarks.combined)
        .min()
        .unwrap_or(EventTime::MIN)
}

impl WatermarkAssignerSpec {
    /// How the watermark advances between the rows of a split.
    fn advance(
        &self,
        watermarks: &mut SourceWatermarks,
        ctx: &Context,
        before: EventTime,
        split: &str,
        rows: &RecordBatch,
    ) -> Result<WatermarkSteps> {
        let times = rows.column(self.time_column);
        self.refuse_null(times, watermarks.rows_of(split), split)?;
        let context = RowContext {
            processing_time: ctx.processing_time(),
            watermark: before,
            steps: &WatermarkSteps::NONE,
        };
        let asked = self.expression.evaluate(rows, &context)?;
        Ok(watermarks.advance(
            split,
            &event_time_millis(times)?,
            &watermark_millis(&asked)?,
            self.keep_all_steps,
        ))
    }

    fn refuse_null(&self, times: &dyn Array, rows_of_split: u64, split: &str) -> Result<()> {
        if times.null_count() == 0 {
            return Ok(());
        }
        let row = (0..times.len())
            .find(|row| times.is_null(*row))
            .expect("a column with NULLs has a row with NULL");
        let number = rows_of_split - (times.len() - row) as u64 + 1;
        Err(Error::data(format!(
            "rowtime column \"{}\" of table \"{}\" is null in row {number} of split {split}",
            self.column, self.table
        ))
        .hint(
            "an event time must not be null: declare it as a computed column with COALESCE or correct the data",
        ))
    }
}

#[cfg(test)]
mod tests;
