//! Operators that mend changelogs.

use super::{Build, OperatorBuilder};
use crate::error::{Error, Result};
use crate::plan::exec_node::ExecNode;
use crate::plan::nodes::ChangelogNormalizeNode;

impl OperatorBuilder<'_> {
    pub(super) fn changelog_normalize(
        &self,
        node: &ExecNode,
        _: &ChangelogNormalizeNode,
    ) -> Result<Build> {
        Err(Error::unsupported(node.kind.name()))
    }

    pub(super) fn drop_update_before(&self, node: &ExecNode) -> Result<Build> {
        Err(Error::unsupported(node.kind.name()))
    }
}
