//! Decides which row of a primary key a sink shows, where the query names its rows otherwise than the sink.
//!
//! Changes of two rows of the query may meet in one primary key, in any order: applied blindly, the delete of the one would delete the
//! other. So the rows of each primary key are remembered in order of arrival (`history`). Mostly the last one is shown, and when it is
//! taken back, the one before it again. With ON CONFLICT DO NOTHING or DO ERROR the changes between two watermarks are seen together.

mod history;

use arrow::array::{AsArray, RecordBatch, UInt32Array};
use arrow::datatypes::{Int64Type, SchemaRef, UInt8Type};

use super::keyed_state::distinct;
use super::sink::row_text;
use super::{Context, DueTime, Flow, InputIndex, KeySet, KeyedState, Operator, Output, key_hashes};
use crate::error::{Error, Result};
use crate::state::{StateSnapshot, TimeToLive};
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{EventTime, RowKind, RowKinds, Schema};

use history::{NONE, Resolved, RowHistory, UNDECIDED};

const STATE: &str = "rows";

/// What happens to rows of one primary key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnConflict {
    /// The first stays.
    Nothing,
    /// The job fails.
    Error,
    /// The last is shown; when it goes, the one before.
    Deduplicate,
}

/// What a sink upsert materializer does.
#[derive(Debug, Clone)]
pub struct SinkUpsertMaterializerSpec {
    /// The sink's name, for messages.
    pub table: String,
    /// The columns of input and output.
    pub schema: Schema,
    /// The sink's primary key, by which rows were dealt.
    pub primary_key: Vec<usize>,
    /// The columns by which the query names its rows; empty: only the whole row does.
    pub upsert_key: Vec<usize>,
    /// What happens to rows of one primary key.
    pub on_conflict: OnConflict,
    /// Whether ON CONFLICT decides at checkpoints; else at watermarks.
    pub compacts_at_checkpoints: bool,
    /// How long the rows of a primary key are remembered.
    pub time_to_live: TimeToLive,
}

/// Takes all kinds, gives updates by primary key: `+I` for its first row, `+U` for another one, `-D` when none is left.
/// State: all rows of each primary key, and with ON CONFLICT DO NOTHING or DO ERROR which of them is shown.
pub struct SinkUpsertMaterializerOperator {
    spec: SinkUpsertMaterializerSpec,
    rows: RowHistory,
    /// The primary keys whose changes are not decided, in order of arrival.
    undecided: Vec<u32>,
}

/// Results in the making: the kind, the row in the history, the row of the batch that it comes of.
#[derive(Default)]
struct Results {
    kinds: Vec<RowKind>,
    rows: Vec<u32>,
    origins: Vec<u32>,
    /// Rows to forget when the results are gathered.
    gone: Vec<u32>,
}

impl Results {
    fn push(&mut self, kind: RowKind, row: u32, origin: usize) {
        self.kinds.push(kind);
        self.rows.push(row);
        self.origins.push(origin as u32);
    }
}

impl SinkUpsertMaterializerOperator {
    /// An operator as `spec` says.
    pub fn new(spec: SinkUpsertMaterializerSpec) -> Result<Self> {
        let whole: Vec<usize> = (0..spec.schema.len()).collect();
        let name = match &spec.upsert_key[..] {
            [] => &whole[..],
            key => key,
        };
        let rows = RowHistory::new(spec.schema.to_arrow(), spec.primary_key.clone(), name)?;
        Ok(SinkUpsertMaterializerOperator {
            spec,
            rows,
            undecided: Vec::new(),
        })
    }

