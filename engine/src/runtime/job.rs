//! One attempt at running a job on threads: tasks dealt to compute threads, checkpoints by interval, and a clean end.
//!
//! Subtask `i` of every vertex runs on thread `i`, as in a slot of Flink, so rows of one key mostly stay on one core. Each
//! thread steps its tasks from the sinks back to the sources, which keeps queues short, and sleeps when nothing moves. The
//! thread that called [`Job::run`] is the coordinator: it starts checkpoints, writes them, and tells the tasks. Who runs attempts
//! one after the other is the [`super::Supervisor`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel as report_channel};
use std::thread::JoinHandle;

use super::checkpoint_options::{CheckpointMode, CheckpointOptions, JobEnd};
use super::checkpoint_writer::CheckpointWriter;
use super::checkpointing::{Checkpointing, Completed};
use super::clock::Clock;
use super::control::JobRequest;
use super::coordinator::{Coordinator, Report, Shared};
use super::deployment::{Deployment, deploy};
use super::graph::JobGraph;
use super::metrics::{JobMetrics, Progress};
use super::restart_strategy::RestartStrategy;
use super::restore::{OpenSnapshot, RestoreOptions};
use super::status::JobStatus;
use super::stopping::{SavepointJob, SavepointRequests, StopFlags};
use super::task::{StepEnvironment, StopMode, Task};
use super::worker::{Worker, caught};
use crate::blobs::BlobStore;
use crate::checkpoint::{CheckpointCoordinator, CheckpointStorage};
use crate::config::SessionConfig;
use crate::error::{Error, Result};
use crate::stream::CheckpointId;

/// How a job runs.
#[derive(Debug, Clone)]
pub struct JobOptions {
    /// `volley.batch.rows`.
    pub batch_rows: usize,
    /// `volley.batch.bytes`.
    pub batch_bytes: usize,
    /// `volley.exchange.queue-bytes`.
    pub queue_bytes: usize,
    /// `execution.checkpointing.*`.
    pub checkpoints: CheckpointOptions,
    /// `execution.checkpointing.savepoint-dir`.
    pub savepoint_directory: Option<String>,
    /// `execution.state-recovery.*`.
    pub restore: RestoreOptions,
    /// `restart-strategy.*`.
    pub restart_strategy: RestartStrategy,
}

impl JobOptions {
    /// The options of a session.
    pub fn from_config(config: &SessionConfig) -> Result<Self> {
        let checkpoints = CheckpointOptions::from_config(config)?;
        Ok(JobOptions {
            batch_rows: config.integer("volley.batch.rows").clamp(1, 1 << 20) as usize,
            batch_bytes: config.memory_bytes("volley.batch.bytes"),
            queue_bytes: config.memory_bytes("volley.exchange.queue-bytes"),
            savepoint_directory: config
                .get("execution.checkpointing.savepoint-dir")
                .map(str::to_string),
            restore: RestoreOptions::from_config(config),
            restart_strategy: RestartStrategy::from_config(config, checkpoints.is_on())?,
            checkpoints,
        })
    }
}

/// How a job ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobOutcome {
    /// All input was read and all output committed.
    Finished,
    /// It was stopped with a savepoint; what came before that is committed.
    Stopped,
    /// It was cancelled; what no checkpoint had committed stays invisible.
    Cancelled,
}

/// Where an attempt begins.
pub(super) struct Start<'a> {
    /// The state; `None`: none.
    pub(super) snapshot: Option<&'a OpenSnapshot>,
    /// Checkpoints count on from here.
    pub(super) last: CheckpointId,
    /// Where they are written.
    pub(super) storage: Option<(Arc<dyn BlobStore>, CheckpointStorage)>,
    /// Told of checkpoints.
    pub(super) status: Arc<JobStatus>,
    /// Setting it ends the attempt soon, without error.
    pub(super) cancel: Arc<AtomicBool>,
}

/// Why an attempt failed.
pub(super) struct JobFailure {
    pub(super) error: Error,
    /// Whether another attempt may follow. Not where sinks have committed a part of what no checkpoint holds.
    pub(super) may_restart: bool,
}

