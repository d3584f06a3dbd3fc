//! LIKE: `%` stands for any text, `_` for one character, and after the ESCAPE character both stand for themselves.
//!
//! A literal pattern is read once. Patterns whose only wildcards are `%` at the ends are plain searches.

use std::sync::Arc;

use arrow::array::ArrayRef;

use crate::error::{Error, Result};
use crate::expr::{Arguments, Call, Expression, Kernel};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] =
    &[ScalarFunction::new("LIKE", bind, like).failing(can_fail)];

fn bind(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=3)?;
    binding.strings()?;
    Ok(binding.result(TypeRoot::Boolean))
}

/// Only a pattern with an ESCAPE that is not fixed can turn out wrong.
fn can_fail(arguments: &[Expression]) -> bool {
    let is_literal = |argument: &Expression| matches!(argument, Expression::Literal { .. });
    arguments.len() == 3 && !arguments[1..].iter().all(is_literal)
}

fn like(call: &Call) -> Result<Kernel> {
    let escape = call.text(2).map(escape_character).transpose()?.flatten();
    let has_fixed_escape = call.arguments.len() == 2 || call.text(2).is_some();
    match call.text(1) {
        Some(pattern) if has_fixed_escape => {
            let pattern = Pattern::parse(pattern, escape)
                .map_err(|error| Error::user(error.message().to_string()))?;
            Ok(Box::new(move |arguments| {
                Ok(match_all(arguments, &pattern))
            }))
        }
        _ => Ok(Box::new(match_each)),
    }
}

fn escape_character(text: &str) -> Result<Option<char>> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (Some(escape), None) => Ok(Some(escape)),
        _ => Err(Error::user(format!(
            "ESCAPE takes one character, not '{text}'"
        ))),
    }
}

fn match_all(arguments: &Arguments, pattern: &Pattern) -> ArrayRef {
    let texts = arguments.strings(0);
    match pattern {
        Pattern::Equal(part) => arguments.map_booleans(|row| texts.get(row) == part),
        Pattern::StartsWith(part) => {
            arguments.map_booleans(|row| texts.get(row).starts_with(part.as_str()))
        }
        Pattern::EndsWith(part) => {
            arguments.map_booleans(|row| texts.get(row).ends_with(part.as_str()))
        }
        Pattern::Contains(part) => {
            arguments.map_booleans(|row| texts.get(row).contains(part.as_str()))
        }
        Pattern::Any(parts) => arguments.map_booleans(|row| matches(texts.get(row), parts)),
    }
}

/// A pattern a row; the last one is kept.
fn match_each(arguments: &Arguments) -> Result<ArrayRef> {
    let (texts, patterns) = (arguments.strings(0), arguments.strings(1));
    let escapes = (arguments.len() == 3).then(|| arguments.strings(2));
    let mut last: Option<(&str, Option<char>, Pattern)> = None;
    arguments.try_map_booleans(|row| {
        let escape = match &escapes {
            Some(escapes) => {
                let text = escapes.get(row);
                escape_character(text).map_err(|error| Error::data(error.message().to_string()))?
            }
            None => None,
        };
        let source = patterns.get(row);
        let is_last = matches!(&last, Some((text, by, _)) if *text == source && *by == escape);
        if !is_last {
            last = Some((source, escape, Pattern::parse(source, escape)?));
        }
        let (_, _, pattern) = last.as_ref().expect("just set");
        Ok(Some(pattern.matches(texts.get(row))))
    })
}

/// One element of a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// This character.
    Is(char),
    /// Any character.
    One,
    /// Any text.
    Many,
}

/// A pattern that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Equal(String),
    StartsWith(String),
    EndsWith(String),
    Contains(String),
    Any(Arc<[Part]>),
}

impl Pattern {
    fn parse(text: &str, escape: Option<char>) -> Result<Pattern> {
        let mut parts = Vec::new();
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            parts.push(match character {
                character if Some(character) == escape => match characters.next() {
                    Some(next) if next == '%' || next == '_' || Some(next) == escape => {
                        Part::Is(next)
                    }
                    _ => {
                        return Err(Error::data(format!(
                            "the escape character in the pattern '{text}' must be followed by '%', '_' or itself"
                        )));
                    }
                },
                '%' => Part::Many,
                '_' => Part::One,
                other => Part::Is(other),
            });
        }
        Ok(Self::simplest(parts))
    }

    fn simplest(parts: Vec<Part>) -> Pattern {
        let starts = parts.first() == Some(&Part::Many);
        let ends = parts.len() > 1 && parts.last() == Some(&Part::Many);
        let inner = &parts[usize::from(starts)..parts.len() - usize::from(ends)];
        let text: Option<String> = inner
            .iter()
            .map(|part| match part {
                Part::Is(character) => Some(*character),
                _ => None,
            })
            .collect();
        match (text, starts, ends) {
            (Some(text), false, false) => Pattern::Equal(text),
            (Some(text), false, true) => Pattern::StartsWith(text),
            (Some(text), true, false) => Pattern::EndsWith(text),
            (Some(text), true, true) => Pattern::Contains(text),
            (None, _, _) => Pattern::Any(parts.into()),
        }
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Pattern::Equal(part) => text == part,
            Pattern::StartsWith(part) => text.starts_with(part.as_str()),
            Pattern::EndsWith(part) => text.ends_with(part.as_str()),
            Pattern::Contains(part) => text.contains(part.as_str()),
            Pattern::Any(parts) => matches(text, parts),
        }
    }
}

/// Whether the whole text matches. After a mismatch the last `%` takes one character more.
fn matches(text: &str, parts: &[Part]) -> bool {
    let mut rest = text.chars();
    let mut part = 0;
    let mut retry: Option<(std::str::Chars, usize)> = None;
    loop {
        match parts.get(part) {
            Some(Part::Many) => {
                part += 1;
                retry = Some((rest.clone(), part));
                continue;
            }
            Some(Part::One) if rest.clone().next().is_some() => {
                rest.next();
                part += 1;
                continue;
            }
            Some(Part::Is(wanted)) if rest.clone().next() == Some(*wanted) => {
                rest.next();
                part += 1;
                continue;
            }
            None if rest.clone().next().is_none() => return true,
            _ => {}
        }
        let Some((from, after)) = &mut retry else {
            return false;
        };
        if from.next().is_none() {
            return false;
        }
        (rest, part) = (from.clone(), *after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        let like =
            |text: &str, pattern: &str| Pattern::parse(pattern, Some('\\')).unwrap().matches(text);
        for (text, pattern) in [
            ("abc", "abc"),
            ("abc", "a%"),
            ("abc", "%c"),
            ("abc", "%b%"),
            ("abc", "a_c"),
            ("abc", "%_c"),
            ("", "%"),
            ("a_b", "a\\_b"),
            ("aXbXc", "a%X%c"),
            ("aab", "%ab"),
            ("😀", "_"),
            ("mississippi", "m%iss%pi"),
        ] {
            assert!(like(text, pattern), "{text} LIKE {pattern}");
        }
        for (text, pattern) in [
            ("abc", "b"),
            ("abc", "a_"),
            ("axb", "a\\_b"),
            ("", "_"),
            ("ab", "%a"),
        ] {
            assert!(!like(text, pattern), "{text} NOT LIKE {pattern}");
        }
        assert!(Pattern::parse("a\\b", Some('\\')).is_err());
    }
}
