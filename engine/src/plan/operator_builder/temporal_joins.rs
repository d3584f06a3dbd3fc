//! Operators of joins on time, and of lookups.

use super::{Build, OperatorBuilder};
use crate::error::Result;
use crate::expr::compile;
use crate::operators::{
    IntervalBounds, IntervalJoinOperator, IntervalJoinSpec, LookupJoinOperator, LookupJoinSpec,
    LookupKeyValue, TemporalJoinOperator, TemporalJoinSpec, TimedSide,
};
use crate::plan::exec_node::{ExecNode, ExecNodeKind, NodeId};
use crate::plan::nodes::{
    IntervalJoinNode, JoinKey, LookupJoinNode, LookupKey, LookupValue, TemporalJoinNode,
};
use crate::types::Schema;

impl OperatorBuilder<'_> {
    pub(super) fn interval_join(&self, node: &ExecNode, join: &IntervalJoinNode) -> Result<Build> {
        let (join, output, context, backend) = (
            join.clone(),
            node.schema.clone(),
            self.context,
            self.backend.clone(),
        );
        let schemas = self.join_schemas(node);
        Ok(Box::new(move |_| {
            let times = [join.left_time, join.right_time];
            let [left, right] = timed_sides(&schemas, times, &join.keys);
            let condition = join.condition.as_ref();
            let spec = IntervalJoinSpec {
                kind: join.kind,
                left,
                right,
                null_safe: join.keys.iter().map(|key| key.null_safe).collect(),
                bounds: IntervalBounds {
                    is_event_time: join.is_event_time,
                    lower_ms: join.lower_bound_ms,
                    upper_ms: join.upper_bound_ms,
                    min_cleanup_ms: join.min_cleanup_ms,
                },
                condition: condition.map(|part| compile(part, &context)).transpose()?,
                output: output.clone(),
            };
            Ok(Box::new(IntervalJoinOperator::new(spec, backend.clone())?))
        }))
    }

    pub(super) fn temporal_join(&self, node: &ExecNode, join: &TemporalJoinNode) -> Result<Build> {
        let (join, output, context, backend) = (
            join.clone(),
            node.schema.clone(),
            self.context,
            self.backend.clone(),
        );
        let schemas = self.join_schemas(node);
        let input_names = [0, 1].map(|input: usize| self.table_behind(node.inputs[input]));
        Ok(Box::new(move |_| {
            let times = [join.left_time, join.right_time];
            let [left, right] = timed_sides(&schemas, times, &join.keys);
            let condition = join.condition.as_ref();
            let spec = TemporalJoinSpec {
                kind: join.kind,
                left,
                right,
                null_safe: join.keys.iter().map(|key| key.null_safe).collect(),
                condition: condition.map(|part| compile(part, &context)).transpose()?,
                output: output.clone(),
                input_names: input_names.clone(),
            };
            Ok(Box::new(TemporalJoinOperator::new(spec, backend.clone())?))
        }))
    }

    pub(super) fn lookup_join(&self, node: &ExecNode, join: &LookupJoinNode) -> Result<Build> {
        let keys: Vec<usize> = join.keys.iter().map(|key| key.column).collect();
        let source = self
            .connectors
            .for_table(&join.table, None)?
            .create_lookup(&join.table, &keys)?;
        let (join, output, context) = (join.clone(), node.schema.clone(), self.context);
        Ok(Box::new(move |_| {
            let value = |key: &LookupKey| {
                Ok(match &key.value {
                    LookupValue::Column(column) => LookupKeyValue::Column(*column),
                    LookupValue::Constant(value) => {
                        LookupKeyValue::Constant(compile(value, &context)?)
                    }
                })
            };
            let condition = join.condition.as_ref();
            let spec = LookupJoinSpec {
                kind: join.kind,
                keys: join.keys.iter().map(value).collect::<Result<_>>()?,
                condition: condition.map(|part| compile(part, &context)).transpose()?,
                output: output.clone(),
            };
            Ok(Box::new(LookupJoinOperator::new(spec, source.function()?)))
        }))
    }

    /// The table from which a node's rows come, or the first of them.
    fn table_behind(&self, id: NodeId) -> String {
        let node = self.plan.node(id);
        match (&node.kind, node.inputs.first()) {
            (ExecNodeKind::TableSourceScan(scan), _) => scan.table.name.clone(),
            (_, Some(input)) => self.table_behind(*input),
            (kind, None) => kind.name().to_string(),
        }
    }

    fn join_schemas(&self, node: &ExecNode) -> [Schema; 2] {
        [0, 1].map(|input| self.plan.node(node.inputs[input]).schema.clone())
    }
}

fn timed_sides(schemas: &[Schema; 2], times: [usize; 2], keys: &[JoinKey]) -> [TimedSide; 2] {
    let side = |side: usize, key: fn(&JoinKey) -> usize| TimedSide {
        schema: schemas[side].clone(),
        time: times[side],
        keys: keys.iter().map(key).collect(),
    };
    [side(0, |key| key.left), side(1, |key| key.right)]
}
