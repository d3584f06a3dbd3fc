//! Finding text in text: POSITION, LOCATE, INSTR, STARTSWITH, ENDSWITH, REPLACE.

use arrow::array::ArrayRef;
use arrow::datatypes::{Int32Type, Int64Type};

use super::substring::byte_of;
use super::text::push;
use crate::error::Result;
use crate::expr::{Arguments, plain};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("POSITION", bind_position, |_| {
        Ok(plain(|a| position(a, 0, 1)))
    }),
    ScalarFunction::new("INSTR", bind_position, |_| Ok(plain(|a| position(a, 1, 0)))),
    ScalarFunction::new("LOCATE", bind_locate, |_| Ok(plain(|a| position(a, 0, 1)))),
    ScalarFunction::new("STARTSWITH", bind_test, |_| Ok(plain(starts_with))),
    ScalarFunction::new("ENDSWITH", bind_test, |_| Ok(plain(ends_with))),
    ScalarFunction::new("REPLACE", bind_replace, |_| Ok(plain(replace))),
];

fn bind_position(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=2)?;
    binding.strings()?;
    Ok(binding.result(TypeRoot::Int))
}

/// `LOCATE(part, text[, from])`.
fn bind_locate(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=3)?;
    binding.string(0)?;
    binding.string(1)?;
    if binding.arguments.len() == 3 {
        binding.integer(2)?;
    }
    Ok(binding.result(TypeRoot::Int))
}

/// The character, from 1, at which argument `part` begins in argument `whole`; 0 where it does not occur.
fn position(arguments: &Arguments, part: usize, whole: usize) -> Result<ArrayRef> {
    let (parts, texts) = (arguments.strings(part), arguments.strings(whole));
    let is_ascii = texts.is_ascii();
    let from = (arguments.len() == 3).then(|| arguments.primitives::<Int64Type>(2));
    Ok(arguments.map::<Int32Type>(|row| {
        let text = texts.get(row);
        let from = from.as_ref().map_or(1, |from| from.get(row));
        let Ok(skipped) = usize::try_from(from.saturating_sub(1)) else {
            return 0;
        };
        let start = byte_of(text, skipped, is_ascii);
        match text[start..].find(parts.get(row)) {
            None => 0,
            Some(found) if is_ascii => (start + found + 1) as i32,
            Some(found) => text[..start + found].chars().count() as i32 + 1,
        }
    }))
}

fn bind_test(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=2)?;
    binding.strings()?;
    Ok(binding.result(TypeRoot::Boolean))
}

fn starts_with(arguments: &Arguments) -> Result<ArrayRef> {
    let (texts, parts) = (arguments.strings(0), arguments.strings(1));
    Ok(arguments.map_booleans(|row| texts.get(row).starts_with(parts.get(row))))
}

fn ends_with(arguments: &Arguments) -> Result<ArrayRef> {
    let (texts, parts) = (arguments.strings(0), arguments.strings(1));
    Ok(arguments.map_booleans(|row| texts.get(row).ends_with(parts.get(row))))
}

fn bind_replace(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(3..=3)?;
    binding.strings()?;
    Ok(binding.result(TypeRoot::STRING))
}

fn replace(arguments: &Arguments) -> Result<ArrayRef> {
    let (texts, old) = (arguments.strings(0), arguments.strings(1));
    let new = arguments.strings(2);
    arguments.map_strings(texts.bytes(), |row, out| {
        let (text, old, new) = (texts.get(row), old.get(row), new.get(row));
        if old.is_empty() {
            return push(out, &text.replace(old, new));
        }
        let mut rest = 0;
        for (start, found) in text.match_indices(old) {
            push(out, &text[rest..start]);
            push(out, new);
            rest = start + found.len();
        }
        push(out, &text[rest..]);
    })
}
