//! Joins rows whose times lie within bounds of each other.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, names};
use super::window_join::{JoinKey, join_condition, join_type};
use crate::expr::Expression;
use crate::types::JoinKind;

/// Joins rows of equal keys where `lower_bound_ms <= left time - right time <= upper_bound_ms`. Output: left columns, then right
/// ones.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct IntervalJoinNode {
    /// INNER, LEFT, RIGHT or FULL.
    pub kind: JoinKind,
    /// The equalities.
    pub keys: Vec<JoinKey>,
    /// What else a pair must satisfy, over the left columns, then the right ones.
    pub condition: Option<Expression>,
    /// Whether the times are event times; else processing times.
    pub is_event_time: bool,
    /// The least `left time - right time`, milliseconds.
    pub lower_bound_ms: i64,
    /// The greatest `left time - right time`, milliseconds.
    pub upper_bound_ms: i64,
    /// How much longer than they must rows stay, milliseconds.
    pub min_cleanup_ms: i64,
    /// The left time column.
    pub left_time: usize,
    /// The right time column.
    pub right_time: usize,
}

impl IntervalJoinNode {
    /// Whether a watermark shows in the result where no row is late by it: rows are padded between watermarks, or a row may be
    /// without hope while its own time is still to come.
    pub(crate) fn feels_every_watermark(&self) -> bool {
        self.is_event_time
            && (self.kind != JoinKind::Inner || self.lower_bound_ms > 0 || self.upper_bound_ms < 0)
    }

    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        vec![
            ("joinType", join_type(self.kind)),
            (
                "windowBounds",
                format!(
                    "isRowTime={}, leftLowerBound={}, leftUpperBound={}, leftTimeIndex={}, rightTimeIndex={}",
                    self.is_event_time,
                    self.lower_bound_ms,
                    self.upper_bound_ms,
                    self.left_time,
                    self.right_time
                ),
            ),
            (
                "where",
                join_condition(&self.keys, self.condition.as_ref(), scope),
            ),
            ("select", names(scope.output())),
        ]
    }
}
