//! The first or the last row of each key by a time attribute.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, columns};
use super::window_deduplicate::KeepRow;

/// Keeps one row of each key. Output: all input columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DeduplicateNode {
    /// PARTITION BY.
    pub unique_key: Vec<usize>,
    /// The event-time column of ORDER BY; `None`: processing time, the order of arrival.
    pub order_column: Option<usize>,
    /// Which row stays.
    pub keep: KeepRow,
    /// When a row goes out.
    pub emission: DeduplicateEmission,
}

/// When the row of a key goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DeduplicateEmission {
    /// Once no other row can take its place: inserts only.
    Final,
    /// At once, with updates when another row takes its place.
    Updating,
}

impl DeduplicateNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let keep = match self.keep {
            KeepRow::First => "FirstRow",
            KeepRow::Last => "LastRow",
        };
        let order = match self.order_column {
            Some(_) => "ROWTIME",
            None => "PROCTIME",
        };
        let inserts = self.emission == DeduplicateEmission::Final;
        vec![
            ("keep", keep.to_string()),
            ("key", columns(scope.input(), &self.unique_key)),
            ("order", order.to_string()),
            ("outputInsertOnly", inserts.to_string()),
        ]
    }
}
