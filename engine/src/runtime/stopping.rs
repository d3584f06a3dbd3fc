//! Savepoints that a running job was asked for, and how its threads learn that they are to stop.
//!
//! A savepoint is a checkpoint that is also written where the user wants it. One that stops the job lets nothing pass behind its
//! barrier ([`StopMode::Suspend`]), or ends the input first ([`StopMode::Drain`]). Should it fail, a suspended job goes on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use super::checkpointing::Completed;
use super::control::JobRequest;
use super::status::{JobId, JobStatus};
use super::task::StopMode;
use crate::checkpoint::{PlanFacts, savepoint};
use crate::error::{Error, Result};
use crate::stream::CheckpointId;

/// What tells the threads of an attempt to stop.
#[derive(Debug, Default)]
pub(super) struct StopFlags {
    /// The checkpoint behind whose barrier nothing moves; 0: none.
    suspend_at: AtomicU64,
    drain: AtomicBool,
    suspended: AtomicBool,
    aborted: AtomicBool,
}

impl StopFlags {
    /// How sources and tasks are to stop.
    pub(super) fn mode(&self) -> StopMode {
        match self.suspend_at.load(Ordering::SeqCst) {
            0 if self.drain.load(Ordering::SeqCst) => StopMode::Drain,
            0 => StopMode::None,
            checkpoint => StopMode::Suspend(CheckpointId(checkpoint)),
        }
    }

    /// The savepoint of a stop is complete: threads commit and end.
    pub(super) fn set_suspended(&self) {
        self.suspended.store(true, Ordering::SeqCst);
    }

    /// Whether the job has stopped with a savepoint.
    pub(super) fn is_suspended(&self) -> bool {
        self.suspended.load(Ordering::SeqCst)
    }

    /// The attempt has failed: threads end at once.
    pub(super) fn abort(&self) {
        self.aborted.store(true, Ordering::SeqCst);
    }

    /// Whether the attempt has failed.
    pub(super) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::SeqCst)
    }

    fn is_draining(&self) -> bool {
        self.drain.load(Ordering::SeqCst)
    }
}

/// The requests of an attempt that are not answered.
pub(super) struct SavepointRequests {
    waiting: VecDeque<JobRequest>,
    running: Option<Running>,
    flags: Arc<StopFlags>,
    job: SavepointJob,
    status: Arc<JobStatus>,
}

/// What a savepoint says of its job.
#[derive(Debug, Clone)]
pub(super) struct SavepointJob {
    pub(super) id: JobId,
    pub(super) facts: PlanFacts,
    pub(super) max_parallelism: u16,
    /// `execution.checkpointing.savepoint-dir`.
    pub(super) directory: Option<String>,
}

struct Running {
    request: JobRequest,
    /// `None`: the job is being drained, its savepoint comes at the end.
    checkpoint: Option<CheckpointId>,
    /// Where the savepoint is, once it is complete.
    path: Option<String>,
}

impl SavepointRequests {
    pub(super) fn new(flags: Arc<StopFlags>, job: SavepointJob, status: Arc<JobStatus>) -> Self {
        SavepointRequests {
            waiting: VecDeque::new(),
            running: None,
            flags,
            job,
            status,
        }
    }

    /// Takes up new requests; what cannot be done is refused at once.
    pub(super) fn take(&mut self, requests: &Receiver<JobRequest>) {
        while let Ok(request) = requests.try_recv() {
            if let Err(error) = self.check(&request) {
                request.refuse(error);
            } else {
                self.waiting.push_back(request);
            }
        }
    }

    fn check(&self, request: &JobRequest) -> Result<()> {
        let running = self.running.iter().map(|running| &running.request);
        if running.chain(&self.waiting).any(is_stop) {
            return Err(Error::user("the job is being stopped already"));
        }
        let (JobRequest::Savepoint { target, .. } | JobRequest::Stop { target, .. }) = request;
        if target.is_none() && self.job.directory.is_none() {
            return Err(Error::user("the job does not know where savepoints go")
                .hint("name a directory, or SET 'execution.checkpointing.savepoint-dir' before the job starts"));
        }
        Ok(())
    }

    /// Whether a request waits that needs a checkpoint now; one that drains begins at once.
    pub(super) fn wants_checkpoint(&mut self) -> bool {
        if self.running.is_some() {
            return false;
        }
        if !matches!(
            self.waiting.front(),
            Some(JobRequest::Stop { drain: true, .. })
        ) {
            return !self.waiting.is_empty();
        }
        self.flags.drain.store(true, Ordering::SeqCst);
        self.begin(None);
        false
    }

