//! JSON_VALUE: a scalar at a path of a JSON text.
//!
//! Arguments: document, path, then, as string literals or all missing: the mode ON EMPTY (`NULL`, `ERROR`, `DEFAULT`), its default,
//! the mode ON ERROR, its default; and last, where there is a RETURNING clause, the type: `STRING`, `BOOLEAN`, `INT` or
//! `DOUBLE`, of which the result is. A default is a string literal (an empty one or NULL where the mode needs none) and is
//! cast to the result.
//!
//! A value that is missing or no scalar is "empty", a JSON null is NULL; a broken document, a value of another type than RETURNING and, in a
//! strict path, a missing value are "errors".

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int32Array, StringBuilder};
use serde_json::Value as Json;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::expr::{Call, Expression, Kernel, Literal, java_number};
use crate::functions::ScalarFunction;
use crate::functions::binding::Binding;
use crate::types::{LogicalType, TypeRoot};

pub(super) const FUNCTIONS: &[ScalarFunction] =
    &[ScalarFunction::new("JSON_VALUE", bind, json_value)
        .lenient()
        .failing(|arguments| {
            arguments
                .iter()
                .skip(2)
                .any(|argument| text_of(argument) == Some("ERROR"))
        })];

fn text_of(argument: &Expression) -> Option<&str> {
    match argument {
        Expression::Literal {
            value: Literal::String(text),
            ..
        } => Some(text),
        _ => None,
    }
}

fn bind(binding: &mut Binding) -> Result<LogicalType> {
    match binding.arguments.len() {
        2 | 6 | 7 => {}
        _ => binding.count(2..=2)?,
    }
    binding.strings()?;
    Path::parse(binding.literal_text(1)?)?;
    for (mode, clause) in [(2, "ON EMPTY"), (4, "ON ERROR")] {
        if binding.arguments.len() > mode
            && !["NULL", "ERROR", "DEFAULT"].contains(&binding.literal_text(mode)?)
        {
            return Err(Error::user(format!(
                "JSON_VALUE knows NULL, ERROR and DEFAULT {clause}"
            )));
        }
    }
    let root = match binding.arguments.get(6).and_then(text_of) {
        None | Some("STRING" | "VARCHAR") => TypeRoot::STRING,
        Some("BOOLEAN") => TypeRoot::Boolean,
        Some("INT" | "INTEGER") => TypeRoot::Int,
        Some("DOUBLE") => TypeRoot::Double,
        Some(other) => {
            return Err(Error::user(format!("JSON_VALUE cannot return {other}"))
                .hint("RETURNING STRING, BOOLEAN, INT or DOUBLE"));
        }
    };
    Ok(LogicalType::nullable(root))
}

/// A path of names and indices.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Path {
    is_strict: bool,
    steps: Vec<PathStep>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PathStep {
    Name(String),
    Index(usize),
}

impl Path {
    fn parse(text: &str) -> Result<Path> {
        let broken = || {
            Error::user(format!("'{text}' is no JSON path that is understood"))
                .hint("such as '$.a.b', '$.list[0]', '$[\"a b\"]', 'strict $.a'")
        };
        let trimmed = text.trim();
        let (is_strict, rest) = match trimmed.strip_prefix("strict ") {
            Some(rest) => (true, rest),
            None => (false, trimmed.strip_prefix("lax ").unwrap_or(trimmed)),
        };
        let mut rest = rest.trim().strip_prefix('$').ok_or_else(broken)?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = parse_step(rest).ok_or_else(broken)?;
            steps.push(step);
            rest = after;
        }
        Ok(Path { is_strict, steps })
    }

    fn find<'a>(&self, document: &'a Json) -> Option<&'a Json> {
        self.steps
            .iter()
            .try_fold(document, |value, step| match step {
                PathStep::Name(name) => value.get(name),
                PathStep::Index(index) => value.get(index),
            })
    }
}

