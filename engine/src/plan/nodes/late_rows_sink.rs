//! Writes the late rows of all window operators to one table.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, names};
use crate::connectors::TableDescriptor;

/// `volley.late-rows.sink`. Its rows: operator STRING, window_end TIMESTAMP(3), watermark TIMESTAMP(3), row STRING.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LateRowsSinkNode {
    /// The table.
    pub table: TableDescriptor,
}

impl LateRowsSinkNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        vec![
            (
                "table",
                format!("default_catalog.default_database.{}", self.table.name),
            ),
            ("fields", names(scope.output())),
        ]
    }
}