    /// The checkpoint of the first waiting request. Must be called before sources learn of it.
    pub(super) fn begin(&mut self, checkpoint: Option<CheckpointId>) {
        let Some(request) = self.waiting.pop_front() else {
            return;
        };
        if let (true, Some(checkpoint)) = (is_stop(&request), checkpoint) {
            self.flags.suspend_at.store(checkpoint.0, Ordering::SeqCst);
        }
        self.running = Some(Running {
            request,
            checkpoint,
            path: None,
        });
    }

    /// Whether the job is stopping, so that no other checkpoint may start.
    pub(super) fn is_stopping(&self) -> bool {
        self.flags.mode() != StopMode::None
    }

    /// A checkpoint is complete: writes the savepoint that waits for it. A request to go on is answered.
    pub(super) fn complete(&mut self, completed: &Completed) {
        let checkpoint = Some(completed.checkpoint());
        let is_its = |running: &&mut Running| running.checkpoint == checkpoint;
        if self.running.as_mut().filter(is_its).is_none() {
            return;
        }
        let written = self.write(completed);
        let Some(mut running) = self.running.take() else {
            return;
        };
        match written {
            Ok(path) if is_stop(&running.request) => {
                running.path = Some(path);
                self.running = Some(running);
            }
            written => {
                self.flags.suspend_at.store(0, Ordering::SeqCst);
                answer(running.request, written);
            }
        }
    }

    /// A checkpoint has failed: whoever asked for it is told, and a job that was to stop with it goes on.
    pub(super) fn fail(&mut self, checkpoint: CheckpointId, error: Error) {
        let is_its = |running: &mut Running| running.checkpoint == Some(checkpoint);
        if let Some(running) = self.running.take_if(is_its) {
            self.flags.suspend_at.store(0, Ordering::SeqCst);
            running.request.refuse(error);
        }
    }

    /// Whether the savepoint of a stop is complete, so that the job may end.
    pub(super) fn is_stop_complete(&self) -> bool {
        self.running
            .as_ref()
            .is_some_and(|running| running.path.is_some())
    }

    /// All tasks have ended: writes the savepoint of a drained job.
    pub(super) fn complete_drain(&mut self, completed: Option<&Completed>) {
        if !self.flags.is_draining() {
            return;
        }
        let written = match completed {
            Some(completed) => self.write(completed),
            None => Err(Error::internal("a drained job has tasks that did not end")),
        };
        let written = written.map_err(|error| {
            error.context("the job was drained and has ended; only its savepoint is missing")
        });
        match (written, self.running.take()) {
            (Ok(path), Some(mut running)) => {
                running.path = Some(path);
                self.running = Some(running);
            }
            (Err(error), Some(running)) => running.request.refuse(error),
            (_, None) => {}
        }
    }

    /// The attempt has ended. A stop whose savepoint is complete is answered with it, all others with `reason`.
    pub(super) fn end(&mut self, stopped: bool, reason: &dyn Fn() -> Error) {
        if let Some(running) = self.running.take() {
            match running.path {
                Some(path) if stopped => answer(running.request, Ok(path)),
                Some(path) => running.request.refuse(reason().context(format!(
                    "the savepoint {path} is complete and can be restored"
                ))),
                None => running.request.refuse(reason()),
            }
        }
        for request in self.waiting.drain(..) {
            request.refuse(reason());
        }
    }

    fn write(&mut self, completed: &Completed) -> Result<String> {
        let target = self.running.as_ref().and_then(|running| {
            let (JobRequest::Savepoint { target, .. } | JobRequest::Stop { target, .. }) =
                &running.request;
            target.clone()
        });
        let target = target.or_else(|| self.job.directory.clone());
        let target = target.ok_or_else(|| Error::internal("a savepoint without a directory"))?;
        let directory = format!(
            "{}/savepoint-{}-{}",
            target.trim_end_matches('/'),
            self.job.id.short(),
            completed.checkpoint()
        );
        write_savepoint(completed, &directory, &self.job)
            .map_err(|error| error.context(format!("while writing the savepoint {directory}")))?;
        self.status
            .savepoint_completed(completed.checkpoint(), &directory);
        Ok(directory)
    }
}

fn is_stop(request: &JobRequest) -> bool {
    matches!(request, JobRequest::Stop { .. })
}

fn answer(request: JobRequest, answer: Result<String>) {
    let (JobRequest::Savepoint { reply, .. } | JobRequest::Stop { reply, .. }) = request;
    // Whoever asked may have gone.
    let _ = reply.try_send(answer);
}

/// Writes a savepoint into a directory of its own.
fn write_savepoint(completed: &Completed, directory: &str, job: &SavepointJob) -> Result<()> {
    let reader = completed.reader()?;
    savepoint::write_in(&*reader, job.max_parallelism, &job.facts, directory)
}
