//! Deduplication: the first or the last row of each key, by processing time (the order of arrival) or by event time.
//!
//! Three operators, as there are three ways to know that a row stays: the first to arrive stays at once; the earliest by event
//! time stays when the watermark has passed it; any other may be replaced by a later row and gives updates.

mod changing_row;
mod earliest_row;
mod first_row;

use super::KeepRow;
use crate::state::TimeToLive;
use crate::types::Schema;

pub use changing_row::DeduplicateChangingRowOperator;
pub use earliest_row::DeduplicateEarliestRowOperator;
pub use first_row::DeduplicateFirstRowOperator;

/// What a deduplication does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeduplicateSpec {
    /// The columns of input and output.
    pub schema: Schema,
    /// PARTITION BY.
    pub key: Vec<usize>,
    /// The event-time column of ORDER BY; `None`: processing time.
    pub order_column: Option<usize>,
    /// Which row stays.
    pub keep: KeepRow,
    /// How long a key is remembered.
    pub time_to_live: TimeToLive,
}

/// What a deduplication that changes its mind gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeduplicateChangelog {
    /// Whether the row before an update goes out too.
    pub update_before: bool,
    /// Whether the first row of a key is surely an insert (`table.exec.deduplicate.insert-update-after-sensitive-enabled`).
    pub first_is_insert: bool,
    /// How many rows make a bundle, of which each key gives its net change; `None`: every change goes out.
    pub bundle_rows: Option<usize>,
}

/// The table of a snapshot with the rows that are held.
const ROWS: &str = "rows";

#[cfg(test)]
mod tests;
