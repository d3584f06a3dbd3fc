//! The rules of the planner, one a file: an allow-list of what is sound on streams.
//!
//! The first ones rewrite the logical plan as a tree; the others choose the nodes; `prune_fields` narrows them. No rule moves anything below a
//! watermark assigner, evaluates what can fail on more rows than SQL does, or draws a random number twice.

mod flatten_unions;
mod fold_constants;
mod group_aggregate;
mod grouping_sets;
mod interval_join;
mod join;
mod join_conditions;
mod late_rows;
mod lookup_join;
mod match_recognize;
mod mini_batch;
mod multi_join;
mod over;
mod prune_columns;
mod prune_fields;
mod push_filters_into_joins;
mod rank;
mod regular_join;
mod row_number;
mod set_operations;
mod sort;
mod source;
mod split_distinct;
mod temporal_join;
mod two_phase;
mod window_aggregate;
mod window_join;
mod window_rank;

pub(crate) use mini_batch::insert_mini_batch_assigners;
pub(crate) use prune_columns::required_columns;
pub(crate) use prune_fields::prune_fields;
pub(crate) use source::mark_readers_of_watermarks;

pub use late_rows::late_rows_schema;

use super::logical::LogicalPlan;

/// The query after the rules that work on the tree.
pub(crate) fn rewrite_tree(plan: LogicalPlan) -> LogicalPlan {
    let plan = bottom_up(plan, &mut fold_constants::fold);
    let plan = bottom_up(plan, &mut flatten_unions::flatten);
    let plan = bottom_up(plan, &mut set_operations::rewrite);
    push_filters_into_joins::push(plan)
}

fn bottom_up(plan: LogicalPlan, rule: &mut dyn FnMut(LogicalPlan) -> LogicalPlan) -> LogicalPlan {
    let plan = plan.map_inputs(&mut |input| bottom_up(input, rule));
    rule(plan)
}
