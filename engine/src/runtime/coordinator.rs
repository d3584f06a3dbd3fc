//! The thread that starts checkpoints, has them written and tells the tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver as ReportReceiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::channel::Parker;
use super::checkpointing::{CheckpointEvent, Checkpointing, Completed};
use super::clock::Clock;
use super::control::JobRequest;
use super::job::JobOptions;
use super::metrics::{JobMetrics, Progress};
use super::stopping::{SavepointRequests, StopFlags};
use super::task::TaskReport;
use crate::error::{Error, Result};
use crate::stream::CheckpointId;
use crate::types::ProcessingTime;

/// What the threads of a job share.
pub(super) struct Shared {
    pub(super) requested: AtomicU64,
    /// When, in milliseconds of processing time, the barrier of the requested checkpoint overtakes; `i64::MAX`: never.
    pub(super) overtakes_from: AtomicI64,
    pub(super) completed: AtomicU64,
    pub(super) cancel: Arc<AtomicBool>,
    pub(super) stop: Arc<StopFlags>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) options: JobOptions,
}

impl Shared {
    /// Asks the sources for the barrier of a checkpoint. That of a savepoint never overtakes.
    fn request(&self, checkpoint: CheckpointId, is_savepoint: bool) {
        let unaligned_after = self.options.checkpoints.unaligned_after;
        let from = unaligned_after.filter(|_| !is_savepoint).map(|after| {
            let after = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
            self.clock.now().millis().saturating_add(after)
        });
        // Before the number: who sees that sees this. The barrier of the checkpoint before has come through everywhere.
        self.overtakes_from
            .store(from.unwrap_or(i64::MAX), Ordering::SeqCst);
        self.requested.store(checkpoint.0, Ordering::SeqCst);
    }

    /// See [`StepEnvironment::overtakes_from`](super::task::StepEnvironment).
    pub(super) fn overtakes_from(&self) -> Option<ProcessingTime> {
        let from = self.overtakes_from.load(Ordering::SeqCst);
        (from < i64::MAX).then_some(ProcessingTime(from))
    }
}

pub(super) enum Report {
    Task(TaskReport),
    Failed(Error),
    ThreadEnded,
    /// A checkpoint was written.
    CheckpointWritten,
}

pub(super) struct Coordinator {
    pub(super) checkpoints: Checkpointing,
    pub(super) shared: Arc<Shared>,
    pub(super) parkers: Vec<Arc<Parker>>,
    pub(super) metrics: Arc<JobMetrics>,
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
            let wait = self.checkpoints.next_look().map_or(TICK, |next| {
                next.saturating_duration_since(Instant::now()).min(TICK)
            });
            match reports.recv_timeout(wait) {
                Ok(Report::Task(report)) => self.take(report)?,
                Ok(Report::Failed(error)) => return Err(error),
                Ok(Report::ThreadEnded) => running -= 1,
                Ok(Report::CheckpointWritten) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.see_checkpoints()?;
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
        if let Some(completed) = self.checkpoints.report(report)? {
            self.complete(&completed);
        }
        Ok(())
    }

    fn see_checkpoints(&mut self) -> Result<()> {
        while let Some(event) = self.checkpoints.poll()? {
            match event {
                CheckpointEvent::Completed(completed) => self.complete(&completed),
                CheckpointEvent::Failed(checkpoint, error) => {
                    self.savepoints.fail(checkpoint, error);
                    self.wake_all();
                }
            }
        }
        Ok(())
    }

    fn complete(&mut self, completed: &Completed) {
        self.savepoints.complete(completed);
        self.metrics.count_checkpoint();
        self.shared
            .completed
            .store(completed.checkpoint().0, Ordering::SeqCst);
        if self.savepoints.is_stop_complete() {
            self.shared.stop.set_suspended();
        }
        self.wake_all();
    }

    /// Starts the checkpoint of a savepoint that was asked for, or ends the input of a job that is to be drained.
    fn begin_savepoint(&mut self) {
        let may_begin = !self.checkpoints.is_running() && self.savepoints.wants_checkpoint();
        if let Some(checkpoint) = may_begin.then(|| self.checkpoints.trigger()).flatten() {
            self.savepoints.begin(Some(checkpoint));
            self.shared.request(checkpoint, true);
        }
        if self.savepoints.is_stopping() {
            self.wake_all();
        }
    }

    fn trigger_when_due(&mut self) {
        if self.savepoints.is_stopping() {
            return;
        }
        if let Some(checkpoint) = self.checkpoints.trigger_when_due() {
            self.shared.request(checkpoint, false);
            self.wake_all();
        }
    }

    pub(super) fn wake_all(&self) {
        self.parkers.iter().for_each(|parker| parker.unpark());
    }
}
