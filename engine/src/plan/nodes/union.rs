//! UNION ALL.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, names};

/// Gives the rows of all inputs as they come; their columns have equal types in equal order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct UnionNode {}

impl UnionNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        vec![
            ("all", "true".to_string()),
            ("union", names(scope.output())),
        ]
    }
}
