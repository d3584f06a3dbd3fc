//! Operators of joins on time, and of lookups.

use super::{Build, OperatorBuilder};
use crate::error::{Error, Result};
use crate::plan::exec_node::ExecNode;
use crate::plan::nodes::{IntervalJoinNode, LookupJoinNode, TemporalJoinNode};

impl OperatorBuilder<'_> {
    pub(super) fn interval_join(&self, node: &ExecNode, _: &IntervalJoinNode) -> Result<Build> {
        Err(Error::unsupported(node.kind.name()))
    }

    pub(super) fn temporal_join(&self, node: &ExecNode, _: &TemporalJoinNode) -> Result<Build> {
        Err(Error::unsupported(node.kind.name()))
    }

    pub(super) fn lookup_join(&self, node: &ExecNode, _: &LookupJoinNode) -> Result<Build> {
        Err(Error::unsupported(node.kind.name()))
    }
}
