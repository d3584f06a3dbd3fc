//! REGEXP, REGEXP_EXTRACT, REGEXP_REPLACE and SIMILAR TO.
//!
//! A literal pattern is compiled once, and a broken one refused with the statement. A broken pattern from a column gives NULL
//! (FALSE for REGEXP), as in Flink; the last pattern is kept.

use arrow::datatypes::Int64Type;
use regex::{CaptureLocations, Regex};

use super::java_regex;
use super::text::push;
use crate::error::{Error, Result};
use crate::expr::{Arguments, Call, Kernel};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] = &[
    ScalarFunction::new("REGEXP", bind_test, regexp),
    ScalarFunction::new("REGEXP_EXTRACT", bind_extract, extract),
    ScalarFunction::new("REGEXP_REPLACE", bind_replace, replace),
    ScalarFunction::new("SIMILAR TO", bind_similar, similar)
        .failing(|arguments| !matches!(arguments[1], crate::expr::Expression::Literal { .. })),
];

fn bind_test(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=2)?;
    binding.strings()?;
    Ok(binding.result(TypeRoot::Boolean))
}

fn bind_similar(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=3)?;
    if binding.arguments.len() == 3 {
        return Err(Error::unsupported("ESCAPE of SIMILAR TO"));
    }
    bind_test(binding)
}

fn bind_extract(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(2..=3)?;
    binding.string(0)?;
    binding.string(1)?;
    if binding.arguments.len() == 3 {
        binding.integer(2)?;
    }
    Ok(LogicalType::nullable(TypeRoot::STRING))
}

fn bind_replace(binding: &mut Binding) -> Result<LogicalType> {
    binding.count(3..=3)?;
    binding.strings()?;
    Ok(LogicalType::nullable(TypeRoot::STRING))
}

/// The pattern of a call: compiled from a literal, or read from an argument row by row.
enum Pattern {
    Fixed(Regex),
    OfRow,
}

impl Pattern {
    fn of(call: &Call, index: usize) -> Result<Self> {
        match call.text(index) {
            Some(text) => Ok(Pattern::Fixed(java_regex::compile(text)?)),
            None => Ok(Pattern::OfRow),
        }
    }

    fn reader<'a>(&'a self, arguments: &Arguments<'a>, index: usize) -> PatternReader<'a> {
        PatternReader {
            fixed: match self {
                Pattern::Fixed(regex) => Some(regex),
                Pattern::OfRow => None,
            },
            texts: arguments.strings(index),
            last: None,
        }
    }
}

/// Gives the pattern of each row, `None` where it is broken.
struct PatternReader<'a> {
    fixed: Option<&'a Regex>,
    texts: crate::expr::Strings<'a>,
    last: Option<(&'a str, Option<Regex>)>,
}

impl PatternReader<'_> {
    fn get(&mut self, row: usize) -> Option<&Regex> {
        if let Some(fixed) = self.fixed {
            return Some(fixed);
        }
        let text = self.texts.get(row);
        if !matches!(&self.last, Some((last, _)) if *last == text) {
            self.last = Some((text, java_regex::compile(text).ok()));
        }
        self.last.as_ref().and_then(|(_, regex)| regex.as_ref())
    }

    fn text(&self, row: usize) -> &str {
        self.texts.get(row)
    }
}

fn regexp(call: &Call) -> Result<Kernel> {
    let pattern = Pattern::of(call, 1)?;
    Ok(Box::new(move |arguments| {
        let texts = arguments.strings(0);
        let mut reader = pattern.reader(arguments, 1);
        arguments.try_map_booleans(|row| {
            let is_empty = reader.text(row).is_empty();
            let found = reader
                .get(row)
                .is_some_and(|regex| regex.is_match(texts.get(row)));
            Ok(Some(found && !is_empty))
        })
    }))
}

/// `REGEXP_EXTRACT(text, pattern[, group])`: the group (0: everything) of the first match; NULL where there is none.
fn extract(call: &Call) -> Result<Kernel> {
    let pattern = Pattern::of(call, 1)?;
    Ok(Box::new(move |arguments| {
        let texts = arguments.strings(0);
        let groups = (arguments.len() == 3).then(|| arguments.primitives::<Int64Type>(2));
        let mut reader = pattern.reader(arguments, 1);
        let mut locations: Option<CaptureLocations> = None;
        Ok(arguments.map_pieces(texts.bytes() / 4, |row| {
            let text = texts.get(row);
            let group = groups.as_ref().map_or(0, |groups| groups.get(row));
            let group = usize::try_from(group).ok()?;
            let is_fixed = reader.fixed.is_some();
            let regex = reader.get(row)?;
            if group == 0 {
                return regex.find(text).map(|found| found.as_str());
            }
            if group >= regex.captures_len() {
                return None;
            }
            if locations.is_none() || !is_fixed {
                locations = Some(regex.capture_locations());
            }
            let locations = locations.as_mut().expect("just made");
            regex.captures_read(locations, text)?;
            let (start, end) = locations.get(group)?;
            Some(&text[start..end])
        }))
    }))
}

/// Replaces every match by a text, in which `$` has no meaning.
fn replace(call: &Call) -> Result<Kernel> {
    let pattern = Pattern::of(call, 1)?;
    Ok(Box::new(move |arguments| {
        let (texts, replacements) = (arguments.strings(0), arguments.strings(2));
        let mut reader = pattern.reader(arguments, 1);
        arguments.try_map_strings(texts.bytes(), |row, out| {
            let (text, replacement) = (texts.get(row), replacements.get(row));
            let Some(regex) = reader.get(row) else {
                return Ok(false);
            };
            let mut rest = 0;
            for found in regex.find_iter(text) {
                push(out, &text[rest..found.start()]);
                push(out, replacement);
                rest = found.end();
            }
            push(out, &text[rest..]);
            Ok(true)
        })
    }))
}

/// SIMILAR TO: a regular expression of SQL that must match the whole text.
fn similar(call: &Call) -> Result<Kernel> {
    let fixed = call.text(1).map(similar_pattern).transpose()?;
    Ok(Box::new(move |arguments| {
        let (texts, patterns) = (arguments.strings(0), arguments.strings(1));
        let mut last: Option<(&str, Regex)> = None;
        arguments.try_map_booleans(|row| {
            if let Some(regex) = &fixed {
                return Ok(Some(regex.is_match(texts.get(row))));
            }
            let text = patterns.get(row);
            if !matches!(&last, Some((known, _)) if *known == text) {
                let regex = similar_pattern(text)
                    .map_err(|error| Error::data(error.message().to_string()))?;
                last = Some((text, regex));
            }
            let (_, regex) = last.as_ref().expect("just set");
            Ok(Some(regex.is_match(texts.get(row))))
        })
    }))
}

/// `%` is any text and `_` any character; everything else is as in a regular expression of Java.
fn similar_pattern(pattern: &str) -> Result<Regex> {
    let mut regex = String::from("^(?s:");
    for character in pattern.chars() {
        match character {
            '%' => regex.push_str("[\\s\\S]*"),
            '_' => regex.push('.'),
            other => regex.push(other),
        }
    }
    regex.push_str(")$");
    java_regex::compile(&regex)
        .map_err(|_| Error::user(format!("'{pattern}' is no pattern of SIMILAR TO")))
}
