//! Jobs that fail, start again, are stopped with savepoints and go on: each row once, whatever happens.

mod flaky;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use volley::connectors::standard_registry;
use volley::environment::{ExecutionResult, PreparedJob, TableEnvironment};
use volley::runtime::{JobControl, JobEvent, JobOutcome, JobState, Supervisor};
use volley::{Error, ErrorKind, Result};

use flaky::{SharedStage, Trouble};

/// Running sums of numbers by their remainder, so that state and order matter.
const SUMS: &str = "INSERT INTO s SELECT n, SUM(n) OVER (PARTITION BY MOD(n, 3) ORDER BY p ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) FROM t";

/// Counts of ten numbers each, where number n has second n.
const WINDOWS: &str = "INSERT INTO s SELECT CAST(EXTRACT(EPOCH FROM window_start) AS BIGINT), COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end";

fn prepare(stage: &SharedStage, query: &str, options: &[(&str, &str)]) -> Result<PreparedJob> {
    let mut registry = standard_registry();
    registry.register(Arc::new(stage.clone()));
    let mut environment = TableEnvironment::new(registry);
    for (key, value) in options {
        environment.set(key, value)?;
    }
    let tables = [
        "CREATE TABLE t (n BIGINT, p AS PROCTIME(), ts AS TO_TIMESTAMP_LTZ(n * 1000, 3), WATERMARK FOR ts AS ts) WITH ('connector' = 'flaky')",
        "CREATE TABLE s (a BIGINT, b BIGINT) WITH ('connector' = 'flaky')",
    ];
    for table in tables {
        environment.execute(table)?;
    }
    match environment.execute(query)? {
        ExecutionResult::Job(job) => Ok(job),
        _ => Err(Error::user("no job")),
    }
}

/// Checkpoints every few milliseconds, quick restarts.
fn options(directory: &Path) -> Vec<(&'static str, String)> {
    vec![
        ("execution.checkpointing.interval", "5 ms".to_string()),
        (
            "execution.checkpointing.externalized-checkpoint-retention",
            "RETAIN_ON_CANCELLATION".to_string(),
        ),
        (
            "execution.checkpointing.dir",
            path(directory, "checkpoints"),
        ),
        (
            "execution.checkpointing.savepoint-dir",
            path(directory, "savepoints"),
        ),
        ("restart-strategy.type", "fixed-delay".to_string()),
        ("restart-strategy.fixed-delay.attempts", "20".to_string()),
        ("restart-strategy.fixed-delay.delay", "1 ms".to_string()),
    ]
}

fn path(directory: &Path, name: &str) -> String {
    directory.join(name).display().to_string()
}

