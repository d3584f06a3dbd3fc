//! Restores what a stream of updates by key leaves out: the row before each update, and the whole of a deleted row.
//!
//! A batch is worked off at once. One pass over ids finds for each row which row its key had before: one that is kept, or an earlier one
//! of the batch. What compares and copies rows then does so a column at a time, and the order of the rows stays.

use arrow::array::{BooleanArray, RecordBatch, UInt32Array};
use arrow::buffer::ScalarBuffer;
use arrow::compute::interleave_record_batch;
use arrow::datatypes::SchemaRef;

use super::bundle::Bundle;
use super::keyed_state::distinct;
use super::row_equality::equal_rows;
use super::{Context, Flow, InputIndex, KeySet, KeyedState, Operator, Output, key_hashes};
use crate::error::Result;
use crate::expr::{CompiledExpression, RowContext};
use crate::state::{KeyedRows, StateSnapshot, TimeToLive};
use crate::stream::{ChangelogBatch, CheckpointId, WatermarkSteps, concat_batches};
use crate::types::{EventTime, ProcessingTime, RowKind, RowKinds, Schema};

const STATE: &str = "rows";

/// In the scratch column: no row of the batch had the key yet.
const UNTOUCHED: u32 = u32::MAX;
/// In the scratch column: the last row of the batch with the key deleted it.
const GONE: u32 = u32::MAX - 1;

/// What a changelog normalization does.
#[derive(Debug, Clone)]
pub struct ChangelogNormalizeSpec {
    /// The columns of input and output.
    pub schema: Schema,
    /// The columns that name a row, by which rows were dealt.
    pub key: Vec<usize>,
    /// Whether somebody needs the rows before updates.
    pub update_before: bool,
    /// How long a row is remembered.
    pub time_to_live: TimeToLive,
    /// Mini-batch: how many rows make a bundle, of which only the last row of each key counts.
    pub bundle_rows: Option<usize>,
    /// Mini-batch: how long a bundle may wait, milliseconds; 0: until the next watermark.
    pub bundle_latency_ms: u64,
}

/// Keeps the last row of each key. `+I` and `+U` set it, `-D` removes it, `-U` says nothing. Gives `+I` for a new key, `-U` and `+U`
/// for another row, nothing for an equal one (unless rows are forgotten in time: then it refreshes what is downstream), `-D`
/// with the whole row, and nothing for a delete of an unknown key. A row that does not satisfy the condition deletes.
/// State: the last row of each key that satisfied the condition; a bundle is flushed before a snapshot.
pub struct ChangelogNormalizeOperator {
    spec: ChangelogNormalizeSpec,
    condition: Option<CompiledExpression>,
    rows: KeyedRows,
    /// By id: the last row of the batch with the key.
    scratch: Vec<u32>,
    bundle: Option<Bundle>,
    bundled: Vec<ChangelogBatch>,
    bundle_due: Option<ProcessingTime>,
}

/// The row that a key had before a row of the batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    /// The n-th of the kept rows that are gathered.
    Kept(usize),
    /// This row of the batch.
    InBatch(usize),
}

/// What a row of the batch does to its key.
#[derive(Debug, Clone, Copy)]
struct Change {
    row: usize,
    id: u32,
    sets: bool,
    before: Before,
}

impl ChangelogNormalizeOperator {
    /// An operator as `spec` says; `condition` is BOOLEAN, over the input's columns.
    pub fn new(
        spec: ChangelogNormalizeSpec,
        condition: Option<CompiledExpression>,
    ) -> Result<Self> {
        Ok(ChangelogNormalizeOperator {
            rows: KeyedRows::new(spec.schema.to_arrow(), spec.key.clone())?,
            bundle: spec.bundle_rows.map(Bundle::new),
            spec,
            condition,
            scratch: Vec::new(),
            bundled: Vec::new(),
            bundle_due: None,
        })
    }

    fn normalize(&mut self, ctx: &Context, batch: ChangelogBatch) -> Result<ChangelogBatch> {
        let hashes = key_hashes(&batch, &self.spec.key)?;
        let batch = ChangelogBatch {
            hashes: Some(hashes.clone()),
            ..batch
        };
        let mut ids = Vec::new();
        self.rows.resolve(&batch.rows, hashes.values(), &mut ids)?;
        let passes = self.passing(ctx, &batch)?;
        let mut kept = Vec::new();
        let changes = self.changes(ctx, &batch.kinds, passes.as_ref(), &ids, &mut kept);
        let kept = self.rows.gather(&kept)?;
        let repeats = self.repeats(&batch.rows, &kept, &changes)?;
        let result = self.result(&batch, &kept, &changes, &repeats)?;
        self.remember(ctx, &batch.rows, &changes, &repeats)?;
        Ok(result)
    }

    /// Which rows satisfy the condition.
    fn passing(&self, ctx: &Context, batch: &ChangelogBatch) -> Result<Option<BooleanArray>> {
        let Some(condition) = &self.condition else {
            return Ok(None);
        };
        let context = RowContext {
            processing_time: ctx.processing_time(),
            watermark: ctx.watermark(),
            steps: &batch.steps,
        };
        Ok(Some(condition.evaluate_mask(&batch.rows, &context)?))
    }

