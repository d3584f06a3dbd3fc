//! The Top-N operator.
//!
//! A batch is worked off row by row against the ordered rows of each partition; rows that may come into the result are put into the
//! slab first, all at once, and those that did not stay are taken out of it when everything that names them has gone out.

mod emission;
mod snapshot;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute;
use arrow::datatypes::{DataType, Int64Type, SchemaRef};
use hashbrown::HashSet;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use super::rank_changes::{Change, NONE, RankChanges};
use super::ranked_rows::{RankedRow, RankedRows};
use super::row_index::RowIndex;
use super::sort_order::{RankKey, SortKeys, SortOrder};
use super::{RankEnd, RankSpec, RankStrategy, Ties};
use crate::error::Result;
use crate::operators::expiry::Sweep;
use crate::operators::keyed_state::KeyedState;
use crate::operators::partition_table::{PartitionTable, at};
use crate::operators::row_bundle::{BundleEvent, RowBundle};
use crate::operators::{Context, Flow, InputIndex, Operator, Output, RESTORE_PIECES};
use crate::state::{RowSlab, StateSnapshot, TimeToLive, keep_at};
use crate::stream::{ChangelogBatch, CheckpointId, WatermarkStep, WatermarkSteps};
use crate::types::{EventTime, ProcessingTime, RowKind, RowKinds};

/// About how many rows a batch of the output has.
const OUTPUT_ROWS: usize = 8192;
/// Partitions without rows are forgotten when there are more than so many, and more than there are others.
const EMPTY_PARTITIONS: usize = 1024;

/// Keeps the rows with the ranks of a range in each partition. Takes all kinds of rows as its strategy allows. State: those rows; with the
/// retract strategy all rows.
pub struct RankOperator<K> {
    spec: RankSpec,
    output: SchemaRef,
    order: SortOrder,
    bundle: Option<RowBundle>,
    partitions: PartitionTable,
    tops: Vec<Top<K>>,
    empty: usize,
    rows: RowSlab,
    /// Finds rows where the input changes them.
    index: Option<RowIndex>,
    /// Of each row in the slab, where the input changes rows.
    slots: Vec<Option<Slot<K>>>,
    arrivals: u64,
    changes: RankChanges,
    /// Ranks that change, with their rows before and after; empty between calls.
    shifted: Vec<(u64, u32, u32)>,
    /// What goes out next.
    leaving: VecDeque<Change>,
    work: Option<Work>,
    queue: VecDeque<BundleEvent>,
    sweep: Sweep,
}

/// A partition.
struct Top<K> {
    rows: RankedRows<K>,
    /// The last rank.
    end: usize,
    expiry: i64,
}

/// Where a row of the slab is.
#[derive(Debug, Clone)]
struct Slot<K> {
    partition: u32,
    key: K,
    tie: u64,
    hash: u128,
}

/// The batch that is being worked off.
struct Work {
    batch: ChangelogBatch,
    keys: SortKeys,
    partitions: Vec<u32>,
    /// The id in the slab of each row, or [`NONE`].
    ids: Vec<u32>,
    hashes: Vec<u128>,
    next: usize,
    /// Rows of the slab that are in no partition any more.
    removed: Vec<u32>,
    steps: VecDeque<WatermarkStep>,
    expiry: i64,
}

impl<K: RankKey> RankOperator<K> {
    /// An operator as `spec` says.
    pub fn new(spec: RankSpec) -> Result<Self> {
        let schema = spec.input.to_arrow();
        let columns = match &spec.strategy {
            RankStrategy::AppendFast => None,
            RankStrategy::UpdateFast(key) => Some(key.clone()),
            RankStrategy::Retract => Some((0..spec.input.len()).collect()),
        };
        let index = columns.map(|columns| RowIndex::new(&spec.input, columns));
        let bundle_rows = spec.changelog.bundle_rows;
        Ok(RankOperator {
            output: spec.output.to_arrow(),
            order: SortOrder::new(&spec.input, &spec.order_by)?,
            bundle: bundle_rows.map(|size| RowBundle::new(schema.clone(), size)),
            partitions: PartitionTable::new(&spec.input, &spec.partition_by)?,
            tops: Vec::new(),
            empty: 0,
            rows: RowSlab::new(schema),
            index: index.transpose()?,
            slots: Vec::new(),
            arrivals: 0,
            changes: RankChanges::new(spec.changelog.update_before, bundle_rows.is_some()),
            shifted: Vec::new(),
            leaving: VecDeque::new(),
            work: None,
            queue: VecDeque::new(),
            sweep: Sweep::new(spec.time_to_live),
            spec,
        })
    }

