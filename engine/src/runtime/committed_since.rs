//! What checkpoints that are damaged have committed, so that whoever restores an older one in their place does not write it twice.
//!
//! A checkpoint holds what its sinks had prepared, and once it is complete that is committed. Where it is damaged the job goes back to the one
//! before and reads the same input again, so its sinks must take back what they have committed since. Most of the time that can still be read: it is a small
//! table with a checksum of its own. The restored state then has one table more.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::checkpoint::{Salvaged, SnapshotReader, reads_like};
use crate::error::Result;
use crate::operators::COMMITTED_SINCE;
use crate::state::StateSnapshot;
use crate::stream::KeyGroupRange;

/// The committables of damaged checkpoints by the ids of their sinks.
#[derive(Default)]
pub(crate) struct CommittedSince(BTreeMap<String, Vec<RecordBatch>>);

impl CommittedSince {
    /// Adds those of one more checkpoint.
    pub(crate) fn add(&mut self, committables: Salvaged) {
        for (uid, rows) in committables.rows {
            self.0.entry(uid).or_default().extend(rows);
        }
    }

    /// A snapshot with them beside its own state.
    pub(crate) fn beside(self, reader: Arc<dyn SnapshotReader>) -> Arc<dyn SnapshotReader> {
        match self.0.is_empty() {
            true => reader,
            false => Arc::new(OlderSnapshot {
                reader,
                since: self,
            }),
        }
    }
}

/// See [`CommittedSince::beside`].
struct OlderSnapshot {
    reader: Arc<dyn SnapshotReader>,
    since: CommittedSince,
}

impl SnapshotReader for OlderSnapshot {
    reads_like!(self => self.reader);

    fn read(&self, uid: &str, range: KeyGroupRange, max_parallelism: u16) -> Result<StateSnapshot> {
        let mut state = self.reader.read(uid, range, max_parallelism)?;
        if let Some(rows) = self.since.0.get(uid) {
            state.insert_operator(COMMITTED_SINCE, rows.clone());
        }
        Ok(state)
    }
}
