//! Filters rows and computes columns.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope};
use crate::expr::Expression;

/// Keeps the rows where the condition is TRUE, then computes the projection from them: an expression of the projection is
/// never evaluated on a row that the condition drops.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CalcNode {
    /// One expression for each column of the node's schema, over the input.
    pub projection: Vec<Expression>,
    /// BOOLEAN over the input; its AND parts stand in the order in which they must be evaluated.
    pub condition: Option<Expression>,
}

impl CalcNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let select =
            self.projection
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
        let mut attributes = vec![("select", select.collect::<Vec<_>>().join(", "))];
        attributes.extend(
            self.condition
                .iter()
                .map(|condition| ("where", condition.to_string())),
        );
        attributes
    }
}
