//! A part of a snapshot that was written to the local disk before the rest was taken, so that memory need not hold it.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use super::StateSnapshot;
use super::snapshot::{decode_snapshot, encode_snapshot};
use crate::error::{Error, Result};

/// See the module. The file goes with the last clone.
#[derive(Debug, Clone)]
pub struct StatePart {
    file: Arc<PartFile>,
    bytes: u64,
}

#[derive(Debug)]
struct PartFile(PathBuf);

impl Drop for PartFile {
    fn drop(&mut self) {
        // A leftover takes room until its directory is cleared at the next start.
        let _ = fs::remove_file(&self.0);
    }
}

impl StatePart {
    /// Writes a snapshot of some keys ([`StateSnapshot::changed`]) to a new file.
    pub fn write(path: PathBuf, snapshot: &StateSnapshot) -> Result<Self> {
        let bytes = encode_snapshot(snapshot)?;
        fs::write(&path, &bytes).map_err(|error| {
            Error::resource(format!("cannot write {}: {error}", path.display()))
        })?;
        Ok(StatePart {
            bytes: bytes.len() as u64,
            file: Arc::new(PartFile(path)),
        })
    }

    /// What was written.
    pub fn read(&self) -> Result<StateSnapshot> {
        let path = &self.file.0;
        let bytes = fs::read(path)
            .map_err(|error| Error::resource(format!("cannot read {}: {error}", path.display())))?;
        decode_snapshot(&bytes)
    }

    /// Length of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
