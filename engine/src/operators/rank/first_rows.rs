//! The first rows of each partition to arrive, where nothing ever goes: LIMIT, and Top-N by processing time. Counting is enough.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute;
use arrow::datatypes::{DataType, Int64Type, SchemaRef, UInt64Type};

use super::{RankEnd, RankSpec};
use crate::error::Result;
use crate::operators::expiry::Sweep;
use crate::operators::keyed_rows::{SNAPSHOT_ROWS, keyed_batch};
use crate::operators::keyed_state::{EXPIRY_COLUMN, KeySet, KeyedState};
use crate::operators::partition_table::{PartitionTable, at};
use crate::operators::{Context, Flow, InputIndex, Operator, Output, RESTORE_PIECES};
use crate::state::{StateSnapshot, TimeToLive, keep_at};
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
    fn forget(&mut self, ctx: &mut Context) -> Result<()> {
        let now = ctx.processing_time();
        if !self.sweep.is_due(now) {
            return Ok(());
        }
        let lives = |id: &u32| !TimeToLive::is_expired(self.expiry[*id as usize], now);
        let (live, gone): (Vec<u32>, Vec<u32>) = self.partitions.ids().into_iter().partition(lives);
        ctx.keys_changed(&at(self.partitions.hashes(), &gone));
        self.keep(&live)
    }

    fn keep(&mut self, live: &[u32]) -> Result<()> {
        if live.len() == self.partitions.len() {
            return Ok(());
        }
        self.partitions.keep(live)?;
        keep_at(&mut self.counts, live);
        keep_at(&mut self.ends, live);
        keep_at(&mut self.expiry, live);
        Ok(())
    }

    fn snapshot_partitions(&self, partitions: &[u32]) -> Result<StateSnapshot> {
        let batches = partitions.chunks(SNAPSHOT_ROWS).map(|ids| {
            let (counts, ends) = (at(&self.counts, ids), at(&self.ends, ids));
            let expiry = Int64Array::from(at(&self.expiry, ids));
            keyed_batch(
                at(self.partitions.hashes(), ids),
                &[
                    ("count", Arc::new(UInt64Array::from(counts))),
                    ("end", Arc::new(UInt64Array::from(ends))),
                    (EXPIRY_COLUMN, Arc::new(expiry)),
                ],
                &self.partitions.key_rows(ids)?,
            )
        });
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(COUNTS, batches.collect::<Result<_>>()?);
        Ok(snapshot)
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
        self.forget(ctx)?;
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
        self.snapshot_keyed(ctx)
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

impl KeyedState for FirstRowsOperator {
    fn key_columns(&self, _: InputIndex) -> &[usize] {
        self.partitions.keys()
    }

    fn snapshot_keyed(&mut self, _: &Context) -> Result<StateSnapshot> {
        self.snapshot_partitions(&self.partitions.ids())
    }

    fn load_keyed(&mut self, _: &Context, snapshot: &StateSnapshot) -> Result<()> {
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

    fn clear_keyed(&mut self) -> Result<()> {
        self.counts = Vec::new();
        self.ends = Vec::new();
        self.expiry = Vec::new();
        self.partitions.keep(&[])
    }

    fn size_bytes(&self) -> usize {
        self.partitions.size_bytes() + self.expiry.capacity() * 24
    }

    fn export_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        self.snapshot_partitions(&self.partitions.ids_of(keys))
    }

    fn evict_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let gone = self.snapshot_partitions(&self.partitions.ids_of(keys))?;
        self.keep(&self.partitions.ids_but(keys))?;
        Ok(gone)
    }
}
