//! INSERT INTO tables of files and SELECT back, through the public door: local and in an object store, in every format, at other
//! parallelisms, and stopped between checkpoints.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use arrow::util::display::array_value_to_string;
use volley::Result;
use volley::blobs::open_blobs;
use volley::connectors::collect::Collector;
use volley::environment::{ExecutionResult, PreparedJob, TableEnvironment};
use volley::runtime::JobOutcome;

const BIDS: &str = "CREATE TABLE bids (auction BIGINT, price BIGINT, extra STRING, `dateTime` TIMESTAMP(3)) WITH ('connector' = 'nexmark', \
                    'table' = 'bid', 'events.num' = '20000', 'splits' = '3', 'first-event.rate' = '20000', 'next-event.rate' = '20000'";

/// The table with its options, a source of bids, and then a statement.
fn prepare(table: &str, statement: &str, options: &[(&str, String)]) -> Result<PreparedJob> {
    let mut environment = TableEnvironment::default();
    environment.set("volley.batch.rows", "100")?;
    for (key, value) in options {
        environment.set(key, value)?;
    }
    let takes_checkpoints = options.iter().any(|(key, _)| key.ends_with("interval"));
    environment.execute(&format!("{BIDS}, 'rate.limited' = '{takes_checkpoints}')"))?;
    environment.execute(&format!(
        "CREATE TABLE t (auction BIGINT, price BIGINT, extra STRING, `dateTime` TIMESTAMP(3)) WITH ('connector' = 'filesystem', {table})"
    ))?;
    match environment.execute(statement)? {
        ExecutionResult::Job(job) => Ok(job),
        _ => panic!("the statement is a job"),
    }
}

const INSERT: &str = "INSERT INTO t SELECT auction, price, extra, `dateTime` FROM bids";

fn insert(table: &str, options: &[(&str, String)]) {
    let job = prepare(table, INSERT, options).unwrap();
    let outcome = job.deploy(None).unwrap().run(&mut |_, _| {}).unwrap();
    assert_eq!(outcome, JobOutcome::Finished);
}

/// All rows that a SELECT gives, as sorted text.
fn select(table: &str, query: &str) -> Vec<String> {
    let rows = Arc::new(Mutex::new(Vec::new()));
    let taken = rows.clone();
    let collector: Collector = Arc::new(move |batch| {
        for row in 0..batch.num_rows() {
            let cells = batch.rows.columns().iter();
            let cells = cells.map(|column| array_value_to_string(column, row).unwrap());
            taken
                .lock()
                .unwrap()
                .push(cells.collect::<Vec<_>>().join("|"));
        }
        Ok(())
    });
    let job = prepare(table, query, &[]).unwrap();
    job.deploy(Some(collector))
        .unwrap()
        .run(&mut |_, _| {})
        .unwrap();
    let mut rows = std::mem::take(&mut *rows.lock().unwrap());
    rows.sort();
    rows
}

fn at(path: &str, format: &str) -> String {
    format!("'path' = '{path}', 'format' = '{format}'")
}

/// The names of the parts at a path.
fn parts(path: &str) -> BTreeSet<String> {
    let blobs = open_blobs(path).unwrap().list("").unwrap().into_iter();
    blobs.map(|blob| blob.path).collect()
}

#[test]
fn what_was_inserted_is_selected_in_every_format_and_place() {
    let directory = tempfile::tempdir().unwrap();
    let expected = select(&at("unused", "json"), "SELECT * FROM bids");
    assert!(expected.len() > 10_000);
    for format in ["json", "csv", "parquet"] {
        let local = directory.path().join(format).display().to_string();
        let url = format!("file://{local}-url");
        for path in [&local, &url, &format!("memory://file-sinks/{format}/out")] {
            let mut table = at(path, format);
            if format == "parquet" {
                table += ", 'parquet.compression' = 'ZSTD'";
            }
            insert(&table, &[("parallelism.default", "2".to_string())]);
            assert_eq!(select(&table, "SELECT * FROM t"), expected, "{path}");
            let counted = select(
                &table,
                "SELECT COUNT(*) FROM (SELECT DISTINCT auction FROM t)",
            );
            assert!(!counted.is_empty());
            assert_eq!(parts(path).len(), 2, "{path}");
        }
    }
}

