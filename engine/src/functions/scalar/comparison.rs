//! Comparisons: `= <> < <= > >=`, IS [NOT] DISTINCT FROM, IN, BETWEEN.
//!
//! Columns compare with columns or constants by Arrow's kernels where those agree with SQL. They do not for FLOAT and
//! DOUBLE (Arrow orders NaN and tells -0.0 from 0.0; SQL follows IEEE), for DECIMALs of different scales and for timestamps
//! of different units: those have loops of their own.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, make_comparator};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::SortOptions;
use arrow::compute::kernels::cmp;
use arrow::datatypes::*;

use crate::error::{Error, Result};
use crate::expr::cast::ticks;
use crate::expr::{Arguments, Call, CastMode, Expression, Kernel, Position, Value, decimal};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::functions::registry::Rewrite;
use crate::functions::type_inference::common_root;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("=", bind_equality, |call| kernel(Comparison::Equal, call)),
    ScalarFunction::new("<>", bind_equality, |call| {
        kernel(Comparison::NotEqual, call)
    }),
    ScalarFunction::new("<", bind_order, |call| kernel(Comparison::Less, call)),
    ScalarFunction::new("<=", bind_order, |call| {
        kernel(Comparison::LessOrEqual, call)
    }),
    ScalarFunction::new(">", bind_order, |call| kernel(Comparison::Greater, call)),
    ScalarFunction::new(">=", bind_order, |call| {
        kernel(Comparison::GreaterOrEqual, call)
    }),
    ScalarFunction::new("IS DISTINCT FROM", bind_distinct, |call| {
        distinct(call, true)
    })
    .lenient(),
    ScalarFunction::new("IS NOT DISTINCT FROM", bind_distinct, |call| {
        distinct(call, false)
    })
    .lenient(),
    ScalarFunction::new("IN", bind_in, in_list).lenient(),
];

pub(super) const REWRITES: &[Rewrite] = &[
    Rewrite {
        name: "BETWEEN",
        rewrite: between,
    },
    Rewrite {
        name: "BETWEEN SYMMETRIC",
        rewrite: between_symmetric,
    },
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// `x BETWEEN low AND high` is `x >= low AND x <= high`.
fn between(binding: Binding) -> Result<Expression> {
    binding.count(3..=3)?;
    let [x, low, high] = <[Expression; 3]>::try_from(binding.arguments.clone())
        .expect("three arguments were counted");
    range(&binding, x, low, high)
}

fn between_symmetric(binding: Binding) -> Result<Expression> {
    binding.count(3..=3)?;
    let [x, low, high] = <[Expression; 3]>::try_from(binding.arguments.clone())
        .expect("three arguments were counted");
    let up = range(&binding, x.clone(), low.clone(), high.clone())?;
    let down = range(&binding, x, high, low)?;
    binding.call("OR", vec![up, down])
}

fn range(
    binding: &Binding,
    x: Expression,
    low: Expression,
    high: Expression,
) -> Result<Expression> {
    let above = binding.call(">=", vec![x.clone(), low])?;
    let below = binding.call("<=", vec![x, high])?;
    binding.call("AND", vec![above, below])
}

fn bind_equality(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=2)?;
    make_comparable(binding, 0, 1)?;
    Ok(binding.result(TypeRoot::Boolean))
}

fn bind_order(binding: &mut Binding) -> Result<LogicalType> {
    bind_equality(binding)?;
    if is_nested(binding.root(0)) {
        return Err(Error::user(format!(
            "values of type {} have no order, so {} cannot compare them",
            binding.root(0),
            binding.name
        )));
    }
    Ok(binding.result(TypeRoot::Boolean))
}

fn bind_distinct(binding: &mut Binding) -> Result<LogicalType> {
    bind_equality(binding)?;
    Ok(LogicalType::not_null(TypeRoot::Boolean))
}

fn is_nested(root: &TypeRoot) -> bool {
    matches!(
        root,
        TypeRoot::Array(_) | TypeRoot::Map(_, _) | TypeRoot::Multiset(_) | TypeRoot::Row(_)
    )
}

fn is_time_point(root: &TypeRoot) -> bool {
    root.is_timestamp() || matches!(root, TypeRoot::Date | TypeRoot::Time(_))
}

