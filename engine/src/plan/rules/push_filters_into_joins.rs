//! Brings each part of WHERE and ON to where it belongs: to one input of a join, or into the join's condition; below an
//! UNNEST where it speaks about the row alone.
//!
//! `FROM a, b WHERE a.k = b.k` becomes a join on `a.k = b.k`. A part moves to an input only if it cannot fail and no row
//! can notice: of the condition of an outer join only what speaks about the side that is padded, of WHERE above it only
//! what speaks about the side that is kept. Nothing moves to a right side that is read as of a time: there it would uncover
//! the version before the one that it keeps away. Parts that stay keep their order.

use crate::expr::Expression;
use crate::plan::logical::{Filter, Join, JoinKind, LogicalPlan, Unnest};
use crate::plan::row_logic::{conjunction, conjuncts, is_movable, reindex};

/// Applies the rule everywhere, from the top.
pub(super) fn push(plan: LogicalPlan) -> LogicalPlan {
    let plan = match plan {
        LogicalPlan::Filter(filter) => push_filter(filter),
        LogicalPlan::Join(join) => push_into(join, vec![]),
        other => other,
    };
    plan.map_inputs(&mut push)
}

fn push_filter(filter: Filter) -> LogicalPlan {
    let mut parts = conjuncts(&filter.condition);
    match *filter.input {
        LogicalPlan::Filter(inner) => {
            let mut all = conjuncts(&inner.condition);
            all.append(&mut parts);
            match filtered(*inner.input, all) {
                LogicalPlan::Filter(merged) => push_filter(merged),
                other => push(other),
            }
        }
        LogicalPlan::Join(join) => push_into(join, parts),
        LogicalPlan::Unnest(unnest) => push_below(unnest, parts),
        other => filtered(other, parts),
    }
}

fn filtered(input: LogicalPlan, parts: Vec<Expression>) -> LogicalPlan {
    match conjunction(parts) {
        Some(condition) => LogicalPlan::Filter(Filter {
            input: Box::new(input),
            condition,
        }),
        None => input,
    }
}

/// A collection is unnested only for rows that stay.
fn push_below(mut unnest: Unnest, parts: Vec<Expression>) -> LogicalPlan {
    let width = unnest.input.schema().len();
    let of_row = |part: &Expression| {
        let columns = part.columns();
        is_movable(part) && !columns.is_empty() && columns.iter().all(|column| *column < width)
    };
    let (below, above) = parts.into_iter().partition(of_row);
    unnest.input = Box::new(filtered(*unnest.input, below));
    filtered(LogicalPlan::Unnest(unnest), above)
}

fn push_into(mut join: Join, above: Vec<Expression>) -> LogicalPlan {
    let left_width = join.left.schema().len();
    let mut on = conjuncts(&join.condition);
    let mut above = above;
    if join.kind == JoinKind::Inner {
        on.append(&mut above);
    }
    let as_of = join.as_of.is_some();
    let allowed = |(left, right): (bool, bool)| (left, right && !as_of);
    let (on_sides, where_sides) = (
        allowed(on_moves(join.kind)),
        allowed(where_moves(join.kind)),
    );
    let mut left = Vec::new();
    let mut right = Vec::new();
    on.retain(|part| !moves(part, left_width, on_sides, &mut left, &mut right));
    above.retain(|part| !moves(part, left_width, where_sides, &mut left, &mut right));
    join.condition = conjunction(on).unwrap_or_else(Expression::always_true);
    join.left = Box::new(filtered(*join.left, left));
    join.right = Box::new(filtered(*join.right, right));
    filtered(LogicalPlan::Join(join), above)
}

/// To which sides (left, right) a part of the join's own condition may move.
fn on_moves(kind: JoinKind) -> (bool, bool) {
    match kind {
        JoinKind::Inner | JoinKind::Semi => (true, true),
        JoinKind::Left | JoinKind::Anti => (false, true),
        JoinKind::Right => (true, false),
        JoinKind::Full => (false, false),
    }
}

/// To which sides a part of WHERE above the join may move.
fn where_moves(kind: JoinKind) -> (bool, bool) {
    match kind {
        JoinKind::Inner => (true, true),
        JoinKind::Left | JoinKind::Semi | JoinKind::Anti => (true, false),
        JoinKind::Right => (false, true),
        JoinKind::Full => (false, false),
    }
}

fn moves(
    part: &Expression,
    left_width: usize,
    (to_left, to_right): (bool, bool),
    left: &mut Vec<Expression>,
    right: &mut Vec<Expression>,
) -> bool {
    let columns = part.columns();
    if columns.is_empty() || !is_movable(part) {
        return false;
    }
    if to_left && columns.iter().all(|column| *column < left_width) {
        left.push(part.clone());
        return true;
    }
    if to_right && columns.iter().all(|column| *column >= left_width) {
        right.push(reindex(part, &|column| column - left_width));
        return true;
    }
    false
}
