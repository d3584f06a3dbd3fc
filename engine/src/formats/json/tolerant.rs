//! The tolerant reader: any JSON document, one at a time, by Flink's rules and with words for what is wrong.
//!
//! It builds a small tree first, so that the last of several equal keys wins, an array of objects gives several rows, and a
//! bad document leaves nothing behind.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::JsonOptions;
use super::convert::{push_boolean, push_number};
use super::escape::{unescape, write_string};
use super::fast::is_number;
use crate::error::{Error, Result};
use crate::formats::columns::{Column, ColumnData};
use crate::formats::format::shortened;
use crate::formats::text_value::push_text;

/// Nesting that is read; Jackson's limit.
const DEEPEST: usize = 1000;

/// A JSON value, numbers as they are written.
enum Json<'a> {
    Null,
    Boolean(bool),
    Number(&'a str),
    String(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

/// Appends the rows of one document and says how many: none for `null` and blanks, one for an object, several for an array.
/// Text behind the document is ignored, as Flink ignores it. On an error the columns may differ in length.
pub(super) fn append_document(
    text: &[u8],
    names: &[String],
    columns: &mut [Column],
    options: &JsonOptions,
) -> Result<usize> {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    if text.iter().all(u8::is_ascii_whitespace) {
        return Ok(0);
    }
    let document = match parse(text) {
        Ok(document) => document,
        Err(_) if options.ignore_parse_errors => return Ok(0),
        Err(problem) => {
            return Err(Error::data(format!(
                "{problem} in the JSON document {}",
                shortened(&String::from_utf8_lossy(text))
            )));
        }
    };
    let Json::Array(elements) = &document else {
        return append_top(&document, "the JSON document", names, columns, options);
    };
    let mut rows = 0;
    for (index, element) in elements.iter().enumerate() {
        let place = format!("element {} of the JSON array", index + 1);
        rows += append_top(element, &place, names, columns, options)?;
    }
    Ok(rows)
}

fn append_top(
    value: &Json,
    place: &str,
    names: &[String],
    columns: &mut [Column],
    options: &JsonOptions,
) -> Result<usize> {
    match value {
        Json::Object(fields) => {
            append_fields(fields, names, columns, options, &mut String::new())?;
            Ok(1)
        }
        Json::Null => Ok(0),
        _ if options.ignore_parse_errors => Ok(0),
        other => Err(Error::data(format!(
            "{place} is not an object but {}",
            shortened(&json_text(other))
        ))),
    }
}

fn append_fields(
    fields: &[(Cow<str>, Json)],
    names: &[String],
    columns: &mut [Column],
    options: &JsonOptions,
    path: &mut String,
) -> Result<()> {
    for (name, column) in names.iter().zip(columns) {
        let parent = path.len();
        if parent > 0 {
            path.push('.');
        }
        path.push_str(name);
        match fields.iter().rev().find(|(key, _)| key == name) {
            Some((_, value)) => append(value, column, options, path)?,
            None if options.fail_on_missing_field => {
                return Err(Error::data(format!(
                    "field \"{path}\" of type {} is missing",
                    column.logical_type
                ))
                .hint("'json.fail-on-missing-field' = 'false' reads missing fields as NULL"));
            }
            None => column.push_null(),
        }
        path.truncate(parent);
    }
    Ok(())
}

fn append(
    value: &Json,
    column: &mut Column,
    options: &JsonOptions,
    path: &mut String,
) -> Result<()> {
    let appended = match value {
        Json::Null => {
            column.push_null();
            true
        }
        Json::Boolean(value) => push_boolean(column, *value),
        Json::Number(token) => push_number(column, token.as_bytes()),
        Json::String(text) => push_text(column, text.as_bytes(), &options.text),
        Json::Array(elements) => append_array(value, elements, column, options, path)?,
        Json::Object(fields) => append_object(value, fields, column, options, path)?,
    };
    if appended {
        return Ok(());
    }
    if options.ignore_parse_errors {
        column.push_null();
        return Ok(());
    }
    Err(Error::data(format!(
        "field \"{path}\": cannot read {} as {}",
        shortened(&json_text(value)),
        column.logical_type.root
    ))
    .hint("'json.ignore-parse-errors' = 'true' reads such a field as NULL"))
}

fn append_array(
    value: &Json,
    elements: &[Json],
    column: &mut Column,
    options: &JsonOptions,
    path: &mut String,
) -> Result<bool> {
    match &mut column.data {
        ColumnData::Text(texts) => texts.push(json_text(value).as_bytes()),
        ColumnData::List { offsets, element } => {
            for (index, value) in elements.iter().enumerate() {
                let parent = path.len();
                path.push_str(&format!("[{}]", index + 1));
                append(value, element, options, path)?;
                path.truncate(parent);
            }
            offsets.push(element.len() as i32);
        }
        _ => return Ok(false),
    }
    column.valid();
    Ok(true)
}

fn append_object(
    value: &Json,
    fields: &[(Cow<str>, Json)],
    column: &mut Column,
    options: &JsonOptions,
    path: &mut String,
) -> Result<bool> {
    match &mut column.data {
        ColumnData::Text(texts) => texts.push(json_text(value).as_bytes()),
        ColumnData::Row { names, columns } => {
            append_fields(fields, names, columns, options, path)?;
        }
        ColumnData::Map {
            offsets,
            key,
            value,
        } => {
            for (name, entry) in last_of_each(fields) {
                let parent = path.len();
                path.push_str(&format!("['{name}']"));
                append(
                    &Json::String(Cow::Borrowed(name.as_ref())),
                    key,
                    options,
                    path,
                )?;
                append(entry, value, options, path)?;
                path.truncate(parent);
            }
            offsets.push(key.len() as i32);
        }
        _ => return Ok(false),
    }
    column.valid();
    Ok(true)
}

/// The fields without those whose key comes again.
fn last_of_each<'f, 'a>(
    fields: &'f [(Cow<'a, str>, Json<'a>)],
) -> Vec<&'f (Cow<'a, str>, Json<'a>)> {
    let mut seen = BTreeSet::new();
    let mut last: Vec<_> = fields
        .iter()
        .rev()
        .filter(|(key, _)| seen.insert(key.as_ref()))
        .collect();
    last.reverse();
    last
}

/// A value as compact JSON.
fn json_text(value: &Json) -> String {
    let mut out = Vec::new();
    write_json(value, &mut out);
    String::from_utf8(out).expect("JSON is written from UTF-8")
}

fn write_json(value: &Json, out: &mut Vec<u8>) {
    match value {
        Json::Null => out.extend_from_slice(b"null"),
        Json::Boolean(true) => out.extend_from_slice(b"true"),
        Json::Boolean(false) => out.extend_from_slice(b"false"),
        Json::Number(token) => out.extend_from_slice(token.as_bytes()),
        Json::String(text) => write_string(text.as_bytes(), out),
        Json::Array(elements) => {
            out.push(b'[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_json(element, out);
            }
            out.push(b']');
        }
        Json::Object(fields) => {
            out.push(b'{');
            for (index, (key, value)) in last_of_each(fields).into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_string(key.as_bytes(), out);
                out.push(b':');
                write_json(value, out);
            }
            out.push(b'}');
        }
    }
}

