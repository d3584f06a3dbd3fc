//! A part of a snapshot that was written to the local disk before the rest was taken, so that memory need not hold it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, process};

use super::snapshot::{decode_snapshot, encode_snapshot};
use super::{StateBackend, StateSnapshot};
use crate::error::{Error, Result};

/// See the module. The file goes with the last clone.
#[derive(Debug, Clone)]
pub struct StatePart {
    file: Arc<PartFile>,
    bytes: u64,
}

#[derive(Debug)]
struct PartFile {
    path: PathBuf,
    /// Whose directory the file lies in. A job may have ended before the last checkpoint is written.
    _owner: Arc<dyn StateBackend>,
}

impl Drop for PartFile {
    fn drop(&mut self) {
        // A leftover takes room until its directory is cleared at the next start.
        let _ = fs::remove_file(&self.path);
    }
}

/// Numbers the files. One for the process: a part of an attempt that failed may be held until after the next attempt has begun, and its
/// file goes with it.
static NEXT_PART: AtomicU64 = AtomicU64::new(1);

impl StatePart {
    /// Writes a change ([`StateSnapshot::gone`]) to a new file in the backend's local directory. `name` is for people.
    pub fn write(
        backend: &Arc<dyn StateBackend>,
        name: &str,
        snapshot: &StateSnapshot,
    ) -> Result<Self> {
        let directory = backend.local_directory();
        fs::create_dir_all(&directory).map_err(|error| {
            Error::resource(format!("cannot create {}: {error}", directory.display()))
        })?;
        let (process, number) = (process::id(), NEXT_PART.fetch_add(1, Ordering::Relaxed));
        let path = directory.join(format!("{name}-{process}-{number:x}.part"));
        let bytes = encode_snapshot(snapshot)?;
        fs::write(&path, &bytes).map_err(|error| {
            Error::resource(format!("cannot write {}: {error}", path.display()))
        })?;
        Ok(StatePart {
            bytes: bytes.len() as u64,
            file: Arc::new(PartFile {
                path,
                _owner: backend.clone(),
            }),
        })
    }

    /// What was written.
    pub fn read(&self) -> Result<StateSnapshot> {
        let path = &self.file.path;
        let bytes = fs::read(path)
            .map_err(|error| Error::resource(format!("cannot read {}: {error}", path.display())))?;
        decode_snapshot(&bytes)
    }

    /// Length of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}
