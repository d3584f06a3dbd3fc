//! Gives constant rows.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, names};
use crate::expr::Expression;

/// Gives constant rows once, all of them from the first subtask.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ValuesNode {
    /// Constant expressions, one for each column of the node's schema.
    pub rows: Vec<Vec<Expression>>,
}

impl ValuesNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let rows = self.rows.iter().map(|row| {
            let cells: Vec<String> = row.iter().map(Expression::to_string).collect();
            format!("{{ {} }}", cells.join(", "))
        });
        vec![
            (
                "tuples",
                format!("[{}]", rows.collect::<Vec<_>>().join(", ")),
            ),
            ("fields", names(scope.output())),
        ]
    }
}
