//! Runs a whole job on one thread with a manual clock, so that every run can be run again.
//!
//! `volley test` and the random tests are built on it: the order in which tasks step comes from a seed, checkpoints are
//! taken when asked for, and a "killed" job is simply dropped and built again from a snapshot.

mod single_steps;

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;

use super::clock::{Clock, ManualClock};
use super::deployment::deploy;
use super::graph::JobGraph;
use super::metrics::JobMetrics;
use super::task::{Step, StepEnvironment, StopMode, Task};
use crate::blobs::BlobStore;
use crate::checkpoint::{
    CheckpointContents, CheckpointCoordinator, CheckpointStorage, JobSnapshot, SnapshotReader,
    WrittenCheckpoint,
};
use crate::error::{Error, Result};
use crate::operators::Output;
use crate::stream::CheckpointId;
use crate::types::ProcessingTime;

/// How a deterministic run goes.
#[derive(Debug, Clone)]
pub struct StepperOptions {
    /// The most rows of a batch: `volley.batch.rows`.
    pub batch_rows: usize,
    /// The most bytes of a batch: `volley.batch.bytes`.
    pub batch_bytes: usize,
    /// The most bytes on a channel: `volley.exchange.queue-bytes`.
    pub queue_bytes: usize,
    /// How much may wait in an operator's output before it is full; 0: operators that can stop behind every batch do.
    pub output_bytes: usize,
    /// `None`: tasks step in the graph's order. Else in an order drawn from this seed.
    pub order_seed: Option<u64>,
    /// Whether barriers are counted and hold nothing back: `execution.checkpointing.mode`.
    pub at_least_once: bool,
    /// After how many milliseconds of a checkpoint its barrier overtakes; `None`: never.
    pub unaligned_after: Option<i64>,
}

impl Default for StepperOptions {
    fn default() -> Self {
        StepperOptions {
            batch_rows: 8192,
            batch_bytes: 1 << 20,
            queue_bytes: 8 << 20,
            output_bytes: Output::LIMIT_BYTES,
            order_seed: None,
            at_least_once: false,
            unaligned_after: None,
        }
    }
}

/// See the module.
pub struct DeterministicStepper {
    tasks: Vec<Task>,
    metrics: Arc<JobMetrics>,
    coordinator: CheckpointCoordinator,
    requested: CheckpointId,
    overtakes_from: Option<ProcessingTime>,
    stop: StopMode,
    completed: Option<CheckpointContents>,
    /// The state as of the last checkpoint that was asked for in memory.
    whole: JobSnapshot,
    clock: ManualClock,
    options: StepperOptions,
    order: Option<SmallRng>,
}

impl DeterministicStepper {
    /// Deploys a job, from a snapshot where one is given.
    pub fn new(
        graph: JobGraph,
        options: StepperOptions,
        clock: ManualClock,
        snapshot: Option<&JobSnapshot>,
    ) -> Result<Self> {
        let reader = snapshot.map(|snapshot| snapshot as &dyn SnapshotReader);
        let mut stepper = Self::from_reader(graph, options, clock, reader)?;
        if let Some(snapshot) = snapshot {
            stepper.whole = snapshot.clone();
        }
        Ok(stepper)
    }

    /// Deploys a job, from whatever state can be read. Where a checkpoint of it is taken, what the reader gave is not part of
    /// [`DeterministicStepper::checkpoint`]; it is for [`DeterministicStepper::store_checkpoint`].
    pub fn from_reader(
        graph: JobGraph,
        options: StepperOptions,
        clock: ManualClock,
        snapshot: Option<&dyn SnapshotReader>,
    ) -> Result<Self> {
        let mut deployment = deploy(&graph, options.queue_bytes, 1, snapshot)?;
        deployment.tasks.iter_mut().for_each(Task::await_answers);
        let last = snapshot.map_or(CheckpointId(0), |snapshot| snapshot.checkpoint());
        let mut stepper = DeterministicStepper {
            coordinator: CheckpointCoordinator::new(&deployment.spans, last),
            whole: JobSnapshot::empty(),
            tasks: deployment.tasks,
            metrics: Arc::new(deployment.metrics),
            requested: last,
            overtakes_from: None,
            stop: StopMode::None,
            completed: None,
            clock,
            order: options.order_seed.map(SmallRng::seed_from_u64),
            options,
        };
        let output_bytes = stepper.options.output_bytes;
        let tasks = stepper.tasks.iter_mut();
        tasks.for_each(|task| task.limit_outputs(output_bytes));
        if stepper.options.at_least_once {
            stepper.tasks.iter_mut().for_each(Task::count_barriers);
        }
        let env = stepper.environment();
        stepper
            .tasks
            .iter_mut()
            .try_for_each(|task| task.prime(&env))?;
        (0..stepper.tasks.len()).for_each(|index| stepper.take_reports(index));
        Ok(stepper)
    }

