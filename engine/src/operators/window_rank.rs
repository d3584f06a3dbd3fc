//! Window Top-N: the rows with the first ranks of each window and partition, when the window ends.
//!
//! Rows wait in their window in order of arrival. A window that grows is thinned out: rows that can no longer come among
//! the first ranks are dropped each time it has doubled, so that it holds about twice what it will give.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{self, SortOptions};
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, SortField};

use super::calc::batch_of;
use super::window_buffer::{Due, Emission, FireQueue, WindowBuffer, partition_ids};
use super::{Context, Flow, InputIndex, Operator, Output};
use crate::error::Result;
use crate::state::{StateBackend, StateSnapshot};
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{EventTime, ProcessingTime, Schema, SortKey};
use crate::window::WindowTime;

const STATE: &str = "rows";

/// A window is thinned out first when it has so many rows.
const THIN_OUT_ROWS: usize = 8192;

/// What a window Top-N does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowRankSpec {
    /// The columns of the input.
    pub input: Schema,
    /// The same, then the rank where it is asked for (BIGINT).
    pub output: Schema,
    /// The input column of the window's end.
    pub window_end: usize,
    /// The clock of the window.
    pub window_time: WindowTime,
    /// PARTITION BY without the window's end. (With sessions the window's start belongs to it; other windows of equal end have
    /// equal starts.)
    pub partition_keys: Vec<usize>,
    /// ORDER BY; rows that are equal in it rank as they came.
    pub order_by: Vec<SortKey>,
    /// The first rank that is emitted, from 1.
    pub rank_start: u64,
    /// The last rank that is emitted.
    pub rank_end: u64,
    /// Whether the rank is the last column.
    pub output_rank: bool,
}

/// Takes inserts with their windows attached, gives inserts; late rows go to the late rows.
/// State: the rows of open windows that may still come among the first ranks.
pub struct WindowRankOperator {
    spec: WindowRankSpec,
    schema: SchemaRef,
    order: RowConverter,
    buffer: WindowBuffer,
    fires: FireQueue,
    emission: Emission,
    sizes: BTreeMap<i64, WindowSize>,
}

/// How many rows a window has, and at how many it is thinned out.
#[derive(Debug, Clone, Copy)]
struct WindowSize {
    rows: usize,
    limit: usize,
}

/// Rows of a window in order of partition and rank.
struct Ranked {
    rows: Vec<u32>,
    ranks: Vec<i64>,
}

impl WindowRankOperator {
    /// An operator as `spec` says.
    pub fn new(spec: WindowRankSpec, backend: &dyn StateBackend) -> Result<Self> {
        let fields = spec.order_by.iter().map(|key| {
            let options = SortOptions {
                descending: key.descending,
                nulls_first: key.nulls_first,
            };
            let data_type = spec.input.fields[key.column].logical_type.to_arrow();
            SortField::new_with_options(data_type, options)
        });
        Ok(WindowRankOperator {
            order: RowConverter::new(fields.collect())?,
            schema: spec.output.to_arrow(),
            buffer: WindowBuffer::new(
                spec.input.to_arrow(),
                spec.window_end,
                spec.partition_keys.clone(),
                &spec.window_time,
                backend,
            )?,
            fires: FireQueue::new(&spec.window_time)?,
            emission: Emission::default(),
            sizes: BTreeMap::new(),
            spec,
        })
    }

    /// The rows with the ranks from `start` to the last asked for.
    fn rank(&self, rows: &RecordBatch, hashes: &[u64], start: u64) -> Result<Ranked> {
        let partitions = partition_ids(rows, &self.spec.partition_keys, hashes)?;
        let keys: Vec<ArrayRef> = self
            .spec
            .order_by
            .iter()
            .map(|key| rows.column(key.column).clone())
            .collect();
        let order = self.order.convert_columns(&keys)?;
        let place = |row: u32| (partitions[row as usize], order.row(row as usize), row);
        let mut sorted: Vec<u32> = (0..rows.num_rows() as u32).collect();
        sorted.sort_unstable_by(|a, b| place(*a).cmp(&place(*b)));
        Ok(ranks_between(
            &sorted,
            &partitions,
            start,
            self.spec.rank_end,
        ))
    }