fn deploy(
    stage: &SharedStage,
    query: &str,
    options: &[(&'static str, String)],
) -> Result<Supervisor> {
    let options: Vec<(&str, &str)> = options
        .iter()
        .map(|(key, value)| (*key, value.as_str()))
        .collect();
    prepare(stage, query, &options)?.deploy(None)
}

/// What [`SUMS`] gives of the first `numbers`.
fn sums(numbers: i64) -> Vec<Vec<i64>> {
    let sum = |n: i64| (0..=n).filter(|other| other % 3 == n % 3).sum();
    (0..numbers).map(|n| vec![n, sum(n)]).collect()
}

type Events = Arc<Mutex<Vec<JobEvent>>>;

fn listen(job: Supervisor) -> (Supervisor, Events) {
    let events = Events::default();
    let seen = events.clone();
    let job = job.on_event(move |event| seen.lock().unwrap().push(event.clone()));
    (job, events)
}

/// Runs a job on this thread while another one does something with it as soon as `when` holds.
fn run_while<T: Send>(
    job: Supervisor,
    when: impl Fn() -> bool + Send,
    act: impl FnOnce(JobControl) -> T + Send,
) -> (Result<JobOutcome>, T) {
    let control = job.control();
    std::thread::scope(|scope| {
        let other = scope.spawn(move || {
            patiently(when);
            act(control)
        });
        let outcome = job.run(&mut |_, _| {});
        (outcome, other.join().unwrap())
    })
}

#[test]
fn a_job_that_fails_starts_again_and_writes_each_row_once() {
    let directory = tempfile::tempdir().unwrap();
    let troubles = [
        Trouble::Read(3),
        Trouble::Read(300),
        Trouble::Write(700),
        Trouble::Panic(1201),
        Trouble::Commit(2),
    ];
    let stage = SharedStage::new(2000, true, &troubles);
    let job = deploy(&stage, SUMS, &options(directory.path())).unwrap();
    let (job, events) = listen(job);
    let status = job.status();
    let mut restarts = 0;
    let outcome = job.run(&mut |metrics, _| restarts = metrics.recovery()["numRestarts"]);
    assert_eq!(outcome.unwrap(), JobOutcome::Finished);
    assert_eq!(stage.committed(), sums(2000));
    assert_eq!(stage.troubles(), 0);
    assert_eq!(status.overview().state, JobState::Finished);
    let events = events.lock().unwrap();
    let failures: Vec<String> = events
        .iter()
        .filter_map(|event| match event {
            JobEvent::Failed { error, .. } => Some(error.to_string()),
            _ => None,
        })
        .collect();
    // A commit that fails is tried again with the next checkpoint; only that of the last one, which none follows, has the job start again.
    assert!(matches!(failures.len(), 4 | 5), "{failures:?}");
    // As the metrics were shown last: the last restart may have come behind that.
    assert!(
        (4..=failures.len() as u64).contains(&restarts),
        "{restarts} restarts"
    );
    assert!(
        failures
            .iter()
            .any(|error| error.contains("a task panicked: a panic on purpose"))
    );
    assert!(failures[0].contains("Read(3)"), "{failures:?}");
    let last = events.last().unwrap().to_string();
    let restart = format!(
        "restart {}: the job goes on from checkpoint ",
        failures.len()
    );
    assert!(last.starts_with(&restart), "{last}");
}

/// Rows pile up before the slow sinks; barriers overtake them, and every failure finds some in the checkpoint.
#[test]
fn rows_that_barriers_have_overtaken_count_once_on_threads_too() {
    let directory = tempfile::tempdir().unwrap();
    let troubles = [
        Trouble::Read(400),
        Trouble::Read(900),
        Trouble::Write(600),
        Trouble::Panic(1801),
    ];
    let stage = SharedStage::new(2000, true, &troubles).slow_down(Duration::from_micros(300));
    let mut options = options(directory.path());
    options.extend(
        [
            ("execution.checkpointing.unaligned.enabled", "true"),
            ("execution.checkpointing.num-retained", "3"),
            ("parallelism.default", "3"),
            ("volley.batch.rows", "7"),
        ]
        .map(|(key, value)| (key, value.to_string())),
    );
    let job = deploy(&stage, SUMS, &options).unwrap();
    let found = AtomicBool::new(false);
    let look = || {
        found.fetch_or(holds_channels(directory.path()), Ordering::SeqCst);
        found.load(Ordering::SeqCst)
    };
    let (outcome, ()) = run_while(job, look, |_| {});
    assert_eq!(outcome.unwrap(), JobOutcome::Finished);
    let found = found.load(Ordering::SeqCst);
    assert!(found, "no checkpoint holds rows on their way");
    assert_eq!(stage.committed(), sums(2000));
    assert_eq!(stage.troubles(), 0);
}

/// Whether some checkpoint holds rows that were on their way.
fn holds_channels(directory: &Path) -> bool {
    let manifests = directory.join("checkpoints");
    let manifests = std::fs::read_dir(manifests).into_iter().flatten().flatten();
    manifests.into_iter().any(|entry| {
        let text = std::fs::read_to_string(entry.path().join("manifest.json"));
        text.is_ok_and(|text| text.contains("$channels"))
    })
}

#[test]
fn a_job_that_fails_too_often_ends_with_the_last_error() {
    let directory = tempfile::tempdir().unwrap();
    let stage = SharedStage::new(500, true, &[Trouble::Read(100), Trouble::Read(200)]);
    let mut options = options(directory.path());
    options.push(("restart-strategy.fixed-delay.attempts", "1".to_string()));
    let job = deploy(&stage, SUMS, &options).unwrap();
    let status = job.status();
    let error = job.run(&mut |_, _| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::External);
    let text = error.to_string();
    assert!(
        text.contains("Read(200)") && text.contains("after 1 restart;"),
        "{text}"
    );
    assert_eq!(status.overview().state, JobState::Failed);
}

#[test]
fn without_checkpoints_the_first_failure_is_the_last_unless_a_strategy_is_named() {
    let stage = SharedStage::new(500, true, &[Trouble::Read(100)]);
    let error = deploy(&stage, SUMS, &[]).unwrap().run(&mut |_, _| {});
    assert!(!error.unwrap_err().to_string().contains("restart"));
    assert!(stage.committed().is_empty());

    let stage = SharedStage::new(500, true, &[Trouble::Read(100)]);
    let options = [
        ("restart-strategy.type", "fixed-delay".to_string()),
        ("restart-strategy.fixed-delay.delay", "0 ms".to_string()),
    ];
    let job = deploy(&stage, SUMS, &options).unwrap();
    assert_eq!(job.run(&mut |_, _| {}).unwrap(), JobOutcome::Finished);
    assert_eq!(
        stage.committed(),
        sums(500),
        "read again from the beginning"
    );
}

#[test]
fn what_a_failed_last_commit_has_left_undone_is_committed_from_the_last_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path());
    options[0].1 = "1 h".to_string();
    let stage = SharedStage::new(500, true, &[Trouble::Commit(1)]);
    let job = deploy(&stage, SUMS, &options).unwrap();
    assert_eq!(job.run(&mut |_, _| {}).unwrap(), JobOutcome::Finished);
    assert_eq!(stage.committed(), sums(500));
}