impl From<Error> for JobFailure {
    fn from(error: Error) -> Self {
        JobFailure {
            error,
            may_restart: true,
        }
    }
}

/// A deployed job: one attempt at running it.
pub(super) struct Job {
    deployment: Deployment,
    options: JobOptions,
    storage: Option<(Arc<dyn BlobStore>, CheckpointStorage)>,
    restored: CheckpointId,
    last: CheckpointId,
    savepoints: SavepointJob,
    status: Arc<JobStatus>,
    cancel: Arc<AtomicBool>,
    clock: Arc<dyn Clock>,
}

impl Job {
    /// Deploys a graph: makes the operators, deals the splits, restores the state.
    pub(super) fn new(
        mut graph: JobGraph,
        options: JobOptions,
        clock: Arc<dyn Clock>,
        start: Start<'_>,
    ) -> Result<Self> {
        let threads = graph
            .vertices
            .iter()
            .map(|vertex| vertex.parallelism)
            .max()
            .unwrap_or(1);
        let reader = start.snapshot.map(|snapshot| &*snapshot.reader);
        graph.incremental &= start.storage.is_some();
        let mut deployment = deploy(&graph, options.queue_bytes, threads, reader)?;
        let restored = reader.map_or(CheckpointId(0), |reader| reader.checkpoint());
        if options.checkpoints.mode == CheckpointMode::AtLeastOnce {
            deployment.tasks.iter_mut().for_each(Task::count_barriers);
        }
        let env = StepEnvironment {
            now: clock.now(),
            batch_rows: options.batch_rows,
            batch_bytes: options.batch_bytes,
            checkpoint: restored,
            overtakes_from: None,
            stop: StopMode::None,
        };
        deployment
            .tasks
            .iter_mut()
            .try_for_each(|task| task.prime(&env))?;
        deployment.metrics.watch(start.status.clone());
        Ok(Job {
            deployment,
            storage: start.storage,
            restored,
            last: start.last.max(restored),
            savepoints: SavepointJob {
                id: start.status.id(),
                facts: graph.facts,
                max_parallelism: graph.max_parallelism,
                directory: options.savepoint_directory.clone(),
            },
            options,
            status: start.status,
            cancel: start.cancel,
            clock,
        })
    }

    /// Runs the job to its end. `progress` is called about ten times a second from the calling thread.
    pub(super) fn run(
        self,
        requests: &Receiver<JobRequest>,
        progress: &mut dyn FnMut(&JobMetrics, Progress),
    ) -> Result<JobOutcome, JobFailure> {
        let Job {
            deployment,
            options,
            storage,
            restored,
            last,
            savepoints,
            status,
            cancel,
            clock,
        } = self;
        let stop = Arc::new(StopFlags::default());
        let shared = Arc::new(Shared {
            requested: AtomicU64::new(restored.0),
            overtakes_from: AtomicI64::new(i64::MAX),
            completed: AtomicU64::new(restored.0),
            cancel,
            stop: stop.clone(),
            clock,
            options: options.clone(),
        });
        let (sender, receiver) = report_channel();
        let metrics = Arc::new(deployment.metrics);
        let writer = storage.map(|(blobs, storage)| {
            let reports = sender.clone();
            let wake = move || drop(reports.send(Report::CheckpointWritten));
            CheckpointWriter::start(blobs, storage, Box::new(wake))
        });
        let checkpoints = Checkpointing::new(
            CheckpointCoordinator::new(&deployment.spans, last),
            writer.transpose()?,
            options.checkpoints.clone(),
            metrics.clone(),
        );
        let mut tasks: Vec<Option<Task>> = deployment.tasks.into_iter().map(Some).collect();
        let mut threads = Threads::default();
        let mut coordinator = Coordinator {
            checkpoints,
            shared: shared.clone(),
            parkers: deployment.parkers.clone(),
            metrics,
            savepoints: SavepointRequests::new(stop.clone(), savepoints, status.clone()),
        };
        let mut started = Ok(());
        for (number, indices) in deployment.threads.into_iter().enumerate() {
            let mine = indices.into_iter().filter_map(|index| tasks[index].take());
            let worker = Worker {
                tasks: mine.collect(),
                shared: shared.clone(),
                parker: deployment.parkers[number].clone(),
                reports: sender.clone(),
                notified: restored,
            };
            started = started.and_then(|()| threads.start(number, worker));
        }
        drop(sender);
        let mut watched = |metrics: &JobMetrics, progress_now: Progress| {
            let completed = shared.completed.load(Ordering::Relaxed);
            if completed > restored.0 {
                status.checkpoint_completed(CheckpointId(completed));
            }
            progress(metrics, progress_now);
        };
        let ran = started.and_then(|()| coordinator.run(&receiver, requests, &mut watched));
        if ran.is_err() {
            stop.abort();
        }
        coordinator.wake_all();
        let joined = threads.join();
        let ended = match ran.and(joined) {
            Ok(tasks) => coordinator.end(tasks),
            Err(error) => Err(error.into()),
        };
        coordinator.answer_requests(&ended);
        ended
    }
}

