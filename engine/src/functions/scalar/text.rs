//! Whole texts: length, case, order, repetition, concatenation, characters by code.

use std::fmt::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{Int32Type, Int64Type};

use crate::error::{Error, Result};
use crate::expr::{Arguments, plain};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("CHAR_LENGTH", bind_text_to_int, |_| Ok(plain(char_length))),
    ScalarFunction::new("ASCII", bind_text_to_int, |_| Ok(plain(ascii))),
    ScalarFunction::new("UPPER", bind_same_length, |_| Ok(plain(upper))),
    ScalarFunction::new("LOWER", bind_same_length, |_| Ok(plain(lower))),
    ScalarFunction::new("REVERSE", bind_texts, |_| Ok(plain(reverse))),
    ScalarFunction::new("INITCAP", bind_same_length, |_| Ok(plain(initcap))),
    ScalarFunction::new("REPEAT", bind_repeat, |_| Ok(plain(repeat))).failing(|_| true),
    ScalarFunction::new("CHR", bind_chr, |_| Ok(plain(chr))),
    ScalarFunction::new("||", bind_pair, |_| Ok(plain(concat))),
    ScalarFunction::new("CONCAT", bind_concat, |_| Ok(plain(concat))),
    ScalarFunction::new("CONCAT_WS", bind_concat_ws, |_| Ok(plain(concat_ws))).lenient(),
];

/// The most bytes a function makes of one value: what fits a batch many times over is a mistake.
pub(super) const MAX_TEXT_BYTES: usize = 64 << 20;

/// The error for a text above [`MAX_TEXT_BYTES`].
pub(super) fn too_long(bytes: usize) -> Error {
    Error::data(format!(
        "a text of {bytes} bytes would be made; the most is {MAX_TEXT_BYTES}"
    ))
}

fn bind_text_to_int(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=1)?;
    binding.strings()?;
    Ok(binding.result(TypeRoot::Int))
}

fn bind_texts(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=1)?;
    binding.strings()?;
    Ok(binding.result(TypeRoot::STRING))
}

/// Another case has the same length.
fn bind_same_length(binding: &mut Binding) -> Result<LogicalType> {
    bind_texts(binding)?;
    Ok(binding.result(binding.root(0).clone()))
}

/// `a || b` is as long as both together.
fn bind_pair(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=2)?;
    binding.strings()?;
    let root = match (binding.root(0), binding.root(1)) {
        (TypeRoot::Char(left), TypeRoot::Char(right)) => TypeRoot::Char(left + right),
        (
            TypeRoot::Char(left) | TypeRoot::Varchar(left),
            TypeRoot::Char(right) | TypeRoot::Varchar(right),
        ) => TypeRoot::Varchar((left + right).min(i32::MAX as u32)),
        _ => TypeRoot::STRING,
    };
    Ok(binding.result(root))
}

fn bind_repeat(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=2)?;
    binding.string(0)?;
    binding.integer(1)?;
    Ok(binding.result(TypeRoot::STRING))
}

fn bind_chr(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=1)?;
    binding.integer(0)?;
    Ok(binding.result(TypeRoot::STRING))
}

fn bind_concat(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(1..=usize::MAX)?;
    binding.strings()?;
    Ok(binding.result(TypeRoot::STRING))
}

/// NULL only where the separator is.
fn bind_concat_ws(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=usize::MAX)?;
    binding.strings()?;
    let nullable = binding.arguments[0].logical_type().nullable;
    Ok(LogicalType {
        root: TypeRoot::STRING,
        nullable,
    })
}

fn char_length(arguments: &Arguments) -> Result<ArrayRef> {
    let texts = arguments.strings(0);
    Ok(if texts.is_ascii() {
        arguments.map::<Int32Type>(|row| texts.get(row).len() as i32)
    } else {
        arguments.map::<Int32Type>(|row| texts.get(row).chars().count() as i32)
    })
}

/// The first byte; 0 of an empty text.
fn ascii(arguments: &Arguments) -> Result<ArrayRef> {
    let texts = arguments.strings(0);
    Ok(arguments
        .map::<Int32Type>(|row| texts.get(row).as_bytes().first().copied().unwrap_or(0) as i32))
}

fn upper(arguments: &Arguments) -> Result<ArrayRef> {
    change_case(arguments, <[u8]>::to_ascii_uppercase, str::to_uppercase)
}