#[test]
fn a_job_that_waits_for_its_restart_can_be_cancelled_and_says_that_it_waits() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path());
    options.push(("restart-strategy.fixed-delay.delay", "1 h".to_string()));
    let stage = SharedStage::new(500, true, &[Trouble::Read(100)]);
    let job = deploy(&stage, SUMS, &options).unwrap();
    let status = job.status();
    let when = || status.overview().state == JobState::Restarting;
    let start = Instant::now();
    let (outcome, refused) = run_while(job, when, |control| {
        let refused = control.stop(None, false).unwrap_err();
        control.cancel();
        refused
    });
    assert_eq!(outcome.unwrap(), JobOutcome::Cancelled);
    assert!(
        refused.to_string().contains("about to start again"),
        "{refused}"
    );
    assert!(start.elapsed() < Duration::from_secs(15));
}

/// Runs a SELECT whose source fails once and gives the numbers shown, with how the job ended.
fn select(options: &[(&str, &str)]) -> (Vec<i64>, Result<JobOutcome>) {
    let stage = SharedStage::new(1000, true, &[Trouble::Read(600)]);
    let shown: Arc<Mutex<Vec<i64>>> = Arc::default();
    let seen = shown.clone();
    let collector = move |batch: &volley::stream::ChangelogBatch| {
        let column = batch.rows.column(0).as_any();
        let numbers = column.downcast_ref::<arrow::array::Int64Array>().unwrap();
        seen.lock().unwrap().extend(numbers.values());
        Ok(())
    };
    let job = prepare(&stage, "SELECT n FROM t", options).unwrap();
    let outcome = job
        .deploy(Some(Arc::new(collector)))
        .unwrap()
        .run(&mut |_, _| {});
    let shown = shown.lock().unwrap().clone();
    (shown, outcome)
}

#[test]
fn a_select_shows_each_row_once_over_restarts() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let options: Vec<(&str, &str)> = options
        .iter()
        .map(|(key, value)| (*key, value.as_str()))
        .collect();
    let (shown, outcome) = select(&options);
    assert_eq!(outcome.unwrap(), JobOutcome::Finished);
    assert_eq!(shown, (0..1000).collect::<Vec<i64>>());

    // Without checkpoints rows are shown at once, so that a failure is final.
    let (shown, outcome) = select(&[("restart-strategy.type", "fixed-delay")]);
    assert!(outcome.unwrap_err().to_string().contains("Read(600)"));
    assert_eq!(shown, (0..600).collect::<Vec<i64>>());
}

fn windows(counts: &[i64]) -> Vec<Vec<i64>> {
    let window = |(index, count): (usize, &i64)| vec![index as i64 * 10, *count];
    counts.iter().enumerate().map(window).collect()
}

