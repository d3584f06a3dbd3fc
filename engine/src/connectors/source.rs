//! Reading: a source names its splits, a reader turns splits into batches and remembers how far it came.

use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::types::{ProcessingTime, RowKinds};

/// A readable table: immutable, shared by all its readers.
pub trait Source: Send + Sync {
    /// Whether the input ends by itself.
    fn is_bounded(&self) -> bool;

    /// The splits at the start of a job, each unread. Dealt to the readers round robin, in this order.
    fn splits(&self) -> Result<Vec<SplitState>>;

    /// A reader without splits.
    fn reader(&self) -> Result<Box<dyn SourceReader>>;
}

/// A share of a source with the place up to which it was read. A reader continues from it exactly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplitState {
    /// The split's name, stable over restores and unique in its table (a path, a partition number).
    pub id: String,
    /// What the reader needs to go on: its own JSON.
    pub position: serde_json::Value,
}

/// Reads its splits, one batch a call. Called from one compute thread; may block on local files only.
pub trait SourceReader: Send {
    /// Adds splits to read.
    fn add_splits(&mut self, splits: Vec<SplitState>) -> Result<()>;

    /// The next rows of some split: at most `request.max_rows`. A reader with data at hand gives it at once.
    fn poll(&mut self, request: &PollRequest) -> Result<SourcePoll>;

    /// Names the split that holds the watermark back. A reader that can choose reads it next, so that splits which cover
    /// different times are read in the order of their times, and those which cover the same time side by side.
    fn prefer_split(&mut self, id: &str) {
        let _ = id;
    }

    /// The positions of all splits that are not finished, as of the last poll.
    fn snapshot(&self) -> Result<Vec<SplitState>>;

    /// A checkpoint with the last snapshot is complete (a place to acknowledge offsets).
    fn notify_checkpoint_complete(&mut self) -> Result<()> {
        Ok(())
    }
}

/// What the runtime asks of a reader.
#[derive(Debug, Clone, Copy)]
pub struct PollRequest {
    /// `volley.batch.rows`, or less where the task below would rather have rows soon.
    pub max_rows: usize,
    /// `volley.batch.bytes`: a batch ends at the row that passes it.
    pub max_bytes: usize,
    /// The clock.
    pub now: ProcessingTime,
}

/// What a reader has.
#[derive(Debug)]
pub enum SourcePoll {
    /// Rows of one split, in order: the projected physical columns.
    Rows {
        /// The split's id.
        split: String,
        /// The rows.
        rows: RecordBatch,
        /// What they do; insert-only for append sources.
        kinds: RowKinds,
    },
    /// The named split has ended. Its watermark no longer holds the others back.
    SplitEnd(String),
    /// The source itself knows that a split is silent (not the idle timeout, which the source operator keeps).
    SplitIdle(String),
    /// Nothing now. Poll again at `until` at the latest; `None`: when woken, or never.
    Pending {
        /// When to poll again.
        until: Option<ProcessingTime>,
    },
    /// All splits have ended and no more will come.
    End,
}
