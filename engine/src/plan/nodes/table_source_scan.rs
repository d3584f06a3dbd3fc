//! Reads a table: the projected physical columns.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, names};
use crate::connectors::TableDescriptor;
use crate::types::ChangelogMode;

/// Reads the projected physical columns of a table. Computed columns follow in a Calc, the watermark in a
/// WatermarkAssigner; the three stand next to each other so that they can run as one operator.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TableSourceScanNode {
    /// The table; its `projection` names the columns that somebody reads.
    pub table: TableDescriptor,
    /// The kinds of rows that the connector gives.
    pub changelog_mode: ChangelogMode,
}

impl TableSourceScanNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        vec![
            (
                "table",
                format!("[default_catalog, default_database, {}]", self.table.name),
            ),
            ("fields", names(scope.output())),
        ]
    }
}
