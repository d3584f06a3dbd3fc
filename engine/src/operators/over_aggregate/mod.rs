//! OVER on a time attribute: every row goes out once, with aggregates over the rows of its key up to it.
//!
//! In event time rows wait until the watermark reaches them; then all that are due are released at once, in order of time
//! and arrival over all keys. In processing time rows go out as they come. What is released is sorted by key, and what happens to each
//! frame (rows enter, rows leave, a result is wanted) is written down as a script, which every function plays in one
//! typed loop; see [`crate::functions::aggregate::OverScript`].
//!
//! An unbounded frame keeps only the states of the functions, a bounded one the arguments of its rows. Rows are late by
//! the watermark where the frame is unbounded, else by the last row of their key that was released; as in Flink a
//! range forgets that time half a range after its last row has left it. A row that is behind the watermark but not late
//! goes out with the next watermark. Only such rows make it necessary to fire within a batch.

mod frames;
mod keyed;
mod keys;

#[cfg(test)]
mod tests;
mod waiting;

use std::cell::Cell;
use std::collections::VecDeque;

use arrow::array::{
    ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, TimestampMillisecondArray, UInt32Array,
};
use arrow::compute;
use arrow::datatypes::SchemaRef;

use self::frames::Frames;
use self::keys::Keys;
pub(super) use self::waiting::{Waiting, WaitingRow};
use super::null_times::without_null_times;
use super::window_buffer::OUTPUT_ROWS;
use super::{Context, Flow, InputIndex, KeyedState, LateRows, Operator, Output, key_hashes};
use crate::error::Result;
use crate::functions::AggregateCall;
use crate::functions::aggregate::{FrameKind, OverFunctions, OverScript};
use crate::state::{StateSnapshot, TimeToLive};
use crate::stream::{ChangelogBatch, CheckpointId, WatermarkSteps};
use crate::types::{EventTime, ProcessingTime, Schema};
use crate::watermark::event_time_millis;

/// Which rows before the current one count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverFrame {
    /// So many rows before it, and itself; `None`: all.
    Rows(Option<u64>),
    /// The rows of so many milliseconds before it, and all of its own time; `None`: all.
    Range(Option<i64>),
}

/// What an OVER aggregation does.
#[derive(Debug, Clone)]
pub struct OverAggregateSpec {
    /// The columns of the input.
    pub input: Schema,
    /// Those of the output: the same, then a result for each call.
    pub output: Schema,
    /// PARTITION BY.
    pub partition_by: Vec<usize>,
    /// The event-time column of ORDER BY; `None`: processing time.
    pub time_column: Option<usize>,
    /// The frame.
    pub frame: OverFrame,
    /// The calls over input columns.
    pub calls: Vec<AggregateCall>,
    /// How long a key is remembered after its last row. Ranges of bounded length forget by themselves and do not heed it.
    pub time_to_live: TimeToLive,
}

/// See the file. Input and output are insert-only.
pub struct OverAggregateOperator {
    spec: OverAggregateSpec,
    output: SchemaRef,
    /// The input columns that functions read, and thus those that frames keep.
    columns: Vec<usize>,
    keys: Keys,
    frames: Frames,
    functions: OverFunctions,
    waiting: Waiting,
    work: VecDeque<Work>,
    /// How many rows have gone out.
    given_rows: u64,
    /// What the states of functions took when they were measured last, and how many rows had gone out by then.
    measured: Cell<Option<(usize, u64)>>,
}

/// What is to be done, in order.
enum Work {
    /// Take these rows in; no watermark between them matters.
    Rows(ChangelogBatch),
    /// Release what is due at this watermark.
    Fire(EventTime),
    /// Pass the watermark on.
    Watermark(EventTime),
}

impl OverFrame {
    fn kind(self) -> FrameKind {
        match self {
            OverFrame::Rows(None) | OverFrame::Range(None) => FrameKind::Unbounded,
            _ => FrameKind::Bounded,
        }
    }
}

