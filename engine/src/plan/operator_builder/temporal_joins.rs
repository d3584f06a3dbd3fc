//! Operators of joins on time, and of lookups.

use super::{Build, OperatorBuilder};
use crate::error::{Error, Result};
use crate::expr::compile;
use crate::operators::{TemporalJoinOperator, TemporalJoinSide, TemporalJoinSpec};
use crate::plan::exec_node::ExecNode;
use crate::plan::nodes::{IntervalJoinNode, LookupJoinNode, TemporalJoinNode};
use crate::types::Schema;

impl OperatorBuilder<'_> {
    pub(super) fn interval_join(&self, node: &ExecNode, _: &IntervalJoinNode) -> Result<Build> {
        Err(Error::unsupported(node.kind.name()))
    }

    pub(super) fn temporal_join(&self, node: &ExecNode, join: &TemporalJoinNode) -> Result<Build> {
        let (join, output, context, backend) = (
            join.clone(),
            node.schema.clone(),
            self.context,
            self.backend.clone(),
        );
        let [left, right] = self.join_schemas(node);
        Ok(Box::new(move |_| {
            let side = |schema: &Schema, time: usize, keys: Vec<usize>| TemporalJoinSide {
                schema: schema.clone(),
                time,
                keys,
            };
            let left_keys = join.keys.iter().map(|key| key.left).collect();
            let right_keys = join.keys.iter().map(|key| key.right).collect();
            let condition = join.condition.as_ref();
            let spec = TemporalJoinSpec {
                kind: join.kind,
                left: side(&left, join.left_time, left_keys),
                right: side(&right, join.right_time, right_keys),
                null_safe: join.keys.iter().map(|key| key.null_safe).collect(),
                condition: condition.map(|part| compile(part, &context)).transpose()?,
                output: output.clone(),
            };
            Ok(Box::new(TemporalJoinOperator::new(spec, &*backend)?))
        }))
    }

    pub(super) fn lookup_join(&self, node: &ExecNode, _: &LookupJoinNode) -> Result<Build> {
        Err(Error::unsupported(node.kind.name()))
    }

    fn join_schemas(&self, node: &ExecNode) -> [Schema; 2] {
        [0, 1].map(|input| self.plan.node(node.inputs[input]).schema.clone())
    }
}
