//! Reads a table: the projected physical columns.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope};
use crate::connectors::TableDescriptor;
use crate::types::{ChangelogMode, LogicalType, Schema, TypeRoot};

/// Reads the projected physical columns of a table. Computed columns follow in a Calc, the watermark in a
/// WatermarkAssigner; the three stand next to each other so that they can run as one operator.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TableSourceScanNode {
    /// The table; its `projection` names the columns that somebody reads.
    pub table: TableDescriptor,
    /// Which of the projected columns, by position, are ROWs of which the plan has left only the fields that somebody reads
    /// in the table's `physical` types. EXPLAIN and the uid name the fields of these: state behind the scan may hold them.
    pub narrowed: Vec<usize>,
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
            ("fields", self.fields(scope.output())),
        ]
    }

    /// `a, r.x, r.y.z`.
    fn fields(&self, output: &Schema) -> String {
        let mut fields = Vec::new();
        for (position, field) in output.fields.iter().enumerate() {
            if self.narrowed.contains(&position) {
                push_leaves(&field.name, &field.logical_type, &mut fields);
            } else {
                fields.push(field.name.clone());
            }
        }
        fields.join(", ")
    }
}

fn push_leaves(path: &str, logical_type: &LogicalType, leaves: &mut Vec<String>) {
    match &logical_type.root {
        TypeRoot::Row(fields) => {
            for field in fields {
                push_leaves(
                    &format!("{path}.{}", field.name),
                    &field.logical_type,
                    leaves,
                );
            }
        }
        _ => leaves.push(path.to_string()),
    }
}