    /// What each row does to its key. `kept` collects the numbers of the kept rows that are concerned.
    fn changes(
        &mut self,
        ctx: &Context,
        kinds: &RowKinds,
        passes: Option<&BooleanArray>,
        ids: &[u32],
        kept: &mut Vec<u32>,
    ) -> Vec<Change> {
        let known = self
            .scratch
            .len()
            .max(ids.iter().map(|id| *id as usize + 1).max().unwrap_or(0));
        self.scratch.resize(known, UNTOUCHED);
        let mut changes = Vec::with_capacity(ids.len());
        for (row, id) in ids.iter().enumerate() {
            let kind = kinds.get(row);
            if kind == RowKind::UpdateBefore {
                continue;
            }
            let sets = kind.is_accumulate() && passes.is_none_or(|passes| passes.value(row));
            let before = match self.scratch[*id as usize] {
                UNTOUCHED => match self.rows.row(*id, ctx.processing_time()) {
                    None => Before::Nothing,
                    Some(number) => {
                        kept.push(number);
                        Before::Kept(kept.len() - 1)
                    }
                },
                GONE => Before::Nothing,
                earlier => Before::InBatch(earlier as usize),
            };
            self.scratch[*id as usize] = if sets { row as u32 } else { GONE };
            changes.push(Change {
                row,
                id: *id,
                sets,
                before,
            });
        }
        changes
    }

    /// Whether each change sets what is set already. With a time to live nothing counts as a repetition.
    fn repeats(
        &self,
        rows: &RecordBatch,
        kept: &RecordBatch,
        changes: &[Change],
    ) -> Result<Vec<bool>> {
        let mut repeats = vec![false; changes.len()];
        if self.spec.time_to_live.is_enabled() {
            return Ok(repeats);
        }
        let compared: Vec<usize> = (0..changes.len())
            .filter(|at| changes[*at].sets && changes[*at].before != Before::Nothing)
            .collect();
        if compared.is_empty() {
            return Ok(repeats);
        }
        let places = |place: fn(&Change) -> (usize, usize)| -> Vec<(usize, usize)> {
            compared.iter().map(|at| place(&changes[*at])).collect()
        };
        let after = interleave_record_batch(&[rows, kept], &places(|change| (0, change.row)))?;
        let before = interleave_record_batch(&[rows, kept], &places(before_place))?;
        let equal = equal_rows(&after, &before)?;
        for (number, at) in compared.into_iter().enumerate() {
            repeats[at] = equal.value(number);
        }
        Ok(repeats)
    }

    fn result(
        &self,
        batch: &ChangelogBatch,
        kept: &RecordBatch,
        changes: &[Change],
        repeats: &[bool],
    ) -> Result<ChangelogBatch> {
        let mut places = Vec::with_capacity(changes.len());
        let mut kinds = Vec::with_capacity(changes.len());
        let mut origins = Vec::with_capacity(changes.len());
        let mut emit = |kind: RowKind, place: (usize, usize), change: &Change| {
            places.push(place);
            kinds.push(kind);
            origins.push(change.row as u32);
        };
        for (change, repeats) in std::iter::zip(changes, repeats) {
            let after = (0, change.row);
            match (change.sets, change.before) {
                (false, Before::Nothing) => {}
                (false, _) => emit(RowKind::Delete, before_place(change), change),
                (true, Before::Nothing) => emit(RowKind::Insert, after, change),
                (true, _) if *repeats => {}
                (true, _) => {
                    if self.spec.update_before {
                        emit(RowKind::UpdateBefore, before_place(change), change);
                    }
                    emit(RowKind::UpdateAfter, after, change);
                }
            }
        }
        // A row's results stand where it stood, so a step stays in front of those of the rows behind it.
        let new_row = |row: usize| origins.partition_point(|origin| (*origin as usize) < row);
        let (steps, _) = batch.steps.reindex(new_row, origins.len());
        let origins = UInt32Array::new(ScalarBuffer::from(origins.clone()), None);
        Ok(ChangelogBatch {
            rows: interleave_record_batch(&[&batch.rows, kept], &places)?,
            kinds: RowKinds::new(&kinds),
            steps,
            hashes: batch.hashes.as_ref().map(|hashes| hashes.take(&origins)),
        })
    }

    fn remember(
        &mut self,
        ctx: &Context,
        rows: &RecordBatch,
        changes: &[Change],
        repeats: &[bool],
    ) -> Result<()> {
        let mut last = Vec::new();
        for (change, repeats) in std::iter::zip(changes, repeats).rev() {
            let place = &mut self.scratch[change.id as usize];
            if *place == UNTOUCHED {
                continue;
            }
            *place = UNTOUCHED;
            let stays = *repeats && matches!(change.before, Before::Kept(_));
            if !stays {
                last.push((change.id, change.sets.then_some(change.row as u32)));
            }
        }
        let expiry = self.spec.time_to_live.expiry(ctx.processing_time());
        self.rows.write(rows, &last, expiry)?;
        self.rows.clean_up(ctx.processing_time())
    }

