//! Calls with OVER become an OverAggregate.

use crate::error::{Error, Result};
use crate::plan::logical::Over;
use crate::plan::logical_graph::LogicalId;
use crate::plan::physical::Planner;
use crate::plan::relation::Relation;

impl Planner<'_> {
    /// Aggregates over the rows before each row.
    pub(crate) fn over(&mut self, _: LogicalId, over: &Over) -> Result<Relation> {
        Err(Error::unsupported("OVER").at(over.position.0))
    }
}
