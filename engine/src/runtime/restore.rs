//! What a job starts from: nothing, a checkpoint that was named, its own newest one.

use std::fmt;
use std::sync::Arc;

use super::expected_operators::expected_operators;
use super::graph::JobGraph;
use crate::checkpoint::savepoint::SavepointReader;
use crate::checkpoint::upgrade::{MigratingReader, UpgradeReport, plan_upgrade};
use crate::checkpoint::{CheckpointReader, SnapshotReader};
use crate::config::SessionConfig;
use crate::error::{Error, Result};
use crate::stream::CheckpointId;

/// `execution.state-recovery.*`, and `--resume`.
#[derive(Debug, Clone, Default)]
pub struct RestoreOptions {
    /// `execution.state-recovery.path`.
    pub path: Option<String>,
    /// `execution.state-recovery.claim-mode`.
    pub claim_mode: ClaimMode,
    /// `execution.state-recovery.ignore-unclaimed-state`.
    pub ignore_unclaimed_state: bool,
    /// Whether to go on from the newest complete checkpoint in `execution.checkpointing.dir`, where there is one; it goes before
    /// `path`, and earlier checkpoints there are the job's own.
    pub resume: bool,
}

/// Whose the checkpoint is that a job was started from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClaimMode {
    /// The user's: it is never deleted, and no new checkpoint refers to its files.
    #[default]
    NoClaim,
    /// The job's: it is deleted when newer ones have taken its place.
    Claim,
}

impl RestoreOptions {
    /// The options of a session.
    pub fn from_config(config: &SessionConfig) -> Self {
        let key = |name: &str| format!("execution.state-recovery.{name}");
        let claim_mode = config.get(&key("claim-mode"));
        RestoreOptions {
            path: config.get(&key("path")).map(str::to_string),
            claim_mode: match claim_mode.map(str::to_ascii_uppercase).as_deref() {
                Some("CLAIM") => ClaimMode::Claim,
                _ => ClaimMode::NoClaim,
            },
            ignore_unclaimed_state: config.boolean(&key("ignore-unclaimed-state")),
            resume: false,
        }
    }
}

/// A checkpoint or savepoint that was opened.
pub(super) struct OpenSnapshot {
    pub(super) path: String,
    pub(super) reader: Arc<dyn SnapshotReader>,
    /// The same, where it is a checkpoint that a job may take over.
    pub(super) checkpoint: Option<Arc<CheckpointReader>>,
}

impl OpenSnapshot {
    /// Opens the checkpoint or savepoint at a path: its directory, or a directory of checkpoints.
    pub(super) fn open(path: &str, max_parallelism: u16) -> Result<Self> {
        if let Some(savepoint) = SavepointReader::open(path)? {
            return Ok(OpenSnapshot {
                path: path.to_string(),
                reader: Arc::new(savepoint),
                checkpoint: None,
            });
        }
        let checkpoint = Arc::new(CheckpointReader::open(path, max_parallelism)?);
        Ok(OpenSnapshot {
            path: checkpoint.location().to_string(),
            reader: checkpoint.clone(),
            checkpoint: Some(checkpoint),
        })
    }

    /// The state in the form in which the operators of a graph ask for it, and what becomes of it. Errors: state would be lost, and
    /// the job's options do not allow it.
    pub(super) fn upgraded(self, graph: &JobGraph) -> Result<(Self, UpgradeReport)> {
        let expected = expected_operators(graph)?;
        let report = plan_upgrade(&*self.reader, &expected)?;
        report.refuse_losses(graph.allow_dropped_state)?;
        if report.is_unchanged() {
            return Ok((self, report));
        }
        let reader = MigratingReader::new(self.reader, &report, &expected);
        let upgraded = OpenSnapshot {
            path: self.path,
            reader: Arc::new(reader),
            // Its files hold the state in another form, so no checkpoint can go on from them.
            checkpoint: None,
        };
        Ok((upgraded, report))
    }

    /// Its number and place.
    pub(super) fn origin(&self) -> Origin {
        Origin {
            checkpoint: self.reader.checkpoint(),
            path: self.path.clone(),
        }
    }
}

/// Where the state of a job came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The number of the checkpoint.
    pub checkpoint: CheckpointId,
    /// Where it is.
    pub path: String,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "checkpoint {} ({})", self.checkpoint, self.path)
    }
}

/// A checkpoint that could not be read on the way to one that could.
pub(super) struct Unreadable {
    pub(super) checkpoint: CheckpointId,
    pub(super) error: Error,
}

/// The newest of these checkpoints that can be read. All before it are reported; where none can be, the first error is final.
pub(super) fn newest_readable(
    mut candidates: Vec<(CheckpointId, String)>,
    max_parallelism: u16,
) -> Result<(Option<OpenSnapshot>, Vec<Unreadable>)> {
    candidates.sort();
    let mut unreadable: Vec<Unreadable> = Vec::new();
    for (checkpoint, path) in candidates.into_iter().rev() {
        match OpenSnapshot::open(&path, max_parallelism) {
            Ok(snapshot) => return Ok((Some(snapshot), unreadable)),
            Err(error) if error.kind() == crate::error::ErrorKind::User => return Err(error),
            Err(error) => unreadable.push(Unreadable { checkpoint, error }),
        }
    }
    match unreadable.into_iter().next() {
        Some(first) => Err(first.error),
        None => Ok((None, Vec::new())),
    }
}