/// Casts two arguments to what the comparison kernels take.
pub(super) fn make_comparable(binding: &mut Binding, left: usize, right: usize) -> Result<()> {
    use TypeRoot::*;
    let (l, r) = (binding.root(left).clone(), binding.root(right).clone());
    match (&l, &r) {
        (Null, Null) => {
            binding.cast(left, &Boolean);
            binding.cast(right, &Boolean);
        }
        (Null, _) => binding.cast(left, &r),
        (_, Null) => binding.cast(right, &l),
        (l, r) if l == r => {}
        (l, r) if l.is_numeric() && r.is_numeric() => make_numbers_comparable(binding, left, right),
        (l, r) if (l.is_string() && r.is_string()) || (l.is_binary() && r.is_binary()) => {}
        (l, r) if is_time_point(l) && r.is_string() => try_cast(binding, right, l),
        (l, r) if l.is_string() && is_time_point(r) => try_cast(binding, left, r),
        (Timestamp(_), Timestamp(_)) | (TimestampLtz(_), TimestampLtz(_)) | (Time(_), Time(_)) => {}
        (Date, Timestamp(_) | TimestampLtz(_)) | (Timestamp(_) | TimestampLtz(_), Date) => {
            return Err(incomparable(&l, &r).hint("write CAST(… AS TIMESTAMP) around the DATE"));
        }
        (l, r) => match common_root(l, r) {
            Some(common) => {
                binding.cast(left, &common);
                binding.cast(right, &common);
            }
            None => return Err(incomparable(l, r)),
        },
    }
    Ok(())
}

fn incomparable(left: &TypeRoot, right: &TypeRoot) -> Error {
    let error = Error::user(format!("{left} and {right} cannot be compared"));
    if left.is_numeric() && right.is_string() {
        error.hint(format!("write CAST(… AS {left}) around the text"))
    } else if left.is_string() && right.is_numeric() {
        error.hint(format!("write CAST(… AS {right}) around the text"))
    } else {
        error
    }
}

/// Text that is no time makes the comparison unknown.
fn try_cast(binding: &mut Binding, index: usize, to: &TypeRoot) {
    let input = binding.arguments[index].clone();
    binding.arguments[index] = Expression::Cast {
        input: Box::new(input),
        logical_type: LogicalType::nullable(to.clone()),
        mode: CastMode::Null,
        position: Position(binding.position),
    };
}

fn make_numbers_comparable(binding: &mut Binding, left: usize, right: usize) {
    let (l, r) = (binding.root(left).clone(), binding.root(right).clone());
    let is_exact = |root: &TypeRoot| !root.is_approximate();
    if is_exact(&l) && is_exact(&r) && !(l.is_integer() && r.is_integer()) {
        // DECIMALs of different scales are compared as they are; an integer becomes the DECIMAL that holds it.
        for (index, root) in [(left, l), (right, r)] {
            if root.is_integer() {
                let (precision, scale) = root.as_decimal().expect("integers are decimals");
                binding.cast(index, &TypeRoot::Decimal { precision, scale });
            }
        }
        return;
    }
    let common = common_root(&l, &r).expect("numbers have a common type");
    binding.cast(left, &common);
    binding.cast(right, &common);
}

fn kernel(comparison: Comparison, call: &Call) -> Result<Kernel> {
    let (left, right) = (call.argument_type(0), call.argument_type(1));
    Ok(match comparator(&left.root, &right.root) {
        Comparator::Arrow => Box::new(move |arguments| {
            let (left, right) = (arguments.value(0), arguments.value(1));
            Ok(Arc::new(arrow_compare(comparison, left, right)?))
        }),
        Comparator::Float => Box::new(move |arguments| {
            let left = arguments.primitives::<Float32Type>(0);
            let right = arguments.primitives::<Float32Type>(1);
            Ok(compare(
                comparison,
                arguments,
                |row| left.get(row),
                |row| right.get(row),
            ))
        }),
        Comparator::Double => Box::new(move |arguments| {
            let left = arguments.primitives::<Float64Type>(0);
            let right = arguments.primitives::<Float64Type>(1);
            Ok(compare(
                comparison,
                arguments,
                |row| left.get(row),
                |row| right.get(row),
            ))
        }),
        Comparator::Decimal(s1, s2) => {
            Box::new(move |arguments| Ok(compare_decimals(comparison, arguments, s1, s2)))
        }
        Comparator::Ticks(f1, f2) => Box::new(move |arguments| {
            let (left, right) = (arguments.value(0), arguments.value(1));
            let (l, r) = (ticks(&left.array), ticks(&right.array));
            Ok(compare(
                comparison,
                arguments,
                |row| l[left.index(row)].saturating_mul(f1),
                |row| r[right.index(row)].saturating_mul(f2),
            ))
        }),
        Comparator::Nested => Box::new(move |arguments| compare_nested(comparison, arguments)),
    })
}

