//! Decodes CSV: records by position into the columns that are read.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;

use super::CsvOptions;
use super::record::{CsvField, Record, RecordEnd};
use crate::error::{Error, Result};
use crate::formats::columns::{Column, ColumnData};
use crate::formats::format::{Decoded, shortened};
use crate::formats::number_text::trim;
use crate::formats::text_value::{TextRules, push_text};
use crate::formats::time_text::TimestampStyle;
use crate::formats::{Decoder, FormatContext};
use crate::types::RowKinds;

const RULES: TextRules = TextRules {
    timestamps: TimestampStyle::Sql,
    lenient: true,
};

/// The decoder of `csv`.
pub struct CsvDecoder {
    table: String,
    options: CsvOptions,
    schema: SchemaRef,
    /// How many fields a record has.
    arity: usize,
    /// Which field each column reads.
    places: Vec<usize>,
    names: Vec<String>,
    columns: Vec<Column>,
    rows: usize,
    record: Record,
    /// Whether the next block begins with a header.
    expects_header: bool,
    lines_before_error: usize,
}

impl CsvDecoder {
    /// A decoder of the projected columns. Fails on delimiters of several characters and on types that CSV cannot hold.
    pub fn new(context: &FormatContext) -> Result<Self> {
        let schema = context.schema();
        Ok(CsvDecoder {
            table: context.table.clone(),
            options: CsvOptions::new(context)?,
            schema: schema.to_arrow(),
            arity: context.physical.len(),
            places: context.projection.clone(),
            names: schema.names().map(str::to_string).collect(),
            columns: schema
                .fields
                .iter()
                .map(|field| Column::new(&field.logical_type))
                .collect(),
            rows: 0,
            record: Record::default(),
            expects_header: false,
            lines_before_error: 0,
        })
    }

    /// Appends the record that was cut from `text`.
    fn append(&mut self, text: &[u8]) -> Result<()> {
        let appended = self
            .check_length(text)
            .and_then(|()| self.append_fields(text));
        match appended {
            Ok(()) => {
                self.rows += 1;
                Ok(())
            }
            Err(error) => {
                for column in &mut self.columns {
                    column.truncate(self.rows);
                }
                match error {
                    Problem::Skipped => Ok(()),
                    Problem::Wrong(error) => Err(self.about(error)),
                }
            }
        }
    }

    fn about(&self, error: Error) -> Error {
        error.prefixed(&format!("table \"{}\": ", self.table))
    }

    fn check_length(&self, text: &[u8]) -> std::result::Result<(), Problem> {
        let (found, wanted) = (self.record.len(), self.arity);
        let trailing = self.options.allow_trailing_delimiter
            && found == wanted + 1
            && self.record.field(text, wanted).text.is_empty();
        if found == wanted || trailing || (found > wanted && self.options.ignore_trailing) {
            return Ok(());
        }
        // Lenient reading fills up a short record; one that is too long is no record of this table.
        match (self.options.ignore_parse_errors, found < wanted) {
            (true, true) => Ok(()),
            (true, false) => Err(Problem::Skipped),
            (false, _) => Err(Problem::Wrong(
                Error::data(format!(
                    "a record has {found} fields where the table has {wanted} columns: {}",
                    shortened(&String::from_utf8_lossy(self.record.field(text, 0).text))
                ))
                .hint("check 'csv.field-delimiter'; 'csv.ignore-parse-errors' = 'true' reads such records as far as they go"),
            )),
        }
    }

    fn append_fields(&mut self, text: &[u8]) -> std::result::Result<(), Problem> {
        for ((column, place), name) in self.columns.iter_mut().zip(&self.places).zip(&self.names) {
            if *place >= self.record.len() {
                column.push_null();
                continue;
            }
            let field = self.record.field(text, *place);
            if !append_value(column, field, &self.options) {
                if !self.options.ignore_parse_errors {
                    return Err(Problem::Wrong(misread(column, name, field)));
                }
                column.push_null();
            }
        }
        Ok(())
    }

    /// Skips comments and the header; gives the place that it reached, and whether a record stands there rather than a line
    /// that is cut.
    fn skip_to_record(&mut self, text: &[u8], start: usize, is_last: bool) -> (usize, bool) {
        let mut at = start;
        loop {
            if self.options.allow_comments && text.get(at) == Some(&b'#') {
                match memchr::memchr(b'\n', &text[at..]) {
                    Some(end) => at += end + 1,
                    None if is_last => at = text.len(),
                    None => return (at, false),
                }
            } else if self.expects_header && at < text.len() {
                match self.record.read(text, at, is_last, &self.options) {
                    RecordEnd::Cut => return (at, false),
                    RecordEnd::Whole(end) | RecordEnd::Broken(end, _) => at = end,
                }
                self.expects_header = false;
            } else {
                return (at, at < text.len());
            }
        }
    }

    fn append_or_skip(&mut self, text: &[u8], end: &RecordEnd) -> Result<()> {
        match end {
            RecordEnd::Whole(_) => self.append(text),
            RecordEnd::Broken(..) if self.options.ignore_parse_errors => Ok(()),
            RecordEnd::Broken(end, problem) => {
                let text = &text[..*end];
                let line = memchr::memrchr(b'\n', text.trim_ascii_end());
                let record = String::from_utf8_lossy(&text[line.map_or(0, |line| line + 1)..]);
                Err(self.about(Error::data(format!(
                    "{problem} in the record {}",
                    shortened(record.trim_end())
                ))))
            }
            RecordEnd::Cut => unreachable!("a cut record waits for the rest"),
        }
    }
}

