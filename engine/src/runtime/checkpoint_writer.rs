//! The thread that writes checkpoints, so that neither rows nor the coordinator wait for a store, and merges segments behind them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::blobs::BlobStore;
use crate::checkpoint::{
    CheckpointContents, CheckpointStorage, MergePlan, Merged, WrittenCheckpoint,
};
use crate::error::{Error, Result};

/// What came of a checkpoint.
pub(super) enum Written {
    /// It is durable.
    Complete(WrittenCheckpoint),
    /// It is not; what it held must go into the next one.
    Failed(Error, CheckpointContents),
    /// Something that does not matter to the job, but to whoever looks after the store.
    Warning(String),
}

/// See the module.
pub(super) struct CheckpointWriter {
    commands: Option<Sender<Command>>,
    results: Receiver<Written>,
    thread: Option<JoinHandle<()>>,
    stopped: Arc<AtomicBool>,
}

enum Command {
    Write(CheckpointContents),
    Merged(Result<Merged>),
    Discard(usize),
    End,
}

impl CheckpointWriter {
    /// Starts the thread. `wake` is called when there is a result.
    pub(super) fn start(
        blobs: Arc<dyn BlobStore>,
        storage: CheckpointStorage,
        wake: Box<dyn Fn() + Send>,
    ) -> Result<Self> {
        let (commands, receiver) = channel();
        let (sender, results) = channel();
        let stopped = Arc::new(AtomicBool::new(false));
        let thread = WriterThread {
            blobs,
            storage,
            commands: commands.clone(),
            results: sender,
            wake,
            merge: None,
            stopped: stopped.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("volley-checkpoint".to_string())
            .spawn(move || thread.run(&receiver))
            .map_err(cannot_start)?;
        Ok(CheckpointWriter {
            commands: Some(commands),
            results,
            thread: Some(thread),
            stopped,
        })
    }

    /// Has a checkpoint written.
    pub(super) fn write(&self, contents: CheckpointContents) {
        self.send(Command::Write(contents));
    }

    /// The next result, if there is one.
    pub(super) fn result(&self) -> Option<Written> {
        self.results.try_recv().ok()
    }

    /// Waits some time for the next result.
    pub(super) fn wait(&self, time: Duration) -> Result<Option<Written>> {
        match self.results.recv_timeout(time) {
            Ok(written) => Ok(Some(written)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Error::internal(
                "the thread that writes checkpoints has ended",
            )),
        }
    }

    /// Removes the job's checkpoints but the `kept` newest, and ends the thread.
    pub(super) fn discard(self, kept: usize) {
        self.send(Command::Discard(kept));
    }

    fn send(&self, command: Command) {
        if let Some(commands) = &self.commands {
            // A thread that is gone is told of by `wait`.
            let _ = commands.send(command);
        }
    }
}

impl Drop for CheckpointWriter {
    /// Waits for what is being written, but not for a store that does not answer: its thread is left to itself, and fenced off by
    /// whoever writes the next checkpoints.
    fn drop(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(10);
        self.stopped.store(true, Ordering::SeqCst);
        self.send(Command::End);
        self.commands = None;
        let latest = Instant::now() + PATIENCE;
        loop {
            match self
                .results
                .recv_timeout(latest.saturating_duration_since(Instant::now()))
            {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct WriterThread {
    blobs: Arc<dyn BlobStore>,
    storage: CheckpointStorage,
    commands: Sender<Command>,
    results: Sender<Written>,
    wake: Box<dyn Fn() + Send>,
    merge: Option<JoinHandle<()>>,
    stopped: Arc<AtomicBool>,
}

impl WriterThread {
    fn run(mut self, commands: &Receiver<Command>) {
        while let Ok(command) = commands.recv() {
            match command {
                Command::Write(contents) => self.write(contents),
                Command::Merged(merged) => self.storage.install(&*self.blobs, merged),
                Command::Discard(kept) => self.storage.discard(&*self.blobs, kept),
                Command::End => break,
            }
            for warning in self.storage.take_warnings() {
                self.tell(Written::Warning(warning));
            }
            if let Some(plan) = self.storage.next_merge() {
                self.start_merge(plan);
            }
        }
        if let Some(merge) = self.merge.take() {
            let _ = merge.join();
        }
        let merged = commands.try_iter().filter_map(|command| match command {
            Command::Merged(merged) => Some(merged),
            _ => None,
        });
        merged.for_each(|merged| self.storage.install(&*self.blobs, merged));
    }

    fn write(&mut self, contents: CheckpointContents) {
        let written = match self.storage.write(&*self.blobs, &contents) {
            Ok(written) => Written::Complete(written),
            Err(error) => Written::Failed(error, contents),
        };
        self.tell(written);
    }

    fn tell(&self, written: Written) {
        let _ = self.results.send(written);
        (self.wake)();
    }

    /// Merges on a thread of its own: the next checkpoint need not wait.
    fn start_merge(&mut self, plan: MergePlan) {
        if let Some(merge) = self.merge.take() {
            let _ = merge.join();
        }
        let (blobs, commands) = (self.blobs.clone(), self.commands.clone());
        let stopped = self.stopped.clone();
        let run = move || {
            let merged = plan.run(&*blobs, &|| stopped.load(Ordering::SeqCst));
            let _ = commands.send(Command::Merged(merged));
        };
        let thread = std::thread::Builder::new().name("volley-merge".to_string());
        match thread.spawn(run) {
            Ok(thread) => self.merge = Some(thread),
            Err(error) => self.storage.install(&*self.blobs, Err(cannot_start(error))),
        }
    }
}

fn cannot_start(error: std::io::Error) -> Error {
    Error::resource(format!("cannot start a thread: {error}"))
}
