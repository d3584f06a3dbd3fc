//! The table of late rows must have the columns of late rows.

use crate::error::{Error, Result};
use crate::plan::exec_node::{ExecNodeKind, NodeId};
use crate::plan::logical::TableSpec;
use crate::plan::nodes::LateRowsSinkNode;
use crate::plan::physical::Planner;
use crate::types::{Field, LogicalType, Schema, TypeRoot};

/// What late rows look like: operator STRING, window_end TIMESTAMP(3), watermark TIMESTAMP(3), row STRING.
pub fn late_rows_schema() -> Schema {
    let timestamp = LogicalType::nullable(TypeRoot::Timestamp(3));
    Schema::new(vec![
        Field::new("operator", LogicalType::STRING),
        Field::new("window_end", timestamp.clone()),
        Field::new("watermark", timestamp),
        Field::new("row", LogicalType::STRING),
    ])
}

impl Planner<'_> {
    /// The sink of late rows.
    pub(crate) fn late_rows_sink(&mut self, table: &TableSpec) -> Result<NodeId> {
        let descriptor = &table.descriptor;
        let schema = late_rows_schema();
        if !fits(&descriptor.physical, &schema) {
            return Err(Error::user(format!(
                "table \"{}\" of 'volley.late-rows.sink' must have the columns {}, not {}",
                descriptor.name,
                columns_text(&schema),
                columns_text(&descriptor.physical)
            ))
            .hint("declare the four columns in this order"));
        }
        self.connectors
            .for_table(descriptor, None)?
            .create_sink(descriptor)?;
        let kind = ExecNodeKind::LateRowsSink(LateRowsSinkNode {
            table: descriptor.clone(),
        });
        Ok(self.builder.add(kind, vec![], schema))
    }
}

/// By position, as INSERT does; names are free.
fn fits(table: &Schema, rows: &Schema) -> bool {
    table.len() == rows.len()
        && table
            .fields
            .iter()
            .zip(&rows.fields)
            .all(|(table, row)| table.logical_type.root == row.logical_type.root)
}

fn columns_text(schema: &Schema) -> String {
    let columns = schema
        .fields
        .iter()
        .map(|field| format!("{} {}", field.name, field.logical_type));
    format!("({})", columns.collect::<Vec<_>>().join(", "))
}
