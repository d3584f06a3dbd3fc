//! ORDER BY and LIMIT become a temporal sort, or a Top-N of all rows.

use crate::error::{Error, Result};
use crate::plan::logical::Sort;
use crate::plan::logical_graph::LogicalId;
use crate::plan::physical::Planner;
use crate::plan::relation::Relation;

impl Planner<'_> {
    /// The rows of a query in order, or the first of them.
    pub(crate) fn sort(&mut self, _: LogicalId, sort: &Sort) -> Result<Relation> {
        Err(Error::unsupported("ORDER BY and LIMIT").at(sort.position.0))
    }
}
