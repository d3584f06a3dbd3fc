//! Folds rows before they move: aggregations in two phases.
//!
//! `table.optimizer.agg-phase-strategy`: TWO_PHASE wherever it is possible, ONE_PHASE never, AUTO where rows really move
//! to other subtasks, that is at a parallelism above one. Possible it is for aligned windows on event time, over
//! insert-only rows, with aggregates whose accumulators merge. The state of the global phase is that of the one-phase
//! aggregation, so that a job can go on at another parallelism.

use crate::plan::exec_node::{ExecNodeKind, NodeId};
use crate::plan::nodes::{
    GlobalGroupAggregateNode, GlobalWindowAggregateNode, GroupAggregateSpec,
    LocalGroupAggregateNode, LocalWindowAggregateNode, WindowAggregateNode,
};
use crate::plan::physical::Planner;
use crate::window::{WindowAggregateSpec, WindowKind};

const MERGEABLE: &[&str] = &["COUNT", "SUM", "AVG", "MIN", "MAX"];

impl Planner<'_> {
    /// A group aggregation over a node, with its exchange, in one phase or two. Two there are only with mini-batch: the
    /// local phase folds what a bundle holds.
    pub(super) fn group_aggregate_phases(
        &mut self,
        input: NodeId,
        spec: GroupAggregateSpec,
    ) -> NodeId {
        if !self.groups_in_two_phases(input, &spec) {
            return self.one_phase(input, spec);
        }
        let schema = self.grouped_schema(input, &spec);
        let local_input = self.builder.node(input).schema.clone();
        let local =
            ExecNodeKind::LocalGroupAggregate(LocalGroupAggregateNode { spec: spec.clone() });
        let local_schema = local_input.project(&spec.grouping);
        let local = self.builder.add(local, vec![input], local_schema);
        let keys: Vec<usize> = (0..spec.grouping.len()).collect();
        let below = self.builder.distribute(local, &keys);
        let kind =
            ExecNodeKind::GlobalGroupAggregate(GlobalGroupAggregateNode { spec, local_input });
        self.builder.add(kind, vec![below], schema)
    }

    fn groups_in_two_phases(&self, input: NodeId, spec: &GroupAggregateSpec) -> bool {
        let wanted = match self.config.get("table.optimizer.agg-phase-strategy") {
            Some("ONE_PHASE") => false,
            Some("TWO_PHASE") => true,
            _ => self.builder.node(input).parallelism > 1,
        };
        wanted
            && !spec.aggregates.is_empty()
            && self.config.boolean("table.exec.mini-batch.enabled")
            && !self.builder.is_distributed(input, &spec.grouping)
    }

    /// A window aggregation over a node, with its exchange, in one phase or two.
    pub(super) fn window_aggregate_phases(
        &mut self,
        input: NodeId,
        spec: WindowAggregateSpec,
    ) -> NodeId {
        let schema = self.aggregate_schema(input, &spec);
        if self.in_two_phases(input, &spec) {
            return self.two_phases(input, spec, schema);
        }
        let below = self.builder.distribute(input, &spec.keys);
        let kind = ExecNodeKind::WindowAggregate(WindowAggregateNode { spec });
        self.builder.add(kind, vec![below], schema)
    }

    fn two_phases(
        &mut self,
        input: NodeId,
        spec: WindowAggregateSpec,
        schema: crate::types::Schema,
    ) -> NodeId {
        let local_input = self.builder.node(input).schema.clone();
        let local =
            ExecNodeKind::LocalWindowAggregate(LocalWindowAggregateNode { spec: spec.clone() });
        let local = self
            .builder
            .add(local, vec![input], local_input.project(&spec.keys));
        let keys: Vec<usize> = (0..spec.keys.len()).collect();
        let below = self.builder.distribute(local, &keys);
        let kind =
            ExecNodeKind::GlobalWindowAggregate(GlobalWindowAggregateNode { spec, local_input });
        self.builder.add(kind, vec![below], schema)
    }

    fn in_two_phases(&self, input: NodeId, spec: &WindowAggregateSpec) -> bool {
        let node = self.builder.node(input);
        let wanted = match self.config.get("table.optimizer.agg-phase-strategy") {
            Some("ONE_PHASE") => false,
            Some("TWO_PHASE") => true,
            // A late row is shown whole only while it has not been folded.
            _ => node.parallelism > 1 && self.config.get("volley.late-rows.sink").is_none(),
        };
        wanted
            && !self.builder.is_distributed(input, &spec.keys)
            && node.changelog_mode.is_insert_only()
            && spec.window.time.is_event_time()
            && !matches!(spec.window.kind, WindowKind::Session { .. })
            && spec
                .aggregates
                .iter()
                .all(|call| !call.distinct && MERGEABLE.contains(&call.function.as_str()))
    }
}
