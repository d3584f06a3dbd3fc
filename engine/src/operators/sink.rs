//! Writes rows to a table in two phases: prepared at a barrier, visible when the checkpoint is complete.
//!
//! What a writer has prepared stays in the state until its checkpoint is known to be complete. A restore commits what the
//! snapshot holds once more, which changes nothing where it had been committed, and drops what no checkpoint names.

use std::sync::Arc;

use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde::{Deserialize, Serialize};

use super::{Context, Flow, InputIndex, Operator, Output, Subtask};
use crate::connectors::{Committable, Sink, SinkWriter};
use crate::error::{Error, Result};
use crate::state::StateSnapshot;
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::EventTime;

/// The name of the one document in a snapshot.
const STATE: &str = "committables";

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

/// One writer of a sink. Takes the kinds of rows that the sink takes; emits nothing.
/// State: what was prepared and is not known to be committed.
pub struct SinkOperator {
    sink: Arc<dyn Sink>,
    writer: Box<dyn SinkWriter>,
    not_null: Vec<(usize, String)>,
    enforcer: NotNullEnforcer,
    prepared: Vec<Prepared>,
}

/// What was prepared for one checkpoint.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Prepared {
    checkpoint: CheckpointId,
    committables: Vec<Committable>,
}

impl SinkOperator {
    /// A writer for a subtask. `not_null`: index and name of the columns that are NOT NULL while the query's may be NULL.
    pub fn new(
        sink: Arc<dyn Sink>,
        subtask: Subtask,
        not_null: Vec<(usize, String)>,
        enforcer: NotNullEnforcer,
    ) -> Result<Self> {
        Ok(SinkOperator {
            writer: sink.writer(subtask)?,
            sink,
            not_null,
            enforcer,
            prepared: Vec::new(),
        })
    }

    fn enforce_not_null(&self, batch: ChangelogBatch) -> Result<ChangelogBatch> {
        let Some(valid) = rows_without_null(&batch.rows, &self.not_null) else {
            return Ok(batch);
        };
        match self.enforcer {
            NotNullEnforcer::Drop => Ok(batch.filter(&BooleanArray::new(valid, None))?.0),
            NotNullEnforcer::Error => Err(self.null_error(&batch.rows, &valid)),
        }
    }

    fn null_error(&self, rows: &RecordBatch, valid: &BooleanBuffer) -> Error {
        let row = (0..rows.num_rows())
            .find(|row| !valid.value(*row))
            .expect("some row has a NULL");
        let column = self
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
        let committables = self.writer.prepare_commit(checkpoint)?;
        if !committables.is_empty() {
            self.prepared.push(Prepared {
                checkpoint,
                committables,
            });
        }
        Ok(())
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
fn row_text(rows: &RecordBatch, row: usize) -> String {
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
        let batch = self.enforce_not_null(batch)?;
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
        self.prepare(checkpoint)?;
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_json(STATE, &self.prepared)?;
        Ok(snapshot)
    }

    /// The first subtask commits for all: the committables of the snapshot may come from any number of writers. The runtime
    /// restores all subtasks before any of them writes.
    fn restore_state(&mut self, ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        if ctx.subtask().index != 0 {
            return Ok(());
        }
        let prepared: Vec<Vec<Prepared>> = snapshot.json(STATE)?;
        let mut prepared: Vec<Prepared> = prepared.into_iter().flatten().collect();
        prepared.sort_by_key(|prepared| prepared.checkpoint);
        let committables: Vec<Committable> = prepared
            .into_iter()
            .flat_map(|prepared| prepared.committables)
            .collect();
        if !committables.is_empty() {
            self.sink.commit(&committables)?;
        }
        self.writer.discard_uncommitted()
    }

    /// Commits what was prepared for this checkpoint and for those before it, oldest first. A failed commit stays prepared.
    fn notify_checkpoint_complete(
        &mut self,
        _ctx: &mut Context,
        checkpoint: CheckpointId,
    ) -> Result<()> {
        let complete = self
            .prepared
            .partition_point(|prepared| prepared.checkpoint <= checkpoint);
        for prepared in &self.prepared[..complete] {
            self.sink.commit(&prepared.committables)?;
        }
        self.prepared.drain(..complete);
        Ok(())
    }

    /// Prepares the rest; it is committed by `notify_checkpoint_complete(CheckpointId(u64::MAX))`, once the whole job has
    /// succeeded.
    fn finish(&mut self, _ctx: &mut Context, _out: &mut Output) -> Result<Flow> {
        self.prepare(CheckpointId(u64::MAX))?;
        Ok(Flow::Done)
    }
}

#[cfg(test)]
mod tests;
