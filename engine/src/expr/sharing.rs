//! Common sub-expressions: what occurs more than once in an expression is computed once a batch.
//!
//! Sharing computes for all rows, so only what cannot fail is shared, and only where one occurrence is computed for all rows
//! anyway: not what stands behind AND, OR, CASE or COALESCE alone.

use super::{Expression, hidden};
use crate::functions::{can_fail, is_deterministic};

/// An expression whose shared parts are hidden columns, and the parts in the order of these columns.
pub(super) struct Shared {
    pub(super) expression: Expression,
    pub(super) parts: Vec<Expression>,
}

/// Finds the largest parts that several places have in common.
pub(super) fn share(expression: Expression, reads_time: bool) -> Shared {
    let mut seen = Vec::new();
    count(&expression, true, &mut seen);
    let candidates: Vec<Expression> = seen
        .into_iter()
        .filter(|part| part.times > 1 && part.is_unconditional && can_be_shared(part.expression))
        .map(|part| part.expression.clone())
        .collect();
    if candidates.is_empty() {
        return Shared {
            expression,
            parts: vec![],
        };
    }
    let mut used = Vec::new();
    collect(&expression, &candidates, &mut used);
    let parts: Vec<Expression> = candidates
        .into_iter()
        .filter(|part| used.iter().filter(|other| **other == part).count() > 1)
        .collect();
    let columns: Vec<Expression> = (0..parts.len())
        .map(|number| hidden::shared_column(number, parts.len(), reads_time, &parts[number]))
        .collect();
    Shared {
        expression: replace(expression, &parts, &columns),
        parts,
    }
}

fn can_be_shared(part: &Expression) -> bool {
    // A batch's hidden columns are appended once: a shared part reads only the batch's own.
    let reads_hidden = part
        .columns()
        .iter()
        .any(|index| hidden::from_end(*index).is_some());
    !reads_hidden && is_deterministic(part) && !can_fail(part)
}

struct Part<'a> {
    expression: &'a Expression,
    times: usize,
    is_unconditional: bool,
}

fn is_worth_sharing(expression: &Expression) -> bool {
    matches!(
        expression,
        Expression::Call { .. } | Expression::Cast { .. }
    ) && !expression.columns().is_empty()
}

fn count<'a>(expression: &'a Expression, is_unconditional: bool, seen: &mut Vec<Part<'a>>) {
    if is_worth_sharing(expression) {
        match seen.iter_mut().find(|part| part.expression == expression) {
            Some(part) => {
                part.times += 1;
                part.is_unconditional |= is_unconditional;
            }
            None => seen.push(Part {
                expression,
                times: 1,
                is_unconditional,
            }),
        }
    }
    let is_lazy = matches!(
        expression,
        Expression::Call { function, .. } if matches!(function.as_str(), "AND" | "OR" | "CASE" | "COALESCE")
    );
    for (index, child) in expression.children().into_iter().enumerate() {
        count(child, is_unconditional && (index == 0 || !is_lazy), seen);
    }
}

/// The candidates as they are met from the top, not looking inside them.
fn collect<'a>(
    expression: &'a Expression,
    candidates: &[Expression],
    used: &mut Vec<&'a Expression>,
) {
    if candidates.contains(expression) {
        used.push(expression);
        return;
    }
    for child in expression.children() {
        collect(child, candidates, used);
    }
}

fn replace(expression: Expression, parts: &[Expression], columns: &[Expression]) -> Expression {
    if let Some(number) = parts.iter().position(|part| *part == expression) {
        return columns[number].clone();
    }
    let replace_inside = |input: Expression| replace(input, parts, columns);
    match expression {
        Expression::Call {
            function,
            arguments,
            logical_type,
            position,
        } => Expression::Call {
            function,
            arguments: arguments.into_iter().map(replace_inside).collect(),
            logical_type,
            position,
        },
        Expression::Cast {
            input,
            logical_type,
            mode,
            position,
        } => Expression::Cast {
            input: Box::new(replace_inside(*input)),
            logical_type,
            mode,
            position,
        },
        Expression::FieldAccess {
            input,
            field,
            logical_type,
        } => Expression::FieldAccess {
            input: Box::new(replace_inside(*input)),
            field,
            logical_type,
        },
        leaf => leaf,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::testing::*;
    use crate::types::TypeRoot;

    #[test]
    fn repeated_parts_become_columns_unless_they_can_fail_or_stand_behind_a_condition() {
        let s = column(0, TypeRoot::STRING);
        let lower = call("LOWER", std::slice::from_ref(&s));
        let is = |word: &str| call("=", &[lower.clone(), text(word)]);
        let case = call("CASE", &[is("a"), int(1), is("b"), int(2), int(3)]);
        let shared = share(case, false);
        assert_eq!(shared.parts, [lower.clone()]);
        assert!(!shared.expression.calls("LOWER"));

        let number = cast(s.clone(), TypeRoot::Int);
        let failing = call("+", &[number.clone(), number]);
        assert!(share(failing, false).parts.is_empty());

        let behind = call("OR", &[call("IS NULL", &[s]), is("a"), is("b")]);
        assert!(share(behind, false).parts.is_empty());
    }
}
