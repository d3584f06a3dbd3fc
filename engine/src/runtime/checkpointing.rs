//! The checkpoints of a running job: when one starts, what becomes of it, and how many may fail.
//!
//! One runs at a time: its barrier travels, the tasks report, the writer makes it durable. One that takes too long is given up; what
//! tasks reported for it goes into the next, which starts only when the barrier has come through everywhere, for no barrier overtakes another.

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
    /// When the next one is due by time; `None`, where checkpoints are on: as soon as the one that runs is over.
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
        if self.running.is_some() {
            self.next = None;
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
            self.over();
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
                self.over();
                self.failed(checkpoint, error)
            }
        }
    }

    fn succeeded(&mut self) {
        self.over();
        self.failures = 0;
        self.not_before = Some(Instant::now() + self.options.min_pause);
    }

    /// None runs any more: one that fell due meanwhile is due now.
    fn over(&mut self) {
        self.running = None;
        if self.options.is_on() {
            self.next.get_or_insert_with(Instant::now);
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicBool, Ordering};

    use bytes::Bytes;

    use super::*;
    use crate::blobs::{BlobInfo, BlobStore, LocalBlobs, Upload};
    use crate::checkpoint::{CheckpointStorage, KeySpan, StartedFrom, StorageOptions};
    use crate::config::SessionConfig;
    use crate::state::StateSnapshot;

    /// A directory whose blobs cannot be written while it is full.
    #[derive(Debug)]
    struct FullBlobs {
        inner: LocalBlobs,
        is_full: Arc<AtomicBool>,
    }

    impl FullBlobs {
        fn room(&self) -> Result<()> {
            match self.is_full.load(Ordering::SeqCst) {
                true => Err(Error::external("no space left on device")),
                false => Ok(()),
            }
        }
    }

    impl BlobStore for FullBlobs {
        fn location(&self) -> String {
            self.inner.location()
        }
        fn put(&self, path: &str, bytes: Bytes) -> Result<()> {
            self.room().and_then(|()| self.inner.put(path, bytes))
        }
        fn create(&self, path: &str, bytes: Bytes) -> Result<bool> {
            self.room().and_then(|()| self.inner.create(path, bytes))
        }
        fn get(&self, path: &str) -> Result<Option<Bytes>> {
            self.inner.get(path)
        }
        fn get_range(&self, path: &str, offset: u64, length: u64) -> Result<Bytes> {
            self.inner.get_range(path, offset, length)
        }
        fn list(&self, prefix: &str) -> Result<Vec<BlobInfo>> {
            self.inner.list(prefix)
        }
        fn delete(&self, path: &str) -> Result<()> {
            self.inner.delete(path)
        }
        fn start_upload(&self, path: &str) -> Result<Upload> {
            self.inner.start_upload(path)
        }
        fn put_part(&self, upload: &mut Upload, bytes: Bytes) -> Result<()> {
            self.room()
                .and_then(|()| self.inner.put_part(upload, bytes))
        }
        fn complete_upload(&self, upload: &Upload) -> Result<()> {
            self.inner.complete_upload(upload)
        }
        fn abort_upload(&self, upload: &Upload) -> Result<()> {
            self.inner.abort_upload(upload)
        }
    }

    struct Bench {
        checkpoints: Checkpointing,
        metrics: Arc<JobMetrics>,
        is_full: Arc<AtomicBool>,
        directory: tempfile::TempDir,
    }

    fn bench(set: &[(&str, &str)]) -> Bench {
        let directory = tempfile::tempdir().unwrap();
        let mut config = SessionConfig::default();
        let path = directory.path().display().to_string();
        config.set("execution.checkpointing.dir", &path).unwrap();
        config
            .set("execution.checkpointing.interval", "1 ms")
            .unwrap();
        for (name, value) in set {
            config
                .set(&format!("execution.checkpointing.{name}"), value)
                .unwrap();
        }
        let options = CheckpointOptions::from_config(&config).unwrap();
        let is_full = Arc::new(AtomicBool::new(false));
        let blobs = FullBlobs {
            inner: LocalBlobs::new(directory.path()),
            is_full: is_full.clone(),
        };
        let storage_options = StorageOptions {
            job: "job".to_string(),
            run: "run".to_string(),
            max_parallelism: 128,
            retained: options.retained,
            incremental: false,
            operators: BTreeMap::new(),
            owned_from: CheckpointId(0),
            writer: "w".to_string(),
        };
        let storage = CheckpointStorage::open(&blobs, storage_options, StartedFrom::Nothing);
        let writer = CheckpointWriter::start(Arc::new(blobs), storage.unwrap(), Box::new(|| {}));
        let metrics = Arc::new(JobMetrics::default());
        let coordinator = CheckpointCoordinator::new(&[KeySpan::ALL], CheckpointId(0));
        Bench {
            checkpoints: Checkpointing::new(
                coordinator,
                Some(writer.unwrap()),
                options,
                metrics.clone(),
            ),
            metrics,
            is_full,
            directory,
        }
    }

    impl Bench {
        fn begin(&mut self) -> CheckpointId {
            loop {
                if let Some(checkpoint) = self.checkpoints.trigger_when_due() {
                    return checkpoint;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }

        fn report(&mut self, checkpoint: CheckpointId) {
            let mut snapshot = StateSnapshot::default();
            snapshot.insert_json("position", &checkpoint.0).unwrap();
            let report = TaskReport {
                task: 0,
                checkpoint: Some(checkpoint),
                snapshots: vec![("source".to_string(), snapshot)],
            };
            assert!(self.checkpoints.report(report).unwrap().is_none());
        }

        fn event(&mut self) -> Result<CheckpointEvent> {
            loop {
                if let Some(event) = self.checkpoints.poll()? {
                    return Ok(event);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }

        /// Runs one checkpoint. Whether it completed.
        fn run_one(&mut self) -> Result<bool> {
            let checkpoint = self.begin();
            self.report(checkpoint);
            match self.event()? {
                CheckpointEvent::Completed(completed) => {
                    assert_eq!(completed.checkpoint(), checkpoint);
                    let read = completed.reader()?.read(
                        "source",
                        crate::stream::KeyGroupRange::of_subtask(0, 1, 128),
                        128,
                    )?;
                    assert_eq!(read.json::<u64>("position")?, [checkpoint.0]);
                    Ok(true)
                }
                CheckpointEvent::Failed(failed, _) => {
                    assert_eq!(failed, checkpoint);
                    Ok(false)
                }
            }
        }

        fn manifests(&self) -> usize {
            let blobs = LocalBlobs::new(self.directory.path());
            let all = blobs.list("").unwrap().into_iter();
            all.filter(|blob| blob.path.ends_with("manifest.json"))
                .count()
        }
    }

    #[test]
    fn so_many_checkpoints_in_a_row_may_fail() {
        let mut bench = bench(&[("tolerable-failed-checkpoints", "2"), ("num-retained", "2")]);
        assert!(bench.run_one().unwrap());
        for _ in 0..2 {
            bench.is_full.store(true, Ordering::SeqCst);
            assert!(!bench.run_one().unwrap());
            assert!(!bench.run_one().unwrap());
            bench.is_full.store(false, Ordering::SeqCst);
            assert!(bench.run_one().unwrap(), "the count starts over");
        }
        bench.is_full.store(true, Ordering::SeqCst);
        assert!(!bench.run_one().unwrap() && !bench.run_one().unwrap());
        let error = bench.run_one().unwrap_err().to_string();
        assert!(
            error.contains("no space left") && error.contains("tolerable-failed-checkpoints"),
            "{error}"
        );
        let counters = bench.metrics.checkpoints();
        assert_eq!(counters.number_failed.load(Ordering::Relaxed), 7);
        assert!(counters.last_full_bytes.load(Ordering::Relaxed) > 0);
        assert!(
            bench
                .metrics
                .new_warnings()
                .iter()
                .any(|warning| warning.contains("no space left"))
        );
        assert_eq!(bench.manifests(), 2);
    }

    #[test]
    fn a_checkpoint_that_takes_too_long_has_failed_and_the_next_waits_for_its_barrier() {
        let mut bench = bench(&[("tolerable-failed-checkpoints", "9"), ("timeout", "5 ms")]);
        let late = bench.begin();
        let CheckpointEvent::Failed(failed, error) = bench.event().unwrap() else {
            panic!("it cannot complete without the report");
        };
        assert_eq!(failed, late);
        assert!(
            error
                .to_string()
                .contains("execution.checkpointing.timeout"),
            "{error}"
        );
        assert!(bench.checkpoints.trigger_when_due().is_none() && bench.checkpoints.is_running());
        bench.report(late);
        assert!(!bench.checkpoints.is_running());
    }

    #[test]
    fn what_need_not_stay_goes_when_the_job_ends() {
        for (retention, cancelled, finished) in [
            ("NO_EXTERNALIZED_CHECKPOINTS", 0, 1),
            ("RETAIN_ON_CANCELLATION", 2, 1),
        ] {
            let set = [
                ("externalized-checkpoint-retention", retention),
                ("num-retained", "2"),
            ];
            for (end, left) in [(JobEnd::Cancelled, cancelled), (JobEnd::Finished, finished)] {
                let mut bench = bench(&set);
                for _ in 0..3 {
                    assert!(bench.run_one().unwrap());
                }
                bench.checkpoints.end(end);
                assert_eq!(bench.manifests(), left, "{retention} {end:?}");
            }
        }
    }

    #[test]
    fn the_last_checkpoint_is_written_once_all_tasks_have_ended() {
        let mut bench = bench(&[]);
        assert!(bench.run_one().unwrap());
        let report = TaskReport {
            task: 0,
            checkpoint: None,
            snapshots: Vec::new(),
        };
        bench.checkpoints.report(report).unwrap();
        let last = bench.checkpoints.finish(false).unwrap().unwrap();
        assert_eq!(last.checkpoint(), CheckpointId(2));
        let mut bench = self::bench(&[("checkpoints-after-tasks-finish", "false")]);
        assert!(bench.checkpoints.finish(false).unwrap().is_none());
    }
}