/// Stops a job that has counted 25 numbers and gives the savepoint.
fn stop_windows(stage: &SharedStage, options: &[(&'static str, String)], drain: bool) -> String {
    let job = deploy(stage, WINDOWS, options).unwrap();
    let (outcome, savepoint) = {
        let committed = stage.clone();
        run_while(
            job,
            move || committed.committed().len() >= 2,
            move |control| control.stop(None, drain),
        )
    };
    assert_eq!(outcome.unwrap(), JobOutcome::Stopped);
    savepoint.unwrap()
}

#[test]
fn a_stopped_job_goes_on_from_its_savepoint_and_no_window_fires_early() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path());
    options.push(("parallelism.default", "2".to_string()));
    let stage = SharedStage::new(25, false, &[]);
    let savepoint = stop_windows(&stage, &options, false);
    assert!(
        savepoint.starts_with(&path(directory.path(), "savepoints")),
        "{savepoint}"
    );
    assert_eq!(
        stage.committed(),
        windows(&[10, 10]),
        "the third window is open"
    );

    stage.end_at(40);
    options.push(("execution.savepoint.path", savepoint));
    let job = deploy(&stage, WINDOWS, &options).unwrap();
    assert_eq!(job.run(&mut |_, _| {}).unwrap(), JobOutcome::Finished);
    assert_eq!(stage.committed(), windows(&[10, 10, 10, 10]));
}

#[test]
fn a_savepoint_is_deleted_by_the_job_that_claims_it_and_by_no_other() {
    for (mode, stays) in [("NO_CLAIM", true), ("CLAIM", false)] {
        let directory = tempfile::tempdir().unwrap();
        let mut options = options(directory.path());
        options.push(("parallelism.default", "2".to_string()));
        let stage = SharedStage::new(25, false, &[]);
        let savepoint = stop_windows(&stage, &options, false);
        stage.end_at(40);
        let taken_over = Path::new(&savepoint).to_path_buf();
        options.push(("execution.state-recovery.path", savepoint));
        options.push(("execution.state-recovery.claim-mode", mode.to_string()));
        let job = deploy(&stage, WINDOWS, &options).unwrap();
        assert_eq!(job.run(&mut |_, _| {}).unwrap(), JobOutcome::Finished);
        assert_eq!(stage.committed(), windows(&[10, 10, 10, 10]));
        assert_eq!(taken_over.exists(), stays, "{mode}");
    }
}

#[test]
fn a_drained_job_fires_its_windows_and_commits_them() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path());
    options.push(("parallelism.default", "2".to_string()));
    let stage = SharedStage::new(25, false, &[]);
    stop_windows(&stage, &options, true);
    assert_eq!(stage.committed(), windows(&[10, 10, 5]));
}

#[test]
fn a_job_without_checkpoints_can_be_stopped_too() {
    let directory = tempfile::tempdir().unwrap();
    let savepoints = path(directory.path(), "s");
    let stage = SharedStage::new(100, false, &[]);
    let job = deploy(&stage, SUMS, &[]).unwrap();
    let (outcome, (refused, stopped)) = run_while(
        job,
        || true,
        |control| {
            std::thread::sleep(Duration::from_millis(300));
            (
                control.stop(None, false),
                control.stop(Some(savepoints), false),
            )
        },
    );
    let refused = refused.unwrap_err().to_string();
    assert!(
        refused.contains("execution.checkpointing.savepoint-dir"),
        "{refused}"
    );
    assert_eq!(outcome.unwrap(), JobOutcome::Stopped);
    assert_eq!(
        stage.committed(),
        sums(100),
        "what came before the savepoint is committed"
    );
    stage.end_at(150);
    let job = deploy(
        &stage,
        SUMS,
        &[("execution.state-recovery.path", stopped.unwrap())],
    );
    job.unwrap().run(&mut |_, _| {}).unwrap();
    assert_eq!(stage.committed(), sums(150));
}

