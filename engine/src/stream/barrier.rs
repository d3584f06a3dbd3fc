//! The barrier that separates the rows before a checkpoint from those after it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of a checkpoint, counted up from 1 over the life of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CheckpointId(pub u64);

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Travels between batches; an operator snapshots its state when it has come on every input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointBarrier {
    /// Which checkpoint it belongs to.
    pub checkpoint: CheckpointId,
    /// What follows it.
    pub kind: BarrierKind,
}

impl CheckpointBarrier {
    /// The barrier of a checkpoint behind which the job goes on.
    pub fn new(checkpoint: CheckpointId) -> Self {
        CheckpointBarrier {
            checkpoint,
            kind: BarrierKind::Checkpoint,
        }
    }
}

/// What follows a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BarrierKind {
    /// The rows after the checkpoint.
    Checkpoint,
    /// Nothing, unless the job goes on because the savepoint failed: it stops here, its windows and timers as they are.
    Suspend,
}
