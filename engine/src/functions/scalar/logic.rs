//! AND, OR, NOT and the IS tests.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;

use crate::error::{Error, Result};
use crate::expr::{Arguments, plain};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    // The compiler evaluates these two itself, because they may leave their right side unevaluated.
    ScalarFunction::new("AND", bind_conditions, |_| Err(no_kernel())),
    ScalarFunction::new("OR", bind_conditions, |_| Err(no_kernel())),
    ScalarFunction::new("NOT", bind_condition, |_| Ok(plain(not))),
    ScalarFunction::new("IS NULL", bind_null_test, |_| Ok(plain(is_null))).lenient(),
    ScalarFunction::new("IS NOT NULL", bind_null_test, |_| Ok(plain(is_not_null))).lenient(),
    ScalarFunction::new("IS TRUE", bind_truth_test, |_| {
        Ok(plain(|arguments| {
            truth_test(arguments, |value| value == Some(true))
        }))
    })
    .lenient(),
    ScalarFunction::new("IS NOT TRUE", bind_truth_test, |_| {
        Ok(plain(|arguments| {
            truth_test(arguments, |value| value != Some(true))
        }))
    })
    .lenient(),
    ScalarFunction::new("IS FALSE", bind_truth_test, |_| {
        Ok(plain(|arguments| {
            truth_test(arguments, |value| value == Some(false))
        }))
    })
    .lenient(),
    ScalarFunction::new("IS NOT FALSE", bind_truth_test, |_| {
        Ok(plain(|arguments| {
            truth_test(arguments, |value| value != Some(false))
        }))
    })
    .lenient(),
    ScalarFunction::new("IS UNKNOWN", bind_truth_test, |_| Ok(plain(is_null))).lenient(),
    ScalarFunction::new("IS NOT UNKNOWN", bind_truth_test, |_| {
        Ok(plain(is_not_null))
    })
    .lenient(),
];

fn no_kernel() -> Error {
    Error::internal("AND, OR, CASE and COALESCE are evaluated by the compiler's own nodes")
}

fn bind_conditions(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=usize::MAX)?;
    (0..binding.arguments.len()).try_for_each(|index| binding.boolean(index))?;
    Ok(binding.result(TypeRoot::Boolean))
}

fn bind_condition(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=1)?;
    binding.boolean(0)?;
    Ok(binding.result(TypeRoot::Boolean))
}

fn bind_null_test(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=1)?;
    Ok(LogicalType::not_null(TypeRoot::Boolean))
}

fn bind_truth_test(binding: &mut Binding) -> Result<LogicalType> {
    bind_condition(binding)?;
    Ok(LogicalType::not_null(TypeRoot::Boolean))
}

fn not(arguments: &Arguments) -> Result<ArrayRef> {
    Ok(Arc::new(arrow::compute::not(&arguments.booleans(0))?))
}

fn is_null(arguments: &Arguments) -> Result<ArrayRef> {
    let value = arguments.value(0);
    let array = arrow::compute::is_null(&value.array)?;
    Ok(repeat(array, value.is_scalar, arguments.rows()))
}

fn is_not_null(arguments: &Arguments) -> Result<ArrayRef> {
    let value = arguments.value(0);
    let array = arrow::compute::is_not_null(&value.array)?;
    Ok(repeat(array, value.is_scalar, arguments.rows()))
}

fn repeat(array: BooleanArray, is_scalar: bool, rows: usize) -> ArrayRef {
    if !is_scalar {
        return Arc::new(array);
    }
    let value = array.value(0);
    let bits = BooleanBuffer::collect_bool(rows, |_| value);
    Arc::new(BooleanArray::new(bits, None))
}

fn truth_test(arguments: &Arguments, test: fn(Option<bool>) -> bool) -> Result<ArrayRef> {
    let values = arguments.booleans(0);
    let bits = BooleanBuffer::collect_bool(arguments.rows(), |row| {
        test(values.is_valid(row).then(|| values.value(row)))
    });
    Ok(Arc::new(BooleanArray::new(bits, None)))
}
