//! Rows of windows that have not fired, and the order in which windows fire: what window Top-N, deduplication and join
//! share.
//!
//! Rows carry their window's end. A row is late where its window had fired by the watermark before it; on time rows wait
//! in a row store under their window's end. Windows fire by end across all keys, between the watermarks that make them due:
//! the steps inside a batch fire nothing at once but are remembered, and when the watermark behind the batch comes each of
//! them fires its windows and goes out.

use std::collections::{BTreeMap, VecDeque};

use arrow::array::{
    ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, TimestampMillisecondArray,
    UInt32Array,
};
use arrow::compute;
use arrow::datatypes::{Int64Type, SchemaRef, TimestampMillisecondType};

use super::{Context, DueTime, Flow, KeySet, LateRows, Output, key_hashes};
use crate::error::Result;
use crate::state::{GroupTable, RowStore, StateBackend};
use crate::stream::{ChangelogBatch, WatermarkSteps};
use crate::types::{EventTime, ProcessingTime};
use crate::window::{WindowClock, WindowTime};

/// The rows of one input that wait for their window.
pub(super) struct WindowBuffer {
    rows: RowStore,
    window_end: usize,
    keys: Vec<usize>,
    clock: WindowClock,
    is_event_time: bool,
}

impl WindowBuffer {
    /// A buffer of rows with their window's end in column `window_end`; state is dealt by the `keys`.
    pub(super) fn new(
        schema: SchemaRef,
        window_end: usize,
        keys: Vec<usize>,
        time: &WindowTime,
        backend: &dyn StateBackend,
    ) -> Result<Self> {
        Ok(WindowBuffer {
            rows: backend.row_store(schema)?,
            window_end,
            keys,
            clock: WindowClock::new(time)?,
            is_event_time: time.is_event_time(),
        })
    }

    /// Takes rows in, late ones apart. Says which windows got how many rows.
    pub(super) fn add(
        &mut self,
        ctx: &Context,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Vec<(i64, usize)>> {
        debug_assert!(
            batch.kinds.is_insert_only(),
            "window operators take inserts"
        );
        let batch = self.without_late(ctx, batch, out)?;
        if batch.num_rows() == 0 {
            return Ok(Vec::new());
        }
        let hashes = key_hashes(&batch, &self.keys)?;
        let ends = window_ends(&batch.rows, self.window_end);
        if ends.iter().all(|end| *end == ends[0]) {
            let added = (ends[0], batch.num_rows());
            self.rows.append(ends[0], batch.rows, hashes.values())?;
            return Ok(vec![added]);
        }
        let mut added = Vec::new();
        for (end, rows) in rows_by_window(&ends) {
            let hashes: Vec<u64> = rows
                .values()
                .iter()
                .map(|row| hashes.values()[*row as usize])
                .collect();
            added.push((end, hashes.len()));
            let rows = compute::take_record_batch(&batch.rows, &rows)?;
            self.rows.append(end, rows, &hashes)?;
        }
        Ok(added)
    }

    fn without_late(
        &self,
        ctx: &Context,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<ChangelogBatch> {
        let ends = window_ends(&batch.rows, self.window_end);
        let latest = ctx
            .watermark()
            .max(batch.steps.last().unwrap_or(EventTime::MIN));
        let Some(least) = ends.iter().min() else {
            return Ok(batch);
        };
        if !self.is_event_time || self.clock.fire_time(*least) > latest {
            return Ok(batch);
        }
        let watermarks = batch.steps.expand(ctx.watermark(), batch.num_rows());
        let mut fire_time = Memo::new(|end| self.clock.fire_time(end));
        let late: BooleanArray = ends
            .iter()
            .enumerate()
            .map(|(row, end)| Some(fire_time.of(*end) <= watermarks[row]))
            .collect();
        if late.true_count() == 0 {
            return Ok(batch);
        }
        out.late(ctx, late_rows(&batch.rows, &ends, &watermarks, &late, out)?);
        Ok(batch.filter(&compute::not(&late)?)?.0)
    }

    /// The end of the first window that has rows.
    pub(super) fn first_window(&self) -> Option<i64> {
        self.rows.first_namespace()
    }

    /// Takes the rows of a window out, in order of arrival, with the hashes of their keys.
    pub(super) fn take(&mut self, window_end: i64) -> Result<(RecordBatch, Vec<u64>)> {
        let taken = self.rows.take(window_end)?;
        Ok(taken.unwrap_or_else(|| (RecordBatch::new_empty(self.rows.schema().clone()), vec![])))
    }

    /// Puts rows back that [`WindowBuffer::take`] gave.
    pub(super) fn put_back(
        &mut self,
        window_end: i64,
        rows: RecordBatch,
        hashes: &[u64],
    ) -> Result<()> {
        self.rows.append(window_end, rows, hashes)
    }

    /// The columns of a snapshot.
    pub(super) fn snapshot_schema(&self) -> SchemaRef {
        self.rows.snapshot_schema()
    }

    /// All rows, for a snapshot.
    pub(super) fn snapshot(&self) -> Result<Vec<RecordBatch>> {
        self.rows.snapshot()
    }

    /// Adds the rows of snapshots. Says which windows got how many rows.
    pub(super) fn load(&mut self, batches: &[RecordBatch]) -> Result<BTreeMap<i64, usize>> {
        self.rows.restore(batches)?;
        let mut loaded = BTreeMap::new();
        for batch in batches {
            let ends = window_ends_loaded(batch);
            for run in ends.chunk_by(|a, b| a == b) {
                *loaded.entry(run[0]).or_default() += run.len();
            }
        }
        Ok(loaded)
    }

    /// The rows of some keys, for a snapshot.
    pub(super) fn export(&self, keys: &KeySet) -> Result<Vec<RecordBatch>> {
        self.rows.export(&|hash| keys.contains(&hash))
    }

    /// Takes the rows of some keys out.
    pub(super) fn evict(&mut self, keys: &KeySet) -> Result<Vec<RecordBatch>> {
        let gone = self.export(keys)?;
        self.rows.remove(&|hash| keys.contains(&hash))?;
        Ok(gone)
    }

    /// The number of rows of each window.
    pub(super) fn sizes(&self) -> impl Iterator<Item = (i64, usize)> + '_ {
        self.rows.sizes()
    }

    /// Forgets all rows.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
    }

