//! Savepoints: the state of a job as Parquet files that people and other tools can read, independent of the backend.
//!
//! A savepoint is a directory `savepoint-<job>-<checkpoint>` with one Parquet file an operator's table, and `savepoint.json`, put last,
//! which names them with their lengths and checksums, next to the job's SQL and plan, and has a checksum of its own. Files are written
//! key-group range by key-group range, and read likewise, so memory need not hold all of a table.

mod blob_file;
mod manifest;
mod reader;
#[cfg(test)]
mod tests;
mod unsealed;
mod writer;

pub use manifest::{SAVEPOINT_FILE, SavepointManifest, SavepointOperator, SavepointTable};
pub use reader::SavepointReader;
pub use writer::{write, write_in};

use crate::checkpoint::{CheckpointReader, SnapshotReader};
use crate::error::Result;

/// What is saved at a path: a savepoint, a checkpoint, or the latest checkpoint of a directory of them.
/// Errors: there is neither, or its manifest is damaged.
pub fn open_snapshot(path: &str) -> Result<Box<dyn SnapshotReader>> {
    if let Some(savepoint) = SavepointReader::open(path)? {
        return Ok(Box::new(savepoint));
    }
    Ok(Box::new(CheckpointReader::open(path, None)?))
}
