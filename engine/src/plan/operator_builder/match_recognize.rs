//! The operator of MATCH_RECOGNIZE.

use super::{Build, OperatorBuilder};
use crate::error::Result;
use crate::operators::{MatchOperator, MatchSpec};
use crate::plan::exec_node::ExecNode;
use crate::plan::nodes::MatchNode;

impl OperatorBuilder<'_> {
    pub(super) fn match_recognize(&self, node: &ExecNode, found: &MatchNode) -> Result<Build> {
        let spec = MatchSpec {
            input: self.input_schema(node),
            output: node.schema.clone(),
            partition_by: found.partition_by.clone(),
            time_column: found.is_event_time.then(|| found.order_by[0].column),
            then_by: found.order_by[1..].to_vec(),
            pattern: found.pattern.clone(),
            navigations: found
                .navigations
                .iter()
                .map(|(navigation, logical_type)| (navigation.clone(), logical_type.to_arrow()))
                .collect(),
            conditions: found.conditions.clone(),
            measures: found.measures.clone(),
            context: self.context,
        };
        Ok(Box::new(move |_| {
            Ok(Box::new(MatchOperator::new(spec.clone())?))
        }))
    }
}