    /// Bytes held.
    pub(super) fn size_bytes(&self) -> usize {
        self.rows.size_bytes()
    }

    /// The columns of the key.
    pub(super) fn keys(&self) -> &[usize] {
        &self.keys
    }

    /// By which time windows fire.
    pub(super) fn due_time(&self) -> DueTime {
        if self.is_event_time {
            DueTime::Event
        } else {
            DueTime::Processing
        }
    }

    /// When the window of each row of a snapshot fires.
    pub(super) fn due(&self, rows: &RecordBatch) -> Vec<i64> {
        let mut fire_time = Memo::new(|end| self.clock.fire_time(end));
        let ends = window_ends_loaded(rows).iter();
        ends.map(|end| fire_time.of(*end).millis()).collect()
    }
}

/// The windows of rows of a snapshot.
fn window_ends_loaded(rows: &RecordBatch) -> &[i64] {
    rows.column(1).as_primitive::<Int64Type>().values()
}

fn window_ends(rows: &RecordBatch, column: usize) -> arrow::buffer::ScalarBuffer<i64> {
    rows.column(column)
        .as_primitive::<TimestampMillisecondType>()
        .values()
        .clone()
}

/// The rows of each window, in order of window ends.
fn rows_by_window(ends: &[i64]) -> BTreeMap<i64, UInt32Array> {
    let mut windows: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    let mut next = 0;
    for run in ends.chunk_by(|a, b| a == b) {
        let rows = next..next + run.len() as u32;
        next = rows.end;
        windows.entry(run[0]).or_default().extend(rows);
    }
    let windows = windows.into_iter();
    windows.map(|(end, rows)| (end, rows.into())).collect()
}

fn late_rows(
    rows: &RecordBatch,
    ends: &[i64],
    watermarks: &[EventTime],
    late: &BooleanArray,
    out: &Output,
) -> Result<LateRows> {
    let indices: Vec<usize> = late.values().set_indices().collect();
    let times = |time: &dyn Fn(usize) -> i64| {
        TimestampMillisecondArray::from_iter_values(indices.iter().map(|row| time(*row)))
    };
    let rows = if out.keeps_late_rows() {
        compute::filter_record_batch(rows, late)?
    } else {
        let options = RecordBatchOptions::new().with_row_count(Some(indices.len()));
        RecordBatch::try_new_with_options(
            std::sync::Arc::new(arrow::datatypes::Schema::empty()),
            vec![],
            &options,
        )?
    };
    Ok(LateRows {
        rows,
        window_end: times(&|row| ends[row]),
        watermark: times(&|row| watermarks[row].millis()),
    })
}

/// A function that is mostly asked for the value it was asked for last.
struct Memo<F> {
    function: F,
    last: Option<(i64, EventTime)>,
}

impl<F: Fn(i64) -> EventTime> Memo<F> {
    fn new(function: F) -> Self {
        Memo {
            function,
            last: None,
        }
    }