    fn environment(&self) -> StepEnvironment {
        StepEnvironment {
            now: self.clock.now(),
            batch_rows: self.options.batch_rows,
            batch_bytes: self.options.batch_bytes,
            checkpoint: self.requested,
            overtakes_from: self.overtakes_from,
            stop: self.stop,
        }
    }

    /// Steps all tasks until nothing can move without new input or a later time.
    pub fn run_until_idle(&mut self) -> Result<()> {
        while self.step_all()? {}
        Ok(())
    }

    /// Moves the clock forward, from timer to timer, and runs until idle at each.
    pub fn advance_processing_time(&mut self, ms: i64) -> Result<()> {
        let target = self.now().millis() + ms;
        self.run_until_idle()?;
        while let Some(due) = self.next_time().filter(|due| due.millis() <= target) {
            self.clock.set(due.max(self.now()));
            self.run_until_idle()?;
            if self.next_time() == Some(due) {
                break;
            }
        }
        self.clock.set(ProcessingTime(target));
        self.run_until_idle()
    }

    /// The manual clock's time.
    pub fn now(&self) -> ProcessingTime {
        self.clock.now()
    }

    /// Takes a checkpoint, waits until it is complete and tells everybody (sinks commit). `None` when the job has ended.
    pub fn checkpoint(&mut self) -> Result<Option<JobSnapshot>> {
        let Some(snapshot) = self.checkpoint_without_notify()? else {
            return Ok(None);
        };
        self.notify_checkpoint_complete(snapshot.checkpoint)?;
        Ok(Some(snapshot))
    }

    /// Takes a checkpoint and waits until it is complete, but tells nobody: what a crash right after completion leaves.
    pub fn checkpoint_without_notify(&mut self) -> Result<Option<JobSnapshot>> {
        if !self.begin_checkpoint() {
            return Ok(None);
        }
        self.run_until_idle()?;
        let contents = self.take_completed()?;
        self.fold(&contents).map(Some)
    }

    /// What the checkpoint that was begun consists of; it must be complete.
    fn take_completed(&mut self) -> Result<CheckpointContents> {
        self.completed.take().ok_or_else(|| {
            Error::internal("a checkpoint did not complete although the job came to rest")
        })
    }

    /// Takes a checkpoint and writes it to a store, merging included, but tells nobody. `None` when the job has ended. When the store fails,
    /// the next one holds what this one should have.
    pub fn store_checkpoint(
        &mut self,
        blobs: &dyn BlobStore,
        storage: &mut CheckpointStorage,
    ) -> Result<Option<WrittenCheckpoint>> {
        if !self.begin_checkpoint() {
            return Ok(None);
        }
        self.run_until_idle()?;
        self.store_completed(blobs, storage)
    }

    /// What the checkpoint that was begun consists of, if it is complete by now.
    pub fn completed_contents(&mut self) -> Option<CheckpointContents> {
        self.completed.take()
    }

    /// What the checkpoint at the end of a job consists of. `None` while some task goes on.
    pub fn final_contents(&mut self) -> Option<CheckpointContents> {
        self.coordinator.final_contents()
    }

    /// A checkpoint could not be written: the next one holds what it held.
    pub fn give_back(&mut self, contents: CheckpointContents) {
        self.coordinator.give_back(contents);
    }

    /// Writes the checkpoint that was begun, if it is complete by now.
    pub fn store_completed(
        &mut self,
        blobs: &dyn BlobStore,
        storage: &mut CheckpointStorage,
    ) -> Result<Option<WrittenCheckpoint>> {
        let Some(contents) = self.completed.take() else {
            return Ok(None);
        };
        self.store(contents, blobs, storage).map(Some)
    }

    /// Writes the checkpoint at the end of a job, before [`DeterministicStepper::commit_end`]. `None` while some task goes on.
    pub fn store_final_checkpoint(
        &mut self,
        blobs: &dyn BlobStore,
        storage: &mut CheckpointStorage,
    ) -> Result<Option<WrittenCheckpoint>> {
        match self.coordinator.final_contents() {
            Some(contents) => self.store(contents, blobs, storage).map(Some),
            None => Ok(None),
        }
    }

