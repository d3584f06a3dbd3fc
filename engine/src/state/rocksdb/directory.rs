//! A directory for one run, which nobody else touches, and which does not outlive the process by long.
//!
//! Its owner holds a lock on a file in it. A lock goes with the process, however that ends, so a directory whose lock can be had is
//! left over and is removed by whoever starts next in the same place. Process numbers alone could not tell: they come again, and
//! containers that share a disk do not share them.

use std::fs::{self, File};
use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

const PREFIX: &str = "volley-state-";
const LOCK: &str = "owner.lock";

/// See the module. Removed when dropped.
#[derive(Debug)]
pub(super) struct LocalDirectory {
    path: PathBuf,
    /// Holds the lock.
    _lock: File,
}

impl LocalDirectory {
    /// A new directory in `parent`, which is made where it is missing.
    pub(super) fn create(parent: &Path) -> Result<Self> {
        let failed = |error| cannot_write(parent, &error);
        fs::create_dir_all(parent).map_err(failed)?;
        remove_left_over(parent);
        let path = create_new(parent).map_err(failed)?;
        let lock = lock(&path).map_err(failed)?;
        Ok(LocalDirectory { path, _lock: lock })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LocalDirectory {
    fn drop(&mut self) {
        // What cannot be removed now is left over, and removed at a later start.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The error of a disk that is full, missing or read-only.
fn cannot_write(parent: &Path, error: &IoError) -> Error {
    Error::resource(format!(
        "cannot keep state in {}: {error}",
        parent.display()
    ))
    .hint(
        "set state.backend.rocksdb.localdir to a local directory that can be written and has room",
    )
}

fn create_new(parent: &Path) -> std::io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|()| path),
        }
    }
}

/// The lock file gets its name once it is locked: nobody takes the directory for left over before.
fn lock(path: &Path) -> std::io::Result<File> {
    let unlocked = path.join("owner.new");
    let file = File::create(&unlocked)?;
    if file.try_lock().is_ok() {
        fs::rename(unlocked, path.join(LOCK))?;
    }
    Ok(file)
}

/// Removes what others left. That this fails is no reason not to start.
fn remove_left_over(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && is_left_over(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_left_over(path: &Path) -> bool {
    File::open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_goes_with_its_owner() {
        let parent = tempfile::tempdir().unwrap();
        let first = LocalDirectory::create(parent.path()).unwrap();
        let second = LocalDirectory::create(parent.path()).unwrap();
        assert_ne!(first.path(), second.path());
        let path = first.path().to_path_buf();
        drop(first);
        assert!(!path.exists());
        assert!(second.path().exists());
    }

    #[test]
    fn left_over_directories_are_removed_and_others_are_not() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join("volley-state-1-0");
        fs::create_dir(&left).unwrap();
        fs::write(left.join(LOCK), "").unwrap();
        fs::write(left.join("000001.sst"), "rows").unwrap();
        let other = parent.path().join("volley-state-of-somebody");
        fs::create_dir(&other).unwrap();
        let mine = LocalDirectory::create(parent.path()).unwrap();
        assert!(!left.exists());
        assert!(other.exists());
        let next = LocalDirectory::create(parent.path()).unwrap();
        assert!(mine.path().exists() && next.path().exists());
    }

    #[test]
    fn a_place_that_cannot_be_written_is_an_error_with_its_path() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        let error = LocalDirectory::create(&file.join("below")).unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::Resource);
        assert!(
            error.to_string().contains(&file.display().to_string()),
            "{error}"
        );
        assert!(
            error.to_string().contains("state.backend.rocksdb.localdir"),
            "{error}"
        );
    }
}