impl OverAggregateOperator {
    /// An operator as `spec` says. Fails where a function does not exist, or cannot lose the rows that leave a bounded frame.
    pub fn new(spec: OverAggregateSpec) -> Result<Self> {
        let columns = kept_columns(&spec);
        let functions = functions(&spec, &columns)?;
        let keys = new_keys(&spec)?;
        Ok(OverAggregateOperator {
            output: spec.output.to_arrow(),
            keys,
            frames: Frames::new(spec.frame, spec.input.project(&columns).to_arrow()),
            functions,
            waiting: Waiting::new(spec.input.to_arrow()),
            work: VecDeque::new(),
            given_rows: 0,
            measured: Cell::new(None),
            columns,
            spec,
        })
    }

    /// Bytes of state.
    pub fn state_bytes(&self) -> usize {
        self.keys.size_bytes()
            + self.frames.size_bytes()
            + self.function_bytes()
            + self.waiting.size_bytes()
    }

    /// Bytes of the states of functions. To measure them is to look at each, so that is done once in so many rows.
    fn function_bytes(&self) -> usize {
        const BYTES_A_ROW: u64 = 256;
        let known = self.measured.get().filter(|(bytes, rows)| {
            let rows_since = self.given_rows - rows;
            rows_since.saturating_mul(BYTES_A_ROW) <= *bytes as u64
        });
        if let Some((bytes, _)) = known {
            return bytes;
        }
        let bytes = self.functions.size_bytes();
        self.measured.set(Some((bytes, self.given_rows)));
        bytes
    }

    /// The groups of the rows' keys, with room for all that is kept by group. Keys whose time to live is over begin anew.
    fn groups(&mut self, ctx: &Context, batch: &ChangelogBatch) -> Result<Vec<u32>> {
        let hashes = key_hashes(batch, &self.spec.partition_by)?;
        let keys: Vec<ArrayRef> = self
            .spec
            .partition_by
            .iter()
            .map(|column| batch.rows.column(*column).clone())
            .collect();
        let groups = self.keys.resolve(&keys, hashes.values())?;
        self.grow();
        let expired = self.keys.touch(&groups, ctx.processing_time());
        self.forget(&expired)?;
        Ok(groups)
    }

    fn grow(&mut self) {
        self.frames.grow(self.keys.len());
        self.functions.grow(self.keys.len());
    }

    /// Empties the frames and states of groups.
    fn forget(&mut self, groups: &[u32]) -> Result<()> {
        if groups.is_empty() {
            return Ok(());
        }
        if self.spec.frame.kind() == FrameKind::Unbounded {
            self.functions.reset(groups);
            return Ok(());
        }
        let mut script = OverScript::new(Vec::new());
        let left = self.frames.empty(groups, &mut script)?;
        if !script.is_empty() {
            self.functions.run(&script, &left)?;
        }
        Ok(())
    }

    /// The rows, which are sorted by time in each group, with their results.
    fn results(&mut self, rows: &RecordBatch, released: &[WaitingRow]) -> Result<RecordBatch> {
        self.given_rows += released.len() as u64;
        let arguments: Vec<ArrayRef> = self
            .columns
            .iter()
            .map(|column| rows.column(*column).clone())
            .collect();
        let peers = self.spec.time_column.is_some();
        let played = self.frames.release(released, peers, &arguments)?;
        let results = self.functions.run(&played.script, &played.columns)?;
        let in_place = played.result_of.iter().enumerate();
        let in_place = in_place
            .into_iter()
            .all(|(row, result)| row == *result as usize)
            && played.script.results() == released.len();
        let result_of = UInt32Array::from(played.result_of);
        let mut columns = rows.columns().to_vec();
        for result in results {
            columns.push(if in_place {
                result
            } else {
                compute::take(&result, &result_of, None)?
            });
        }
        Ok(RecordBatch::try_new(self.output.clone(), columns)?)
    }

    /// Does what is to be done until the output is full.
    fn drive(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        while let Some(work) = self.work.pop_front() {
            match work {
                Work::Rows(batch) => self.take_in(ctx, batch, out)?,
                Work::Watermark(watermark) => {
                    if watermark > ctx.watermark() {
                        ctx.advance_watermark(watermark);
                    }
                    out.watermark(watermark);
                }
                Work::Fire(watermark) if out.is_full() => {
                    self.work.push_front(Work::Fire(watermark));
                    return Ok(Flow::Blocked);
                }
                Work::Fire(watermark) => {
                    let due = self.waiting.due(watermark, OUTPUT_ROWS);
                    if due.is_empty() {
                        self.clean_up(ctx, watermark)?;
                    } else {
                        self.release(ctx, &due, out)?;
                        self.work.push_front(Work::Fire(watermark));
                    }
                }
            }
        }
        Ok(Flow::Done)
    }

