//! The `csv` format: one record a row, columns by position, quoting as Jackson's CSV module does it (Flink uses that).

mod decoder;
mod encoder;
mod record;
#[cfg(test)]
mod tests;

pub use decoder::CsvDecoder;
pub use encoder::CsvEncoder;

use super::format::{is_true, option};
use super::{Decoder, Encoder, Format, FormatContext};
use crate::config::{OptionSpec, OptionType};
use crate::error::{Error, Result};
use crate::types::{LogicalType, TypeRoot};

/// `'format' = 'csv'`.
#[derive(Debug, Clone, Copy, Default)]
pub struct CsvFormat;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new(
        "csv.field-delimiter",
        OptionType::Text,
        Some(","),
        "The character between fields; `\\t` and the like are understood.",
    ),
    OptionSpec::new(
        "csv.disable-quote-character",
        OptionType::Boolean,
        Some("false"),
        "Whether quotes are characters like others.",
    ),
    OptionSpec::new(
        "csv.quote-character",
        OptionType::Text,
        Some("\""),
        "The character around fields that hold delimiters, line ends or quotes; a quote inside is doubled.",
    ),
    OptionSpec::new(
        "csv.escape-character",
        OptionType::Text,
        None,
        "A character that takes the meaning from the one behind it.",
    ),
    OptionSpec::new(
        "csv.allow-comments",
        OptionType::Boolean,
        Some("false"),
        "Whether lines that begin with `#` are skipped.",
    ),
    OptionSpec::new(
        "csv.ignore-parse-errors",
        OptionType::Boolean,
        Some("false"),
        "Whether a field that does not fit its type is NULL and a broken record is skipped; otherwise both are errors.",
    ),
    OptionSpec::new(
        "csv.array-element-delimiter",
        OptionType::Text,
        Some(";"),
        "What stands between the elements of an ARRAY or the fields of a ROW.",
    ),
    OptionSpec::new(
        "csv.null-literal",
        OptionType::Text,
        None,
        "The text that is read and written for NULL. Without it nothing is read as NULL, and NULL is written as an empty field.",
    ),
    OptionSpec::new(
        "csv.write-bigdecimal-in-scientific-notation",
        OptionType::Boolean,
        Some("true"),
        "Whether very small DECIMALs are written with an exponent.",
    ),
    OptionSpec::new(
        "csv.trim-spaces",
        OptionType::Boolean,
        Some("false"),
        "Whether blanks around fields without quotes are dropped when reading.",
    ),
    OptionSpec::new(
        "csv.ignore-trailing-unmappable",
        OptionType::Boolean,
        Some("false"),
        "Whether fields behind the last column are ignored; otherwise they are an error.",
    ),
    OptionSpec::new(
        "csv.allow-trailing-comma",
        OptionType::Boolean,
        Some("true"),
        "Whether a record may end with a delimiter.",
    ),
    OptionSpec::new(
        "csv.empty-string-as-null",
        OptionType::Boolean,
        Some("false"),
        "Whether an empty field is NULL.",
    ),
    OptionSpec::new(
        "csv.ignore-first-line",
        OptionType::Boolean,
        Some("false"),
        "Whether the first record of a file is skipped (a header).",
    ),
];

/// The options of a table, read.
#[derive(Debug, Clone)]
struct CsvOptions {
    delimiter: u8,
    quote: Option<u8>,
    escape: Option<u8>,
    allow_comments: bool,
    ignore_parse_errors: bool,
    element_delimiter: String,
    null_literal: Option<String>,
    plain_decimals: bool,
    trim_spaces: bool,
    ignore_trailing: bool,
    allow_trailing_delimiter: bool,
    empty_as_null: bool,
    ignore_first_line: bool,
}

impl CsvOptions {
    fn new(context: &FormatContext) -> Result<Self> {
        let options = &context.options;
        let character = |key| {
            option(options, key)
                .map(|text| character(text, key, &context.table))
                .transpose()
        };
        let without_quotes = is_true(options, "csv.disable-quote-character");
        let quote = character("csv.quote-character")?;
        if without_quotes && quote.is_some() {
            return Err(Error::user(format!(
                "table \"{}\": 'csv.quote-character' cannot be set where 'csv.disable-quote-character' is true",
                context.table
            )));
        }
        for field in &context.physical.fields {
            check_type(&field.logical_type, false).map_err(|error| {
                error.prefixed(&format!(
                    "table \"{}\": column \"{}\": ",
                    context.table, field.name
                ))
            })?;
        }
        Ok(CsvOptions {
            delimiter: character("csv.field-delimiter")?.unwrap_or(b','),
            quote: (!without_quotes).then_some(quote.unwrap_or(b'"')),
            escape: character("csv.escape-character")?,
            allow_comments: is_true(options, "csv.allow-comments"),
            ignore_parse_errors: is_true(options, "csv.ignore-parse-errors"),
            element_delimiter: option(options, "csv.array-element-delimiter")
                .unwrap_or(";")
                .to_string(),
            null_literal: option(options, "csv.null-literal").map(str::to_string),
            plain_decimals: option(options, "csv.write-bigdecimal-in-scientific-notation")
                == Some("false"),
            trim_spaces: is_true(options, "csv.trim-spaces"),
            ignore_trailing: is_true(options, "csv.ignore-trailing-unmappable"),
            allow_trailing_delimiter: option(options, "csv.allow-trailing-comma") != Some("false"),
            empty_as_null: is_true(options, "csv.empty-string-as-null"),
            ignore_first_line: is_true(options, "csv.ignore-first-line"),
        })
    }
}

/// A single character, which may be written as Java writes it in source.
fn character(text: &str, key: &str, table: &str) -> Result<u8> {
    let plain = match text {
        "\\t" => "\t",
        "\\\\" => "\\",
        "\\0" | "\\u0000" => "\0",
        "\\u0001" => "\u{1}",
        other => other,
    };
    match plain.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'\n' | b'\r') => Ok(*byte),
        _ => Err(Error::user(format!(
            "table \"{table}\": '{text}' is no value for the option '{key}': it must be one ASCII character, and no line end"
        ))),
    }
}

/// CSV holds flat values, and arrays and rows of flat values.
fn check_type(logical_type: &LogicalType, nested: bool) -> Result<()> {
    match &logical_type.root {
        TypeRoot::Time(precision) if *precision > 3 => Err(Error::unsupported(format!(
            "TIME({precision}) in CSV (its precision ends at 3)"
        ))),
        TypeRoot::Array(element) if !nested => check_type(element, true),
        TypeRoot::Row(fields) if !nested => fields
            .iter()
            .try_for_each(|field| check_type(&field.logical_type, true)),
        TypeRoot::Array(_) | TypeRoot::Row(_) => Err(Error::unsupported(format!(
            "{} inside of an ARRAY or a ROW in CSV",
            logical_type.root
        ))),
        TypeRoot::Map(..) | TypeRoot::Multiset(_) => {
            Err(Error::unsupported(format!("{} in CSV", logical_type.root)))
        }
        _ => Ok(()),
    }
}

impl Format for CsvFormat {
    fn identifier(&self) -> &'static str {
        "csv"
    }

    fn options(&self) -> Vec<OptionSpec> {
        OPTIONS.to_vec()
    }

    fn decoder(&self, context: &FormatContext) -> Result<Box<dyn Decoder>> {
        Ok(Box::new(CsvDecoder::new(context)?))
    }

    fn encoder(&self, context: &FormatContext) -> Result<Box<dyn Encoder>> {
        Ok(Box::new(CsvEncoder::new(context)?))
    }
}
