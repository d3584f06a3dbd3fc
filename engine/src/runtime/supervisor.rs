//! A job over all its attempts: it is deployed, fails, waits as its restart strategy says, and goes on from its latest checkpoint.
//!
//! What a restart restores: the newest complete checkpoint or savepoint of this run; where none is complete, what the job was
//! started from. Checkpoints count on over attempts and over runs, so that none is ever written twice.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::checkpoint_options::JobEnd;
use super::clock::Clock;
use super::control::{JobControl, JobRequest};
use super::deployment::operator_facts;
use super::graph::{DEFAULT_NAME, JobGraph};
use super::job::{Job, JobFailure, JobOptions, JobOutcome, Start};
use super::metrics::{JobMetrics, Progress};
use super::restart_strategy::Restarts;
use super::restore::{
    ClaimMode, Found, OpenSnapshot, Origin, Unreadable, named_snapshot, newest_readable,
};
use super::status::{JobId, JobState, JobStatus};
use super::worker::caught;
use crate::blobs::{BlobStore, open_blobs};
use crate::checkpoint::upgrade::UpgradeReport;
use crate::checkpoint::{
    CheckpointStorage, Owner, PresentCheckpoints, Recovered, StartedFrom, StorageOptions,
};
use crate::error::{Error, Result};
use crate::stream::CheckpointId;

/// Makes the graph of a job anew for each attempt, so that nothing is left of one that failed.
pub type GraphFactory = Box<dyn Fn() -> Result<JobGraph> + Send + Sync>;

/// Something in the life of a job that a person should read.
#[derive(Debug, Clone)]
pub enum JobEvent {
    /// It runs.
    Started(Started),
    /// A checkpoint is damaged; an older one is restored in its place.
    Unreadable {
        /// Which one.
        checkpoint: CheckpointId,
        /// Why not.
        error: Error,
        /// How much of what sinks have committed with it can still be told, so that they can take it back.
        committed: Recovered,
    },
    /// An attempt has failed and another one follows.
    Failed {
        /// Why.
        error: Error,
        /// The time until then.
        restart_in: Duration,
    },
    /// It runs again.
    Restarted {
        /// How often it was started again.
        restarts: u64,
        /// From which checkpoint; `None`: from the beginning.
        origin: Option<Origin>,
    },
}

/// How a job was started.
#[derive(Debug, Clone)]
pub struct Started {
    /// Its id.
    pub id: JobId,
    /// `pipeline.name`.
    pub name: String,
    /// What it was restored from.
    pub origin: Option<Origin>,
    /// `execution.checkpointing.dir`, where there are checkpoints.
    pub checkpoints: Option<String>,
    /// How many checkpoints of earlier runs are there, which are left alone.
    pub earlier_checkpoints: usize,
    /// The checkpoints behind the restored one that have no manifest.
    pub without_manifest: Vec<CheckpointId>,
    /// What became of the state, where it did not go back just as it was.
    pub upgrade: Option<UpgradeReport>,
}

impl fmt::Display for JobEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobEvent::Started(started) => started.fmt(f),
            JobEvent::Unreadable {
                checkpoint,
                error,
                committed,
            } => write!(
                f,
                "checkpoint {checkpoint} cannot be restored: {error}\nthe one before it is used; {}",
                what_becomes_of(*committed)
            ),
            JobEvent::Failed { error, restart_in } => {
                write!(
                    f,
                    "{error}\nthe job failed; it starts again in {}",
                    seconds(*restart_in)
                )
            }
            JobEvent::Restarted { restarts, origin } => {
                write!(f, "restart {restarts}: the job goes on from ")?;
                write_origin(f, origin.as_ref())
            }
        }
    }
}

impl From<Unreadable> for JobEvent {
    fn from(unreadable: Unreadable) -> Self {
        JobEvent::Unreadable {
            checkpoint: unreadable.checkpoint,
            error: unreadable.error,
            committed: unreadable.committed,
        }
    }
}

