//! MULTI_JOIN of a SELECT: which of its joins may become one node. A table with an alias is named by it.

use super::binder::Binder;
use super::hints::MultiJoinTables;
use super::scope::Scope;
use super::state_ttl::tables_of;
use crate::error::{Error, Result};
use crate::plan::logical::LogicalPlan;

impl Binder<'_> {
    /// Marks the joins of a FROM clause all of whose tables the hint names, after checking that each is there.
    pub(super) fn apply_multi_join(
        &self,
        plan: &mut LogicalPlan,
        scope: &Scope,
        hint: &MultiJoinTables,
    ) -> Result<()> {
        let tables = tables_of(scope, 0..scope.columns.len());
        let mut named = hint.tables.iter();
        if let Some(unknown) = named.find(|table| !tables.contains(table.as_str())) {
            let position = hint.position.filter(|_| self.view_depth == 0);
            let known: Vec<&str> = tables.into_iter().collect();
            return Err(Error::user(format!(
                "the hint MULTI_JOIN names \"{unknown}\", which is no table of this FROM"
            ))
            .at(position)
            .hint(format!(
                "tables: {}; one with an alias is named by it",
                known.join(", ")
            )));
        }
        mark_joins(plan, scope, 0, hint);
        Ok(())
    }
}

/// `first`: which column of the scope the plan's first one is.
fn mark_joins(plan: &mut LogicalPlan, scope: &Scope, first: usize, hint: &MultiJoinTables) {
    let LogicalPlan::Join(join) = plan else {
        return;
    };
    let middle = first + join.left.schema().len();
    let last = middle + join.right.schema().len();
    if last > scope.columns.len() {
        return;
    }
    let tables = tables_of(scope, first..last);
    join.multi_join = tables.len() > 1 && tables.iter().all(|table| hint.tables.contains(*table));
    mark_joins(&mut join.left, scope, first, hint);
    mark_joins(&mut join.right, scope, middle, hint);
}
