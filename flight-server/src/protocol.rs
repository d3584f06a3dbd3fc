//! How the `volley` commands speak to a job that runs: lines of JSON over a Unix domain socket, one answer a request.
//!
//! Each job has a socket `JOB_ID.sock` in a directory that only its user may enter: `$XDG_RUNTIME_DIR/volley`, or where that is
//! not set, `/tmp/volley-UID`.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use volley::runtime::JobOverview;
use volley::{Error, ErrorKind, Result};

/// How the name of a socket ends.
pub(crate) const SOCKET: &str = ".sock";

/// What a job is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// How it is.
    Status,
    /// Write a savepoint.
    Savepoint { target: Option<String> },
    /// Write a savepoint and end.
    Stop { target: Option<String>, drain: bool },
    /// End without one.
    Cancel,
}

/// What it says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// How it is.
    Job(JobOverview),
    /// Where the savepoint is.
    Savepoint(String),
    /// It ends soon.
    Cancelling,
    /// It cannot: the exit code of the error, and its text.
    Error { code: i32, message: String },
}

impl Answer {
    /// The answer that says why not.
    pub(crate) fn error(error: &Error) -> Self {
        Answer::Error {
            code: error.kind().exit_code(),
            message: error.to_string(),
        }
    }
}

/// Asks the job behind a socket.
pub(crate) fn ask(socket: &Path, request: &Request) -> Result<Answer> {
    let mut stream = UnixStream::connect(socket)?;
    send(&mut stream, request)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    if line.is_empty() {
        return Err(Error::external("the job has ended without an answer"));
    }
    let answer = serde_json::from_str(&line);
    match answer
        .map_err(|error| Error::internal(format!("the job's answer is damaged: {error}")))?
    {
        Answer::Error { code, message } => Err(Error::new(kind(code), message)),
        answer => Ok(answer),
    }
}

/// Writes a line.
pub(crate) fn send(stream: &mut UnixStream, message: &impl Serialize) -> Result<()> {
    let line = serde_json::to_string(message);
    let line = line.map_err(|error| Error::internal(format!("no JSON: {error}")))?;
    stream.write_all(format!("{line}\n").as_bytes())?;
    Ok(())
}

fn kind(code: i32) -> ErrorKind {
    [
        ErrorKind::User,
        ErrorKind::Data,
        ErrorKind::External,
        ErrorKind::Resource,
    ]
    .into_iter()
    .find(|kind| kind.exit_code() == code)
    .unwrap_or(ErrorKind::Internal)
}

/// The directories in which sockets may be, first the one in which new ones are made.
pub(crate) fn directories() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
    let runtime = runtime.map(|path| PathBuf::from(path).join("volley"));
    let shared = PathBuf::from(format!("/tmp/volley-{}", user()));
    runtime.into_iter().chain([shared]).collect()
}

fn user() -> u32 {
    rustix::process::getuid().as_raw()
}

/// Makes the directory of sockets. What another user made or may enter is refused.
pub(crate) fn make_directory(path: &Path) -> Result<()> {
    let cannot = |what: &str| Error::external(format!("{} {what}", path.display()));
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path);
    made.map_err(|error| cannot(&format!("cannot be made: {error}")))?;
    let found = std::fs::symlink_metadata(path)?;
    if !found.is_dir() || found.uid() != user() || found.permissions().mode() & 0o077 != 0 {
        return Err(cannot("belongs to another user or is open to others")
            .hint("remove it, or make it yours with mode 0700"));
    }
    Ok(())
}
