//! The first rows of each partition to arrive, where nothing ever goes: LIMIT, and Top-N by processing time. Counting is enough.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute;
use arrow::datatypes::{DataType, Int64Type, SchemaRef, UInt64Type};

use super::{EXPIRY, RankEnd, RankSpec};
use crate::error::Result;
use crate::operators::expiry::Sweep;
use crate::operators::keyed_rows::{SNAPSHOT_ROWS, keyed_batch};
use crate::operators::partition_table::{PartitionTable, at};
use crate::operators::{Context, Flow, InputIndex, Operator, Output};
use crate::state::{StateSnapshot, TimeToLive};
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::ProcessingTime;

const COUNTS: &str = "counts";

/// Gives the rows that arrive with the ranks of a range. Input and output are insert-only. State: a count for each partition,
/// forgotten a time to live after it changed last.
pub struct FirstRowsOperator {
    spec: RankSpec,
    output: SchemaRef,
    partitions: PartitionTable,
    counts: Vec<u64>,
    ends: Vec<u64>,
    expiry: Vec<i64>,
    sweep: Sweep,
    ids: Vec<u32>,
}

impl FirstRowsOperator {
    /// An operator as `spec` says; its order is that of arrival.
    pub fn new(spec: RankSpec) -> Result<Self> {
        Ok(FirstRowsOperator {
            output: spec.output.to_arrow(),
            partitions: PartitionTable::new(&spec.input, &spec.partition_by)?,
            counts: Vec::new(),
            ends: Vec::new(),
            expiry: Vec::new(),
            sweep: Sweep::new(spec.time_to_live),
            ids: Vec::new(),
            spec,
        })
    }

    fn grow(&mut self) {
        let partitions = self.partitions.len();
        self.counts.resize(partitions, 0);
        self.ends.resize(partitions, 0);
        self.expiry.resize(partitions, i64::MIN);
    }

    /// The rows within the range, and their ranks.
    fn first(&mut self, rows: &RecordBatch, now: ProcessingTime) -> Result<(Vec<u32>, Vec<i64>)> {
        let column = match self.spec.end {
            RankEnd::Constant(_) => None,
            RankEnd::Column(end) => Some(compute::cast(rows.column(end), &DataType::Int64)?),
        };
        let expiry = self.spec.time_to_live.expiry(now);
        let (mut kept, mut ranks) = (Vec::new(), Vec::new());
        for (row, id) in self.ids.iter().enumerate() {
            let partition = *id as usize;
            if TimeToLive::is_expired(self.expiry[partition], now) {
                self.counts[partition] = 0;
                self.expiry[partition] = expiry;
                self.ends[partition] = match (self.spec.end, &column) {
                    (RankEnd::Constant(end), _) => end,
                    (_, column) => column.as_ref().map_or(0, |column| whole(column, row)),
                };
            }
            if self.counts[partition] < self.ends[partition] {
                self.counts[partition] += 1;
                self.expiry[partition] = expiry;
                if self.counts[partition] >= self.spec.start {
                    kept.push(row as u32);
                    ranks.push(self.counts[partition] as i64);
                }
            }
        }
        Ok((kept, ranks))
    }

    /// Forgets partitions whose time is over, now and then.
    fn forget(&mut self, now: ProcessingTime) -> Result<()> {
        if !self.sweep.is_due(now) {
            return Ok(());
        }
        let lives = |id: &u32| !TimeToLive::is_expired(self.expiry[*id as usize], now);
        let live: Vec<u32> = (0..self.partitions.len() as u32).filter(lives).collect();
        if live.len() < self.partitions.len() {
            self.partitions.keep(&live)?;
            self.counts = at(&self.counts, &live);
            self.ends = at(&self.ends, &live);
            self.expiry = at(&self.expiry, &live);
        }
        Ok(())
    }
}

/// A whole number, 0 where it is NULL or below.
fn whole(column: &ArrayRef, row: usize) -> u64 {
    if column.is_null(row) {
        return 0;
    }
    u64::try_from(column.as_primitive::<Int64Type>().value(row)).unwrap_or(0)
}

impl Operator for FirstRowsOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        let now = ctx.processing_time();
        self.forget(now)?;
        let mut ids = std::mem::take(&mut self.ids);
        self.partitions.resolve(&batch, &mut ids)?;
        self.ids = ids;
        self.grow();
        let (kept, ranks) = self.first(&batch.rows, now)?;
        let (kept, _) = batch.take(&UInt32Array::from(kept))?;
        if !self.spec.output_rank {
            out.emit(kept);
            return Ok(Flow::Done);
        }
        let mut columns = kept.rows.columns().to_vec();
        columns.push(Arc::new(Int64Array::from(ranks)));
        let rows = RecordBatch::try_new(self.output.clone(), columns)?;
        out.emit(kept.with_rows(rows));
        Ok(Flow::Done)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        let all: Vec<u32> = (0..self.partitions.len() as u32).collect();
        let mut batches = Vec::new();
        for ids in all.chunks(SNAPSHOT_ROWS) {
            let (counts, ends) = (at(&self.counts, ids), at(&self.ends, ids));
            batches.push(keyed_batch(
                &at(self.partitions.hashes(), ids),
                ctx.subtask().max_parallelism,
                &[
                    ("count", Arc::new(UInt64Array::from(counts))),
                    ("end", Arc::new(UInt64Array::from(ends))),
                    (EXPIRY, Arc::new(Int64Array::from(at(&self.expiry, ids)))),
                ],
                &self.partitions.key_rows(ids)?,
            )?);
        }
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(COUNTS, batches);
        Ok(snapshot)
    }

    fn restore_state(&mut self, _ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        for batch in snapshot.batches(COUNTS) {
            let counts = batch.column(1).as_primitive::<UInt64Type>().values();
            let ends = batch.column(2).as_primitive::<UInt64Type>().values();
            let expiry = batch.column(3).as_primitive::<Int64Type>().values();
            let keys = &batch.columns()[4..];
            let ids = self.partitions.resolve_keys(keys, batch.num_rows())?;
            self.grow();
            for (row, id) in ids.iter().enumerate() {
                self.counts[*id as usize] = counts[row];
                self.ends[*id as usize] = ends[row];
                self.expiry[*id as usize] = expiry[row];
            }
        }
        Ok(())
    }
}
