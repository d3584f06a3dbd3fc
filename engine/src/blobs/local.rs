//! Blobs as files below a local directory: written beside, synced, then renamed.

use std::fs;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

use super::{BlobInfo, BlobStore, Upload};
use crate::error::{Error, Result};

/// Files whose name begins so are not blobs yet.
const UNFINISHED: &str = ".unfinished-";

/// See the module. The directory is made with the first blob.
#[derive(Debug)]
pub struct LocalBlobs {
    root: PathBuf,
    next: AtomicU64,
}

impl LocalBlobs {
    /// The blobs below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        LocalBlobs {
            root: root.into(),
            next: AtomicU64::new(0),
        }
    }

    fn file(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// A name beside the file, which no other process takes.
    fn unfinished(&self, file: &Path) -> Result<PathBuf> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let directory = file.parent().unwrap_or(&self.root);
        create_directories(directory)?;
        let name = file.file_name().and_then(|name| name.to_str());
        let process = std::process::id();
        Ok(directory.join(format!(
            "{UNFINISHED}{}-{process}-{number}",
            name.unwrap_or("blob")
        )))
    }

    fn write_beside(&self, file: &Path, bytes: &[u8]) -> Result<PathBuf> {
        let beside = self.unfinished(file)?;
        let write = || -> std::io::Result<()> {
            let mut open = fs::File::create(&beside)?;
            open.write_all(bytes)?;
            open.sync_all()
        };
        write().map_err(|error| {
            let _ = fs::remove_file(&beside);
            cannot("write", file, &error)
        })?;
        Ok(beside)
    }
}

impl BlobStore for LocalBlobs {
    fn location(&self) -> String {
        self.root.display().to_string()
    }

    fn make_ready(&self) -> Result<()> {
        let beside = self.write_beside(&self.file("ready"), &[])?;
        fs::remove_file(&beside).map_err(|error| cannot("remove", &beside, &error))
    }

    fn put(&self, path: &str, bytes: Bytes) -> Result<()> {
        let file = self.file(path);
        let beside = self.write_beside(&file, &bytes)?;
        rename(&beside, &file)
    }

