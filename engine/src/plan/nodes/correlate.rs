//! UNNEST: a row for each element of a collection.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, names};
use crate::expr::Expression;

/// Joins each row with the elements of a collection of its own. Output: all input columns, the columns of the element,
/// the ordinality.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CorrelateNode {
    /// ARRAY, MAP or MULTISET, over the input.
    pub collection: Expression,
    /// A row whose collection is empty or NULL stays, with NULLs.
    pub outer: bool,
    /// The last column counts the elements of a row from 1.
    pub with_ordinality: bool,
}

impl CorrelateNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let function = if self.with_ordinality {
            "$UNNEST_ROWS_WITH_ORDINALITY$1"
        } else {
            "$UNNEST_ROWS$1"
        };
        vec![
            ("invocation", format!("{function}({})", self.collection)),
            ("select", names(scope.output())),
            (
                "joinType",
                if self.outer { "LEFT" } else { "INNER" }.to_string(),
            ),
        ]
    }
}
