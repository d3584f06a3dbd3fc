//! What the planner must know about an expression before it moves, copies or shares it.

use crate::expr::{Expression, Literal};
pub(crate) use crate::functions::can_fail;
use crate::functions::{is_deterministic, is_random};
use crate::types::LogicalType;

/// Functions that read the clock or the watermark: the same within a row, so they may be shared and moved with the row.
const TIME_FUNCTIONS: &[&str] = &[
    "PROCTIME",
    "NOW",
    "CURRENT_TIMESTAMP",
    "CURRENT_ROW_TIMESTAMP",
    "LOCALTIMESTAMP",
    "LOCALTIME",
    "CURRENT_DATE",
    "CURRENT_TIME",
    "CURRENT_WATERMARK",
    "UNIX_TIMESTAMP",
];

/// Functions that cost about as much as reading a column.
const CHEAP_FUNCTIONS: &[&str] = &[
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "+",
    "-",
    "*",
    "AND",
    "OR",
    "NOT",
    "IS NULL",
    "IS NOT NULL",
    "IS TRUE",
    "IS FALSE",
];

/// Whether two evaluations on the same row may be made one: no chance is involved. Functions of time count as equal,
/// since they read the same instant.
pub(crate) fn is_shareable(expression: &Expression) -> bool {
    let by_itself = match expression {
        Expression::Call { function, .. } if TIME_FUNCTIONS.contains(&function.as_str()) => true,
        Expression::Call { function, .. } if is_random(function) => false,
        Expression::Call { .. } => is_deterministic(&without_arguments(expression)),
        _ => true,
    };
    by_itself && expression.children().into_iter().all(is_shareable)
}

/// The call itself: its arguments replaced by constants, of which nothing depends.
fn without_arguments(call: &Expression) -> Expression {
    let mut call = call.clone();
    if let Expression::Call { arguments, .. } = &mut call {
        arguments.fill(Expression::always_true());
    }
    call
}

/// Whether it may be evaluated at another place of the plan: earlier, on more rows, or more often.
pub(crate) fn is_movable(expression: &Expression) -> bool {
    is_deterministic(expression) && !can_fail(expression)
}

/// Whether evaluating it a second time costs less than carrying its column along.
pub(crate) fn is_cheap(expression: &Expression) -> bool {
    let mut work = 0;
    let mut cheap = true;
    expression.walk(&mut |part| match part {
        Expression::Call { function, .. } => {
            work += 1;
            cheap &= CHEAP_FUNCTIONS.contains(&function.as_str());
        }
        Expression::Cast {
            input,
            logical_type,
            ..
        } => {
            work += 1;
            cheap &= input.logical_type().root.is_numeric() && logical_type.root.is_numeric();
        }
        _ => {}
    });
    cheap && work <= 2
}

/// The parts of a conjunction, in their order; none for TRUE.
pub(crate) fn conjuncts(condition: &Expression) -> Vec<Expression> {
    match condition {
        Expression::Call {
            function,
            arguments,
            ..
        } if function == "AND" => arguments.iter().flat_map(conjuncts).collect(),
        Expression::Literal {
            value: Literal::Boolean(true),
            ..
        } => vec![],
        other => vec![other.clone()],
    }
}

/// The conjunction of parts, evaluated from left to right; `None` without parts.
pub(crate) fn conjunction(parts: impl IntoIterator<Item = Expression>) -> Option<Expression> {
    parts.into_iter().reduce(|left, right| {
        let nullable = left.logical_type().nullable || right.logical_type().nullable;
        Expression::call(
            "AND",
            vec![left, right],
            LogicalType::BOOLEAN.with_nullable(nullable),
        )
    })
}

/// The index of a bare column.
pub(crate) fn bare_column(expression: &Expression) -> Option<usize> {
    match expression {
        Expression::Column { index, .. } => Some(*index),
        _ => None,
    }
}

/// The same expression over other columns: column `i` becomes `columns(i)`.
pub(crate) fn substitute(
    expression: &Expression,
    columns: &dyn Fn(usize) -> Expression,
) -> Expression {
    expression.clone().transform(&mut |part| match part {
        Expression::Column { index, .. } => columns(index),
        other => other,
    })
}

/// The same expression with its columns at other positions.
pub(crate) fn reindex(expression: &Expression, position: &dyn Fn(usize) -> usize) -> Expression {
    expression.clone().transform(&mut |part| match part {
        Expression::Column {
            index,
            name,
            logical_type,
        } => Expression::Column {
            index: position(index),
            name,
            logical_type,
        },
        other => other,
    })
}

/// How often column `column` occurs.
pub(crate) fn occurrences(expression: &Expression, column: usize) -> usize {
    let mut count = 0;
    expression.walk(&mut |part| {
        count += usize::from(matches!(part, Expression::Column { index, .. } if *index == column));
    });
    count
}
