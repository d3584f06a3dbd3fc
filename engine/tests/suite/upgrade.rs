//! A job is saved as a savepoint and goes on as another query: what is kept, what starts, what is refused.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use volley::checkpoint::{JobSnapshot, open_snapshot, savepoint};
use volley::connectors::collect::{CollectSink, Collector, Delivery};
use volley::environment::{ExecutionResult, PreparedJob, TableEnvironment};
use volley::runtime::{DeterministicStepper, JobGraph, ManualClock, StepperOptions};
use volley::stream::{ChangelogBatch, KeyGroupRange};
use volley::types::{ProcessingTime, RowKind};
use volley::{Error, Result};

const MAX_PARALLELISM: u16 = 128;

/// Bids on four auctions, a hundred a second.
const BIDS: &str = "CREATE TABLE bids (auction BIGINT, price BIGINT) WITH ('connector' = 'datagen', 'number-of-rows' = '400', \
    'rows-per-second' = '100', 'fields.auction.kind' = 'random', 'fields.auction.min' = '1', 'fields.auction.max' = '4', \
    'fields.price.kind' = 'sequence', 'fields.price.start' = '1', 'fields.price.end' = '400')";

const SUMS: &str = "SELECT auction, COUNT(*), SUM(price) FROM bids GROUP BY auction";

fn prepare(sql: &str, options: &[(&str, &str)]) -> PreparedJob {
    let mut environment = TableEnvironment::default();
    for (key, value) in options {
        environment.set(key, value).unwrap();
    }
    environment.execute(BIDS).unwrap();
    match environment.execute(sql).unwrap() {
        ExecutionResult::Job(job) => job,
        _ => panic!("{sql} is a job"),
    }
}

/// The last result of each auction: its columns behind the first.
type Results = Arc<Mutex<BTreeMap<i64, Vec<Option<i64>>>>>;

fn collecting(results: &Results) -> Arc<CollectSink> {
    let results = results.clone();
    let collector: Collector = Arc::new(move |batch: &ChangelogBatch| {
        let mut results = results.lock().unwrap();
        let columns = batch.rows.columns();
        let value = |column: usize, row: usize| {
            let column = columns[column].as_primitive::<Int64Type>();
            column.is_valid(row).then(|| column.value(row))
        };
        for row in 0..batch.num_rows() {
            let key = value(0, row).unwrap();
            match batch.kinds.get(row) {
                RowKind::Delete | RowKind::UpdateBefore => drop(results.remove(&key)),
                _ => drop(results.insert(key, (1..columns.len()).map(|c| value(c, row)).collect())),
            }
        }
        Ok(())
    });
    Arc::new(CollectSink::new(collector, Delivery::AtOnce))
}

struct Run {
    stepper: DeterministicStepper,
    results: Results,
}

impl Run {
    fn start(job: &PreparedJob, now_ms: i64, snapshot: Option<&JobSnapshot>) -> Result<Run> {
        let results = Results::default();
        let graph = job.graph(Some(collecting(&results)))?;
        let clock = ManualClock::default();
        clock.set(ProcessingTime(now_ms));
        let stepper = DeterministicStepper::new(graph, StepperOptions::default(), clock, snapshot)?;
        Ok(Run { stepper, results })
    }

    fn results(&self) -> BTreeMap<i64, Vec<Option<i64>>> {
        self.results.lock().unwrap().clone()
    }
}

fn facts(job: &PreparedJob) -> JobGraph {
    job.graph(Some(collecting(&Results::default()))).unwrap()
}

/// Runs a job for two of its four seconds, and writes a savepoint.
fn saved(sql: &str, directory: &tempfile::TempDir) -> (String, BTreeMap<i64, Vec<Option<i64>>>) {
    let job = prepare(sql, &[]);
    let mut run = Run::start(&job, 0, None).unwrap();
    run.stepper.advance_processing_time(2_000).unwrap();
    let snapshot = run.stepper.checkpoint().unwrap().unwrap();
    let target = directory.path().to_str().unwrap();
    let path = savepoint::write(&snapshot, MAX_PARALLELISM, &facts(&job).facts, target).unwrap();
    (path, run.results())
}

