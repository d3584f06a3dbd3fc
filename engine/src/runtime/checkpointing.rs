//! The checkpoints of a running job: when one starts, what becomes of it, and how many may fail.
//!
//! One runs at a time: its barrier travels, the tasks report, the writer makes it durable. One that takes too long is given up; what
//! tasks reported for it goes into the next, which starts only when the barrier has come through, for barriers do not overtake.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::checkpoint_options::{CheckpointOptions, JobEnd};
use super::checkpoint_writer::{CheckpointWriter, Written};
use super::metrics::JobMetrics;
use super::task::TaskReport;
use crate::checkpoint::{
    CheckpointContents, CheckpointCoordinator, CheckpointReader, JobSnapshot, SnapshotReader,
    WrittenCheckpoint,
};
use crate::error::{Error, Result};
use crate::stream::CheckpointId;

/// See the module.
pub(super) struct Checkpointing {
    coordinator: CheckpointCoordinator,
    /// `None`: a checkpoint is only taken when somebody asks for one, and kept nowhere.
    writer: Option<CheckpointWriter>,
    options: CheckpointOptions,
    metrics: Arc<JobMetrics>,
    /// When the next one is due by time.
    next: Option<Instant>,
    /// None starts before.
    not_before: Option<Instant>,
    running: Option<Running>,
    /// In a row.
    failures: u64,
}

#[derive(Debug)]
struct Running {
    checkpoint: CheckpointId,
    started: Instant,
    deadline: Instant,
    is_writing: bool,
    has_failed: bool,
}

/// A checkpoint that is complete.
pub(super) enum Completed {
    /// And durable.
    Durable(WrittenCheckpoint),
    /// In memory, of a job that keeps no checkpoints.
    Held(JobSnapshot),
}

/// What happened to the checkpoint that ran.
pub(super) enum CheckpointEvent {
    Completed(Completed),
    /// It failed, which is tolerated.
    Failed(CheckpointId, Error),
}

impl Completed {
    /// Which one.
    pub(super) fn checkpoint(&self) -> CheckpointId {
        match self {
            Completed::Durable(written) => written.checkpoint,
            Completed::Held(snapshot) => snapshot.checkpoint,
        }
    }

    /// Reads it back, verified.
    pub(super) fn reader(&self) -> Result<Arc<dyn SnapshotReader>> {
        Ok(match self {
            Completed::Durable(written) => {
                Arc::new(CheckpointReader::open(&written.location, None)?)
            }
            Completed::Held(snapshot) => Arc::new(snapshot.clone()),
        })
    }
}

impl Checkpointing {
    pub(super) fn new(
        coordinator: CheckpointCoordinator,
        writer: Option<CheckpointWriter>,
        options: CheckpointOptions,
        metrics: Arc<JobMetrics>,
    ) -> Self {
        let next = options.is_on().then(|| Instant::now() + options.interval);
        Checkpointing {
            coordinator,
            writer,
            options,
            metrics,
            next,
            not_before: None,
            running: None,
            failures: 0,
        }
    }

