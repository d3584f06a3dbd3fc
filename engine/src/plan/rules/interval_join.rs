//! A join whose condition bounds the times of both sides against each other becomes an interval join.

use crate::error::{Error, Result};
use crate::plan::logical::Join;
use crate::plan::logical_graph::LogicalId;
use crate::plan::physical::Planner;
use crate::plan::relation::Relation;

use super::join::JoinInputs;

/// How far the times of a pair may be apart.
pub(super) struct TimeBounds {}

impl Planner<'_> {
    /// The bounds in the condition of a join, if it has both.
    pub(super) fn time_bounds(&self, _: &Join, _: &JoinInputs) -> Result<Option<TimeBounds>> {
        Ok(None)
    }

    /// An interval join.
    pub(super) fn interval_join(
        &mut self,
        _: LogicalId,
        join: &Join,
        _: JoinInputs,
        _: TimeBounds,
    ) -> Result<Relation> {
        Err(Error::unsupported("an interval join").at(join.position.0))
    }
}
