//! A job on threads: tasks dealt to compute threads, checkpoints by interval, and a clean end.
//!
//! Subtask `i` of every vertex runs on thread `i`, as in a slot of Flink, so rows of one key mostly stay on one core. Each
//! thread steps its tasks from the sinks back to the sources, which keeps queues short, and sleeps when nothing moves. The
//! thread that called [`Job::run`] is the coordinator: it starts checkpoints, writes them, and tells the tasks.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{
    Receiver as ReportReceiver, RecvTimeoutError, Sender as ReportSender, channel as report_channel,
};
use std::time::{Duration, Instant};

use super::channel::{Parker, Sender, channel};
use super::checks::checked;
use super::clock::Clock;
use super::exchange::{OutputEdge, Router};
use super::gate::InputGate;
use super::graph::{Edge, EdgeKind, JobGraph, Partitioning, Vertex, VertexHead, VertexId};
use super::metrics::{JobMetrics, Progress};
use super::task::{Head, Slot, SourceHead, Step, StepEnvironment, Task, TaskReport};
use crate::checkpoint::{CheckpointCoordinator, CheckpointStorage, JobSnapshot};
use crate::config::SessionConfig;
use crate::error::{Error, Result};
use crate::operators::{Context, InputIndex, Subtask};
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

/// The tasks of a job with what ties them together.
pub(crate) struct Deployment {
    pub(crate) tasks: Vec<Task>,
    pub(crate) metrics: JobMetrics,
    threads: Vec<Vec<usize>>,
    parkers: Vec<Arc<Parker>>,
}

impl Job {
    /// Deploys a graph: makes the operators, deals the splits, restores the state.
    pub fn new(graph: JobGraph, options: JobOptions, clock: Arc<dyn Clock>) -> Result<Self> {
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
        let mut deployment = deploy(&graph, options.queue_bytes, threads, snapshot.as_ref())?;
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

fn next_checkpoint(options: &JobOptions) -> Option<Instant> {
    (!options.checkpoint_interval.is_zero()).then(|| Instant::now() + options.checkpoint_interval)
}

/// What the threads of a job share.
struct Shared {
    requested: AtomicU64,
    completed: AtomicU64,
    cancel: Arc<AtomicBool>,
    clock: Arc<dyn Clock>,
    options: JobOptions,
}

enum Report {
    Task(TaskReport),
    Failed(Error),
    ThreadEnded,
}

struct Coordinator {
    checkpoints: CheckpointCoordinator,
    storage: Option<CheckpointStorage>,
    shared: Arc<Shared>,
    parkers: Vec<Arc<Parker>>,
    metrics: Arc<JobMetrics>,
    next_checkpoint: Option<Instant>,
}

impl Coordinator {
    fn run(
        &mut self,
        reports: &ReportReceiver<Report>,
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
        self.metrics.count_checkpoint();
        self.shared
            .completed
            .store(snapshot.checkpoint.0, Ordering::SeqCst);
        self.next_checkpoint = next_checkpoint(&self.shared.options);
        self.wake_all();
        Ok(())
    }

    /// Everything has been read and prepared. Written before the last commit, so that whoever restores after a crash in the
    /// middle of it commits again instead of reading again.
    fn write_final_checkpoint(&mut self) -> Result<()> {
        match (&self.storage, self.checkpoints.final_snapshot()) {
            (Some(storage), Some(snapshot)) => storage.write(&snapshot).map(drop),
            _ => Ok(()),
        }
    }

    fn trigger_when_due(&mut self) {
        if self
            .next_checkpoint
            .is_none_or(|next| next > Instant::now())
        {
            return;
        }
        if let Some(checkpoint) = self.checkpoints.trigger() {
            self.shared.requested.store(checkpoint.0, Ordering::SeqCst);
            self.wake_all();
        }
        self.next_checkpoint = next_checkpoint(&self.shared.options);
    }

    fn wake_all(&self) {
        self.parkers.iter().for_each(|parker| parker.unpark());
    }
}

/// One compute thread.
struct Worker {
    tasks: Vec<Task>,
    shared: Arc<Shared>,
    parker: Arc<Parker>,
    reports: ReportSender<Report>,
    notified: CheckpointId,
}

impl Worker {
    fn run(mut self) -> Vec<Task> {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.turn()));
        let result = outcome.unwrap_or_else(|panic| {
            Err(Error::internal(format!(
                "a task panicked: {}",
                panic_message(&*panic)
            )))
        });
        let report = match result {
            Ok(()) => Report::ThreadEnded,
            Err(error) => Report::Failed(error),
        };
        // The coordinator may be gone already; then another thread has told it of a failure first.
        let _ = self.reports.send(report);
        self.tasks
    }

