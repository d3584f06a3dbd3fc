//! The table that receives late rows: `SET 'volley.late-rows.sink' = 'table'`.

use std::sync::Arc;

use super::catalog::{CatalogObject, local_name};
use super::session::Session;
use super::suggestion;
use crate::error::{Error, Result};
use crate::plan::logical::TableSpec;
use crate::types::TypeRoot;

const OPTION: &str = "volley.late-rows.sink";

/// The columns that the table must have, by position.
const COLUMNS: [(&str, TypeRoot); 4] = [
    ("operator", TypeRoot::STRING),
    ("window_end", TypeRoot::Timestamp(3)),
    ("watermark", TypeRoot::Timestamp(3)),
    ("row", TypeRoot::STRING),
];

impl Session {
    /// The table of `volley.late-rows.sink`; `None` where the option is not set. Fails where there is no such table or its
    /// columns are not (operator STRING, window_end TIMESTAMP(3), watermark TIMESTAMP(3), row STRING).
    pub fn late_rows_table(&self) -> Result<Option<Arc<TableSpec>>> {
        let Some(text) = self.config.get(OPTION) else {
            return Ok(None);
        };
        let name: Vec<sqlparser::ast::Ident> =
            text.split('.').map(sqlparser::ast::Ident::new).collect();
        let key = local_name(&name)?;
        let Some(CatalogObject::Table(table)) = self.catalog.find(&key) else {
            let names = self.catalog.table_names();
            return Err(Error::user(format!(
                "the option '{OPTION}' names a table \"{text}\" that is not there"
            ))
            .hint(suggestion::hint(
                &key,
                "tables",
                names.iter().map(String::as_str),
            )));
        };
        let spec = table.spec(table.options.clone(), self.config.time_zone());
        let columns = &spec.descriptor.physical.fields;
        let fits = columns.len() == COLUMNS.len()
            && columns.iter().zip(&COLUMNS).all(|(column, (name, root))| {
                column.name == *name && column.logical_type.root == *root
            });
        if !fits {
            let wanted: Vec<String> = COLUMNS
                .iter()
                .map(|(name, root)| format!("`{name}` {root}"))
                .collect();
            return Err(Error::user(format!(
                "table \"{text}\" of the option '{OPTION}' has other columns than late rows have"
            ))
            .hint(format!("declare it with ({})", wanted.join(", "))));
        }
        self.connectors.for_table(&spec.descriptor, None)?;
        Ok(Some(Arc::new(spec)))
    }
}