/// All of a savepoint.
fn read(path: &str) -> JobSnapshot {
    let reader = open_snapshot(path).unwrap();
    let all = KeyGroupRange::all(MAX_PARALLELISM);
    let operators = reader.operators().into_iter();
    let operators = operators.map(|uid| {
        let state = reader.read(&uid, all, MAX_PARALLELISM).unwrap();
        (uid, state)
    });
    JobSnapshot {
        checkpoint: reader.checkpoint(),
        operators: operators.collect(),
    }
}

fn restored(
    sql: &str,
    path: &str,
    options: &[(&str, &str)],
) -> Result<BTreeMap<i64, Vec<Option<i64>>>> {
    let job = prepare(sql, options);
    let mut run = Run::start(&job, 2_000, Some(&read(path)))?;
    run.stepper.advance_processing_time(10_000)?;
    Ok(run.results())
}

fn undisturbed(sql: &str) -> BTreeMap<i64, Vec<Option<i64>>> {
    let mut run = Run::start(&prepare(sql, &[]), 0, None).unwrap();
    run.stepper.advance_processing_time(12_000).unwrap();
    run.results()
}

fn explained(sql: &str, path: &str) -> String {
    let mut environment = TableEnvironment::default();
    environment.execute(BIDS).unwrap();
    let explain = format!("EXPLAIN UPGRADE FROM '{path}' {sql}");
    match environment.execute(&explain).unwrap() {
        ExecutionResult::Explained(text) => text,
        _ => panic!("an explanation"),
    }
}

fn error_of<T>(result: Result<T>) -> Error {
    match result {
        Ok(_) => panic!("it is refused"),
        Err(error) => error,
    }
}

#[test]
fn a_savepoint_of_the_same_query_goes_on_to_the_same_result() {
    let directory = tempfile::tempdir().unwrap();
    let (path, half) = saved(SUMS, &directory);
    let counted: i64 = half.values().map(|row| row[0].unwrap()).sum();
    assert!((100..300).contains(&counted), "{counted}");
    let full = restored(SUMS, &path, &[]).unwrap();
    let counted: i64 = full.values().map(|row| row[0].unwrap()).sum();
    let summed: i64 = full.values().map(|row| row[1].unwrap()).sum();
    assert_eq!((counted, summed), (400, 400 * 401 / 2));
    let shown = explained(SUMS, &path);
    assert!(
        shown.contains("kept           GroupAggregate(groupBy=[auction]"),
        "{shown}"
    );
    assert!(
        !shown.contains("changed") && !shown.contains("dropped"),
        "{shown}"
    );
}

#[test]
fn aggregates_are_kept_dropped_and_begun_each_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let (path, half) = saved(SUMS, &directory);
    let changed = "SELECT auction, MAX(price), COUNT(*), COUNT(price) FROM bids GROUP BY auction";
    let shown = explained(changed, &path);
    for part in [
        "changed shape  GroupAggregate(groupBy=[auction]",
        "groups: new MAX(price): counts from now on",
        "groups: new COUNT(price): counts from now on",
        "groups: dropped SUM(price).sum",
        "Some of the state is lost",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let error = error_of(restored(changed, &path, &[])).to_string();
    assert!(error.contains("SUM(price).sum is dropped"), "{error}");
    let allowed = [("execution.state-recovery.ignore-unclaimed-state", "true")];
    let full = restored(changed, &path, &allowed).unwrap();
    let counted: i64 = full.values().map(|row| row[1].unwrap()).sum();
    assert_eq!(counted, 400, "COUNT(*) goes on");
    let before: i64 = half.values().map(|row| row[0].unwrap()).sum();
    let since: i64 = full.values().map(|row| row[2].unwrap()).sum();
    assert_eq!(since, 400 - before, "COUNT(price) begins");
    assert_eq!(full.values().map(|row| row[0].unwrap()).max(), Some(400));
}

#[test]
fn the_order_of_aggregates_and_names_do_not_matter() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = saved(SUMS, &directory);
    let changed =
        "SELECT a, SUM(p), COUNT(*) FROM (SELECT price AS p, auction AS a FROM bids) GROUP BY a";
    let full = restored(changed, &path, &[]).unwrap();
    let summed: i64 = full.values().map(|row| row[0].unwrap()).sum();
    assert_eq!(summed, 400 * 401 / 2);
    let expected: Vec<_> = undisturbed(changed)
        .into_values()
        .map(|row| row[0].is_some())
        .collect();
    assert_eq!(full.len(), expected.len());
}

