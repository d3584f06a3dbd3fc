//! Chance: RAND, RAND_INTEGER, UUID. Each row draws anew, also where all arguments are constants.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Float64Array, Int32Array, StringBuilder};
use arrow::datatypes::Int32Type;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

use crate::error::Result;
use crate::expr::{Call, Expression, Kernel, Literal};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("RAND", bind_rand, rand).volatile(),
    ScalarFunction::new("RAND_INTEGER", bind_rand_integer, rand_integer).volatile(),
    ScalarFunction::new("UUID", bind_uuid, uuid).volatile(),
];

fn bind_rand(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(0..=1)?;
    integers(binding)?;
    Ok(LogicalType::not_null(TypeRoot::Double))
}

fn bind_rand_integer(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=2)?;
    integers(binding)?;
    Ok(LogicalType::INT)
}

fn integers(binding: &mut Binding) -> Result<()> {
    (0..binding.arguments.len()).try_for_each(|index| binding.coerce(index, &TypeRoot::Int))
}

fn bind_uuid(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(0..=0)?;
    Ok(LogicalType::not_null(TypeRoot::Char(36)))
}

/// Draws from a seed that is a constant argument, or from chance.
fn generator(seed: Option<&Expression>) -> Mutex<SmallRng> {
    let seed = match seed {
        Some(Expression::Literal {
            value: Literal::Integer(seed),
            ..
        }) => *seed as u64,
        _ => RandomState::new().build_hasher().finish(),
    };
    Mutex::new(SmallRng::seed_from_u64(seed))
}

fn rand(call: &Call) -> Result<Kernel> {
    let generator = generator(call.arguments.first());
    Ok(Box::new(move |arguments| {
        let mut generator = generator.lock().unwrap_or_else(PoisonError::into_inner);
        let values = (0..arguments.rows()).map(|_| generator.random::<f64>());
        Ok(Arc::new(Float64Array::from_iter_values(values)))
    }))
}

/// `RAND_INTEGER([seed,] bound)`: from 0 to below the bound.
fn rand_integer(call: &Call) -> Result<Kernel> {
    let (seed, bound) = match call.arguments.len() {
        2 => (call.arguments.first(), 1),
        _ => (None, 0),
    };
    let generator = generator(seed);
    Ok(Box::new(move |arguments| {
        let mut generator = generator.lock().unwrap_or_else(PoisonError::into_inner);
        let bounds = arguments.primitives::<Int32Type>(bound);
        let values: Vec<i32> = (0..arguments.rows())
            .map(|row| generator.random_range(0..bounds.get(row).max(1)))
            .collect();
        Ok(Arc::new(Int32Array::new(values.into(), arguments.nulls())))
    }))
}

/// Version 4: 122 random bits.
fn uuid(_: &Call) -> Result<Kernel> {
    let generator = generator(None);
    Ok(Box::new(move |arguments| {
        let mut generator = generator.lock().unwrap_or_else(PoisonError::into_inner);
        let mut texts = StringBuilder::with_capacity(arguments.rows(), arguments.rows() * 36);
        for _ in 0..arguments.rows() {
            let high = generator.next_u64() & !0xf000 | 0x4000;
            let low = generator.next_u64() & !(0b11 << 62) | 0b10 << 62;
            texts.append_value(format!(
                "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
                high >> 32,
                high >> 16 & 0xffff,
                high & 0xffff,
                low >> 48,
                low & 0xffff_ffff_ffff
            ));
        }
        Ok(Arc::new(texts.finish()))
    }))
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};

    use crate::expr::{ExpressionContext, RowContext, compile};
    use crate::functions::bind_scalar;

    fn of_100_rows(name: &str) -> ArrayRef {
        let column: ArrayRef = std::sync::Arc::new(Int64Array::from_iter_values(0..100));
        let rows = RecordBatch::try_from_iter([("n", column)]).unwrap();
        let call = bind_scalar(name, vec![], None).unwrap();
        let compiled = compile(&call, &ExpressionContext::default()).unwrap();
        compiled.evaluate(&rows, &RowContext::START).unwrap()
    }

    #[test]
    fn every_row_draws_anew() {
        let texts = of_100_rows("UUID");
        let mut texts: Vec<&str> = texts.as_string::<i32>().iter().flatten().collect();
        assert!(
            texts
                .iter()
                .all(|text| text.len() == 36 && text.as_bytes()[14] == b'4')
        );
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), 100);
        let numbers = of_100_rows("RAND");
        let numbers = numbers
            .as_primitive::<arrow::datatypes::Float64Type>()
            .values()
            .to_vec();
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        assert!(numbers.iter().any(|number| *number != numbers[0]));
    }
}