/// How two types are compared.
enum Comparator {
    Arrow,
    Float,
    Double,
    /// The scales.
    Decimal(u8, u8),
    /// Factors to a common unit.
    Ticks(i64, i64),
    Nested,
}

fn comparator(left: &TypeRoot, right: &TypeRoot) -> Comparator {
    match (left, right) {
        (TypeRoot::Float, _) => Comparator::Float,
        (TypeRoot::Double, _) => Comparator::Double,
        (TypeRoot::Decimal { scale: s1, .. }, TypeRoot::Decimal { scale: s2, .. }) => {
            Comparator::Decimal(*s1, *s2)
        }
        (TypeRoot::Timestamp(p1), TypeRoot::Timestamp(p2))
        | (TypeRoot::TimestampLtz(p1), TypeRoot::TimestampLtz(p2))
            if TypeRoot::time_unit(*p1) != TypeRoot::time_unit(*p2) =>
        {
            use crate::expr::calendar::units_per_milli;
            let finest = units_per_milli(*p1).max(units_per_milli(*p2));
            Comparator::Ticks(finest / units_per_milli(*p1), finest / units_per_milli(*p2))
        }
        (left, _) if is_nested(left) => Comparator::Nested,
        _ => Comparator::Arrow,
    }
}

fn arrow_compare(comparison: Comparison, left: &Value, right: &Value) -> Result<BooleanArray> {
    Ok(match comparison {
        Comparison::Equal => cmp::eq(left, right)?,
        Comparison::NotEqual => cmp::neq(left, right)?,
        Comparison::Less => cmp::lt(left, right)?,
        Comparison::LessOrEqual => cmp::lt_eq(left, right)?,
        Comparison::Greater => cmp::gt(left, right)?,
        Comparison::GreaterOrEqual => cmp::gt_eq(left, right)?,
    })
}

#[inline]
fn compare<T: PartialOrd>(
    comparison: Comparison,
    arguments: &Arguments,
    left: impl Fn(usize) -> T,
    right: impl Fn(usize) -> T,
) -> ArrayRef {
    match comparison {
        Comparison::Equal => arguments.map_booleans(|row| left(row) == right(row)),
        Comparison::NotEqual => arguments.map_booleans(|row| left(row) != right(row)),
        Comparison::Less => arguments.map_booleans(|row| left(row) < right(row)),
        Comparison::LessOrEqual => arguments.map_booleans(|row| left(row) <= right(row)),
        Comparison::Greater => arguments.map_booleans(|row| left(row) > right(row)),
        Comparison::GreaterOrEqual => arguments.map_booleans(|row| left(row) >= right(row)),
    }
}

fn compare_decimals(comparison: Comparison, arguments: &Arguments, s1: u8, s2: u8) -> ArrayRef {
    let left = arguments.primitives::<Decimal128Type>(0);
    let right = arguments.primitives::<Decimal128Type>(1);
    // A constant of fewer digits behind the point gets those of the column.
    let (l, r) = (arguments.value(0), arguments.value(1));
    if r.is_scalar
        && s1 > s2
        && let Some(constant) = decimal::scale_up(right.get(0), s1 - s2)
    {
        return compare(comparison, arguments, |row| left.get(row), |_| constant);
    }
    if l.is_scalar
        && s2 > s1
        && let Some(constant) = decimal::scale_up(left.get(0), s2 - s1)
    {
        return compare(comparison, arguments, |_| constant, |row| right.get(row));
    }
    if s1 == s2 {
        return compare(
            comparison,
            arguments,
            |row| left.get(row),
            |row| right.get(row),
        );
    }
    compare(
        comparison,
        arguments,
        |row| decimal::compare(left.get(row), s1, right.get(row), s2),
        |_| Ordering::Equal,
    )
}

