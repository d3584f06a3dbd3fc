//! The contract of a format: a decoder appends records to builders, an encoder writes rows as records.

use std::collections::BTreeMap;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{
    TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
};

use crate::config::OptionSpec;
use crate::error::{Error, Result};
use crate::types::{RowKinds, Schema};

/// One format, found by `'format' = '…'`.
pub trait Format: Send + Sync {
    /// The value of the `format` option.
    fn identifier(&self) -> &'static str;

    /// Its options with their prefix, such as `json.ignore-parse-errors`.
    fn options(&self) -> Vec<OptionSpec>;

    /// A decoder that gives the columns of `context.schema`.
    fn decoder(&self, context: &FormatContext) -> Result<Box<dyn Decoder>>;

    /// An encoder of rows with the columns of `context.schema`.
    fn encoder(&self, context: &FormatContext) -> Result<Box<dyn Encoder>>;
}

/// What a format must know of its table.
#[derive(Debug, Clone)]
pub struct FormatContext {
    /// The table's name, for messages.
    pub table: String,
    /// All physical columns as declared (CSV goes by position).
    pub physical: Schema,
    /// Which of them to give, in this order.
    pub projection: Vec<usize>,
    /// The table's options.
    pub options: BTreeMap<String, String>,
    /// `table.local-time-zone`.
    pub time_zone: String,
}

impl FormatContext {
    /// The schema of decoded batches.
    pub fn schema(&self) -> Schema {
        self.physical.project(&self.projection)
    }
}

/// Turns records into batches.
pub trait Decoder: Send {
    /// Decodes one message (a Kafka record, a test payload) and appends its rows. An error of the data names the field; the
    /// caller adds where the message came from.
    fn decode_message(&mut self, message: &[u8]) -> Result<()>;

    /// Decodes records of a file from the front of `block`, as many whole ones as it holds (all of it where `is_last`), and says
    /// how many bytes it took. It stops at `max_rows`; only a single record of several rows may pass it. A block without a
    /// whole record takes no bytes: the caller adds to it. An error of the data names table and field; the caller adds file
    /// and line, with [`Decoder::lines_before_error`].
    fn decode_block(&mut self, block: &mut [u8], is_last: bool, max_rows: usize)
    -> Result<Decoded>;

    /// Says that the next block begins a file (a place to skip what stands only there).
    fn begin_file(&mut self) {}

    /// Lines that the last [`Decoder::decode_block`] had done when it failed.
    fn lines_before_error(&self) -> usize {
        0
    }

    /// Rows appended since the last [`Decoder::finish`].
    fn rows(&self) -> usize;

    /// The rows so far as a batch, with their kinds; the decoder goes on empty.
    fn finish(&mut self) -> Result<(RecordBatch, RowKinds)>;
}

/// How far [`Decoder::decode_block`] came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes taken from the front of the block.
    pub bytes: usize,
    /// Lines among them, those of skipped records included, for messages.
    pub lines: usize,
}

/// Turns rows into records.
pub trait Encoder: Send {
    /// Appends one record a row, each with the format's own terminator (a line feed for JSON and CSV).
    fn encode(&mut self, rows: &RecordBatch, kinds: &RowKinds, out: &mut Vec<u8>) -> Result<()>;
}

/// Refuses changes that a format of plain rows cannot express.
pub(crate) fn only_inserts(kinds: &RowKinds, format: &str, table: &str) -> Result<()> {
    if kinds.is_insert_only()
        || kinds
            .bytes()
            .is_some_and(|bytes| bytes.iter().all(|kind| *kind == 0))
    {
        return Ok(());
    }
    Err(Error::internal(format!(
        "table \"{table}\": the format '{format}' writes only inserted rows, and got an update or a deletion"
    )))
}

/// The value of an option.
pub(super) fn option<'a>(options: &'a BTreeMap<String, String>, key: &str) -> Option<&'a str> {
    options.get(key).map(String::as_str)
}

/// Whether a BOOLEAN option with default false is set.
pub(super) fn is_true(options: &BTreeMap<String, String>, key: &str) -> bool {
    option(options, key) == Some("true")
}

/// A text for a message: at most 80 characters.
pub(super) fn shortened(text: &str) -> String {
    const LONGEST: usize = 80;
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{} … ({} characters)", &text[..at], text.chars().count()),
        None => text.to_string(),
    }
}

/// The values of a timestamp column, whatever its unit.
pub(super) fn timestamp_values(array: &ArrayRef, unit: TimeUnit) -> &[i64] {
    match unit {
        TimeUnit::Second | TimeUnit::Millisecond => {
            array.as_primitive::<TimestampMillisecondType>().values()
        }
        TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
        TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
    }
}
