//! Operators of OVER.

use super::{Build, OperatorBuilder};
use crate::error::{Error, Result};
use crate::operators::{OverAggregateOperator, OverAggregateSpec, OverFrame};
use crate::plan::exec_node::ExecNode;
use crate::plan::logical;
use crate::plan::nodes::OverAggregateNode;
use crate::state::TimeToLive;

impl OperatorBuilder<'_> {
    pub(super) fn over_aggregate(
        &self,
        node: &ExecNode,
        over: &OverAggregateNode,
    ) -> Result<Build> {
        let ([key], true) = (&over.order_by[..], over.is_time_ordered) else {
            return Err(Error::internal("OVER is in the order of time"));
        };
        let spec = OverAggregateSpec {
            input: self.input_schema(node),
            output: node.schema.clone(),
            partition_by: over.partition_by.clone(),
            time_column: over.is_event_time.then_some(key.column),
            frame: match over.frame {
                logical::OverFrame::Rows(rows) => OverFrame::Rows(rows),
                logical::OverFrame::Range(range) => OverFrame::Range(range),
            },
            calls: over.calls.clone(),
            time_to_live: TimeToLive::of_millis(self.state_ttl_ms),
        };
        Ok(Box::new(move |_| {
            Ok(Box::new(OverAggregateOperator::new(spec.clone())?))
        }))
    }
}
