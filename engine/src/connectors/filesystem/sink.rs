//! Writes files in two phases: hidden in-progress files, closed at a barrier, become visible by a rename when their checkpoint
//! is complete.
//!
//! A file that is being written or waits for its commit is locked by its writer, so that a restore can tell leftovers of a
//! dead run (nobody holds the lock) from files of a living one. Names carry the number of the run, the subtask and a counter;
//! a name is taken by creating its in-progress file, which fails where another has it.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::FilesystemTable;
use super::files::about;
use super::part_file::PartFile;
use crate::connectors::{Committable, Sink, SinkWriter};
use crate::error::{Error, Result};
use crate::formats::format::only_inserts;
use crate::operators::Subtask;
use crate::stream::{ChangelogBatch, CheckpointId};

/// A table of files that is written.
pub(super) struct FilesystemSink {
    table: Arc<FilesystemTable>,
    /// The number of this run, once a writer exists.
    run: Mutex<Option<u64>>,
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
}

/// A closed file: its hidden name and the name that the commit gives it.
#[derive(Debug, Serialize, Deserialize)]
struct PreparedFile {
    from: PathBuf,
    to: PathBuf,
}

impl FilesystemSink {
    pub(super) fn new(table: Arc<FilesystemTable>) -> Self {
        FilesystemSink {
            table,
            run: Mutex::new(None),
            held: Arc::default(),
        }
    }

    /// The number of this run: above those of all files in the directory.
    fn run_number(&self) -> Result<u64> {
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(number) = *run {
            return Ok(number);
        }
        let highest = names(&self.table.path)?
            .iter()
            .filter_map(|name| run_of(name))
            .max();
        let number = highest.map_or(0, |highest| highest + 1);
        *run = Some(number);
        Ok(number)
    }
}

impl Sink for FilesystemSink {
    fn writer(&self, subtask: Subtask) -> Result<Box<dyn SinkWriter>> {
        let path = &self.table.path;
        fs::create_dir_all(path)
            .map_err(|error| about(path, &error))
            .map_err(|error| self.table.about(error))?;
        Ok(Box::new(FilesystemWriter {
            names: PartNames {
                directory: path.clone(),
                run: self.run_number()?,
                subtask: subtask.index,
                next: 0,
                extension: self.table.format.identifier(),
                table: plain_name(&self.table.context.table),
            },
            table: self.table.clone(),
            held: self.held.clone(),
            open: None,
            prepared: Vec::new(),
        }))
    }

    fn commit(&self, committables: &[Committable]) -> Result<()> {
        for committable in committables {
            let file: PreparedFile =
                serde_json::from_value(committable.0.clone()).map_err(|error| {
                    self.table.about(Error::internal(format!(
                        "the committable {} is wrong: {error}",
                        committable.0
                    )))
                })?;
            publish(&file).map_err(|error| self.table.about(error))?;
            self.held.release(&file.from);
        }
        if !committables.is_empty() {
            sync_directory(&self.table.path).map_err(|error| self.table.about(error))?;
        }
        Ok(())
    }
}

