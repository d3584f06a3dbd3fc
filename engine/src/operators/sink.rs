//! Writes rows to a table in two phases: prepared at a barrier, visible when the checkpoint is complete.
//!
//! What a writer has prepared stays in the state until its checkpoint is known to be complete and it is committed. A restore commits
//! what the snapshot holds once more, which changes nothing where it had been committed, and drops what no checkpoint names. The
//! whole contract is told in `connectors/sink.rs`.

mod by_key;
mod prepared;
mod type_length;

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde::{Deserialize, Serialize};

use super::{Context, Flow, InputIndex, Operator, Output, Subtask};
use crate::connectors::{Committable, Sink, SinkWriter};
use crate::error::{Error, ErrorKind, Result};
use crate::planted::{Bug, is_planted};
use crate::state::StateSnapshot;
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{EventTime, LogicalType, RowKind};

use by_key::updates_by_key;
use prepared::Prepared;
use type_length::{LengthRule, enforce_lengths, length_rules};

pub use type_length::TypeLengthEnforcer;

/// The table of what was prepared.
pub(crate) const COMMITTABLES: &str = "committables";
/// The same of checkpoints behind the restored one that are damaged, which never is in a snapshot: a restore adds it.
pub(crate) const COMMITTED_SINCE: &str = "$committed-since";
/// The last checkpoint for which something was prepared or could have been; a note, so that it does not keep a sink from being dropped.
const LAST: &str = "$last";
/// The notification behind which no other comes.
const END: CheckpointId = CheckpointId(u64::MAX);

/// What a NULL in a NOT NULL column of a sink does: `table.exec.sink.not-null-enforcer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotNullEnforcer {
    /// The job fails.
    Error,
    /// The row is left out.
    Drop,
}

impl NotNullEnforcer {
    /// Reads the option's value: `ERROR` or `DROP`, in any letter case.
    pub fn parse(text: &str) -> Self {
        if text.eq_ignore_ascii_case("drop") {
            NotNullEnforcer::Drop
        } else {
            NotNullEnforcer::Error
        }
    }
}

/// What becomes of rows before they are written.
#[derive(Debug, Clone)]
pub struct SinkSpec {
    /// Index and name of the columns that are NOT NULL while the query's may be NULL.
    pub not_null: Vec<(usize, String)>,
    /// What a NULL in one of them does.
    pub not_null_enforcer: NotNullEnforcer,
    /// Name and type of the sink's columns, where their lengths are enforced.
    pub columns: Vec<(String, LogicalType)>,
    /// How they are.
    pub type_length_enforcer: TypeLengthEnforcer,
    /// The primary key of a sink that takes updates by key though the query gives the rows before them.
    pub by_key: Option<Vec<usize>>,
    /// Whether the sink deletes by key, so that the other columns of a delete may be NULL.
    pub deletes_by_key: bool,
    /// How many commits in a row may fail before the job does: `sink.committer.retries`.
    pub commit_retries: u32,
}

impl SinkSpec {
    /// Nothing.
    pub const AS_THEY_ARE: SinkSpec = SinkSpec {
        not_null: Vec::new(),
        not_null_enforcer: NotNullEnforcer::Error,
        columns: Vec::new(),
        type_length_enforcer: TypeLengthEnforcer::Ignore,
        by_key: None,
        deletes_by_key: false,
        commit_retries: 10,
    };
}

/// One writer of a sink. Takes the kinds of rows that the sink takes; emits nothing.
/// State: what was prepared and is not known to be committed.
pub struct SinkOperator {
    sink: Arc<dyn Sink>,
    writer: Box<dyn SinkWriter>,
    spec: SinkSpec,
    /// Whether it is the first subtask, which commits and clears up for all at a restore.
    is_first: bool,
    lengths: Vec<LengthRule>,
    /// The oldest in front.
    prepared: VecDeque<Prepared>,
    /// The last checkpoint whose barrier came, of all instances where the state was restored.
    last: CheckpointId,
    has_ended: bool,
    /// How many commits have failed in a row.
    failed_commits: u32,
}

impl SinkOperator {
    /// A writer for a subtask.
    pub fn new(sink: Arc<dyn Sink>, subtask: Subtask, spec: SinkSpec) -> Result<Self> {
        let lengths = match spec.type_length_enforcer {
            TypeLengthEnforcer::Ignore => Vec::new(),
            _ => length_rules(&spec.columns),
        };
        Ok(SinkOperator {
            writer: sink.writer(subtask)?,
            sink,
            spec,
            is_first: subtask.index == 0,
            lengths,
            prepared: VecDeque::new(),
            last: CheckpointId(0),
            has_ended: false,
            failed_commits: 0,
        })
    }