    fn begin(&mut self, ctx: &mut Context, batch: ChangelogBatch) -> Result<Work> {
        let now = ctx.processing_time();
        self.forget(ctx)?;
        let mut partitions = Vec::new();
        self.partitions.resolve(&batch, &mut partitions)?;
        self.open_partitions(&batch.rows, &partitions, now)?;
        let keys = self.order.keys(&batch.rows)?;
        let index = self.index.as_ref();
        let hashes = index.map(|index| index.hashes(&batch.rows)).transpose()?;
        let mut work = Work {
            keys,
            ids: vec![NONE; partitions.len()],
            partitions,
            hashes: hashes.unwrap_or_default(),
            next: 0,
            removed: Vec::new(),
            steps: batch.steps.iter().collect(),
            expiry: self.spec.time_to_live.expiry(now),
            batch,
        };
        let candidates = self.candidates(&work);
        let mut ids = Vec::with_capacity(candidates.len());
        self.rows
            .insert_some(&work.batch.rows, &candidates, &mut ids)?;
        for (row, id) in candidates.iter().zip(ids) {
            work.ids[*row as usize] = id;
        }
        if self.index.is_some() {
            self.slots.resize(self.rows.capacity(), None);
        }
        Ok(work)
    }

    /// Makes room for new partitions; those whose time is over begin anew.
    fn open_partitions(
        &mut self,
        rows: &RecordBatch,
        partitions: &[u32],
        now: ProcessingTime,
    ) -> Result<()> {
        let ends = match self.spec.end {
            RankEnd::Constant(end) => Err(usize::try_from(end).unwrap_or(usize::MAX)),
            RankEnd::Column(column) => Ok(compute::cast(rows.column(column), &DataType::Int64)?),
        };
        let end = |row: usize| match &ends {
            Err(end) => *end,
            Ok(column) => {
                let column = column.as_primitive::<Int64Type>();
                let end = arrow::array::Array::is_valid(column, row).then(|| column.value(row));
                end.map_or(0, |end| usize::try_from(end).unwrap_or(0))
            }
        };
        self.grow();
        for (row, partition) in partitions.iter().enumerate() {
            let top = &self.tops[*partition as usize];
            if TimeToLive::is_expired(top.expiry, now) {
                self.clear(*partition)?;
                let top = &mut self.tops[*partition as usize];
                top.end = end(row);
                top.expiry = self.spec.time_to_live.expiry(now);
            }
        }
        Ok(())
    }

    /// Makes room for all partitions, new ones being as if their time were over.
    fn grow(&mut self) {
        self.empty += self.partitions.len() - self.tops.len();
        self.tops.resize_with(self.partitions.len(), || Top {
            rows: RankedRows::default(),
            end: usize::MAX,
            expiry: i64::MIN,
        });
    }

    /// Forgets the rows of a partition.
    fn clear(&mut self, partition: u32) -> Result<()> {
        let top = &mut self.tops[partition as usize];
        if top.rows.len() == 0 {
            return Ok(());
        }
        let rows: Vec<u32> = top.rows.iter().map(|entry| entry.row).collect();
        top.rows = RankedRows::default();
        self.empty += 1;
        rows.iter().for_each(|row| self.unlink(*row));
        self.rows.remove(&rows)
    }

