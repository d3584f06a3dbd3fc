//! The first or the last row, by event time, of each window and partition.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, columns, window};
use crate::window::WindowSpec;

/// Keeps one row of each window and partition; emits when the window ends. Of rows with equal times the first keeps the
/// earliest arrival, the last the latest. Output: all input columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WindowDeduplicateNode {
    /// The window whose columns the rows carry.
    pub window: WindowSpec,
    /// The input column of the window's start.
    pub window_start: usize,
    /// The input column of the window's end.
    pub window_end: usize,
    /// PARTITION BY without the window's columns.
    pub partition_by: Vec<usize>,
    /// The event-time column of ORDER BY.
    pub order_column: usize,
    /// Which row stays.
    pub keep: KeepRow,
}

/// Which row of several stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KeepRow {
    /// The one with the earliest time: ORDER BY … ASC.
    First,
    /// The one with the latest time: ORDER BY … DESC.
    Last,
}

impl WindowDeduplicateNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let input = scope.input();
        let how = format!(
            "win_start=[{}], win_end=[{}]",
            input.fields[self.window_start].name, input.fields[self.window_end].name
        );
        let keep = match self.keep {
            KeepRow::First => "FirstRow",
            KeepRow::Last => "LastRow",
        };
        vec![
            ("window", window(&self.window, &how)),
            ("keep", keep.to_string()),
            ("partitionKeys", columns(input, &self.partition_by)),
            ("orderKey", input.fields[self.order_column].name.clone()),
            ("order", "ROWTIME".to_string()),
        ]
    }
}
