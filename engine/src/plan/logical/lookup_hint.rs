//! What a LOOKUP hint asks of a lookup join.

use serde::{Deserialize, Serialize};

use crate::expr::Position;

/// The hint of one table; what it leaves open the session's options decide.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LookupHint {
    /// `async`: whether rows wait for their answers side by side; taken only where the connector can.
    pub is_async: Option<bool>,
    /// `output-mode`.
    pub output_mode: Option<LookupOutputMode>,
    /// `capacity`: how many rows may wait for an answer.
    pub capacity: Option<usize>,
    /// `timeout`: how long a row may wait for one, milliseconds.
    pub timeout_ms: Option<u64>,
    /// `retry-predicate` and what belongs to it.
    pub retry: Option<LookupRetry>,
    /// Where the hint stands in the SQL text.
    pub position: Position,
}

/// In which order the rows of an asynchronous lookup come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LookupOutputMode {
    /// As they came in.
    Ordered,
    /// As they are answered, between two watermarks; only where all of them are inserts.
    AllowUnordered,
}

/// Asking again for a key that was not found (`lookup_miss`, `fixed_delay`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LookupRetry {
    /// How long after the last time, milliseconds.
    pub fixed_delay_ms: u64,
    /// How often after the first time.
    pub max_attempts: u32,
}
