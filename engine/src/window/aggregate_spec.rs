//! What a window aggregation computes: the immutable description that plans and operators share.

use serde::{Deserialize, Serialize};

use super::WindowSpec;
use crate::functions::AggregateCall;

/// What a window aggregation computes; shared by exec nodes and operators.
///
/// The output of a complete aggregation (one phase, or the global one) is: keys, aggregates, window columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WindowAggregateSpec {
    /// Which windows.
    pub window: WindowSpec,
    /// How rows come to their windows.
    pub input: WindowInput,
    /// Grouping columns of the input besides the window (all of them are keys of the state).
    pub keys: Vec<usize>,
    /// The aggregates over input columns.
    pub aggregates: Vec<AggregateCall>,
    /// Window columns of the output, in this order, after keys and aggregates.
    pub window_columns: Vec<WindowColumn>,
}

/// How rows come to their windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WindowInput {
    /// The window function is fused: this input column tells the time.
    TimeColumn(usize),
    /// The rows come with windows attached by an earlier window operator (cascaded aggregation on the same window, or a
    /// window function evaluated below).
    Attached {
        /// The input column of the window's start.
        window_start: usize,
        /// The input column of the window's end.
        window_end: usize,
    },
}

/// A window column of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum WindowColumn {
    /// window_start: TIMESTAMP(3) NOT NULL.
    Start,
    /// window_end: TIMESTAMP(3) NOT NULL.
    End,
    /// window_time: the time attribute, window_end - 1 ms.
    Time,
}
