//! Where the parts of a sink are kept on their way to readers: one trait over local directories and object stores.

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
