//! Operators of regular joins.

use super::{Build, OperatorBuilder};
use crate::error::{Error, Result};
use crate::plan::exec_node::ExecNode;
use crate::plan::nodes::JoinNode;

impl OperatorBuilder<'_> {
    pub(super) fn join(&self, node: &ExecNode, _: &JoinNode) -> Result<Build> {
        Err(Error::unsupported(node.kind.name()))
    }
}