fn compare_nested(comparison: Comparison, arguments: &Arguments) -> Result<ArrayRef> {
    let (left, right) = (arguments.value(0), arguments.value(1));
    let comparator = make_comparator(&left.array, &right.array, SortOptions::default())?;
    Ok(compare(
        comparison,
        arguments,
        |row| comparator(left.index(row), right.index(row)),
        |_| Ordering::Equal,
    ))
}

/// NULL is not distinct from NULL, and distinct from everything else.
fn distinct(call: &Call, wants_distinct: bool) -> Result<Kernel> {
    let equal = kernel(Comparison::Equal, call)?;
    Ok(Box::new(move |arguments| {
        let equal = equal(arguments)?;
        let equal = equal.as_boolean();
        let (left, right) = (arguments.value(0), arguments.value(1));
        let bits = BooleanBuffer::collect_bool(arguments.rows(), |row| {
            let same = if equal.is_valid(row) {
                equal.value(row)
            } else {
                left.is_null(row) && right.is_null(row)
            };
            same != wants_distinct
        });
        Ok(Arc::new(BooleanArray::new(bits, None)))
    }))
}

fn bind_in(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=usize::MAX)?;
    let mut common = binding.root(0).clone();
    for index in 1..binding.arguments.len() {
        let root = binding.root(index).clone();
        if is_time_point(&common) && root.is_string() {
            try_cast(binding, index, &common);
            continue;
        }
        common = common_root(&common, &root).ok_or_else(|| incomparable(&common, &root))?;
    }
    if common == TypeRoot::Null {
        common = TypeRoot::Boolean;
    }
    for index in 0..binding.arguments.len() {
        binding.cast(index, &common);
    }
    Ok(binding.result(TypeRoot::Boolean))
}

/// TRUE where a value of the list is equal; else NULL where x or a value is NULL; else FALSE.
fn in_list(call: &Call) -> Result<Kernel> {
    let root = call.argument_type(0).root.clone();
    let is_constant = call.arguments[1..]
        .iter()
        .all(|value| matches!(value, Expression::Literal { .. }));
    if is_constant && root.is_string() {
        return Ok(text_set(call));
    }
    // IN compares pairs: the kernel of `=` is asked for x and each value.
    let pair = Call {
        arguments: &[call.arguments[0].clone(), call.arguments[0].clone()],
        logical_type: call.logical_type,
        context: call.context,
    };
    let equal = kernel(Comparison::Equal, &pair)?;
    Ok(Box::new(move |arguments| {
        let mut found: Option<BooleanArray> = None;
        for index in 1..arguments.len() {
            let pair = [arguments.value(0).clone(), arguments.value(index).clone()];
            let is_scalar = pair.iter().all(|value| value.is_scalar);
            let rows = if is_scalar { 1 } else { arguments.rows() };
            let pair = Arguments::new(&pair, rows, arguments.logical_type());
            let hits = Value {
                array: equal(&pair)?,
                is_scalar,
            };
            let hits = crate::expr::expand(&hits, arguments.rows())?;
            let hits = hits.as_boolean();
            found = Some(match found {
                None => hits.clone(),
                Some(found) => arrow::compute::or_kleene(&found, hits)?,
            });
        }
        Ok(Arc::new(found.expect("the list has a value")))
    }))
}

/// The list as a sorted set of texts.
fn text_set(call: &Call) -> Kernel {
    let texts = (1..call.arguments.len()).map(|index| call.text(index).map(str::to_string));
    let has_null = texts.clone().any(|text| text.is_none());
    let set: hashbrown::HashSet<String, SetHasher> = texts.flatten().collect();
    Box::new(move |arguments| {
        let strings = arguments.strings(0);
        let x = arguments.value(0);
        let bits =
            BooleanBuffer::collect_bool(arguments.rows(), |row| set.contains(strings.get(row)));
        let valid = BooleanBuffer::collect_bool(arguments.rows(), |row| {
            !x.is_null(row) && (bits.value(row) || !has_null)
        });
        Ok(Arc::new(BooleanArray::new(
            bits,
            Some(NullBuffer::new(valid)),
        )))
    })
}

type SetHasher = std::hash::BuildHasherDefault<xxhash_rust::xxh3::Xxh3Default>;