    fn turn(&mut self) -> Result<()> {
        const LONGEST_SLEEP: Duration = Duration::from_millis(500);
        while !self.shared.cancel.load(Ordering::Relaxed) {
            self.notify()?;
            let env = self.environment();
            let (mut progressed, mut finished, mut until) = (false, 0, None::<i64>);
            for task in self.tasks.iter_mut().rev() {
                match task.step(&env)? {
                    Step::Progress => progressed = true,
                    Step::Finished => finished += 1,
                    Step::Idle { until: time } => {
                        until = time
                            .map(|time| time.millis())
                            .into_iter()
                            .chain(until)
                            .min()
                    }
                }
                while let Some(report) = task.reports.pop_front() {
                    progressed = true;
                    let _ = self.reports.send(Report::Task(report));
                }
            }
            if finished == self.tasks.len() {
                return Ok(());
            }
            if !progressed {
                let wait = until.map_or(LONGEST_SLEEP, |time| {
                    Duration::from_millis((time - env.now.millis()).max(1) as u64)
                });
                self.parker.park(wait.min(LONGEST_SLEEP));
            }
        }
        Ok(())
    }

    fn environment(&self) -> StepEnvironment {
        let options = &self.shared.options;
        let checkpoint = CheckpointId(self.shared.requested.load(Ordering::Relaxed));
        StepEnvironment {
            now: self.shared.clock.now(),
            batch_rows: options.batch_rows,
            batch_bytes: options.batch_bytes,
            checkpoint,
        }
    }

    fn notify(&mut self) -> Result<()> {
        let completed = CheckpointId(self.shared.completed.load(Ordering::Relaxed));
        if completed > self.notified {
            self.notified = completed;
            self.tasks
                .iter_mut()
                .try_for_each(|task| task.notify_checkpoint_complete(completed))?;
        }
        Ok(())
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

/// Makes the tasks of a graph and the channels between them.
pub(crate) fn deploy(
    graph: &JobGraph,
    queue_bytes: usize,
    threads: usize,
    snapshot: Option<&JobSnapshot>,
) -> Result<Deployment> {
    if let Some(snapshot) = snapshot {
        snapshot.check_operators(&uids(graph))?;
    }
    let parkers: Vec<Arc<Parker>> = (0..threads).map(|_| Arc::new(Parker::default())).collect();
    let mut wiring = Wiring::new(graph, queue_bytes, &parkers);
    let mut metrics = JobMetrics::default();
    let (mut tasks, mut by_thread) = (Vec::new(), vec![Vec::new(); threads]);
    for (number, vertex) in graph.vertices.iter().enumerate() {
        let counters: Vec<_> = vertex
            .chain
            .iter()
            .map(|node| metrics.operator(&node.name))
            .collect();
        let splits = initial_splits(vertex, snapshot)?;
        for index in 0..vertex.parallelism {
            let subtask = Subtask {
                index,
                parallelism: vertex.parallelism,
                max_parallelism: graph.max_parallelism,
            };
            let head = match &vertex.head {
                VertexHead::Source(source) => {
                    let mut operator = (source.build)(subtask)?;
                    let mine = splits
                        .iter()
                        .skip(index)
                        .step_by(vertex.parallelism)
                        .cloned()
                        .collect();
                    if snapshot.is_none() {
                        operator.add_splits(mine)?;
                    }
                    let own = metrics.source();
                    let ctx = Context::new(subtask, metrics.operator(&source.name));
                    Head::Source(Box::new(SourceHead::new(
                        source.uid.clone(),
                        operator,
                        ctx,
                        own,
                    )))
                }
                VertexHead::Inputs => Head::Gate(InputGate::new(
                    wiring.take_receivers(VertexId(number), index),
                )),
            };
            let mut slots = Vec::new();
            for (node, counters) in vertex.chain.iter().zip(&counters) {
                let operator = checked(&node.name, (node.build)(subtask)?);
                slots.push(Slot::new(
                    node.uid.clone(),
                    node.name.clone(),
                    operator,
                    Context::new(subtask, counters.clone()),
                    node.keeps_late_rows,
                ));
            }
            let (router, late) = (
                wiring.router(VertexId(number), index, EdgeKind::Results),
                wiring.router(VertexId(number), index, EdgeKind::LateRows),
            );
            by_thread[index % threads].push(tasks.len());
            tasks.push(Task::new(tasks.len(), head, slots, router, late));
        }
    }
    if let Some(snapshot) = snapshot {
        tasks
            .iter_mut()
            .try_for_each(|task| task.restore(snapshot))?;
    }
    Ok(Deployment {
        tasks,
        metrics,
        threads: by_thread,
        parkers,
    })
}

fn initial_splits(
    vertex: &Vertex,
    snapshot: Option<&JobSnapshot>,
) -> Result<Vec<crate::connectors::SplitState>> {
    match &vertex.head {
        VertexHead::Source(source) if snapshot.is_none() => (source.splits)(),
        _ => Ok(Vec::new()),
    }
}

fn uids(graph: &JobGraph) -> BTreeSet<&str> {
    let heads = graph
        .vertices
        .iter()
        .filter_map(|vertex| match &vertex.head {
            VertexHead::Source(source) => Some(source.uid.as_str()),
            VertexHead::Inputs => None,
        });
    heads
        .chain(
            graph
                .vertices
                .iter()
                .flat_map(|vertex| &vertex.chain)
                .map(|node| node.uid.as_str()),
        )
        .collect()
}

/// The channels of all edges, before tasks take their ends.
struct Wiring<'a> {
    graph: &'a JobGraph,
    queue_bytes: usize,
    parkers: &'a [Arc<Parker>],
    /// By edge, then by receiving subtask: the receivers, one a sending subtask.
    receivers: Vec<Vec<Vec<super::channel::Receiver>>>,
    /// By edge, then by sending subtask: the senders.
    senders: Vec<Vec<Vec<Arc<Sender>>>>,
}

impl<'a> Wiring<'a> {
    fn new(graph: &'a JobGraph, queue_bytes: usize, parkers: &'a [Arc<Parker>]) -> Self {
        let mut wiring = Wiring {
            graph,
            queue_bytes,
            parkers,
            receivers: Vec::new(),
            senders: Vec::new(),
        };
        graph.edges.iter().for_each(|edge| wiring.connect(edge));
        wiring
    }

