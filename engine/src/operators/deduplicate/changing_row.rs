//! Keeps the row of each key that is best so far, and gives an update when a better one comes.
//!
//! By processing time the last to arrive is the best; by event time the one with the latest time (of equal ones the last to
//! arrive), or the earliest (of equal ones the first). In a bundle each key goes from the row before it to the row after it
//! in one change.

use std::sync::Arc;

use arrow::array::{AsArray, Int64Array};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, Int64Type, SchemaRef};

use super::{DeduplicateChangelog, DeduplicateSpec, ROWS};
use crate::error::Result;
use crate::operators::expiry::Sweep;
use crate::operators::keyed_rows::{SNAPSHOT_ROWS, keyed_batch, keyed_schema, unkeyed_batch};
use crate::operators::keyed_state::{EXPIRY_COLUMN, KeySet, KeyedState};
use crate::operators::partition_table::{PartitionTable, at};
use crate::operators::row_bundle::{BundleEvent, RowBundle};
use crate::operators::row_changes::{RowChanges, RowPlace, RowRef, equal_pairs};
use crate::operators::{Context, Flow, InputIndex, KeepRow, Operator, Output, RESTORE_PIECES};
use crate::state::{RowSlab, StateSnapshot, TimeToLive, keep_at};
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{EventTime, ProcessingTime, RowKind};
use crate::watermark::watermark_millis;

/// Keeps the best row of each key. Takes inserts, gives `+I`, then updates; never a delete. A row equal to the one that it replaces by
/// processing time goes by unseen, unless state has a time to live. State: a row for each key, remembered for a time to live
/// after it was replaced last.
pub struct DeduplicateChangingRowOperator {
    spec: DeduplicateSpec,
    changelog: DeduplicateChangelog,
    bundle: Option<RowBundle>,
    keys: PartitionTable,
    rows: RowSlab,
    /// The row of each key.
    held: Vec<RowRef>,
    /// Its event time.
    times: Vec<i64>,
    expiry: Vec<i64>,
    sweep: Sweep,
    ids: Vec<u32>,
}

/// A row that takes the place of another one, or of none.
#[derive(Debug, Clone, Copy)]
struct Replacement {
    old: RowRef,
    new: usize,
}

/// A key whose row changes in a batch.
#[derive(Debug, Clone, Copy)]
struct Touched {
    key: u32,
    /// What the state holds.
    stored: RowRef,
    /// The same where its time is not over.
    before: RowRef,
}

impl DeduplicateChangingRowOperator {
    /// An operator as `spec` says, with changes as `changelog` says.
    pub fn new(spec: DeduplicateSpec, changelog: DeduplicateChangelog) -> Result<Self> {
        let schema = spec.schema.to_arrow();
        let bundle = changelog.bundle_rows;
        Ok(DeduplicateChangingRowOperator {
            bundle: bundle.map(|size| RowBundle::new(schema.clone(), size)),
            keys: PartitionTable::new(&spec.schema, &spec.key)?,
            rows: RowSlab::new(schema),
            held: Vec::new(),
            times: Vec::new(),
            expiry: Vec::new(),
            sweep: Sweep::new(spec.time_to_live),
            ids: Vec::new(),
            spec,
            changelog,
        })
    }

    fn apply(&mut self, ctx: &mut Context, batch: &ChangelogBatch) -> Result<ChangelogBatch> {
        let now = ctx.processing_time();
        self.forget(ctx)?;
        let mut ids = std::mem::take(&mut self.ids);
        self.keys.resolve(batch, &mut ids)?;
        self.grow();
        let (mut replacements, touched) = self.replace(batch, &ids, now)?;
        self.ids = ids;
        if self.bundle.is_some() {
            replacements = self.net(&touched);
        }
        let changes = self.changes(batch, &replacements)?;
        let changes = changes.into_batch(&self.rows, batch)?;
        self.store(batch, &touched)?;
        Ok(changes)
    }

    fn grow(&mut self) {
        self.held.resize(self.keys.len(), RowRef::NONE);
        self.times.resize(self.keys.len(), EventTime::MIN.millis());
        self.expiry.resize(self.keys.len(), i64::MAX);
    }

