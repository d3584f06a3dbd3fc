//! Operators of group aggregations, and of mini-batch.

use std::sync::Arc;

use super::{Build, OperatorBuilder};
use crate::error::Result;
use crate::operators::{
    GroupAggregateOperator, GroupAggregateSpec as OperatorSpec, LocalGroupAggregateOperator,
    MiniBatchAssignerOperator,
};
use crate::plan::exec_node::{ExecNode, NodeId};
use crate::plan::nodes::{
    GlobalGroupAggregateNode, GroupAggregateNode, GroupAggregateSpec, LocalGroupAggregateNode,
    MiniBatchAssignerNode,
};
use crate::state::TimeToLive;
use crate::types::{RowKind, Schema};

impl OperatorBuilder<'_> {
    pub(super) fn mini_batch_assigner(
        &self,
        _: &ExecNode,
        assigner: &MiniBatchAssignerNode,
    ) -> Result<Build> {
        let (interval_ms, event_time) = (assigner.interval_ms, assigner.is_event_time);
        Ok(Box::new(move |_| {
            Ok(Box::new(MiniBatchAssignerOperator::new(
                interval_ms,
                event_time,
            )))
        }))
    }

    pub(super) fn group_aggregate(
        &self,
        node: &ExecNode,
        aggregate: &GroupAggregateNode,
    ) -> Result<Build> {
        let input = self.input_schema(node);
        let spec = self.grouping(node, &aggregate.spec, input, node.inputs[0]);
        Ok(self.build_grouping(spec, self.column_texts(node.inputs[0])))
    }

    pub(super) fn local_group_aggregate(
        &self,
        node: &ExecNode,
        local: &LocalGroupAggregateNode,
    ) -> Result<Build> {
        let input = self.input_schema(node);
        let spec = self.grouping(node, &local.spec, input, node.inputs[0]);
        let backend = self.backend.clone();
        Ok(Box::new(move |_| {
            let operator = LocalGroupAggregateOperator::new(&spec, backend.clone())?;
            Ok(Box::new(operator))
        }))
    }

    pub(super) fn global_group_aggregate(
        &self,
        node: &ExecNode,
        global: &GlobalGroupAggregateNode,
    ) -> Result<Build> {
        let rows = self.local_phase(node.inputs[0]).inputs[0];
        let mut spec = self.grouping(node, &global.spec, global.local_input.clone(), rows);
        spec.merges_partials = true;
        Ok(self.build_grouping(spec, self.column_texts(rows)))
    }

    fn build_grouping(&self, spec: OperatorSpec, texts: Vec<String>) -> Build {
        let backend = Arc::clone(&self.backend);
        Box::new(move |_| {
            let operator = GroupAggregateOperator::new(spec.clone(), backend.clone())?;
            Ok(Box::new(operator.with_column_texts(&texts)))
        })
    }

    /// `rows` are the rows that the aggregates speak of, of which `input` are the columns.
    fn grouping(
        &self,
        node: &ExecNode,
        spec: &GroupAggregateSpec,
        input: Schema,
        rows: NodeId,
    ) -> OperatorSpec {
        OperatorSpec {
            keys: spec.grouping.clone(),
            aggregates: spec.aggregates.clone(),
            input,
            merges_partials: false,
            insert_only: self.is_insert_only(rows),
            update_before: node.changelog_mode.contains(RowKind::UpdateBefore),
            mini_batch_rows: self.mini_batch_rows,
            ttl: TimeToLive::of_millis(spec.state_ttl_ms.unwrap_or(self.state_ttl_ms)),
        }
    }
}
