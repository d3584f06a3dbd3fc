//! Which kinds of rows flow on each edge: Flink's three passes, over the finished graph.
//!
//! First, from the sources on, the kinds that can come and whether every consumer takes them (`produced`, `refusals`). Second, from the
//! sinks back, who needs the row before an update (-U); third, who needs deletes as full rows rather than by key (`demands`). What a
//! source does not give by itself is restored behind it (ChangelogNormalize), what nobody needs is left out (DropUpdateBefore); these
//! nodes are put in by `insertion`. Afterwards the changelog mode of every node is what it really gives.

mod demands;
mod insertion;
mod normalization;
mod produced;
mod refusals;

pub(crate) use produced::produced_mode;

use super::exec_node::ExecPlan;
use crate::config::SessionConfig;
use crate::error::Result;
use crate::expr::Position;

/// The plan with the nodes that mend its changelogs, all modes final. `positions`: where the SQL text names the sink of each root.
pub(crate) fn infer_changelog_modes(
    mut plan: ExecPlan,
    positions: &[Position],
    config: &SessionConfig,
) -> Result<ExecPlan> {
    refusals::check_kinds(&plan, positions)?;
    let sources = normalization::updating_sources(&plan, config)?;
    let absorbed = normalization::filters_to_absorb(&plan, &sources);
    let demands = demands::demands(&plan, &absorbed);
    let mends = normalization::mends(&plan, &sources, &absorbed, &demands);
    plan = insertion::insert(plan, mends, &demands);
    Ok(plan)
}
