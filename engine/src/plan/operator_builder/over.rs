//! Operators of OVER.

use super::{Build, OperatorBuilder};
use crate::error::{Error, Result};
use crate::plan::exec_node::ExecNode;
use crate::plan::nodes::OverAggregateNode;

impl OperatorBuilder<'_> {
    pub(super) fn over_aggregate(&self, node: &ExecNode, _: &OverAggregateNode) -> Result<Build> {
        Err(Error::unsupported(node.kind.name()))
    }
}