    /// The latest moment at which [`Checkpointing::trigger_when_due`] or [`Checkpointing::poll`] should be called again.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let deadline = self.running.as_ref().map(|running| running.deadline);
        self.next.into_iter().chain(deadline).min()
    }

    /// Starts a checkpoint if one is due: sources must send the barrier.
    pub(super) fn trigger_when_due(&mut self) -> Option<CheckpointId> {
        let now = Instant::now();
        if self.next.is_none_or(|next| next > now) {
            return None;
        }
        self.next = Some(now + self.options.interval);
        let too_soon = self.not_before.filter(|earliest| *earliest > now);
        if too_soon.is_some() {
            self.next = too_soon;
            return None;
        }
        if self.coordinator.some_ended() && !self.options.after_tasks_finish {
            return None;
        }
        self.trigger()
    }

    /// Whether one runs, or has been given up but is still under way.
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Starts a checkpoint now. `None` while another one runs, or when all tasks have ended.
    pub(super) fn trigger(&mut self) -> Option<CheckpointId> {
        if self.running.is_some() {
            return None;
        }
        let checkpoint = self.coordinator.trigger()?;
        self.begin(checkpoint, false);
        Some(checkpoint)
    }

    fn begin(&mut self, checkpoint: CheckpointId, is_writing: bool) {
        let started = Instant::now();
        self.running = Some(Running {
            checkpoint,
            started,
            deadline: started + self.options.timeout,
            is_writing,
            has_failed: false,
        });
    }

    /// A task has passed a barrier or ended. Gives a checkpoint that is complete and kept nowhere.
    pub(super) fn report(&mut self, report: TaskReport) -> Result<Option<Completed>> {
        let complete = match report.checkpoint {
            Some(checkpoint) => {
                self.coordinator
                    .acknowledge(report.task, checkpoint, report.snapshots)
            }
            None => self.coordinator.task_ended(report.task, report.snapshots),
        };
        let given_up = self.running.as_ref().is_some_and(|running| {
            running.has_failed && !running.is_writing && !self.coordinator.is_pending()
        });
        if given_up {
            self.running = None;
        }
        complete.map_or(Ok(None), |contents| self.store(contents))
    }

    /// Hands what is complete to the writer; without one it is complete at once.
    fn store(&mut self, contents: CheckpointContents) -> Result<Option<Completed>> {
        if let Some(writer) = &self.writer {
            writer.write(contents);
            if let Some(running) = &mut self.running {
                running.is_writing = true;
            }
            return Ok(None);
        }
        let mut snapshot = JobSnapshot::empty();
        contents.fold_into(&mut snapshot)?;
        self.succeeded();
        Ok(Some(Completed::Held(snapshot)))
    }

    /// What came of the running checkpoint, if that is known. An error where more have failed than is tolerated.
    pub(super) fn poll(&mut self) -> Result<Option<CheckpointEvent>> {
        while let Some(written) = self.writer.as_ref().and_then(CheckpointWriter::result) {
            if let Some(event) = self.take(written)? {
                return Ok(Some(event));
            }
        }
        self.expire()
    }

    fn take(&mut self, written: Written) -> Result<Option<CheckpointEvent>> {
        match written {
            Written::Warning(warning) => {
                self.metrics.warn(warning);
                Ok(None)
            }
            Written::Complete(written) => {
                let running = self
                    .running
                    .as_ref()
                    .map(|running| running.started.elapsed());
                let checkpoints = self.metrics.checkpoints();
                checkpoints.completed(
                    running.unwrap_or_default(),
                    written.bytes,
                    written.full_bytes,
                );
                self.succeeded();
                Ok(Some(CheckpointEvent::Completed(Completed::Durable(
                    written,
                ))))
            }
            Written::Failed(error, contents) => {
                let checkpoint = contents.checkpoint;
                self.coordinator.give_back(contents);
                self.running = None;
                self.failed(checkpoint, error)
            }
        }
    }

    fn succeeded(&mut self) {
        let now = Instant::now();
        self.running = None;
        self.failures = 0;
        self.not_before = Some(now + self.options.min_pause);
        if self.options.is_on() {
            self.next = Some(now + self.options.interval);
        }
    }

    /// Gives up a checkpoint that has taken too long. One that is being written cannot be called back: it counts as failed, once
    /// for every such time, and still completes should the store come round.
    fn expire(&mut self) -> Result<Option<CheckpointEvent>> {
        let now = Instant::now();
        let Some(running) = self
            .running
            .as_mut()
            .filter(|running| running.deadline <= now)
        else {
            return Ok(None);
        };
        running.deadline = now + self.options.timeout.max(Duration::from_millis(1));
        running.has_failed = true;
        if !running.is_writing {
            self.coordinator.abort();
        }
        let (checkpoint, timeout) = (running.checkpoint, self.options.timeout);
        let error = Error::external(format!(
            "checkpoint {checkpoint} was not complete after {} ms",
            timeout.as_millis()
        ))
        .hint("raise 'execution.checkpointing.timeout', or see what holds the barrier or the store back");
        self.failed(checkpoint, error)
    }

    fn failed(
        &mut self,
        checkpoint: CheckpointId,
        error: Error,
    ) -> Result<Option<CheckpointEvent>> {
        self.failures += 1;
        self.metrics.checkpoints().failed();
        if self.failures > self.options.tolerable_failures {
            return Err(error
                .context(format!(
                    "checkpoint {checkpoint} failed, {} in a row with it; 'execution.checkpointing.tolerable-failed-checkpoints' is {}",
                    self.failures, self.options.tolerable_failures
                )));
        }
        self.metrics
            .warn(format!("checkpoint {checkpoint} failed: {error}"));
        self.not_before = Some(Instant::now() + self.options.min_pause);
        Ok(Some(CheckpointEvent::Failed(checkpoint, error)))
    }

    /// All tasks have ended: the last checkpoint, before the sinks' last commit, so that whoever restores after a crash in the
    /// middle of it commits again instead of reading again. Waits until it is durable. `None` where the options want none and it is
    /// not asked for, or where nobody keeps it.
    pub(super) fn finish(&mut self, is_asked_for: bool) -> Result<Option<Completed>> {
        let is_wanted = self.writer.is_some() && self.options.after_tasks_finish;
        if !is_wanted && !is_asked_for {
            return Ok(None);
        }
        self.drain()?;
        loop {
            let Some(contents) = self.coordinator.final_contents() else {
                return Ok(None);
            };
            self.begin(contents.checkpoint, false);
            if let Some(held) = self.store(contents)? {
                return Ok(Some(held));
            }
            // A failure that is tolerated is followed by another try.
            while self.running.is_some() {
                if let Some(CheckpointEvent::Completed(completed)) = self.await_writer()? {
                    return Ok(Some(completed));
                }
            }
        }
    }

    /// Waits for a checkpoint that is being written.
    fn drain(&mut self) -> Result<()> {
        while self
            .running
            .as_ref()
            .is_some_and(|running| running.is_writing)
        {
            self.await_writer()?;
        }
        Ok(())
    }

    /// What came of the checkpoint that is being written, also that it takes too long.
    fn await_writer(&mut self) -> Result<Option<CheckpointEvent>> {
        const LOOK: Duration = Duration::from_millis(100);
        let Some(writer) = &self.writer else {
            return Ok(None);
        };
        match writer.wait(LOOK)? {
            Some(written) => self.take(written),
            None => self.expire(),
        }
    }

    /// The job has ended for good: removes the checkpoints that need not stay.
    pub(super) fn end(&mut self, end: JobEnd) {
        if let (Some(kept), Some(writer)) = (self.options.retention.kept(end), self.writer.take()) {
            writer.discard(kept);
        }
    }
}
