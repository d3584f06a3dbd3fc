//! The real binary: jobs that run are listed, save, stop and are cancelled; killed ones go on with `--resume`.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A directory for a script, its checkpoints, its output and the sockets of its jobs.
struct Place {
    directory: TempDir,
    /// Where sockets are.
    runtime: PathBuf,
}

impl Place {
    /// A job that counts to `rows`, a thousand a second, with a checkpoint every 100 ms.
    fn new(rows: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let runtime = directory.path().to_path_buf();
        let place = Place { directory, runtime };
        let script = format!(
            "SET 'pipeline.name' = 'counting';
             SET 'execution.checkpointing.interval' = '100 ms';
             SET 'execution.checkpointing.dir' = '{}';
             CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1000', 'number-of-rows' = '{rows}',
               'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{rows}');
             CREATE TABLE counted (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv');
             INSERT INTO counted SELECT n FROM numbers;",
            place.path("checkpoints").display(),
            place.path("output").display()
        );
        std::fs::write(place.path("count.sql"), script).unwrap();
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_volley"));
        command
            .args(arguments)
            .env("XDG_RUNTIME_DIR", &self.runtime)
            .current_dir(self.directory.path());
        command
    }

    fn volley(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Starts the job.
    fn run(&self, options: &[&str]) -> Running {
        let arguments: Vec<&str> = ["run", "count.sql"]
            .iter()
            .chain(options)
            .copied()
            .collect();
        let mut command = self.command(&arguments);
        Running(command.stderr(Stdio::piped()).spawn().unwrap())
    }

    /// The line of the list about a job, once the job is there and has a checkpoint.
    fn listed(&self) -> String {
        eventually("a job with a checkpoint", || {
            let list = text(&self.volley(&["list"]).stdout);
            let line = list.lines().find(|line| line.contains(" counting "))?;
            (line.contains("RUNNING") && line.ends_with(" ago")).then(|| line.to_string())
        })
    }

    fn sockets(&self) -> usize {
        let entries = std::fs::read_dir(self.path("volley"));
        entries.map_or(0, Iterator::count)
    }

    /// The numbers in the committed files, sorted.
    fn counted(&self) -> Vec<u64> {
        let mut numbers = Vec::new();
        let Ok(entries) = std::fs::read_dir(self.path("output")) else {
            return numbers;
        };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if !path.file_name().unwrap().to_str().unwrap().starts_with('.') {
                let lines = std::fs::read_to_string(path).unwrap();
                numbers.extend(lines.lines().map(|line| line.parse::<u64>().unwrap()));
            }
        }
        numbers.sort_unstable();
        numbers
    }

    /// Checks that all numbers up to the last are there, each once.
    fn check_counted(&self) -> u64 {
        let counted = self.counted();
        let last = counted.last().copied().unwrap_or(0);
        assert_eq!(counted, (1..=last).collect::<Vec<u64>>());
        last
    }
}

/// A process that does not outlive its test.
struct Running(Child);

impl Running {
    /// Waits for the end: exit code and standard error.
    fn end(mut self) -> (Option<i32>, String) {
        let mut errors = String::new();
        self.0
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut errors)
            .unwrap();
        (self.0.wait().unwrap().code(), errors)
    }

    fn kill(mut self) -> String {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
        let mut errors = String::new();
        self.0
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut errors)
            .unwrap();
        errors
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until there is something.
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "never came: {what}"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn refused(output: &Output, what: &str) {
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains(what), "{errors}");
}

