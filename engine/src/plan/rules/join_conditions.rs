//! A join condition taken apart: equalities between the sides, which become keys, and the rest.

use crate::expr::Expression;
use crate::functions;
use crate::plan::row_logic::{
    bare_column, can_fail, conjunction, conjuncts, is_shareable, reindex,
};
use crate::types::LogicalType;

/// A join condition taken apart.
pub(crate) struct Conditions {
    /// Number of left columns.
    pub(crate) left_width: usize,
    /// The equalities between the sides.
    pub(crate) equalities: Vec<Equality>,
    /// Whatever else, over the left columns, then the right ones.
    pub(crate) others: Vec<Expression>,
}

/// `left = right`, each over its own side's columns.
#[derive(Debug, Clone)]
pub(crate) struct Equality {
    /// Over the left columns.
    pub(crate) left: Expression,
    /// Over the right columns, from 0.
    pub(crate) right: Expression,
    /// IS NOT DISTINCT FROM.
    pub(crate) null_safe: bool,
    /// The joined columns (the right one counted behind the left ones), where both sides are bare.
    pub(crate) columns: Option<(usize, usize)>,
}

impl Conditions {
    pub(crate) fn of(condition: &Expression, left_width: usize) -> Conditions {
        let mut conditions = Conditions {
            left_width,
            equalities: Vec::new(),
            others: Vec::new(),
        };
        for part in conjuncts(condition) {
            match equality(&part, left_width) {
                Some(equality) => conditions.equalities.push(equality),
                None => conditions.others.push(part),
            }
        }
        conditions
    }

    /// What is not an equality of the two sides.
    pub(crate) fn residual(&self) -> Option<Expression> {
        conjunction(self.others.clone())
    }
}

fn equality(part: &Expression, left_width: usize) -> Option<Equality> {
    let Expression::Call {
        function,
        arguments,
        ..
    } = part
    else {
        return None;
    };
    let null_safe = function == "IS NOT DISTINCT FROM";
    let [first, second] = &arguments[..] else {
        return None;
    };
    if !(null_safe || function == "=") || !is_key(first) || !is_key(second) {
        return None;
    }
    let on_left = |e: &Expression| e.columns().iter().all(|column| *column < left_width);
    let on_right = |e: &Expression| e.columns().iter().all(|column| *column >= left_width);
    let (left, right) = if on_left(first) && on_right(second) {
        (first, second)
    } else if on_right(first) && on_left(second) {
        (second, first)
    } else {
        return None;
    };
    let columns = bare_column(left).zip(bare_column(right));
    let (left, right) = of_one_type(left, right)?;
    Some(Equality {
        left,
        right: reindex(&right, &|column| column - left_width),
        null_safe,
        columns,
    })
}

/// Both as values of one type, so that equal values have equal hashes. `None` where no type holds the values of both.
fn of_one_type(left: &Expression, right: &Expression) -> Option<(Expression, Expression)> {
    let types = [left, right].map(|side| side.logical_type().clone());
    if types[0].root.to_arrow() == types[1].root.to_arrow() {
        return Some((left.clone(), right.clone()));
    }
    let common = functions::common_type(&types)?;
    let cast = |side: &Expression| {
        let nullable = side.logical_type().nullable;
        let cast = functions::implicit_cast(side.clone(), &common.with_nullable(nullable)).ok()?;
        // A cast that can make NULL of a value is none to compare with.
        (cast.logical_type().nullable == nullable && !may_lose_digits(side, &common))
            .then_some(cast)
    };
    Some((cast(left)?, cast(right)?))
}

/// Whether a DECIMAL may have more digits before its point than the type holds.
fn may_lose_digits(side: &Expression, to: &LogicalType) -> bool {
    let whole = |logical_type: &LogicalType| {
        let (precision, scale) = logical_type.root.as_decimal()?;
        Some(precision - scale)
    };
    whole(side.logical_type()) > whole(to)
}

/// Whether it may be computed for every row of its side.
fn is_key(expression: &Expression) -> bool {
    !expression.columns().is_empty()
        && (bare_column(expression).is_some()
            || (!can_fail(expression) && is_shareable(expression)))
}
