//! Files by name, in a local directory or any object store: what checkpoints, savepoints and file sinks are kept in.
//!
//! A blob is written whole or not at all: whoever lists or reads sees all of its bytes or no blob. Calls wait; the threads that
//! make them are not those that compute.
//!
//! Doors: `blobs` uses nothing but errors. Deliberately absent: what the bytes mean.

mod local;
mod object;

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

pub use local::LocalBlobs;
pub use object::ObjectBlobs;

/// A directory of blobs. Paths are relative to it, with `/` between their parts.
pub trait BlobStore: Send + Sync + std::fmt::Debug {
    /// Where it is, for messages.
    fn location(&self) -> String;

    /// Writes a blob so that it survives a crash, in place of one of the same path.
    fn put(&self, path: &str, bytes: Bytes) -> Result<()>;

    /// The same where there is no blob of the path yet; false, and nothing is changed, where there is one.
    fn create(&self, path: &str, bytes: Bytes) -> Result<bool>;

    /// Finds out before it matters that nothing can be written, where that is cheap. Default: it is not.
    fn make_ready(&self) -> Result<()> {
        Ok(())
    }

    /// A blob's bytes; `None` where there is none.
    fn get(&self, path: &str) -> Result<Option<Bytes>>;

    /// Whether something stands where a blob of this path would be, and can be none: a local directory.
    fn is_directory(&self, path: &str) -> bool {
        let _ = path;
        false
    }

    /// `length` bytes of a blob from `offset`; fewer where it is shorter.
    fn get_range(&self, path: &str, offset: u64, length: u64) -> Result<Bytes>;

    /// All blobs whose path begins with `prefix` and a `/`, or all of the store for an empty one; in order of their paths.
    fn list(&self, prefix: &str) -> Result<Vec<BlobInfo>>;

    /// Removes a blob; one that is not there is no error.
    fn delete(&self, path: &str) -> Result<()>;

    /// Begins a blob that is written part by part and visible only when completed, by this process or another one.
    fn start_upload(&self, path: &str) -> Result<Upload>;

    /// Adds the next part of an upload. Where the store asks for parts of a least size, the caller keeps to
    /// [`BlobStore::least_part_bytes`] but for the last one. A part in a local file survives the end of the process, but a crash of the machine
    /// only once the upload is completed.
    fn put_part(&self, upload: &mut Upload, bytes: Bytes) -> Result<()>;

    /// The same with bytes that are somebody else's. Default: they are copied.
    fn put_part_of(&self, upload: &mut Upload, bytes: &[u8]) -> Result<()> {
        self.put_part(upload, Bytes::copy_from_slice(bytes))
    }

    /// Makes an upload the blob. Completing it again changes nothing.
    fn complete_upload(&self, upload: &Upload) -> Result<()>;

    /// Drops an upload; one that is completed or dropped already is no error.
    fn abort_upload(&self, upload: &Upload) -> Result<()>;

    /// Whether there are uploads in parts at all.
    fn has_uploads(&self) -> bool {
        true
    }

    /// Removes what writes that never completed have left below a prefix, where the store does not do that by itself. Nobody may be
    /// writing there.
    fn clear_unfinished(&self, prefix: &str) -> Result<()> {
        let _ = prefix;
        Ok(())
    }

    /// The least size of every part but the last.
    fn least_part_bytes(&self) -> usize {
        0
    }
}

/// A blob in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlobInfo {
    /// Its path within the store.
    pub path: String,
    /// Its length.
    pub bytes: u64,
}

/// A blob under way; what it takes to complete it from another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upload {
    /// The path of the blob that it becomes.
    pub path: String,
    /// The store's name for it.
    pub id: String,
    /// The store's names of the parts, in order.
    pub parts: Vec<String>,
    /// Bytes written.
    pub bytes: u64,
}

/// The store at a path, a `file://` URL, or the URL of an object store (`s3://`, `gs://`, `az://`, `http://` …, with credentials from
/// the environment as the `object_store` crate reads them). `memory://NAME/path` is a store in the memory of this process, the same
/// for everybody who names it: for tests.
pub fn open_blobs(url: &str) -> Result<Arc<dyn BlobStore>> {
    let local = url
        .strip_prefix("file://")
        .or_else(|| url.strip_prefix("file:"))
        .unwrap_or(url);
    if !local.contains("://") {
        if local.is_empty() {
            return Err(Error::user("an empty path names no directory"));
        }
        return Ok(Arc::new(LocalBlobs::new(local)));
    }
    Ok(Arc::new(ObjectBlobs::open(url)?))
}

#[cfg(test)]
mod tests;
