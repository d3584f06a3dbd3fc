//! Jobs on real threads, through the public door: stopped and restored at another parallelism, and failing cleanly.

use std::path::Path;
use std::sync::atomic::Ordering;

use volley::environment::{ExecutionResult, PreparedJob, TableEnvironment};
use volley::runtime::JobOutcome;
use volley::{ErrorKind, Result};

const EVENTS: &str = "'connector' = 'nexmark', 'table' = 'bid', 'events.num' = '400000', 'first-event.rate' = '200000', 'next-event.rate' = '200000'";

/// Prepares the last of some statements, with options.
fn prepare(statements: &[String], options: &[(&str, String)]) -> Result<PreparedJob> {
    let mut environment = TableEnvironment::default();
    for (key, value) in options {
        environment.set(key, value)?;
    }
    for statement in statements {
        if let ExecutionResult::Job(job) = environment.execute(statement)? {
            return Ok(job);
        }
    }
    panic!("the last statement is a job");
}

fn window_job(output: &Path, rate_limited: bool) -> Vec<String> {
    let watermark =
        "`dateTime` TIMESTAMP(3), WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '0.1' SECOND";
    vec![
        format!("CREATE TABLE bids (auction BIGINT, price BIGINT, {watermark}) WITH ({EVENTS}, 'rate.limited' = '{rate_limited}', 'splits' = '2')"),
        format!(
            "CREATE TABLE sink (s TIMESTAMP(3), auction BIGINT, n BIGINT, total BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json')",
            output.display()
        ),
        "INSERT INTO sink SELECT window_start, auction, COUNT(*), SUM(price) FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(`dateTime`), \
         INTERVAL '0.05' SECOND)) GROUP BY window_start, window_end, auction"
            .to_string(),
    ]
}

/// The lines of all visible files of a directory, sorted.
fn lines(directory: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let Ok(entries) = std::fs::read_dir(directory) else {
        return lines;
    };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if !path.file_name().unwrap().to_str().unwrap().starts_with('.') {
            lines.extend(
                std::fs::read_to_string(path)
                    .unwrap()
                    .lines()
                    .map(str::to_string),
            );
        }
    }
    lines.sort();
    lines
}

/// A cancelled job leaves its checkpoints.
fn retained() -> (&'static str, String) {
    (
        "execution.checkpointing.externalized-checkpoint-retention",
        "RETAIN_ON_CANCELLATION".to_string(),
    )
}

#[test]
fn a_job_stopped_between_checkpoints_goes_on_at_another_parallelism_and_writes_each_row_once() {
    let directory = tempfile::tempdir().unwrap();
    let (expected, output, checkpoints) = (
        directory.path().join("expected"),
        directory.path().join("output"),
        directory.path().join("checkpoints"),
    );
    prepare(&window_job(&expected, false), &[])
        .unwrap()
        .deploy(None)
        .unwrap()
        .run(&mut |_, _| {})
        .unwrap();

    let options = |parallelism: usize| {
        vec![
            ("parallelism.default", parallelism.to_string()),
            ("execution.checkpointing.interval", "60 ms".to_string()),
            retained(),
            (
                "execution.checkpointing.dir",
                checkpoints.display().to_string(),
            ),
        ]
    };
    for parallelism in [2, 3] {
        let mut options = options(parallelism);
        if parallelism == 3 {
            options.push((
                "execution.state-recovery.path",
                checkpoints.display().to_string(),
            ));
        }
        let job = prepare(&window_job(&output, true), &options)
            .unwrap()
            .deploy(None)
            .unwrap();
        let cancel = job.cancel_flag();
        let outcome = job
            .run(&mut |_, progress| cancel.store(progress.checkpoints >= 2, Ordering::SeqCst))
            .unwrap();
        assert_eq!(outcome, JobOutcome::Cancelled);
        assert!(
            lines(&output).len() < lines(&expected).len(),
            "it was stopped before the end"
        );
    }
    let mut last = options(1);
    last.push((
        "execution.state-recovery.path",
        checkpoints.display().to_string(),
    ));
    let outcome = prepare(&window_job(&output, true), &last)
        .unwrap()
        .deploy(None)
        .unwrap()
        .run(&mut |_, _| {})
        .unwrap();
    assert_eq!(outcome, JobOutcome::Finished);
    assert!(!lines(&expected).is_empty());
    assert_eq!(lines(&output), lines(&expected));

    // The last checkpoint is the end: whoever restores it reads nothing again.
    prepare(&window_job(&output, true), &last)
        .unwrap()
        .deploy(None)
        .unwrap()
        .run(&mut |_, _| {})
        .unwrap();
    assert_eq!(lines(&output), lines(&expected));
}

#[test]
fn a_checkpoint_of_another_job_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (output, checkpoints) = (
        directory.path().join("output"),
        directory.path().join("checkpoints"),
    );
    let options = vec![
        ("execution.checkpointing.interval", "20 ms".to_string()),
        retained(),
        (
            "execution.checkpointing.dir",
            checkpoints.display().to_string(),
        ),
    ];
    let job = prepare(&window_job(&output, true), &options)
        .unwrap()
        .deploy(None)
        .unwrap();
    let cancel = job.cancel_flag();
    job.run(&mut |_, progress| cancel.store(progress.checkpoints >= 1, Ordering::SeqCst))
        .unwrap();
    let other = vec![
        format!("CREATE TABLE bids (price BIGINT) WITH ({EVENTS})"),
        "CREATE TABLE sink (price BIGINT) WITH ('connector' = 'blackhole')".to_string(),
        "INSERT INTO sink SELECT price FROM bids".to_string(),
    ];
    let options = vec![(
        "execution.state-recovery.path",
        checkpoints.display().to_string(),
    )];
    let error = prepare(&other, &options)
        .unwrap()
        .deploy(None)
        .err()
        .expect("refused");
    assert_eq!(error.kind(), ErrorKind::User);
    assert!(error.to_string().contains("cannot take up"), "{error}");
}