impl fmt::Display for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {} ({}) starts from ", self.id, self.name)?;
        write_origin(f, self.origin.as_ref())?;
        if let Some(directory) = &self.checkpoints {
            write!(f, "; checkpoints go to {directory}")?;
        }
        if self.earlier_checkpoints > 0 {
            write!(
                f,
                "\n{} {} of an earlier run {} there and left alone (--resume goes on from the newest)",
                self.earlier_checkpoints,
                plural(self.earlier_checkpoints, "checkpoint", "checkpoints"),
                plural(self.earlier_checkpoints, "is", "are"),
            )?;
        }
        for checkpoint in &self.without_manifest {
            write!(
                f,
                "\nchk-{checkpoint} is there without its manifest.json and is not used: it was not complete when the job ended, or somebody has removed the file; in that case the rows that sinks have committed with it come a second time"
            )?;
        }
        if let Some(upgrade) = &self.upgrade {
            write!(f, "\n{}", upgrade.to_string().trim_end())?;
        }
        Ok(())
    }
}

/// What becomes of the rows that sinks have committed with a checkpoint that is damaged.
fn what_becomes_of(committed: Recovered) -> &'static str {
    match committed {
        Recovered::Everything => {
            "what sinks have committed since then is taken back, where that can be done, and written again"
        }
        Recovered::Something => {
            "what can still be read of the list of what sinks have committed with it is taken back, where that can be done, and written again; should the list have been longer, the rest of those rows come a second time"
        }
        Recovered::Nothing => {
            "what sinks have committed with it cannot be read, either: those rows come a second time"
        }
    }
}

fn plural(number: usize, one: &'static str, more: &'static str) -> &'static str {
    match number {
        1 => one,
        _ => more,
    }
}

fn write_origin(f: &mut fmt::Formatter<'_>, origin: Option<&Origin>) -> fmt::Result {
    match origin {
        Some(origin) => write!(f, "{origin}"),
        None => f.write_str("the beginning"),
    }
}

/// `1.5 s`.
fn seconds(duration: Duration) -> String {
    let millis = duration.as_millis();
    match millis % 1000 {
        0 => format!("{} s", millis / 1000),
        _ => format!("{} ms", millis),
    }
}

type Listener = Box<dyn FnMut(&JobEvent)>;

/// Hears of what happens to a job. Until somebody listens, events are kept.
#[derive(Default)]
struct Announcer {
    kept: Vec<JobEvent>,
    listener: Option<Listener>,
}

impl Announcer {
    fn tell(&mut self, event: JobEvent) {
        match &mut self.listener {
            Some(listener) => listener(&event),
            None => self.kept.push(event),
        }
    }

    /// Hands on what was kept.
    fn catch_up(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        if let Some(listener) = &mut self.listener {
            kept.iter().for_each(listener);
        }
    }
}

/// A job that has its id, and nothing else yet: it can be seen and cancelled while its state is being restored, which may take long.
pub struct StartingJob {
    graph: GraphFactory,
    options: JobOptions,
    clock: Arc<dyn Clock>,
    requests: (Sender<JobRequest>, Receiver<JobRequest>),
    status: Arc<JobStatus>,
    cancel: Arc<AtomicBool>,
    announcer: Announcer,
}

impl StartingJob {
    /// `id` names the job and decides the jitter of its restarts.
    pub fn new(
        graph: GraphFactory,
        options: JobOptions,
        clock: Arc<dyn Clock>,
        name: &str,
        id: JobId,
    ) -> Self {
        StartingJob {
            graph,
            options,
            status: Arc::new(JobStatus::new(id, name, clock.clone())),
            clock,
            requests: channel(),
            cancel: Arc::default(),
            announcer: Announcer::default(),
        }
    }

