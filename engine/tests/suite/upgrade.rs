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
