//! Restores the rows before updates of an upsert stream.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, columns};
use crate::expr::Expression;

/// Keeps the last row of each key; gives full rows for updates and deletes, and nothing for what changes nothing. Output: all input
/// columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChangelogNormalizeNode {
    /// The columns that name a row.
    pub key: Vec<usize>,
    /// Which rows go on; a row that stops satisfying it is deleted.
    pub condition: Option<Expression>,
}

impl ChangelogNormalizeNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let mut attributes = vec![("key", columns(scope.input(), &self.key))];
        if let Some(condition) = &self.condition {
            attributes.push(("condition", condition.to_string()));
        }
        attributes
    }
}
