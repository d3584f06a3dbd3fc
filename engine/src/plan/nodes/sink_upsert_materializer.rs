//! Decides which of several rows of one primary key a sink sees.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, columns};
use crate::plan::logical::OnConflict;

/// Remembers the rows of each primary key of a sink, where the query names its rows otherwise. It belongs to the sink: EXPLAIN
/// shows it there. Output: all input columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SinkUpsertMaterializerNode {
    /// The sink's name, for messages.
    pub table: String,
    /// The sink's primary key, by which rows are dealt.
    pub primary_key: Vec<usize>,
    /// The columns by which the query names its rows; empty: only a whole row names itself.
    pub upsert_key: Vec<usize>,
    /// `ON CONFLICT`; `None`: the last row wins, and when it goes, the one before comes back.
    pub on_conflict: Option<OnConflict>,
    /// Whether conflicts are settled at checkpoints; else at watermarks.
    pub compacts_at_checkpoints: bool,
}

impl SinkUpsertMaterializerNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let mut attributes = vec![
            ("primaryKey", columns(scope.input(), &self.primary_key)),
            ("upsertKey", columns(scope.input(), &self.upsert_key)),
        ];
        if let Some(on_conflict) = self.on_conflict {
            attributes.push(("onConflict", on_conflict.name().to_string()));
        }
        attributes
    }
}
