//! Gives several rows for each input row: one for each grouping set.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope};
use crate::expr::Expression;

/// Gives one row for each projection, for each input row, in the order of the projections.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExpandNode {
    /// Each as wide as the node's schema, over the input. None of their expressions can fail: they are columns, typed
    /// NULLs and the number of the grouping set.
    pub projections: Vec<Vec<Expression>>,
}

impl ExpandNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let projections = self.projections.iter().map(|projection| {
            let cells = projection
                .iter()
                .zip(scope.output().names())
                .map(|(expression, name)| {
                    let text = expression.to_string();
                    if text == name {
                        text
                    } else {
                        format!("{text} AS {name}")
                    }
                });
            format!("{{{}}}", cells.collect::<Vec<_>>().join(", "))
        });
        vec![("projects", projections.collect::<Vec<_>>().join(", "))]
    }
}