    fn connect(&mut self, edge: &Edge) {
        let (from, to) = (
            self.graph.vertices[edge.from.0].parallelism,
            self.graph.vertices[edge.to.0].parallelism,
        );
        let mut receivers: Vec<Vec<_>> = (0..to).map(|_| Vec::new()).collect();
        let mut senders = Vec::new();
        for sender in 0..from {
            let targets: Vec<usize> = match edge.partitioning {
                Partitioning::Forward => vec![sender],
                Partitioning::Singleton => vec![0],
                Partitioning::Hash(_) | Partitioning::Rebalance => (0..to).collect(),
            };
            let mut mine = Vec::new();
            for target in targets {
                let threads = self.parkers.len();
                let (near, far) = channel(
                    self.queue_bytes,
                    self.parkers[sender % threads].clone(),
                    self.parkers[target % threads].clone(),
                );
                mine.push(Arc::new(near));
                receivers[target].push(far);
            }
            senders.push(mine);
        }
        self.receivers.push(receivers);
        self.senders.push(senders);
    }

    fn take_receivers(
        &mut self,
        vertex: VertexId,
        subtask: usize,
    ) -> Vec<(super::channel::Receiver, InputIndex)> {
        let mut taken = Vec::new();
        for (number, edge) in self
            .graph
            .edges
            .iter()
            .enumerate()
            .filter(|(_, edge)| edge.to == vertex)
        {
            taken.extend(
                std::mem::take(&mut self.receivers[number][subtask])
                    .into_iter()
                    .map(|receiver| (receiver, edge.input)),
            );
        }
        taken
    }

    fn router(&self, vertex: VertexId, subtask: usize, kind: EdgeKind) -> Router {
        let edges = self
            .graph
            .edges
            .iter()
            .enumerate()
            .filter(|(_, edge)| edge.from == vertex && edge.kind == kind);
        Router::new(
            edges
                .map(|(number, edge)| {
                    OutputEdge::new(
                        edge.partitioning.clone(),
                        self.graph.max_parallelism,
                        self.senders[number][subtask].clone(),
                    )
                })
                .collect(),
        )
    }
}
