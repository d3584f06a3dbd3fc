//! STATE_TTL of a SELECT: how long its joins and its aggregation remember rows of a table.
//!
//! A join's side has the time of the table that it is; where it is a join itself the session's option counts. The
//! aggregation has that of the only table of FROM. A table with an alias is named by it.

use std::collections::BTreeSet;

use super::binder::Binder;
use super::hints::StateTtl;
use super::scope::Scope;
use crate::error::{Error, Result};
use crate::plan::logical::LogicalPlan;

impl Binder<'_> {
    /// Gives the joins of a FROM clause their times, after checking that each table named is there.
    pub(super) fn apply_state_ttl(
        &self,
        plan: &mut LogicalPlan,
        scope: &Scope,
        state_ttl: &StateTtl,
    ) -> Result<()> {
        let tables = tables_of(scope, 0..scope.columns.len());
        if let Some(unknown) = state_ttl
            .by_table
            .keys()
            .find(|table| !tables.contains(table.as_str()))
        {
            let position = state_ttl.position.filter(|_| self.view_depth == 0);
            let known: Vec<&str> = tables.into_iter().collect();
            return Err(Error::user(format!(
                "the hint STATE_TTL names \"{unknown}\", which is no table of this FROM"
            ))
            .at(position)
            .hint(format!(
                "tables: {}; one with an alias is named by it",
                known.join(", ")
            )));
        }
        apply_to_joins(plan, scope, 0, state_ttl);
        Ok(())
    }
}

/// The time of the aggregation over a FROM clause.
pub(super) fn of_aggregate(scope: &Scope, state_ttl: &StateTtl) -> Option<u64> {
    time_of(scope, 0..scope.columns.len(), state_ttl)
}

pub(super) fn tables_of(scope: &Scope, columns: std::ops::Range<usize>) -> BTreeSet<&str> {
    let columns = scope.columns[columns].iter();
    columns
        .filter_map(|column| column.qualifier.as_deref())
        .collect()
}

/// The time of the only table that the columns belong to.
fn time_of(scope: &Scope, columns: std::ops::Range<usize>, state_ttl: &StateTtl) -> Option<u64> {
    let tables = tables_of(scope, columns);
    let single = tables.first().filter(|_| tables.len() == 1)?;
    state_ttl.by_table.get(*single).copied()
}

/// `first`: which column of the scope the plan's first one is.
fn apply_to_joins(plan: &mut LogicalPlan, scope: &Scope, first: usize, state_ttl: &StateTtl) {
    let LogicalPlan::Join(join) = plan else {
        return;
    };
    let middle = first + join.left.schema().len();
    let last = middle + join.right.schema().len();
    let is_within = last <= scope.columns.len();
    if !is_within || tables_of(scope, first..last).len() < 2 {
        return;
    }
    join.state_ttl_ms = [
        time_of(scope, first..middle, state_ttl),
        time_of(scope, middle..last, state_ttl),
    ];
    apply_to_joins(&mut join.left, scope, first, state_ttl);
    apply_to_joins(&mut join.right, scope, middle, state_ttl);
}
