//! Joins that keep both sides for as long as their state lives.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, names};
use super::window_join::{JoinKey, join_condition, join_type};
use crate::expr::Expression;
use crate::types::JoinKind;

/// Joins the rows of two changelogs. Output: left columns, then right ones; only the left ones for SEMI and ANTI.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JoinNode {
    /// INNER, LEFT, ….
    pub kind: JoinKind,
    /// The equalities; empty: all rows meet in one subtask.
    pub keys: Vec<JoinKey>,
    /// What else a pair must satisfy, over the left columns, then the right ones. Evaluated only on pairs with equal keys.
    pub condition: Option<Expression>,
    /// How long rows of either side are remembered, from a hint; milliseconds. `None`: `table.exec.state.ttl`.
    pub state_ttl_ms: [Option<u64>; 2],
}

impl JoinNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let (left, right) = (scope.inputs[0], scope.inputs[1]);
        let (left_keys, right_keys): (Vec<usize>, Vec<usize>) =
            self.keys.iter().map(|key| (key.left, key.right)).unzip();
        vec![
            ("joinType", join_type(self.kind)),
            (
                "where",
                join_condition(&self.keys, self.condition.as_ref(), scope),
            ),
            ("select", names(scope.output())),
            ("leftInputSpec", input_spec(&left.upsert_keys, &left_keys)),
            (
                "rightInputSpec",
                input_spec(&right.upsert_keys, &right_keys),
            ),
        ]
    }
}

/// How a side's rows are told apart in the state: by the join key alone, by a key of their own, or not at all.
fn input_spec(upsert_keys: &[Vec<usize>], join_key: &[usize]) -> String {
    let within = |key: &Vec<usize>| key.iter().all(|column| join_key.contains(column));
    let text = if upsert_keys.is_empty() {
        "NoUniqueKey"
    } else if !join_key.is_empty() && upsert_keys.iter().any(within) {
        "JoinKeyContainsUniqueKey"
    } else {
        "HasUniqueKey"
    };
    text.to_string()
}
