//! GROUP BY without a window: an updating aggregation, with its exchange, in one phase or two.
//!
//! SELECT DISTINCT and UNION are such aggregations without aggregates. A group that has only one bound of a window is an
//! ordinary group too.

use crate::error::Result;
use crate::plan::exec_node::{ExecNodeKind, NodeId};
use crate::plan::logical::Aggregate;
use crate::plan::logical_graph::LogicalId;
use crate::plan::nodes::{GroupAggregateNode, GroupAggregateSpec};
use crate::plan::physical::Planner;
use crate::plan::relation::{Pending, Relation, column_of};
use crate::types::{Field, Schema};

use super::window_aggregate::{PackedRows, Rows};

impl Planner<'_> {
    /// An aggregation by columns; a window function below it is evaluated.
    pub(super) fn group_aggregate(
        &mut self,
        id: LogicalId,
        aggregate: &Aggregate,
        input: Relation,
    ) -> Result<Relation> {
        let input = input.decided(&mut self.builder)?;
        let no_bounds = vec![None; aggregate.grouping.len()];
        let rows = Rows::new(self, id, aggregate, &no_bounds, &input);
        let packed = rows.pack(self, aggregate, &[])?;
        let spec = GroupAggregateSpec {
            grouping: packed.keys.clone(),
            aggregates: packed.aggregates.clone(),
            state_ttl_ms: aggregate.state_ttl_ms,
        };
        let node = self.split_group_aggregate(packed.node, spec)?;
        Ok(self.grouped(id, aggregate, &packed, node))
    }

    /// The aggregation over a node.
    pub(super) fn one_phase(&mut self, input: NodeId, spec: GroupAggregateSpec) -> NodeId {
        let schema = self.grouped_schema(input, &spec);
        let below = self.builder.distribute(input, &spec.grouping);
        let kind = ExecNodeKind::GroupAggregate(GroupAggregateNode { spec });
        self.builder.add(kind, vec![below], schema)
    }

    /// Grouping columns, then aggregates.
    pub(super) fn grouped_schema(&self, input: NodeId, spec: &GroupAggregateSpec) -> Schema {
        let input = &self.builder.node(input).schema;
        let mut fields = input.project(&spec.grouping).fields;
        // Only windows keep time attributes.
        for field in &mut fields {
            field.time_attribute = None;
        }
        let calls = spec.aggregates.iter();
        fields.extend(calls.map(|call| Field::new(&call.name, call.logical_type.clone())));
        Schema::new(fields)
    }

    /// The logical node's columns over the exec node's.
    fn grouped(
        &self,
        id: LogicalId,
        aggregate: &Aggregate,
        packed: &PackedRows,
        node: NodeId,
    ) -> Relation {
        let output = &self.builder.node(node).schema;
        let mut at: Vec<Option<usize>> = packed.grouped_keys.iter().copied().map(Some).collect();
        at.extend((0..aggregate.aggregates.len()).map(|index| {
            let call = packed.call_at.iter().find(|(logical, _)| *logical == index);
            call.map(|(_, at)| packed.keys.len() + at)
        }));
        if aggregate.grouping_sets.len() > 1 {
            at.push(packed.grouping_id);
        }
        Relation {
            base: node,
            schema: self.schema(id).clone(),
            columns: at
                .into_iter()
                .map(|at| at.map(|at| column_of(output, at)))
                .collect(),
            condition: None,
            pending: Pending::Nothing,
        }
    }
}