fn parse_step(text: &str) -> Option<(PathStep, &str)> {
    if let Some(rest) = text.strip_prefix('.') {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let name = &rest[..end];
        let is_name = !name.is_empty() && !name.contains(['*', '?', '(', '@', ' ']);
        return is_name.then(|| (PathStep::Name(name.to_string()), &rest[end..]));
    }
    let rest = text.strip_prefix('[')?;
    for quote in ['\'', '"'] {
        if let Some(quoted) = rest.strip_prefix(quote) {
            let (name, after) = quoted.split_once(quote)?;
            return Some((PathStep::Name(name.to_string()), after.strip_prefix(']')?));
        }
    }
    let (index, after) = rest.split_once(']')?;
    Some((PathStep::Index(index.trim().parse().ok()?), after))
}

/// What to do where there is no value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Otherwise {
    Null,
    Fail,
    Default(String),
}

impl Otherwise {
    fn of(call: &Call, mode: usize) -> Self {
        match call.text(mode) {
            Some("ERROR") => Otherwise::Fail,
            Some("DEFAULT") => match call.text(mode + 1) {
                Some(text) => Otherwise::Default(text.to_string()),
                None => Otherwise::Null,
            },
            _ => Otherwise::Null,
        }
    }
}

fn json_value(call: &Call) -> Result<Kernel> {
    let path = Path::parse(call.text(1).unwrap_or_default())?;
    let on_empty = Otherwise::of(call, 2);
    let on_error = Otherwise::of(call, 4);
    let root = call.logical_type.root.clone();
    Ok(Box::new(move |arguments| -> Result<ArrayRef> {
        let documents = arguments.strings(0);
        let value = arguments.value(0);
        let rows = arguments.rows();
        let get = |row: usize| -> Result<Option<Scalar>> {
            if value.is_null(row) {
                return Ok(None);
            }
            let document = documents.get(row);
            match lookup(document, &path, &root) {
                Found::Value(scalar) => Ok(Some(scalar)),
                Found::Null => Ok(None),
                Found::Empty => replace(&on_empty, &root, "no scalar value is at the path"),
                Found::Error(reason) => replace(&on_error, &root, &reason),
            }
        };
        collect(rows, &root, get)
    }))
}

/// A value of one of the types that can be returned.
enum Scalar {
    Text(String),
    Boolean(bool),
    Int(i32),
    Double(f64),
}

enum Found {
    Value(Scalar),
    Null,
    Empty,
    Error(String),
}

fn lookup(document: &str, path: &Path, root: &TypeRoot) -> Found {
    let json: Json = match serde_json::from_str(document) {
        Ok(json) => json,
        Err(error) => return Found::Error(format!("the text is no JSON: {error}")),
    };
    match path.find(&json) {
        None if path.is_strict => Found::Error("the path does not exist".to_string()),
        None => Found::Empty,
        Some(Json::Null) if path.is_strict => Found::Error("the value is null".to_string()),
        Some(Json::Null) => Found::Null,
        Some(Json::Array(_) | Json::Object(_)) if path.is_strict => {
            Found::Error("the value is no scalar".to_string())
        }
        Some(Json::Array(_) | Json::Object(_)) => Found::Empty,
        Some(value) => match convert(value, root) {
            Some(scalar) => Found::Value(scalar),
            None => Found::Error(format!("{value} is no {root}")),
        },
    }
}

fn convert(value: &Json, root: &TypeRoot) -> Option<Scalar> {
    Some(match (root, value) {
        (TypeRoot::Boolean, Json::Bool(value)) => Scalar::Boolean(*value),
        (TypeRoot::Int, Json::Number(number)) => Scalar::Int(number.as_i64()?.try_into().ok()?),
        (TypeRoot::Double, Json::Number(number)) => Scalar::Double(number.as_f64()?),
        (TypeRoot::Boolean | TypeRoot::Int | TypeRoot::Double, _) => return None,
        (_, Json::String(text)) => Scalar::Text(text.clone()),
        (_, Json::Bool(value)) => Scalar::Text(value.to_string()),
        (_, Json::Number(number)) => Scalar::Text(number_text(number)),
        _ => return None,
    })
}

