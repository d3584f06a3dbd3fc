//! Reads files of records block by block: a record cut by the end of a block waits for the next one.

use std::io::{ErrorKind, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::files::about;
use super::input::InputFile;
use super::location::{Location, TableFile};
use super::source::{Next, SplitReader};
use crate::connectors::SplitState;
use crate::connectors::source::PollRequest;
use crate::error::{Error, Result};
use crate::formats::Decoder;

/// Bytes that are read at once.
const BLOCK_BYTES: usize = 1 << 20;
/// The longest record.
const RECORD_BYTES: usize = 1 << 30;
/// Bytes of skipped records after which a poll ends without rows.
const SILENT_BYTES: usize = 16 << 20;

/// Where a file was read up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct TextPosition {
    /// Bytes before the next record.
    #[serde(default)]
    offset: u64,
    /// Lines before it.
    #[serde(default)]
    line: u64,
    /// The length of the file, where finding it has told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

/// Reads text files through a decoder.
pub(super) struct TextReader {
    decoder: Box<dyn Decoder>,
    file: Option<OpenFile>,
    /// What was read and not decoded stands at `start .. end`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

struct OpenFile {
    id: String,
    file: InputFile,
    position: TextPosition,
    is_at_end: bool,
}

impl TextReader {
    pub(super) fn new(decoder: Box<dyn Decoder>) -> Self {
        TextReader {
            decoder,
            file: None,
            buffer: Vec::new(),
            start: 0,
            end: 0,
        }
    }

    /// Decodes from the buffer, at most so many bytes; where they hold no whole record, more until there is one, unless there
    /// are rows already. False where nothing was decoded.
    fn decode(&mut self, rows: usize, bytes: usize) -> Result<bool> {
        let open = self.file.as_mut().expect("poll opens a file first");
        let available = self.end - self.start;
        let mut window = bytes.clamp(1, available.max(1)).min(available);
        loop {
            let block = &mut self.buffer[self.start..self.start + window];
            let is_last = open.is_at_end && window == available;
            let decoded = self
                .decoder
                .decode_block(block, is_last, rows)
                .map_err(|error| {
                    let line = open.position.line + self.decoder.lines_before_error() as u64 + 1;
                    error.prefixed(&format!("file {}, line {line}: ", open.id))
                })?;
            if decoded.bytes > 0 {
                self.start += decoded.bytes;
                open.position.offset += decoded.bytes as u64;
                open.position.line += decoded.lines as u64;
                return Ok(true);
            }
            assert!(
                available == 0 || !is_last,
                "a decoder takes all of the last block"
            );
            if window == available || self.decoder.rows() > 0 {
                return Ok(false);
            }
            window = (2 * window).min(available);
        }
    }

    /// Reads more behind what is left.
    fn fill(&mut self) -> Result<()> {
        let open = self.file.as_mut().expect("poll opens a file first");
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end > RECORD_BYTES {
            return Err(Error::data(format!(
                "file {}, line {}: a record of more than 1 GiB",
                open.id,
                open.position.line + 1
            )));
        }
        if self.buffer.len() < self.end + BLOCK_BYTES {
            // Doubling keeps the copies of a very long record few.
            self.buffer
                .resize((self.end + BLOCK_BYTES).max(2 * self.end), 0);
        }
        let read = loop {
            match open.file.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other.map_err(|error| read_error(&open.id, error))?,
            }
        };
        open.is_at_end = read == 0;
        self.end += read;
        Ok(())
    }
}

impl SplitReader for TextReader {
    fn open(&mut self, split: &SplitState, location: &Location) -> Result<()> {
        let position: TextPosition = match &split.position {
            serde_json::Value::Null => TextPosition::default(),
            position => serde_json::from_value(position.clone()).map_err(|error| {
                Error::internal(format!(
                    "the position of file {} is wrong: {error}",
                    split.id
                ))
            })?,
        };
        let mut file = location.open(&TableFile {
            id: split.id.clone(),
            bytes: position.bytes,
        })?;
        let length = file.length();
        if length < position.offset {
            return Err(Error::external(format!(
                "file {} has {length} bytes, but was read up to byte {}: it was replaced",
                split.id, position.offset
            )));
        }
        file.seek_to(position.offset)
            .map_err(|error| about(Path::new(&split.id), &error))?;
        if position.offset == 0 {
            self.decoder.begin_file();
        }
        (self.start, self.end) = (0, 0);
        self.file = Some(OpenFile {
            id: split.id.clone(),
            file,
            position,
            is_at_end: false,
        });
        Ok(())
    }

    fn next(&mut self, request: &PollRequest) -> Result<Next> {
        let mut taken = 0;
        loop {
            let rows = request.max_rows.max(1).saturating_sub(self.decoder.rows());
            let budget = request.max_bytes.saturating_sub(taken);
            if rows == 0 || (budget == 0 && self.decoder.rows() > 0) {
                break;
            }
            if taken > SILENT_BYTES {
                return Ok(Next::Nothing);
            }
            let before = self.start;
            if self.decode(rows, budget)? {
                taken += self.start - before;
            } else if self.is_at_end()
                || (self.decoder.rows() > 0 && self.end - self.start >= budget)
            {
                // The file has ended, or what is left of the bytes asked for holds no whole record.
                break;
            } else {
                self.fill()?;
            }
        }
        if self.decoder.rows() == 0 {
            return Ok(Next::End);
        }
        let (rows, kinds) = self.decoder.finish()?;
        Ok(Next::Rows(rows, kinds))
    }

    fn position(&self) -> SplitState {
        let open = self
            .file
            .as_ref()
            .expect("only an open split has a position");
        SplitState {
            id: open.id.clone(),
            position: serde_json::to_value(open.position).expect("two numbers are JSON"),
        }
    }
}

impl TextReader {
    fn is_at_end(&self) -> bool {
        self.file.as_ref().is_some_and(|open| open.is_at_end) && self.start == self.end
    }
}

/// What reading gave, in the store's own words where it has some.
fn read_error(id: &str, error: std::io::Error) -> Error {
    match error.downcast::<Error>() {
        Ok(own) => own,
        Err(error) => about(Path::new(id), &error),
    }
}
