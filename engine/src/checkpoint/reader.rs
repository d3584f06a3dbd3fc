//! What a restore reads from: a checkpoint, a savepoint, or a snapshot in memory.

use std::collections::BTreeSet;

use super::JobSnapshot;
use crate::error::{Error, Result};
use crate::state::StateSnapshot;
use crate::stream::{CheckpointId, KeyGroupRange};

/// The state of a job at one checkpoint, operator by operator and key group by key group, so that memory need not hold all of it.
pub trait SnapshotReader: Send + Sync {
    /// Which checkpoint.
    fn checkpoint(&self) -> CheckpointId;

    /// The stable ids of the operators with state.
    fn operators(&self) -> Vec<String>;

    /// Whether an operator has rows of its own there, not just the runtime's notes.
    fn has_rows(&self, uid: &str) -> Result<bool>;

    /// The state of an operator: the rows of keyed tables in these of `max_parallelism` key groups, and all rows of all other tables.
    fn read(&self, uid: &str, range: KeyGroupRange, max_parallelism: u16) -> Result<StateSnapshot>;

    /// Checks that the state belongs to a job with these operators: each operator that has rows in it must still be there. (One that
    /// keeps nothing over a barrier, as a local aggregation, comes and goes with the parallelism.)
    fn check_operators(&self, uids: &BTreeSet<&str>) -> Result<()> {
        let mut lost = Vec::new();
        for uid in self.operators() {
            if !uids.contains(uid.as_str()) && self.has_rows(&uid)? {
                lost.push(uid);
            }
        }
        if lost.is_empty() {
            return Ok(());
        }
        Err(Error::user(format!(
            "checkpoint {} belongs to another job: it holds state of {}, which this job does not have",
            self.checkpoint(),
            lost.join(", ")
        ))
        .hint("restore with the statements that wrote the checkpoint, or start without 'execution.state-recovery.path'"))
    }
}

impl SnapshotReader for JobSnapshot {
    fn checkpoint(&self) -> CheckpointId {
        self.checkpoint
    }

    fn operators(&self) -> Vec<String> {
        self.operators.keys().cloned().collect()
    }

    fn has_rows(&self, uid: &str) -> Result<bool> {
        Ok(self.operators.get(uid).is_some_and(StateSnapshot::has_rows))
    }

    fn read(&self, uid: &str, range: KeyGroupRange, max_parallelism: u16) -> Result<StateSnapshot> {
        match self.operators.get(uid) {
            Some(state) => state.for_key_groups(range, max_parallelism),
            None => Ok(StateSnapshot::default()),
        }
    }
}
