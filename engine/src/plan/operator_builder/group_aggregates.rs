//! Operators of group aggregations, and of mini-batch.

use super::{Build, OperatorBuilder};
use crate::error::{Error, Result};
use crate::plan::exec_node::ExecNode;
use crate::plan::nodes::{
    GlobalGroupAggregateNode, GroupAggregateNode, LocalGroupAggregateNode, MiniBatchAssignerNode,
};

impl OperatorBuilder<'_> {
    pub(super) fn mini_batch_assigner(
        &self,
        node: &ExecNode,
        _: &MiniBatchAssignerNode,
    ) -> Result<Build> {
        Err(Error::unsupported(node.kind.name()))
    }

    pub(super) fn group_aggregate(&self, node: &ExecNode, _: &GroupAggregateNode) -> Result<Build> {
        Err(Error::unsupported(node.kind.name()))
    }

    pub(super) fn local_group_aggregate(
        &self,
        node: &ExecNode,
        _: &LocalGroupAggregateNode,
    ) -> Result<Build> {
        Err(Error::unsupported(node.kind.name()))
    }

    pub(super) fn global_group_aggregate(
        &self,
        node: &ExecNode,
        _: &GlobalGroupAggregateNode,
    ) -> Result<Build> {
        Err(Error::unsupported(node.kind.name()))
    }
}