    /// Hears of starts, failures and restarts, from the threads that call [`StartingJob::deploy`] and [`Supervisor::run`].
    pub fn on_event(mut self, listener: impl FnMut(&JobEvent) + 'static) -> Self {
        self.announcer.listener = Some(Box::new(listener));
        self
    }

    /// Setting it ends the job soon: while it is being restored [`StartingJob::deploy`] then fails, later it stops without error.
    pub fn cancel_flag(&self) -> Arc<AtomicBool> {
        self.cancel.clone()
    }

    /// The door to the job.
    pub fn control(&self) -> JobControl {
        let requests = self.requests.0.clone();
        JobControl::new(requests, self.cancel.clone(), self.status.clone())
    }

    /// What is known of the job.
    pub fn status(&self) -> Arc<JobStatus> {
        self.status.clone()
    }

    /// Deploys the first attempt, and makes the directory of checkpoints its own: a run that writes there cannot go on. An error here is final:
    /// nothing has run.
    pub fn deploy(mut self) -> Result<Supervisor> {
        // Where another run has completed a checkpoint since this one looked for the newest, it looks again: that run completes no more.
        let deployed = loop {
            let deployed = FirstAttempt::deploy(&mut self)?;
            if deployed.takes_directory(&self.options)? {
                break deployed;
            }
        };
        self.status.set_state(JobState::Running);
        Ok(Supervisor {
            restarts: Restarts::new(self.options.restart_strategy, self.status.id().0 as u64),
            starting: self,
            deployed,
        })
    }
}

/// See the module.
pub struct Supervisor {
    starting: StartingJob,
    restarts: Restarts,
    deployed: FirstAttempt,
}

impl Supervisor {
    /// Hears of starts, failures and restarts, from the thread that calls [`Supervisor::run`].
    pub fn on_event(mut self, listener: impl FnMut(&JobEvent) + 'static) -> Self {
        self.starting.announcer.listener = Some(Box::new(listener));
        self
    }

    /// Setting it stops the job soon, without error.
    pub fn cancel_flag(&self) -> Arc<AtomicBool> {
        self.starting.cancel_flag()
    }

    /// The door to the job while it runs.
    pub fn control(&self) -> JobControl {
        self.starting.control()
    }

    /// What is known of the job while it runs.
    pub fn status(&self) -> Arc<JobStatus> {
        self.starting.status()
    }

    /// Runs the job to its end, over as many attempts as the restart strategy allows. `progress` is called about ten times a
    /// second from the calling thread; its numbers begin anew with each attempt, but for the checkpoints.
    pub fn run(self, progress: &mut dyn FnMut(&JobMetrics, Progress)) -> Result<JobOutcome> {
        let Supervisor {
            starting:
                StartingJob {
                    graph,
                    options,
                    clock,
                    requests: (sender, requests),
                    status,
                    cancel,
                    mut announcer,
                },
            mut restarts,
            deployed:
                FirstAttempt {
                    job,
                    origin,
                    ownership,
                    first,
                    ..
                },
        } = self;
        // Who asks an ended job is told so: only handles that were given away keep the channel open.
        drop(sender);
        announcer.catch_up();
        let redeployment = Redeployment {
            graph,
            options,
            clock: clock.clone(),
            status: status.clone(),
            cancel: cancel.clone(),
            origin,
            first,
            ownership,
        };
        let mut attempt: Result<Job, JobFailure> = Ok(job);
        let mut count = 0;
        let outcome = loop {
            let ran = attempt.and_then(|job| job.run(&requests, progress));
            let failure = match ran {
                Ok(outcome) => break Ok(outcome),
                // Where it is wanted no more, it does not matter that it failed.
                Err(_) if cancel.load(Ordering::SeqCst) => {
                    redeployment.discard_checkpoints(JobEnd::Cancelled);
                    break Ok(JobOutcome::Cancelled);
                }
                Err(failure) => failure,
            };
            let is_final = !failure.may_restart || failure.error.is_broken_pipe();
            let delay = match is_final {
                true => None,
                false => restarts.on_failure(clock.now()),
            };
            let Some(delay) = delay else {
                redeployment.discard_checkpoints(JobEnd::Failed);
                let restarts = if is_final { 0 } else { count };
                break Err(last_failure(failure.error, restarts));
            };
            status.set_state(JobState::Restarting);
            announcer.tell(JobEvent::Failed {
                error: failure.error,
                restart_in: delay,
            });
            if !wait(delay, &cancel, &requests) {
                redeployment.discard_checkpoints(JobEnd::Cancelled);
                break Ok(JobOutcome::Cancelled);
            }
            count += 1;
            attempt = redeployment.deploy(&mut announcer).map(|(job, origin)| {
                status.restarted();
                announcer.tell(JobEvent::Restarted {
                    restarts: count,
                    origin,
                });
                job
            });
        };
        status.set_state(match &outcome {
            Ok(JobOutcome::Finished | JobOutcome::Stopped) => JobState::Finished,
            Ok(JobOutcome::Cancelled) => JobState::Canceled,
            Err(_) => JobState::Failed,
        });
        outcome
    }
}

