//! Checkpoints and savepoints that are kept in `testdata/state`, those of earlier versions among them: every later version restores them,
//! reads the rest of the input, and commits what the files beside them say.
//!
//! A directory of a version holds a few jobs, each with its script, its inputs, what it had written when it was stopped, and what it must have
//! written in the end. With `VOLLEY_WRITE_STATE` in the environment the directory of this version is written; none is ever written over.

mod changelog_files;
mod gate;
mod inputs;
mod listing;
mod write;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use volley::checkpoint::upgrade::Fate;
use volley::checkpoint::{MANIFEST_VERSION, open_snapshot};
use volley::connectors::{ConnectorFactory, FilesystemFactory, standard_registry};
use volley::environment::{ExecutionResult, PreparedJob, TableEnvironment};
use volley::runtime::JobOutcome;
use volley::sql::split_script;

use changelog_files::ChangelogFiles;

/// Options by name.
type Options<'a> = [(&'a str, &'a str)];

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/state")
}

/// The directories in a directory, by name.
fn directories(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for path in fs::read_dir(from)
        .unwrap()
        .map(|entry| entry.unwrap().path())
    {
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(fs::copy(&path, &target).unwrap()),
        }
    }
}

/// The job of a script whose `input/` and `output/` lie in `root`. `files` reads and writes files.
fn prepare(
    script: &str,
    root: &Path,
    files: Arc<dyn ConnectorFactory>,
    options: &Options<'_>,
) -> PreparedJob {
    let script = ["input/", "output/"]
        .iter()
        .fold(script.to_string(), |script, place| {
            script.replace(
                &format!("'{place}"),
                &format!("'{}/{place}", root.display()),
            )
        });
    let mut connectors = standard_registry();
    connectors.register(files.clone());
    connectors.register(Arc::new(ChangelogFiles { files }));
    let mut environment = TableEnvironment::new(connectors);
    for statement in split_script(&script).unwrap() {
        // Behind those of the script, which they replace.
        for (key, value) in options {
            environment.set(key, value).unwrap();
        }
        match environment.execute(&statement.text) {
            Ok(ExecutionResult::Job(job)) => return job,
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the script holds a job");
}

fn run(job: &PreparedJob) {
    let outcome = job.deploy(None).unwrap().run(&mut |_, _| {}).unwrap();
    assert_eq!(outcome, JobOutcome::Finished);
}

/// What is committed, by table: the rows, sorted; of a changelog those that it makes.
fn committed(output: &Path) -> BTreeMap<String, Vec<String>> {
    let tables = directories(output).into_iter();
    tables
        .map(|table| {
            let name = table.file_name().unwrap().to_str().unwrap().to_string();
            let lines = visible_lines(&table);
            let rows = match name.ends_with("_by_key") {
                true => rows_by_key(&lines),
                false => rows_of(&name, &lines),
            };
            (name, rows)
        })
        .collect()
}

/// The lines of the visible files of a directory, in the order of their names.
fn visible_lines(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| !file.file_name().unwrap().to_str().unwrap().starts_with('.'));
    files.sort();
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    let lines = texts.flat_map(|text| text.lines().map(str::to_string).collect::<Vec<_>>());
    lines.collect()
}

/// The kind of a row in a changelog, and the row.
fn change(line: &str) -> Option<(&str, &str)> {
    let (kind, row) = line.split_once('|')?;
    matches!(kind, "+I" | "-U" | "+U" | "-D").then_some((kind, row))
}

fn rows_of(table: &str, lines: &[String]) -> Vec<String> {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for line in lines {
        let (kind, row) = change(line).unwrap_or(("+I", line));
        *counts.entry(row).or_default() += if kind.starts_with('+') { 1 } else { -1 };
    }
    let rows = counts.into_iter().flat_map(|(row, count)| {
        assert!(
            count >= 0,
            "{table}: {row} was taken back {count} times too often"
        );
        vec![row.to_string(); count as usize]
    });
    rows.collect()
}

/// The first column is the key.
fn rows_by_key(lines: &[String]) -> Vec<String> {
    let mut rows: BTreeMap<&str, &str> = BTreeMap::new();
    for (kind, row) in lines.iter().filter_map(|line| change(line)) {
        let key = row.split('|').next().unwrap();
        match kind.starts_with('+') {
            true => rows.insert(key, row),
            false => rows.remove(key),
        };
    }
    let mut rows: Vec<String> = rows.into_values().map(str::to_string).collect();
    rows.sort();
    rows
}

/// The files of expected rows, by table.
fn expected(directory: &Path) -> BTreeMap<String, Vec<String>> {
    let files = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    files
        .map(|file| {
            let table = file.file_stem().unwrap().to_str().unwrap().to_string();
            let text = fs::read_to_string(&file).unwrap();
            (table, text.lines().map(str::to_string).collect())
        })
        .collect()
}

/// A job of a version.
struct StoredJob {
    directory: PathBuf,
    script: String,
}

impl StoredJob {
    fn open(directory: &Path) -> Self {
        StoredJob {
            script: fs::read_to_string(directory.join("job.sql")).unwrap(),
            directory: directory.to_path_buf(),
        }
    }

    /// Version and name.
    fn name(&self) -> String {
        let parts: Vec<_> = self.directory.iter().rev().take(2).collect();
        format!("{}/{}", parts[1].display(), parts[0].display())
    }

    /// The newest of `checkpoints` or `savepoints`.
    fn snapshot(&self, kind: &str) -> String {
        let newest = directories(&self.directory.join(kind)).pop();
        newest
            .expect("a job has one of each kind")
            .display()
            .to_string()
    }

    /// Restores a snapshot somewhere else, and compares what is committed in the end.
    fn restore(&self, path: &str, options: &Options<'_>) {
        let root = tempfile::tempdir().unwrap();
        for place in ["input", "output"] {
            copy(&self.directory.join(place), &root.path().join(place));
        }
        let checkpoints = root.path().join("checkpoints").display().to_string();
        let mut all = vec![
            ("execution.state-recovery.path", path),
            ("execution.checkpointing.dir", &checkpoints),
        ];
        all.extend(options);
        let job = prepare(&self.script, root.path(), Arc::new(FilesystemFactory), &all);
        let report = job.explain_upgrade(Some(path)).unwrap();
        let is_kept = report
            .operators
            .iter()
            .all(|operator| operator.fate == Fate::Kept);
        assert!(
            is_kept,
            "state of {path} is not taken up as it is:\n{report}"
        );
        run(&job);
        let (expected, committed) = (
            expected(&self.directory.join("expected")),
            committed(&root.path().join("output")),
        );
        for (table, rows) in &expected {
            assert_eq!(
                committed.get(table),
                Some(rows),
                "{path}: table {table}, {options:?}"
            );
        }
        assert_eq!(committed.len(), expected.len(), "{path}");
    }
}

/// All jobs of all versions.
fn stored_jobs() -> Vec<StoredJob> {
    let versions = directories(&kept());
    let jobs = versions.iter().flat_map(|version| directories(version));
    jobs.map(|directory| StoredJob::open(&directory)).collect()
}

/// At other parallelisms than those that wrote it (one and two), on both backends, and with a checkpoint that builds on it.
const WAYS: [(&str, &Options<'static>); 3] = [
    ("checkpoints", &[("parallelism.default", "1")]),
    (
        "checkpoints",
        &[
            ("parallelism.default", "3"),
            ("state.backend.type", "rocksdb"),
            ("state.backend.memory", "1 mb"),
        ],
    ),
    (
        "savepoints",
        &[
            ("parallelism.default", "2"),
            ("execution.checkpointing.interval", "1 h"),
            ("execution.checkpointing.incremental", "true"),
        ],
    ),
];

#[test]
fn the_state_of_every_version_is_restored_and_comes_to_the_same_end() {
    for job in stored_jobs() {
        for (kind, options) in WAYS {
            job.restore(&job.snapshot(kind), options);
        }
    }
}

#[test]
fn the_state_of_every_version_can_be_listed_and_shown() {
    for job in stored_jobs() {
        let expected = fs::read_to_string(job.directory.join("state.txt")).unwrap();
        for kind in ["checkpoints", "savepoints"] {
            let path = job.snapshot(kind);
            let listed = listing::listed(&*open_snapshot(&path).unwrap());
            assert_eq!(listed, expected, "{} {kind}", job.name());
        }
    }
}

#[test]
fn this_version_has_its_own() {
    let written = write::write_if_asked();
    let name = written.unwrap_or_else(|| format!("v{MANIFEST_VERSION}"));
    let jobs = directories(&kept().join(&name));
    assert_eq!(
        jobs.len(),
        write::jobs().len(),
        "{name}: VOLLEY_WRITE_STATE=1 writes it"
    );
}
