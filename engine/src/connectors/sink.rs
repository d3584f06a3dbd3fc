//! Writing in two phases: rows are written, prepared at a barrier, and committed when the checkpoint is complete.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::operators::Subtask;
use crate::stream::{ChangelogBatch, CheckpointId};

/// A writable table: immutable, shared by all its writers.
pub trait Sink: Send + Sync {
    /// A writer for one subtask.
    fn writer(&self, subtask: Subtask) -> Result<Box<dyn SinkWriter>>;

    /// Makes prepared writes visible. Called again with the same committables after a crash: must then change nothing.
    fn commit(&self, committables: &[Committable]) -> Result<()>;

    /// Whether the rows must all pass through one subtask (terminal output).
    fn is_single(&self) -> bool {
        false
    }
}

/// Writes the rows of one subtask.
pub trait SinkWriter: Send {
    /// Writes rows; the columns are the sink's, in order.
    fn write(&mut self, batch: &ChangelogBatch) -> Result<()>;

    /// Finishes what was written since the last call so that it survives a crash, and says how to commit it. Called at each
    /// barrier and at the end of input (`CheckpointId(u64::MAX)`).
    fn prepare_commit(&mut self, checkpoint: CheckpointId) -> Result<Vec<Committable>>;

    /// Drops leftovers of a run that was killed: everything written but not in a restored checkpoint. Called once, before
    /// the first write, on a restore.
    fn discard_uncommitted(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Something prepared that waits for its checkpoint: the sink's own JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committable(pub serde_json::Value);