/// A job that is deployed and has not run.
struct FirstAttempt {
    job: Job,
    name: String,
    origin: Option<Origin>,
    ownership: Ownership,
    /// Checkpoints from this one on are of this run.
    first: CheckpointId,
}

impl FirstAttempt {
    fn deploy(starting: &mut StartingJob) -> Result<Self> {
        let (options, id) = (&starting.options, starting.status.id());
        let first_graph = (starting.graph)()?;
        let present = present_checkpoints(options)?;
        let (snapshot, unreadable) = first_snapshot(options, &present, &first_graph)?;
        for checkpoint in unreadable {
            starting.announcer.tell(checkpoint.into());
        }
        let snapshot = snapshot.map(|snapshot| snapshot.upgraded(&first_graph));
        let (snapshot, upgrade) = snapshot.transpose()?.unzip();
        let origin = snapshot.as_ref().map(OpenSnapshot::origin);
        let restored = origin
            .as_ref()
            .map_or(CheckpointId(0), |origin| origin.checkpoint);
        let last = present.highest().max(restored);
        let is_own = |origin: &Origin| {
            present
                .complete
                .iter()
                .any(|(_, path)| *path == origin.path)
        };
        let resumes = options.restore.resume && origin.as_ref().is_some_and(is_own);
        let first = CheckpointId(last.0 + 1);
        let ownership = Ownership {
            run: id,
            from: if resumes { CheckpointId(0) } else { first },
            claimed: origin
                .as_ref()
                .filter(|_| options.restore.claim_mode == ClaimMode::Claim)
                .map(|origin| origin.path.clone()),
        };
        let storage = storage(options, &first_graph, &ownership, snapshot.as_ref())?;
        let name = first_graph.name.clone();
        // Told before the state is restored, which may take long.
        starting.announcer.tell(JobEvent::Started(Started {
            id,
            name: name.clone(),
            origin: origin.clone(),
            checkpoints: has_checkpoints(options).cloned(),
            without_manifest: without_manifest(options, &present, origin.as_ref())?,
            earlier_checkpoints: if resumes { 0 } else { present.complete.len() },
            upgrade: upgrade.filter(|upgrade| !upgrade.is_unchanged()),
        }));
        let snapshot = snapshot.map(|snapshot| snapshot.until(starting.cancel.clone()));
        let start = Start {
            snapshot: snapshot.as_ref(),
            last,
            storage,
            status: starting.status.clone(),
            cancel: starting.cancel.clone(),
        };
        let job = Job::new(first_graph, options.clone(), starting.clock.clone(), start)?;
        Ok(FirstAttempt {
            job,
            name,
            origin,
            ownership,
            first,
        })
    }

