//! Decodes JSON: cuts blocks into chunks and lines, and lets the fast reader try each before the tolerant one.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::JsonOptions;
use super::fast::{FastReader, KeyOrder};
use super::structure::Structure;
use super::tolerant::append_document;
use crate::error::Result;
use crate::formats::columns::Column;
use crate::formats::format::Decoded;
use crate::formats::{Decoder, FormatContext};
use crate::types::RowKinds;

/// Bytes that are scanned at once: the text and its structure should stay in the cache between the two passes.
const CHUNK_BYTES: usize = 64 << 10;

/// The decoder of `json`.
pub struct JsonDecoder {
    table: String,
    options: JsonOptions,
    schema: SchemaRef,
    names: Vec<String>,
    columns: Vec<Column>,
    rows: usize,
    order: KeyOrder,
    structure: Structure,
    message: Vec<u8>,
    scratch: Vec<u8>,
    lines_before_error: usize,
}

/// A part of a block: whole lines.
struct Chunk {
    start: usize,
    end: usize,
}

impl JsonDecoder {
    /// A decoder of the projected columns. Fails on options that exclude each other and on maps without text keys.
    pub fn new(context: &FormatContext) -> Result<Self> {
        let schema = context.schema();
        Ok(JsonDecoder {
            table: context.table.clone(),
            options: JsonOptions::new(context)?,
            schema: schema.to_arrow(),
            names: schema.names().map(str::to_string).collect(),
            columns: schema
                .fields
                .iter()
                .map(|field| Column::new(&field.logical_type))
                .collect(),
            rows: 0,
            order: KeyOrder::default(),
            structure: Structure::new(),
            message: Vec::new(),
            scratch: Vec::new(),
            lines_before_error: 0,
        })
    }

    /// Appends the record whose brace stands at `at` of the scanned structure of `text`; gives the place behind it, or `None`
    /// with nothing appended.
    fn try_fast(&mut self, text: &[u8], at: usize) -> Option<usize> {
        let mut reader = FastReader {
            text,
            positions: self.structure.positions(),
            options: &self.options,
            scratch: &mut self.scratch,
        };
        let behind = reader.record(
            at,
            &self.names,
            &mut self.columns,
            &mut self.order,
            self.rows,
        );
        match behind {
            Some(_) => self.rows += 1,
            None => self.take_back(),
        }
        behind
    }

    fn take_back(&mut self) {
        for column in &mut self.columns {
            column.truncate(self.rows);
        }
    }

    fn append_tolerant(&mut self, text: &[u8]) -> Result<()> {
        match append_document(text, &self.names, &mut self.columns, &self.options) {
            Ok(rows) => {
                self.rows += rows;
                Ok(())
            }
            Err(error) => {
                self.take_back();
                Err(error.prefixed(&format!("table \"{}\": ", self.table)))
            }
        }
    }

    /// Decodes whole lines up to `most_rows` rows in all.
    fn decode_chunk(
        &mut self,
        block: &mut [u8],
        chunk: Chunk,
        most_rows: usize,
        done: &mut Decoded,
    ) -> Result<()> {
        let text = &mut block[chunk.start..];
        let length = chunk.end - chunk.start;
        if text.first() == Some(&b'{') && self.structure.scan(text, length) {
            return self.decode_scanned(&text[..length], most_rows, done);
        }
        // Some line is odd, or the first one does not begin with its brace: line by line.
        let mut start = 0;
        while start < length && self.rows < most_rows {
            let end = line_end(&text[start..length]).map_or(length, |end| start + end);
            self.decode_line(&mut text[start..], end - start)?;
            start = end + usize::from(end < length);
            done.bytes = chunk.start + start;
            done.lines += 1;
        }
        Ok(())
    }

    fn decode_scanned(&mut self, text: &[u8], most_rows: usize, done: &mut Decoded) -> Result<()> {
        let base = done.bytes;
        let (mut at, mut line_start) = (0, 0);
        while self.rows < most_rows {
            let Some(position) = self.structure.positions().get(at).copied() else {
                // Nothing but blank lines is left.
                done.lines += count_lines(&text[line_start..]);
                done.bytes = base + text.len();
                return Ok(());
            };
            let position = position as usize;
            if position > line_start && text[line_start] <= b' ' {
                let blank = memchr::memrchr(b'\n', &text[line_start..position]);
                if let Some(last) = blank {
                    done.lines += count_lines(&text[line_start..=line_start + last]);
                    line_start += last + 1;
                }
            }
            let fast = match text[position] {
                b'{' => self.try_fast_line(text, at),
                _ => None,
            };
            let line_behind = match fast {
                Some((behind, line_behind)) => {
                    at = behind;
                    line_behind
                }
                None => {
                    let end =
                        line_end(&text[line_start..]).map_or(text.len(), |end| line_start + end);
                    self.append_tolerant(&text[line_start..end])?;
                    let positions = &self.structure.positions()[at..];
                    at += positions.partition_point(|position| (*position as usize) < end);
                    (end + 1).min(text.len())
                }
            };
            line_start = line_behind;
            done.lines += 1;
            done.bytes = base + line_start;
        }
        Ok(())
    }

