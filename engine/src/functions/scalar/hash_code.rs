//! HASH_CODE: an INT that is the same for equal values, by which distinct aggregates are split into buckets.

use std::sync::Arc;

use arrow::array::{Array, Int32Array};

use crate::error::Result;
use crate::expr::{Call, Kernel};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::stream::hash_columns;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] =
    &[ScalarFunction::new("HASH_CODE", bind_hash_code, hash_code)];

fn bind_hash_code(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=1)?;
    let nullable = binding.arguments[0].logical_type().nullable;
    Ok(LogicalType::not_null(TypeRoot::Int).with_nullable(nullable))
}

fn hash_code(_: &Call) -> Result<Kernel> {
    Ok(Box::new(|arguments| {
        let values = arguments.expanded(0)?;
        let hashes = hash_columns(std::slice::from_ref(&values), values.len())?;
        let codes = hashes.into_iter().map(|hash| hash as i32).collect();
        Ok(Arc::new(Int32Array::new(codes, values.logical_nulls())))
    }))
}