enum Problem {
    /// The record is left out.
    Skipped,
    Wrong(Error),
}

fn misread(column: &Column, name: &str, field: CsvField) -> Error {
    let text = String::from_utf8_lossy(field.text);
    let what = match text.as_ref() {
        "" => "empty text".to_string(),
        text => format!("'{}'", shortened(text)),
    };
    Error::data(format!(
        "column \"{name}\": cannot read {what} as {}",
        column.logical_type.root
    ))
    .hint("'csv.null-literal' names the text that stands for NULL; 'csv.ignore-parse-errors' = 'true' reads such a field as NULL")
}

/// Appends a field. False where the type cannot read it; then nothing was appended.
fn append_value(column: &mut Column, field: CsvField, options: &CsvOptions) -> bool {
    if is_null(field.text, options) {
        column.push_null();
        return true;
    }
    match &mut column.data {
        ColumnData::List { offsets, element } => {
            for text in elements(field.text, options) {
                if !append_element(element, text, options) {
                    element.truncate(*offsets.last().expect("offsets begin with 0") as usize);
                    return false;
                }
            }
            offsets.push(element.len() as i32);
        }
        ColumnData::Row { columns, .. } => {
            let rows = columns.first().map_or(0, Column::len);
            if !append_row(columns, field.text, options) {
                columns.iter_mut().for_each(|column| column.truncate(rows));
                return false;
            }
        }
        ColumnData::Text(_) if std::str::from_utf8(field.text).is_err() => return false,
        _ => return push_text(column, field.text, &RULES),
    }
    column.valid();
    true
}

fn append_row(columns: &mut [Column], text: &[u8], options: &CsvOptions) -> bool {
    let texts = elements(text, options);
    if texts.len() != columns.len() && !options.ignore_parse_errors {
        return false;
    }
    columns
        .iter_mut()
        .enumerate()
        .all(|(index, column)| match texts.get(index) {
            Some(text) => append_element(column, text, options),
            None => {
                column.push_null();
                true
            }
        })
}

fn append_element(column: &mut Column, text: &[u8], options: &CsvOptions) -> bool {
    let is_text = matches!(column.data, ColumnData::Text(_));
    if is_null(text, options) {
        column.push_null();
        return true;
    }
    if (!is_text || std::str::from_utf8(text).is_ok()) && push_text(column, text, &RULES) {
        return true;
    }
    if options.ignore_parse_errors {
        column.push_null();
    }
    options.ignore_parse_errors
}

fn is_null(text: &[u8], options: &CsvOptions) -> bool {
    (options.empty_as_null && text.is_empty())
        || options
            .null_literal
            .as_ref()
            .is_some_and(|literal| literal.as_bytes() == text)
}

/// The elements of an array; an empty text has none.
fn elements<'a>(text: &'a [u8], options: &CsvOptions) -> Vec<&'a [u8]> {
    let delimiter = options.element_delimiter.as_bytes();
    if text.is_empty() {
        return Vec::new();
    }
    let mut elements = Vec::new();
    let mut rest = text;
    if !delimiter.is_empty() {
        while let Some(at) = memchr::memmem::find(rest, delimiter) {
            elements.push(&rest[..at]);
            rest = &rest[at + delimiter.len()..];
        }
    }
    elements.push(rest);
    if options.trim_spaces {
        elements
            .iter_mut()
            .for_each(|element| *element = trim(element));
    }
    elements
}

impl Decoder for CsvDecoder {
    fn decode_message(&mut self, message: &[u8]) -> Result<()> {
        let (start, is_there) = self.skip_to_record(message, 0, true);
        if !is_there {
            return Ok(());
        }
        let end = self.record.read(message, start, true, &self.options);
        self.append_or_skip(message, &end)
    }

    fn decode_block(
        &mut self,
        block: &mut [u8],
        is_last: bool,
        max_rows: usize,
    ) -> Result<Decoded> {
        let text: &[u8] = block;
        let most_rows = self.rows.saturating_add(max_rows);
        let mut done = Decoded { bytes: 0, lines: 0 };
        while self.rows < most_rows && done.bytes < text.len() {
            let (start, is_there) = self.skip_to_record(text, done.bytes, is_last);
            let skipped = memchr::memchr_iter(b'\n', &text[done.bytes..start]).count();
            done.bytes = start;
            done.lines += skipped;
            if !is_there {
                break;
            }
            let end = self.record.read(text, start, is_last, &self.options);
            let (RecordEnd::Whole(behind) | RecordEnd::Broken(behind, _)) = end else {
                break;
            };
            if let Err(error) = self.append_or_skip(text, &end) {
                self.lines_before_error = done.lines;
                return Err(error);
            }
            let record = &text[start..behind];
            // The last line may end without a line feed, or (on old systems) with a carriage return.
            let feeds = memchr::memchr_iter(b'\n', record).count();
            done.lines += feeds + usize::from(record.last() != Some(&b'\n'));
            done.bytes = behind;
        }
        Ok(done)
    }

    fn begin_file(&mut self) {
        self.expects_header = self.options.ignore_first_line;
    }

    fn lines_before_error(&self) -> usize {
        self.lines_before_error
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn finish(&mut self) -> Result<(RecordBatch, RowKinds)> {
        let columns = self
            .columns
            .iter_mut()
            .map(Column::take)
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        Ok((batch, RowKinds::INSERT_ONLY))
    }
}