    /// Makes the directory of checkpoints this run's. `false`: there are checkpoints that were not there before.
    fn takes_directory(&self, options: &JobOptions) -> Result<bool> {
        let Some(directory) = has_checkpoints(options) else {
            return Ok(true);
        };
        let owner = self.ownership.owner(&self.name);
        owner.take(&*open_blobs(directory)?)?;
        let present = present_checkpoints(options)?.complete;
        Ok(present.iter().all(|(id, _)| *id < self.first))
    }
}

/// The error with which a job ends.
fn last_failure(error: Error, restarts: u64) -> Error {
    match restarts {
        0 => error,
        1 => error.context("after 1 restart; 'restart-strategy.*' allows no more"),
        more => error.context(format!(
            "after {more} restarts; 'restart-strategy.*' allows no more"
        )),
    }
}

/// Waits for a restart. False: the job was cancelled meanwhile.
fn wait(delay: Duration, cancel: &AtomicBool, requests: &Receiver<JobRequest>) -> bool {
    const TICK: Duration = Duration::from_millis(50);
    let until = Instant::now() + delay;
    loop {
        if cancel.load(Ordering::SeqCst) {
            return false;
        }
        while let Ok(request) = requests.try_recv() {
            request.refuse(
                Error::external("the job has failed and is about to start again")
                    .hint("ask again when it runs, or cancel it: it then stays as of its latest checkpoint"),
            );
        }
        let rest = until.saturating_duration_since(Instant::now());
        if rest.is_zero() {
            return true;
        }
        std::thread::sleep(rest.min(TICK));
    }
}

/// What further attempts need.
struct Redeployment {
    graph: GraphFactory,
    options: JobOptions,
    clock: Arc<dyn Clock>,
    status: Arc<JobStatus>,
    cancel: Arc<AtomicBool>,
    origin: Option<Origin>,
    first: CheckpointId,
    ownership: Ownership,
}

impl Redeployment {
    fn deploy(&self, announcer: &mut Announcer) -> Result<(Job, Option<Origin>), JobFailure> {
        caught(|| Ok(self.deploy_latest(announcer)))?
    }

    /// Whether the job may go on from a checkpoint that was not there when it was started. One of another run is of the moment in which this one took
    /// the directory: that run has not committed what belongs to it. A job that goes on from checkpoints there goes on from it, to any other it
    /// says nothing.
    fn goes_on_from(&self, path: &str, job: &str) -> Result<bool> {
        let author = CheckpointStorage::author(path)?;
        Ok(author.is_none_or(|(of, run)| {
            let resumes = self.ownership.from == CheckpointId(0);
            run == self.ownership.run.to_string() || resumes && of == job
        }))
    }

    /// Errors: another run has taken the directory of checkpoints.
    fn check_directory(&self, graph: &JobGraph) -> Result<(), JobFailure> {
        let Some(directory) = has_checkpoints(&self.options) else {
            return Ok(());
        };
        let owner = self.ownership.owner(&graph.name);
        match owner.successor(&*open_blobs(directory)?)? {
            None => Ok(()),
            Some(other) => Err(JobFailure {
                error: other.supersedes(directory),
                may_restart: false,
            }),
        }
    }

    /// Between attempts: removes the checkpoints of this run that need not outlive the job. What cannot be removed stays.
    fn discard_checkpoints(&self, end: JobEnd) {
        let Some(kept) = self.options.checkpoints.retention.kept(end) else {
            return;
        };
        let opened =
            (self.graph)().and_then(|graph| storage(&self.options, &graph, &self.ownership, None));
        if let Ok(Some((blobs, mut storage))) = opened {
            storage.discard(&*blobs, kept);
        }
    }