#[test]
fn state_that_nobody_takes_up_is_lost_only_where_that_is_allowed() {
    let directory = tempfile::tempdir().unwrap();
    let (path, half) = saved(SUMS, &directory);
    let filtered =
        "SELECT auction, COUNT(*), SUM(price) FROM bids WHERE price > 0 GROUP BY auction";
    let error = error_of(restored(filtered, &path, &[])).to_string();
    assert!(
        error.contains("dropped        group-aggregate-") || error.contains("GroupAggregate"),
        "{error}"
    );
    assert!(error.contains("--allow-dropped-state"), "{error}");
    let allowed = [("execution.state-recovery.ignore-unclaimed-state", "true")];
    let rest = restored(filtered, &path, &allowed).unwrap();
    let before: i64 = half.values().map(|row| row[0].unwrap()).sum();
    let counted: i64 = rest.values().map(|row| row[0].unwrap()).sum();
    assert_eq!(
        counted,
        400 - before,
        "the source goes on, the aggregation starts empty"
    );
}

#[test]
fn explain_upgrade_says_what_it_needs() {
    let mut environment = TableEnvironment::default();
    environment.execute(BIDS).unwrap();
    let error = error_of(environment.execute(&format!("EXPLAIN UPGRADE {SUMS}"))).to_string();
    assert!(error.contains("execution.state-recovery.path"), "{error}");
    let error = error_of(environment.execute("EXPLAIN UPGRADE FROM x SELECT 1")).to_string();
    assert!(error.contains("path in quotes"), "{error}");
}

/// A table of 400 rows with these columns, whose watermark stays a second and a half behind.
fn events(name: &str, columns: [&str; 3]) -> String {
    let columns = columns.map(|column| format!("{column} BIGINT")).join(", ");
    let fields = [("k", 1), ("a", 1_001), ("b", 1_000_001)].map(|(field, first)| {
        let last = first + 399;
        format!("'fields.{field}.kind' = 'sequence', 'fields.{field}.start' = '{first}', 'fields.{field}.end' = '{last}'")
    });
    format!(
        "CREATE TABLE {name} ({columns}, ts AS TO_TIMESTAMP_LTZ(k * 10, 3), WATERMARK FOR ts AS ts - INTERVAL '1.5' SECOND) WITH \
         ('connector' = 'datagen', 'number-of-rows' = '400', 'rows-per-second' = '100', {})",
        fields.join(", ")
    )
}

const VERSIONS: &str = "CREATE VIEW v AS SELECT k, b, ts FROM \
    (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS n FROM r) WHERE n = 1";

/// Runs a query over `l` and `r`, whose columns stand in this order, up to a time. Gives the stepper and what it has given.
fn run_events(
    columns: [&str; 3],
    sql: &str,
    from: Option<&str>,
    (from_ms, to_ms): (i64, i64),
) -> Result<(PreparedJob, Run)> {
    let mut environment = TableEnvironment::default();
    for table in ["l", "r"] {
        environment.execute(&events(table, columns))?;
    }
    environment.execute(VERSIONS)?;
    let ExecutionResult::Job(job) = environment.execute(sql)? else {
        panic!("{sql} is a job");
    };
    let snapshot = from.map(read);
    let mut run = Run::start(&job, from_ms, snapshot.as_ref())?;
    run.stepper.advance_processing_time(to_ms)?;
    Ok((job, run))
}

/// Queries whose operators keep rows with all that is carried along; `{}` are columns of `l`.
const CARRYING: [(&str, &str); 9] = [
    (
        "Deduplicate",
        "SELECT k, {} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) AS n FROM l) WHERE n = 1",
    ),
    (
        "IntervalJoin",
        "SELECT l.k, {}, r.b FROM l JOIN r ON l.k = r.k - 50 AND l.ts BETWEEN r.ts - INTERVAL '1' SECOND AND r.ts + INTERVAL '1' SECOND",
    ),
    (
        "TemporalJoin",
        "SELECT l.k, {}, v.b FROM l JOIN v FOR SYSTEM_TIME AS OF l.ts ON l.k = v.k",
    ),
    (
        "WindowJoin",
        "SELECT l.k, {}, r.b FROM (SELECT * FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '1' SECOND))) l JOIN \
         (SELECT * FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '1' SECOND))) r \
         ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end",
    ),
    (
        "WindowRank",
        "SELECT k, {} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY k) AS n \
         FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '1' SECOND))) WHERE n <= 50",
    ),
    (
        "OverAggregate",
        "SELECT k, {}, COUNT(*) OVER (PARTITION BY k ORDER BY ts) FROM l",
    ),
    ("TemporalSort", "SELECT k, {} FROM l ORDER BY ts"),
    (
        "SESSION",
        "SELECT k, {} FROM TABLE(SESSION(TABLE l PARTITION BY k, DESCRIPTOR(ts), INTERVAL '1' SECOND))",
    ),
    (
        "Match",
        "SELECT k, x, x FROM l MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES LAST(X.b) AS x \
         ONE ROW PER MATCH PATTERN (X) DEFINE X AS X.{} > 0)",
    ),
];

