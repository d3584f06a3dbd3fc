//! Writing in two phases: rows are written, prepared at a barrier, and committed when the checkpoint is complete.
//!
//! # The contract
//!
//! A *writer* takes the rows of one subtask. At a barrier it prepares: what was written since the last barrier becomes durable
//! but not visible, and a few [`Committable`]s say how to make it visible. These are in the checkpoint. Once the checkpoint is
//! complete, the *sink* commits them. `operators/sink.rs` drives both and keeps what is owed; here is who calls what, what a
//! crash behind each step leaves, and what becomes of that at the restore (of the last complete checkpoint):
//!
//! | step | called | a crash behind it leaves | the restore |
//! |---|---|---|---|
//! | rows come | [`SinkWriter::write`] | rows half written, invisible | nobody owes them: [`SinkWriter::discard_uncommitted`]; the source reads their input again |
//! | barrier of checkpoint *n* | [`SinkWriter::prepare_commit`]`(n)` | rows prepared, in no complete checkpoint | the same |
//! | checkpoint *n* is complete | nothing yet | committables of *n* in the checkpoint, invisible | [`Sink::commit`] of all of them |
//! | the tasks are told | [`Sink::commit`], the oldest first | some of them visible, some not | [`Sink::commit`] of all of them: those done already change nothing |
//! | all committed | the operator forgets them | they are still in checkpoint *n* | [`Sink::commit`] of all of them changes nothing |
//! | the restore itself | [`Sink::commit`] of every sink of the job, then [`SinkWriter::discard_uncommitted`] | any part of that done | all of it once more |
//! | a task has ended | [`SinkWriter::prepare_commit`], then its last state is in every later checkpoint | as for a barrier | as for a barrier |
//!
//! - **A checkpoint that never completes** (declined, timed out, failed to be written) loses nothing and makes nothing visible: what was
//!   prepared for it is in the next checkpoint too, and goes out with that. So nobody need be told of aborted checkpoints.
//! - **A commit that fails** for a reason outside ([`ErrorKind::External`], [`ErrorKind::Resource`]) is tried again when the next checkpoint
//!   is complete, `sink.committer.retries` times; what it owes is in that checkpoint too. Then, and for any other reason at once,
//!   the job fails and its restore commits. Behind the last notification of a job nothing comes, so there a failure is the job's.
//! - **Another parallelism** makes no difference: the first subtask of the new ones commits for all of the old ones.
//! - **The end of a bounded job** is a checkpoint like any other where there are checkpoints. Without any, the commit comes once all tasks have
//!   ended well; a kill in the middle of it leaves some of the output visible, which nobody can complete.
//! - **A savepoint** is a checkpoint. Where the job stops with it, what it owes is committed then, by the last notification
//!   (`CheckpointId(u64::MAX)`, behind which no commit that fails is tried again). Where the job goes on, nobody is told: a crash then goes back to a
//!   checkpoint before the savepoint, so what the savepoint owes goes out with the next checkpoint, as in Flink.
//! - **An older checkpoint** than the last one may be restored while its successors' output is committed already. Where somebody names it,
//!   that output stays, as in Flink, and comes a second time. What the successors had only prepared is discarded, so they cannot be restored any
//!   more. Where the engine itself goes back because the successors are *damaged*, nobody has chosen that: the sink is told what they had
//!   committed, as far as it can be read, and takes it back if it can ([`Sink::take_back`]). Flink does not go back by itself, and fails.
//!
//! # How kinds of sinks fit
//!
//! - **Files**: the note names the hidden file; the commit renames it. One whose target is there was committed before.
//! - **Object stores**: the note is the multipart upload with its parts; any process can complete it. One that the store no longer knows,
//!   whose object is there, was committed before.
//! - **Transactions that die with their process** (Kafka): nobody can complete them after a crash, so the checkpoint must hold what they
//!   owe. `prepare_commit` flushes the transaction and gives a committable with the encoded records in [`Committable::rows`] (or, in its
//!   note, the place where they lie durably) and with transactional id and checkpoint in its note. The sink keeps the open
//!   transactions by that name: a `commit` that finds one ends it. One that does not (after a restore) writes the rows anew in a
//!   transaction of its own, unless the marker that every transaction carries (an offset committed in it for the transactional id, whose
//!   metadata is the checkpoint) says that they went out.
//! - **Upserts by key** need no second phase: `write` writes through, `prepare_commit` waits until all of it has arrived and owes nothing. What a
//!   replay writes again has the same keys and, in the end, the same values; readers may see rows of checkpoints that never complete.
//! - **Terminals, callers**: nothing is held back and nothing can be taken back. At least once.
//!
//! [`ErrorKind::External`]: crate::error::ErrorKind::External
//! [`ErrorKind::Resource`]: crate::error::ErrorKind::Resource