#[test]
fn as_many_subtasks_write_as_the_table_says() {
    let expected = select(&at("unused", "json"), "SELECT * FROM bids");
    for (parallelism, writers) in [(1, 3), (3, 1), (2, 5), (2, 2)] {
        let path = format!("memory://file-sinks-{parallelism}-{writers}");
        let table = at(&path, "csv") + &format!(", 'sink.parallelism' = '{writers}'");
        insert(&table, &[("parallelism.default", parallelism.to_string())]);
        assert_eq!(parts(&path).len(), writers, "{parallelism} to {writers}");
        assert_eq!(select(&table, "SELECT * FROM t"), expected);
    }
    let table = at("memory://file-sinks", "csv") + ", 'sink.parallelism' = '1000'";
    let error = prepare(&table, INSERT, &[]).err().unwrap().to_string();
    assert!(error.contains("pipeline.max-parallelism"), "{error}");
}

#[test]
fn a_job_stopped_between_checkpoints_writes_each_row_to_objects_once() {
    let directory = tempfile::tempdir().unwrap();
    let expected = select(&at("unused", "json"), "SELECT * FROM bids");
    let table = at("memory://file-sinks-restored", "parquet");
    let options = |parallelism: usize, restores: bool| {
        let mut options = vec![
            ("parallelism.default", parallelism.to_string()),
            ("execution.checkpointing.interval", "50 ms".to_string()),
            (
                "execution.checkpointing.externalized-checkpoint-retention",
                "RETAIN_ON_CANCELLATION".to_string(),
            ),
            ("execution.checkpointing.dir", checkpoints(directory.path())),
            (
                "execution.checkpointing.externalized-checkpoint-retention",
                "RETAIN_ON_CANCELLATION".to_string(),
            ),
        ];
        if restores {
            options.push((
                "execution.state-recovery.path",
                checkpoints(directory.path()),
            ));
        }
        options
    };
    for (parallelism, restores) in [(2, false), (3, true)] {
        let job = prepare(&table, INSERT, &options(parallelism, restores)).unwrap();
        let job = job.deploy(None).unwrap();
        let cancel = job.cancel_flag();
        let outcome = job
            .run(&mut |_, progress| cancel.store(progress.checkpoints >= 2, Ordering::SeqCst))
            .unwrap();
        assert_eq!(outcome, JobOutcome::Cancelled);
        let rows = select(&table, "SELECT * FROM t");
        assert!(!rows.is_empty() && rows.len() < expected.len());
    }
    insert(&table, &options(1, true));
    assert_eq!(select(&table, "SELECT * FROM t"), expected);
}

fn checkpoints(directory: &Path) -> String {
    directory.join("checkpoints").display().to_string()
}

#[test]
fn what_a_sink_of_files_cannot_do_is_refused() {
    let mut environment = TableEnvironment::default();
    let error = environment
        .execute(
            "CREATE TABLE t (a INT, day STRING) PARTITIONED BY (day) WITH ('connector' = 'filesystem', 'path' = 'x', 'format' = 'json')",
        )
        .err()
        .unwrap();
    assert!(error.to_string().contains("PARTITIONED BY"), "{error}");
    let compacted = at("x", "json") + ", 'auto-compaction' = 'true'";
    let error = prepare(&compacted, INSERT, &[]).err().unwrap().to_string();
    assert!(error.contains("sink.parallelism"), "{error}");
    let updating =
        "INSERT INTO t SELECT auction, COUNT(*), 'x', MAX(`dateTime`) FROM bids GROUP BY auction";
    assert!(prepare(&at("x", "json"), updating, &[]).is_err());
}