    /// Applies the changes of a batch to the history; `applied` sees each.
    fn apply(
        &mut self,
        ctx: &Context,
        batch: &ChangelogBatch,
        results: &mut Results,
        mut applied: impl FnMut(&mut Self, Applied, &mut Results),
    ) -> Result<()> {
        let hashes = key_hashes(batch, &self.spec.primary_key)?;
        let Resolved { keys, names } = self.rows.resolve(&batch.rows, hashes.values())?;
        let adds = |row: &u32| batch.kinds.get(*row as usize).is_accumulate();
        let added: Vec<u32> = (0..batch.num_rows() as u32).filter(adds).collect();
        let mut added = self.rows.store(&batch.rows, &added)?.into_iter();
        let expiry = self.spec.time_to_live.expiry(ctx.processing_time());
        for (origin, (key, name)) in keys.into_iter().zip(names).enumerate() {
            self.rows
                .forget_expired(key, ctx.processing_time(), &mut results.gone);
            let last = self.rows.last(key);
            let is_named = !self.spec.upsert_key.is_empty();
            let change = if batch.kinds.get(origin).is_accumulate() {
                let replaced = if is_named {
                    self.rows.remove_oldest(name)
                } else {
                    None
                };
                let row = added.next().expect("a stored row for each that adds");
                self.rows.append(row, key, name);
                Applied {
                    key,
                    origin,
                    last,
                    added: Some(row),
                    removed: replaced,
                }
            } else {
                let removed = self.rows.remove_oldest(name);
                Applied {
                    key,
                    origin,
                    last,
                    added: None,
                    removed,
                }
            };
            if change.added.is_none() && change.removed.is_none() {
                continue;
            }
            self.rows.written(key, expiry);
            applied(self, change, results);
        }
        Ok(())
    }

    /// The last row is shown: what each change does to it, at once.
    fn show_last(&mut self, ctx: &Context, batch: &ChangelogBatch) -> Result<ChangelogBatch> {
        let mut results = Results::default();
        self.apply(ctx, batch, &mut results, |this, change, results| {
            results.gone.extend(change.removed);
            let last = this.rows.last(change.key);
            match (change.added, change.removed) {
                (Some(row), _) if change.last == NONE => {
                    results.push(RowKind::Insert, row, change.origin)
                }
                (Some(row), _) => results.push(RowKind::UpdateAfter, row, change.origin),
                (None, Some(row)) if last == NONE => {
                    results.push(RowKind::Delete, row, change.origin)
                }
                (None, Some(row)) if row == change.last => {
                    results.push(RowKind::UpdateAfter, last, change.origin)
                }
                (None, _) => {}
            }
        })?;
        let origins = UInt32Array::from(results.origins.clone());
        let new_row = |row: usize| {
            results
                .origins
                .partition_point(|origin| (*origin as usize) < row)
        };
        let (steps, _) = batch.steps.reindex(new_row, origins.len());
        let shown = ChangelogBatch {
            steps,
            hashes: batch.hashes.as_ref().map(|hashes| hashes.take(&origins)),
            ..self.gathered(&results)?
        };
        self.forget(ctx, &results)?;
        Ok(shown)
    }

    fn gathered(&self, results: &Results) -> Result<ChangelogBatch> {
        let rows = self.rows.gather(&results.rows)?;
        Ok(ChangelogBatch::new(rows, RowKinds::new(&results.kinds)))
    }

    fn forget(&mut self, ctx: &Context, results: &Results) -> Result<()> {
        self.rows.forget(&results.gone)?;
        let renumbered = self
            .rows
            .clean_up(self.spec.time_to_live, ctx.processing_time())?;
        if renumbered {
            self.undecided = self.rows.undecided();
        }
        Ok(())
    }

    fn decides_later(&self) -> bool {
        self.spec.on_conflict != OnConflict::Deduplicate
    }

    fn mark_undecided(&mut self, key: u32) {
        if !self.rows.set_undecided(key, true) {
            self.undecided.push(key);
        }
    }

    /// Takes changes to be decided about later; the row that is shown is kept though it is taken back.
    fn collect(&mut self, ctx: &Context, batch: &ChangelogBatch) -> Result<()> {
        let mut results = Results::default();
        self.apply(ctx, batch, &mut results, |this, change, results| {
            let shown = this.rows.shown(change.key);
            results
                .gone
                .extend(change.removed.filter(|row| Some(*row) != shown));
            this.mark_undecided(change.key);
        })?;
        self.forget(ctx, &results)
    }

