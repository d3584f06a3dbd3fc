//! The control endpoint of a running job: answers the `volley` commands that ask for it.

use std::io::{BufRead, BufReader};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use volley::runtime::{JobControl, JobStatus};
use volley::{Error, Result};

use crate::protocol::{Answer, Request, SOCKET, directories, make_directory, send};

/// See the module. Dropping it answers what was asked, then takes the socket away.
pub(crate) struct Endpoint {
    socket: PathBuf,
    closing: Arc<AtomicBool>,
    listener: Option<JoinHandle<()>>,
    connections: Connections,
}

/// Those who have asked, with the threads that answer them.
type Connections = Arc<Mutex<Vec<(UnixStream, JoinHandle<()>)>>>;

/// What a request is answered from.
#[derive(Clone)]
struct Job {
    status: Arc<JobStatus>,
    control: JobControl,
}

impl Endpoint {
    /// Opens the endpoint of a job.
    pub(crate) fn open(status: Arc<JobStatus>, control: JobControl) -> Result<Self> {
        let id = status.id();
        let directory = directories().remove(0);
        make_directory(&directory)?;
        // It gets its name when it listens, so that nobody takes it for that of a killed process.
        let unfinished = directory.join(format!(".{id}"));
        let socket = directory.join(format!("{id}{SOCKET}"));
        let listener = UnixListener::bind(&unfinished)
            .and_then(|listener| std::fs::rename(&unfinished, &socket).map(|()| listener))
            .map_err(|error| Error::external(format!("{}: {error}", socket.display())))?;
        let closing = Arc::new(AtomicBool::new(false));
        let connections = Connections::default();
        let job = Job { status, control };
        let (seen, open) = (closing.clone(), connections.clone());
        let thread = spawn("volley-control", move || {
            for stream in listener.incoming().flatten() {
                if seen.load(Ordering::SeqCst) {
                    return;
                }
                serve(stream, &job, &open);
            }
        });
        Ok(Endpoint {
            socket,
            closing,
            listener: Some(thread?),
            connections,
        })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::SeqCst);
        wake(&self.socket);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        let _ = std::fs::remove_file(&self.socket);
        let open = std::mem::take(&mut *lock(&self.connections));
        for (stream, thread) in open {
            // It reads no more requests; the answer to one that it has read still goes out.
            let _ = stream.shutdown(Shutdown::Read);
            let _ = thread.join();
        }
    }
}

fn wake(socket: &Path) {
    let _ = UnixStream::connect(socket);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name.to_string());
    thread
        .spawn(run)
        .map_err(|error| Error::resource(format!("cannot start a thread: {error}")))
}

/// Answers the requests of a connection on a thread of its own, as a savepoint takes its time.
fn serve(stream: UnixStream, job: &Job, connections: &Connections) {
    let Ok(kept) = stream.try_clone() else { return };
    let job = job.clone();
    if let Ok(thread) = spawn("volley-control-request", move || converse(stream, &job)) {
        let mut open = lock(connections);
        open.retain(|(_, thread)| !thread.is_finished());
        open.push((kept, thread));
    }
}

fn converse(stream: UnixStream, job: &Job) {
    let Ok(mut answers) = stream.try_clone() else {
        return;
    };
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let answer = match serde_json::from_str(&line) {
            Ok(request) => answer(request, job),
            Err(error) => Err(Error::user(format!("no request: {error}"))),
        };
        let answer = answer.unwrap_or_else(|error| Answer::error(&error));
        if send(&mut answers, &answer).is_err() {
            return;
        }
    }
}

fn answer(request: Request, job: &Job) -> Result<Answer> {
    match request {
        Request::Status => Ok(Answer::Job(job.status.overview())),
        Request::Savepoint { target } => job.control.savepoint(target).map(Answer::Savepoint),
        Request::Stop { target, drain } => job.control.stop(target, drain).map(Answer::Savepoint),
        Request::Cancel => {
            job.control.cancel();
            Ok(Answer::Cancelling)
        }
    }
}
