//! Joins each row with the version of another table that was valid at the row's event time.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, names};
use super::window_join::{JoinKey, join_condition, join_type};
use crate::expr::Expression;
use crate::types::JoinKind;

/// Joins left rows with versions of the right side, as of the left time. Output: left columns, then right ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TemporalJoinNode {
    /// INNER or LEFT.
    pub kind: JoinKind,
    /// The equalities; they contain the right side's primary key.
    pub keys: Vec<JoinKey>,
    /// What else a pair must satisfy, over the left columns, then the right ones.
    pub condition: Option<Expression>,
    /// The left time column.
    pub left_time: usize,
    /// The right time column: when a version begins.
    pub right_time: usize,
    /// The columns that name a row of the right side.
    pub right_key: Vec<usize>,
}

impl TemporalJoinNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        vec![
            ("joinType", join_type(self.kind)),
            (
                "where",
                join_condition(&self.keys, self.condition.as_ref(), scope),
            ),
            ("select", names(scope.output())),
        ]
    }
}