    fn create(&self, path: &str, bytes: Bytes) -> Result<bool> {
        let file = self.file(path);
        let beside = self.write_beside(&file, &bytes)?;
        let linked = fs::hard_link(&beside, &file);
        let _ = fs::remove_file(&beside);
        match linked {
            Ok(()) => sync_directory(&file).map(|()| true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(cannot("write", &file, &error)),
        }
    }

    fn get(&self, path: &str) -> Result<Option<Bytes>> {
        let file = self.file(path);
        match fs::read(&file) {
            Ok(bytes) => Ok(Some(Bytes::from(bytes))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(cannot("read", &file, &error)),
        }
    }

    fn is_directory(&self, path: &str) -> bool {
        self.file(path).is_dir()
    }

    fn get_range(&self, path: &str, offset: u64, length: u64) -> Result<Bytes> {
        let file = self.file(path);
        let read = || -> std::io::Result<Vec<u8>> {
            let mut open = fs::File::open(&file)?;
            let left = open.metadata()?.len().saturating_sub(offset);
            open.seek(SeekFrom::Start(offset))?;
            // Not cleared first, as for `read_exact`.
            let mut bytes = Vec::with_capacity(length.min(left) as usize);
            open.take(length).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read()
            .map(Bytes::from)
            .map_err(|error| cannot("read", &file, &error))
    }

    fn list(&self, prefix: &str) -> Result<Vec<BlobInfo>> {
        let mut found = Vec::new();
        walk(&self.root, &self.root.join(prefix), &mut found)?;
        found.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    fn delete(&self, path: &str) -> Result<()> {
        let file = self.file(path);
        match fs::remove_file(&file) {
            Ok(()) => {
                remove_empty_directories(&self.root, &file);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(cannot("remove", &file, &error)),
        }
    }

    fn start_upload(&self, path: &str) -> Result<Upload> {
        let beside = self.unfinished(&self.file(path))?;
        fs::File::create(&beside).map_err(|error| cannot("create", &beside, &error))?;
        Ok(Upload {
            path: path.to_string(),
            id: beside.display().to_string(),
            parts: Vec::new(),
            bytes: 0,
        })
    }

    fn put_part(&self, upload: &mut Upload, bytes: Bytes) -> Result<()> {
        self.put_part_of(upload, &bytes)
    }

    fn put_part_of(&self, upload: &mut Upload, bytes: &[u8]) -> Result<()> {
        let beside = PathBuf::from(&upload.id);
        let write = || -> std::io::Result<()> {
            let mut open = fs::OpenOptions::new().write(true).open(&beside)?;
            match open.metadata()?.len().cmp(&upload.bytes) {
                std::cmp::Ordering::Equal => {}
                // Half of a part that could not be written.
                std::cmp::Ordering::Greater => open.set_len(upload.bytes)?,
                std::cmp::Ordering::Less => {
                    return Err(std::io::Error::other("parts that were written are gone"));
                }
            }
            open.seek(SeekFrom::Start(upload.bytes))?;
            open.write_all(bytes)
        };
        write().map_err(|error| cannot("write", &beside, &error))?;
        upload.bytes += bytes.len() as u64;
        Ok(())
    }

    fn complete_upload(&self, upload: &Upload) -> Result<()> {
        let (beside, file) = (PathBuf::from(&upload.id), self.file(&upload.path));
        if !beside.exists() && file.exists() {
            return Ok(());
        }
        let open = fs::OpenOptions::new().write(true).open(&beside);
        open.and_then(|open| open.sync_all())
            .map_err(|error| cannot("complete", &file, &error))?;
        rename(&beside, &file)
    }

    fn clear_unfinished(&self, prefix: &str) -> Result<()> {
        let directory = self.root.join(prefix);
        let Ok(entries) = fs::read_dir(&directory) else {
            return Ok(());
        };
        for entry in entries.flatten() {
            let is_unfinished = entry.file_name().to_string_lossy().starts_with(UNFINISHED);
            if is_unfinished {
                fs::remove_file(entry.path())
                    .map_err(|error| cannot("remove", &entry.path(), &error))?;
            }
        }
        // An empty directory is no blob.
        let _ = fs::remove_dir(&directory);
        Ok(())
    }

    fn abort_upload(&self, upload: &Upload) -> Result<()> {
        match fs::remove_file(&upload.id) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(cannot("remove", Path::new(&upload.id), &error))
            }
            _ => Ok(()),
        }
    }
}

fn walk(root: &Path, directory: &Path, found: &mut Vec<BlobInfo>) -> Result<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(());
        }
        Err(error) => return Err(cannot("list", directory, &error)),
    };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_none_or(|name| name.starts_with(UNFINISHED)) {
            continue;
        }
        if path.is_dir() {
            walk(root, &path, found)?;
        } else if let (Ok(relative), Ok(facts)) = (path.strip_prefix(root), path.metadata()) {
            found.push(BlobInfo {
                path: relative.to_string_lossy().replace('\\', "/"),
                bytes: facts.len(),
            });
        }
    }
    Ok(())
}

/// Makes a directory and those above it so that they survive a crash.
fn create_directories(directory: &Path) -> Result<()> {
    let missing: Vec<&Path> = directory
        .ancestors()
        .take_while(|directory| !directory.as_os_str().is_empty() && !directory.exists())
        .collect();
    fs::create_dir_all(directory).map_err(|error| cannot("create", directory, &error))?;
    missing.into_iter().try_for_each(sync_directory)
}

fn remove_empty_directories(root: &Path, file: &Path) {
    let mut directory = file.parent();
    while let Some(empty) = directory.filter(|directory| *directory != root) {
        if fs::remove_dir(empty).is_err() {
            return;
        }
        directory = empty.parent();
    }
}

fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).map_err(|error| cannot("complete", to, &error))?;
    sync_directory(to)
}

/// A new name is durable once its directory is.
fn sync_directory(file: &Path) -> Result<()> {
    let directory = match file.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        Some(_) => Path::new("."),
        None => return Ok(()),
    };
    fs::File::open(directory)
        .and_then(|open| open.sync_all())
        .map_err(|error| cannot("sync", directory, &error))
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Error {
    let about = Error::external(format!("cannot {what} {}: {error}", path.display()));
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => about.hint("make room there"),
        _ => about,
    }
}
