//! The object store of a simulated world: in memory, there for every process, and faulty when told.
//!
//! A fault hits the call behind so many others: it is refused, or done though the answer says otherwise, or half of the bytes are written, as where
//! a store is not atomic. The process may die with it, or be told and go on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::blobs::{BlobInfo, BlobStore, Upload};
use crate::error::{Error, Result};

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlobFault {
    /// Nothing is done.
    Refused,
    /// It is done, but says that it was not.
    AnswerLost,
    /// Half of the bytes are written.
    Torn,
}

/// A fault to come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    /// How many calls succeed before.
    pub(super) behind: u32,
    pub(super) fault: BlobFault,
    /// Whether the process dies with it: every later call fails, too, until it is revived.
    pub(super) dies: bool,
}

/// See the module.
#[derive(Debug, Clone, Default)]
pub(super) struct SimulatedBlobs(Arc<Mutex<Store>>);

#[derive(Debug, Default)]
struct Store {
    blobs: BTreeMap<String, Bytes>,
    uploads: BTreeMap<String, Vec<u8>>,
    next: u64,
    planned: Option<Planned>,
    died: bool,
}

impl SimulatedBlobs {
    fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a call fail.
    pub(super) fn plan(&self, planned: Planned) {
        self.lock().planned = Some(planned);
    }

    /// Whether the process died with a call.
    pub(super) fn has_died(&self) -> bool {
        self.lock().died
    }

    /// A new process: nothing fails until planned again.
    pub(super) fn revive(&self) {
        let mut store = self.lock();
        (store.planned, store.died) = (None, false);
    }

    /// A call, which `whole` makes and `torn` makes by half.
    fn call<T>(
        &self,
        whole: impl FnOnce(&mut Store) -> T,
        torn: impl FnOnce(&mut Store),
    ) -> Result<T> {
        let mut store = self.lock();
        if store.died {
            return Err(failed());
        }
        let planned = match &mut store.planned {
            None => return Ok(whole(&mut store)),
            Some(planned) if planned.behind > 0 => {
                planned.behind -= 1;
                return Ok(whole(&mut store));
            }
            Some(planned) => *planned,
        };
        store.planned = None;
        store.died = planned.dies;
        match planned.fault {
            BlobFault::Refused => {}
            BlobFault::AnswerLost => drop(whole(&mut store)),
            BlobFault::Torn => torn(&mut store),
        }
        Err(failed())
    }
}

fn failed() -> Error {
    Error::external("the simulated store fails")
}

fn half(bytes: &Bytes) -> Bytes {
    bytes.slice(..bytes.len() / 2)
}

impl BlobStore for SimulatedBlobs {
    fn location(&self) -> String {
        "simulated:".to_string()
    }

    fn put(&self, path: &str, bytes: Bytes) -> Result<()> {
        let part = half(&bytes);
        self.call(
            |store| drop(store.blobs.insert(path.to_string(), bytes)),
            |store| drop(store.blobs.insert(path.to_string(), part)),
        )
    }

    fn create(&self, path: &str, bytes: Bytes) -> Result<bool> {
        let part = half(&bytes);
        let put = |store: &mut Store, bytes: Bytes| match store.blobs.contains_key(path) {
            true => false,
            false => store.blobs.insert(path.to_string(), bytes).is_none(),
        };
        self.call(
            |store| put(store, bytes),
            |store| {
                let _ = put(store, part);
            },
        )
    }

    fn get(&self, path: &str) -> Result<Option<Bytes>> {
        self.call(|store| store.blobs.get(path).cloned(), |_| {})
    }

    fn get_range(&self, path: &str, offset: u64, length: u64) -> Result<Bytes> {
        let read = |store: &mut Store| -> Result<Bytes> {
            let missing = || Error::external(format!("there is no blob {path}"));
            let bytes = store.blobs.get(path).ok_or_else(missing)?;
            let from = (offset as usize).min(bytes.len());
            let to = from.saturating_add(length as usize).min(bytes.len());
            Ok(bytes.slice(from..to))
        };
        self.call(read, |_| {})?
    }