#[test]
fn a_row_that_fails_stops_all_threads_and_leaves_nothing_visible() {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("output");
    let statements = vec![
        format!("CREATE TABLE bids (auction BIGINT, price BIGINT) WITH ({EVENTS}, 'splits' = '2')"),
        format!(
            "CREATE TABLE sink (x BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json')",
            output.display()
        ),
        "INSERT INTO sink SELECT price / (auction - 2000) FROM bids".to_string(),
    ];
    let options = vec![("parallelism.default", "2".to_string())];
    let error = prepare(&statements, &options)
        .unwrap()
        .deploy(None)
        .unwrap()
        .run(&mut |_, _| {})
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    assert!(
        error.to_string().contains("division by zero")
            && error.to_string().contains("auction = 2000"),
        "{error}"
    );
    assert!(lines(&output).is_empty());
}

/// Writes `files` JSON files, each with a row a second from its own start, and counts rows and late rows of 10-second windows.
fn count_over_files(files: usize, start_of: impl Fn(usize) -> usize) -> (u64, u64) {
    let directory = tempfile::tempdir().unwrap();
    let input = directory.path().join("input");
    std::fs::create_dir(&input).unwrap();
    for file in 0..files {
        let time = |second: usize| {
            format!(
                "2024-01-01 {:02}:{:02}:{:02}",
                second / 3600,
                second / 60 % 60,
                second % 60
            )
        };
        let rows: Vec<String> = (0..60)
            .map(|row| format!("{{\"ts\":\"{}\"}}\n", time(start_of(file) + row)))
            .collect();
        std::fs::write(input.join(format!("{file:03}.json")), rows.concat()).unwrap();
    }
    let output = directory.path().join("output");
    let statements = vec![
        format!("CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json')", input.display()),
        format!("CREATE TABLE s (n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'csv')", output.display()),
        "INSERT INTO s SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end".to_string(),
    ];
    let mut late = 0;
    let options = vec![("volley.batch.rows", "7".to_string())];
    prepare(&statements, &options)
        .unwrap()
        .deploy(None)
        .unwrap()
        .run(&mut |_, progress| late = progress.late_rows)
        .unwrap();
    (
        lines(&output)
            .iter()
            .map(|line| line.parse::<u64>().unwrap())
            .sum(),
        late,
    )
}

#[test]
fn files_of_the_same_time_are_read_side_by_side_and_none_of_their_rows_is_late() {
    assert_eq!(count_over_files(3, |_| 0), (180, 0));
    assert_eq!(
        count_over_files(70, |_| 0),
        (4200, 0),
        "more files than stay open"
    );
}

#[test]
fn files_of_different_times_are_read_in_the_order_of_their_times() {
    assert_eq!(count_over_files(5, |file| (4 - file) * 60), (300, 0));
}

/// Runs a query over JSON files of rows with ROW columns and gives the lines that it writes.
fn over_rows(columns: &str, query: &str) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("output");
    let rows = [
        r#"{"k":"a","r":{"a":1,"b":"b1","c":{"x":10,"y":"y1"},"at":"2026-01-01 00:00:01"}}"#,
        r#"{"r":{"more":[{}],"at":"2026-01-01 00:00:02","c":{"y":"y2","x":20},"b":"b2","a":2},"k":"b"}"#,
        r#"{"k":"c","r":null}"#,
        r#"{"k":"d","r":{"a":4,"c":null}}"#,
        r#"{"k":"e","r":{"b":"\u0062\n5"}}"#,
    ];
    std::fs::write(directory.path().join("in.json"), rows.join("\n")).unwrap();
    let table = |name: &str, columns: &str, path: &Path| {
        let path = path.display();
        format!(
            "CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json')"
        )
    };
    let statements = [
        table(
            "t",
            "k STRING, r ROW<a BIGINT, b STRING, c ROW<x BIGINT, y STRING>, at TIMESTAMP(3)>, x AS r.c.x",
            &directory.path().join("in.json"),
        ),
        table("s", columns, &output),
        format!("INSERT INTO s {query}"),
    ];
    let job = prepare(&statements, &[]).unwrap().deploy(None).unwrap();
    assert_eq!(job.run(&mut |_, _| {}).unwrap(), JobOutcome::Finished);
    lines(&output)
}

#[test]
fn fields_are_the_same_whether_their_row_is_read_whole_or_not() {
    let narrow = over_rows("k STRING, b STRING, x BIGINT", "SELECT k, r.b, x FROM t");
    assert_eq!(
        narrow,
        [
            r#"{"k":"a","b":"b1","x":10}"#,
            r#"{"k":"b","b":"b2","x":20}"#,
            r#"{"k":"c","b":null,"x":null}"#,
            r#"{"k":"d","b":null,"x":null}"#,
            r#"{"k":"e","b":"b\n5","x":null}"#,
        ]
    );
    let whole = "SELECT k, r.b, x FROM t WHERE r IS NULL OR r IS NOT NULL";
    assert_eq!(over_rows("k STRING, b STRING, x BIGINT", whole), narrow);
    assert_eq!(
        over_rows(
            "k STRING, at TIMESTAMP(3)",
            "SELECT k, r.at FROM t WHERE r.a < 2 UNION ALL SELECT r.c.y, r.at FROM t WHERE r.c.x > 10"
        ),
        [
            r#"{"k":"a","at":"2026-01-01 00:00:01"}"#,
            r#"{"k":"y2","at":"2026-01-01 00:00:02"}"#,
        ]
    );
}
