//! The retail job (`examples/retail/retail.sql`) on a made day of till uploads, against a batch computation on the same rows.

mod ledger;
mod twin;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Arc;

use retail_data::{Settings, TillLog};
use serde_json::Value;
use volley::connectors::standard_registry;
use volley::environment::{ExecutionResult, PreparedJob, TableEnvironment};
use volley::plan::explain;
use volley::plan::logical::ExplainDetails;
use volley::runtime::JobOutcome;
use volley::sql::split_script;

use ledger::{Ledger, LedgerFactory};
use twin::{Hour, SoldLine, StoreDay, Twin, TwinLine};

/// What the job wrote.
struct Run {
    lines: Vec<SoldLine>,
    hours: BTreeMap<(String, String), Hour>,
    /// The rows of the late-rows table, each as the row that was late.
    late: Vec<Value>,
    store_days: BTreeMap<(String, String), StoreDay>,
    /// Rows that the running total wrote to its sink.
    total_writes: usize,
}

/// The default day and what the job makes of it with these options.
fn run(options: &[(&str, &str)]) -> (Twin, Run) {
    run_on(Settings::default(), options)
}

fn run_on(settings: Settings, options: &[(&str, &str)]) -> (Twin, Run) {
    let directory = tempfile::tempdir().unwrap();
    let input = directory.path().join("input");
    TillLog::generate(settings).write(&input).unwrap();
    let ledger = Arc::new(Ledger::default());
    let job = prepare(directory.path(), ledger.clone(), options);
    let outcome = job.deploy(None).unwrap().run(&mut |_, _| {}).unwrap();
    assert_eq!(outcome, JobOutcome::Finished);
    let twin = Twin::read(&input);
    (twin, read_run(directory.path(), &ledger))
}

/// The example as it is, but in another directory, and with a ledger in place of the terminal.
fn prepare(directory: &Path, ledger: Arc<Ledger>, options: &[(&str, &str)]) -> PreparedJob {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/retail/retail.sql");
    let script = fs::read_to_string(example).unwrap();
    assert_eq!(script.matches("'connector' = 'print'").count(), 1);
    let script = script
        .replace("out/retail", directory.to_str().unwrap())
        .replace("'connector' = 'print'", "'connector' = 'ledger'");
    let mut connectors = standard_registry();
    connectors.register(Arc::new(LedgerFactory(ledger)));
    let mut environment = TableEnvironment::new(connectors);
    for (key, value) in options {
        environment.set(key, value).unwrap();
    }
    for statement in split_script(&script).unwrap() {
        match environment.execute(&statement.text) {
            Ok(ExecutionResult::Job(job)) => return job,
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the script holds a job");
}

fn read_run(directory: &Path, ledger: &Ledger) -> Run {
    let hours = json_lines(&directory.join("hourly"));
    let hours = hours
        .iter()
        .map(|row| (twin::key(row, "window_start"), Hour::of_json(row)));
    let late = json_lines(&directory.join("late"));
    let late = late
        .iter()
        .map(|row| serde_json::from_str(row["row"].as_str().unwrap()).unwrap());
    Run {
        lines: json_lines(&directory.join("lines"))
            .iter()
            .map(SoldLine::of_json)
            .collect(),
        hours: hours.collect(),
        late: late.collect(),
        store_days: ledger.store_days(),
        total_writes: ledger.writes(),
    }
}

/// The rows of all visible files of a directory.
fn json_lines(directory: &Path) -> Vec<Value> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if !entry.file_name().to_str().unwrap().starts_with('.') {
            let text = fs::read_to_string(entry.path()).unwrap();
            rows.extend(
                text.lines()
                    .map(|line| serde_json::from_str::<Value>(line).unwrap()),
            );
        }
    }
    rows
}

/// Each line of the twin once, and no other.
fn check_lines(twin: &Twin, run: &Run) {
    let mut written: BTreeMap<(&str, i64), &SoldLine> = BTreeMap::new();
    for line in &run.lines {
        let before = written.insert((&line.basket_id, line.line_no), line);
        assert!(before.is_none(), "written twice: {line:?}");
    }
    assert_eq!(written.len(), twin.lines().len());
    for line in twin.lines() {
        let mut expected = line.sold.clone();
        if line.is_overtaken {
            (expected.list_price_minor, expected.price_from) = (None, None);
        }
        assert_eq!(
            written.get(&(&*expected.basket_id, expected.line_no)),
            Some(&&expected)
        );
    }
}

