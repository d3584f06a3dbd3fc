//! `+ - * / %` and the minus sign: integers wrap as in Java, DOUBLE follows IEEE, DECIMAL rounds half up and is NULL where
//! it overflows. Division of integers and DECIMALs by zero fails.

use arrow::array::{ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray};
use arrow::datatypes::*;

use super::interval;
use crate::error::{Error, Result};
use crate::expr::{Arguments, Call, Expression, Kernel, Literal, decimal};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::functions::type_inference::arithmetic_type;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("+", bind_sum, |call| kernel(Sign::Plus, call)).failing(fails_on_time),
    ScalarFunction::new("-", bind_sum, |call| kernel(Sign::Minus, call)).failing(fails_on_time),
    ScalarFunction::new("*", bind_product, |call| kernel(Sign::Times, call)),
    ScalarFunction::new("/", bind_numbers, |call| kernel(Sign::Divide, call))
        .failing(divides_by_zero),
    ScalarFunction::new("%", bind_remainder, |call| kernel(Sign::Remainder, call))
        .failing(divides_by_zero),
    ScalarFunction::new("NEGATE", bind_negate, negate),
    ScalarFunction::new("ABS", bind_abs, abs),
    ScalarFunction::new("SIGN", bind_abs, sign),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Plus,
    Minus,
    Times,
    Divide,
    Remainder,
}

fn fails_on_time(arguments: &[Expression]) -> bool {
    arguments
        .iter()
        .any(|argument| argument.logical_type().root.is_timestamp())
}

/// Whether the divisor may be an exact 0.
fn divides_by_zero(arguments: &[Expression]) -> bool {
    if arguments[0].logical_type().root.is_approximate() {
        return false;
    }
    match &arguments[1] {
        Expression::Literal { value, .. } => match value {
            Literal::Integer(value) => *value == 0,
            Literal::Decimal(digits) => digits.bytes().all(|byte| byte == b'0'),
            _ => false,
        },
        // The binder casts a literal to the type of the result.
        Expression::Cast { input, .. } => match &**input {
            Expression::Literal { .. } => {
                divides_by_zero(&[arguments[0].clone(), (**input).clone()])
            }
            _ => true,
        },
        _ => true,
    }
}

fn bind_sum(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=2)?;
    match interval::bind_sum(binding)? {
        Some(result) => Ok(result),
        None => bind_numbers(binding),
    }
}

fn bind_product(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=2)?;
    match interval::bind_product(binding)? {
        Some(result) => Ok(result),
        None => bind_numbers(binding),
    }
}

fn bind_remainder(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=2)?;
    for index in 0..2 {
        if binding.root(index).is_approximate() {
            return Err(binding.wrong_argument(index, "a whole number or DECIMAL"));
        }
    }
    bind_numbers(binding)
}

/// Two numbers: operands of a DECIMAL result become DECIMALs of their own scale, others the type of the result.
fn bind_numbers(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=2)?;
    for index in 0..2 {
        match binding.root(index) {
            TypeRoot::Null => {
                let other = binding.root(1 - index).clone();
                let other = if other.is_numeric() {
                    other
                } else {
                    TypeRoot::Int
                };
                binding.cast(index, &other);
            }
            root if root.is_numeric() => {}
            _ => {
                let (left, right) = (binding.root(0), binding.root(1));
                return Err(Error::user(format!(
                    "{} takes two numbers, not {left} and {right}",
                    binding.name
                )));
            }
        }
    }
    let (left, right) = (binding.root(0).clone(), binding.root(1).clone());
    let root = arithmetic_type(binding.name, &left, &right);
    for (index, operand) in [(0, left), (1, right)] {
        match (&root, operand.as_decimal()) {
            (TypeRoot::Decimal { .. }, Some((precision, scale))) => {
                binding.cast(index, &TypeRoot::Decimal { precision, scale });
            }
            // `BIGINT % INT` is an INT, but computed with 64 bits.
            _ if binding.name == "%" => binding.cast(index, &TypeRoot::BigInt),
            _ => binding.cast(index, &root),
        }
    }
    let nullable = matches!(root, TypeRoot::Decimal { .. }) || binding.any_nullable();
    Ok(LogicalType { root, nullable })
}

fn kernel(sign: Sign, call: &Call) -> Result<Kernel> {
    if let Some(kernel) = interval::kernel(sign == Sign::Plus, sign == Sign::Times, call) {
        return Ok(kernel);
    }
    Ok(match &call.logical_type.root {
        _ if sign == Sign::Remainder && call.logical_type.root.is_integer() => {
            Box::new(remainder_of_integers)
        }
        TypeRoot::TinyInt => integers::<Int8Type>(sign),
        TypeRoot::SmallInt => integers::<Int16Type>(sign),
        TypeRoot::Int => integers::<Int32Type>(sign),
        TypeRoot::BigInt => integers::<Int64Type>(sign),
        TypeRoot::Float => floats::<Float32Type>(sign),
        TypeRoot::Double => floats::<Float64Type>(sign),
        TypeRoot::Decimal { precision, scale } => decimals(sign, call, *precision, *scale)?,
        other => {
            return Err(Error::internal(format!(
                "arithmetic has no result of type {other}"
            )));
        }
    })
}

