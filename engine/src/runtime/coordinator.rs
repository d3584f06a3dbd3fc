//! The thread that starts checkpoints, has them written and tells the tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver as ReportReceiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::channel::Parker;
use super::clock::Clock;
use super::control::JobRequest;
use super::job::JobOptions;
use super::metrics::{JobMetrics, Progress};
use super::stopping::{SavepointRequests, StopFlags};
use super::task::TaskReport;
use crate::checkpoint::{CheckpointCoordinator, CheckpointStorage, JobSnapshot};
use crate::error::{Error, Result};

pub(super) fn next_checkpoint(options: &JobOptions) -> Option<Instant> {
    (!options.checkpoint_interval.is_zero()).then(|| Instant::now() + options.checkpoint_interval)
}

/// What the threads of a job share.
pub(super) struct Shared {
    pub(super) requested: AtomicU64,
    pub(super) completed: AtomicU64,
    pub(super) cancel: Arc<AtomicBool>,
    pub(super) stop: Arc<StopFlags>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: JobOptions,
}

pub(super) enum Report {
    Task(TaskReport),
    Failed(Error),
    ThreadEnded,
}

pub(super) struct Coordinator {
    pub(super) checkpoints: CheckpointCoordinator,
    pub(super) storage: Option<CheckpointStorage>,
    pub(super) shared: Arc<Shared>,
    pub(super) parkers: Vec<Arc<Parker>>,
    pub(super) metrics: Arc<JobMetrics>,
    pub(super) next_checkpoint: Option<Instant>,
    pub(super) savepoints: SavepointRequests,
}

impl Coordinator {
    pub(super) fn run(
        &mut self,
        reports: &ReportReceiver<Report>,
        requests: &ReportReceiver<JobRequest>,
        progress: &mut dyn FnMut(&JobMetrics, Progress),
    ) -> Result<()> {
        const TICK: Duration = Duration::from_millis(100);
        let mut running = self.parkers.len();
        let mut last_progress = Instant::now();
        while running > 0 {
            let wait = self.next_checkpoint.map_or(TICK, |next| {
                next.saturating_duration_since(Instant::now()).min(TICK)
            });
            match reports.recv_timeout(wait) {
                Ok(Report::Task(report)) => self.take(report)?,
                Ok(Report::Failed(error)) => return Err(error),
                Ok(Report::ThreadEnded) => running -= 1,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.savepoints.take(requests);
            self.begin_savepoint();
            self.trigger_when_due();
            if self.shared.cancel.load(Ordering::SeqCst) {
                self.wake_all();
            }
            if last_progress.elapsed() >= TICK {
                last_progress = Instant::now();
                progress(&self.metrics, self.metrics.progress());
            }
        }
        progress(&self.metrics, self.metrics.progress());
        Ok(())
    }

    fn take(&mut self, report: TaskReport) -> Result<()> {
        let complete = match report.checkpoint {
            Some(checkpoint) => {
                self.checkpoints
                    .acknowledge(report.task, checkpoint, report.snapshots)
            }
            None => self.checkpoints.task_ended(report.task, report.snapshots),
        };
        match complete {
            Some(snapshot) => self.complete(&snapshot),
            None => Ok(()),
        }
    }

    fn complete(&mut self, snapshot: &JobSnapshot) -> Result<()> {
        if let Some(storage) = &self.storage {
            storage.write(snapshot)?;
        }
        self.savepoints.complete(snapshot);
        self.metrics.count_checkpoint();
        self.shared
            .completed
            .store(snapshot.checkpoint.0, Ordering::SeqCst);
        if self.savepoints.is_stop_complete() {
            self.shared.stop.set_suspended();
        }
        self.next_checkpoint = next_checkpoint(&self.shared.options);
        self.wake_all();
        Ok(())
    }

    /// Everything has been read and prepared. Written before the last commit, so that whoever restores after a crash in the
    /// middle of it commits again instead of reading again.
    pub(super) fn write_final_checkpoint(&mut self) -> Result<()> {
        match (&self.storage, self.checkpoints.final_snapshot()) {
            (Some(storage), Some(snapshot)) => storage.write(&snapshot).map(drop),
            _ => Ok(()),
        }
    }

    /// Starts the checkpoint of a savepoint that was asked for, or ends the input of a job that is to be drained.
    fn begin_savepoint(&mut self) {
        if !self.checkpoints.is_pending() && self.savepoints.wants_checkpoint() {
            if let Some(checkpoint) = self.checkpoints.trigger() {
                self.savepoints.begin(Some(checkpoint));
                self.shared.requested.store(checkpoint.0, Ordering::SeqCst);
            }
        }
        if self.savepoints.is_stopping() {
            self.wake_all();
        }
    }

    fn trigger_when_due(&mut self) {
        let is_due = self
            .next_checkpoint
            .is_some_and(|next| next <= Instant::now());
        if !is_due || self.savepoints.is_stopping() {
            return;
        }
        if let Some(checkpoint) = self.checkpoints.trigger() {
            self.shared.requested.store(checkpoint.0, Ordering::SeqCst);
            self.wake_all();
        }
        self.next_checkpoint = next_checkpoint(&self.shared.options);
    }

    pub(super) fn wake_all(&self) {
        self.parkers.iter().for_each(|parker| parker.unpark());
    }
}
