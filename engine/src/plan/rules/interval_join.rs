//! A join whose condition bounds the times of both sides against each other becomes an interval join.

use crate::error::Result;
use crate::plan::exec_node::ExecNodeKind;
use crate::plan::logical::{Join, TimeBounds, time_bounds};
use crate::plan::logical_graph::LogicalId;
use crate::plan::nodes::IntervalJoinNode;
use crate::plan::physical::Planner;
use crate::plan::relation::Relation;
use crate::plan::row_logic::conjunction;
use crate::types::TimeAttribute;

use super::join::JoinInputs;

impl Planner<'_> {
    /// The bounds in the condition of a join, if it has both.
    pub(super) fn time_bounds(&self, id: LogicalId, join: &Join) -> Option<TimeBounds> {
        if join.kind.is_left_only() {
            return None;
        }
        let inputs = &self.graph.nodes[id].inputs;
        let (left, right) = (self.schema(inputs[0]), self.schema(inputs[1]));
        time_bounds(&join.condition, left, right)
    }

    /// An interval join. Equal times are a key besides.
    pub(super) fn interval_join(
        &mut self,
        id: LogicalId,
        join: &Join,
        inputs: JoinInputs,
        bounds: TimeBounds,
    ) -> Result<Relation> {
        let keys = inputs.conditions.equalities.clone();
        let others = inputs.conditions.others.iter();
        let residual = conjunction(others.filter(|part| !bounds.parts.contains(part)).cloned());
        let sides = self.join_sides(inputs, keys, residual)?;
        let min_cleanup = self
            .config
            .duration("table.exec.interval-join.min-cleanup-interval");
        let kind = ExecNodeKind::IntervalJoin(IntervalJoinNode {
            kind: join.kind,
            keys: sides.keys.clone(),
            condition: sides.condition.clone(),
            is_event_time: bounds.attribute == TimeAttribute::Rowtime,
            lower_bound_ms: bounds.lower_ms,
            upper_bound_ms: bounds.upper_ms,
            min_cleanup_ms: min_cleanup.as_millis() as i64,
            left_time: sides.left.at(bounds.left),
            right_time: sides.right.at(bounds.right),
        });
        let schema = self.join_schema(join.kind, &sides);
        Ok(self.joined(id, kind, sides, schema))
    }
}