    fn enforce_not_null(&self, batch: ChangelogBatch) -> Result<ChangelogBatch> {
        let Some(valid) = rows_without_null(&batch.rows, &self.spec.not_null) else {
            return Ok(batch);
        };
        let valid = match batch.kinds.bytes().filter(|_| self.spec.deletes_by_key) {
            None => valid,
            Some(kinds) => {
                let is_delete = |row| kinds[row] == RowKind::Delete as u8;
                &valid | &BooleanBuffer::collect_bool(kinds.len(), is_delete)
            }
        };
        if valid.count_set_bits() == valid.len() {
            return Ok(batch);
        }
        match self.spec.not_null_enforcer {
            NotNullEnforcer::Drop => Ok(batch.filter(&BooleanArray::new(valid, None))?.0),
            NotNullEnforcer::Error => Err(self.null_error(&batch.rows, &valid)),
        }
    }

    fn enforce_lengths(&self, batch: ChangelogBatch) -> Result<ChangelogBatch> {
        if self.lengths.is_empty() {
            return Ok(batch);
        }
        let enforcer = self.spec.type_length_enforcer;
        let rows = enforce_lengths(batch.rows, &self.lengths, enforcer)?;
        Ok(ChangelogBatch { rows, ..batch })
    }

    fn null_error(&self, rows: &RecordBatch, valid: &BooleanBuffer) -> Error {
        let row = (0..rows.num_rows())
            .find(|row| !valid.value(*row))
            .expect("some row has a NULL");
        let column = self
            .spec
            .not_null
            .iter()
            .find(|(index, _)| rows.column(*index).is_null(row))
            .map_or("", |(_, name)| name);
        Error::data(format!(
            "column \"{column}\" of the sink is NOT NULL, but a null value came in the row ({})",
            row_text(rows, row)
        ))
        .hint("filter such rows, or SET 'table.exec.sink.not-null-enforcer' = 'DROP' to leave them out")
    }

    fn prepare(&mut self, checkpoint: CheckpointId) -> Result<()> {
        self.last = checkpoint;
        let committables = self.writer.prepare_commit(checkpoint)?;
        if is_planted(Bug::CommitTooEarly) {
            self.sink.commit(&committables)?;
        }
        if is_planted(Bug::PreparedForgotten) {
            self.prepared.clear();
        }
        if !committables.is_empty() {
            self.prepared.push_back(Prepared {
                checkpoint,
                committables,
            });
        }
        Ok(())
    }

    /// Commits what was prepared for this checkpoint and for those before it, oldest first. What fails stays, and what is behind it.
    fn commit_until(&mut self, checkpoint: CheckpointId) -> Result<()> {
        while let Some(oldest) = self.prepared.front()
            && oldest.checkpoint <= checkpoint
        {
            self.sink.commit(&oldest.committables)?;
            self.prepared.pop_front();
        }
        Ok(())
    }

    /// Takes back what damaged checkpoints have committed: its rows come again.
    fn take_back(&self, ctx: &Context, since: &[Committable]) -> Result<()> {
        if since.is_empty() || is_planted(Bug::NotTakenBack) {
            return Ok(());
        }
        let taken = self.sink.take_back(since).map_err(|error| {
            error.context("while taking back what a damaged checkpoint had committed")
        })?;
        if taken < since.len() {
            ctx.metrics().warn(format!(
                "of {} writes that a damaged checkpoint had committed a sink could take back {taken}: the rows of the others come a second time",
                since.len()
            ));
        }
        Ok(())
    }

    /// Tells what later checkpoints had committed that nobody has named: they have been removed, or an older one was asked for.
    fn warn_of_later(&self, ctx: &Context, committables: &[Committable]) -> Result<()> {
        const SHOWN: usize = 5;
        let later = self.sink.committed_after(committables)?;
        let shown = later.iter().take(SHOWN).cloned().collect::<Vec<_>>();
        let more = match later.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        if !later.is_empty() {
            ctx.metrics().warn(format!(
                "a checkpoint behind the one that was restored had committed rows, which come a second time now: remove what it wrote, {}{more}, unless the job writes something else now",
                shown.join(", ")
            ));
        }
        Ok(())
    }

    /// A commit that failed may be tried again at the next checkpoint, in whose state what it owes is.
    fn tolerate(&mut self, ctx: &Context, checkpoint: CheckpointId, error: Error) -> Result<()> {
        self.failed_commits += 1;
        let may_pass = matches!(error.kind(), ErrorKind::External | ErrorKind::Resource);
        if may_pass && checkpoint != END && self.failed_commits <= self.spec.commit_retries {
            ctx.metrics().warn(format!(
                "a sink could not commit checkpoint {checkpoint} and tries again with the next one ({} of {} times): {error}",
                self.failed_commits, self.spec.commit_retries
            ));
            return Ok(());
        }
        let what = match checkpoint {
            END => "the end of the job".to_string(),
            checkpoint => format!("checkpoint {checkpoint}"),
        };
        Err(error
            .context(format!(
                "while committing what was written up to {what} (it failed {} times in a row)",
                self.failed_commits
            ))
            .hint("what is not committed yet is in the last checkpoint: once the cause is mended, restoring it commits the rest"))
    }
}