    fn grow(&mut self, window_end: i64, rows: usize) -> Result<()> {
        let size = self.sizes.entry(window_end).or_insert(WindowSize {
            rows: 0,
            limit: THIN_OUT_ROWS,
        });
        size.rows += rows;
        if size.rows <= size.limit {
            return Ok(());
        }
        let (rows, hashes) = self.buffer.take(window_end)?;
        let mut kept = self.rank(&rows, &hashes, 1)?.rows;
        kept.sort_unstable();
        let size = WindowSize {
            rows: kept.len(),
            limit: THIN_OUT_ROWS.max(2 * kept.len()),
        };
        self.sizes.insert(window_end, size);
        let hashes: Vec<u64> = kept.iter().map(|row| hashes[*row as usize]).collect();
        let rows = compute::take_record_batch(&rows, &UInt32Array::from(kept))?;
        self.buffer.put_back(window_end, rows, &hashes)
    }

    fn fire(&mut self, window_end: i64) -> Result<RecordBatch> {
        self.sizes.remove(&window_end);
        let (rows, hashes) = self.buffer.take(window_end)?;
        let ranked = self.rank(&rows, &hashes, self.spec.rank_start)?;
        let rows = compute::take_record_batch(&rows, &UInt32Array::from(ranked.rows))?;
        let mut columns = rows.columns().to_vec();
        if self.spec.output_rank {
            columns.push(Arc::new(Int64Array::from(ranked.ranks)));
        }
        batch_of(&self.schema, columns, rows.num_rows())
    }

    fn work_off(&mut self, out: &mut Output) -> Result<Flow> {
        loop {
            if self.emission.emit(out) == Flow::Blocked {
                return Ok(Flow::Blocked);
            }
            match self.fires.next(self.buffer.first_window()) {
                Some(Due::Window(end)) => {
                    let rows = self.fire(end)?;
                    self.emission.start(rows);
                }
                Some(Due::Watermark(watermark)) => out.watermark(watermark),
                None => return Ok(Flow::Done),
            }
        }
    }
}

/// Of rows sorted by partition and order, those with ranks `start ..= end` in their partition.
fn ranks_between(sorted: &[u32], partitions: &[u32], start: u64, end: u64) -> Ranked {
    let mut ranked = Ranked {
        rows: Vec::new(),
        ranks: Vec::new(),
    };
    let (mut partition, mut rank) = (None, 0);
    for row in sorted {
        let own = Some(partitions[*row as usize]);
        rank = if own == partition { rank + 1 } else { 1 };
        partition = own;
        if (start..=end).contains(&rank) {
            ranked.rows.push(*row);
            ranked.ranks.push(rank as i64);
        }
    }
    ranked
}

impl Operator for WindowRankOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        self.fires.on_steps(&batch.steps);
        for (window_end, rows) in self.buffer.add(ctx, batch, out)? {
            self.grow(window_end, rows)?;
        }
        Ok(Flow::Done)
    }

    fn process_watermark(
        &mut self,
        _ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        self.fires.on_watermark(watermark);
        self.work_off(out)
    }

    fn resume(&mut self, _ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.work_off(out)
    }

    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        self.fires.timer(self.buffer.first_window())
    }

    fn on_processing_time(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.fires.on_processing_time(ctx.processing_time());
        self.work_off(out)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(STATE, self.buffer.snapshot(ctx)?);
        Ok(snapshot)
    }

    /// Sizes of windows begin anew: they only say when to thin out.
    fn restore_state(&mut self, _ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        self.buffer.restore(snapshot.batches(STATE))
    }
}

#[cfg(test)]
mod tests;
