//! Joins the rows of two inputs that fell into the same window.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, names, window};
use crate::expr::Expression;
use crate::plan::logical::JoinKind;
use crate::window::WindowSpec;

/// Joins rows of equal windows and equal keys when the window ends. Output: left columns, then right ones; only the left
/// ones for SEMI and ANTI.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WindowJoinNode {
    /// INNER, LEFT, ….
    pub kind: JoinKind,
    /// The window whose columns both inputs carry.
    pub window: WindowSpec,
    /// The left column of the window's start.
    pub left_window_start: usize,
    /// The left column of the window's end.
    pub left_window_end: usize,
    /// The right column of the window's start.
    pub right_window_start: usize,
    /// The right column of the window's end.
    pub right_window_end: usize,
    /// Equalities besides the window's.
    pub keys: Vec<JoinKey>,
    /// What else a pair must satisfy, over the left columns, then the right ones. Evaluated only on pairs with equal keys.
    pub condition: Option<Expression>,
}

/// One equality of a join between a left and a right column of the same type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct JoinKey {
    /// A column of the left input.
    pub left: usize,
    /// A column of the right input.
    pub right: usize,
    /// IS NOT DISTINCT FROM: NULL equals NULL. Else NULL equals nothing.
    pub null_safe: bool,
}

impl WindowJoinNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let (left, right) = (&scope.inputs[0].schema, &scope.inputs[1].schema);
        let side = |schema: &crate::types::Schema, start: usize, end: usize| {
            let how = format!(
                "win_start=[{}], win_end=[{}]",
                schema.fields[start].name, schema.fields[end].name
            );
            window(&self.window, &how)
        };
        vec![
            (
                "leftWindow",
                side(left, self.left_window_start, self.left_window_end),
            ),
            (
                "rightWindow",
                side(right, self.right_window_start, self.right_window_end),
            ),
            ("joinType", join_type(self.kind)),
            (
                "where",
                join_condition(&self.keys, self.condition.as_ref(), scope),
            ),
            ("select", names(scope.output())),
        ]
    }
}

/// The condition of a join: its equalities, then what else a pair must satisfy.
pub(crate) fn join_condition(
    keys: &[JoinKey],
    condition: Option<&Expression>,
    scope: &Scope,
) -> String {
    let (left, right) = (&scope.inputs[0].schema, &scope.inputs[1].schema);
    let equalities = keys.iter().map(|key| {
        let sign = if key.null_safe {
            "IS NOT DISTINCT FROM"
        } else {
            "="
        };
        let (left, right) = (&left.fields[key.left].name, &right.fields[key.right].name);
        format!("({left} {sign} {right})")
    });
    let parts: Vec<String> = equalities
        .chain(condition.map(Expression::to_string))
        .collect();
    if parts.is_empty() {
        return "true".to_string();
    }
    parts.join(" AND ")
}

/// What EXPLAIN calls a kind of join.
pub(crate) fn join_type(kind: JoinKind) -> String {
    let name = match kind {
        JoinKind::Inner => "InnerJoin",
        JoinKind::Left => "LeftOuterJoin",
        JoinKind::Right => "RightOuterJoin",
        JoinKind::Full => "FullOuterJoin",
        JoinKind::Semi => "LeftSemiJoin",
        JoinKind::Anti => "LeftAntiJoin",
    };
    name.to_string()
}