use bytes::Bytes;

use crate::error::Result;
use crate::operators::Subtask;
use crate::stream::{ChangelogBatch, CheckpointId};

/// A writable table: immutable, shared by all its writers, those of several attempts of a job included.
pub trait Sink: Send + Sync {
    /// A writer for one subtask.
    fn writer(&self, subtask: Subtask) -> Result<Box<dyn SinkWriter>>;

    /// Makes prepared writes visible, in order. Called from the threads of all subtasks, and again with the same committables after a crash or
    /// a failure in the middle: those that were committed before must then change nothing, however long ago that was and
    /// whichever process did it. An error leaves the rest uncommitted; its kind says whether trying again may help.
    fn commit(&self, committables: &[Committable]) -> Result<()>;

    /// Makes writes invisible that checkpoints had committed which are damaged: the job goes on from an older one and writes the same rows again.
    /// They may also be prepared only, or taken back before. Called at a restore, behind [`Sink::commit`] of what the older checkpoint holds. Gives how many of
    /// them are not visible any more; default: none, so that their rows come twice.
    fn take_back(&self, committables: &[Committable]) -> Result<usize> {
        let _ = committables;
        Ok(0)
    }

    /// Writes that are visible and that the writers of these had made after them, by name: a later checkpoint had committed them, and whoever goes on from
    /// these writes the same rows again. For a message at a restore, behind [`Sink::take_back`]; default: nothing is known.
    fn committed_after(&self, committables: &[Committable]) -> Result<Vec<String>> {
        let _ = committables;
        Ok(Vec::new())
    }

    /// Whether the rows must all pass through one subtask (terminal output).
    fn is_single(&self) -> bool {
        false
    }

    /// How many subtasks write, where the table says so (`sink.parallelism`); else as many as give rows.
    fn parallelism(&self) -> Option<usize> {
        None
    }
}

/// Writes the rows of one subtask. Dropped without [`SinkWriter::prepare_commit`], it gives up what it wrote since the last one.
pub trait SinkWriter: Send {
    /// Writes rows; the columns are the sink's, in order. After an error the writer is only dropped.
    fn write(&mut self, batch: &ChangelogBatch) -> Result<()>;

    /// Finishes what was written since the last call so that it survives a crash, and says how to commit it. Called at each
    /// barrier, and at the end of input with the next checkpoint's id, so that no writer is asked twice for one. A crash may have it called
    /// for one checkpoint by several attempts, of which at most one is in a complete checkpoint.
    fn prepare_commit(&mut self, checkpoint: CheckpointId) -> Result<Vec<Committable>>;

    /// Drops leftovers of a run that was killed: everything written but not in the restored checkpoint, whose committables have been
    /// committed, those of other sinks of the same table too. Called on the first subtask only, before any writer's first write, on a restore.
    fn discard_uncommitted(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Something prepared that waits for its checkpoint, and is part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committable {
    /// How to commit it: the sink's own JSON.
    pub note: serde_json::Value,
    /// The rows that it owes, in the sink's own encoding, where no other process could commit what was written; else empty. They are written with the
    /// checkpoint and held until the commit, so a sink with much of them had better put them elsewhere and note where.
    pub rows: Bytes,
}

impl Committable {
    /// One that another process can commit by its note alone.
    pub fn new(note: serde_json::Value) -> Self {
        Committable::with_rows(note, Bytes::new())
    }

    /// One that carries what it owes.
    pub fn with_rows(note: serde_json::Value, rows: Bytes) -> Self {
        Committable { note, rows }
    }
}
