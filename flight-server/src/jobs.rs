//! `volley list`, `savepoint`, `stop` and `cancel`: what is said to jobs that run on this machine.

use std::io::Write;
use std::path::{Path, PathBuf};

use volley::runtime::JobOverview;
use volley::{Error, Result};

use crate::protocol::{Answer, Request, SOCKET, ask, directories};

/// Which job.
#[derive(clap::Args)]
pub(crate) struct JobArgument {
    /// The job: its id, the beginning of its id, or its name ('pipeline.name'), as `volley list` shows them.
    job: String,
}

/// What `volley savepoint` is told.
#[derive(clap::Args)]
pub(crate) struct SavepointArguments {
    #[command(flatten)]
    job: JobArgument,
    /// Where to: a directory or URL, in which the savepoint gets a directory of its own. Without it
    /// 'execution.checkpointing.savepoint-dir' of the job.
    directory: Option<String>,
}

/// What `volley stop` is told.
#[derive(clap::Args)]
pub(crate) struct StopArguments {
    #[command(flatten)]
    job: JobArgument,
    /// Where the savepoint goes: a directory or URL. Without it 'execution.checkpointing.savepoint-dir' of the job.
    #[arg(long, value_name = "DIR")]
    savepoint: Option<String>,
    /// Ends the input first: the largest watermark is emitted, all windows and timers fire. For a job that will not go on.
    #[arg(long)]
    drain: bool,
}

/// A job that answers, and its socket.
struct RunningJob {
    socket: PathBuf,
    overview: JobOverview,
}

/// Lists the jobs and gives the exit code.
pub(crate) fn list() -> u8 {
    code(running_jobs().and_then(|jobs| {
        let mut out = std::io::stdout().lock();
        if jobs.is_empty() {
            writeln!(
                std::io::stderr(),
                "no job of this user runs on this machine"
            )?;
            return Ok(());
        }
        for line in table(&jobs) {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }))
}

/// Has a savepoint written, prints where it is and gives the exit code.
pub(crate) fn savepoint(arguments: &SavepointArguments) -> u8 {
    code(absolute(arguments.directory.as_deref()).and_then(|target| {
        let answer = tell(&arguments.job, &Request::Savepoint { target })?;
        print_savepoint(&answer)
    }))
}

/// Stops a job with a savepoint, prints where it is and gives the exit code.
pub(crate) fn stop(arguments: &StopArguments) -> u8 {
    code(absolute(arguments.savepoint.as_deref()).and_then(|target| {
        let drain = arguments.drain;
        let answer = tell(&arguments.job, &Request::Stop { target, drain })?;
        print_savepoint(&answer)
    }))
}

/// Cancels a job and gives the exit code.
pub(crate) fn cancel(job: &JobArgument) -> u8 {
    code(tell(job, &Request::Cancel).map(drop))
}

fn code(result: Result<()>) -> u8 {
    match result {
        Ok(()) => 0,
        Err(error) if error.is_broken_pipe() => 0,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            error.kind().exit_code() as u8
        }
    }
}

fn tell(job: &JobArgument, request: &Request) -> Result<Answer> {
    let jobs = running_jobs()?;
    let found = find(&job.job, &jobs)?;
    ask(&found.socket, request)
}

fn print_savepoint(answer: &Answer) -> Result<()> {
    if let Answer::Savepoint(path) = answer {
        writeln!(std::io::stdout(), "{path}")?;
    }
    Ok(())
}

/// The job need not have our working directory.
fn absolute(directory: Option<&str>) -> Result<Option<String>> {
    let absolute = |directory: &str| {
        if directory.contains("://") {
            return Ok(directory.to_string());
        }
        let path = std::path::absolute(directory)?;
        Ok(path.display().to_string())
    };
    directory.map(absolute).transpose()
}

/// The jobs that answer, by name and id. The sockets of processes that were killed are removed.
fn running_jobs() -> Result<Vec<RunningJob>> {
    let mut jobs = Vec::new();
    for directory in directories() {
        let Ok(entries) = std::fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries {
            let socket = entry?.path();
            if !socket.to_string_lossy().ends_with(SOCKET) {
                continue;
            }
            if let Some(overview) = overview(&socket) {
                jobs.push(RunningJob { socket, overview });
            }
        }
    }
    jobs.sort_by(|a, b| {
        let key = |job: &RunningJob| (job.overview.name.clone(), job.overview.id.clone());
        key(a).cmp(&key(b))
    });
    Ok(jobs)
}

