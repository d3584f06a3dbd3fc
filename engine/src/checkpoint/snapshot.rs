//! The state of a whole job at one checkpoint, in memory.

use std::collections::BTreeMap;

use crate::error::Result;
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
    /// A job that has kept nothing yet.
    pub fn empty() -> Self {
        JobSnapshot {
            checkpoint: CheckpointId(0),
            operators: BTreeMap::new(),
        }
    }

    /// Lays a later snapshot of the same job over this one, which holds everything: it then holds everything as of the later one.
    pub fn apply(&mut self, later: JobSnapshot) -> Result<()> {
        self.checkpoint = later.checkpoint;
        let mut before = std::mem::take(&mut self.operators);
        for (uid, state) in later.operators {
            let mut whole = before.remove(&uid).unwrap_or_default();
            whole.apply(state)?;
            self.operators.insert(uid, whole);
        }
        Ok(())
    }
}