    /// Forgets what is out of all frames.
    fn clean_up(&mut self, ctx: &mut Context, time: EventTime) -> Result<()> {
        let due = self.keys.clean_up(time);
        self.tell_changed(ctx, due.iter().map(|(group, _)| *group));
        let over = due.iter().filter(|(_, is_over)| *is_over);
        let over: Vec<u32> = over.map(|(group, _)| *group).collect();
        self.forget(&over)
    }

    fn tell_changed(&self, ctx: &mut Context, groups: impl Iterator<Item = u32>) {
        if ctx.tracks_changed_keys() {
            let hashes = self.keys.table.hashes();
            let hashes: Vec<u64> = groups.map(|group| hashes[group as usize]).collect();
            ctx.keys_changed(&hashes);
        }
    }

    fn release(&mut self, ctx: &mut Context, due: &[WaitingRow], out: &mut Output) -> Result<()> {
        self.tell_changed(ctx, due.iter().map(|row| row.group));
        let rows = self.waiting.take(due)?;
        let batch = self.results(&rows, due)?;
        self.keys.released(due, ctx.processing_time());
        out.emit(ChangelogBatch::insert_only(batch));
        Ok(())
    }

    /// Event time: rows wait, but for those that are late.
    fn take_in(
        &mut self,
        ctx: &mut Context,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<()> {
        let Some(column) = self.spec.time_column else {
            return self.pass_through(ctx, batch, out);
        };
        let times = event_time_millis(batch.rows.column(column))?;
        let groups = self.groups(ctx, &batch)?;
        let watermarks = batch.steps.expand(ctx.watermark(), batch.num_rows());
        let unbounded = self.spec.frame.kind() == FrameKind::Unbounded;
        let late: Vec<bool> = (0..groups.len())
            .map(|row| match unbounded {
                true => times[row] <= watermarks[row].millis(),
                false => !self.keys.accept(times[row], groups[row], watermarks[row]),
            })
            .collect();
        if late.contains(&true) {
            out.late(ctx, late_rows(&batch.rows, &late, &watermarks, out)?);
        }
        let kept: Vec<u32> = (0..groups.len())
            .filter(|row| !late[*row])
            .map(|row| row as u32)
            .collect();
        let rows: Vec<(i64, u32)> = kept
            .iter()
            .map(|row| (times[*row as usize], groups[*row as usize]))
            .collect();
        self.keys.wait(rows.iter().map(|(_, group)| *group));
        self.waiting.add(&batch.rows, &kept, &rows)
    }

    /// Processing time: rows go out as they come.
    fn pass_through(
        &mut self,
        ctx: &mut Context,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<()> {
        let now = ctx.processing_time().millis();
        let groups = self.groups(ctx, &batch)?;
        self.clean_up(ctx, EventTime(now))?;
        for group in &groups {
            self.keys.accept(now, *group, EventTime(now - 1));
        }
        self.keys.wait(groups.iter().copied());
        let released: Vec<WaitingRow> = (0..)
            .zip(groups)
            .map(|(id, group)| WaitingRow {
                time: now,
                group,
                id,
            })
            .collect();
        let rows = self.results(&batch.rows, &released)?;
        self.keys.released(&released, ctx.processing_time());
        out.emit(ChangelogBatch {
            hashes: batch.hashes,
            steps: batch.steps,
            ..ChangelogBatch::insert_only(rows)
        });
        Ok(())
    }

    /// Cuts a batch where a row is behind the watermark: then what that watermark released decides whether the row is late.
    fn cut(&mut self, ctx: &Context, batch: ChangelogBatch) -> Result<()> {
        let bounded = self.spec.frame.kind() == FrameKind::Bounded;
        let column = self.spec.time_column.filter(|_| bounded);
        let (Some(column), false) = (column, batch.steps.is_empty()) else {
            self.work.push_back(Work::Rows(batch));
            return Ok(());
        };
        let times = event_time_millis(batch.rows.column(column))?;
        let watermarks = batch.steps.expand(ctx.watermark(), batch.num_rows());
        let (mut start, mut fired) = (0, ctx.watermark());
        for (row, watermark) in watermarks.iter().enumerate() {
            if *watermark > fired && times[row] <= watermark.millis() {
                self.push_rows(&batch, start, row);
                fired = *watermark;
                start = row;
                self.work.push_back(Work::Fire(fired));
                self.work.push_back(Work::Watermark(fired));
            }
        }
        self.push_rows(&batch, start, batch.num_rows());
        Ok(())
    }

    fn push_rows(&mut self, batch: &ChangelogBatch, start: usize, end: usize) {
        if start < end {
            let mut rows = batch.slice(start, end - start);
            rows.steps = WatermarkSteps::NONE;
            self.work.push_back(Work::Rows(rows));
        }
    }

    /// Without the rows whose event time is NULL, which are counted.
    fn without_null_times(&self, ctx: &Context, batch: ChangelogBatch) -> Result<ChangelogBatch> {
        let Some(column) = self.spec.time_column else {
            return Ok(batch);
        };
        without_null_times(ctx, batch, column)
    }
}

/// The functions of all calls over the `columns` that are kept.
fn functions(spec: &OverAggregateSpec, columns: &[usize]) -> Result<OverFunctions> {
    let own = |column: usize| {
        let at = columns.binary_search(&column);
        at.expect("the columns of all calls were collected")
    };
    let calls = spec.calls.iter().map(|call| AggregateCall {
        arguments: call.arguments.iter().map(|column| own(*column)).collect(),
        filter: call.filter.map(own),
        ..call.clone()
    });
    OverFunctions::new(calls.collect(), spec.frame.kind())
}

fn new_keys(spec: &OverAggregateSpec) -> Result<Keys> {
    Keys::new(
        &spec.input,
        &spec.partition_by,
        spec.frame,
        spec.time_to_live,
    )
}

/// The columns of all calls, ascending; never none, so that a row without arguments is still a row.
fn kept_columns(spec: &OverAggregateSpec) -> Vec<usize> {
    let mut columns: Vec<usize> = spec
        .calls
        .iter()
        .flat_map(|call| call.arguments.iter().copied().chain(call.filter))
        .collect();
    columns.sort_unstable();
    columns.dedup();
    if columns.is_empty() {
        columns.push(spec.time_column.unwrap_or(0));
    }
    columns
}

pub(super) fn late_rows(
    rows: &RecordBatch,
    late: &[bool],
    watermarks: &[EventTime],
    out: &Output,
) -> Result<LateRows> {
    let late = BooleanArray::from(late.to_vec());
    let count = late.true_count();
    let kept = if out.keeps_late_rows() {
        compute::filter_record_batch(rows, &late)?
    } else {
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let nothing = std::sync::Arc::new(arrow::datatypes::Schema::empty());
        RecordBatch::try_new_with_options(nothing, vec![], &options)?
    };
    let at = late.values().set_indices();
    Ok(LateRows {
        rows: kept,
        window_end: TimestampMillisecondArray::new_null(count),
        watermark: TimestampMillisecondArray::from_iter_values(
            at.map(|row| watermarks[row].millis()),
        ),
    })
}

impl Operator for OverAggregateOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        debug_assert!(batch.kinds.is_insert_only(), "OVER takes inserts");
        let batch = self.without_null_times(ctx, batch)?;
        if batch.num_rows() > 0 {
            self.cut(ctx, batch)?;
        }
        self.drive(ctx, out)
    }

    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        if self.spec.time_column.is_some() {
            self.work.push_back(Work::Fire(watermark));
        }
        self.work.push_back(Work::Watermark(watermark));
        self.drive(ctx, out)
    }

    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.drive(ctx, out)
    }

    /// In processing time rows come out of all frames when their time has come.
    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        match self.spec.time_column {
            Some(_) => None,
            None => self.keys.first_plan().map(ProcessingTime),
        }
    }

    fn on_processing_time(&mut self, ctx: &mut Context, _: &mut Output) -> Result<Flow> {
        let now = ctx.processing_time().millis();
        self.clean_up(ctx, EventTime(now))?;
        Ok(Flow::Done)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        self.snapshot_keyed(ctx)
    }

    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        vec![self.waiting_rows_table()]
    }

    fn restore_state(&mut self, ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        self.load_keyed(ctx, &snapshot)
    }

    fn keyed_state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }
}
