//! Writes rows to a table, or hands them to the caller.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, names};
use crate::connectors::TableDescriptor;
use crate::plan::logical::OnConflict;
use crate::types::ChangelogMode;

/// The end of a query. The input's columns are the sink's, in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SinkNode {
    /// Where the rows go.
    pub target: SinkTarget,
    /// Columns in which a NULL must not arrive though the query may give one.
    pub not_null: Vec<usize>,
    /// What a NULL in one of them does.
    pub enforcer: NotNullEnforcer,
    /// The kinds of rows that the target takes.
    pub changelog_mode: ChangelogMode,
    /// What a text or a byte string that does not fit its column does.
    pub type_length: TypeLengthEnforcer,
    /// Whether rows of one primary key are remembered before the sink ([`super::SinkUpsertMaterializerNode`]).
    pub upsert_materialize: bool,
    /// `ON CONFLICT`.
    pub on_conflict: Option<OnConflict>,
}

/// Where rows go.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SinkTarget {
    /// INSERT INTO a table.
    Table(TableDescriptor),
    /// A bare SELECT: to the caller.
    Collect,
}

/// `table.exec.sink.not-null-enforcer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NotNullEnforcer {
    /// The job fails.
    Error,
    /// The row is dropped.
    Drop,
}

/// `table.exec.sink.type-length-enforcer`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TypeLengthEnforcer {
    /// The value is written as it is.
    Ignore,
    /// CHAR and BINARY are filled up, what is too long is cut.
    TrimPad,
    /// The job fails.
    Error,
}

impl SinkNode {
    /// The primary key, sorted; empty where none is declared.
    pub(crate) fn primary_key(&self) -> Vec<usize> {
        let mut key = match &self.target {
            SinkTarget::Table(table) => table.primary_key.clone(),
            SinkTarget::Collect => vec![],
        };
        key.sort_unstable();
        key
    }

    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let table = match &self.target {
            SinkTarget::Table(table) => format!("default_catalog.default_database.{}", table.name),
            SinkTarget::Collect => "*anonymous_collect$1*".to_string(),
        };
        let mut attributes = vec![("table", table), ("fields", names(scope.input()))];
        if self.upsert_materialize {
            attributes.push(("upsertMaterialize", "true".to_string()));
        }
        if let Some(on_conflict) = self.on_conflict {
            attributes.push(("conflictStrategy", on_conflict.name().to_string()));
        }
        attributes
    }

    /// How messages call it.
    pub(crate) fn display_name(&self) -> String {
        match &self.target {
            SinkTarget::Table(table) => {
                format!(
                    "Table sink 'default_catalog.default_database.{}'",
                    table.name
                )
            }
            SinkTarget::Collect => "The result of SELECT".to_string(),
        }
    }
}
