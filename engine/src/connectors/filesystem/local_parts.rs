//! Parts in a local directory: hidden in-progress files, which become visible by a rename.
//!
//! A file that is being written or waits for its commit is locked by its writer, so that a restore can tell leftovers of a
//! dead run (nobody holds the lock) from files of a living one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::files::about;
use super::part_store::{PartName, PartNames, PartOutput, PartStore, PreparedPart, as_io};
use crate::error::{Error, Result};

/// See the module.
pub(super) struct LocalParts {
    directory: PathBuf,
    /// What the names of this table's in-progress files end in.
    ending: String,
    /// The same of files that were visible and are no longer.
    taken_back: String,
    held: Arc<HeldFiles>,
}

/// The locks of closed files that wait for their commit, by path.
#[derive(Default)]
struct HeldFiles(Mutex<BTreeMap<PathBuf, File>>);

impl HeldFiles {
    fn hold(&self, path: PathBuf, lock: File) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.insert(path, lock);
    }

    fn release(&self, path: &Path) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.remove(path);
    }

    fn release_all(&self) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.clear();
    }
}

impl LocalParts {
    /// Parts of a table in a directory.
    pub(super) fn new(directory: &Path, table: &str) -> Self {
        LocalParts {
            directory: directory.to_path_buf(),
            ending: format!(".inprogress.{}", plain_name(table)),
            taken_back: format!(".taken-back.{}", plain_name(table)),
            held: Arc::default(),
        }
    }
}

impl PartStore for LocalParts {
    fn make_ready(&self) -> Result<()> {
        let mut missing = Vec::new();
        for directory in self.directory.ancestors() {
            if directory.as_os_str().is_empty() || directory.exists() {
                break;
            }
            missing.push(directory);
        }
        fs::create_dir_all(&self.directory).map_err(|error| about(&self.directory, &error))?;
        // A new directory survives a crash of the machine once the one above it is on the disk.
        for directory in missing {
            let above = directory
                .parent()
                .filter(|above| !above.as_os_str().is_empty());
            sync_directory(above.unwrap_or(Path::new(".")))?;
        }
        Ok(())
    }

    fn create(&self, names: &mut PartNames) -> Result<Box<dyn PartOutput>> {
        loop {
            let name = names.next().unwrap_or_default();
            let from = self.directory.join(format!(".{name}{}", self.ending));
            let to = self.directory.join(name);
            let created = File::options().write(true).create_new(true).open(&from);
            let file = match created {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(about(&from, &error)),
            };
            // Another writer may just be looking for leftovers: what it could lock first is its to delete.
            // Where a file system knows no locks, leftovers are never deleted.
            let is_locked_by_other = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
            if is_locked_by_other || !from.exists() {
                continue;
            }
            return Ok(Box::new(LocalOutput {
                file: Some(file),
                from,
                to,
                held: self.held.clone(),
            }));
        }
    }

    fn sync(&self) -> Result<()> {
        sync_directory(&self.directory)
    }

    fn commit(&self, parts: &[PreparedPart]) -> Result<()> {
        let mut directories = BTreeSet::new();
        for part in parts {
            let PreparedPart::File { from, to } = part else {
                return Err(Error::user(format!(
                    "a checkpoint holds an upload to an object store, but the table's path is {}",
                    self.directory.display()
                ))
                .hint("restore with the path that the table had"));
            };
            let part = self.found(from, to);
            publish(&part.from, &part.to)?;
            self.held.release(from);
            directories.extend(part.to.parent().map(Path::to_path_buf));
        }
        // Those of a table whose path has changed since may lie elsewhere.
        directories
            .into_iter()
            .try_for_each(|directory| sync_directory(&directory))
    }

