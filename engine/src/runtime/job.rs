//! A job on threads: tasks dealt to compute threads, checkpoints by interval, and a clean end.
//!
//! Subtask `i` of every vertex runs on thread `i`, as in a slot of Flink, so rows of one key mostly stay on one core. Each
//! thread steps its tasks from the sinks back to the sources, which keeps queues short, and sleeps when nothing moves. The
//! thread that called [`Job::run`] is the coordinator: it starts checkpoints, writes them, and tells the tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel as report_channel;
use std::time::Duration;

use super::clock::Clock;
use super::coordinator::{Coordinator, Shared, next_checkpoint};
use super::deployment::{Deployment, deploy};
use super::graph::JobGraph;
use super::metrics::{JobMetrics, Progress};
use super::task::{StepEnvironment, Task};
use super::worker::Worker;
use crate::checkpoint::{CheckpointCoordinator, CheckpointStorage, SnapshotReader};
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
    /// `execution.checkpointing.interval`; zero: no checkpoints.
    pub checkpoint_interval: Duration,
    /// `execution.checkpointing.dir`; needed where there is an interval.
    pub checkpoint_directory: Option<String>,
    /// `execution.checkpointing.num-retained`.
    pub retained_checkpoints: usize,
    /// `execution.state-recovery.path`.
    pub restore_path: Option<String>,
}

impl JobOptions {
    /// The options of a session.
    pub fn from_config(config: &SessionConfig) -> Result<Self> {
        let options = JobOptions {
            batch_rows: config.integer("volley.batch.rows").clamp(1, 1 << 20) as usize,
            batch_bytes: config.memory_bytes("volley.batch.bytes"),
            queue_bytes: config.memory_bytes("volley.exchange.queue-bytes"),
            checkpoint_interval: config.duration("execution.checkpointing.interval"),
            checkpoint_directory: config
                .get("execution.checkpointing.dir")
                .map(str::to_string),
            retained_checkpoints: config
                .integer("execution.checkpointing.num-retained")
                .max(1) as usize,
            restore_path: config
                .get("execution.state-recovery.path")
                .map(str::to_string),
        };
        if !options.checkpoint_interval.is_zero() && options.checkpoint_directory.is_none() {
            return Err(Error::user(
                "'execution.checkpointing.interval' is set but not where checkpoints go",
            )
            .hint("SET 'execution.checkpointing.dir' = '/path/to/checkpoints'"));
        }
        Ok(options)
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
    storage: Option<CheckpointStorage>,
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
            .map(|path| CheckpointStorage::read(path, graph.max_parallelism))
            .transpose()?;
        let threads = graph
            .vertices
            .iter()
            .map(|vertex| vertex.parallelism)
            .max()
            .unwrap_or(1);
        let storage = match &options.checkpoint_directory {
            Some(directory) if !options.checkpoint_interval.is_zero() => {
                Some(CheckpointStorage::new(
                    directory,
                    &graph.name,
                    graph.max_parallelism,
                    options.retained_checkpoints,
                )?)
            }
            _ => None,
        };
        graph.incremental &= storage.is_some();
        let mut deployment = deploy(
            &graph,
            options.queue_bytes,
            threads,
            snapshot
                .as_ref()
                .map(|snapshot| snapshot as &dyn SnapshotReader),
        )?;
        if let Some(upgrade) = deployment
            .upgrade
            .as_ref()
            .filter(|upgrade| !upgrade.is_unchanged())
        {
            eprintln!("{upgrade}");
        }
        let restored = snapshot.map_or(CheckpointId(0), |snapshot| snapshot.checkpoint);
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
        let task_count = deployment.tasks.len();
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
            checkpoints: CheckpointCoordinator::new(task_count, restored),
            storage,
            shared: shared.clone(),
            parkers: deployment.parkers,
            metrics,
            next_checkpoint: next_checkpoint(&options),
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
            return Ok(JobOutcome::Cancelled);
        }
        coordinator.write_final_checkpoint()?;
        for task in &mut finished {
            task.notify_checkpoint_complete(CheckpointId(u64::MAX))?;
        }
        Ok(JobOutcome::Finished)
    }
}