fn lower(arguments: &Arguments) -> Result<ArrayRef> {
    change_case(arguments, <[u8]>::to_ascii_lowercase, str::to_lowercase)
}

/// ASCII is changed in one go: the bytes of all texts together, which stay where they are.
fn change_case(
    arguments: &Arguments,
    of_ascii: fn(&[u8]) -> Vec<u8>,
    of_text: fn(&str) -> String,
) -> Result<ArrayRef> {
    let texts = arguments.strings(0);
    let value = arguments.value(0);
    if !texts.is_ascii() || value.array.len() != arguments.rows() {
        return arguments.map_strings(texts.bytes(), |row, out| {
            push(out, &of_text(texts.get(row)))
        });
    }
    let array = value.array.as_string::<i32>();
    let offsets = array.value_offsets();
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let bytes = of_ascii(&array.value_data()[first as usize..last as usize]);
    let offsets: ScalarBuffer<i32> = offsets.iter().map(|offset| offset - first).collect();
    Ok(Arc::new(StringArray::try_new(
        OffsetBuffer::new(offsets),
        bytes.into(),
        array.nulls().cloned(),
    )?))
}

pub(super) fn push(out: &mut StringBuilder, text: &str) {
    out.write_str(text).expect("a builder takes any text");
}

fn reverse(arguments: &Arguments) -> Result<ArrayRef> {
    let texts = arguments.strings(0);
    arguments.map_strings(texts.bytes(), |row, out| {
        for character in texts.get(row).chars().rev() {
            out.write_char(character).expect("a builder takes any text");
        }
    })
}

/// The first ASCII letter of every word becomes upper case, the others lower case; a word is letters and digits.
fn initcap(arguments: &Arguments) -> Result<ArrayRef> {
    let texts = arguments.strings(0);
    arguments.map_strings(texts.bytes(), |row, out| {
        let mut starts_word = true;
        for character in texts.get(row).chars() {
            let written = if starts_word {
                character.to_ascii_uppercase()
            } else {
                character.to_ascii_lowercase()
            };
            starts_word = !character.is_ascii_alphanumeric();
            out.write_char(written).expect("a builder takes any text");
        }
    })
}

fn repeat(arguments: &Arguments) -> Result<ArrayRef> {
    let texts = arguments.strings(0);
    let counts = arguments.primitives::<Int64Type>(1);
    arguments.try_map_strings(texts.bytes(), |row, out| {
        let text = texts.get(row);
        let count = counts.get(row).max(0) as usize;
        let bytes = text.len().saturating_mul(count);
        if bytes > MAX_TEXT_BYTES {
            return Err(too_long(bytes));
        }
        (0..count).for_each(|_| push(out, text));
        Ok(true)
    })
}

/// The character of the lowest byte; an empty text for negative numbers.
fn chr(arguments: &Arguments) -> Result<ArrayRef> {
    let codes = arguments.primitives::<Int64Type>(0);
    arguments.map_strings(arguments.rows(), |row, out| {
        let code = codes.get(row);
        if code >= 0 {
            out.write_char((code & 0xff) as u8 as char)
                .expect("a builder takes any text");
        }
    })
}

fn concat(arguments: &Arguments) -> Result<ArrayRef> {
    let texts: Vec<_> = (0..arguments.len())
        .map(|index| arguments.strings(index))
        .collect();
    let bytes = texts.iter().map(|text| text.bytes()).sum();
    arguments.map_strings(bytes, |row, out| {
        texts.iter().for_each(|text| push(out, text.get(row)));
    })
}

fn concat_ws(arguments: &Arguments) -> Result<ArrayRef> {
    let texts: Vec<_> = (0..arguments.len())
        .map(|index| arguments.strings(index))
        .collect();
    let mut builder = StringBuilder::new();
    for row in 0..arguments.rows() {
        if arguments.value(0).is_null(row) {
            builder.append_null();
            continue;
        }
        let separator = texts[0].get(row);
        let mut is_first = true;
        for (index, text) in texts.iter().enumerate().skip(1) {
            if arguments.value(index).is_null(row) {
                continue;
            }
            if !is_first {
                push(&mut builder, separator);
            }
            is_first = false;
            push(&mut builder, text.get(row));
        }
        builder.append_value("");
    }
    let array = builder.finish();
    debug_assert_eq!(array.len(), arguments.rows());
    Ok(Arc::new(array))
}