    /// Passes a watermark on, behind what is decided by it.
    fn decide_at(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<()> {
        if !self.spec.compacts_at_checkpoints {
            self.decide(ctx, out)?;
        }
        out.watermark(watermark);
        Ok(())
    }

    /// Decides about all changes that came.
    fn decide(&mut self, ctx: &mut Context, out: &mut Output) -> Result<()> {
        let mut results = Results::default();
        for key in std::mem::take(&mut self.undecided) {
            self.rows.set_undecided(key, false);
            ctx.keys_changed(&[self.rows.hash(key)]);
            let shown = self.rows.shown(key);
            let wins = match self.spec.on_conflict {
                OnConflict::Error => self.only_row(key)?,
                _ => self.first_row(key, shown, &mut results),
            };
            match (shown, wins) {
                (None, Some(row)) => results.push(RowKind::Insert, row, 0),
                (Some(shown), Some(row)) if shown != row => {
                    results.push(RowKind::UpdateAfter, row, 0)
                }
                (Some(row), None) => results.push(RowKind::Delete, row, 0),
                _ => {}
            }
            self.rows.show(key, wins);
            let replaced = shown.filter(|row| wins != Some(*row) && !self.rows.is_listed(*row));
            results.gone.extend(replaced);
        }
        out.emit(self.gathered(&results)?);
        results.gone.sort_unstable();
        results.gone.dedup();
        self.forget(ctx, &results)
    }

    /// The row that is shown, as it is now, or else the first one; the others are refused for good.
    fn first_row(&mut self, key: u32, shown: Option<u32>, results: &mut Results) -> Option<u32> {
        let stays = shown.filter(|row| self.rows.is_listed(*row));
        let renewed = shown.and_then(|row| self.rows.newest(self.rows.name_of(row)));
        let wins = stays.or(renewed).or_else(|| self.rows.listed(key).next())?;
        let name = self.rows.name_of(wins);
        let is_other = |row: &u32| self.rows.name_of(*row) != name;
        let others: Vec<u32> = self.rows.listed(key).filter(is_other).collect();
        for other in others {
            let removed = self.rows.remove_oldest(self.rows.name_of(other));
            results
                .gone
                .extend(removed.filter(|row| Some(*row) != shown));
        }
        Some(wins)
    }

    fn only_row(&self, key: u32) -> Result<Option<u32>> {
        let mut rows = self.rows.listed(key);
        let Some(first) = rows.next() else {
            return Ok(None);
        };
        let is_other = |row: &u32| self.rows.name_of(*row) != self.rows.name_of(first);
        match rows.find(is_other) {
            Some(other) => Err(self.conflict(first, other)?),
            None => Ok(self.rows.newest(self.rows.name_of(first))),
        }
    }

    fn conflict(&self, first: u32, other: u32) -> Result<Error> {
        let rows = self.rows.gather(&[first, other])?;
        let key: RecordBatch = rows.project(&self.spec.primary_key)?;
        Ok(Error::data(format!(
            "INSERT INTO \"{}\" ON CONFLICT DO ERROR: two rows have the primary key ({}): ({}) and ({})",
            self.spec.table,
            row_text(&key, 0),
            row_text(&rows, 0),
            row_text(&rows, 1),
        ))
        .hint("make the query give one row for each primary key, or write DO NOTHING (the first stays) or DO DEDUPLICATE (the last wins)"))
    }
}

/// A change that was applied to the history.
#[derive(Debug, Clone, Copy)]
struct Applied {
    key: u32,
    origin: usize,
    /// The last row of the key before.
    last: u32,
    added: Option<u32>,
    removed: Option<u32>,
}

impl Operator for SinkUpsertMaterializerOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        if !self.decides_later() {
            out.emit(self.show_last(ctx, &batch)?);
            return Ok(Flow::Done);
        }
        for slice in batch.by_steps(ctx.watermark()) {
            if slice.watermark > ctx.watermark() {
                ctx.advance_watermark(slice.watermark);
                self.decide_at(ctx, slice.watermark, out)?;
            }
            self.collect(ctx, &batch.slice(slice.offset, slice.length))?;
        }
        Ok(Flow::Done)
    }

    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        if self.decides_later() {
            self.decide_at(ctx, watermark, out)?;
        } else {
            out.watermark(watermark);
        }
        Ok(Flow::Done)
    }

    fn flush_bundle(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        if self.spec.compacts_at_checkpoints {
            self.decide(ctx, out)?;
        }
        Ok(Flow::Done)
    }

    fn finish(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.decide(ctx, out)?;
        Ok(Flow::Done)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        self.snapshot_keyed(ctx)
    }

    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        vec![(STATE.to_string(), self.rows.snapshot_schema())]
    }

    fn restore_state(&mut self, ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        self.load_keyed(ctx, &snapshot)
    }

    /// What is decided at checkpoints is a bundle from one to the next, and must not be ended before: then keys stay.
    fn keyed_state(&mut self) -> Option<&mut dyn KeyedState> {
        let is_bundle = self.decides_later() && self.spec.compacts_at_checkpoints;
        (!is_bundle).then_some(self)
    }
}

