//! Operators of joins on time, and of lookups.

use super::{Build, OperatorBuilder};
use crate::error::Result;
use crate::expr::compile;
use crate::operators::{
    AsyncLookupSpec, IntervalBounds, IntervalJoinOperator, IntervalJoinSpec, LookupAsking,
    LookupJoinOperator, LookupJoinSpec, LookupKeyValue, LookupRetrySpec, QueuedLookupJoinOperator,
    TemporalJoinOperator, TemporalJoinSpec, TimedSide,
};
use crate::plan::exec_node::{ExecNode, ExecNodeKind, NodeId};
use crate::plan::logical::LookupOutputMode;
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
        let input_mode = &self.plan.node(node.inputs[0]).changelog_mode;
        let output_mode = join.output_mode(input_mode);
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
            let asking = match &join.asynchronous {
                None if join.retry.is_none() => {
                    return Ok(Box::new(LookupJoinOperator::new(spec, source.function()?)));
                }
                None => LookupAsking::InTurn(source.function()?),
                Some(asynchronous) => LookupAsking::SideBySide(
                    source.async_function(&source)?,
                    AsyncLookupSpec {
                        unordered: output_mode == LookupOutputMode::AllowUnordered,
                        capacity: asynchronous.capacity,
                        timeout_ms: asynchronous.timeout_ms,
                    },
                ),
            };
            let retry = join.retry.map(|retry| LookupRetrySpec {
                fixed_delay_ms: retry.fixed_delay_ms.max(1),
                max_attempts: retry.max_attempts,
            });
            let table = join.table.name.clone();
            Ok(Box::new(QueuedLookupJoinOperator::new(
                spec, table, asking, retry,
            )))
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
