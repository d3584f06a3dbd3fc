//! What is known of a job while it runs: its id, its state, how long it has been up, what it would be restored from.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::clock::Clock;
use super::metrics::CheckpointMetrics;
use crate::stream::CheckpointId;
use crate::types::ProcessingTime;

/// The id of a job: 32 hexadecimal digits, as in Flink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub u128);

impl JobId {
    /// The first six digits, for file names.
    pub fn short(&self) -> String {
        self.to_string()[..6].to_string()
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// What a job is doing, in Flink's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum JobState {
    /// Its state is being restored; its tasks have not run yet.
    Initializing,
    /// Its tasks run.
    Running,
    /// It has failed and waits for its restart.
    Restarting,
    /// It has ended with all its input read, or with a savepoint.
    Finished,
    /// It was cancelled.
    Canceled,
    /// It has failed for good.
    Failed,
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JobState::Initializing => "INITIALIZING",
            JobState::Running => "RUNNING",
            JobState::Restarting => "RESTARTING",
            JobState::Finished => "FINISHED",
            JobState::Canceled => "CANCELED",
            JobState::Failed => "FAILED",
        })
    }
}

/// A job at one moment, as `volley list` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobOverview {
    /// Its id.
    pub id: String,
    /// `pipeline.name`.
    pub name: String,
    /// What it is doing.
    pub state: JobState,
    /// Milliseconds since its tasks last started; 0 while they do not run. Flink's metric `uptime`.
    pub uptime: u64,
    /// Milliseconds since it failed; 0 while it runs. Flink's metric `downtime`.
    pub downtime: u64,
    /// How often it was started again. Flink's metric `numRestarts`.
    pub restarts: u64,
    /// The latest complete checkpoint of this run.
    pub checkpoint: Option<u64>,
    /// Milliseconds since that was complete.
    pub checkpoint_age: Option<u64>,
    /// The latest savepoint of this run.
    pub savepoint: Option<String>,
}

/// See the module. Shared by the job's threads and whoever watches it.
pub struct JobStatus {
    id: JobId,
    name: String,
    clock: Arc<dyn Clock>,
    checkpoints: Arc<CheckpointMetrics>,
    inner: Mutex<Inner>,
}

struct Inner {
    state: JobState,
    since: ProcessingTime,
    restarts: u64,
    checkpoint: Option<(CheckpointId, ProcessingTime)>,
    savepoint: Option<(CheckpointId, String)>,
}

impl JobStatus {
    /// A job that is about to be restored.
    pub(super) fn new(id: JobId, name: &str, clock: Arc<dyn Clock>) -> Self {
        let since = clock.now();
        JobStatus {
            id,
            name: name.to_string(),
            clock,
            checkpoints: Arc::default(),
            inner: Mutex::new(Inner {
                state: JobState::Initializing,
                since,
                restarts: 0,
                checkpoint: None,
                savepoint: None,
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counters of its checkpoints, of all attempts.
    pub(super) fn checkpoints(&self) -> &Arc<CheckpointMetrics> {
        &self.checkpoints
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.id
    }

    /// The job now.
    pub fn overview(&self) -> JobOverview {
        let now = self.clock.now();
        let since = |time: ProcessingTime| (now.millis() - time.millis()).max(0) as u64;
        let inner = self.lock();
        let in_state = |state| {
            if inner.state == state {
                since(inner.since)
            } else {
                0
            }
        };
        JobOverview {
            id: self.id.to_string(),
            name: self.name.clone(),
            state: inner.state,
            uptime: in_state(JobState::Running),
            downtime: in_state(JobState::Restarting),
            restarts: inner.restarts,
            checkpoint: inner.checkpoint.map(|(checkpoint, _)| checkpoint.0),
            checkpoint_age: inner.checkpoint.map(|(_, time)| since(time)),
            savepoint: inner.savepoint.as_ref().map(|(_, path)| path.clone()),
        }
    }

    /// What the job is doing.
    pub(super) fn state(&self) -> JobState {
        self.lock().state
    }

    pub(super) fn set_state(&self, state: JobState) {
        let now = self.clock.now();
        let mut inner = self.lock();
        inner.since = now;
        inner.state = state;
    }

    pub(super) fn restarted(&self) {
        self.lock().restarts += 1;
        self.set_state(JobState::Running);
    }

    /// The newest complete checkpoint; told again and again.
    pub(super) fn checkpoint_completed(&self, checkpoint: CheckpointId) {
        let now = self.clock.now();
        let mut inner = self.lock();
        if inner.checkpoint.is_none_or(|(known, _)| known < checkpoint) {
            inner.checkpoint = Some((checkpoint, now));
        }
    }

    pub(super) fn savepoint_completed(&self, checkpoint: CheckpointId, path: &str) {
        self.lock().savepoint = Some((checkpoint, path.to_string()));
    }

    /// The latest savepoint of this run: its rows are committed, so a restart must not go back behind it.
    pub(super) fn savepoint(&self) -> Option<(CheckpointId, String)> {
        self.lock().savepoint.clone()
    }
}