/// The hours hold all baskets but the late ones, whose lines are in the late-rows table, each once.
fn check_hours(twin: &Twin, run: &Run) {
    assert_eq!(run.hours, twin.hours());
    let expected: BTreeSet<&str> = twin
        .late_lines()
        .map(|line| &*line.sold.basket_id)
        .collect();
    let found: BTreeSet<&str> = run
        .late
        .iter()
        .map(|row| row["basket_id"].as_str().unwrap())
        .collect();
    assert_eq!(found, expected);
    assert_eq!(run.late.len(), twin.late_lines().count());
    let net = |rows: &[Value]| {
        rows.iter()
            .map(|row| row["net_minor"].as_i64().unwrap())
            .sum::<i64>()
    };
    assert_eq!(
        net(&run.late),
        twin.late_lines()
            .map(|line| line.sold.net_minor)
            .sum::<i64>()
    );
}

/// What `docs/retail.md` says of the day itself.
#[test]
fn the_day_holds_what_a_job_must_cope_with() {
    let directory = tempfile::tempdir().unwrap();
    TillLog::generate(Settings::default())
        .write(directory.path())
        .unwrap();
    let twin = Twin::read(directory.path());
    assert_eq!(twin.lines().len(), 58_277);
    assert_eq!((twin.store_days().len(), twin.hours().len()), (775, 8_005));
    assert_eq!(
        (twin.late_baskets(), twin.late_lines().count()),
        (586, 1_513)
    );
    let wrong = twin
        .lines()
        .iter()
        .filter(|line| line.is_wrong_at_the_latest_price());
    assert_eq!(wrong.count(), 2_339);
    let as_of_the_sale =
        |line: &TwinLine| line.sold.list_price_minor == Some(line.sold.unit_price_minor);
    assert!(twin.lines().iter().all(as_of_the_sale));
    assert!(twin.lines().iter().all(|line| !line.is_overtaken));
}

#[test]
fn the_job_equals_a_batch_computation_on_the_same_rows() {
    let (twin, run) = run(&[]);
    check_lines(&twin, &run);
    assert_eq!(run.lines.len(), 58_277);
    assert!(twin.lines().iter().all(|line| !line.is_overtaken));
    assert!(
        run.lines
            .iter()
            .all(|line| line.list_price_minor == Some(line.unit_price_minor))
    );
    assert_eq!(
        twin.lines()
            .iter()
            .filter(|line| line.is_wrong_at_the_latest_price())
            .count(),
        2_339
    );

    assert_eq!(run.store_days, twin.store_days());
    assert_eq!(run.store_days.len(), 775);
    assert_eq!(run.total_writes, 58_277);

    check_hours(&twin, &run);
    assert_eq!(twin.late_baskets(), 586);
}

#[test]
fn mini_batch_writes_fewer_rows_of_the_running_total_and_ends_with_the_same() {
    let (twin, run) = run(&[
        ("table.exec.mini-batch.enabled", "true"),
        ("table.exec.mini-batch.allow-latency", "5 s"),
        ("table.exec.mini-batch.size", "5000"),
    ]);
    check_lines(&twin, &run);
    assert_eq!(run.store_days, twin.store_days());
    check_hours(&twin, &run);
    println!("{} row writes with mini-batch", run.total_writes);
    assert!(
        (775..58_277 / 2).contains(&run.total_writes),
        "{} writes",
        run.total_writes
    );
}

#[test]
fn lines_and_totals_do_not_depend_on_the_parallelism_nor_on_the_size_of_batches() {
    for options in [
        &[("parallelism.default", "3")][..],
        &[("volley.batch.rows", "7")],
    ] {
        let (twin, run) = run(options);
        check_lines(&twin, &run);
        assert_eq!(run.store_days, twin.store_days());
    }
}

#[test]
fn a_late_line_whose_price_changed_meanwhile_finds_its_version_gone() {
    let settings = Settings {
        overtaken_baskets: 40,
        ..Settings::default()
    };
    let (twin, run) = run_on(settings, &[]);
    let overtaken: Vec<_> = twin
        .lines()
        .iter()
        .filter(|line| line.is_overtaken)
        .collect();
    assert_eq!(overtaken.len(), 40);
    assert!(overtaken.iter().all(|line| line.is_late));
    check_lines(&twin, &run);
    assert_eq!(run.store_days, twin.store_days(), "they count all the same");
}

#[test]
fn the_three_inserts_share_the_deduplication_and_the_join() {
    let directory = tempfile::tempdir().unwrap();
    TillLog::generate(Settings::default())
        .write(&directory.path().join("input"))
        .unwrap();
    let job = prepare(directory.path(), Arc::default(), &[]);
    let plan = explain(job.plan(), job.config(), ExplainDetails::default());
    let count = |operator: &str| {
        plan.lines()
            .filter(|line| {
                line.trim_start_matches(['+', '-', ':', ' ', '|'])
                    .starts_with(operator)
            })
            .count()
    };
    for operator in [
        "TemporalJoin(",
        "TableSourceScan(table=[[default_catalog, default_database, pos",
    ] {
        assert_eq!(count(operator), 1, "{operator} in\n{plan}");
    }
    assert_eq!(
        count("Deduplicate("),
        2,
        "one of the baskets, one of the prices\n{plan}"
    );
}
