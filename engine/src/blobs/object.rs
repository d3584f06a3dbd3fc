//! Blobs as objects of a store that the `object_store` crate speaks to.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::memory::InMemory;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{ObjectStore, PutMode, PutOptions, PutPayload};

use super::{BlobInfo, BlobStore, Upload};
use crate::error::{Error, Result};

/// See the module.
pub struct ObjectBlobs {
    store: Arc<dyn ObjectStore>,
    /// The same store, where it can complete an upload that another process began.
    uploads: Option<Arc<dyn MultipartStore>>,
    root: Path,
    location: String,
}

impl std::fmt::Debug for ObjectBlobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ObjectBlobs").field(&self.location).finish()
    }
}

/// The threads on which requests wait.
fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: OnceLock<tokio::runtime::Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("volley-io")
            .enable_all()
            .build()
            .expect("the I/O runtime starts")
    })
}

fn wait<T: Send + 'static>(request: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    runtime().spawn(async move {
        let _ = sender.send(request.await);
    });
    receiver
        .recv()
        .map_err(|_| Error::internal("a request to an object store was dropped"))
}

impl ObjectBlobs {
    /// The store of a URL, with options from the environment (`AWS_…`, `GOOGLE_…`, `AZURE_…`).
    pub fn open(url: &str) -> Result<Self> {
        let parsed = url::Url::parse(url)
            .map_err(|error| Error::user(format!("'{url}' is not a URL: {error}")))?;
        if parsed.scheme() == "memory" {
            return ObjectBlobs::in_memory(&parsed, url);
        }
        let unknown = |error: object_store::Error| {
            Error::user(format!("cannot use '{url}': {error}"))
                .hint("a local path, file://, s3://, gs://, az:// or http:// is understood; credentials come from the environment")
        };
        let (scheme, root) = object_store::ObjectStoreScheme::parse(&parsed)
            .map_err(|error| unknown(error.into()))?;
        use object_store::ObjectStoreScheme as Scheme;
        let own = |store: Arc<dyn ObjectStore>, uploads| {
            Ok(ObjectBlobs::new(store, uploads, root.clone(), url))
        };
        match scheme {
            Scheme::AmazonS3 => {
                let builder = object_store::aws::AmazonS3Builder::from_env().with_url(url);
                let store = Arc::new(builder.build().map_err(unknown)?);
                own(store.clone(), Some(store as Arc<dyn MultipartStore>))
            }
            Scheme::GoogleCloudStorage => {
                let builder =
                    object_store::gcp::GoogleCloudStorageBuilder::from_env().with_url(url);
                let store = Arc::new(builder.build().map_err(unknown)?);
                own(store.clone(), Some(store as Arc<dyn MultipartStore>))
            }
            Scheme::MicrosoftAzure => {
                let builder = object_store::azure::MicrosoftAzureBuilder::from_env().with_url(url);
                let store = Arc::new(builder.build().map_err(unknown)?);
                own(store.clone(), Some(store as Arc<dyn MultipartStore>))
            }
            _ => {
                let (store, root) = object_store::parse_url(&parsed).map_err(unknown)?;
                Ok(ObjectBlobs::new(Arc::from(store), None, root, url))
            }
        }
    }

    /// The store of this process that the URL's host names.
    fn in_memory(parsed: &url::Url, url: &str) -> Result<Self> {
        static STORES: Mutex<BTreeMap<String, Arc<InMemory>>> = Mutex::new(BTreeMap::new());
        let name = parsed.host_str().filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| {
            Error::user(format!("'{url}' does not name a store in memory"))
                .hint("memory://NAME or memory://NAME/directory")
        })?;
        let root = Path::from_url_path(parsed.path())
            .map_err(|error| Error::user(format!("'{url}' is no path of a store: {error}")))?;
        let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
        let store = stores.entry(name.to_string()).or_default().clone();
        Ok(ObjectBlobs::new(store.clone(), Some(store), root, url))
    }

    /// Blobs below `root` of a store; `uploads` is the same store where it has uploads that outlive a process.
    pub fn new(
        store: Arc<dyn ObjectStore>,
        uploads: Option<Arc<dyn MultipartStore>>,
        root: Path,
        location: &str,
    ) -> Self {
        ObjectBlobs {
            store,
            uploads,
            root,
            location: location.to_string(),
        }
    }

    fn path(&self, path: &str) -> Path {
        let parts = path.split('/').filter(|part| !part.is_empty());
        self.root
            .parts()
            .chain(parts.map(object_store::path::PathPart::from))
            .collect()
    }

    fn cannot(&self, what: &str, path: &str, error: &object_store::Error) -> Error {
        Error::external(format!("cannot {what} {}/{path}: {error}", self.location))
    }

    fn uploads(&self) -> Result<Arc<dyn MultipartStore>> {
        self.uploads.clone().ok_or_else(|| {
            Error::unsupported(format!(
                "uploads in parts to {}, which another process could complete",
                self.location
            ))
        })
    }

    fn put_with(
        &self,
        path: &str,
        bytes: Bytes,
        mode: PutMode,
    ) -> Result<object_store::Result<()>> {
        let (store, location) = (self.store.clone(), self.path(path));
        wait(async move {
            let options = PutOptions::from(mode);
            let payload = PutPayload::from_bytes(bytes);
            store.put_opts(&location, payload, options).await.map(drop)
        })
    }
}