    fn add_to_bundle(
        &mut self,
        ctx: &Context,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<()> {
        if self.bundled.is_empty() && self.spec.bundle_latency_ms > 0 {
            let now = ctx.processing_time().millis();
            let due = now.saturating_add(self.spec.bundle_latency_ms as i64);
            self.bundle_due = Some(ProcessingTime(due));
        }
        let batch = ChangelogBatch {
            steps: WatermarkSteps::NONE,
            ..batch
        };
        let Some(bundle) = &mut self.bundle else {
            return Ok(());
        };
        for part in bundle.parts(batch.num_rows()) {
            self.bundled.push(batch.slice(part.offset, part.length));
            if part.ends {
                self.work_off_bundle(ctx, out)?;
            }
        }
        Ok(())
    }

    /// Of a bundle, only the last row of each key counts.
    fn work_off_bundle(&mut self, ctx: &Context, out: &mut Output) -> Result<()> {
        self.bundle_due = None;
        if self.bundled.is_empty() {
            return Ok(());
        }
        self.bundle.iter_mut().for_each(Bundle::close);
        let bundle = std::mem::take(&mut self.bundled);
        let rows = concat_batches(&self.spec.schema.to_arrow(), &bundle)?;
        let last = self.last_of_each_key(&rows)?;
        out.emit(self.normalize(ctx, rows.take(&last)?.0)?);
        Ok(())
    }

    fn last_of_each_key(&mut self, batch: &ChangelogBatch) -> Result<UInt32Array> {
        let hashes = key_hashes(batch, &self.spec.key)?;
        let mut ids = Vec::new();
        self.rows.resolve(&batch.rows, hashes.values(), &mut ids)?;
        let mut last: hashbrown::HashMap<u32, u32, xxhash_rust::xxh3::Xxh3DefaultBuilder> =
            hashbrown::HashMap::default();
        for (row, id) in (0u32..).zip(&ids) {
            if batch.kinds.get(row as usize) != RowKind::UpdateBefore {
                last.insert(*id, row);
            }
        }
        let mut last: Vec<u32> = last.into_values().collect();
        last.sort_unstable();
        Ok(UInt32Array::from(last))
    }
}

fn before_place(change: &Change) -> (usize, usize) {
    match change.before {
        Before::Kept(number) => (1, number),
        Before::InBatch(row) => (0, row),
        Before::Nothing => (0, change.row),
    }
}

impl Operator for ChangelogNormalizeOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        if self.bundle.is_some() {
            self.add_to_bundle(ctx, batch, out)?;
        } else {
            out.emit(self.normalize(ctx, batch)?);
        }
        Ok(Flow::Done)
    }

    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        self.work_off_bundle(ctx, out)?;
        out.watermark(watermark);
        Ok(Flow::Done)
    }

    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        self.bundle_due
    }

    fn on_processing_time(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.work_off_bundle(ctx, out)?;
        Ok(Flow::Done)
    }

    fn flush_bundle(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.work_off_bundle(ctx, out)?;
        Ok(Flow::Done)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        debug_assert!(self.bundled.is_empty(), "a bundle is flushed at a barrier");
        self.snapshot_keyed(ctx)
    }

    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        vec![(STATE.to_string(), self.rows.snapshot_schema())]
    }

    fn restore_state(&mut self, ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        self.load_keyed(ctx, &snapshot)
    }

    fn keyed_state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }
}

fn one_table(rows: Vec<RecordBatch>) -> StateSnapshot {
    let mut snapshot = StateSnapshot::default();
    snapshot.insert_keyed(STATE, rows);
    snapshot
}

impl KeyedState for ChangelogNormalizeOperator {
    fn key_columns(&self, _: InputIndex) -> &[usize] {
        self.rows.key()
    }

    fn snapshot_keyed(&mut self, ctx: &Context) -> Result<StateSnapshot> {
        Ok(one_table(self.rows.snapshot(ctx.processing_time())?))
    }

    fn keys(&mut self, _: &Context) -> Result<Vec<u64>> {
        Ok(distinct(self.rows.hashes()))
    }

    fn load_keyed(&mut self, _: &Context, snapshot: &StateSnapshot) -> Result<()> {
        self.rows.restore(snapshot.batches(STATE))
    }

    fn clear_keyed(&mut self) -> Result<()> {
        self.scratch = Vec::new();
        self.rows.clear()
    }

    fn size_bytes(&self) -> usize {
        self.rows.size_bytes() + self.scratch.capacity() * size_of::<u32>()
    }

    fn export_keyed(&mut self, ctx: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let hashes = keys.iter().copied();
        Ok(one_table(self.rows.export(hashes, ctx.processing_time())?))
    }

    fn evict_keyed(&mut self, ctx: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let gone = self.export_keyed(ctx, keys)?;
        self.rows.take_out(keys.iter().copied())?;
        Ok(gone)
    }
}

#[cfg(test)]
mod tests;