    /// Appends the record at `at` if it is the only thing on its line; gives the next structural place and the next line.
    fn try_fast_line(&mut self, text: &[u8], at: usize) -> Option<(usize, usize)> {
        let behind = self.try_fast(text, at)?;
        let positions = self.structure.positions();
        let close = positions[behind - 1] as usize;
        if text.get(close + 1) == Some(&b'\n') {
            return Some((behind, close + 2));
        }
        let next = positions
            .get(behind)
            .map_or(text.len(), |next| *next as usize);
        match memchr::memchr(b'\n', &text[close + 1..next]) {
            Some(end) => Some((behind, close + 1 + end + 1)),
            None if next == text.len() => Some((behind, text.len())),
            None => {
                // Something stands behind the record on its line.
                self.rows -= 1;
                self.take_back();
                None
            }
        }
    }

    /// Decodes one document, `text[..length]`.
    fn decode_line(&mut self, text: &mut [u8], length: usize) -> Result<()> {
        if length > 0 && text[0] == b'{' && self.structure.scan(text, length) {
            let whole = self.try_fast(&text[..length], 0);
            match whole {
                Some(behind) if behind == self.structure.positions().len() => return Ok(()),
                Some(_) => {
                    self.rows -= 1;
                    self.take_back();
                }
                None => {}
            }
        }
        self.append_tolerant(&text[..length])
    }
}

fn line_end(text: &[u8]) -> Option<usize> {
    memchr::memchr(b'\n', text)
}

/// Lines that a text holds, the last one with or without its line feed.
fn count_lines(text: &[u8]) -> usize {
    let ended = memchr::memchr_iter(b'\n', text).count();
    ended + usize::from(text.last().is_some_and(|last| *last != b'\n'))
}

/// The next lines of `block` from `start` on that are scanned at once; `None` where no whole line is there.
fn next_chunk(block: &[u8], start: usize, is_last: bool) -> Option<Chunk> {
    let rest = &block[start..];
    let window = &rest[..rest.len().min(CHUNK_BYTES)];
    let length = match memchr::memrchr(b'\n', window) {
        Some(last) if !(is_last && window.len() == rest.len()) => last + 1,
        None if window.len() < rest.len() => match line_end(rest) {
            Some(end) => end + 1,
            None if is_last => rest.len(),
            None => return None,
        },
        _ if is_last => rest.len(),
        _ => return None,
    };
    (length > 0).then_some(Chunk {
        start,
        end: start + length,
    })
}

impl Decoder for JsonDecoder {
    fn decode_message(&mut self, message: &[u8]) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.message);
        buffer.clear();
        buffer.extend_from_slice(message);
        let length = buffer.len();
        let decoded = self.decode_line(&mut buffer, length);
        self.message = buffer;
        decoded
    }

    fn decode_block(
        &mut self,
        block: &mut [u8],
        is_last: bool,
        max_rows: usize,
    ) -> Result<Decoded> {
        let most_rows = self.rows.saturating_add(max_rows);
        let mut done = Decoded { bytes: 0, lines: 0 };
        while self.rows < most_rows
            && let Some(chunk) = next_chunk(block, done.bytes, is_last)
        {
            if let Err(error) = self.decode_chunk(block, chunk, most_rows, &mut done) {
                self.lines_before_error = done.lines;
                return Err(error);
            }
        }
        Ok(done)
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
            .zip(&self.names)
            .map(|(column, name)| {
                column
                    .take()
                    .map_err(|error| error.prefixed(&format!("field \"{name}\": ")))
            })
            .collect::<Result<Vec<_>>>()
            .map_err(|error| error.prefixed(&format!("table \"{}\": ", self.table)))?;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(self.rows));
        self.rows = 0;
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?;
        Ok((batch, RowKinds::INSERT_ONLY))
    }
}