    fn list(&self, prefix: &str) -> Result<Vec<BlobInfo>> {
        let folder = format!("{prefix}/");
        let list = |store: &mut Store| -> Vec<BlobInfo> {
            let found = store.blobs.iter();
            let below = found.filter(|(path, _)| prefix.is_empty() || path.starts_with(&folder));
            let info = |(path, bytes): (&String, &Bytes)| BlobInfo {
                path: path.clone(),
                bytes: bytes.len() as u64,
            };
            below.map(info).collect()
        };
        self.call(list, |_| {})
    }

    fn delete(&self, path: &str) -> Result<()> {
        self.call(|store| drop(store.blobs.remove(path)), |_| {})
    }

    fn start_upload(&self, path: &str) -> Result<Upload> {
        let start = |store: &mut Store| {
            store.next += 1;
            let id = format!("upload-{}", store.next);
            store.uploads.insert(id.clone(), Vec::new());
            id
        };
        Ok(Upload {
            path: path.to_string(),
            id: self.call(start, |_| {})?,
            parts: Vec::new(),
            bytes: 0,
        })
    }

    fn put_part(&self, upload: &mut Upload, bytes: Bytes) -> Result<()> {
        let length = bytes.len() as u64;
        let (at, id) = (upload.bytes as usize, upload.id.clone());
        let append = |store: &mut Store, bytes: &[u8]| {
            let written = store.uploads.entry(id.clone()).or_default();
            written.truncate(at);
            written.extend(bytes);
        };
        let part = half(&bytes);
        self.call(|store| append(store, &bytes), |store| append(store, &part))?;
        upload.parts.push(format!("{}", upload.parts.len()));
        upload.bytes += length;
        Ok(())
    }

    fn complete_upload(&self, upload: &Upload) -> Result<()> {
        let complete = |store: &mut Store| -> Result<()> {
            match store.uploads.remove(&upload.id) {
                Some(mut bytes) => {
                    bytes.truncate(upload.bytes as usize);
                    store.blobs.insert(upload.path.clone(), bytes.into());
                    Ok(())
                }
                None if store.blobs.contains_key(&upload.path) => Ok(()),
                None => Err(Error::external(format!("there is no upload {}", upload.id))),
            }
        };
        self.call(complete, |_| {})?
    }

    fn abort_upload(&self, upload: &Upload) -> Result<()> {
        self.call(|store| drop(store.uploads.remove(&upload.id)), |_| {})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(fault: BlobFault, dies: bool) -> (SimulatedBlobs, Bytes) {
        let store = SimulatedBlobs::default();
        let bytes = Bytes::from_static(b"abcd");
        store.put("a/b", bytes.clone()).unwrap();
        store.plan(Planned {
            behind: 1,
            fault,
            dies,
        });
        (store, bytes)
    }

    #[test]
    fn a_call_is_refused_and_the_next_succeeds() {
        let (store, bytes) = planned(BlobFault::Refused, false);
        assert!(store.get("a/b").unwrap().is_some());
        assert!(store.put("c", bytes.clone()).is_err());
        assert!(store.get("c").unwrap().is_none());
        assert!(store.create("c", bytes.clone()).unwrap());
        assert!(!store.create("c", bytes).unwrap());
        assert_eq!(store.list("a").unwrap().len(), 1);
    }

    #[test]
    fn an_answer_is_lost_or_half_is_written_and_the_process_dies() {
        for (fault, length) in [(BlobFault::AnswerLost, 4), (BlobFault::Torn, 2)] {
            let (store, bytes) = planned(fault, true);
            store.delete("nothing").unwrap();
            assert!(store.create("c", bytes).is_err());
            assert!(store.get("c").is_err() && store.has_died());
            store.revive();
            assert_eq!(store.get("c").unwrap().unwrap().len(), length);
        }
    }

    #[test]
    fn an_upload_is_a_blob_once_it_is_complete() {
        let store = SimulatedBlobs::default();
        let mut upload = store.start_upload("x").unwrap();
        store
            .put_part(&mut upload, Bytes::from_static(b"ab"))
            .unwrap();
        store
            .put_part(&mut upload, Bytes::from_static(b"cd"))
            .unwrap();
        assert!(store.get("x").unwrap().is_none());
        store.complete_upload(&upload).unwrap();
        store.complete_upload(&upload).unwrap();
        assert_eq!(&store.get("x").unwrap().unwrap()[..], b"abcd");
        assert_eq!(&store.get_range("x", 1, 2).unwrap()[..], b"bc");
    }
}
