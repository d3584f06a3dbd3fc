//! CASE, COALESCE, IF, IFNULL, NULLIF, GREATEST and LEAST.

use arrow::array::{Array, ArrayRef, make_comparator};
use arrow::compute::SortOptions;

use crate::error::{Error, Result};
use crate::expr::{Arguments, Expression, Literal, plain};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::functions::registry::Rewrite;
use crate::functions::type_inference::common_type;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    // The compiler evaluates these two itself, because they leave branches unevaluated.
    ScalarFunction::new("CASE", bind_case, |_| Err(no_kernel())).lenient(),
    ScalarFunction::new("COALESCE", bind_coalesce, |_| Err(no_kernel())).lenient(),
    ScalarFunction::new("GREATEST", bind_extreme, |_| Ok(plain(greatest))),
    ScalarFunction::new("LEAST", bind_extreme, |_| Ok(plain(least))),
];

pub(super) const REWRITES: &[Rewrite] = &[
    Rewrite {
        name: "IF",
        rewrite: |binding| {
            binding.count(3..=3)?;
            binding.call("CASE", binding.arguments.clone())
        },
    },
    Rewrite {
        name: "IFNULL",
        rewrite: |binding| {
            binding.count(2..=2)?;
            binding.call("COALESCE", binding.arguments.clone())
        },
    },
    Rewrite {
        name: "NULLIF",
        rewrite: nullif,
    },
];

fn no_kernel() -> Error {
    Error::internal("CASE and COALESCE are evaluated by the compiler's own nodes")
}

/// `NULLIF(a, b)` is `CASE WHEN a = b THEN NULL ELSE a END`.
fn nullif(binding: Binding) -> Result<Expression> {
    binding.count(2..=2)?;
    let first = binding.arguments[0].clone();
    let equal = binding.call("=", binding.arguments.clone())?;
    let null = Expression::literal(Literal::Null, first.logical_type().with_nullable(true));
    binding.call("CASE", vec![equal, null, first])
}

/// Conditions are BOOLEAN, results get their common type. A missing ELSE is NULL.
fn bind_case(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=usize::MAX)?;
    if binding.arguments.len().is_multiple_of(2) {
        let null = LogicalType::nullable(TypeRoot::Null);
        binding
            .arguments
            .push(Expression::literal(Literal::Null, null));
    }
    let last = binding.arguments.len() - 1;
    let results: Vec<usize> = (0..last / 2)
        .map(|pair| 2 * pair + 1)
        .chain([last])
        .collect();
    for index in (0..last).step_by(2) {
        binding.boolean(index)?;
    }
    unify(binding, &results)
}

fn bind_coalesce(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=usize::MAX)?;
    let all: Vec<usize> = (0..binding.arguments.len()).collect();
    let result = unify(binding, &all)?;
    let nullable = binding
        .arguments
        .iter()
        .all(|argument| argument.logical_type().nullable);
    Ok(result.with_nullable(nullable))
}

/// Casts the arguments at `indices` to their common type.
fn unify(binding: &mut Binding, indices: &[usize]) -> Result<LogicalType> {
    let types: Vec<LogicalType> = indices
        .iter()
        .map(|index| binding.arguments[*index].logical_type().clone())
        .collect();
    let common = common_type(&types).ok_or_else(|| {
        let names: Vec<String> = types.iter().map(|one| one.root.to_string()).collect();
        Error::user(format!(
            "the results of {} have no common type: {}",
            binding.name,
            names.join(", ")
        ))
    })?;
    for index in indices {
        binding.cast(*index, &common.root);
    }
    let nullable = indices
        .iter()
        .any(|index| binding.arguments[*index].logical_type().nullable);
    Ok(common.with_nullable(common.nullable || nullable))
}

fn bind_extreme(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=usize::MAX)?;
    let all: Vec<usize> = (0..binding.arguments.len()).collect();
    let result = unify(binding, &all)?;
    match result.root {
        TypeRoot::Array(_) | TypeRoot::Map(_, _) | TypeRoot::Row(_) | TypeRoot::Multiset(_) => {
            Err(binding.wrong_argument(0, "values with an order"))
        }
        _ => Ok(result),
    }
}

fn greatest(arguments: &Arguments) -> Result<ArrayRef> {
    extreme(arguments, std::cmp::Ordering::Greater)
}

fn least(arguments: &Arguments) -> Result<ArrayRef> {
    extreme(arguments, std::cmp::Ordering::Less)
}

/// The value of each row that compares `wanted` with the others; NULL where one is NULL.
fn extreme(arguments: &Arguments, wanted: std::cmp::Ordering) -> Result<ArrayRef> {
    let mut best = arguments.expanded(0)?;
    for index in 1..arguments.len() {
        let next = arguments.expanded(index)?;
        let comparator = make_comparator(&next, &best, SortOptions::default())?;
        let choose: Vec<(usize, usize)> = (0..arguments.rows())
            .map(|row| {
                let takes_next =
                    next.is_null(row) || (!best.is_null(row) && comparator(row, row) == wanted);
                (usize::from(takes_next), row)
            })
            .collect();
        best = arrow::compute::interleave(&[&*best, &*next], &choose)?;
    }
    Ok(best)
}
