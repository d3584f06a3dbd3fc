//! Operators of deduplication, Top-N and order.

use super::{Build, OperatorBuilder};
use crate::error::{Error, Result};
use crate::plan::exec_node::ExecNode;
use crate::plan::nodes::{DeduplicateNode, RankNode, TemporalSortNode};

impl OperatorBuilder<'_> {
    pub(super) fn deduplicate(&self, node: &ExecNode, _: &DeduplicateNode) -> Result<Build> {
        Err(Error::unsupported(node.kind.name()))
    }

    pub(super) fn rank(&self, node: &ExecNode, _: &RankNode) -> Result<Build> {
        Err(Error::unsupported(node.kind.name()))
    }

    pub(super) fn temporal_sort(&self, node: &ExecNode, _: &TemporalSortNode) -> Result<Build> {
        Err(Error::unsupported(node.kind.name()))
    }
}