    /// Hides them again, under a name that nobody deletes: should their rows not come again, they are there. Parts of another
    /// directory stay, since the rows do not come there.
    fn take_back(&self, parts: &[PreparedPart]) -> Result<usize> {
        let mut taken = 0;
        for part in parts {
            let hidden = match part {
                PreparedPart::File { from, to } => self.hide(&self.found(from, to))?,
                PreparedPart::Upload(_) => true,
            };
            taken += usize::from(hidden);
        }
        sync_directory(&self.directory)?;
        Ok(taken)
    }

    fn visible_after(&self, parts: &[PreparedPart]) -> Result<Vec<String>> {
        let last = PartName::last_of_each(parts);
        if last.is_empty() {
            return Ok(Vec::new());
        }
        let is_later = |name: &String| {
            let part = PartName::parse(name);
            part.is_some_and(|part| {
                let last = last.get(&part.writer);
                last.is_some_and(|last| part.number > last.number)
            })
        };
        let later = names(&self.directory)?.into_iter().filter(is_later);
        Ok(later
            .map(|name| self.directory.join(name).display().to_string())
            .collect())
    }

    fn discard_leftovers(&self) -> Result<()> {
        // What an attempt before this one, in this process, prepared for a checkpoint that never completed.
        self.held.release_all();
        for name in names(&self.directory)? {
            if name.starts_with(".part-") && name.ends_with(&self.ending) {
                delete_unlocked(&self.directory.join(name))?;
            }
        }
        Ok(())
    }
}

impl LocalParts {
    /// Where a part is: where it was written, or under the same names in this directory, should the files have been moved here since.
    fn found(&self, from: &Path, to: &Path) -> LocalPart {
        let here = |path: &Path| self.directory.join(path.file_name().unwrap_or_default());
        let moved = LocalPart {
            from: here(from),
            to: here(to),
        };
        let is_gone = !from.exists() && !to.exists();
        match is_gone && (moved.from.exists() || moved.to.exists()) {
            true => moved,
            false => LocalPart {
                from: from.to_path_buf(),
                to: to.to_path_buf(),
            },
        }
    }

    /// Whether a part is hidden now, or in another directory. False: somebody has moved it away.
    fn hide(&self, part: &LocalPart) -> Result<bool> {
        if part.to.parent() != Some(&self.directory) {
            return Ok(true);
        }
        let name = part.to.file_name().unwrap_or_default().to_string_lossy();
        let hidden = self.directory.join(format!(".{name}{}", self.taken_back));
        if !part.to.exists() {
            return Ok(part.from.exists() || hidden.exists());
        }
        fs::rename(&part.to, &hidden).map_err(|error| about(&part.to, &error))?;
        Ok(true)
    }
}

/// The hidden and the visible name of a part.
struct LocalPart {
    from: PathBuf,
    to: PathBuf,
}

/// Renames a prepared file. One that has its name already was committed before.
fn publish(from: &Path, to: &Path) -> Result<()> {
    match (from.exists(), to.exists()) {
        (true, false) => fs::rename(from, to).map_err(|error| about(from, &error)),
        (false, true) => Ok(()),
        (true, true) => Err(Error::external(format!(
            "{} cannot become {}: another file has this name",
            from.display(),
            to.display()
        ))
        .hint("move the other file away")),
        (false, false) => Err(Error::external(format!(
            "{} is gone: it was written for a checkpoint that is to be committed",
            from.display()
        ))
        .hint(format!(
            "hidden files must stay while a checkpoint that names them may be restored, and committed ones until the next checkpoint is complete; \
             to go on without the rows of this one, put a file without rows at {}",
            to.display()
        ))),
    }
}

/// Makes renames in a directory durable.
fn sync_directory(path: &Path) -> Result<()> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| about(path, &error))
}

/// The names in a directory, sorted; none where it does not exist.
fn names(directory: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(about(directory, &error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| about(directory, &error))?;
        names.extend(entry.file_name().into_string());
    }
    names.sort();
    Ok(names)
}