    /// The rows of a batch that may come into a partition.
    fn candidates(&self, work: &Work) -> Vec<u32> {
        let count = work.partitions.len() as u32;
        let kinds = &work.batch.kinds;
        let arrives =
            |row: &u32| kinds.is_insert_only() || kinds.get(*row as usize).is_accumulate();
        let reaches = |row: &u32| self.reaches(work, *row as usize);
        match &self.spec.strategy {
            RankStrategy::Retract => (0..count).filter(arrives).collect(),
            RankStrategy::AppendFast => (0..count).filter(reaches).collect(),
            RankStrategy::UpdateFast(_) => {
                let mut coming: HashSet<u128, Xxh3DefaultBuilder> = HashSet::default();
                let index = self.index.as_ref().expect("updates are found by an index");
                let may = |row: &u32| {
                    let hash = work.hashes[*row as usize];
                    let may = index.get(hash).is_some() || reaches(row) || coming.contains(&hash);
                    if may {
                        coming.insert(hash);
                    }
                    may
                };
                (0..count).filter(arrives).filter(may).collect()
            }
        }
    }

    /// Whether a row that is not held would come into its partition as it is now.
    fn reaches(&self, work: &Work, row: usize) -> bool {
        let top = &self.tops[work.partitions[row] as usize];
        if top.rows.len() < top.end {
            return true;
        }
        top.rows.last().is_some_and(|worst| {
            let order = K::compare(work.keys.bytes(row), &worst.key);
            order.is_lt() || (order.is_eq() && self.spec.ties == Ties::LastArrived)
        })
    }

    /// Works rows off until there is enough to emit, or no row is left.
    fn advance(&mut self, work: &mut Work) {
        while work.next < work.partitions.len() && self.changes.len() < OUTPUT_ROWS {
            let row = work.next;
            work.next += 1;
            let kind = work.batch.kinds.get(row);
            match (&self.spec.strategy, kind.is_accumulate()) {
                (RankStrategy::AppendFast, _) => self.insert(work, row),
                (RankStrategy::Retract, true) => self.insert(work, row),
                (RankStrategy::UpdateFast(_), true) => self.upsert(work, row),
                // The row after it follows, and takes its place.
                (RankStrategy::UpdateFast(_), false) if kind == RowKind::UpdateBefore => {}
                (_, false) => self.retract(work, row),
            }
        }
    }

    /// A number for the next row: of rows with equal keys the smaller comes first.
    fn next_tie(&mut self) -> u64 {
        let arrival = self.arrivals;
        self.arrivals += 1;
        tie(self.spec.ties, arrival)
    }

    fn insert(&mut self, work: &mut Work, row: usize) {
        let id = work.ids[row];
        if id == NONE {
            return;
        }
        let partition = work.partitions[row];
        let keeps_all = self.spec.strategy == RankStrategy::Retract;
        if !keeps_all && !self.reaches(work, row) {
            work.removed.push(id);
            return;
        }
        let key = K::of(work.keys.bytes(row));
        let tie = self.next_tie();
        self.link(work, row, id, &key, tie);
        let top = &mut self.tops[partition as usize];
        top.expiry = work.expiry;
        self.empty -= usize::from(top.rows.len() == 0);
        let position = top.rows.insert(RankedRow { key, tie, row: id });
        self.emit_insert(partition, position, row as u32);
        let top = &mut self.tops[partition as usize];
        if !keeps_all && top.rows.len() > top.end {
            let evicted = top.rows.remove(top.rows.len() - 1).row;
            self.unlink(evicted);
            work.removed.push(evicted);
        }
    }

    fn link(&mut self, work: &Work, row: usize, id: u32, key: &K, tie: u64) {
        if let Some(index) = &mut self.index {
            let hash = work.hashes[row];
            index.insert(hash, id);
            self.slots[id as usize] = Some(Slot {
                partition: work.partitions[row],
                key: key.clone(),
                tie,
                hash,
            });
        }
    }

    fn unlink(&mut self, id: u32) {
        if let Some(index) = &mut self.index
            && let Some(slot) = self.slots[id as usize].take()
        {
            index.remove(slot.hash, id);
        }
    }

