//! A job on threads: tasks dealt to compute threads, checkpoints by interval, and a clean end.
//!
//! Subtask `i` of every vertex runs on thread `i`, as in a slot of Flink, so rows of one key mostly stay on one core. Each
//! thread steps its tasks from the sinks back to the sources, which keeps queues short, and sleeps when nothing moves. The
//! thread that called [`Job::run`] is the coordinator: it starts checkpoints, writes them, and tells the tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel as report_channel;

use super::checkpoint_options::{CheckpointOptions, JobEnd};
use super::checkpoint_writer::CheckpointWriter;
use super::checkpointing::Checkpointing;
use super::clock::Clock;
use super::coordinator::{Coordinator, Report, Shared};
use super::deployment::{Deployment, deploy, operator_names};
use super::graph::JobGraph;
use super::metrics::{JobMetrics, Progress};
use super::task::{StepEnvironment, Task};
use super::worker::Worker;
use crate::blobs::{BlobStore, open_blobs};
use crate::checkpoint::{
    CheckpointCoordinator, CheckpointReader, CheckpointStorage, SnapshotReader, StartedFrom,
    StorageOptions,
};
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
    /// `execution.state-recovery.path`.
    pub restore_path: Option<String>,
}

impl JobOptions {
    /// The options of a session.
    pub fn from_config(config: &SessionConfig) -> Result<Self> {
        Ok(JobOptions {
            batch_rows: config.integer("volley.batch.rows").clamp(1, 1 << 20) as usize,
            batch_bytes: config.memory_bytes("volley.batch.bytes"),
            queue_bytes: config.memory_bytes("volley.exchange.queue-bytes"),
            checkpoints: CheckpointOptions::from_config(config)?,
            restore_path: config
                .get("execution.state-recovery.path")
                .map(str::to_string),
        })
    }
}

/// How a job ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobOutcome {
    /// All input was read and all output committed.
    Finished,
    /// It was cancelled; what no checkpoint had committed stays invisible.
    Cancelled,
}

/// A deployed job.
pub struct Job {
    deployment: Deployment,
    options: JobOptions,
    storage: Option<(Arc<dyn BlobStore>, CheckpointStorage)>,
    restored: CheckpointId,
    cancel: Arc<AtomicBool>,
    clock: Arc<dyn Clock>,
}

impl Job {
    /// Deploys a graph: makes the operators, deals the splits, restores the state.
    pub fn new(mut graph: JobGraph, options: JobOptions, clock: Arc<dyn Clock>) -> Result<Self> {
        let snapshot = options
            .restore_path
            .as_deref()
            .map(|path| CheckpointReader::open(path, graph.max_parallelism).map(Arc::new))
            .transpose()?;
        let threads = graph
            .vertices
            .iter()
            .map(|vertex| vertex.parallelism)
            .max()
            .unwrap_or(1);
        let storage = open_storage(&graph, &options, snapshot.as_ref())?;
        graph.incremental &= storage.is_some();
        let mut deployment = deploy(
            &graph,
            options.queue_bytes,
            threads,
            snapshot
                .as_deref()
                .map(|snapshot| snapshot as &dyn SnapshotReader),
        )?;
        let warnings = snapshot.iter().flat_map(|snapshot| snapshot.warnings());
        warnings.for_each(|warning| deployment.metrics.warn(warning.clone()));
        let restored = snapshot.map_or(CheckpointId(0), |snapshot| snapshot.checkpoint());
        let env = StepEnvironment {
            now: clock.now(),
            batch_rows: options.batch_rows,
            batch_bytes: options.batch_bytes,
            checkpoint: restored,
        };
        deployment
            .tasks
            .iter_mut()
            .try_for_each(|task| task.prime(&env))?;
        Ok(Job {
            deployment,
            options,
            storage,
            restored,
            cancel: Arc::new(AtomicBool::new(false)),
            clock,
        })
    }

