//! Keeps the first row of each key to arrive.

use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, Int64Array};
use arrow::datatypes::Int64Type;

use super::{DeduplicateSpec, EXPIRY};
use crate::error::Result;
use crate::operators::expiry::Sweep;
use crate::operators::keyed_rows::{SNAPSHOT_ROWS, keyed_batch};
use crate::operators::partition_table::{PartitionTable, at};
use crate::operators::{Context, Flow, InputIndex, Operator, Output};
use crate::state::{StateSnapshot, TimeToLive};
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
        })
    }

    /// Forgets keys whose time is over, now and then.
    fn forget(&mut self, now: ProcessingTime) -> Result<()> {
        if !self.sweep.is_due(now) {
            return Ok(());
        }
        let lives = |id: &u32| !TimeToLive::is_expired(self.expiry[*id as usize], now);
        let live: Vec<u32> = (0..self.keys.len() as u32).filter(lives).collect();
        if live.len() < self.keys.len() {
            self.keys.keep(&live)?;
            self.expiry = at(&self.expiry, &live);
        }
        Ok(())
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
        let now = ctx.processing_time();
        self.forget(now)?;
        let known = self.keys.len();
        let mut ids = std::mem::take(&mut self.ids);
        self.keys.resolve(&batch, &mut ids)?;
        self.ids = ids;
        let mask = self.first_seen(known, now);
        out.emit(batch.filter(&mask)?.0);
        Ok(Flow::Done)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        let all: Vec<u32> = (0..self.keys.len() as u32).collect();
        let mut batches = Vec::new();
        for ids in all.chunks(SNAPSHOT_ROWS) {
            let expiry = if self.time_to_live.is_enabled() {
                at(&self.expiry, ids)
            } else {
                vec![i64::MAX; ids.len()]
            };
            batches.push(keyed_batch(
                &at(self.keys.hashes(), ids),
                ctx.subtask().max_parallelism,
                &[(EXPIRY, Arc::new(Int64Array::from(expiry)))],
                &self.keys.key_rows(ids)?,
            )?);
        }
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(KEYS, batches);
        Ok(snapshot)
    }

    fn restore_state(&mut self, _ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        for batch in snapshot.batches(KEYS) {
            let keys = &batch.columns()[2..];
            self.keys.resolve_keys(keys, batch.num_rows())?;
            if self.time_to_live.is_enabled() {
                let expiry = batch.column(1).as_primitive::<Int64Type>().values();
                self.expiry.extend_from_slice(expiry);
            }
        }
        Ok(())
    }
}