    fn store(
        &mut self,
        contents: CheckpointContents,
        blobs: &dyn BlobStore,
        storage: &mut CheckpointStorage,
    ) -> Result<WrittenCheckpoint> {
        let written = storage.write(blobs, &contents);
        if written.is_err() {
            self.coordinator.give_back(contents);
            return written;
        }
        while let Some(plan) = storage.next_merge() {
            let merged = plan.run(blobs, &|| false);
            let has_failed = merged.is_err();
            storage.install(blobs, merged);
            if has_failed {
                break;
            }
        }
        written
    }

    /// Counts checkpoints on from a number; before the first one.
    pub fn count_from(&mut self, last: CheckpointId) {
        self.coordinator.count_from(last);
    }

    /// Asks the sources for the barrier of a new checkpoint without running anything. False when none can start.
    pub fn begin_checkpoint(&mut self) -> bool {
        match self.coordinator.trigger() {
            Some(checkpoint) => {
                self.requested = checkpoint;
                let after = self.options.unaligned_after;
                self.overtakes_from =
                    after.map(|after| ProcessingTime(self.clock.now().millis() + after));
                true
            }
            None => false,
        }
    }

    /// Stops the job with a savepoint: nothing moves behind its barrier. It is complete and nobody has been told. `None` when
    /// the job has ended.
    pub fn suspend(&mut self) -> Result<Option<JobSnapshot>> {
        if !self.begin_checkpoint() {
            return Ok(None);
        }
        self.stop = StopMode::Suspend(self.requested);
        self.overtakes_from = None;
        self.run_until_idle()?;
        let contents = self.completed.take();
        contents.map(|contents| self.fold(&contents)).transpose()
    }

    /// Lets a suspended job go on: its savepoint could not be written.
    pub fn go_on(&mut self) {
        self.stop = StopMode::None;
    }

    /// Stops the job as if its input had ended here. Gives the savepoint, which holds what sinks commit with
    /// [`DeterministicStepper::commit_end`].
    pub fn drain(&mut self) -> Result<Option<JobSnapshot>> {
        self.stop = StopMode::Drain;
        self.run_until_idle()?;
        let contents = self.coordinator.final_contents();
        contents.map(|contents| self.fold(&contents)).transpose()
    }

    /// Lays what tasks said over what was known: all state of the job.
    fn fold(&mut self, contents: &CheckpointContents) -> Result<JobSnapshot> {
        contents.fold_into(&mut self.whole)?;
        Ok(self.whole.clone())
    }

    /// Tells all tasks that a checkpoint is complete: sinks commit.
    pub fn notify_checkpoint_complete(&mut self, checkpoint: CheckpointId) -> Result<()> {
        self.metrics.count_checkpoint();
        self.tasks
            .iter_mut()
            .try_for_each(|task| task.notify_checkpoint_complete(checkpoint))
    }

    /// Whether every task has ended. The sinks' last writes are committed by [`DeterministicStepper::commit_end`].
    pub fn is_finished(&self) -> bool {
        self.tasks.iter().all(Task::is_finished)
    }

    /// The whole job has ended well: sinks commit what they hold.
    pub fn commit_end(&mut self) -> Result<()> {
        self.tasks
            .iter_mut()
            .try_for_each(|task| task.notify_checkpoint_complete(CheckpointId(u64::MAX)))
    }

    /// Sums of the counters by Flink's metric names.
    pub fn metrics(&self) -> BTreeMap<String, u64> {
        self.metrics.totals()
    }

    fn next_time(&mut self) -> Option<ProcessingTime> {
        self.tasks.iter().filter_map(Task::next_time).min()
    }

    fn step_all(&mut self) -> Result<bool> {
        let mut order: Vec<usize> = (0..self.tasks.len()).collect();
        if let Some(random) = &mut self.order {
            order.shuffle(random);
        }
        let mut progressed = false;
        for index in order {
            let env = self.environment();
            let before = self.tasks[index].is_finished();
            let step = self.tasks[index].step(&env)?;
            progressed |= step == Step::Progress || (step == Step::Finished && !before);
            self.take_reports(index);
        }
        Ok(progressed)
    }

    fn take_reports(&mut self, index: usize) {
        while let Some(report) = self.tasks[index].reports.pop_front() {
            let completed = match report.checkpoint {
                Some(checkpoint) => {
                    self.coordinator
                        .acknowledge(report.task, checkpoint, report.snapshots)
                }
                None => self.coordinator.task_ended(report.task, report.snapshots),
            };
            if completed.is_some() {
                self.completed = completed;
            }
        }
    }
}