/// Renames a prepared file. One that has its name already was committed before.
fn publish(file: &PreparedFile) -> Result<()> {
    match (file.from.exists(), file.to.exists()) {
        (true, false) => {
            fs::rename(&file.from, &file.to).map_err(|error| about(&file.from, &error))
        }
        (false, true) => Ok(()),
        (true, true) => Err(Error::external(format!(
            "{} cannot become {}: another file has this name",
            file.from.display(),
            file.to.display()
        ))),
        (false, false) => Err(Error::external(format!(
            "{} is gone: it was written for a checkpoint and not yet committed",
            file.from.display()
        ))
        .hint("do not delete hidden files while a checkpoint that names them may be restored")),
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
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
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

/// The run of a file `part-RUN-…` or `.part-RUN-…`.
fn run_of(name: &str) -> Option<u64> {
    let rest = name
        .strip_prefix('.')
        .unwrap_or(name)
        .strip_prefix("part-")?;
    rest.split('-').next()?.parse().ok()
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

/// The names of one writer's files.
struct PartNames {
    directory: PathBuf,
    run: u64,
    subtask: usize,
    next: u64,
    extension: &'static str,
    table: String,
}

impl PartNames {
    /// Creates and locks the next in-progress file whose names are free.
    fn create(&mut self) -> Result<(PreparedFile, File)> {
        loop {
            let name = format!(
                "part-{}-{}-{}.{}",
                self.run, self.subtask, self.next, self.extension
            );
            self.next += 1;
            let names = PreparedFile {
                from: self
                    .directory
                    .join(format!(".{name}{}", self.in_progress_ending())),
                to: self.directory.join(name),
            };
            let created = File::options()
                .write(true)
                .create_new(true)
                .open(&names.from);
            let file = match created {
                Ok(file) => file,
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(about(&names.from, &error)),
            };
            // Another writer may just be looking for leftovers: what it could lock first is its to delete.
            // Where a file system knows no locks, leftovers are never deleted.
            let is_locked_by_other = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
            let is_ours = !is_locked_by_other && names.from.exists();
            if is_ours && !names.to.exists() {
                return Ok((names, file));
            }
            if is_ours {
                fs::remove_file(&names.from).map_err(|error| about(&names.from, &error))?;
            }
        }
    }

    fn in_progress_ending(&self) -> String {
        format!(".inprogress.{}", self.table)
    }

    /// Deletes this table's in-progress files that no living writer holds.
    fn delete_leftovers(&self) -> Result<()> {
        let ending = self.in_progress_ending();
        for name in names(&self.directory)? {
            if run_of(&name).is_some() && name.starts_with('.') && name.ends_with(&ending) {
                delete_unlocked(&self.directory.join(name))?;
            }
        }
        Ok(())
    }
}

fn delete_unlocked(path: &Path) -> Result<()> {
    let gone_is_fine = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(about(path, &error)),
    };
    match File::open(path) {
        Ok(file) if file.try_lock().is_ok() => fs::remove_file(path).or_else(gone_is_fine),
        Ok(_) => Ok(()),
        Err(error) => gone_is_fine(error),
    }
}

/// Writes the files of one subtask.
struct FilesystemWriter {
    table: Arc<FilesystemTable>,
    names: PartNames,
    held: Arc<HeldFiles>,
    open: Option<OpenPart>,
    /// Files that grew to their full size since the last barrier.
    prepared: Vec<PreparedFile>,
}

struct OpenPart {
    names: PreparedFile,
    file: PartFile,
}

impl FilesystemWriter {
    fn open_part(&mut self) -> Result<&mut OpenPart> {
        if self.open.is_none() {
            let (names, file) = self.names.create()?;
            let file = PartFile::new(file, &self.table).map_err(|error| in_file(error, &names))?;
            self.open = Some(OpenPart { names, file });
        }
        Ok(self.open.as_mut().expect("set above"))
    }

    /// Closes the open file so that it survives a crash.
    fn close_part(&mut self) -> Result<()> {
        let Some(part) = self.open.take() else {
            return Ok(());
        };
        let lock = part
            .file
            .close()
            .map_err(|error| in_file(error, &part.names))?;
        self.held.hold(part.names.from.clone(), lock);
        self.prepared.push(part.names);
        Ok(())
    }

    fn write_rows(&mut self, batch: &ChangelogBatch) -> Result<()> {
        let full_bytes = self.table.rolling_bytes;
        let part = self.open_part()?;
        let written = part.file.write(&batch.rows, &batch.kinds);
        written.map_err(|error| in_file(error, &part.names))?;
        if part.file.bytes() >= full_bytes {
            self.close_part()?;
        }
        Ok(())
    }
}

fn in_file(error: Error, names: &PreparedFile) -> Error {
    error.context(format!("while writing {}", names.from.display()))
}

impl SinkWriter for FilesystemWriter {
    fn write(&mut self, batch: &ChangelogBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let format = self.table.format.identifier();
        only_inserts(&batch.kinds, format, &self.table.context.table)?;
        self.write_rows(batch)
    }

    fn prepare_commit(&mut self, _checkpoint: CheckpointId) -> Result<Vec<Committable>> {
        self.close_part().map_err(|error| self.table.about(error))?;
        if !self.prepared.is_empty() {
            sync_directory(&self.table.path).map_err(|error| self.table.about(error))?;
        }
        let prepared = std::mem::take(&mut self.prepared);
        Ok(prepared
            .iter()
            .map(|file| Committable(serde_json::to_value(file).expect("paths of UTF-8 are JSON")))
            .collect())
    }

    fn discard_uncommitted(&mut self) -> Result<()> {
        self.names
            .delete_leftovers()
            .map_err(|error| self.table.about(error))
    }
}

impl Drop for FilesystemWriter {
    fn drop(&mut self) {
        // No checkpoint can name a file that was never closed. Should this fail, a restore deletes it.
        if let Some(part) = &self.open {
            let _ = fs::remove_file(&part.names.from);
        }
    }
}
