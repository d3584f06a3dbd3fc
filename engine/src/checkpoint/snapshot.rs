//! The state of a whole job at one checkpoint, in memory.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};
use crate::state::StateSnapshot;
use crate::stream::CheckpointId;

/// The state of every operator at one checkpoint, the parts of all subtasks together.
#[derive(Debug, Clone)]
pub struct JobSnapshot {
    /// Which checkpoint.
    pub checkpoint: CheckpointId,
    /// By the operators' stable ids.
    pub operators: BTreeMap<String, StateSnapshot>,
}

impl JobSnapshot {
    /// Checks that the state belongs to a job with these operators: each operator of the snapshot that has rows in it must
    /// still be there. (One that keeps nothing over a barrier, as a local aggregation, comes and goes with the parallelism.)
    pub fn check_operators(&self, uids: &BTreeSet<&str>) -> Result<()> {
        let lost: Vec<&str> = self
            .operators
            .iter()
            .filter(|(uid, state)| state.has_rows() && !uids.contains(uid.as_str()))
            .map(|(uid, _)| uid.as_str())
            .collect();
        if lost.is_empty() {
            return Ok(());
        }
        Err(Error::user(format!(
            "checkpoint {} belongs to another job: it holds state of {}, which this job does not have",
            self.checkpoint,
            lost.join(", ")
        ))
        .hint("restore with the statements that wrote the checkpoint, or start without 'execution.state-recovery.path'"))
    }
}
