//! Writes rows to a table, or hands them to the caller.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, names};
use crate::connectors::TableDescriptor;
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

impl SinkNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let table = match &self.target {
            SinkTarget::Table(table) => format!("default_catalog.default_database.{}", table.name),
            SinkTarget::Collect => "*anonymous_collect$1*".to_string(),
        };
        vec![("table", table), ("fields", names(scope.input()))]
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
