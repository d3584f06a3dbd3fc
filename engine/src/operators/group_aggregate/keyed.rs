//! The groups as keyed state: each key is a unit of its own.

use super::{GroupAggregateOperator, TABLE};
use crate::error::Result;
use crate::operators::keyed_state::{Frozen, KeySet, KeyedState};
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

    fn keys(&mut self, _: &Context) -> Result<Vec<u64>> {
        Ok(self.states.live_keys())
    }

    fn load_keyed(&mut self, ctx: &Context, snapshot: &StateSnapshot) -> Result<()> {
        let batches = snapshot.batches(TABLE);
        self.states.make_room(batches, snapshot.first_of);
        self.states.load(batches)?;
        self.plan_sweep(ctx.processing_time());
        Ok(())
    }

    fn clear_keyed(&mut self) -> Result<()> {
        self.result_rows = Vec::new();
        self.states.clear()
    }

    fn size_bytes(&self) -> usize {
        let touched = self.bundle.as_ref();
        self.states.size_bytes()
            + self.result_rows.capacity() * 4
            + touched.map_or(0, |(_, touched)| touched.size_bytes())
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

    fn take_changed_among(&mut self, keys: &KeySet) -> Option<KeySet> {
        Some(self.states.take_changed_among(keys))
    }

    fn freeze(&mut self, _: &Context, keys: Frozen<'_>) -> Result<bool> {
        let bundle = self.bundle.as_ref();
        debug_assert!(
            bundle.is_none_or(|(_, touched)| touched.is_empty()),
            "a bundle tells once which groups it changes"
        );
        let nobody = KeySet::default();
        let (all, others) = match keys {
            Frozen::All => (true, &nobody),
            Frozen::Changed(others) => (false, others),
        };
        self.states.freeze(&self.key_names, all, others)?;
        Ok(true)
    }

    fn thaw(&mut self, _: &Context, keys: usize) -> Result<Option<StateSnapshot>> {
        let piece = self.states.thaw(keys)?;
        Ok(piece.map(|(batches, gone)| {
            let mut snapshot = StateSnapshot {
                gone: Some(gone),
                ..StateSnapshot::default()
            };
            snapshot.insert_keyed(TABLE, batches);
            snapshot
        }))
    }
}