fn overview(socket: &Path) -> Option<JobOverview> {
    let is_dead = |kind| kind == std::io::ErrorKind::ConnectionRefused;
    match std::os::unix::net::UnixStream::connect(socket) {
        Err(error) if is_dead(error.kind()) => {
            let _ = std::fs::remove_file(socket);
            None
        }
        _ => match ask(socket, &Request::Status) {
            Ok(Answer::Job(overview)) => Some(overview),
            _ => None,
        },
    }
}

/// The one job that is meant.
fn find<'a>(name: &str, jobs: &'a [RunningJob]) -> Result<&'a RunningJob> {
    let named = |job: &&RunningJob| job.overview.id == name || job.overview.name == name;
    let mut meant: Vec<&RunningJob> = jobs.iter().filter(named).collect();
    if meant.is_empty() && !name.is_empty() {
        let begins = |job: &&RunningJob| job.overview.id.starts_with(name);
        meant = jobs.iter().filter(begins).collect();
    }
    match meant.as_slice() {
        [one] => Ok(one),
        [] => Err(Error::user(format!("no job '{name}' runs on this machine"))
            .hint("volley list shows the jobs of this user")),
        many => {
            let ids: Vec<&str> = many.iter().map(|job| job.overview.id.as_str()).collect();
            Err(
                Error::user(format!("'{name}' means several jobs: {}", ids.join(", ")))
                    .hint("name one by its id; a few digits are enough"),
            )
        }
    }
}

/// The lines of the list, in columns.
fn table(jobs: &[RunningJob]) -> Vec<String> {
    let header = ["ID", "NAME", "STATE", "UPTIME", "RESTARTS", "CHECKPOINT"].map(str::to_string);
    let rows = jobs.iter().map(|job| row(&job.overview));
    let cells: Vec<[String; 6]> = std::iter::once(header).chain(rows).collect();
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..6).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(&widths);
        let line: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        line.join("  ").trim_end().to_string()
    };
    cells.iter().map(line).collect()
}

fn row(job: &JobOverview) -> [String; 6] {
    let checkpoint = match (job.checkpoint, job.checkpoint_age) {
        (Some(checkpoint), Some(age)) => format!("{checkpoint}, {} ago", duration(age)),
        _ => "-".to_string(),
    };
    [
        job.id.clone(),
        job.name.clone(),
        job.state.to_string(),
        duration(job.uptime),
        job.restarts.to_string(),
        checkpoint,
    ]
}

/// `45 s`, `3 min 5 s`, `2 h 10 min`, `4 d 3 h`.
fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match (
        seconds / 86_400,
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
    ) {
        (0, 0, 0, seconds) => format!("{seconds} s"),
        (0, 0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (0, hours, minutes, _) => format!("{hours} h {minutes} min"),
        (days, hours, ..) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use volley::runtime::JobState;

    use super::*;

    fn job(id: &str, name: &str) -> RunningJob {
        RunningJob {
            socket: PathBuf::from(id),
            overview: JobOverview {
                id: id.to_string(),
                name: name.to_string(),
                state: JobState::Running,
                uptime: 185_000,
                downtime: 0,
                restarts: 2,
                checkpoint: Some(17),
                checkpoint_age: Some(4200),
                savepoint: None,
            },
        }
    }

    #[test]
    fn a_job_is_meant_by_id_name_or_the_beginning_of_its_id() {
        let jobs = [
            job("ab12", "orders"),
            job("ab77", "clicks"),
            job("c0de", "clicks"),
        ];
        let socket = |name| find(name, &jobs).map(|job| job.socket.display().to_string());
        assert_eq!(socket("orders").unwrap(), "ab12");
        assert_eq!(socket("ab7").unwrap(), "ab77");
        assert_eq!(socket("c0de").unwrap(), "c0de");
        let refused = |name| socket(name).unwrap_err().to_string();
        assert!(refused("ab").contains("ab12, ab77"));
        assert!(refused("clicks").contains("ab77, c0de"));
        assert!(refused("x").contains("no job 'x' runs") && refused("x").contains("volley list"));
        assert!(find("", &jobs).is_err());
    }

    #[test]
    fn the_list_has_columns() {
        let lines = table(&[job("ab12", "orders")]);
        assert_eq!(
            lines,
            [
                "ID    NAME    STATE    UPTIME     RESTARTS  CHECKPOINT",
                "ab12  orders  RUNNING  3 min 5 s  2         17, 4 s ago",
            ]
        );
        assert_eq!(duration(7_800_000), "2 h 10 min");
        assert_eq!(duration(360_000_000), "4 d 4 h");
    }
}