    /// Takes the first row back that is equal to this one; a row that is not there is passed over, its time may be over.
    fn retract(&mut self, work: &mut Work, row: usize) {
        let index = self.index.as_ref().expect("rows go by an index");
        let Some(id) = index.get(work.hashes[row]) else {
            return;
        };
        let Some(slot) = self.slots[id as usize].clone() else {
            return;
        };
        let top = &mut self.tops[slot.partition as usize];
        top.expiry = work.expiry;
        let position = top.rows.position(&slot.key, slot.tie);
        top.rows.remove(position);
        self.empty += usize::from(top.rows.len() == 0);
        self.emit_remove(slot.partition, position, id, row as u32);
        self.unlink(id);
        work.removed.push(id);
    }

    /// A new version of a row, or a row that may come in.
    fn upsert(&mut self, work: &mut Work, row: usize) {
        let index = self.index.as_ref().expect("updates are found by an index");
        let id = work.ids[row];
        let Some(old) = index.get(work.hashes[row]) else {
            return self.insert(work, row);
        };
        let Some(slot) = self.slots[old as usize].clone() else {
            return;
        };
        let partition = slot.partition;
        let key = K::of(work.keys.bytes(row));
        self.unlink(old);
        work.removed.push(old);
        let stays = key == slot.key;
        let tie = if stays { slot.tie } else { self.next_tie() };
        self.link(work, row, id, &key, tie);
        let top = &mut self.tops[partition as usize];
        top.expiry = work.expiry;
        let from = top.rows.position(&slot.key, slot.tie);
        let to = if stays {
            top.rows.replace_row(from, id);
            from
        } else {
            top.rows.remove(from);
            top.rows.insert(RankedRow { key, tie, row: id })
        };
        self.emit_update(partition, from, to, (old, id), row as u32);
    }

    /// Works the queue off as long as there is room in the output.
    fn work_off(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        loop {
            if !self.leaving.is_empty() {
                if out.is_full() {
                    return Ok(Flow::Blocked);
                }
                self.emit(out)?;
                continue;
            }
            if let Some(mut work) = self.work.take() {
                self.advance(&mut work);
                let is_done = work.next == work.partitions.len();
                if is_done || self.bundle.is_none() {
                    self.leaving = self.changes.take().into();
                }
                if self.leaving.is_empty() && is_done {
                    self.rows.remove(&work.removed)?;
                } else {
                    self.work = Some(work);
                }
                continue;
            }
            match self.queue.pop_front() {
                Some(BundleEvent::Ended(rows)) => {
                    self.work = Some(self.begin(ctx, rows)?);
                }
                Some(BundleEvent::Watermark(watermark)) => out.watermark(watermark),
                None => return Ok(Flow::Done),
            }
        }
    }

    /// Emits a batch of the changes that wait.
    fn emit(&mut self, out: &mut Output) -> Result<()> {
        let count = self.leaving.len().min(OUTPUT_ROWS);
        let changes: Vec<Change> = self.leaving.drain(..count).collect();
        let ids: Vec<u32> = changes.iter().map(|change| change.row).collect();
        let mut columns: Vec<ArrayRef> = self.rows.gather(&ids)?.columns().to_vec();
        if self.spec.output_rank {
            let ranks = changes.iter().map(|change| change.rank as i64);
            columns.push(Arc::new(Int64Array::from_iter_values(ranks)));
        }
        let rows = RecordBatch::try_new(self.output.clone(), columns)?;
        let kinds: Vec<RowKind> = changes.iter().map(|change| change.kind).collect();
        let mut batch = ChangelogBatch::new(rows, RowKinds::new(&kinds));
        batch.steps = self.steps_between(&changes);
        out.emit(batch);
        Ok(())
    }

