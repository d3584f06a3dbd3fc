//! Windows that keep a few of their rows: what window Top-N and window deduplication share.
//!
//! Rows wait in their window in order of arrival. A window that grows is thinned out: rows that can no longer be in its
//! result are dropped each time it has doubled, so that it holds about twice what it will give, or a few thousand rows.

use std::collections::BTreeMap;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute;
use arrow::datatypes::SchemaRef;

use super::window_buffer::{Due, Emission, FireQueue, WindowBuffer};
use super::{
    Context, DueTime, Flow, InputIndex, KeySet, KeyedState, Operator, Output, RESTORE_PIECES,
};
use crate::error::Result;
use crate::state::{Groups, StateBackend, StateSnapshot, all_but};
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{EventTime, ProcessingTime};
use crate::window::WindowTime;

const STATE: &str = "rows";

/// A window is thinned out first when it has more than so many rows.
pub(super) const THIN_OUT_ROWS: usize = 8192;

/// Which rows of a window stay, and what becomes of them.
pub trait ReduceWindow: Send {
    /// The rows that may be in the result once more rows have come, in order of arrival. `hashes` are those of the keys.
    fn survivors(&self, rows: &RecordBatch, hashes: &[u64]) -> Result<Vec<u32>>;

    /// The result of the window that has these rows, in order of arrival.
    fn result(&self, rows: &RecordBatch, hashes: &[u64]) -> Result<RecordBatch>;
}

/// Takes inserts with their windows attached, gives inserts when a window ends; late rows go to the late rows.
/// State: the rows of open windows that may still be in the result.
pub struct WindowReduceOperator<R> {
    pub(super) reduce: R,
    pub(super) buffer: WindowBuffer,
    pub(super) sizes: BTreeMap<i64, WindowSize>,
    fires: FireQueue,
    emission: Emission,
}

/// How many rows a window has, and at how many it is thinned out.
#[derive(Debug, Clone, Copy)]
pub(super) struct WindowSize {
    pub(super) rows: usize,
    limit: usize,
}

impl<R: ReduceWindow> WindowReduceOperator<R> {
    pub(super) fn of(
        reduce: R,
        input: SchemaRef,
        window_end: usize,
        keys: Vec<usize>,
        window_time: &WindowTime,
        backend: &dyn StateBackend,
    ) -> Result<Self> {
        Ok(WindowReduceOperator {
            reduce,
            buffer: WindowBuffer::new(input, window_end, keys, window_time, backend)?,
            sizes: BTreeMap::new(),
            fires: FireQueue::new(window_time)?,
            emission: Emission::default(),
        })
    }

    fn grow(&mut self, ctx: &mut Context, window_end: i64, added: usize) -> Result<()> {
        let size = self.size_mut(window_end);
        size.rows += added;
        if size.rows > size.limit {
            let rows = self.thin_out(ctx, window_end)?;
            let limit = THIN_OUT_ROWS.max(2 * rows);
            self.sizes.insert(window_end, WindowSize { rows, limit });
        }
        Ok(())
    }

    fn size_mut(&mut self, window_end: i64) -> &mut WindowSize {
        self.sizes.entry(window_end).or_insert(WindowSize {
            rows: 0,
            limit: THIN_OUT_ROWS,
        })
    }

    fn thin_out(&mut self, ctx: &mut Context, window_end: i64) -> Result<usize> {
        let (rows, hashes) = self.buffer.take(window_end)?;
        let kept = self.reduce.survivors(&rows, &hashes)?;
        debug_assert!(kept.is_sorted(), "rows keep their order of arrival");
        if ctx.tracks_changed_keys() {
            let dropped = all_but(&kept, hashes.len());
            ctx.keys_changed(&Groups::Ids(&dropped).gather(&hashes));
        }
        let hashes: Vec<u64> = kept.iter().map(|row| hashes[*row as usize]).collect();
        let rows = compute::take_record_batch(&rows, &UInt32Array::from(kept))?;
        self.buffer.put_back(window_end, rows, &hashes)?;
        Ok(hashes.len())
    }

    fn fire(&mut self, ctx: &mut Context, window_end: i64) -> Result<RecordBatch> {
        self.sizes.remove(&window_end);
        let (rows, hashes) = self.buffer.take(window_end)?;
        ctx.keys_changed(&hashes);
        self.reduce.result(&rows, &hashes)
    }

    fn work_off(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        loop {
            if self.emission.emit(out) == Flow::Blocked {
                return Ok(Flow::Blocked);
            }
            match self.fires.next(self.buffer.first_window()) {
                Some(Due::Window(end)) => {
                    let rows = self.fire(ctx, end)?;
                    self.emission.start(rows);
                }
                Some(Due::Watermark(watermark)) => out.watermark(watermark),
                None => return Ok(Flow::Done),
            }
        }
    }
}

impl<R: ReduceWindow> Operator for WindowReduceOperator<R> {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        self.fires.on_steps(&batch.steps);
        for (window_end, rows) in self.buffer.add(ctx, batch, out)? {
            self.grow(ctx, window_end, rows)?;
        }
        Ok(Flow::Done)
    }

    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        self.fires.on_watermark(watermark);
        self.work_off(ctx, out)
    }

    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.work_off(ctx, out)
    }

    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        self.fires.timer(self.buffer.first_window())
    }

    fn on_processing_time(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.fires.on_processing_time(ctx.processing_time());
        self.work_off(ctx, out)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        self.snapshot_keyed(ctx)
    }

    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        vec![(STATE.to_string(), self.buffer.snapshot_schema())]
    }

    fn restore_state(&mut self, ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        self.load_keyed(ctx, &snapshot)
    }

    fn restore_pieces(&self) -> usize {
        RESTORE_PIECES
    }

    fn keyed_state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }
}

impl<R: ReduceWindow> KeyedState for WindowReduceOperator<R> {
    fn key_columns(&self, _: InputIndex) -> &[usize] {
        self.buffer.keys()
    }

    fn snapshot_keyed(&mut self, _: &Context) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(STATE, self.buffer.snapshot()?);
        Ok(snapshot)
    }

    fn load_keyed(&mut self, _: &Context, snapshot: &StateSnapshot) -> Result<()> {
        for (window_end, rows) in self.buffer.load(snapshot.batches(STATE))? {
            self.size_mut(window_end).rows += rows;
        }
        Ok(())
    }

    fn clear_keyed(&mut self) -> Result<()> {
        self.buffer.clear();
        self.sizes.clear();
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.buffer.size_bytes()
    }

    fn export_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(STATE, self.buffer.export(keys)?);
        Ok(snapshot)
    }

    fn evict_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(STATE, self.buffer.evict(keys)?);
        let sizes: BTreeMap<i64, usize> = self.buffer.sizes().collect();
        self.sizes.retain(|end, size| {
            size.rows = sizes.get(end).copied().unwrap_or(0);
            size.rows > 0
        });
        Ok(snapshot)
    }

    fn due_time(&self) -> DueTime {
        self.buffer.due_time()
    }

    fn due(&self, _: &str, rows: &RecordBatch) -> Vec<i64> {
        self.buffer.due(rows)
    }
}
