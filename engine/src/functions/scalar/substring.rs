//! Pieces of texts: SUBSTRING, LEFT, RIGHT, OVERLAY, SPLIT_INDEX. Positions are characters, counted from 1.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::Int64Type;

use super::text::push;
use crate::error::Result;
use crate::expr::{Arguments, plain};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("SUBSTRING", bind_substring, |_| Ok(plain(substring))),
    ScalarFunction::new("LEFT", bind_side, |_| Ok(plain(left))),
    ScalarFunction::new("RIGHT", bind_side, |_| Ok(plain(right))),
    ScalarFunction::new("OVERLAY", bind_overlay, |_| Ok(plain(overlay))),
    ScalarFunction::new("SPLIT_INDEX", bind_split_index, |_| Ok(plain(split_index))),
];

fn bind_substring(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=3)?;
    binding.string(0)?;
    (1..binding.arguments.len()).try_for_each(|index| binding.integer(index))?;
    let length = match binding.root(0) {
        TypeRoot::Char(length) | TypeRoot::Varchar(length) => *length,
        _ => i32::MAX as u32,
    };
    Ok(LogicalType::nullable(TypeRoot::Varchar(length)))
}

/// The byte at which the character `index` begins; the length of the text where there are fewer.
pub(super) fn byte_of(text: &str, index: usize, is_ascii: bool) -> usize {
    if is_ascii {
        return index.min(text.len());
    }
    text.char_indices()
        .nth(index)
        .map_or(text.len(), |(byte, _)| byte)
}

fn characters(text: &str, is_ascii: bool) -> usize {
    if is_ascii {
        text.len()
    } else {
        text.chars().count()
    }
}

/// From a position on, or from the end where it is negative; 0 counts as 1.
fn substring(arguments: &Arguments) -> Result<ArrayRef> {
    let texts = arguments.strings(0);
    let is_ascii = texts.is_ascii();
    let positions = arguments.primitives::<Int64Type>(1);
    let lengths = (arguments.len() == 3).then(|| arguments.primitives::<Int64Type>(2));
    Ok(arguments.map_pieces(texts.bytes(), |row| {
        let length = lengths
            .as_ref()
            .map_or(i64::MAX, |lengths| lengths.get(row));
        piece(texts.get(row), positions.get(row), length, is_ascii)
    }))
}

fn piece(text: &str, position: i64, length: i64, is_ascii: bool) -> Option<&str> {
    if length < 0 {
        return None;
    }
    let start = match position {
        0 => 0,
        position if position > 0 => position - 1,
        position => {
            let start = characters(text, is_ascii) as i64 + position;
            if start < 0 {
                return Some("");
            }
            start
        }
    };
    let start = usize::try_from(start).unwrap_or(usize::MAX);
    let rest = &text[byte_of(text, start, is_ascii)..];
    if length as usize >= rest.len() {
        return Some(rest);
    }
    Some(&rest[..byte_of(rest, length as usize, is_ascii)])
}

fn bind_side(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=2)?;
    binding.string(0)?;
    binding.integer(1)?;
    Ok(binding.result(TypeRoot::STRING))
}

fn left(arguments: &Arguments) -> Result<ArrayRef> {
    let texts = arguments.strings(0);
    let is_ascii = texts.is_ascii();
    let lengths = arguments.primitives::<Int64Type>(1);
    Ok(arguments.map_pieces(texts.bytes(), |row| {
        piece(texts.get(row), 1, lengths.get(row).max(0), is_ascii)
    }))
}

fn right(arguments: &Arguments) -> Result<ArrayRef> {
    let texts = arguments.strings(0);
    let is_ascii = texts.is_ascii();
    let lengths = arguments.primitives::<Int64Type>(1);
    Ok(arguments.map_pieces(texts.bytes(), |row| {
        let text = texts.get(row);
        let length = lengths.get(row).max(0) as usize;
        let skipped = characters(text, is_ascii).saturating_sub(length);
        Some(&text[byte_of(text, skipped, is_ascii)..])
    }))
}

/// `OVERLAY(text PLACING new FROM start [FOR length])`; the length is that of the new text where it is missing.
fn bind_overlay(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(3..=4)?;
    binding.string(0)?;
    binding.string(1)?;
    (2..binding.arguments.len()).try_for_each(|index| binding.integer(index))?;
    Ok(binding.result(TypeRoot::STRING))
}

/// The text is unchanged where the start is outside it; the rest goes where the length is negative or too long.
fn overlay(arguments: &Arguments) -> Result<ArrayRef> {
    let (texts, placed) = (arguments.strings(0), arguments.strings(1));
    let is_ascii = texts.is_ascii() && placed.is_ascii();
    let starts = arguments.primitives::<Int64Type>(2);
    let lengths = (arguments.len() == 4).then(|| arguments.primitives::<Int64Type>(3));
    arguments.map_strings(texts.bytes() + placed.bytes(), |row, out| {
        let (text, new) = (texts.get(row), placed.get(row));
        let (start, count) = (starts.get(row), characters(text, is_ascii) as i64);
        if start <= 0 || start > count {
            return push(out, text);
        }
        let length = match &lengths {
            Some(lengths) => lengths.get(row),
            None => characters(new, is_ascii) as i64,
        };
        push(out, &text[..byte_of(text, start as usize - 1, is_ascii)]);
        push(out, new);
        if length >= 0 && start - 1 + length <= count {
            push(
                out,
                &text[byte_of(text, (start - 1 + length) as usize, is_ascii)..],
            );
        }
    })
}

/// `SPLIT_INDEX(text, separator, index)`: the piece of this number, from 0; NULL where there is none.
fn bind_split_index(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(3..=3)?;
    binding.string(0)?;
    if binding.root(1).is_integer() {
        // The code of a character.
        let code = binding.arguments[1].clone();
        binding.arguments[1] = binding.call("CHR", vec![code])?;
    }
    binding.string(1)?;
    binding.integer(2)?;
    Ok(LogicalType::nullable(TypeRoot::STRING))
}

fn split_index(arguments: &Arguments) -> Result<ArrayRef> {
    let (texts, separators) = (arguments.strings(0), arguments.strings(1));
    let indices = arguments.primitives::<Int64Type>(2);
    let separator = arguments.value(1);
    if separator.is_scalar && !separator.array.is_empty() && separators.get(0).len() == 1 {
        let separator = separators.get(0).as_bytes()[0];
        return Ok(arguments.map_pieces(texts.bytes(), |row| {
            let index = usize::try_from(indices.get(row)).ok()?;
            piece_at_byte(texts.get(row), separator, index)
        }));
    }
    Ok(arguments.map_pieces(texts.bytes(), |row| {
        let text = texts.get(row);
        let index = usize::try_from(indices.get(row)).ok()?;
        match separators.get(row) {
            _ if text.is_empty() => None,
            // Without a separator, runs of white space separate.
            "" => text.split(char::is_whitespace).nth(index),
            separator => text.split(separator).nth(index),
        }
    }))
}

/// The piece of an index between single-byte separators: the loop of URL splitting.
fn piece_at_byte(text: &str, separator: u8, index: usize) -> Option<&str> {
    if text.is_empty() {
        return None;
    }
    let separator = separator as char;
    let mut rest = text;
    for _ in 0..index {
        rest = &rest[rest.find(separator)? + 1..];
    }
    Some(&rest[..rest.find(separator).unwrap_or(rest.len())])
}
