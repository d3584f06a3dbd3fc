//! One key of an ordering.

use serde::{Deserialize, Serialize};

/// One key of an ORDER BY.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SortKey {
    /// Input column.
    pub column: usize,
    /// DESC.
    pub descending: bool,
    /// Where NULLs go. Flink's default: first when ascending, last when descending.
    pub nulls_first: bool,
}