/// The compute threads of an attempt.
#[derive(Default)]
struct Threads(Vec<JoinHandle<Vec<Task>>>);

impl Threads {
    fn start(&mut self, number: usize, worker: Worker) -> Result<()> {
        let thread = std::thread::Builder::new()
            .name(format!("volley-{number}"))
            .spawn(move || worker.run());
        let thread =
            thread.map_err(|error| Error::resource(format!("cannot start a thread: {error}")))?;
        self.0.push(thread);
        Ok(())
    }

    /// Waits for all of them and gives the tasks back.
    fn join(self) -> Result<Vec<Task>> {
        let mut tasks = Vec::new();
        let mut result = Ok(());
        for thread in self.0 {
            match thread.join() {
                Ok(mine) => tasks.extend(mine),
                Err(_) => result = Err(Error::internal("a compute thread panicked")),
            }
        }
        result.map(|()| tasks)
    }
}

impl Coordinator {
    /// The threads have ended without an error: sinks commit what they may.
    fn end(&mut self, mut tasks: Vec<Task>) -> Result<JobOutcome, JobFailure> {
        if self.shared.stop.is_suspended() {
            let ended = tasks.iter_mut().filter(|task| task.is_finished());
            commit_end(ended).map_err(JobFailure::from)?;
            self.checkpoints.end(JobEnd::Finished);
            return Ok(JobOutcome::Stopped);
        }
        if self.shared.cancel.load(Ordering::SeqCst) {
            self.checkpoints.end(JobEnd::Cancelled);
            return Ok(JobOutcome::Cancelled);
        }
        let is_draining = self.shared.stop.mode() == StopMode::Drain;
        let last = self.checkpoints.finish(is_draining)?;
        if is_draining {
            self.savepoints.complete_drain(last.as_ref());
        }
        let is_durable = matches!(last, Some(Completed::Durable(_)));
        let is_stored = is_durable || self.savepoints.is_stop_complete();
        commit_end(tasks.iter_mut()).map_err(|error| JobFailure {
            error,
            may_restart: is_stored,
        })?;
        self.checkpoints.end(JobEnd::Finished);
        match is_draining {
            true => Ok(JobOutcome::Stopped),
            false => Ok(JobOutcome::Finished),
        }
    }

    /// Nobody waits for ever: whoever asked for something that has not been done by now is told why.
    fn answer_requests(&mut self, ended: &Result<JobOutcome, JobFailure>) {
        let reason = || match ended {
            Ok(JobOutcome::Finished) => Error::user("the job finished by itself before that"),
            Ok(JobOutcome::Stopped) => Error::user("the job was stopped before that"),
            Ok(JobOutcome::Cancelled) => Error::user("the job was cancelled before that"),
            Err(failure) => failure
                .error
                .clone()
                .prefixed("the job failed before that: "),
        };
        let is_stopped = matches!(ended, Ok(JobOutcome::Stopped));
        self.savepoints.end(is_stopped, &reason);
    }
}

/// Commits what ended tasks had prepared at their end.
fn commit_end<'a>(mut tasks: impl Iterator<Item = &'a mut Task>) -> Result<()> {
    caught(|| tasks.try_for_each(|task| task.notify_checkpoint_complete(CheckpointId(u64::MAX))))
}
