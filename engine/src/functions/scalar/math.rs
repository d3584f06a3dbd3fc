//! Mathematics on DOUBLE: POWER, SQRT, logarithms, trigonometry, constants.

use arrow::datatypes::Float64Type;

use crate::error::Result;
use crate::expr::{Call, Kernel};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("POWER", bind_two, |_| Ok(two(f64::powf))),
    ScalarFunction::new("SQRT", bind_one, |_| Ok(one(f64::sqrt))),
    ScalarFunction::new("LN", bind_one, |_| Ok(one(f64::ln))),
    ScalarFunction::new("LOG10", bind_one, |_| Ok(one(f64::log10))),
    ScalarFunction::new("LOG2", bind_one, |_| Ok(one(f64::log2))),
    ScalarFunction::new("LOG", bind_log, log),
    ScalarFunction::new("EXP", bind_one, |_| Ok(one(f64::exp))),
    ScalarFunction::new("SIN", bind_one, |_| Ok(one(f64::sin))),
    ScalarFunction::new("COS", bind_one, |_| Ok(one(f64::cos))),
    ScalarFunction::new("TAN", bind_one, |_| Ok(one(f64::tan))),
    ScalarFunction::new("COT", bind_one, |_| Ok(one(|x| 1.0 / x.tan()))),
    ScalarFunction::new("ASIN", bind_one, |_| Ok(one(f64::asin))),
    ScalarFunction::new("ACOS", bind_one, |_| Ok(one(f64::acos))),
    ScalarFunction::new("ATAN", bind_one, |_| Ok(one(f64::atan))),
    ScalarFunction::new("ATAN2", bind_two, |_| Ok(two(f64::atan2))),
    ScalarFunction::new("SINH", bind_one, |_| Ok(one(f64::sinh))),
    ScalarFunction::new("COSH", bind_one, |_| Ok(one(f64::cosh))),
    ScalarFunction::new("TANH", bind_one, |_| Ok(one(f64::tanh))),
    ScalarFunction::new("DEGREES", bind_one, |_| Ok(one(f64::to_degrees))),
    ScalarFunction::new("RADIANS", bind_one, |_| Ok(one(f64::to_radians))),
    ScalarFunction::new("PI", bind_none, |_| Ok(constant(std::f64::consts::PI))),
    ScalarFunction::new("E", bind_none, |_| Ok(constant(std::f64::consts::E))),
];

fn bind_none(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(0..=0)?;
    Ok(LogicalType::not_null(TypeRoot::Double))
}

fn bind_one(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=1)?;
    binding.double(0)?;
    Ok(binding.result(TypeRoot::Double))
}

fn bind_two(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=2)?;
    binding.double(0)?;
    binding.double(1)?;
    Ok(binding.result(TypeRoot::Double))
}

/// `LOG(x)` is the natural logarithm, `LOG(b, x)` that to base `b`.
fn bind_log(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=2)?;
    (0..binding.arguments.len()).try_for_each(|index| binding.double(index))?;
    Ok(binding.result(TypeRoot::Double))
}

fn log(call: &Call) -> Result<Kernel> {
    Ok(match call.arguments.len() {
        1 => one(f64::ln),
        _ => two(|base, x| x.ln() / base.ln()),
    })
}

fn constant(value: f64) -> Kernel {
    Box::new(move |arguments| Ok(arguments.map::<Float64Type>(|_| value)))
}

fn one(function: fn(f64) -> f64) -> Kernel {
    Box::new(move |arguments| {
        let values = arguments.primitives::<Float64Type>(0);
        Ok(arguments.map::<Float64Type>(|row| function(values.get(row))))
    })
}

fn two(function: fn(f64, f64) -> f64) -> Kernel {
    Box::new(move |arguments| {
        let left = arguments.primitives::<Float64Type>(0);
        let right = arguments.primitives::<Float64Type>(1);
        Ok(arguments.map::<Float64Type>(|row| function(left.get(row), right.get(row))))
    })
}
