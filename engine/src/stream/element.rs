//! One thing on an edge between two tasks.

use serde::{Deserialize, Serialize};

use super::{ChangelogBatch, CheckpointBarrier};
use crate::types::EventTime;

/// Rows and the control elements between them, in the order in which they happened.
#[derive(Debug, Clone)]
pub enum StreamElement {
    /// Rows.
    Batch(ChangelogBatch),
    /// No more rows with a time at or before this one.
    Watermark(EventTime),
    /// Whether this edge takes part in the minimum over inputs.
    Status(WatermarkStatus),
    /// The line between the rows of two checkpoints.
    Barrier(CheckpointBarrier),
    /// Nothing follows.
    End,
}

/// Whether an input holds the watermark back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum WatermarkStatus {
    /// It does.
    Active,
    /// It is silent and does not.
    Idle,
}
