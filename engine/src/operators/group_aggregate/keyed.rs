//! The groups as keyed state: each key is a unit of its own.

use super::{GroupAggregateOperator, TABLE};
use crate::error::Result;
use crate::operators::keyed_state::{KeySet, KeyedState};
use crate::operators::{Context, InputIndex};
use crate::state::StateSnapshot;

impl KeyedState for GroupAggregateOperator {
    fn key_columns(&self, _: InputIndex) -> &[usize] {
        &self.keys
    }

    fn snapshot_keyed(&mut self, _: &Context) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(TABLE, self.states.snapshot(&self.key_names)?);
        Ok(snapshot)
    }

    fn load_keyed(&mut self, ctx: &Context, snapshot: &StateSnapshot) -> Result<()> {
        self.states.load(snapshot.batches(TABLE))?;
        self.plan_sweep(ctx.processing_time());
        Ok(())
    }

    fn clear_keyed(&mut self) -> Result<()> {
        self.result_rows = Vec::new();
        self.states.clear()
    }

    fn size_bytes(&self) -> usize {
        self.states.size_bytes() + self.result_rows.capacity() * 4
    }

    fn export_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(TABLE, self.states.export(&self.key_names, keys)?);
        Ok(snapshot)
    }

    fn evict_keyed(&mut self, ctx: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let gone = self.export_keyed(ctx, keys)?;
        self.states.remove(keys)?;
        self.result_rows = Vec::new();
        Ok(gone)
    }

    fn tracks_changes(&self) -> bool {
        true
    }

    fn track_changes(&mut self) {
        self.states.track_changes();
    }

    fn take_changed(&mut self) -> Vec<u64> {
        self.states.take_changed()
    }

    fn export_changed(&mut self, _: &Context) -> Result<Option<StateSnapshot>> {
        let (changed, batches) = self.states.export_changed(&self.key_names)?;
        let mut snapshot = StateSnapshot {
            changed: Some(changed),
            ..StateSnapshot::default()
        };
        snapshot.insert_keyed(TABLE, batches);
        Ok(Some(snapshot))
    }
}
