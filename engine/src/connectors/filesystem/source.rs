//! Reads files: one file is one split, read from front to back, with a position that is exact after every batch.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;

use super::location::{Location, TableFile};
use super::parquet_reader::ParquetReader;
use super::text_reader::TextReader;
use super::{FileFormat, FilesystemTable};
use crate::connectors::source::PollRequest;
use crate::connectors::{Source, SourcePoll, SourceReader, SplitState};
use crate::error::{Error, Result};
use crate::types::RowKinds;

/// What reads a file of one format.
pub(super) trait SplitReader: Send {
    /// Begins with a split, where its position says.
    fn open(&mut self, split: &SplitState, location: &Location) -> Result<()>;

    /// The next rows of the open split.
    fn next(&mut self, request: &PollRequest) -> Result<Next>;

    /// The open split with its position behind the rows given.
    fn position(&self) -> SplitState;
}

/// What [`SplitReader::next`] found.
pub(super) enum Next {
    /// Rows, at least one.
    Rows(RecordBatch, RowKinds),
    /// None yet: a long stretch of records was skipped.
    Nothing,
    /// The split has ended.
    End,
}

/// A table of files that is read.
pub(super) struct FilesystemSource {
    table: Arc<FilesystemTable>,
}

impl FilesystemSource {
    pub(super) fn new(table: Arc<FilesystemTable>) -> Self {
        FilesystemSource { table }
    }
}

impl Source for FilesystemSource {
    fn is_bounded(&self) -> bool {
        true
    }

    fn splits(&self) -> Result<Vec<SplitState>> {
        let files = self.table.location.files();
        let files = files.map_err(|error| self.table.about(error))?;
        files.into_iter().map(|file| self.unread(file)).collect()
    }

    fn reader(&self) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(FilesystemReader {
            table: self.table.clone(),
            open: VecDeque::new(),
            waiting: VecDeque::new(),
            opens_next: false,
        }))
    }
}

impl FilesystemTable {
    fn open(&self, split: &SplitState) -> Result<Box<dyn SplitReader>> {
        let mut reader: Box<dyn SplitReader> = match &self.format {
            FileFormat::Records(format) => {
                Box::new(TextReader::new(format.decoder(&self.context)?))
            }
            FileFormat::Parquet => Box::new(ParquetReader::new(self.context.clone())),
        };
        reader
            .open(split, &self.location)
            .map_err(|error| self.about(error))?;
        Ok(reader)
    }
}

impl FilesystemSource {
    fn unread(&self, file: TableFile) -> Result<SplitState> {
        let compressed = ["gz", "gzip", "bz2", "xz", "zst", "deflate"];
        let extension = Path::new(&file.id).extension();
        let extension = extension.and_then(|extension| extension.to_str());
        if let Some(extension) = extension.filter(|extension| compressed.contains(extension)) {
            let what = format!("reading a compressed file (.{extension}: {})", file.id);
            return Err(self
                .table
                .about(Error::unsupported(what).hint("decompress it first")));
        }
        Ok(SplitState {
            id: file.id,
            position: match file.bytes {
                None => serde_json::Value::Null,
                Some(bytes) => serde_json::json!({ "bytes": bytes }),
            },
        })
    }
}

/// How many files of a reader stay open while others are read; each holds a block of about 1 MiB. What lies beyond is
/// closed, and opened again where it was left.
const OPEN_FILES: usize = 64;

/// Reads its files in the order in which it got them, unless told which one holds the watermark back.
struct FilesystemReader {
    table: Arc<FilesystemTable>,
    /// The open files, the one that is read in front, the longest untouched behind.
    open: VecDeque<OpenSplit>,
    waiting: VecDeque<SplitState>,
    /// Whether the first of the waiting is wanted before the open ones.
    opens_next: bool,
}

struct OpenSplit {
    id: String,
    reader: Box<dyn SplitReader>,
}

impl FilesystemReader {
    fn open_next(&mut self) -> Result<bool> {
        let Some(split) = self.waiting.pop_front() else {
            return Ok(false);
        };
        let reader = self.table.open(&split)?;
        self.open.push_front(OpenSplit {
            id: split.id,
            reader,
        });
        if self.open.len() > OPEN_FILES {
            let closed = self.open.pop_back();
            self.waiting
                .extend(closed.map(|split| split.reader.position()));
        }
        Ok(true)
    }
}

impl SourceReader for FilesystemReader {
    fn add_splits(&mut self, splits: Vec<SplitState>) -> Result<()> {
        self.waiting.extend(splits);
        Ok(())
    }

    /// Brings the file to the front: of the open ones, or, to be opened, of the waiting ones.
    fn prefer_split(&mut self, id: &str) {
        if let Some(place) = self.open.iter().position(|split| split.id == id) {
            let split = self.open.remove(place);
            split
                .into_iter()
                .for_each(|split| self.open.push_front(split));
        } else if let Some(place) = self.waiting.iter().position(|split| split.id == id) {
            let split = self.waiting.remove(place);
            split
                .into_iter()
                .for_each(|split| self.waiting.push_front(split));
            self.opens_next = true;
        }
    }

    fn poll(&mut self, request: &PollRequest) -> Result<SourcePoll> {
        let opens_next = std::mem::take(&mut self.opens_next) || self.open.is_empty();
        if opens_next && !self.open_next()? {
            return Ok(SourcePoll::End);
        }
        let current = self.open.front_mut().expect("a split was opened above");
        match current.reader.next(request)? {
            Next::Rows(rows, kinds) => {
                let split = current.id.clone();
                Ok(SourcePoll::Rows { split, rows, kinds })
            }
            Next::Nothing => Ok(SourcePoll::Pending {
                until: Some(request.now),
            }),
            Next::End => {
                let ended = self.open.pop_front().map(|split| split.id);
                Ok(SourcePoll::SplitEnd(ended.unwrap_or_default()))
            }
        }
    }

    fn snapshot(&self) -> Result<Vec<SplitState>> {
        let open = self.open.iter().map(|split| split.reader.position());
        Ok(open.chain(self.waiting.iter().cloned()).collect())
    }
}