/// The number as Java's `BigDecimal` writes it: digits are kept, an exponent only where there must be one.
fn number_text(number: &serde_json::Number) -> String {
    let text = number.to_string();
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else {
        return text;
    };
    let exponent: i64 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    let digits = if digits.is_empty() { "0" } else { digits };
    let scale = fraction.len() as i64 - exponent;
    let adjusted = digits.len() as i64 - 1 - scale;
    if scale < 0 || adjusted < -6 {
        let point = if digits.len() > 1 { "." } else { "" };
        return format!("{sign}{}{point}{}E{adjusted:+}", &digits[..1], &digits[1..]);
    }
    let scale = scale as usize;
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let point = padded.len() - scale;
    format!("{sign}{}.{}", &padded[..point], &padded[point..])
}

fn replace(otherwise: &Otherwise, root: &TypeRoot, reason: &str) -> Result<Option<Scalar>> {
    let text = match otherwise {
        Otherwise::Null => return Ok(None),
        Otherwise::Fail => return Err(Error::data(format!("JSON_VALUE: {reason}"))),
        Otherwise::Default(text) => text,
    };
    let scalar = match root {
        TypeRoot::Boolean => text.parse().ok().map(Scalar::Boolean),
        TypeRoot::Int => text.parse().ok().map(Scalar::Int),
        TypeRoot::Double => java_number::parse_double(text).map(Scalar::Double),
        _ => Some(Scalar::Text(text.clone())),
    };
    scalar
        .map(Some)
        .ok_or_else(|| Error::data(format!("JSON_VALUE: the default '{text}' is no {root}")))
}

fn collect(
    rows: usize,
    root: &TypeRoot,
    get: impl Fn(usize) -> Result<Option<Scalar>>,
) -> Result<ArrayRef> {
    match root {
        TypeRoot::Boolean => {
            let values = (0..rows).map(|row| {
                Ok(match get(row)? {
                    Some(Scalar::Boolean(value)) => Some(value),
                    _ => None,
                })
            });
            Ok(Arc::new(values.collect::<Result<BooleanArray>>()?))
        }
        TypeRoot::Int => {
            let values = (0..rows).map(|row| {
                Ok(match get(row)? {
                    Some(Scalar::Int(value)) => Some(value),
                    _ => None,
                })
            });
            Ok(Arc::new(values.collect::<Result<Int32Array>>()?))
        }
        TypeRoot::Double => {
            let values = (0..rows).map(|row| {
                Ok(match get(row)? {
                    Some(Scalar::Double(value)) => Some(value),
                    _ => None,
                })
            });
            Ok(Arc::new(values.collect::<Result<Float64Array>>()?))
        }
        _ => {
            let mut builder = StringBuilder::new();
            for row in 0..rows {
                match get(row)? {
                    Some(Scalar::Text(text)) => builder.append_value(text),
                    _ => builder.append_null(),
                }
            }
            Ok(Arc::new(builder.finish()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_big_decimals() {
        for (json, expected) in [
            ("1.50", "1.50"),
            ("1e10", "1E+10"),
            ("-1.5e3", "-1.5E+3"),
            ("1.50e1", "15.0"),
            ("15e-1", "1.5"),
            ("5e-3", "0.005"),
            ("12e-8", "1.2E-7"),
            ("12", "12"),
        ] {
            let number: serde_json::Number = serde_json::from_str(json).unwrap();
            assert_eq!(number_text(&number), expected, "{json}");
        }
    }

    #[test]
    fn paths_are_names_and_indices() {
        let path = Path::parse("strict $.a[2]['b c']").unwrap();
        assert!(path.is_strict);
        assert_eq!(
            path.steps,
            [
                PathStep::Name("a".into()),
                PathStep::Index(2),
                PathStep::Name("b c".into())
            ]
        );
        for bad in ["a", "$.", "$[x]", "$.*", "$..a"] {
            assert!(Path::parse(bad).is_err(), "{bad}");
        }
    }
}
