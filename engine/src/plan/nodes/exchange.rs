//! Deals rows to the subtasks of the next node.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, columns};

/// Moves rows between subtasks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExchangeNode {
    /// Where each row goes.
    pub distribution: Distribution,
}

/// Which subtask gets which rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Distribution {
    /// By the key group of these columns, in this order (the hash depends on it).
    Hash(Vec<usize>),
    /// All to one.
    Singleton,
}

impl ExchangeNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let distribution = match &self.distribution {
            Distribution::Hash(keys) => format!("hash[{}]", columns(scope.input(), keys)),
            Distribution::Singleton => "single".to_string(),
        };
        vec![("distribution", distribution)]
    }
}