#[test]
fn what_is_carried_along_is_found_by_name_wherever_it_stands() {
    for (operator, query) in CARRYING {
        let sql = query.replace("{}", if operator == "Match" { "a" } else { "a, b" });
        let sql = match query.contains("l.k, {}") {
            true => query.replace("{}", "l.a, l.b"),
            false => sql,
        };
        let directory = tempfile::tempdir().unwrap();
        let (job, mut run) = run_events(["k", "a", "b"], &sql, None, (0, 2_000)).unwrap();
        let snapshot = run.stepper.checkpoint().unwrap().unwrap();
        let target = directory.path().to_str().unwrap();
        let path = savepoint::write(&snapshot, MAX_PARALLELISM, &facts(&job).facts, target);
        let path = path.unwrap();
        let before = run.results();
        let given = |run: &Run| {
            let mut all = before.clone();
            all.extend(run.results());
            all
        };
        let (_, rest) = run_events(["b", "k", "a"], &sql, Some(&path), (2_000, 12_000))
            .unwrap_or_else(|error| panic!("{operator}: {error}"));
        let (_, whole) = run_events(["k", "a", "b"], &sql, None, (0, 12_000)).unwrap();
        assert!(
            before.len() < 200,
            "{operator}: rows wait: {}",
            before.len()
        );
        assert_eq!(given(&rest), whole.results(), "{operator}");
        // What was not carried along is not there.
        if ["Match", "TemporalJoin"].contains(&operator) {
            continue;
        }
        let narrow = query.replace(
            "{}",
            if query.contains("l.k, {}") {
                "l.a"
            } else {
                "a"
            },
        );
        let other = query.replace(
            "{}",
            if query.contains("l.k, {}") {
                "l.b"
            } else {
                "b"
            },
        );
        let (job, mut run) = run_events(["k", "a", "b"], &narrow, None, (0, 2_000)).unwrap();
        let snapshot = run.stepper.checkpoint().unwrap().unwrap();
        let path = savepoint::write(&snapshot, MAX_PARALLELISM, &facts(&job).facts, target);
        let path = path.unwrap();
        let restored = run_events(["k", "a", "b"], &other, Some(&path), (2_000, 12_000));
        let error = error_of(restored.map(|_| ())).to_string();
        assert!(error.contains("under another name"), "{operator}: {error}");
    }
}

#[test]
fn another_expression_under_the_same_name_is_another_column() {
    let directory = tempfile::tempdir().unwrap();
    let sql = "SELECT k, a + b FROM l ORDER BY ts";
    let (job, mut run) = run_events(["k", "a", "b"], sql, None, (0, 2_000)).unwrap();
    let snapshot = run.stepper.checkpoint().unwrap().unwrap();
    let target = directory.path().to_str().unwrap();
    let path = savepoint::write(&snapshot, MAX_PARALLELISM, &facts(&job).facts, target);
    let path = path.unwrap();
    let explained = |columns: [&str; 3], sql: &str| {
        let mut environment = TableEnvironment::default();
        environment.execute(&events("l", columns)).unwrap();
        match environment.execute(&format!("EXPLAIN UPGRADE FROM '{path}' {sql}")) {
            Ok(ExecutionResult::Explained(text)) => text,
            _ => panic!("an explanation"),
        }
    };
    let same = explained(["b", "a", "k"], sql);
    assert!(!same.contains("incompatible"), "{same}");
    let changed = explained(["k", "a", "b"], "SELECT k, a - b FROM l ORDER BY ts");
    let refused = "column EXPR$1: it is (a + b) in the state and (a - b) now";
    assert!(changed.contains(refused), "{changed}");
}
