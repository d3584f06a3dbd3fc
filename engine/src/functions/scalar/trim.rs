//! TRIM, LTRIM, RTRIM, BTRIM take characters of a set off the ends; LPAD and RPAD put characters there.

use std::fmt::Write;

use arrow::array::{ArrayRef, StringBuilder};
use arrow::datatypes::Int64Type;

use super::substring::byte_of;
use super::text::{MAX_TEXT_BYTES, push, too_long};
use crate::error::{Error, Result};
use crate::expr::{Arguments, Call, Expression, Kernel, Literal, Strings, plain};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("TRIM", bind_trim, trim),
    ScalarFunction::new("LTRIM", bind_side_trim, |_| {
        Ok(plain(|a| cut(a, 0, 1, true, false)))
    }),
    ScalarFunction::new("RTRIM", bind_side_trim, |_| {
        Ok(plain(|a| cut(a, 0, 1, false, true)))
    }),
    ScalarFunction::new("BTRIM", bind_side_trim, |_| {
        Ok(plain(|a| cut(a, 0, 1, true, true)))
    }),
    ScalarFunction::new("LPAD", bind_pad, |_| Ok(plain(|a| pad(a, true)))).failing(|_| true),
    ScalarFunction::new("RPAD", bind_pad, |_| Ok(plain(|a| pad(a, false)))).failing(|_| true),
];

/// `TRIM(mode, characters, text)`, or `TRIM(text)`.
fn bind_trim(binding: &mut Binding) -> Result<LogicalType> {
    if binding.arguments.len() == 1 {
        let word = |text: &str| {
            let length = TypeRoot::Char(text.len() as u32);
            Expression::literal(Literal::String(text.into()), LogicalType::not_null(length))
        };
        binding.arguments.insert(0, word(" "));
        binding.arguments.insert(0, word("BOTH"));
    }
    binding.count(3..=3)?;
    let mode = binding.literal_text(0)?;
    if !["BOTH", "LEADING", "TRAILING"].contains(&mode) {
        return Err(
            Error::user(format!("TRIM has no mode {mode}")).hint("modes: BOTH, LEADING, TRAILING")
        );
    }
    binding.strings()?;
    Ok(binding.result(TypeRoot::STRING))
}

fn trim(call: &Call) -> Result<Kernel> {
    let mode = call.text(0).unwrap_or("BOTH").to_string();
    Ok(Box::new(move |arguments| {
        cut(arguments, 2, 1, mode != "TRAILING", mode != "LEADING")
    }))
}

fn bind_side_trim(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=2)?;
    binding.strings()?;
    Ok(binding.result(TypeRoot::STRING))
}

/// Cuts the characters of argument `set` (a space where it is missing) off the ends of argument `text`.
fn cut(
    arguments: &Arguments,
    text: usize,
    set: usize,
    at_start: bool,
    at_end: bool,
) -> Result<ArrayRef> {
    let texts = arguments.strings(text);
    let sets: Option<Strings> = (arguments.len() > set).then(|| arguments.strings(set));
    Ok(arguments.map_pieces(texts.bytes(), |row| {
        let set = sets.as_ref().map_or(" ", |sets| sets.get(row));
        let mut text = texts.get(row);
        if at_start {
            text = text.trim_start_matches(|c| set.contains(c));
        }
        if at_end {
            text = text.trim_end_matches(|c| set.contains(c));
        }
        Some(text)
    }))
}

/// `LPAD(text, length, pad)`: NULL where the length is negative or the pad empty.
fn bind_pad(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(3..=3)?;
    binding.string(0)?;
    binding.integer(1)?;
    binding.string(2)?;
    Ok(LogicalType::nullable(TypeRoot::STRING))
}

fn pad(arguments: &Arguments, at_start: bool) -> Result<ArrayRef> {
    let (texts, pads) = (arguments.strings(0), arguments.strings(2));
    let lengths = arguments.primitives::<Int64Type>(1);
    arguments.try_map_strings(texts.bytes(), |row, out| {
        let (text, pad) = (texts.get(row), pads.get(row));
        let Ok(length) = usize::try_from(lengths.get(row)) else {
            return Ok(false);
        };
        if pad.is_empty() {
            return Ok(false);
        }
        if length > MAX_TEXT_BYTES {
            return Err(too_long(length));
        }
        let kept = &text[..byte_of(text, length, false)];
        let missing = length - kept.chars().count();
        if at_start {
            fill(out, pad, missing);
        }
        push(out, kept);
        if !at_start {
            fill(out, pad, missing);
        }
        Ok(true)
    })
}

fn fill(out: &mut StringBuilder, pad: &str, characters: usize) {
    for character in pad.chars().cycle().take(characters) {
        out.write_char(character).expect("a builder takes any text");
    }
}