    /// The newest checkpoint of this run, where somebody has removed it: an older one is restored, and nobody has told why.
    fn lost(&self, restored: Option<&Origin>, told: &[CheckpointId]) -> Option<Unreadable> {
        let checkpoint = CheckpointId(self.status.overview().checkpoint?);
        let restored = restored.map_or(CheckpointId(0), |origin| origin.checkpoint);
        if checkpoint <= restored || told.contains(&checkpoint) {
            return None;
        }
        let directory = has_checkpoints(&self.options)?.trim_end_matches('/');
        let gone = format!(
            "{directory}/chk-{checkpoint}/manifest.json is not there any more: somebody has removed it"
        );
        Some(Unreadable {
            checkpoint,
            error: Error::external(gone),
            committed: Recovered::Nothing,
        })
    }

    fn deploy_latest(
        &self,
        announcer: &mut Announcer,
    ) -> Result<(Job, Option<Origin>), JobFailure> {
        let graph = (self.graph)()?;
        self.check_directory(&graph)?;
        let present = present_checkpoints(&self.options)?;
        let mut candidates = Vec::new();
        let of_run = |(id, _): &&(CheckpointId, String)| *id >= self.first;
        for candidate in present.complete.iter().filter(of_run) {
            if self.goes_on_from(&candidate.1, &graph.name)? {
                candidates.push(candidate.clone());
            }
        }
        candidates.extend(self.status.savepoint());
        if candidates.is_empty() {
            let origin = self.origin.iter();
            candidates.extend(origin.map(|origin| (origin.checkpoint, origin.path.clone())));
        }
        let (snapshot, unreadable) = newest_readable(candidates, graph.max_parallelism)?;
        let origin = snapshot.as_ref().map(OpenSnapshot::origin);
        let told: Vec<CheckpointId> = unreadable.iter().map(|it| it.checkpoint).collect();
        for checkpoint in unreadable
            .into_iter()
            .chain(self.lost(origin.as_ref(), &told))
        {
            announcer.tell(checkpoint.into());
        }
        let snapshot = snapshot.map(|snapshot| snapshot.upgraded(&graph));
        let snapshot = snapshot.transpose()?.map(|(snapshot, _)| snapshot);
        let last = CheckpointId(self.first.0 - 1).max(present.highest());
        let start = Start {
            snapshot: snapshot.as_ref(),
            last,
            storage: storage(&self.options, &graph, &self.ownership, snapshot.as_ref())?,
            status: self.status.clone(),
            cancel: self.cancel.clone(),
        };
        let job = Job::new(graph, self.options.clone(), self.clock.clone(), start)?;
        Ok((job, origin))
    }
}

/// `execution.checkpointing.dir` where checkpoints are on.
fn has_checkpoints(options: &JobOptions) -> Option<&String> {
    let directory = options.checkpoints.directory.as_ref();
    directory.filter(|_| options.checkpoints.is_on())
}

/// Where an attempt that starts from `snapshot` writes its checkpoints.
fn storage(
    options: &JobOptions,
    graph: &JobGraph,
    ownership: &Ownership,
    snapshot: Option<&OpenSnapshot>,
) -> Result<Option<(Arc<dyn BlobStore>, CheckpointStorage)>> {
    let Some(directory) = has_checkpoints(options) else {
        return Ok(None);
    };
    let blobs = open_blobs(directory)?;
    blobs.make_ready().map_err(|error| {
        error.hint("'execution.checkpointing.dir' names a directory that the job may write to, or the URL of one in an object store")
    })?;
    let storage_options = StorageOptions {
        job: graph.name.clone(),
        run: ownership.run.to_string(),
        max_parallelism: graph.max_parallelism,
        retained: options.checkpoints.retained,
        incremental: options.checkpoints.incremental,
        operators: operator_facts(graph),
        owned_from: ownership.from,
        writer: format!("{:08x}", rand::random::<u32>()),
    };
    let mut elsewhere = None;
    let started_from = match snapshot {
        None => StartedFrom::Nothing,
        Some(snapshot) => {
            let root = blobs.location();
            let root = format!("{}/chk-", root.trim_end_matches('/'));
            let lies_there = snapshot.path.starts_with(&root);
            let claims = ownership.claimed.as_ref() == Some(&snapshot.path);
            let is_own = snapshot.reader.checkpoint() >= ownership.from || claims;
            match &snapshot.checkpoint {
                Some(checkpoint) if lies_there && is_own && checkpoint.is_in_place() => {
                    StartedFrom::Claimed(checkpoint.clone())
                }
                _ => {
                    elsewhere = claims.then(|| snapshot.reader.clone());
                    StartedFrom::Copied(snapshot.reader.clone())
                }
            }
        }
    };
    let mut storage = CheckpointStorage::open(&*blobs, storage_options, started_from)?;
    if let Some(checkpoint) = elsewhere {
        storage.claim_elsewhere(checkpoint);
    }
    Ok(Some((blobs, storage)))
}

