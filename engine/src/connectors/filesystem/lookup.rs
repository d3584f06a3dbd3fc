//! Files that are looked up: read whole into an index, which all subtasks ask.
//!
//! Without a cache the files are asked every time, which means: they are read again once their names, lengths or times of
//! writing have changed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use arrow::array::RecordBatch;
use arrow::compute;

use super::files::find_files;
use super::location::Location;
use super::source::FilesystemSource;
use super::{FileFormat, FilesystemTable};
use crate::connectors::lookup::{
    AsyncSupport, KeyIndex, LookupCache, LookupFunction, LookupOptions, LookupRequest, LookupRows,
    LookupSource, with_partial_cache,
};
use crate::connectors::source::PollRequest;
use crate::connectors::{Source, SourcePoll, TableDescriptor};
use crate::error::{Error, ErrorKind, Result};
use crate::formats;
use crate::types::ProcessingTime;

/// The lookup of a table by some physical columns; its projected columns come out.
pub(super) fn lookup_source(
    descriptor: &TableDescriptor,
    keys: &[usize],
) -> Result<Arc<dyn LookupSource>> {
    let options = LookupOptions::of(descriptor)?;
    let mut read = descriptor.clone();
    let beyond = keys
        .iter()
        .filter(|key| !descriptor.projection.contains(key));
    read.projection.extend(beyond);
    read.projection.dedup();
    let place = |key: &usize| read.projection.iter().position(|column| column == key);
    let key: Vec<usize> = keys.iter().filter_map(place).collect();
    assert_eq!(key.len(), keys.len(), "the keys are among what is read");
    let table = FilesystemTable::new(&read)?;
    match &table.format {
        FileFormat::Records(format) => drop(format.decoder(&table.context)?),
        FileFormat::Parquet => formats::parquet::check_types(&table.context)?,
    }
    let Location::Local(path) = table.location.clone() else {
        return Err(table.about(
            Error::unsupported("looking up rows in an object store")
                .hint("copy the files to a local directory"),
        ));
    };
    let schema = read.projected();
    let key_types: Vec<_> = key
        .iter()
        .map(|column| schema.fields[*column].logical_type.to_arrow())
        .collect();
    let files = Arc::new(LookedUpFiles {
        table: Arc::new(table),
        path,
        key,
        output: (0..descriptor.projection.len()).collect(),
        empty: RecordBatch::new_empty(schema.to_arrow()),
        options: options.clone(),
        loaded: Mutex::new(None),
    });
    let source = Arc::new(FileLookup { files });
    match options.cache {
        LookupCache::Partial(partial) => with_partial_cache(source, &key_types, partial),
        _ => Ok(source),
    }
}

struct FileLookup {
    files: Arc<LookedUpFiles>,
}

impl LookupSource for FileLookup {
    fn function(&self) -> Result<Box<dyn LookupFunction>> {
        Ok(Box::new(FileLookupFunction {
            files: self.files.clone(),
        }))
    }

    fn async_support(&self) -> AsyncSupport {
        AsyncSupport::OnRequest
    }

    fn is_remembered_whole(&self) -> bool {
        matches!(self.files.options.cache, LookupCache::Full { .. })
    }
}

struct FileLookupFunction {
    files: Arc<LookedUpFiles>,
}

impl LookupFunction for FileLookupFunction {
    fn lookup(&mut self, request: &LookupRequest) -> Result<LookupRows> {
        self.files.index(request.now)?.lookup(request.keys)
    }
}

struct LookedUpFiles {
    table: Arc<FilesystemTable>,
    path: PathBuf,
    /// The key columns among those that are read.
    key: Vec<usize>,
    /// The columns that come out.
    output: Vec<usize>,
    empty: RecordBatch,
    options: LookupOptions,
    loaded: Mutex<Option<Loaded>>,
}

struct Loaded {
    index: Arc<KeyIndex>,
    at: ProcessingTime,
    stamps: Vec<FileStamp>,
}

/// What tells that a file has changed.
#[derive(Debug, PartialEq, Eq)]
struct FileStamp {
    path: PathBuf,
    length: u64,
    modified: Option<SystemTime>,
}

impl LookedUpFiles {
    /// The rows as they are to be believed now. Failing reads are tried again.
    fn index(&self, now: ProcessingTime) -> Result<Arc<KeyIndex>> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        let mut retries = self.options.max_retries;
        loop {
            match self.fresh(&mut loaded, now) {
                Err(error) if retries > 0 && error.kind() == ErrorKind::External => retries -= 1,
                result => return result,
            }
        }
    }

    fn fresh(&self, loaded: &mut Option<Loaded>, now: ProcessingTime) -> Result<Arc<KeyIndex>> {
        let known = match (loaded.as_ref(), &self.options.cache) {
            (None, _) => None,
            (Some(known), LookupCache::Full { reload_interval }) => {
                let age = now.millis() - known.at.millis();
                let is_old = reload_interval.is_some_and(|every| age >= every.as_millis() as i64);
                (!is_old).then_some(known)
            }
            (Some(known), _) => (known.stamps == self.stamps()?).then_some(known),
        };
        if let Some(known) = known {
            return Ok(known.index.clone());
        }
        let stamps = self.stamps()?;
        let index = Arc::new(KeyIndex::new(&self.read()?, &self.key, &self.output)?);
        *loaded = Some(Loaded {
            index: index.clone(),
            at: now,
            stamps,
        });
        Ok(index)
    }

    fn stamps(&self) -> Result<Vec<FileStamp>> {
        let files = find_files(&self.path).map_err(|error| self.table.about(error))?;
        let stamp = |path: PathBuf| {
            let metadata = std::fs::metadata(&path).ok();
            FileStamp {
                length: metadata.as_ref().map_or(0, std::fs::Metadata::len),
                modified: metadata.and_then(|metadata| metadata.modified().ok()),
                path,
            }
        };
        Ok(files.into_iter().map(stamp).collect())
    }

    /// All rows of all files.
    fn read(&self) -> Result<RecordBatch> {
        let source = FilesystemSource::new(self.table.clone());
        let mut reader = source.reader()?;
        reader.add_splits(source.splits()?)?;
        let request = PollRequest {
            max_rows: 8192,
            max_bytes: usize::MAX,
            now: ProcessingTime(0),
        };
        let mut batches = Vec::new();
        loop {
            match reader.poll(&request)? {
                SourcePoll::Rows { rows, .. } => batches.push(rows),
                SourcePoll::End => break,
                _ => {}
            }
        }
        let schema = self.empty.schema();
        Ok(compute::concat_batches(&schema, &batches)?)
    }
}
