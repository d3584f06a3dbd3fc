//! Top-N of each window and partition.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, columns, names, order, window};
use crate::types::SortKey;
use crate::window::WindowSpec;

/// Keeps the rows with the ranks `rank_start ..= rank_end` of each window and partition; emits when the window ends.
/// Rows equal in the order rank as they arrived. Output: all input columns, then the rank if it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WindowRankNode {
    /// The window whose columns the rows carry.
    pub window: WindowSpec,
    /// The input column of the window's start.
    pub window_start: usize,
    /// The input column of the window's end.
    pub window_end: usize,
    /// PARTITION BY without the window's columns.
    pub partition_by: Vec<usize>,
    /// ORDER BY.
    pub order_by: Vec<SortKey>,
    /// The first rank that is kept, from 1.
    pub rank_start: u64,
    /// The last rank that is kept.
    pub rank_end: u64,
    /// Whether the rank is the last column of the output, BIGINT NOT NULL.
    pub output_rank: bool,
}

impl WindowRankNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let input = scope.input();
        let how = format!(
            "win_start=[{}], win_end=[{}]",
            input.fields[self.window_start].name, input.fields[self.window_end].name
        );
        vec![
            ("window", window(&self.window, &how)),
            ("rankType", "ROW_NUMBER".to_string()),
            (
                "rankRange",
                format!("rankStart={}, rankEnd={}", self.rank_start, self.rank_end),
            ),
            ("partitionBy", columns(input, &self.partition_by)),
            ("orderBy", order(input, &self.order_by)),
            ("select", names(scope.output())),
        ]
    }
}
