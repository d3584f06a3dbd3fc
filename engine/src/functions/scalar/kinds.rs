//! What a text or value is: IS_ALPHA, IS_DIGIT, IS_DECIMAL, TYPEOF; and BASE64.

use arrow::array::{ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::text::push;
use crate::error::{Error, Result};
use crate::expr::decimal::{self, Parsed};
use crate::expr::{Arguments, Expression, Literal, plain};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::functions::registry::Rewrite;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("IS_ALPHA", bind_test, |_| Ok(plain(|a| test(a, is_alpha)))).lenient(),
    ScalarFunction::new("IS_DIGIT", bind_test, |_| Ok(plain(|a| test(a, is_digit)))).lenient(),
    ScalarFunction::new("IS_DECIMAL", bind_test, |_| {
        Ok(plain(|a| test(a, is_decimal)))
    })
    .lenient(),
    ScalarFunction::new("TO_BASE64", bind_text, |_| Ok(plain(to_base64))),
    ScalarFunction::new("FROM_BASE64", bind_text, |_| Ok(plain(from_base64))).failing(|_| true),
];

pub(super) const REWRITES: &[Rewrite] = &[Rewrite {
    name: "TYPEOF",
    rewrite: type_of,
}];

/// The type of the argument as text, with NOT NULL.
fn type_of(binding: Binding) -> Result<Expression> {
    binding.count(1..=1)?;
    let text = binding.arguments[0].logical_type().to_string();
    let result = LogicalType::not_null(TypeRoot::STRING);
    Ok(Expression::literal(Literal::String(text), result))
}

fn bind_test(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=1)?;
    binding.strings()?;
    Ok(LogicalType::not_null(TypeRoot::Boolean))
}

/// NULL is none of these kinds.
fn test(arguments: &Arguments, test: fn(&str) -> bool) -> Result<ArrayRef> {
    let (texts, value) = (arguments.strings(0), arguments.value(0));
    let bits = BooleanBuffer::collect_bool(arguments.rows(), |row| {
        !value.is_null(row) && test(texts.get(row))
    });
    Ok(std::sync::Arc::new(BooleanArray::new(bits, None)))
}

fn is_alpha(text: &str) -> bool {
    !text.is_empty() && text.chars().all(char::is_alphabetic)
}

fn is_digit(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|character| character.is_numeric())
}

fn is_decimal(text: &str) -> bool {
    decimal::parse(text, decimal::MAX_PRECISION, 0) != Parsed::NotANumber
}

fn bind_text(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=1)?;
    binding.strings()?;
    Ok(binding.result(TypeRoot::STRING))
}

fn to_base64(arguments: &Arguments) -> Result<ArrayRef> {
    let texts = arguments.strings(0);
    let mut encoded = String::new();
    arguments.map_strings(texts.bytes() * 4 / 3, |row, out| {
        encoded.clear();
        BASE64_STANDARD.encode_string(texts.get(row), &mut encoded);
        push(out, &encoded);
    })
}

fn from_base64(arguments: &Arguments) -> Result<ArrayRef> {
    let texts = arguments.strings(0);
    let mut decoded = Vec::new();
    arguments.try_map_strings(texts.bytes(), |row, out| {
        decoded.clear();
        BASE64_STANDARD
            .decode_vec(texts.get(row), &mut decoded)
            .map_err(|_| Error::data(format!("'{}' is not base64", texts.get(row))))?;
        push(out, &String::from_utf8_lossy(&decoded));
        Ok(true)
    })
}