#[test]
fn a_job_is_listed_saved_stopped_and_goes_on_from_its_savepoint() {
    let place = Place::new(1_000_000);
    let job = place.run(&[]);
    let line = place.listed();
    let id = line.split(' ').next().unwrap().to_string();
    assert_eq!(id.len(), 32, "{line}");

    refused(
        &place.volley(&["savepoint", "another"]),
        "no job 'another' runs on this machine",
    );
    refused(
        &place.volley(&["stop", "counting"]),
        "does not know where savepoints go",
    );
    let saved = place.volley(&["savepoint", "counting", "saved"]);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    let saved = text(&saved.stdout).trim().to_string();
    assert!(Path::new(&saved).starts_with(place.path("saved")) && Path::new(&saved).is_dir());

    let stopped = place.volley(&["stop", &id[..8], "--savepoint", "stopped"]);
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    let stopped = text(&stopped.stdout).trim().to_string();
    let (code, errors) = job.end();
    assert_eq!(code, Some(0), "{errors}");
    assert!(
        errors.contains(&format!(
            "job {id} (counting) starts from the beginning; checkpoints go to"
        )),
        "{errors}"
    );
    assert!(
        errors.contains(&format!("stopped with the savepoint {stopped}")),
        "{errors}"
    );
    assert_eq!(place.sockets(), 0);
    let before = place.check_counted();
    assert!(before > 0);

    let path = format!("execution.state-recovery.path={stopped}");
    let job = place.run(&["-D", &path]);
    place.listed();
    let cancelled = place.volley(&["cancel", "counting"]);
    assert!(cancelled.status.success(), "{}", text(&cancelled.stderr));
    let (code, errors) = job.end();
    assert_eq!(code, Some(130), "{errors}");
    assert!(errors.contains("starts from checkpoint"), "{errors}");
    assert!(place.check_counted() > before);
}

#[test]
fn a_killed_job_goes_on_with_resume_and_its_socket_is_forgotten() {
    let place = Place::new(4000);
    let first = place.run(&["--resume"]);
    place.listed();
    let errors = first.kill();
    assert!(errors.contains("starts from the beginning"), "{errors}");
    assert_eq!(place.sockets(), 1, "nobody could remove it");
    let listed = place.volley(&["list"]);
    assert!(listed.status.success() && listed.stdout.is_empty());
    assert!(text(&listed.stderr).contains("no job of this user"));
    assert_eq!(place.sockets(), 0);

    let second = place.run(&["--resume"]);
    place.listed();
    second.kill();
    place.check_counted();
    let third = place.run(&["--resume"]);
    place.listed();
    assert!(place.volley(&["cancel", "counting"]).status.success());
    assert_eq!(
        third.end().0,
        Some(130),
        "its checkpoints stay all the same"
    );
    let (code, errors) = place.run(&["--resume"]).end();
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains("starts from checkpoint"), "{errors}");
    assert_eq!(place.check_counted(), 4000);

    // It has finished: there is nothing left to read.
    let (code, errors) = place.run(&["--resume"]).end();
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(place.check_counted(), 4000);
}

#[test]
fn two_jobs_of_one_name_are_told_apart_by_their_ids() {
    let (place, mut other) = (Place::new(1_000_000), Place::new(1_000_000));
    other.runtime.clone_from(&place.runtime);
    let (first, second) = (place.run(&[]), other.run(&[]));
    let ids = eventually("two jobs", || {
        let list = text(&place.volley(&["list"]).stdout);
        let lines = list.lines().skip(1);
        let ids: Vec<String> = lines.map(|line| line[..32].to_string()).collect();
        (ids.len() == 2).then_some(ids)
    });
    refused(&place.volley(&["cancel", "counting"]), "means several jobs");
    for id in ids {
        assert!(place.volley(&["cancel", &id]).status.success());
    }
    assert_eq!((first.end().0, second.end().0), (Some(130), Some(130)));
}

#[test]
fn a_directory_of_checkpoints_is_resumed_by_one_job_only() {
    let place = Place::new(200);
    let script = place.path("count.sql");
    let one = std::fs::read_to_string(&script).unwrap();
    let two = format!(
        "{one}
         CREATE TABLE again (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv');
         INSERT INTO again SELECT n FROM numbers;",
        place.path("again").display()
    );
    std::fs::write(&script, two).unwrap();
    // Not the second job of a script, neither at the first start nor later.
    for _ in 0..2 {
        let (code, errors) = place.run(&["--resume"]).end();
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains("--resume cannot tell"), "{errors}");
        assert_eq!(place.check_counted(), 200);
    }
    // Nor a job of another name.
    std::fs::write(&script, one.replace("'counting'", "'other'")).unwrap();
    let (code, errors) = place.run(&["--resume"]).end();
    assert_eq!(code, Some(2), "{errors}");
    assert!(
        errors.contains("is of the job 'counting', this one is 'other'"),
        "{errors}"
    );
    std::fs::write(&script, one).unwrap();
    assert_eq!(place.run(&["--resume"]).end().0, Some(0));
    assert_eq!(place.check_counted(), 200);
}