fn division_by_zero() -> Error {
    Error::data("division by zero").hint("guard it: CASE WHEN b <> 0 THEN a / b END")
}

fn integers<T: ArrowPrimitiveType>(sign: Sign) -> Kernel {
    match sign {
        Sign::Plus => binary::<T>(|a, b| a.add_wrapping(b)),
        Sign::Minus => binary::<T>(|a, b| a.sub_wrapping(b)),
        Sign::Times => binary::<T>(|a, b| a.mul_wrapping(b)),
        Sign::Divide => divide_or_fail::<T>(|a, b| a.div_wrapping(b)),
        Sign::Remainder => divide_or_fail::<T>(|a, b| a.mod_wrapping(b)),
    }
}

fn floats<T: ArrowPrimitiveType>(sign: Sign) -> Kernel {
    match sign {
        Sign::Plus => binary::<T>(|a, b| a.add_wrapping(b)),
        Sign::Minus => binary::<T>(|a, b| a.sub_wrapping(b)),
        Sign::Times => binary::<T>(|a, b| a.mul_wrapping(b)),
        Sign::Divide => binary::<T>(|a, b| a.div_wrapping(b)),
        Sign::Remainder => binary::<T>(|a, b| a.mod_wrapping(b)),
    }
}

/// A loop for each shape of the arguments, so that each is vectorised.
fn binary<T: ArrowPrimitiveType>(
    operation: impl Fn(T::Native, T::Native) -> T::Native + Copy + Send + Sync + 'static,
) -> Kernel {
    Box::new(move |arguments| {
        let (left, right) = (arguments.value(0), arguments.value(1));
        let l = left.array.as_primitive::<T>();
        let r = right.array.as_primitive::<T>();
        let result: ArrayRef = match (left.is_scalar, right.is_scalar) {
            (false, true) => {
                let b = r.value(0);
                std::sync::Arc::new(l.unary::<_, T>(|a| operation(a, b)))
            }
            (true, false) => {
                let a = l.value(0);
                std::sync::Arc::new(r.unary::<_, T>(|b| operation(a, b)))
            }
            _ => std::sync::Arc::new(arrow::compute::binary::<_, _, _, T>(l, r, operation)?),
        };
        Ok(result)
    })
}

fn divide_or_fail<T: ArrowPrimitiveType>(
    operation: impl Fn(T::Native, T::Native) -> T::Native + Copy + Send + Sync + 'static,
) -> Kernel {
    let fast = binary::<T>(operation);
    Box::new(move |arguments| {
        let right = arguments.value(1);
        if right.is_scalar && right.array.as_primitive::<T>().value(0) != T::Native::ZERO {
            return fast(arguments);
        }
        let left = arguments.primitives::<T>(0);
        let right = arguments.primitives::<T>(1);
        arguments.try_map::<T>(|row| {
            let divisor = right.get(row);
            if divisor == T::Native::ZERO {
                return Err(division_by_zero());
            }
            Ok(operation(left.get(row), divisor))
        })
    })
}

/// The operands are BIGINTs, the result has the type of the divisor, which always holds it.
fn remainder_of_integers(arguments: &Arguments) -> Result<ArrayRef> {
    fn of<T: ArrowPrimitiveType>(
        arguments: &Arguments,
        narrow: fn(i64) -> T::Native,
    ) -> Result<ArrayRef> {
        let left = arguments.primitives::<Int64Type>(0);
        let right = arguments.primitives::<Int64Type>(1);
        arguments.try_map::<T>(|row| match right.get(row) {
            0 => Err(division_by_zero()),
            divisor => Ok(narrow(left.get(row).wrapping_rem(divisor))),
        })
    }
    match arguments.logical_type().root {
        TypeRoot::TinyInt => of::<Int8Type>(arguments, |value| value as i8),
        TypeRoot::SmallInt => of::<Int16Type>(arguments, |value| value as i16),
        TypeRoot::Int => of::<Int32Type>(arguments, |value| value as i32),
        _ => of::<Int64Type>(arguments, |value| value),
    }
}

fn scale_of(logical_type: &LogicalType) -> Result<u8> {
    match logical_type.root {
        TypeRoot::Decimal { scale, .. } => Ok(scale),
        _ => Err(Error::internal("DECIMAL arithmetic takes DECIMALs")),
    }
}

