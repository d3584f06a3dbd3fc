//! The state of a temporal join by key. A key acts when a row of its waits no longer, and when a newer version makes an older one useless.

use arrow::array::RecordBatch;

use super::versions::Versions;
use super::{LEFT, RIGHT, TemporalJoinOperator};
use crate::error::Result;
use crate::operators::keyed_state::distinct;
use crate::operators::{Context, DueTime, InputIndex, KeySet, KeyedState};
use crate::state::{Groups, StateSnapshot, key_hashes_of};

impl KeyedState for TemporalJoinOperator {
    fn key_columns(&self, input: InputIndex) -> &[usize] {
        &self.side(input).keys
    }

    fn snapshot_keyed(&mut self, _: &Context) -> Result<StateSnapshot> {
        let rows = self.probes.waiting(None);
        self.tables(&rows, 0..self.keys.len() as u32)
    }

    fn keys(&mut self, _: &Context) -> Result<Vec<u64>> {
        let live = self.live_keys();
        Ok(distinct(Groups::Ids(&live).gather(self.keys.hashes())))
    }

    fn load_keyed(&mut self, _: &Context, snapshot: &StateSnapshot) -> Result<()> {
        for batch in snapshot.batches(LEFT) {
            let (rows, kinds) = self.probes.of_table(batch)?;
            // They have not ceased to wait.
            self.told_waiting += rows.num_rows();
            self.add_rows(InputIndex::FIRST, &rows, &kinds, key_hashes_of(batch))?;
        }
        for batch in snapshot.batches(RIGHT) {
            let (rows, kinds) = self.versions.of_table(batch)?;
            self.add_rows(InputIndex::SECOND, &rows, &kinds, key_hashes_of(batch))?;
        }
        Ok(())
    }

    fn clear_keyed(&mut self) -> Result<()> {
        self.told_waiting -= self.told_waiting.min(self.probes.rows().len());
        self.keys = self.backend.group_table(&self.spec.left.key_types(), 0)?;
        self.probes.clear();
        self.versions.clear();
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.keys.size_bytes() + self.probes.size_bytes() + self.versions.size_bytes()
    }

    fn due_time(&self) -> DueTime {
        DueTime::Event
    }

    fn due(&self, table: &str, rows: &RecordBatch) -> Vec<i64> {
        match table {
            // A row without a time was never taken in.
            LEFT => match self.probes.times(rows) {
                Ok(times) => times,
                Err(_) => vec![i64::MAX; rows.num_rows()],
            },
            _ => Versions::until(rows),
        }
    }

    fn export_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let keys = self.keys.ids_of(keys.iter().copied());
        let rows = self.probes.waiting(Some(&keys));
        self.tables(&rows, keys.into_iter())
    }

    fn evict_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let keys = self.keys.ids_of(keys.iter().copied());
        let rows = self.probes.waiting(Some(&keys));
        let gone = self.tables(&rows, keys.iter().copied())?;
        self.told_waiting -= self.told_waiting.min(rows.len());
        self.probes.take_out(&rows)?;
        self.versions.remove_keys(&keys)?;
        self.forget_keys();
        Ok(gone)
    }
}

impl TemporalJoinOperator {
    fn tables(&self, rows: &[u32], keys: impl Iterator<Item = u32>) -> Result<StateSnapshot> {
        let hashes = self.keys.hashes();
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(LEFT, vec![self.probes.table(rows, hashes)?]);
        snapshot.insert_keyed(RIGHT, vec![self.versions.table(keys, hashes)?]);
        Ok(snapshot)
    }
}
