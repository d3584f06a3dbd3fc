//! Checkpoints in a directory: Arrow files first, the manifest last and by rename, old checkpoints removed afterwards.
//!
//! `<dir>/chk-<id>/manifest.json` names everything in its directory with lengths and checksums and is all that a restore
//! needs. A directory without a manifest is the rest of a checkpoint that did not complete.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::FileWriter;
use xxhash_rust::xxh3::xxh3_64;

use super::{JobSnapshot, Manifest, ManifestTable};
use crate::error::{Error, Result};
use crate::state::{StateSnapshot, StateTable};
use crate::stream::CheckpointId;

const MANIFEST: &str = "manifest.json";
const VERSION: u32 = 1;

/// Writes the checkpoints of one job below a directory.
#[derive(Debug, Clone)]
pub struct CheckpointStorage {
    directory: PathBuf,
    job: String,
    max_parallelism: u16,
    retained: usize,
}

impl CheckpointStorage {
    /// Storage below `directory` (a path or `file://` URL), keeping the `retained` newest checkpoints (at least one).
    pub fn new(directory: &str, job: &str, max_parallelism: u16, retained: usize) -> Result<Self> {
        let directory = local_path(directory)?;
        fs::create_dir_all(&directory).map_err(|error| cannot("create", &directory, &error))?;
        Ok(CheckpointStorage {
            directory,
            job: job.to_string(),
            max_parallelism,
            retained: retained.max(1),
        })
    }

    /// Writes a complete checkpoint and makes it the newest.
    pub fn write(&self, snapshot: &JobSnapshot) -> Result<PathBuf> {
        let target = self.directory.join(format!("chk-{}", snapshot.checkpoint));
        if target.exists() {
            fs::remove_dir_all(&target).map_err(|error| cannot("clear", &target, &error))?;
        }
        fs::create_dir_all(&target).map_err(|error| cannot("create", &target, &error))?;
        let mut operators = BTreeMap::new();
        for (number, (uid, state)) in snapshot.operators.iter().enumerate() {
            let mut tables = BTreeMap::new();
            for (index, (name, table)) in state.tables.iter().enumerate() {
                tables.insert(
                    name.clone(),
                    write_table(
                        &target,
                        &format!("operator-{number}-table-{index}.arrow"),
                        table,
                    )?,
                );
            }
            operators.insert(uid.clone(), tables);
        }
        let manifest = Manifest {
            version: VERSION,
            checkpoint: snapshot.checkpoint,
            job: self.job.clone(),
            max_parallelism: self.max_parallelism,
            operators,
        };
        let text = serde_json::to_vec_pretty(&manifest).map_err(|error| {
            Error::internal(format!("the manifest does not serialise: {error}"))
        })?;
        let unfinished = target.join(".manifest.json.tmp");
        write_file(&unfinished, &text)?;
        fs::rename(&unfinished, target.join(MANIFEST))
            .map_err(|error| cannot("complete", &target, &error))?;
        self.remove_old(snapshot.checkpoint)?;
        Ok(target)
    }

    /// Reads a checkpoint: `path` is its directory, or a directory of checkpoints of which the newest complete one is taken.
    pub fn read(path: &str, max_parallelism: u16) -> Result<JobSnapshot> {
        let directory = local_path(path)?;
        let source = if directory.join(MANIFEST).exists() {
            directory
        } else {
            newest(&directory)?
        };
        let file = source.join(MANIFEST);
        let text = fs::read(&file).map_err(|error| cannot("read", &file, &error))?;
        let manifest: Manifest = serde_json::from_slice(&text)
            .map_err(|error| Error::external(format!("{} is damaged: {error}", file.display())))?;
        check(&manifest, &file, max_parallelism)?;
        let mut operators = BTreeMap::new();
        for (uid, tables) in &manifest.operators {
            let mut state = StateSnapshot::default();
            for (name, table) in tables {
                state
                    .tables
                    .insert(name.clone(), read_table(&source, table)?);
            }
            operators.insert(uid.clone(), state);
        }
        Ok(JobSnapshot {
            checkpoint: manifest.checkpoint,
            operators,
        })
    }

    /// Removes what lies before the checkpoints that are kept, also the rests of those that never completed.
    fn remove_old(&self, newest: CheckpointId) -> Result<()> {
        let all = checkpoints(&self.directory)?;
        let mut complete: Vec<u64> = all
            .iter()
            .filter(|(id, path)| *id <= newest.0 && is_complete(path))
            .map(|(id, _)| *id)
            .collect();
        complete.sort_unstable();
        let Some(oldest_kept) = complete.iter().rev().take(self.retained).next_back() else {
            return Ok(());
        };
        for (_, path) in all.iter().filter(|(id, _)| id < oldest_kept) {
            fs::remove_dir_all(path).map_err(|error| cannot("remove", path, &error))?;
        }
        Ok(())
    }
}

fn check(manifest: &Manifest, file: &Path, max_parallelism: u16) -> Result<()> {
    if manifest.version != VERSION {
        return Err(Error::user(format!(
            "{} has layout version {}; this build reads version {VERSION}",
            file.display(),
            manifest.version
        )));
    }
    if manifest.max_parallelism != max_parallelism {
        return Err(Error::user(format!(
            "the checkpoint {} was written with pipeline.max-parallelism {}, the job has {max_parallelism}",
            file.display(),
            manifest.max_parallelism
        ))
        .hint(format!("SET 'pipeline.max-parallelism' = '{}'", manifest.max_parallelism)));
    }
    Ok(())
}

