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

    fn remove_old(&self, newest: CheckpointId) -> Result<()> {
        let mut complete = complete_checkpoints(&self.directory)?;
        complete.retain(|(id, _)| *id <= newest.0);
        complete.sort();
        for (_, path) in complete.iter().rev().skip(self.retained) {
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

fn complete_checkpoints(directory: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let entries = fs::read_dir(directory).map_err(|error| cannot("list", directory, &error))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let id = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.strip_prefix("chk-"))
            .and_then(|id| id.parse().ok());
        if let Some(id) = id.filter(|_| path.join(MANIFEST).exists()) {
            found.push((id, path));
        }
    }
    Ok(found)
}

fn newest(directory: &Path) -> Result<PathBuf> {
    let newest = complete_checkpoints(directory)?
        .into_iter()
        .max()
        .map(|(_, path)| path);
    newest.ok_or_else(|| Error::user(format!("there is no complete checkpoint in {}", directory.display())).hint("'execution.state-recovery.path' names a directory chk-N with a manifest.json, or the one above it"))
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