fn decimals(sign: Sign, call: &Call, precision: u8, scale: u8) -> Result<Kernel> {
    let s1 = scale_of(call.argument_type(0))?;
    let s2 = scale_of(call.argument_type(1))?;
    Ok(match sign {
        Sign::Plus => of_decimals(move |a, b| Ok(decimal::add(a, s1, b, s2, precision, scale))),
        Sign::Minus => of_decimals(move |a, b| Ok(decimal::add(a, s1, -b, s2, precision, scale))),
        Sign::Times => {
            of_decimals(move |a, b| Ok(decimal::multiply(a, s1, b, s2, precision, scale)))
        }
        Sign::Divide => of_decimals(move |a, b| match b {
            0 => Err(division_by_zero()),
            _ => Ok(decimal::divide(a, s1, b, s2, precision, scale)),
        }),
        Sign::Remainder => of_decimals(move |a, b| match b {
            0 => Err(division_by_zero()),
            _ => Ok(decimal::remainder(a, s1, b, s2, precision, scale)),
        }),
    })
}

fn of_decimals(
    operation: impl Fn(i128, i128) -> Result<Option<i128>> + Send + Sync + 'static,
) -> Kernel {
    Box::new(move |arguments| {
        let left = arguments.primitives::<Decimal128Type>(0);
        let right = arguments.primitives::<Decimal128Type>(1);
        arguments.try_map_optional::<Decimal128Type>(|row| operation(left.get(row), right.get(row)))
    })
}

fn bind_negate(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=1)?;
    match binding.root(0) {
        TypeRoot::Null => binding.cast(0, &TypeRoot::Int),
        TypeRoot::IntervalDayTime | TypeRoot::IntervalYearMonth => {}
        root if root.is_numeric() => {}
        _ => return Err(binding.wrong_argument(0, "a number or an INTERVAL")),
    }
    Ok(binding.arguments[0].logical_type().clone())
}

fn bind_abs(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=1)?;
    match binding.root(0) {
        TypeRoot::Null => binding.cast(0, &TypeRoot::Int),
        root if root.is_numeric() => {}
        _ => return Err(binding.wrong_argument(0, "a number")),
    }
    Ok(binding.arguments[0].logical_type().clone())
}

fn unary<T: ArrowPrimitiveType>(
    operation: impl Fn(T::Native) -> T::Native + Send + Sync + 'static,
) -> Kernel {
    Box::new(move |arguments| {
        let values = arguments.primitives::<T>(0);
        Ok(arguments.map::<T>(|row| operation(values.get(row))))
    })
}

fn negate(call: &Call) -> Result<Kernel> {
    Ok(match &call.logical_type.root {
        TypeRoot::TinyInt => unary::<Int8Type>(i8::wrapping_neg),
        TypeRoot::SmallInt => unary::<Int16Type>(i16::wrapping_neg),
        TypeRoot::Int => unary::<Int32Type>(i32::wrapping_neg),
        TypeRoot::BigInt => unary::<Int64Type>(i64::wrapping_neg),
        TypeRoot::Float => unary::<Float32Type>(|value| -value),
        TypeRoot::Double => unary::<Float64Type>(|value| -value),
        TypeRoot::Decimal { .. } => unary::<Decimal128Type>(|value| -value),
        TypeRoot::IntervalDayTime => unary::<DurationMillisecondType>(i64::wrapping_neg),
        _ => unary::<IntervalYearMonthType>(i32::wrapping_neg),
    })
}

fn abs(call: &Call) -> Result<Kernel> {
    Ok(match &call.logical_type.root {
        TypeRoot::TinyInt => unary::<Int8Type>(i8::wrapping_abs),
        TypeRoot::SmallInt => unary::<Int16Type>(i16::wrapping_abs),
        TypeRoot::Int => unary::<Int32Type>(i32::wrapping_abs),
        TypeRoot::BigInt => unary::<Int64Type>(i64::wrapping_abs),
        TypeRoot::Float => unary::<Float32Type>(f32::abs),
        TypeRoot::Double => unary::<Float64Type>(f64::abs),
        _ => unary::<Decimal128Type>(i128::wrapping_abs),
    })
}

/// -1, 0 or 1 of the argument's type.
fn sign(call: &Call) -> Result<Kernel> {
    fn of_double(value: f64) -> f64 {
        if value == 0.0 || value.is_nan() {
            value
        } else {
            value.signum()
        }
    }
    Ok(match &call.logical_type.root {
        TypeRoot::TinyInt => unary::<Int8Type>(i8::signum),
        TypeRoot::SmallInt => unary::<Int16Type>(i16::signum),
        TypeRoot::Int => unary::<Int32Type>(i32::signum),
        TypeRoot::BigInt => unary::<Int64Type>(i64::signum),
        TypeRoot::Float => unary::<Float32Type>(|value| of_double(value as f64) as f32),
        TypeRoot::Double => unary::<Float64Type>(of_double),
        TypeRoot::Decimal { scale, .. } => {
            let one = decimal::power_of_ten(*scale);
            unary::<Decimal128Type>(move |value| value.signum() * one)
        }
        other => return Err(Error::internal(format!("SIGN of {other}"))),
    })
}
