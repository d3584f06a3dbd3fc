//! Joins of any number of inputs on one key.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, columns, names};
use crate::expr::Expression;
use crate::types::JoinKind;

/// Joins its inputs from left to right on a common key, and remembers them only. Output: the columns of all inputs in order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MultiJoinNode {
    /// The inputs, at least two.
    pub inputs: Vec<MultiJoinInput>,
    /// How each input but the first is joined to those before it.
    pub levels: Vec<MultiJoinLevel>,
}

/// An input of a join of many.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MultiJoinInput {
    /// Its columns of the common key; NULL equals nothing.
    pub keys: Vec<usize>,
    /// How long its rows are remembered, from a hint; milliseconds. `None`: `table.exec.state.ttl`.
    pub state_ttl_ms: Option<u64>,
}

/// How an input is joined to those before it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MultiJoinLevel {
    /// INNER or LEFT.
    pub kind: JoinKind,
    /// The inputs whose key its key equals in the condition: a row of NULLs of one of them matches nothing.
    pub joined_to: Vec<usize>,
    /// What else must hold, over the columns of the inputs before it, then its own.
    pub condition: Option<Expression>,
}

impl MultiJoinNode {
    /// Whether updates go through as they come.
    pub(crate) fn is_inner(&self) -> bool {
        let mut levels = self.levels.iter();
        levels.all(|level| level.kind == JoinKind::Inner)
    }

    /// Whether a later join's condition reads columns of an input, whose first column is `first` of the output.
    pub(crate) fn reads_later(&self, input: usize, first: usize, width: usize) -> bool {
        let later = self.levels.iter().skip(input);
        let mut conditions = later.filter_map(|level| level.condition.as_ref());
        conditions.any(|condition| {
            let read = condition.columns();
            read.iter().any(|c| (first..first + width).contains(c))
        })
    }

    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let key = columns(&scope.inputs[0].schema, &self.inputs[0].keys);
        let kinds = self.levels.iter().map(|level| format!("{:?}", level.kind));
        let kinds: Vec<String> = kinds.map(|kind| kind.to_uppercase()).collect();
        let unique_keys = scope.inputs.iter().map(|input| match input.upsert_key() {
            Some(key) => format!("({})", columns(&input.schema, key)),
            None => "noUniqueKey".to_string(),
        });
        vec![
            ("commonJoinKey", key),
            ("joinTypes", kinds.join(", ")),
            (
                "inputUniqueKeys",
                unique_keys.collect::<Vec<_>>().join(", "),
            ),
            ("joinConditions", self.conditions(scope)),
            ("select", names(scope.output())),
        ]
    }

    fn conditions(&self, scope: &Scope) -> String {
        let name = |input: usize, key: usize| {
            let column = self.inputs[input].keys[key];
            &scope.inputs[input].schema.fields[column].name
        };
        let of_level = |(level, own): (&MultiJoinLevel, usize)| {
            let mut parts = Vec::new();
            for other in &level.joined_to {
                let keys = 0..self.inputs[own].keys.len();
                parts.extend(
                    keys.map(|key| format!("({} = {})", name(*other, key), name(own, key))),
                );
            }
            parts.extend(level.condition.iter().map(Expression::to_string));
            parts.join(" AND ")
        };
        let levels = self.levels.iter().zip(1..).map(of_level);
        levels.collect::<Vec<_>>().join(", ")
    }
}