/// A table's name as a part of a file name.
fn plain_name(table: &str) -> String {
    table
        .chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => c.to_string(),
            other => format!("%{:x}", other as u32),
        })
        .collect()
}

fn delete_unlocked(path: &Path) -> Result<()> {
    let gone_is_fine = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => Ok(()),
        _ => Err(about(path, &error)),
    };
    match File::open(path) {
        Ok(file) if file.try_lock().is_ok() => fs::remove_file(path).or_else(gone_is_fine),
        Ok(_) => Ok(()),
        Err(error) => gone_is_fine(error),
    }
}

/// An in-progress file.
struct LocalOutput {
    /// The file, and its lock; `None` once prepared.
    file: Option<File>,
    from: PathBuf,
    to: PathBuf,
    held: Arc<HeldFiles>,
}

impl Write for LocalOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = self.file.as_mut().expect("written only until prepared");
        file.write(bytes).map_err(|error| match error.kind() {
            ErrorKind::Interrupted => error,
            _ => as_io(about(&self.from, &error)),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl PartOutput for LocalOutput {
    fn name(&self) -> String {
        self.from.display().to_string()
    }

    fn prepare(mut self: Box<Self>) -> Result<PreparedPart> {
        let file = self.file.as_ref().expect("prepared once");
        file.sync_all().map_err(|error| about(&self.from, &error))?;
        if let Some(lock) = self.file.take() {
            self.held.hold(self.from.clone(), lock);
        }
        Ok(PreparedPart::File {
            from: self.from.clone(),
            to: self.to.clone(),
        })
    }
}

impl Drop for LocalOutput {
    fn drop(&mut self) {
        // No checkpoint can name a file that was never prepared. Should this fail, a restore deletes it.
        if self.file.is_some() {
            let _ = fs::remove_file(&self.from);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::FilesystemTable;
    use super::super::part_file::PartFile;
    use super::super::tests::{decode, sample, sink_table};
    use super::*;
    use crate::error::ErrorKind;
    use crate::types::RowKinds;

    /// A part on a disk that is full.
    fn full(directory: &Path) -> LocalOutput {
        let from = directory.join(".part-x.inprogress.t");
        fs::write(&from, "").unwrap();
        LocalOutput {
            file: Some(File::options().write(true).open("/dev/full").unwrap()),
            from,
            to: directory.join("part-x"),
            held: Arc::default(),
        }
    }

    #[test]
    fn a_full_disk_is_told_with_the_file_and_leaves_nothing() {
        for format in ["json", "csv", "parquet"] {
            let directory = tempfile::tempdir().unwrap();
            let descriptor = sink_table(directory.path(), format);
            let table = FilesystemTable::new(&descriptor).unwrap();
            let mut part = PartFile::new(Box::new(full(directory.path())), &table).unwrap();
            let rows = decode(&descriptor, &sample(0..3));
            // Few rows: the disk is asked when the part ends.
            part.write(&rows, &RowKinds::INSERT_ONLY).unwrap();
            let error = part.prepare().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Resource, "{error}");
            let text = error.to_string();
            assert!(
                text.contains("part-x") && text.contains("make room there"),
                "{text}"
            );
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        }
        let directory = tempfile::tempdir().unwrap();
        let mut table = FilesystemTable::new(&sink_table(directory.path(), "json")).unwrap();
        table.rolling_bytes = 1;
        let mut part = PartFile::new(Box::new(full(directory.path())), &table).unwrap();
        let many = decode(&sink_table(directory.path(), "json"), &sample(0..30_000));
        let error = part.write(&many, &RowKinds::INSERT_ONLY).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Resource, "{error}");
    }

    #[test]
    fn a_path_that_cannot_be_a_directory_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let parts = LocalParts::new(&file.join("below"), "t");
        let error = parts.make_ready().unwrap_err().to_string();
        assert!(
            error.contains("file/below") && error.contains("a file stands where"),
            "{error}"
        );
    }
}