impl BlobStore for ObjectBlobs {
    fn location(&self) -> String {
        self.location.clone()
    }

    fn put(&self, path: &str, bytes: Bytes) -> Result<()> {
        self.put_with(path, bytes, PutMode::Overwrite)?
            .map_err(|error| self.cannot("write", path, &error))
    }

    fn create(&self, path: &str, bytes: Bytes) -> Result<bool> {
        match self.put_with(path, bytes, PutMode::Create)? {
            Ok(()) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(self.cannot("write", path, &error)),
        }
    }

    fn get(&self, path: &str) -> Result<Option<Bytes>> {
        let (store, location) = (self.store.clone(), self.path(path));
        let got = wait(async move {
            store
                .get_opts(&location, Default::default())
                .await?
                .bytes()
                .await
        })?;
        match got {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.cannot("read", path, &error)),
        }
    }

    fn get_range(&self, path: &str, offset: u64, length: u64) -> Result<Bytes> {
        let (store, location) = (self.store.clone(), self.path(path));
        let options = object_store::GetOptions {
            range: Some((offset..offset + length).into()),
            ..Default::default()
        };
        wait(async move { store.get_opts(&location, options).await?.bytes().await })?
            .map_err(|error| self.cannot("read", path, &error))
    }

    fn list(&self, prefix: &str) -> Result<Vec<BlobInfo>> {
        let (store, location) = (self.store.clone(), self.path(prefix));
        let root = self.root.clone();
        let listed = wait(async move {
            let objects = store.list(Some(&location));
            objects.try_collect::<Vec<_>>().await
        })?
        .map_err(|error| self.cannot("list", prefix, &error))?;
        let mut found: Vec<BlobInfo> = listed
            .into_iter()
            .filter_map(|object| {
                let parts = object.location.prefix_match(&root)?;
                let parts: Vec<String> = parts.map(|part| part.as_ref().to_string()).collect();
                Some(BlobInfo {
                    path: parts.join("/"),
                    bytes: object.size,
                })
            })
            .collect();
        found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    fn delete(&self, path: &str) -> Result<()> {
        let (store, location) = (self.store.clone(), self.path(path));
        let deleted = wait(async move {
            let one = futures_util::stream::once(async { Ok(location) });
            store
                .delete_stream(Box::pin(one))
                .try_collect::<Vec<_>>()
                .await
        })?;
        match deleted {
            Ok(_) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.cannot("remove", path, &error)),
        }
    }

    fn start_upload(&self, path: &str) -> Result<Upload> {
        let (uploads, location) = (self.uploads()?, self.path(path));
        let id = wait(async move { uploads.create_multipart(&location).await })?
            .map_err(|error| self.cannot("begin", path, &error))?;
        Ok(Upload {
            path: path.to_string(),
            id,
            parts: Vec::new(),
            bytes: 0,
        })
    }

    fn put_part(&self, upload: &mut Upload, bytes: Bytes) -> Result<()> {
        let (uploads, location) = (self.uploads()?, self.path(&upload.path));
        let (id, number, length) = (upload.id.clone(), upload.parts.len(), bytes.len() as u64);
        let part = wait(async move {
            let payload = PutPayload::from_bytes(bytes);
            uploads.put_part(&location, &id, number, payload).await
        })?
        .map_err(|error| self.cannot("write a part of", &upload.path, &error))?;
        upload.parts.push(part.content_id);
        upload.bytes += length;
        Ok(())
    }

    fn complete_upload(&self, upload: &Upload) -> Result<()> {
        let (uploads, location) = (self.uploads()?, self.path(&upload.path));
        let (id, parts) = (upload.id.clone(), upload.parts.clone());
        let completed = wait(async move {
            let parts = parts.into_iter().map(|content_id| PartId { content_id });
            uploads
                .complete_multipart(&location, &id, parts.collect())
                .await
        })?;
        let Err(error) = completed else {
            return Ok(());
        };
        // Completed already, by a run that could not say so before it ended.
        let (store, location) = (self.store.clone(), self.path(&upload.path));
        let there = wait(async move {
            let head = object_store::GetOptions {
                head: true,
                ..Default::default()
            };
            store.get_opts(&location, head).await
        })?;
        match there {
            Ok(object) if object.meta.size == upload.bytes => Ok(()),
            _ => Err(self.cannot("complete", &upload.path, &error)),
        }
    }

    fn abort_upload(&self, upload: &Upload) -> Result<()> {
        let (uploads, location) = (self.uploads()?, self.path(&upload.path));
        let id = upload.id.clone();
        match wait(async move { uploads.abort_multipart(&location, &id).await })? {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            // Not every store says "not found" of an upload that is gone.
            Err(error) if error.to_string().contains("not found") => Ok(()),
            Err(error) => Err(self.cannot("abort", &upload.path, &error)),
        }
    }

    fn has_uploads(&self) -> bool {
        self.uploads.is_some()
    }

    fn least_part_bytes(&self) -> usize {
        5 << 20
    }
}
