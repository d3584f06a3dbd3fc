//! A snapshot that is read until the job is cancelled: a restore of much state ends with the piece at which it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::checkpoint::{PlanFacts, SnapshotReader, TableFacts};
use crate::error::{Error, Result};
use crate::state::StateSnapshot;
use crate::stream::{CheckpointId, KeyGroupRange};

/// See the module.
pub(super) struct UntilCancelled {
    reader: Arc<dyn SnapshotReader>,
    cancel: Arc<AtomicBool>,
}

impl UntilCancelled {
    pub(super) fn new(reader: Arc<dyn SnapshotReader>, cancel: Arc<AtomicBool>) -> Self {
        UntilCancelled { reader, cancel }
    }
}

impl SnapshotReader for UntilCancelled {
    fn checkpoint(&self) -> CheckpointId {
        self.reader.checkpoint()
    }

    fn operators(&self) -> Vec<String> {
        self.reader.operators()
    }

    fn has_rows(&self, uid: &str) -> Result<bool> {
        self.reader.has_rows(uid)
    }

    fn read(&self, uid: &str, range: KeyGroupRange, max_parallelism: u16) -> Result<StateSnapshot> {
        match self.cancel.load(Ordering::SeqCst) {
            true => Err(Error::external(
                "the job was cancelled while it was being restored",
            )),
            false => self.reader.read(uid, range, max_parallelism),
        }
    }

    fn bytes(&self) -> u64 {
        self.reader.bytes()
    }

    fn remove(&self) -> Result<()> {
        self.reader.remove()
    }

    fn plan_facts(&self) -> Option<PlanFacts> {
        self.reader.plan_facts()
    }

    fn max_parallelism(&self) -> Option<u16> {
        self.reader.max_parallelism()
    }

    fn tables(&self, uid: &str) -> Result<Vec<TableFacts>> {
        self.reader.tables(uid)
    }
}