/// Which checkpoints are the job's to delete.
struct Ownership {
    run: JobId,
    /// Those in its directory from this one on.
    from: CheckpointId,
    /// And the checkpoint or savepoint that it was started from, where it has claimed it: its place.
    claimed: Option<String>,
}

impl Ownership {
    fn owner(&self, job: &str) -> Owner {
        Owner {
            job: job.to_string(),
            run: self.run.to_string(),
        }
    }
}

/// What lies in `execution.checkpointing.dir`.
fn present_checkpoints(options: &JobOptions) -> Result<PresentCheckpoints> {
    let directory = match &options.checkpoints.directory {
        Some(directory) if has_checkpoints(options).is_some() || options.restore.resume => {
            directory
        }
        _ => return Ok(PresentCheckpoints::default()),
    };
    CheckpointStorage::present(directory)
}

/// The checkpoints without a manifest that are newer than the one that was chosen as the newest of a directory.
fn without_manifest(
    options: &JobOptions,
    present: &PresentCheckpoints,
    origin: Option<&Origin>,
) -> Result<Vec<CheckpointId>> {
    let path = options.restore.path.as_ref();
    let mut found = match (options.restore.resume, path, origin) {
        (true, ..) => present.without_manifest.clone(),
        (false, Some(path), Some(origin)) if origin.is_below(path) => {
            CheckpointStorage::present(path)?.without_manifest
        }
        _ => Vec::new(),
    };
    found.retain(|id| origin.is_none_or(|origin| *id > origin.checkpoint));
    Ok(found)
}

/// What the options say that the job starts from.
fn first_snapshot(
    options: &JobOptions,
    present: &PresentCheckpoints,
    graph: &JobGraph,
) -> Result<Found> {
    let restore = &options.restore;
    if restore.resume && options.checkpoints.directory.is_none() {
        return Err(Error::user("there is nothing to resume from: 'execution.checkpointing.dir' is not set")
            .hint("SET 'execution.checkpointing.dir' = '/path/to/checkpoints' and 'execution.checkpointing.interval' = '10 s'"));
    }
    if restore.resume && !present.complete.is_empty() {
        let found = newest_readable(present.complete.clone(), graph.max_parallelism)?;
        if let Some(snapshot) = &found.0 {
            check_job(snapshot, &graph.name)?;
        }
        return Ok(found);
    }
    match &restore.path {
        Some(path) => named_snapshot(path, graph.max_parallelism),
        None => Ok((None, Vec::new())),
    }
}

/// A directory that another job has used is no place to resume from: its sources stand where that job left them.
fn check_job(snapshot: &OpenSnapshot, job: &str) -> Result<()> {
    let Some(checkpoint) = &snapshot.checkpoint else {
        return Ok(());
    };
    let other = &checkpoint.manifest().job;
    if other == job || [other.as_str(), job].contains(&DEFAULT_NAME) {
        return Ok(());
    }
    Err(Error::user(format!(
        "the newest checkpoint in 'execution.checkpointing.dir', {}, is of the job '{other}', this one is '{job}'",
        snapshot.path
    ))
    .hint("give each job a directory of its own; where the job has got another name, name the checkpoint in 'execution.state-recovery.path'"))
}
