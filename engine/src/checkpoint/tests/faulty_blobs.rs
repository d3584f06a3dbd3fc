//! A store of blobs that fails at a chosen call, before or after doing it, or in the middle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use crate::blobs::{BlobInfo, BlobStore, Upload};
use crate::error::{Error, Result};

/// What happens at the chosen call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing is done.
    Refused,
    /// It is done, but says that it was not.
    AnswerLost,
    /// Half of the bytes are there, as where a store is not atomic.
    Torn,
}

/// See the file.
#[derive(Debug)]
pub(crate) struct FaultyBlobs {
    inner: Arc<dyn BlobStore>,
    calls: AtomicU64,
    fail_at: u64,
    fault: Fault,
    /// Whether every call behind the chosen one fails: the process is as good as dead.
    stops: bool,
}

impl FaultyBlobs {
    pub(crate) fn new(inner: Arc<dyn BlobStore>, fail_at: u64, fault: Fault, stops: bool) -> Self {
        FaultyBlobs {
            inner,
            calls: AtomicU64::new(0),
            fail_at,
            fault,
            stops,
        }
    }

    pub(crate) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    fn call<T>(&self, whole: impl FnOnce() -> Result<T>, torn: impl FnOnce()) -> Result<T> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        if number != self.fail_at && !(self.stops && number > self.fail_at) {
            return whole();
        }
        if number == self.fail_at {
            match self.fault {
                Fault::Refused => {}
                Fault::AnswerLost => drop(whole()?),
                Fault::Torn => torn(),
            }
        }
        Err(Error::external(format!(
            "the store failed at call {number}"
        )))
    }
}

impl BlobStore for FaultyBlobs {
    fn location(&self) -> String {
        self.inner.location()
    }

    fn put(&self, path: &str, bytes: Bytes) -> Result<()> {
        let half = bytes.slice(..bytes.len() / 2);
        let torn = || self.inner.put(path, half).unwrap();
        self.call(|| self.inner.put(path, bytes), torn)
    }

    fn create(&self, path: &str, bytes: Bytes) -> Result<bool> {
        let half = bytes.slice(..bytes.len() / 2);
        let torn = || self.inner.put(path, half).unwrap();
        self.call(|| self.inner.create(path, bytes), torn)
    }

    fn get(&self, path: &str) -> Result<Option<Bytes>> {
        self.call(|| self.inner.get(path), || {})
    }

    fn get_range(&self, path: &str, offset: u64, length: u64) -> Result<Bytes> {
        self.call(|| self.inner.get_range(path, offset, length), || {})
    }

    fn list(&self, prefix: &str) -> Result<Vec<BlobInfo>> {
        self.call(|| self.inner.list(prefix), || {})
    }

    fn delete(&self, path: &str) -> Result<()> {
        self.call(|| self.inner.delete(path), || {})
    }

    fn start_upload(&self, path: &str) -> Result<Upload> {
        self.call(|| self.inner.start_upload(path), || {})
    }

    fn put_part(&self, upload: &mut Upload, bytes: Bytes) -> Result<()> {
        self.call(|| self.inner.put_part(upload, bytes), || {})
    }

    fn complete_upload(&self, upload: &Upload) -> Result<()> {
        // What is torn is torn in the blob.
        let torn = || {
            self.inner.complete_upload(upload).unwrap();
            let whole = self.inner.get(&upload.path).unwrap().unwrap();
            let half = whole.slice(..whole.len() / 2);
            self.inner.put(&upload.path, half).unwrap();
        };
        self.call(|| self.inner.complete_upload(upload), torn)
    }

    fn abort_upload(&self, upload: &Upload) -> Result<()> {
        self.call(|| self.inner.abort_upload(upload), || {})
    }

    fn has_uploads(&self) -> bool {
        self.inner.has_uploads()
    }

    fn clear_unfinished(&self, prefix: &str) -> Result<()> {
        self.call(|| self.inner.clear_unfinished(prefix), || {})
    }
}