/// Where ON CONFLICT decides at watermarks, a key acts at the next one if changes of it have come.
impl KeyedState for SinkUpsertMaterializerOperator {
    fn key_columns(&self, _: InputIndex) -> &[usize] {
        self.rows.primary_key()
    }

    fn snapshot_keyed(&mut self, ctx: &Context) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(STATE, self.rows.snapshot(ctx.processing_time())?);
        Ok(snapshot)
    }

    fn keys(&mut self, _: &Context) -> Result<Vec<u64>> {
        Ok(distinct(self.rows.hashes()))
    }

    fn load_keyed(&mut self, _: &Context, snapshot: &StateSnapshot) -> Result<()> {
        let undecided = self.rows.restore(snapshot.batches(STATE))?;
        self.undecided.extend(undecided);
        Ok(())
    }

    fn clear_keyed(&mut self) -> Result<()> {
        self.undecided.clear();
        self.rows.clear()
    }

    fn size_bytes(&self) -> usize {
        self.rows.size_bytes() + self.undecided.capacity() * size_of::<u32>()
    }

    fn due_time(&self) -> DueTime {
        match self.decides_later() {
            true => DueTime::Event,
            false => DueTime::Never,
        }
    }

    /// What is to be decided about is not forgotten before.
    fn expiries(&self, _: &str, rows: &RecordBatch) -> Option<Vec<i64>> {
        let expiries = rows.column(1).as_primitive::<Int64Type>().values();
        let marks = rows.column(2).as_primitive::<UInt8Type>().values();
        let expiry = |(expiry, marks): (&i64, &u8)| match marks & UNDECIDED {
            0 => *expiry,
            _ => i64::MAX,
        };
        Some(expiries.iter().zip(marks).map(expiry).collect())
    }

    fn due(&self, _: &str, rows: &RecordBatch) -> Vec<i64> {
        let marks = rows.column(2).as_primitive::<UInt8Type>().values();
        let due = |marks: &u8| match marks & UNDECIDED {
            0 => i64::MAX,
            _ => i64::MIN,
        };
        marks.iter().map(due).collect()
    }

    fn export_keyed(&mut self, ctx: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(STATE, self.rows.export(keys, ctx.processing_time())?);
        Ok(snapshot)
    }

    fn evict_keyed(&mut self, ctx: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let gone = self.export_keyed(ctx, keys)?;
        self.undecided
            .retain(|key| !keys.contains(&self.rows.hash(*key)));
        if self.rows.take_out(keys, ctx.processing_time())? {
            self.undecided = self.rows.undecided();
        }
        Ok(gone)
    }
}

#[cfg(test)]
mod tests;
