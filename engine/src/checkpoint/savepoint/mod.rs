//! Savepoints: the state of a job as Parquet files that people and other tools can read, independent of the backend.
//!
//! A savepoint is a directory `savepoint-<job>-<checkpoint>` with one Parquet file an operator's table, and `savepoint.json`, put last,
//! which names them with their lengths and checksums, next to the job's SQL and plan. Files are written key-group range by key-group
//! range, and read likewise, so memory need not hold all of a table.

mod blob_file;
mod manifest;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use manifest::{SAVEPOINT_FILE, SavepointManifest, SavepointOperator, SavepointTable};
pub use reader::SavepointReader;
pub use writer::write;

use crate::blobs::open_blobs;
use crate::checkpoint::{CheckpointStorage, Manifest, SnapshotReader};
use crate::error::{Error, Result};

/// The manifest in the directory of a checkpoint.
const CHECKPOINT_FILE: &str = "manifest.json";

/// What is saved at a path: a savepoint, a checkpoint, or the latest checkpoint of a directory of them.
/// Errors: there is neither, or its manifest is damaged.
pub fn open_snapshot(path: &str) -> Result<Box<dyn SnapshotReader>> {
    if let Some(savepoint) = SavepointReader::open(path)? {
        return Ok(Box::new(savepoint));
    }
    let max_parallelism = checkpoint_max_parallelism(path)?;
    Ok(Box::new(CheckpointStorage::read(path, max_parallelism)?))
}

/// The number of key groups of a checkpoint, or of the latest in a directory.
fn checkpoint_max_parallelism(path: &str) -> Result<u16> {
    let blobs = open_blobs(path)?;
    let mut manifest = blobs.get(CHECKPOINT_FILE)?;
    if manifest.is_none() {
        let newest = blobs.list("")?.into_iter().filter_map(|blob| {
            let id = blob
                .path
                .strip_suffix(CHECKPOINT_FILE)?
                .strip_prefix("chk-")?;
            Some((id.trim_end_matches('/').parse::<u64>().ok()?, blob.path))
        });
        if let Some((_, path)) = newest.max() {
            manifest = blobs.get(&path)?;
        }
    }
    let Some(manifest) = manifest else {
        return Err(Error::user(format!(
            "there is neither a savepoint nor a checkpoint in {}",
            blobs.location()
        ))
        .hint(
            "a savepoint is a directory with savepoint.json; a checkpoint one with manifest.json, or the directory above several chk-N",
        ));
    };
    let manifest: Manifest = serde_json::from_slice(&manifest)
        .map_err(|error| Error::external(format!("the manifest in {path} is damaged: {error}")))?;
    Ok(manifest.max_parallelism)
}
