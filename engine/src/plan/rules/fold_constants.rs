//! Takes out what is already decided: AND and OR with a constant on the left or a neutral one on either side, filters that
//! are TRUE, and casts of whole numbers to wider types.

use crate::expr::{Expression, Literal};
use crate::plan::logical::{Filter, LogicalPlan};
use crate::types::TypeRoot;

/// Folds the expressions of one node; a filter that is TRUE goes.
pub(super) fn fold(plan: LogicalPlan) -> LogicalPlan {
    match plan.map_expressions(&mut |expression| expression.transform(&mut fold_part)) {
        LogicalPlan::Filter(Filter { input, condition }) if boolean(&condition) == Some(true) => {
            *input
        }
        other => other,
    }
}

fn fold_part(part: Expression) -> Expression {
    match part {
        Expression::Call {
            function,
            arguments,
            logical_type,
            position,
        } if matches!(function.as_str(), "AND" | "OR") => {
            let decisive = function == "OR";
            match fold_logic(arguments, decisive) {
                Ok(decided) => decided,
                Err(arguments) => Expression::Call {
                    function,
                    arguments,
                    logical_type,
                    position,
                },
            }
        }
        Expression::Cast {
            ref input,
            ref logical_type,
            ..
        } => match widened(input, &logical_type.root) {
            Some(value) => Expression::literal(
                Literal::Integer(value),
                logical_type.with_nullable(input.logical_type().nullable),
            ),
            None => part,
        },
        other => other,
    }
}

/// `decisive` is the value which decides the whole: TRUE for OR, FALSE for AND. What stands before a deciding constant
/// may fail and stays.
fn fold_logic(arguments: Vec<Expression>, decisive: bool) -> Result<Expression, Vec<Expression>> {
    let mut open: Vec<Expression> = arguments
        .into_iter()
        .filter(|argument| boolean(argument) != Some(!decisive))
        .collect();
    match open.first().and_then(boolean) {
        Some(_) => Ok(open.swap_remove(0)),
        None if open.len() == 1 => Ok(open.remove(0)),
        None if open.is_empty() => Ok(constant(!decisive)),
        None => Err(open),
    }
}

fn constant(value: bool) -> Expression {
    match value {
        true => Expression::always_true(),
        false => Expression::literal(
            Literal::Boolean(false),
            crate::types::LogicalType::BOOLEAN.with_nullable(false),
        ),
    }
}

fn boolean(expression: &Expression) -> Option<bool> {
    match expression {
        Expression::Literal {
            value: Literal::Boolean(value),
            ..
        } => Some(*value),
        _ => None,
    }
}

/// The value of a whole-number literal as a type that holds all values of the literal's type.
fn widened(input: &Expression, to: &TypeRoot) -> Option<i64> {
    let Expression::Literal {
        value: Literal::Integer(value),
        logical_type,
    } = input
    else {
        return None;
    };
    let digits = |root: &TypeRoot| root.as_decimal().map(|(precision, _)| precision);
    let widens = to.is_integer()
        && logical_type.root.is_integer()
        && digits(&logical_type.root) <= digits(to);
    widens.then_some(*value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::LogicalType;

    fn and(left: Expression, right: Expression) -> Expression {
        Expression::call("AND", vec![left, right], LogicalType::BOOLEAN).transform(&mut fold_part)
    }

    #[test]
    fn a_neutral_constant_goes_and_a_deciding_one_decides_only_what_follows() {
        let column = Expression::column(0, "b", LogicalType::BOOLEAN);
        assert_eq!(and(constant(true), column.clone()), column);
        assert_eq!(and(column.clone(), constant(true)), column);
        assert_eq!(and(constant(false), column.clone()), constant(false));
        assert_eq!(
            and(column.clone(), constant(false)).to_string(),
            "(b AND FALSE)"
        );
    }

    #[test]
    fn a_whole_number_is_widened_but_never_narrowed() {
        let three = Expression::literal(Literal::Integer(3), LogicalType::INT.with_nullable(false));
        let wide = Expression::cast(three.clone(), LogicalType::BIGINT).transform(&mut fold_part);
        assert_eq!(wide.to_string(), "3");
        assert_eq!(
            wide.logical_type(),
            &LogicalType::BIGINT.with_nullable(false)
        );
        let narrow = Expression::cast(three, LogicalType::nullable(TypeRoot::TinyInt));
        assert_eq!(narrow.clone().transform(&mut fold_part), narrow);
    }
}
