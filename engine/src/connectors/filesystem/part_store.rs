//! Where the parts of a sink are kept on their way to readers: one trait over local directories and object stores.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::blobs::Upload;
use crate::error::{Error, Result};

/// A place for parts. Readers see a part only once it is committed, and then all of it.
pub(super) trait PartStore: Send + Sync {
    /// Makes sure that parts can be begun, so that mistakes show before the first row. Once a writer.
    fn make_ready(&self) -> Result<()>;

    /// Begins a part under the next of some names that nobody has.
    fn create(&self, names: &mut PartNames) -> Result<Box<dyn PartOutput>>;

    /// Makes all parts that were prepared before survive a crash.
    fn sync(&self) -> Result<()>;

    /// Makes prepared parts visible. Those that are visible already stay as they are.
    fn commit(&self, parts: &[PreparedPart]) -> Result<()>;

    /// Makes parts invisible that may be visible: they are written again. Gives how many are not visible any more.
    fn take_back(&self, parts: &[PreparedPart]) -> Result<usize>;

    /// The visible parts that the writers of these made after them.
    fn visible_after(&self, parts: &[PreparedPart]) -> Result<Vec<String>>;

    /// Drops what dead runs left, but for what is committed.
    fn discard_leftovers(&self) -> Result<()>;
}

/// Takes the bytes of one part; its errors are ours ([`own_error`]). Dropped without [`PartOutput::prepare`], the part is given up.
pub(super) trait PartOutput: Write + Send {
    /// What messages call the part.
    fn name(&self) -> String;

    /// Ends the part and says how to commit it.
    fn prepare(self: Box<Self>) -> Result<PreparedPart>;
}

/// A part that is whole, durable and invisible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PreparedPart {
    /// A hidden file, and the name that the commit gives it.
    File {
        /// The hidden name.
        from: PathBuf,
        /// The visible one.
        to: PathBuf,
    },
    /// An upload that the commit completes.
    Upload(Upload),
}

impl PreparedPart {
    /// Its visible name.
    fn name(&self) -> Option<PartName> {
        match self {
            PreparedPart::File { to, .. } => PartName::parse(to.file_name()?.to_str()?),
            PreparedPart::Upload(upload) => PartName::parse(&upload.path),
        }
    }
}

/// The names of one writer's parts: `part-WRITER-SUBTASK-N.FORMAT`. Each writer of each attempt draws its own number, so that no two ever
/// give the same name.
#[derive(Debug)]
pub(super) struct PartNames {
    writer: u64,
    subtask: usize,
    next: u64,
    extension: &'static str,
}

impl PartNames {
    pub(super) fn new(subtask: usize, extension: &'static str) -> Self {
        PartNames {
            writer: drawn_number(),
            subtask,
            next: 0,
            extension,
        }
    }
}

/// A name that [`PartNames`] gave, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartName {
    /// The same in all names of one writer.
    pub(super) writer: String,
    pub(super) number: u64,
    pub(super) extension: String,
}

impl PartName {
    /// Also of a path that ends in the name.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let (stem, extension) = name.split_once('.')?;
        let (writer, number) = stem.rsplit_once('-')?;
        Some(PartName {
            writer: writer.strip_prefix("part-")?.to_string(),
            number: number.parse().ok()?,
            extension: extension.to_string(),
        })
    }

    /// The last part of each writer.
    pub(super) fn last_of_each(parts: &[PreparedPart]) -> BTreeMap<String, PartName> {
        let mut last: BTreeMap<String, PartName> = BTreeMap::new();
        for name in parts.iter().filter_map(PreparedPart::name) {
            let known = last.entry(name.writer.clone()).or_insert(name.clone());
            known.number = known.number.max(name.number);
        }
        last
    }
}

impl std::fmt::Display for PartName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "part-{}-{}.{}", self.writer, self.number, self.extension)
    }
}

/// A number that no other writer has: the hash of nothing under keys that the operating system drew.
fn drawn_number() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Iterator for PartNames {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let PartNames {
            writer,
            subtask,
            next,
            extension,
        } = self;
        let name = format!("part-{writer:016x}-{subtask}-{next}.{extension}");
        *next += 1;
        Some(name)
    }
}

/// An error as what [`Write`] gives.
pub(super) fn as_io(error: Error) -> io::Error {
    io::Error::other(error)
}

/// The error of ours that a [`PartOutput`] gave, whatever was laid around it.
pub(super) fn own_error(error: io::Error) -> Error {
    error.downcast::<Error>().unwrap_or_else(Error::from)
}

/// The same through a Parquet writer.
pub(super) fn own_parquet_error(error: parquet::errors::ParquetError) -> Error {
    match error {
        parquet::errors::ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => own_error(*error),
            Err(other) => Error::external(other.to_string()),
        },
        other => other.into(),
    }
}