    fn of(&mut self, argument: i64) -> EventTime {
        match self.last {
            Some((known, value)) if known == argument => value,
            _ => {
                let value = (self.function)(argument);
                self.last = Some((argument, value));
                value
            }
        }
    }
}

/// The times that have come and have not been worked off.
pub(super) struct FireQueue {
    clock: WindowClock,
    is_event_time: bool,
    times: VecDeque<Time>,
}

#[derive(Debug, Clone, Copy)]
enum Time {
    Event(EventTime),
    Processing(ProcessingTime),
}

/// What an operator does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// The window with this end fires.
    Window(i64),
    /// Everything due by this watermark is out; it goes out too.
    Watermark(EventTime),
}

impl FireQueue {
    pub(super) fn new(time: &WindowTime) -> Result<Self> {
        Ok(FireQueue {
            clock: WindowClock::new(time)?,
            is_event_time: time.is_event_time(),
            times: VecDeque::new(),
        })
    }

    /// The steps of a batch; the watermark behind it follows.
    pub(super) fn on_steps(&mut self, steps: &WatermarkSteps) {
        steps
            .iter()
            .for_each(|step| self.on_watermark(step.watermark));
    }

    /// The watermark has advanced.
    pub(super) fn on_watermark(&mut self, watermark: EventTime) {
        let advances = match self.times.back() {
            Some(Time::Event(last)) => watermark > *last,
            _ => true,
        };
        if advances {
            self.times.push_back(Time::Event(watermark));
        }
    }

    /// The clock has advanced.
    pub(super) fn on_processing_time(&mut self, now: ProcessingTime) {
        self.times.push_back(Time::Processing(now));
    }

    /// What is due next, `first_window` being the first window that has rows. A window that is named must be taken out before
    /// the next call.
    pub(super) fn next(&mut self, first_window: Option<i64>) -> Option<Due> {
        while let Some(time) = self.times.front().copied() {
            if let Some(end) = first_window.filter(|end| self.is_due(*end, time)) {
                return Some(Due::Window(end));
            }
            self.times.pop_front();
            if let Time::Event(watermark) = time {
                return Some(Due::Watermark(watermark));
            }
        }
        None
    }

    fn is_due(&self, window_end: i64, time: Time) -> bool {
        let fire_time = self.clock.fire_time(window_end);
        match time {
            Time::Event(watermark) => self.is_event_time && fire_time <= watermark,
            Time::Processing(now) => !self.is_event_time && fire_time.millis() <= now.millis(),
        }
    }

    /// When the clock makes the window due; `None` in event time.
    pub(super) fn timer(&self, first_window: Option<i64>) -> Option<ProcessingTime> {
        let end = first_window.filter(|_| !self.is_event_time)?;
        Some(ProcessingTime(self.clock.fire_time(end).millis()))
    }
}

/// A batch that goes out in parts, as the output takes it.
#[derive(Default)]
pub(super) struct Emission {
    rows: Option<RecordBatch>,
    next: usize,
}

/// About how many rows a batch of the output has.
pub(super) const OUTPUT_ROWS: usize = 8192;

impl Emission {
    pub(super) fn start(&mut self, rows: RecordBatch) {
        assert!(self.rows.is_none(), "one window is emitted after the other");
        self.rows = Some(rows);
        self.next = 0;
    }

    pub(super) fn emit(&mut self, out: &mut Output) -> Flow {
        let Some(rows) = &self.rows else {
            return Flow::Done;
        };
        while self.next < rows.num_rows() {
            if out.is_full() {
                return Flow::Blocked;
            }
            let length = OUTPUT_ROWS.min(rows.num_rows() - self.next);
            out.emit(ChangelogBatch::insert_only(rows.slice(self.next, length)));
            self.next += length;
        }
        self.rows = None;
        Flow::Done
    }
}

/// A number for each row that is the same for rows with equal `keys`, and of sessions with equal starts: 0 for the first that
/// comes, and so on. `hashes` are those of the keys; equal keys have equal ones, which is all that the table asks.
pub(super) fn partition_ids(
    rows: &RecordBatch,
    keys: &[usize],
    session_start: Option<usize>,
    hashes: &[u64],
) -> Result<Vec<u32>> {
    let columns: Vec<ArrayRef> = keys
        .iter()
        .chain(&session_start)
        .map(|key| rows.column(*key).clone())
        .collect();
    if columns.is_empty() {
        return Ok(vec![0; rows.num_rows()]);
    }
    let types: Vec<_> = columns.iter().map(|key| key.data_type().clone()).collect();
    let mut ids = Vec::with_capacity(rows.num_rows());
    GroupTable::with_capacity(&types, rows.num_rows())?.resolve(&columns, hashes, &mut ids)?;
    Ok(ids)
}
