//! The door to a job that runs: whoever holds a [`JobControl`] can ask for a savepoint, stop the job or cancel it.
//!
//! Requests wait for the thread of [`super::Supervisor::run`], which answers each exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, SyncSender, sync_channel};

use super::status::{JobState, JobStatus};
use crate::error::{Error, Result};

/// What a running job can be asked.
#[derive(Debug)]
pub enum JobRequest {
    /// Write a savepoint and go on.
    Savepoint {
        /// The directory in which the savepoint gets one of its own; `None`: that of the options.
        target: Option<String>,
        /// Receives the savepoint's path when it is complete.
        reply: SyncSender<Result<String>>,
    },
    /// Write a savepoint, commit what belongs to it, and end. No row is read after it.
    Stop {
        /// As for a savepoint.
        target: Option<String>,
        /// Whether the input counts as ended: the largest watermark is emitted, all windows and timers fire. Whoever restores
        /// such a savepoint finds nothing that could still change.
        drain: bool,
        /// Receives the savepoint's path when the job has ended.
        reply: SyncSender<Result<String>>,
    },
}

impl JobRequest {
    /// Answers with an error.
    pub fn refuse(self, error: Error) {
        let (JobRequest::Savepoint { reply, .. } | JobRequest::Stop { reply, .. }) = self;
        // Whoever asked may have gone.
        let _ = reply.try_send(Err(error));
    }
}

/// A handle on a running job.
#[derive(Clone)]
pub struct JobControl {
    requests: Sender<JobRequest>,
    cancel: Arc<AtomicBool>,
    status: Arc<JobStatus>,
}

impl JobControl {
    /// A handle that asks through `requests` and cancels by `cancel`.
    pub(super) fn new(
        requests: Sender<JobRequest>,
        cancel: Arc<AtomicBool>,
        status: Arc<JobStatus>,
    ) -> Self {
        JobControl {
            requests,
            cancel,
            status,
        }
    }

    /// Writes a savepoint into a directory of its own below `target` and gives its path. Waits for it.
    pub fn savepoint(&self, target: Option<String>) -> Result<String> {
        self.ask(|reply| JobRequest::Savepoint { target, reply })
    }

    /// Writes a savepoint, ends the job and gives the savepoint's path. Waits until the job has ended.
    pub fn stop(&self, target: Option<String>, drain: bool) -> Result<String> {
        self.ask(|reply| JobRequest::Stop {
            target,
            drain,
            reply,
        })
    }

    /// Ends the job soon, without a savepoint. What no checkpoint has committed stays invisible.
    pub fn cancel(&self) {
        self.cancel.store(true, Ordering::SeqCst);
    }

    fn ask(
        &self,
        request: impl FnOnce(SyncSender<Result<String>>) -> JobRequest,
    ) -> Result<String> {
        if self.status.state() == JobState::Initializing {
            return Err(Error::external("the job is still being restored")
                .hint("ask again once 'volley list' says RUNNING, or cancel it: it then stays as of the checkpoint that it starts from"));
        }
        let (reply, answer) = sync_channel(1);
        let ended = || Error::user("the job has ended");
        self.requests.send(request(reply)).map_err(|_| ended())?;
        answer.recv().map_err(|_| ended())?
    }
}
