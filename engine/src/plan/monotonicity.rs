//! How the columns of an updating stream change when a row is updated: whether a Top-N may forget what falls out of it.

use super::exec_node::{ExecNodeKind, NodeId};
use super::graph_builder::GraphBuilder;
use super::nodes::{CalcNode, GroupAggregateSpec};
use super::row_logic::{bare_column, conjuncts};
use crate::expr::{Expression, Literal};
use crate::functions::AggregateCall;

/// What an update does to a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Monotonicity {
    /// Nothing.
    Constant,
    /// The value gets larger or stays; a NULL may become a value.
    Increasing,
    /// The value gets smaller or stays; a NULL may become a value.
    Decreasing,
    /// Anything.
    NotMonotonic,
}

use Monotonicity::{Constant, Decreasing, Increasing, NotMonotonic};

/// What updates do to the columns of a node; `None` where rows may also be deleted, or nothing is known.
pub(crate) fn modified_monotonicity(
    builder: &GraphBuilder,
    node: NodeId,
) -> Option<Vec<Monotonicity>> {
    let node = builder.node(node);
    if node.changelog_mode.is_insert_only() {
        return Some(vec![Constant; node.schema.len()]);
    }
    let input = || modified_monotonicity(builder, node.inputs[0]);
    match &node.kind {
        ExecNodeKind::Calc(calc) => of_calc(calc, &input()?),
        ExecNodeKind::Exchange(_)
        | ExecNodeKind::DropUpdateBefore(_)
        | ExecNodeKind::MiniBatchAssigner(_) => input(),
        ExecNodeKind::GroupAggregate(aggregate) => {
            of_aggregate(builder, node.inputs[0], &aggregate.spec)
        }
        ExecNodeKind::GlobalGroupAggregate(global) => {
            let local = local_phase(builder, node.inputs[0])?;
            of_aggregate(builder, local, &global.spec)
        }
        ExecNodeKind::Deduplicate(deduplicate) => {
            let mut columns = vec![NotMonotonic; node.schema.len()];
            deduplicate
                .unique_key
                .iter()
                .for_each(|key| columns[*key] = Constant);
            Some(columns)
        }
        _ => None,
    }
}

/// The input of the local aggregation behind exchanges.
fn local_phase(builder: &GraphBuilder, node: NodeId) -> Option<NodeId> {
    let node = builder.node(node);
    match &node.kind {
        ExecNodeKind::Exchange(_) => local_phase(builder, node.inputs[0]),
        ExecNodeKind::LocalGroupAggregate(_) => Some(node.inputs[0]),
        _ => None,
    }
}

fn of_calc(calc: &CalcNode, input: &[Monotonicity]) -> Option<Vec<Monotonicity>> {
    let conditions = calc.condition.iter().flat_map(conjuncts);
    if !conditions.into_iter().all(|part| stays_true(&part, input)) {
        return None;
    }
    let columns = calc.projection.iter().map(|expression| {
        let constant = expression
            .columns()
            .iter()
            .all(|column| input[*column] == Constant);
        match bare_column(expression) {
            Some(column) => input[column],
            None if constant => Constant,
            None => NotMonotonic,
        }
    });
    Some(columns.collect())
}

/// Whether a condition that is true of a row is true of its updates.
fn stays_true(condition: &Expression, input: &[Monotonicity]) -> bool {
    if condition
        .columns()
        .iter()
        .all(|column| input[*column] == Constant)
    {
        return true;
    }
    let Expression::Call {
        function,
        arguments,
        ..
    } = condition
    else {
        return false;
    };
    let column = |argument: &Expression| bare_column(argument).map(|column| input[column]);
    let constant = |argument: &Expression| matches!(argument, Expression::Literal { value, .. } if *value != Literal::Null);
    match (function.as_str(), &arguments[..]) {
        (">" | ">=", [left, right]) if constant(right) => column(left) == Some(Increasing),
        ("<" | "<=", [left, right]) if constant(right) => column(left) == Some(Decreasing),
        (">" | ">=", [left, right]) if constant(left) => column(right) == Some(Decreasing),
        ("<" | "<=", [left, right]) if constant(left) => column(right) == Some(Increasing),
        _ => false,
    }
}

fn of_aggregate(
    builder: &GraphBuilder,
    input: NodeId,
    spec: &GroupAggregateSpec,
) -> Option<Vec<Monotonicity>> {
    let below = modified_monotonicity(builder, input)?;
    if spec.grouping.iter().any(|key| below[*key] != Constant) {
        return None;
    }
    let updates = below.iter().any(|column| *column != Constant);
    let calls = spec.aggregates.iter().map(|call| {
        let alone = of_call(builder, input, call);
        match call.arguments[..] {
            _ if !updates || call.function == "COUNT" && call.filter.is_none() => alone,
            [argument] if call.filter.is_none() && below[argument] == alone => alone,
            _ => NotMonotonic,
        }
    });
    let keys = spec.grouping.iter().map(|_| Constant);
    Some(keys.chain(calls).collect())
}

/// Over a stream of inserts.
fn of_call(builder: &GraphBuilder, input: NodeId, call: &AggregateCall) -> Monotonicity {
    match call.function.as_str() {
        "COUNT" | "MAX" => Increasing,
        "MIN" => Decreasing,
        "SUM" => match call.arguments[..] {
            [argument] if is_not_negative(builder, input, argument) => Increasing,
            _ => NotMonotonic,
        },
        _ => NotMonotonic,
    }
}

/// Whether a column of a node is surely NULL, zero or above: by what it is computed of, or by a filter.
fn is_not_negative(builder: &GraphBuilder, node: NodeId, column: usize) -> bool {
    let node = builder.node(node);
    match &node.kind {
        ExecNodeKind::Exchange(_) => is_not_negative(builder, node.inputs[0], column),
        ExecNodeKind::Calc(calc) => {
            let expression = &calc.projection[column];
            let by_filter = || {
                let mut parts = calc.condition.iter().flat_map(conjuncts);
                parts.any(|part| bounds_below(&part, expression))
            };
            let below = |column| is_not_negative(builder, node.inputs[0], column);
            never_negative(expression, &below) || by_filter()
        }
        _ => false,
    }
}

fn never_negative(expression: &Expression, column: &dyn Fn(usize) -> bool) -> bool {
    match expression {
        Expression::Column { index, .. } => column(*index),
        Expression::Literal { value, .. } => match value {
            Literal::Null => true,
            Literal::Integer(value) => *value >= 0,
            _ => false,
        },
        _ => false,
    }
}

/// Whether the condition says that the expression is at least zero.
fn bounds_below(condition: &Expression, expression: &Expression) -> bool {
    let Expression::Call {
        function,
        arguments,
        ..
    } = condition
    else {
        return false;
    };
    let zero = |bound: &Expression| matches!(bound, Expression::Literal { value: Literal::Integer(value), logical_type } if *value >= 0 && logical_type.root.is_integer());
    match (function.as_str(), &arguments[..]) {
        (">" | ">=", [left, right]) => left == expression && zero(right),
        ("<" | "<=", [left, right]) => right == expression && zero(left),
        _ => false,
    }
}