    /// Lets each row take its place, if it is better.
    fn replace(
        &mut self,
        batch: &ChangelogBatch,
        ids: &[u32],
        now: ProcessingTime,
    ) -> Result<(Vec<Replacement>, Vec<Touched>)> {
        let times = self.event_times(batch)?;
        let expiry = self.spec.time_to_live.expiry(now);
        let mut replacements = Vec::with_capacity(ids.len());
        let mut touched = Vec::new();
        for (row, id) in ids.iter().enumerate() {
            let key = *id as usize;
            let stored = self.held[key];
            let expired = TimeToLive::is_expired(self.expiry[key], now);
            let old = if expired { RowRef::NONE } else { stored };
            if let Some(times) = &times {
                if !old.is_none() && !self.is_better(times[row], self.times[key]) {
                    continue;
                }
                self.times[key] = times[row];
            }
            replacements.push(Replacement { old, new: row });
            if !matches!(stored.place(), RowPlace::Batch(_)) || stored.is_none() {
                touched.push(Touched {
                    key: *id,
                    stored,
                    before: old,
                });
            }
            self.held[key] = RowRef::batch(row);
            self.expiry[key] = expiry;
        }
        Ok((replacements, touched))
    }

    fn event_times(&self, batch: &ChangelogBatch) -> Result<Option<ScalarBuffer<i64>>> {
        let column = self.spec.order_column;
        let times = column.map(|column| watermark_millis(batch.rows.column(column)));
        times.transpose()
    }

    fn is_better(&self, time: i64, held: i64) -> bool {
        match self.spec.keep {
            KeepRow::First => time < held,
            KeepRow::Last => time >= held,
        }
    }

    /// One replacement for each key.
    fn net(&self, touched: &[Touched]) -> Vec<Replacement> {
        let replacements =
            touched
                .iter()
                .map(|touched| match self.held[touched.key as usize].place() {
                    RowPlace::Batch(row) | RowPlace::State(row) => Replacement {
                        old: touched.before,
                        new: row as usize,
                    },
                });
        replacements.collect()
    }

    fn changes(&self, batch: &ChangelogBatch, replacements: &[Replacement]) -> Result<RowChanges> {
        let unseen = self.unseen(batch, replacements)?;
        let DeduplicateChangelog {
            update_before,
            first_is_insert,
            ..
        } = self.changelog;
        let first = if update_before || first_is_insert {
            RowKind::Insert
        } else {
            RowKind::UpdateAfter
        };
        let mut changes = RowChanges::with_capacity(2 * replacements.len());
        for (at, Replacement { old, new }) in replacements.iter().enumerate() {
            if old.is_none() {
                changes.push(first, RowRef::batch(*new), *new);
            } else if !unseen.get(at).is_some_and(|unseen| *unseen) {
                if update_before {
                    changes.push(RowKind::UpdateBefore, *old, *new);
                }
                changes.push(RowKind::UpdateAfter, RowRef::batch(*new), *new);
            }
        }
        Ok(changes)
    }

    /// Which replacements change nothing; empty where nobody asks. With a time to live they go out, so that the state of those
    /// who read them lives as long as this one.
    fn unseen(&self, batch: &ChangelogBatch, replacements: &[Replacement]) -> Result<Vec<bool>> {
        if self.spec.order_column.is_some() || self.spec.time_to_live.is_enabled() {
            return Ok(Vec::new());
        }
        let updates = |replacement: &&Replacement| !replacement.old.is_none();
        let pairs: Vec<(RowRef, usize)> = replacements
            .iter()
            .filter(updates)
            .map(|replacement| (replacement.old, replacement.new))
            .collect();
        let mut equal = equal_pairs(&pairs, &self.rows, &batch.rows)?.into_iter();
        let unseen = replacements
            .iter()
            .map(|replacement| updates(&replacement) && equal.next().unwrap_or(false));
        Ok(unseen.collect())
    }

    /// Moves the rows that stay from the batch into the state.
    fn store(&mut self, batch: &ChangelogBatch, touched: &[Touched]) -> Result<()> {
        let gone: Vec<u32> = touched
            .iter()
            .filter(|touched| !touched.stored.is_none())
            .filter_map(|touched| touched.stored.state_id())
            .collect();
        let stay: Vec<u32> = touched
            .iter()
            .map(|touched| match self.held[touched.key as usize].place() {
                RowPlace::Batch(row) | RowPlace::State(row) => row,
            })
            .collect();
        let mut ids = Vec::with_capacity(stay.len());
        self.rows.remove(&gone)?;
        self.rows.insert_some(&batch.rows, &stay, &mut ids)?;
        for (touched, id) in touched.iter().zip(ids) {
            self.held[touched.key as usize] = RowRef::state(id);
        }
        Ok(())
    }

    /// Forgets keys whose time is over, now and then.
    fn forget(&mut self, ctx: &mut Context) -> Result<()> {
        let now = ctx.processing_time();
        if !self.sweep.is_due(now) {
            return Ok(());
        }
        let lives = |key: &u32| !TimeToLive::is_expired(self.expiry[*key as usize], now);
        let (live, gone): (Vec<u32>, Vec<u32>) = self.keys.ids().into_iter().partition(lives);
        ctx.keys_changed(&at(self.keys.hashes(), &gone));
        self.keep(&live, &gone)
    }