    /// Setting it stops the job soon, without error.
    pub fn cancel_flag(&self) -> Arc<AtomicBool> {
        self.cancel.clone()
    }

    /// Runs the job to its end. `progress` is called about ten times a second from the calling thread.
    pub fn run(self, progress: &mut dyn FnMut(&JobMetrics, Progress)) -> Result<JobOutcome> {
        let Job {
            deployment,
            options,
            storage,
            restored,
            cancel,
            clock,
        } = self;
        let shared = Arc::new(Shared {
            requested: AtomicU64::new(restored.0),
            completed: AtomicU64::new(restored.0),
            cancel,
            clock,
            options: options.clone(),
        });
        let metrics = Arc::new(deployment.metrics);
        let (sender, receiver) = report_channel();
        let last = storage
            .as_ref()
            .map_or(restored, |(_, storage)| storage.last().max(restored));
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
        let mut threads = Vec::new();
        for (number, indices) in deployment.threads.into_iter().enumerate() {
            let mine: Vec<Task> = indices
                .into_iter()
                .filter_map(|index| tasks[index].take())
                .collect();
            let worker = Worker {
                tasks: mine,
                shared: shared.clone(),
                parker: deployment.parkers[number].clone(),
                reports: sender.clone(),
                notified: restored,
            };
            let thread = std::thread::Builder::new()
                .name(format!("volley-{number}"))
                .spawn(move || worker.run());
            threads.push(
                thread
                    .map_err(|error| Error::resource(format!("cannot start a thread: {error}")))?,
            );
        }
        drop(sender);
        let mut coordinator = Coordinator {
            checkpoints,
            shared: shared.clone(),
            parkers: deployment.parkers,
            metrics,
        };
        let result = coordinator.run(&receiver, progress);
        if result.is_err() {
            shared.cancel.store(true, Ordering::SeqCst);
            coordinator.wake_all();
        }
        let mut finished: Vec<Task> = Vec::new();
        for thread in threads {
            finished.extend(
                thread
                    .join()
                    .map_err(|_| Error::internal("a compute thread panicked"))?,
            );
        }
        result?;
        if shared.cancel.load(Ordering::SeqCst) {
            coordinator.checkpoints.end(JobEnd::Cancelled);
            return Ok(JobOutcome::Cancelled);
        }
        coordinator.checkpoints.finish()?;
        for task in &mut finished {
            task.notify_checkpoint_complete(CheckpointId(u64::MAX))?;
        }
        coordinator.checkpoints.end(JobEnd::Finished);
        Ok(JobOutcome::Finished)
    }
}

/// Where the job's checkpoints go. Those of the run that it continues become its own where it was told their directory alone; a
/// checkpoint that was named stays somebody else's.
fn open_storage(
    graph: &JobGraph,
    options: &JobOptions,
    restored: Option<&Arc<CheckpointReader>>,
) -> Result<Option<(Arc<dyn BlobStore>, CheckpointStorage)>> {
    let Some(directory) = options.checkpoints.directory.as_deref() else {
        return Ok(None);
    };
    if !options.checkpoints.is_on() {
        return Ok(None);
    }
    let started_from = match restored {
        None => StartedFrom::Nothing,
        Some(reader) if options.restore_path.as_deref() == Some(directory) => {
            StartedFrom::Claimed(reader.clone())
        }
        Some(reader) => StartedFrom::Copied(reader.clone()),
    };
    let blobs = open_blobs(directory)?;
    let storage_options = StorageOptions {
        job: graph.name.clone(),
        max_parallelism: graph.max_parallelism,
        retained: options.checkpoints.retained,
        incremental: options.checkpoints.incremental,
        names: operator_names(graph),
        writer: format!("{:08x}", rand::random::<u32>()),
    };
    let storage = CheckpointStorage::open(&*blobs, storage_options, started_from)?;
    Ok(Some((blobs, storage)))
}