#[test]
fn a_job_whose_savepoint_cannot_be_written_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "in the way").unwrap();
    let stage = SharedStage::new(100, false, &[]);
    let job = deploy(&stage, SUMS, &options(directory.path())).unwrap();
    let target = file.display().to_string();
    let (outcome, (error, savepoint)) = run_while(
        job,
        || true,
        |control| {
            let error = control.stop(Some(target), false).unwrap_err();
            let savepoint = control.savepoint(None).unwrap();
            stage.end_at(300);
            (error, savepoint)
        },
    );
    assert!(
        error.to_string().contains("while writing the savepoint"),
        "{error}"
    );
    assert!(Path::new(&savepoint).is_dir());
    assert_eq!(outcome.unwrap(), JobOutcome::Finished);
    assert_eq!(stage.committed(), sums(300));
}

/// Runs a job until some checkpoints are complete, then cancels it.
fn run_some(
    stage: &SharedStage,
    options: &[(&'static str, String)],
    resume: bool,
) -> Vec<JobEvent> {
    run_beyond(stage, options, resume, 0)
}

/// The same until more rows than these are committed, too.
fn run_beyond(
    stage: &SharedStage,
    options: &[(&'static str, String)],
    resume: bool,
    committed: usize,
) -> Vec<JobEvent> {
    let texts: Vec<(&str, &str)> = options
        .iter()
        .map(|(key, value)| (*key, value.as_str()))
        .collect();
    let job = prepare(stage, SUMS, &texts).unwrap();
    let job = if resume {
        job.resume(None)
    } else {
        job.deploy(None)
    };
    let (job, events) = listen(job.unwrap());
    let cancel = job.cancel_flag();
    let is_enough = |checkpoints| checkpoints >= 4 && stage.committed().len() > committed;
    job.run(&mut |_, progress| cancel.store(is_enough(progress.checkpoints), Ordering::SeqCst))
        .unwrap();
    let events = events.lock().unwrap();
    events.clone()
}

/// The numbers of the complete checkpoints in a directory.
fn checkpoints(directory: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(directory.join("checkpoints")).unwrap();
    let complete = entries.map(|entry| entry.unwrap().path());
    let complete = complete.filter(|path| path.join("manifest.json").exists());
    let number = |path: std::path::PathBuf| {
        path.file_name()?
            .to_str()?
            .strip_prefix("chk-")?
            .parse()
            .ok()
    };
    let mut numbers: Vec<u64> = complete.filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_new_run_over_old_checkpoints_counts_on_and_leaves_them_alone_and_resume_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path());
    options.push(("execution.checkpointing.num-retained", "2".to_string()));
    let (first, second) = (
        SharedStage::new(1_000_000, true, &[]),
        SharedStage::new(1_000_000, true, &[]),
    );
    run_some(&first, &options, false);
    let before = checkpoints(directory.path());
    assert_eq!(before.len(), 2);
    let events = run_some(&second, &options, false);
    let text = events[0].to_string();
    assert!(
        text.contains("starts from the beginning; checkpoints go to"),
        "{text}"
    );
    assert!(
        text.contains("2 checkpoints of an earlier run are there and left alone"),
        "{text}"
    );
    let after = checkpoints(directory.path());
    assert_eq!(after[..2], before);
    assert!(after.len() == 4 && after[2] > before[1], "{after:?}");

    let events = run_some(&second, &options, true);
    let text = events[0].to_string();
    assert!(
        text.contains(&format!("starts from checkpoint {} (", after[3])),
        "{text}"
    );
    let numbers = second.committed().len() as i64;
    assert_eq!(second.committed(), sums(numbers), "each row once");
    assert_eq!(
        checkpoints(directory.path()).len(),
        2,
        "a resumed job owns its directory"
    );
}

/// Cuts the last byte off the largest file of a checkpoint whose name begins so, and gives the file.
fn truncate(directory: &Path, checkpoint: u64, name: &str) -> std::path::PathBuf {
    let entries = std::fs::read_dir(directory.join(format!("checkpoints/chk-{checkpoint}")));
    let files = entries.unwrap().map(|entry| entry.unwrap().path());
    let named = |path: &std::path::PathBuf| {
        let file_name = path.file_name().unwrap().to_string_lossy();
        file_name.starts_with(name)
    };
    let largest = files
        .filter(named)
        .max_by_key(|path| path.metadata().unwrap().len());
    let largest = largest.unwrap();
    let length = largest.metadata().unwrap().len();
    let file = std::fs::File::options().write(true).open(&largest).unwrap();
    file.set_len(length - 1).unwrap();
    largest
}

/// Where a job lay that has been stopped, its options, and its input and output.
fn stopped_with_two_checkpoints() -> (tempfile::TempDir, Vec<(&'static str, String)>, SharedStage) {
    let directory = tempfile::tempdir().unwrap();
    let mut options = options(directory.path());
    options.push(("execution.checkpointing.num-retained", "2".to_string()));
    let stage = SharedStage::new(1_000_000, true, &[]);
    run_some(&stage, &options, false);
    (directory, options, stage)
}

#[test]
fn a_damaged_checkpoint_is_reported_and_the_one_before_it_used_and_each_row_is_written_once() {
    for (named_by_hand, file) in [(false, "data"), (false, "manifest"), (true, "data")] {
        let (directory, mut options, stage) = stopped_with_two_checkpoints();
        let complete = checkpoints(directory.path());
        let committed = stage.committed().len();
        let damaged = truncate(directory.path(), complete[1], file);
        if named_by_hand {
            options.push((
                "execution.state-recovery.path",
                path(directory.path(), "checkpoints"),
            ));
        }
        let events = run_beyond(&stage, &options, !named_by_hand, committed);
        let unreadable = events[0].to_string();
        assert!(
            unreadable.contains(&format!("checkpoint {} cannot be restored", complete[1]))
                && unreadable.contains(damaged.to_str().unwrap()),
            "{unreadable}"
        );
        // Of a damaged manifest nobody can tell whether it names everything, but what it still names is taken back.
        let is_unsure = unreadable.contains("come a second time");
        assert_eq!(is_unsure, file == "manifest", "{unreadable}");
        assert!(unreadable.contains("is taken back"), "{unreadable}");
        assert!(
            !unreadable.contains("cannot be read, either"),
            "{unreadable}"
        );
        let started = events[1].to_string();
        assert!(
            started.contains(&format!("checkpoint {} (", complete[0])),
            "{started}"
        );
        assert!(!started.contains("manifest.json"), "told before: {started}");
        let numbers = stage.committed().len();
        assert!(numbers > committed, "the job went on");
        assert_eq!(stage.committed(), sums(numbers as i64));
    }
}

#[test]
fn a_checkpoint_that_has_lost_its_manifest_is_told_with_what_may_follow() {
    for (named_by_hand, is_directory) in [(false, false), (true, false), (false, true)] {
        let (directory, mut options, stage) = stopped_with_two_checkpoints();
        let complete = checkpoints(directory.path());
        let committed = stage.committed().len();
        let lost = format!("checkpoints/chk-{}/manifest.json", complete[1]);
        let lost = directory.path().join(lost);
        std::fs::remove_file(&lost).unwrap();
        if is_directory {
            std::fs::create_dir(&lost).unwrap();
        }
        if named_by_hand {
            options.push((
                "execution.state-recovery.path",
                path(directory.path(), "checkpoints"),
            ));
        }
        let events = run_beyond(&stage, &options, !named_by_hand, committed);
        let texts: Vec<String> = events.iter().map(JobEvent::to_string).collect();
        let from = format!("checkpoint {} (", complete[0]);
        assert!(
            texts[usize::from(is_directory)].contains(&from),
            "{texts:?}"
        );
        let told = match is_directory {
            true => format!("{} is damaged: it is a directory", lost.display()),
            false => format!("chk-{} is there without its manifest.json", complete[1]),
        };
        assert!(texts[0].contains(&told), "{texts:?}");
        assert!(texts[0].contains("come a second time"), "{texts:?}");
        let again = |texts: &[String]| texts.iter().any(|text| text.contains("manifest.json"));
        assert!(!again(&texts[1..]), "{texts:?}");
    }
}

#[test]
fn a_job_that_is_being_restored_is_there_and_can_be_cancelled() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path());
    let stage = SharedStage::new(1_000_000, true, &[]);
    run_some(&stage, &options, false);
    let texts: Vec<(&str, &str)> = options
        .iter()
        .map(|(key, value)| (*key, value.as_str()))
        .collect();
    let job = prepare(&stage, SUMS, &texts).unwrap();
    let starting = job.start_resumed(None).unwrap();
    let (control, status) = (starting.control(), starting.status());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    let starting = starting.on_event(move |event| {
        // Told before any state is read.
        let refused = control.savepoint(None).unwrap_err().to_string();
        assert!(refused.contains("still being restored"), "{refused}");
        let refused = control.stop(None, false).unwrap_err().to_string();
        assert!(refused.contains("still being restored"), "{refused}");
        control.cancel();
        told.lock()
            .unwrap()
            .push((event.to_string(), status.overview().state));
    });
    let error = starting.deploy().err().unwrap().to_string();
    assert!(
        error.contains("cancelled while it was being restored"),
        "{error}"
    );
    let seen = seen.lock().unwrap();
    let (text, state) = &seen[0];
    assert!(text.contains("starts from checkpoint"), "{text}");
    assert_eq!(*state, JobState::Initializing);
    drop(seen);
    let starting = job.start_resumed(None).unwrap();
    let job = starting.deploy().unwrap();
    assert_eq!(job.status().overview().state, JobState::Running);
}

#[test]
fn a_checkpoint_is_deleted_by_the_job_that_claims_it_and_by_no_other() {
    for (mode, is_kept) in [("NO_CLAIM", true), ("CLAIM", false)] {
        let directory = tempfile::tempdir().unwrap();
        let stage = SharedStage::new(1_000_000, true, &[]);
        run_some(&stage, &options(directory.path()), false);
        let number = checkpoints(directory.path())[0];
        let claimed = directory.path().join(format!("checkpoints/chk-{number}"));
        let mut options = options(directory.path());
        options[2].1 = path(directory.path(), "others");
        options.push((
            "execution.state-recovery.path",
            path(directory.path(), "checkpoints"),
        ));
        options.push(("execution.state-recovery.claim-mode", mode.to_string()));
        run_some(&stage, &options, false);
        assert_eq!(claimed.exists(), is_kept, "{mode}");
        assert_eq!(stage.committed(), sums(stage.committed().len() as i64));
    }
}

#[test]
fn state_that_no_operator_takes_up_is_refused_unless_it_may_be_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let stage = SharedStage::new(1_000_000, true, &[]);
    run_some(&stage, &options(directory.path()), false);
    let plain = "INSERT INTO s SELECT n, n FROM t WHERE n >= 0";
    let mut options = options(directory.path());
    options.push((
        "execution.state-recovery.path",
        path(directory.path(), "checkpoints"),
    ));
    let refused = deploy(&stage, plain, &options).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::User);
    assert!(refused.to_string().contains("cannot take up"), "{refused}");
    options.push((
        "execution.state-recovery.ignore-unclaimed-state",
        "true".to_string(),
    ));
    let (job, events) = listen(deploy(&stage, plain, &options).unwrap());
    job.cancel_flag().store(true, Ordering::SeqCst);
    job.run(&mut |_, _| {}).unwrap();
    let started = events.lock().unwrap()[0].to_string();
    assert!(started.contains("dropped "), "{started}");
}

#[test]
fn of_two_runs_in_one_directory_the_later_one_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let earlier = SharedStage::new(100, false, &[]);
    // Its state is another one.
    let later = SharedStage::new(100, false, &[]);
    let start =
        |stage: &SharedStage| deploy(stage, SUMS, &options(directory.path()))?.run(&mut |_, _| {});
    let (failed, ended) = std::thread::scope(|scope| {
        let earlier_run = scope.spawn(|| start(&earlier));
        patiently(|| !earlier.committed().is_empty());
        let later_run = scope.spawn(|| start(&later));
        let failed = earlier_run.join().unwrap();
        later.end_at(300);
        (failed, later_run.join().unwrap())
    });
    let error = failed.unwrap_err().to_string();
    assert!(error.contains("another run, of the job"), "{error}");
    let committed = earlier.committed();
    assert_eq!(committed, sums(committed.len() as i64));
    ended.unwrap();
    assert_eq!(later.committed(), sums(300));
}

/// Waits until something holds, twenty seconds at most.
fn patiently(holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(2));
    }
}
