//! Reads files: one file is one split, read from front to back, with a position that is exact after every batch.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::RecordBatch;

use super::files::find_files;
use super::parquet_reader::ParquetReader;
use super::text_reader::TextReader;
use super::{FileFormat, FilesystemTable};
use crate::connectors::source::PollRequest;
use crate::connectors::{Source, SourcePoll, SourceReader, SplitState};
use crate::error::{Error, Result};
use crate::types::RowKinds;

/// What reads the files of one format, one after the other.
pub(super) trait SplitReader: Send {
    /// Begins with a split, where its position says.
    fn open(&mut self, split: &SplitState) -> Result<()>;

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
        let files = find_files(&self.table.path).map_err(|error| self.table.about(error))?;
        files.into_iter().map(|file| self.unread(file)).collect()
    }

    fn reader(&self) -> Result<Box<dyn SourceReader>> {
        let table = self.table.clone();
        let reader: Box<dyn SplitReader> = match &table.format {
            FileFormat::Records(format) => {
                Box::new(TextReader::new(format.decoder(&table.context)?))
            }
            FileFormat::Parquet => Box::new(ParquetReader::new(table.context.clone())),
        };
        Ok(Box::new(FilesystemReader {
            table,
            reader,
            current: None,
            waiting: VecDeque::new(),
        }))
    }
}

impl FilesystemSource {
    fn unread(&self, file: PathBuf) -> Result<SplitState> {
        let compressed = ["gz", "gzip", "bz2", "xz", "zst", "deflate"];
        let extension = file.extension().and_then(|extension| extension.to_str());
        if let Some(extension) = extension.filter(|extension| compressed.contains(extension)) {
            let what = format!(
                "reading a compressed file (.{extension}: {})",
                file.display()
            );
            return Err(self
                .table
                .about(Error::unsupported(what).hint("decompress it first")));
        }
        let id = file.to_str().ok_or_else(|| {
            let name = file.display();
            self.table.about(Error::unsupported(format!(
                "a file name that is not UTF-8 ({name})"
            )))
        })?;
        Ok(SplitState {
            id: id.to_string(),
            position: serde_json::Value::Null,
        })
    }
}

/// Reads its files in the order in which it got them.
struct FilesystemReader {
    table: Arc<FilesystemTable>,
    reader: Box<dyn SplitReader>,
    /// The id of the open split.
    current: Option<String>,
    waiting: VecDeque<SplitState>,
}

impl SourceReader for FilesystemReader {
    fn add_splits(&mut self, splits: Vec<SplitState>) -> Result<()> {
        self.waiting.extend(splits);
        Ok(())
    }

    fn poll(&mut self, request: &PollRequest) -> Result<SourcePoll> {
        if self.current.is_none() {
            let Some(split) = self.waiting.pop_front() else {
                return Ok(SourcePoll::End);
            };
            self.reader
                .open(&split)
                .map_err(|error| self.table.about(error))?;
            self.current = Some(split.id);
        }
        let split = self.current.clone().expect("a split was opened above");
        match self.reader.next(request)? {
            Next::Rows(rows, kinds) => Ok(SourcePoll::Rows { split, rows, kinds }),
            Next::Nothing => Ok(SourcePoll::Pending {
                until: Some(request.now),
            }),
            Next::End => {
                self.current = None;
                Ok(SourcePoll::SplitEnd(split))
            }
        }
    }

    fn snapshot(&self) -> Result<Vec<SplitState>> {
        let current = self.current.as_ref().map(|_| self.reader.position());
        Ok(current
            .into_iter()
            .chain(self.waiting.iter().cloned())
            .collect())
    }
}
