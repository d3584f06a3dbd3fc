//! Keeps the first row of each key to arrive.

use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, Int64Array};
use arrow::datatypes::Int64Type;

use super::DeduplicateSpec;
use crate::error::Result;
use crate::operators::expiry::Sweep;
use crate::operators::keyed_rows::{SNAPSHOT_ROWS, keyed_batch};
use crate::operators::keyed_state::{EXPIRY_COLUMN, KeySet, KeyedState};
use crate::operators::partition_table::{PartitionTable, at};
use crate::operators::{Context, Flow, InputIndex, Operator, Output, RESTORE_PIECES};
use crate::state::{StateSnapshot, TimeToLive, keep_at};
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::ProcessingTime;

const KEYS: &str = "keys";

/// Keeps the first row of each key. Input and output are insert-only. State: the keys, each forgotten one time to live
/// after its row.
pub struct DeduplicateFirstRowOperator {
    keys: PartitionTable,
    /// When each key is forgotten; empty where that never happens.
    expiry: Vec<i64>,
    time_to_live: TimeToLive,
    sweep: Sweep,
    ids: Vec<u32>,
    /// The hashes of the keys that changed; `None` where nobody asks.
    changed: Option<Vec<u64>>,
}

impl DeduplicateFirstRowOperator {
    /// An operator as `spec` says.
    pub fn new(spec: &DeduplicateSpec) -> Result<Self> {
        Ok(DeduplicateFirstRowOperator {
            keys: PartitionTable::new(&spec.schema, &spec.key)?,
            expiry: Vec::new(),
            time_to_live: spec.time_to_live,
            sweep: Sweep::new(spec.time_to_live),
            ids: Vec::new(),
            changed: None,
        })
    }

    /// Forgets keys whose time is over, now and then.
    fn forget(&mut self, ctx: &mut Context) -> Result<()> {
        let now = ctx.processing_time();
        if !self.sweep.is_due(now) {
            return Ok(());
        }
        let lives = |id: &u32| !TimeToLive::is_expired(self.expiry[*id as usize], now);
        let (live, gone): (Vec<u32>, Vec<u32>) = self.keys.ids().into_iter().partition(lives);
        let gone = at(self.keys.hashes(), &gone);
        ctx.keys_changed(&gone);
        self.changed(gone);
        self.keep(&live)
    }

    fn keep(&mut self, ids: &[u32]) -> Result<()> {
        if ids.len() == self.keys.len() {
            return Ok(());
        }
        if self.time_to_live.is_enabled() {
            keep_at(&mut self.expiry, ids);
        }
        self.keys.keep(ids)
    }

    fn changed(&mut self, hashes: impl IntoIterator<Item = u64>) {
        if let Some(changed) = &mut self.changed {
            changed.extend(hashes);
        }
    }

    fn snapshot_keys(&self, keys: &[u32]) -> Result<StateSnapshot> {
        let batches = keys.chunks(SNAPSHOT_ROWS).map(|ids| {
            let expiry = if self.time_to_live.is_enabled() {
                at(&self.expiry, ids)
            } else {
                vec![i64::MAX; ids.len()]
            };
            keyed_batch(
                at(self.keys.hashes(), ids),
                &[(EXPIRY_COLUMN, Arc::new(Int64Array::from(expiry)))],
                &self.keys.key_rows(ids)?,
            )
        });
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(KEYS, batches.collect::<Result<_>>()?);
        Ok(snapshot)
    }

    fn first_seen(&mut self, known: usize, now: ProcessingTime) -> BooleanArray {
        let expiry = self.time_to_live.expiry(now);
        if !self.time_to_live.is_enabled() {
            return first_of_each(known, &self.ids).into();
        }
        self.expiry.resize(self.keys.len(), i64::MIN);
        let mask: Vec<bool> = self
            .ids
            .iter()
            .map(|id| {
                let until = &mut self.expiry[*id as usize];
                let is_new = TimeToLive::is_expired(*until, now);
                if is_new {
                    *until = expiry;
                }
                is_new
            })
            .collect();
        mask.into()
    }
}

/// Which rows bring a new key: ids are given in order, so a new one is the next.
fn first_of_each(known: usize, ids: &[u32]) -> Vec<bool> {
    let mut next = known as u32;
    ids.iter()
        .map(|id| {
            let is_new = *id == next;
            next += u32::from(is_new);
            is_new
        })
        .collect()
}

impl Operator for DeduplicateFirstRowOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        self.forget(ctx)?;
        let known = self.keys.len();
        let mut ids = std::mem::take(&mut self.ids);
        self.keys.resolve(&batch, &mut ids)?;
        self.ids = ids;
        let mask = self.first_seen(known, ctx.processing_time());
        if self.changed.is_some() {
            let new = mask.values().set_indices().map(|row| self.ids[row]);
            let hashes = at(self.keys.hashes(), &new.collect::<Vec<_>>());
            self.changed(hashes);
        }
        out.emit(batch.filter(&mask)?.0);
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

impl KeyedState for DeduplicateFirstRowOperator {
    fn key_columns(&self, _: InputIndex) -> &[usize] {
        self.keys.keys()
    }

    fn snapshot_keyed(&mut self, _: &Context) -> Result<StateSnapshot> {
        self.snapshot_keys(&self.keys.ids())
    }

    fn load_keyed(&mut self, _: &Context, snapshot: &StateSnapshot) -> Result<()> {
        for batch in snapshot.batches(KEYS) {
            let keys = &batch.columns()[2..];
            let ids = self.keys.resolve_keys(keys, batch.num_rows())?;
            if self.time_to_live.is_enabled() {
                self.expiry.resize(self.keys.len(), i64::MIN);
                let expiry = batch.column(1).as_primitive::<Int64Type>().values();
                for (id, expiry) in ids.iter().zip(expiry) {
                    self.expiry[*id as usize] = *expiry;
                }
            }
        }
        Ok(())
    }

    fn clear_keyed(&mut self) -> Result<()> {
        self.expiry = Vec::new();
        self.keys.keep(&[])
    }

    fn size_bytes(&self) -> usize {
        self.keys.size_bytes() + self.expiry.capacity() * 8
    }

    fn export_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        self.snapshot_keys(&self.keys.ids_of(keys))
    }

    fn evict_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let gone = self.snapshot_keys(&self.keys.ids_of(keys))?;
        self.keep(&self.keys.ids_but(keys))?;
        Ok(gone)
    }

    /// A row of a key that is known changes nothing.
    fn tracks_changes(&self) -> bool {
        true
    }

    fn track_changes(&mut self) {
        self.changed.get_or_insert_default();
    }

    fn take_changed(&mut self) -> Vec<u64> {
        self.changed
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }
}
