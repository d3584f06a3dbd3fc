//! A join with FOR SYSTEM_TIME AS OF becomes a temporal join, or a lookup join.

use crate::error::{Error, Result};
use crate::plan::logical::Join;
use crate::plan::logical_graph::LogicalId;
use crate::plan::physical::Planner;
use crate::plan::relation::Relation;

impl Planner<'_> {
    /// A temporal join in event time, a lookup join in processing time.
    pub(super) fn temporal_join(&mut self, _: LogicalId, join: &Join) -> Result<Relation> {
        Err(Error::unsupported("FOR SYSTEM_TIME AS OF").at(join.position.0))
    }
}