/// A bit for each row that has a value in all of the columns; `None` where all rows do.
fn rows_without_null(rows: &RecordBatch, columns: &[(usize, String)]) -> Option<BooleanBuffer> {
    let nulls = columns.iter().fold(None, |nulls, (index, _)| {
        NullBuffer::union(nulls.as_ref(), rows.column(*index).logical_nulls().as_ref())
    });
    nulls
        .filter(|nulls: &NullBuffer| nulls.null_count() > 0)
        .map(|nulls| nulls.inner().clone())
}

/// `name=value` of every column of a row, for messages.
pub(super) fn row_text(rows: &RecordBatch, row: usize) -> String {
    let options = FormatOptions::default().with_null("NULL");
    let cell = |index: usize| {
        let name = rows.schema_ref().field(index).name().clone();
        let value = ArrayFormatter::try_new(rows.column(index), &options)
            .map(|column| column.value(row).to_string())
            .unwrap_or_else(|_| "?".to_string());
        format!("{name}={value}")
    };
    let cells: Vec<String> = (0..rows.num_columns()).map(cell).collect();
    cells.join(", ")
}

impl Operator for SinkOperator {
    fn process_batch(
        &mut self,
        _ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        _out: &mut Output,
    ) -> Result<Flow> {
        let batch = match &self.spec.by_key {
            Some(key) => updates_by_key(batch, key)?,
            None => batch,
        };
        let batch = self.enforce_lengths(self.enforce_not_null(batch)?)?;
        if batch.num_rows() > 0 {
            self.writer.write(&batch)?;
        }
        Ok(Flow::Done)
    }

    /// Time ends here.
    fn process_watermark(
        &mut self,
        _ctx: &mut Context,
        _watermark: EventTime,
        _out: &mut Output,
    ) -> Result<Flow> {
        Ok(Flow::Done)
    }

    fn snapshot_state(
        &mut self,
        _ctx: &mut Context,
        checkpoint: CheckpointId,
    ) -> Result<StateSnapshot> {
        if !self.has_ended {
            self.prepare(checkpoint)?;
        }
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_json(LAST, &self.last)?;
        if let Some(batch) = prepared::to_batch(self.prepared.iter())? {
            snapshot.insert_operator(COMMITTABLES, vec![batch]);
        }
        Ok(snapshot)
    }

    /// The first subtask commits for all: the committables of the snapshot may come from any number of writers. The runtime
    /// restores all subtasks before any of them writes.
    fn restore_state(&mut self, ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        let last: Vec<CheckpointId> = snapshot.json(LAST)?;
        self.last = last.into_iter().max().unwrap_or(CheckpointId(0));
        if !self.is_first {
            return Ok(());
        }
        let committables = prepared::from_batches(snapshot.batches(COMMITTABLES))?;
        let mut since = prepared::from_batches(snapshot.batches(COMMITTED_SINCE))?;
        since.retain(|committable| !committables.contains(committable));
        if !committables.is_empty() && !is_planted(Bug::CommitSkippedAtRestore) {
            self.sink
                .commit(&committables)
                .map_err(|error| error.context("while committing what the checkpoint holds"))?;
        }
        self.take_back(ctx, &since)?;
        self.warn_of_later(ctx, &committables)
    }

    /// What another sink of the same table has to commit is no leftover: all have committed now.
    fn on_restored(&mut self) -> Result<()> {
        match self.is_first {
            true => self.writer.discard_uncommitted(),
            false => Ok(()),
        }
    }

    fn notify_checkpoint_complete(
        &mut self,
        ctx: &mut Context,
        checkpoint: CheckpointId,
    ) -> Result<()> {
        match self.commit_until(checkpoint) {
            Ok(()) => self.failed_commits = 0,
            Err(error) => self.tolerate(ctx, checkpoint, error)?,
        }
        Ok(())
    }

    /// Prepares the rest. It goes out with the first checkpoint whose barrier did not come any more, which has the last state of this task, or once
    /// the whole job has ended well.
    fn finish(&mut self, _ctx: &mut Context, _out: &mut Output) -> Result<Flow> {
        self.prepare(CheckpointId(self.last.0 + 1))?;
        self.has_ended = true;
        Ok(Flow::Done)
    }
}

#[cfg(test)]
mod tests;
