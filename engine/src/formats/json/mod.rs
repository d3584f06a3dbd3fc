//! The `json` format: one JSON object a row, an array of objects several.
//!
//! Decoding goes from the positions of a SIMD scan straight into typed columns, only those that are read; a record of an
//! unusual kind goes to a tolerant reader, with the same result.

mod convert;
mod decoder;
mod encoder;
mod escape;
mod fast;
mod structure;
#[cfg(test)]
mod tests;
mod tolerant;

pub use decoder::JsonDecoder;
pub use encoder::JsonEncoder;

use super::format::{is_true, option};
use super::text_value::TextRules;
use super::time_text::TimestampStyle;
use super::{Decoder, Encoder, Format, FormatContext};
use crate::config::{OptionSpec, OptionType};
use crate::error::{Error, Result};
use crate::types::{LogicalType, TypeRoot};

/// `'format' = 'json'`.
#[derive(Debug, Clone, Copy, Default)]
pub struct JsonFormat;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "json.fail-on-missing-field",
        OptionType::Boolean,
        Some("false"),
        "Whether a missing field is an error; otherwise it is NULL.",
    ),
    OptionSpec::new(
        "json.ignore-parse-errors",
        OptionType::Boolean,
        Some("false"),
        "Whether a field that does not fit its type is NULL and a text that is no JSON is skipped; otherwise both are errors.",
    ),
    OptionSpec::new(
        "json.timestamp-format.standard",
        OptionType::Enum(&["SQL", "ISO-8601"]),
        Some("SQL"),
        "How timestamps are written: `2020-01-02 03:04:05.678` or `2020-01-02T03:04:05.678`; TIMESTAMP_LTZ with a `Z` behind.",
    ),
    OptionSpec::new(
        "json.map-null-key.mode",
        OptionType::Enum(&["FAIL", "DROP", "LITERAL"]),
        Some("FAIL"),
        "What writing a map with a NULL key does.",
    ),
    OptionSpec::new(
        "json.map-null-key.literal",
        OptionType::Text,
        Some("null"),
        "What stands for a NULL key in mode LITERAL.",
    ),
    OptionSpec::new(
        "json.encode.decimal-as-plain-number",
        OptionType::Boolean,
        Some("false"),
        "Whether small DECIMALs are written without an exponent.",
    ),
    OptionSpec::new(
        "json.encode.ignore-null-fields",
        OptionType::Boolean,
        Some("false"),
        "Whether NULL fields are left out when writing.",
    ),
    OptionSpec::new(
        "json.decode.json-parser.enabled",
        OptionType::Boolean,
        Some("true"),
        "Accepted for Flink's sake; there is one parser.",
    ),
];

/// What a map with a NULL key becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum MapNullKey {
    Fail,
    Drop,
    Literal(String),
}

/// The options of a table, read.
#[derive(Debug, Clone)]
struct JsonOptions {
    fail_on_missing_field: bool,
    ignore_parse_errors: bool,
    text: TextRules,
    map_null_key: MapNullKey,
    plain_decimals: bool,
    ignore_null_fields: bool,
}

impl JsonOptions {
    fn new(context: &FormatContext) -> Result<Self> {
        let options = &context.options;
        let parsed = JsonOptions {
            fail_on_missing_field: is_true(options, "json.fail-on-missing-field"),
            ignore_parse_errors: is_true(options, "json.ignore-parse-errors"),
            text: TextRules {
                timestamps: match option(options, "json.timestamp-format.standard") {
                    Some("ISO-8601") => TimestampStyle::Iso,
                    _ => TimestampStyle::Sql,
                },
                lenient: false,
            },
            map_null_key: match option(options, "json.map-null-key.mode") {
                Some("DROP") => MapNullKey::Drop,
                Some("LITERAL") => MapNullKey::Literal(
                    option(options, "json.map-null-key.literal")
                        .unwrap_or("null")
                        .to_string(),
                ),
                _ => MapNullKey::Fail,
            },
            plain_decimals: is_true(options, "json.encode.decimal-as-plain-number"),
            ignore_null_fields: is_true(options, "json.encode.ignore-null-fields"),
        };
        if parsed.fail_on_missing_field && parsed.ignore_parse_errors {
            return Err(Error::user(format!(
                "table \"{}\": 'json.fail-on-missing-field' and 'json.ignore-parse-errors' cannot both be true",
                context.table
            )));
        }
        for field in &context.physical.fields {
            check_type(&field.logical_type, &field.name, &context.table)?;
        }
        Ok(parsed)
    }
}

/// JSON has text keys only, so maps and multisets must have them too.
fn check_type(logical_type: &LogicalType, field: &str, table: &str) -> Result<()> {
    match &logical_type.root {
        TypeRoot::Map(key, _) | TypeRoot::Multiset(key) if !key.root.is_string() => {
            Err(Error::user(format!(
                "table \"{table}\": field \"{field}\" is {}; the keys of a map in JSON must be STRING, VARCHAR or CHAR",
                logical_type.root
            )))
        }
        TypeRoot::Map(_, value) => check_type(value, field, table),
        TypeRoot::Array(element) => check_type(element, field, table),
        TypeRoot::Row(fields) => fields
            .iter()
            .try_for_each(|inner| check_type(&inner.logical_type, field, table)),
        _ => Ok(()),
    }
}

impl Format for JsonFormat {
    fn identifier(&self) -> &'static str {
        "json"
    }

    fn options(&self) -> Vec<OptionSpec> {
        OPTIONS.to_vec()
    }

    fn decoder(&self, context: &FormatContext) -> Result<Box<dyn Decoder>> {
        Ok(Box::new(JsonDecoder::new(context)?))
    }

    fn encoder(&self, context: &FormatContext) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(JsonEncoder::new(context)?))
    }
}