/// The directories `chk-<id>` below a directory, complete or not.
fn checkpoints(directory: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let entries = fs::read_dir(directory).map_err(|error| cannot("list", directory, &error))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(id) = name
            .and_then(|name| name.strip_prefix("chk-"))
            .and_then(|id| id.parse().ok())
        {
            found.push((id, path));
        }
    }
    Ok(found)
}

fn is_complete(checkpoint: &Path) -> bool {
    checkpoint.join(MANIFEST).exists()
}

fn newest(directory: &Path) -> Result<PathBuf> {
    let complete = checkpoints(directory)?
        .into_iter()
        .filter(|(_, path)| is_complete(path));
    complete.max().map(|(_, path)| path).ok_or_else(|| {
        Error::user(format!("there is no complete checkpoint in {}", directory.display()))
            .hint("'execution.state-recovery.path' names a directory chk-N with a manifest.json, or the one above it")
    })
}

fn write_table(target: &Path, file: &str, table: &StateTable) -> Result<ManifestTable> {
    let Some(first) = table.batches.first() else {
        return Ok(ManifestTable {
            file: None,
            bytes: 0,
            checksum: String::new(),
            scope: table.scope,
        });
    };
    let mut bytes = Vec::new();
    let mut writer = FileWriter::try_new(&mut bytes, &first.schema())?;
    for batch in &table.batches {
        writer.write(batch)?;
    }
    writer.finish()?;
    drop(writer);
    write_file(&target.join(file), &bytes)?;
    Ok(ManifestTable {
        file: Some(file.to_string()),
        bytes: bytes.len() as u64,
        checksum: format!("{:016x}", xxh3_64(&bytes)),
        scope: table.scope,
    })
}

fn read_table(source: &Path, table: &ManifestTable) -> Result<StateTable> {
    let Some(file) = &table.file else {
        return Ok(StateTable {
            scope: table.scope,
            batches: Vec::new(),
        });
    };
    let path = source.join(file);
    let bytes = fs::read(&path).map_err(|error| cannot("read", &path, &error))?;
    if bytes.len() as u64 != table.bytes || format!("{:016x}", xxh3_64(&bytes)) != table.checksum {
        return Err(Error::external(format!(
            "{} is damaged: its length or checksum is not the manifest's",
            path.display()
        ))
        .hint("restore an older checkpoint"));
    }
    let reader = FileReader::try_new(std::io::Cursor::new(bytes), None)?;
    Ok(StateTable {
        scope: table.scope,
        batches: reader.collect::<std::result::Result<_, _>>()?,
    })
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut file = fs::File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(|error| cannot("write", path, &error))
}

fn local_path(url: &str) -> Result<PathBuf> {
    let path = url
        .strip_prefix("file://")
        .or_else(|| url.strip_prefix("file:"))
        .unwrap_or(url);
    if path.contains("://") {
        return Err(
            Error::unsupported(format!("the checkpoint directory '{url}'"))
                .hint("give a local path or a file:// URL"),
        );
    }
    Ok(PathBuf::from(path))
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::external(format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt64Array};

    use super::*;
    use crate::state::KEY_HASH_COLUMN;

    fn snapshot(checkpoint: u64, values: Vec<i64>) -> JobSnapshot {
        let groups: ArrayRef = Arc::new(UInt64Array::from_iter_values(
            values.iter().map(|value| *value as u64),
        ));
        let column: ArrayRef = Arc::new(Int64Array::from(values));
        let mut state = StateSnapshot::default();
        state.insert_keyed(
            "sums",
            vec![
                RecordBatch::try_from_iter([(KEY_HASH_COLUMN, groups), ("value", column)]).unwrap(),
            ],
        );
        state.insert_keyed("empty", vec![]);
        JobSnapshot {
            checkpoint: CheckpointId(checkpoint),
            operators: BTreeMap::from([("aggregate".to_string(), state)]),
        }
    }

    #[test]
    fn the_newest_complete_checkpoint_is_read_back_and_older_ones_go() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_str().unwrap();
        let storage = CheckpointStorage::new(path, "job", 128, 1).unwrap();
        storage.write(&snapshot(1, vec![1])).unwrap();
        fs::create_dir(directory.path().join("chk-2")).unwrap();
        storage.write(&snapshot(3, vec![1, 2, 3])).unwrap();
        fs::create_dir(directory.path().join("chk-4")).unwrap();
        let read = CheckpointStorage::read(path, 128).unwrap();
        assert_eq!(read.checkpoint, CheckpointId(3));
        let state = &read.operators["aggregate"];
        assert_eq!(
            state.batches("sums"),
            snapshot(3, vec![1, 2, 3]).operators["aggregate"].batches("sums")
        );
        assert!(state.batches("empty").is_empty());
        let mut left: Vec<u64> = checkpoints(directory.path())
            .unwrap()
            .into_iter()
            .map(|(id, _)| id)
            .collect();
        left.sort_unstable();
        assert_eq!(
            left,
            [3, 4],
            "what lies before the newest complete one is removed"
        );
    }

    #[test]
    fn a_damaged_file_and_another_max_parallelism_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_str().unwrap();
        let written = CheckpointStorage::new(path, "job", 128, 1)
            .unwrap()
            .write(&snapshot(1, vec![7]))
            .unwrap();
        let error = CheckpointStorage::read(path, 64).unwrap_err().to_string();
        assert!(error.contains("pipeline.max-parallelism 128"), "{error}");
        let file = fs::read_dir(&written)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.extension().is_some_and(|e| e == "arrow"))
            .unwrap();
        let mut bytes = fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&file, bytes).unwrap();
        assert!(
            CheckpointStorage::read(path, 128)
                .unwrap_err()
                .to_string()
                .contains("damaged")
        );
    }
}