/// Reads the first document of a text; the error says what is wrong and where.
fn parse(text: &[u8]) -> std::result::Result<Json<'_>, String> {
    let text = std::str::from_utf8(text)
        .map_err(|error| format!("byte {} is not UTF-8", error.valid_up_to() + 1))?;
    let mut parser = Parser { text, at: 0 };
    parser.value(0)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let blanks = rest
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
            .count();
        self.at += blanks;
        rest.get(blanks).copied()
    }

    fn unexpected<T>(&self, wanted: &str) -> std::result::Result<T, String> {
        match self.text[self.at..].chars().next() {
            Some(found) => Err(format!(
                "{found:?} at character {} where {wanted} should stand",
                self.text[..self.at].chars().count() + 1
            )),
            None => Err(format!("the end where {wanted} should stand")),
        }
    }

    fn value(&mut self, depth: usize) -> std::result::Result<Json<'a>, String> {
        if depth > DEEPEST {
            return Err(format!("more than {DEEPEST} levels of nesting"));
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => Ok(Json::String(self.string()?)),
            Some(b'-' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z') => self.word(),
            _ => self.unexpected("a value"),
        }
    }

    fn object(&mut self, depth: usize) -> std::result::Result<Json<'a>, String> {
        self.at += 1;
        let mut fields = Vec::new();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Json::Object(fields));
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.unexpected("a key");
            }
            let key = self.string()?;
            if self.peek() != Some(b':') {
                return self.unexpected("':'");
            }
            self.at += 1;
            fields.push((key, self.value(depth + 1)?));
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Json::Object(fields));
                }
                _ => return self.unexpected("',' or '}'"),
            }
        }
    }

    fn array(&mut self, depth: usize) -> std::result::Result<Json<'a>, String> {
        self.at += 1;
        let mut elements = Vec::new();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Json::Array(elements));
        }
        loop {
            elements.push(self.value(depth + 1)?);
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Json::Array(elements));
                }
                _ => return self.unexpected("',' or ']'"),
            }
        }
    }

    fn string(&mut self) -> std::result::Result<Cow<'a, str>, String> {
        let text = self.text;
        let start = self.at + 1;
        let bytes = text.as_bytes();
        let mut end = start;
        let mut escapes = false;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => {
                    escapes = true;
                    end += 2;
                }
                Some(_) => end += 1,
                None => {
                    self.at = text.len();
                    return self.unexpected("the end of a string");
                }
            }
        }
        let inside = &text[start..end];
        let value = if escapes {
            let mut value = Vec::new();
            unescape(inside.as_bytes(), &mut value)
                .ok_or_else(|| format!("a wrong escape in \"{}\"", shortened(inside)))?;
            Cow::Owned(String::from_utf8(value).expect("unescaping keeps UTF-8"))
        } else {
            Cow::Borrowed(inside)
        };
        self.at = end + 1;
        Ok(value)
    }

    fn word(&mut self) -> std::result::Result<Json<'a>, String> {
        let text = self.text;
        let rest = &text[self.at..];
        let length = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')))
            .unwrap_or(rest.len());
        let word = &rest[..length];
        let value = match word {
            "null" => Json::Null,
            "true" => Json::Boolean(true),
            "false" => Json::Boolean(false),
            _ if is_number(word.as_bytes()) => Json::Number(word),
            _ => return Err(format!("{word} is no JSON value")),
        };
        self.at += length;
        Ok(value)
    }
}
