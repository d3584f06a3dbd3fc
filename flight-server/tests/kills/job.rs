//! The job that is killed: rows from files, windows and running totals into files, at parallelism 2.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// A job in a directory of its own: `input/`, `windows/`, `totals/`, `checkpoints/` and `job.sql`.
pub(crate) struct Job {
    pub(crate) directory: PathBuf,
    pub(crate) interval_ms: u64,
    pub(crate) retained: usize,
    /// What starts before the binary, as `sh -c` takes it; `exec "$@"` ends it.
    pub(crate) wrapper: Option<String>,
}

impl Job {
    /// Reads `input`, writes below `directory`.
    pub(crate) fn new(directory: &Path, input: &Path, batch_rows: usize) -> Job {
        fs::create_dir_all(directory).unwrap();
        let path = |name: &str| directory.join(name).display().to_string();
        let sql = format!(
            "SET 'volley.batch.rows' = '{batch_rows}';
             CREATE TABLE payments (id BIGINT, account STRING, amount BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
             WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv');
             CREATE TABLE windows (s TIMESTAMP(3), account STRING, n BIGINT, total BIGINT)
             WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
             CREATE TABLE totals (id BIGINT, account STRING, total BIGINT)
             WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv');
             EXECUTE STATEMENT SET BEGIN
             INSERT INTO windows SELECT window_start, account, COUNT(*), SUM(amount)
             FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, account;
             INSERT INTO totals SELECT id, account, SUM(amount) OVER (PARTITION BY account ORDER BY ts) FROM payments;
             END;",
            input.display(),
            path("windows"),
            path("totals"),
        );
        fs::write(directory.join("job.sql"), sql).unwrap();
        Job {
            directory: directory.to_path_buf(),
            interval_ms: 1_000,
            retained: 2,
            wrapper: None,
        }
    }

    pub(crate) fn checkpoints(&self) -> PathBuf {
        self.directory.join("checkpoints")
    }

    /// Starts the binary, from the newest checkpoint where there is one.
    pub(crate) fn start(&self) -> Running {
        let mut arguments = vec![
            "run".to_string(),
            "--resume".to_string(),
            self.file("job.sql"),
        ];
        let mut option = |text: String| arguments.extend(["-D".to_string(), text]);
        option("parallelism.default=2".into());
        option("volley.progress=never".into());
        option(format!(
            "execution.checkpointing.interval={} ms",
            self.interval_ms
        ));
        option(format!(
            "execution.checkpointing.dir={}",
            self.checkpoints().display()
        ));
        option(format!(
            "execution.checkpointing.num-retained={}",
            self.retained
        ));
        // What fails is for the test to see.
        option("restart-strategy.type=none".into());
        let volley = env!("CARGO_BIN_EXE_volley");
        let mut command = match &self.wrapper {
            None => Command::new(volley),
            Some(script) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", script, "sh", volley]);
                shell
            }
        };
        let log = fs::File::create(self.directory.join("log")).unwrap();
        command
            .args(&arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        Running {
            child: command.spawn().unwrap(),
            log: self.directory.join("log"),
        }
    }

    fn file(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }

    /// The committed lines of both tables, sorted.
    pub(crate) fn committed(&self) -> Vec<String> {
        let mut lines = visible_lines(&self.directory.join("windows"));
        lines.extend(visible_lines(&self.directory.join("totals")));
        lines.sort_unstable();
        lines
    }
}

/// A process of the binary.
pub(crate) struct Running {
    child: Child,
    log: PathBuf,
}

impl Running {
    /// Kills it after some time. Whether it was still running.
    pub(crate) fn kill_after(mut self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "{status}: {}", self.output());
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // On Unix this is SIGKILL.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        true
    }

    /// Waits for its end, ten minutes; no exit code where it did not come.
    pub(crate) fn finish(mut self) -> (Option<i32>, String) {
        let end = Instant::now() + Duration::from_secs(600);
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), self.output());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        (None, self.output())
    }

    fn output(&self) -> String {
        let mut text = String::new();
        let log = fs::File::open(&self.log).and_then(|mut log| log.read_to_string(&mut text));
        log.unwrap();
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of all files of a directory, below it too, whose path has no part that begins with `.` or `_`.
fn visible_lines(directory: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let Ok(entries) = fs::read_dir(directory) else {
        return lines;
    };
    for path in entries.map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_string_lossy().to_string();
        if name.starts_with(['.', '_']) {
            continue;
        }
        if path.is_dir() {
            lines.extend(visible_lines(&path));
        } else {
            let text = fs::read_to_string(&path).unwrap();
            lines.extend(text.lines().map(str::to_string));
        }
    }
    lines
}

/// The manifests of complete checkpoints below a directory, oldest first.
pub(crate) fn manifests(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(directory, &mut |path| {
        if path.file_name().is_some_and(|name| name == "manifest.json") {
            found.push(path.to_path_buf());
        }
    });
    found.sort_by_key(|path| checkpoint_number(path));
    found
}

fn checkpoint_number(manifest: &Path) -> u64 {
    let directory = manifest.parent().and_then(Path::file_name);
    let digits = directory.map(|name| name.to_string_lossy().replace("chk-", ""));
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Calls with every file below a directory.
pub(crate) fn collect(directory: &Path, call: &mut dyn FnMut(&Path)) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        match path.is_dir() {
            true => collect(&path, call),
            false => call(&path),
        }
    }
}

/// Writes `files` CSV files of `rows` payments each, side by side in event time and in order within a file.
pub(crate) fn write_input(directory: &Path, files: usize, rows: usize, seed: u64) {
    fs::create_dir_all(directory).unwrap();
    let mut random = SmallRng::seed_from_u64(seed);
    for file in 0..files {
        let mut text = String::new();
        let mut at_ms = 0;
        for row in 0..rows {
            at_ms += random.random_range(1..=200);
            let (second, ms) = (at_ms / 1_000, at_ms % 1_000);
            let (hour, minute, second) = (second / 3_600 % 24, second / 60 % 60, second % 60);
            let day = 1 + at_ms / 86_400_000;
            writeln!(
                text,
                "{},account-{},{},2024-01-{day:02} {hour:02}:{minute:02}:{second:02}.{ms:03}",
                file * rows + row,
                random.random_range(0..500),
                random.random_range(-1_000..=1_000),
            )
            .unwrap();
        }
        fs::write(directory.join(format!("{file:03}.csv")), text).unwrap();
    }
}

/// How often each line is there, where the two differ: at most some lines of text.
pub(crate) fn difference(expected: &[String], actual: &[String]) -> Vec<String> {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for line in expected {
        *counts.entry(line).or_default() -= 1;
    }
    for line in actual {
        *counts.entry(line).or_default() += 1;
    }
    let differs = counts.into_iter().filter(|(_, count)| *count != 0);
    differs
        .take(20)
        .map(|(line, count)| match count > 0 {
            true => format!("{count} too many: {line}"),
            false => format!("{} missing: {line}", -count),
        })
        .collect()
}