    /// Forgets the keys `gone`; the others get new numbers.
    fn keep(&mut self, live: &[u32], gone: &[u32]) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        self.rows.remove(&self.rows_of(gone))?;
        self.keys.keep(live)?;
        keep_at(&mut self.held, live);
        keep_at(&mut self.times, live);
        keep_at(&mut self.expiry, live);
        Ok(())
    }

    /// The rows of keys in the slab.
    fn rows_of(&self, keys: &[u32]) -> Vec<u32> {
        let held = at(&self.held, keys).into_iter();
        held.filter_map(RowRef::state_id).collect()
    }

    fn snapshot_keys(&self, keys: &[u32]) -> Result<StateSnapshot> {
        let batches = keys.chunks(SNAPSHOT_ROWS).map(|keys| {
            let rows = self.rows_of(keys);
            assert_eq!(rows.len(), keys.len(), "every key holds a row");
            keyed_batch(
                at(self.keys.hashes(), keys),
                &[(
                    EXPIRY_COLUMN,
                    Arc::new(Int64Array::from(at(&self.expiry, keys))),
                )],
                &self.rows.gather(&rows)?,
            )
        });
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(ROWS, batches.collect::<Result<_>>()?);
        Ok(snapshot)
    }

    fn flush(&mut self, ctx: &mut Context, out: &mut Output) -> Result<()> {
        let rows = self.bundle.as_mut().map(RowBundle::take).transpose()?;
        if let Some(rows) = rows.flatten() {
            out.emit(self.apply(ctx, &rows)?);
        }
        Ok(())
    }
}

impl Operator for DeduplicateChangingRowOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        let Some(bundle) = &mut self.bundle else {
            out.emit(self.apply(ctx, &batch)?);
            return Ok(Flow::Done);
        };
        for event in bundle.add(batch, ctx.watermark())? {
            match event {
                BundleEvent::Ended(rows) => out.emit(self.apply(ctx, &rows)?),
                BundleEvent::Watermark(watermark) => out.watermark(watermark),
            }
        }
        Ok(Flow::Done)
    }

    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        self.flush(ctx, out)?;
        out.watermark(watermark);
        Ok(Flow::Done)
    }

    fn flush_bundle(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.flush(ctx, out)?;
        Ok(Flow::Done)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        self.snapshot_keyed(ctx)
    }

    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        let notes = [(EXPIRY_COLUMN, DataType::Int64)];
        vec![(ROWS.to_string(), keyed_schema(&notes, self.rows.schema()))]
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

impl KeyedState for DeduplicateChangingRowOperator {
    fn key_columns(&self, _: InputIndex) -> &[usize] {
        self.keys.keys()
    }

    fn snapshot_keyed(&mut self, _: &Context) -> Result<StateSnapshot> {
        self.snapshot_keys(&self.keys.ids())
    }

    fn load_keyed(&mut self, _: &Context, snapshot: &StateSnapshot) -> Result<()> {
        for batch in snapshot.batches(ROWS) {
            let (notes, rows) = unkeyed_batch(batch, 1, self.rows.schema())?;
            let expiry = notes[0].as_primitive::<Int64Type>().values();
            let keys = self.keys.resolve_rows(&rows)?;
            self.grow();
            let times = self.event_times(&ChangelogBatch::insert_only(rows.clone()))?;
            let mut ids = Vec::new();
            self.rows.insert(&rows, &mut ids)?;
            for (row, key) in keys.iter().enumerate() {
                let key = *key as usize;
                debug_assert!(self.held[key].is_none(), "a key has one row");
                self.held[key] = RowRef::state(ids[row]);
                self.expiry[key] = expiry[row];
                if let Some(times) = &times {
                    self.times[key] = times[row];
                }
            }
        }
        Ok(())
    }

    fn clear_keyed(&mut self) -> Result<()> {
        self.rows = RowSlab::new(self.rows.schema().clone());
        self.held = Vec::new();
        self.times = Vec::new();
        self.expiry = Vec::new();
        self.keys.keep(&[])
    }

    fn size_bytes(&self) -> usize {
        let by_key =
            self.held.capacity() * 4 + (self.times.capacity() + self.expiry.capacity()) * 8;
        self.keys.size_bytes() + self.rows.size_bytes() + by_key
    }

    fn export_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        self.snapshot_keys(&self.keys.ids_of(keys))
    }

    fn evict_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let gone = self.keys.ids_of(keys);
        let snapshot = self.snapshot_keys(&gone)?;
        self.keep(&self.keys.ids_but(keys), &gone)?;
        Ok(snapshot)
    }
}