    /// The watermark steps of the input that stand before one of these changes.
    fn steps_between(&mut self, changes: &[Change]) -> WatermarkSteps {
        let mut steps = WatermarkSteps::NONE;
        let waiting = self.work.as_mut().map(|work| &mut work.steps);
        let Some(waiting) = waiting else {
            return steps;
        };
        while let Some(step) = waiting.front().copied() {
            let row = changes.partition_point(|change| (change.cause as usize) < step.row);
            if row == changes.len() {
                break;
            }
            steps.push(WatermarkStep { row, ..step });
            waiting.pop_front();
        }
        steps
    }

    /// Forgets partitions whose time is over, now and then, and those that have become empty, when they are many.
    fn forget(&mut self, ctx: &mut Context) -> Result<()> {
        let now = ctx.processing_time();
        if self.sweep.is_due(now) {
            for partition in 0..self.tops.len() as u32 {
                if TimeToLive::is_expired(self.tops[partition as usize].expiry, now) {
                    ctx.keys_changed(&[self.partitions.hashes()[partition as usize]]);
                    self.clear(partition)?;
                }
            }
        }
        if self.empty <= EMPTY_PARTITIONS || self.empty * 2 <= self.tops.len() {
            return Ok(());
        }
        // The last rank of a partition comes from its first row, also where that is gone.
        let is_constant = matches!(self.spec.end, RankEnd::Constant(_));
        let lives = |partition: &u32| {
            let top = &self.tops[*partition as usize];
            let is_over = is_constant || TimeToLive::is_expired(top.expiry, now);
            top.rows.len() > 0 || !is_over
        };
        let (live, gone): (Vec<u32>, Vec<u32>) = self.partitions.ids().into_iter().partition(lives);
        if !is_constant {
            ctx.keys_changed(&at(self.partitions.hashes(), &gone));
        }
        self.keep(&live)
    }

    /// Forgets all partitions but these, which get new numbers. Those that go must be empty.
    fn keep(&mut self, live: &[u32]) -> Result<()> {
        if live.len() == self.partitions.len() {
            return Ok(());
        }
        self.partitions.keep(live)?;
        keep_at(&mut self.tops, live);
        self.empty = self.tops.iter().filter(|top| top.rows.len() == 0).count();
        self.number_anew();
        Ok(())
    }

    /// Forgets the rows of all partitions, and the partitions' numbers.
    fn forget_rows(&mut self) {
        self.tops = Vec::new();
        self.slots = Vec::new();
        self.empty = 0;
        self.rows = RowSlab::new(self.rows.schema().clone());
        self.index = self.index.take().map(RowIndex::cleared);
    }

    fn number_anew(&mut self) {
        if self.index.is_none() {
            return;
        }
        for (partition, top) in self.tops.iter().enumerate() {
            for entry in top.rows.iter() {
                if let Some(slot) = &mut self.slots[entry.row as usize] {
                    slot.partition = partition as u32;
                }
            }
        }
    }
}

/// The number that orders equal keys, from the number of an arrival; and back.
fn tie(ties: Ties, arrival: u64) -> u64 {
    match ties {
        Ties::FirstArrived => arrival,
        Ties::LastArrived => !arrival,
    }
}

impl<K: RankKey> Operator for RankOperator<K> {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        match &mut self.bundle {
            None => self.queue.push_back(BundleEvent::Ended(batch)),
            Some(bundle) => self.queue.extend(bundle.add(batch, ctx.watermark())?),
        }
        self.work_off(ctx, out)
    }

    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        let rows = self.bundle.as_mut().map(RowBundle::take).transpose()?;
        self.queue.extend(rows.flatten().map(BundleEvent::Ended));
        self.queue.push_back(BundleEvent::Watermark(watermark));
        self.work_off(ctx, out)
    }

    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.work_off(ctx, out)
    }

    fn flush_bundle(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        let rows = self.bundle.as_mut().map(RowBundle::take).transpose()?;
        self.queue.extend(rows.flatten().map(BundleEvent::Ended));
        self.work_off(ctx, out)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        self.snapshot_keyed(ctx)
    }

    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        self.kept_columns()
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
