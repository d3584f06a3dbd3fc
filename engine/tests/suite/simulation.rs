//! The deterministic simulation with fixed seeds, with fresh ones, and with faults planted to see that it finds them.
//!
//! Four seeds of five run a job of the simulation's own pool, the fifth a random query. `VOLLEY_SIMULATE_SEEDS` runs so many fresh seeds,
//! `VOLLEY_SIMULATE_SEED` says from which on; `VOLLEY_SIMULATE_UNALIGNED` has their barriers overtake; `VOLLEY_SIMULATE_VERBOSE` shows the
//! events of runs that hold, too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use volley::testing::case::Step;
use volley::testing::simulation::{
    Compared, Failure, Happened, Report, SimulationOptions, Workload, nodes_of, pool_size,
    pool_workload, simulate_workload,
};

use crate::random_queries::scenario_statements;

/// The workload of a seed.
fn workload(seed: u64) -> Option<Workload> {
    match seed % 5 {
        4 => random_query(seed / 5),
        part => Some(pool_workload(seed / 5 * 4 + part)),
    }
}

/// A random query as a workload; `None` where the engine does not run it.
fn random_query(seed: u64) -> Option<Workload> {
    let statements = scenario_statements(seed)?;
    let set: Vec<(String, String)> = statements.set;
    let set: Vec<_> = set
        .into_iter()
        .filter(|(key, _)| key != "parallelism.default")
        .collect();
    let holds_back = set.iter().any(|(key, _)| key.contains("mini-batch"));
    Some(Workload {
        name: format!("random query {seed}"),
        tables: statements.tables,
        sql: String::new(),
        query: statements.query,
        set,
        steps: statements
            .steps
            .into_iter()
            .filter(|step| matches!(step, Step::Record { .. }))
            .collect(),
        preloaded: 0,
        compared: Compared::Final,
        late: true,
        most_parallel: 4,
        compared_at_rest: !holds_back,
        directory: None,
    })
}

fn run(seed: u64, barriers: Barriers) -> Option<Result<Report, Box<Failure>>> {
    let options = SimulationOptions {
        verbose: std::env::var_os("VOLLEY_SIMULATE_VERBOSE").is_some(),
        unaligned: barriers == Barriers::Overtake,
    };
    let result = simulate_workload(&workload(seed)?, seed, &options);
    // Of random queries some are not supported: those alone may be refused.
    let refused = |failure: &Failure| {
        let message = &failure.message;
        seed % 5 == 4 && message.starts_with("without faults: ") && message.contains("support")
    };
    match result {
        Err(failure) if refused(&failure) => None,
        result => Some(result),
    }
}

/// What barriers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Barriers {
    Wait,
    Overtake,
}

/// What happened in many runs.
#[derive(Debug, Default)]
struct Sums {
    runs: u64,
    refused: u64,
    happened: Happened,
    with_rows: u64,
}

impl Sums {
    fn add(&mut self, report: &Report) {
        let (sum, one) = (&mut self.happened, &report.happened);
        self.runs += 1;
        self.with_rows += u64::from(one.rows > 0);
        sum.steps += one.steps;
        sum.deaths += one.deaths;
        sum.deaths_during_restore += one.deaths_during_restore;
        sum.restores += one.restores;
        sum.rescales += one.rescales;
        sum.checkpoints += one.checkpoints;
        sum.failed_checkpoints += one.failed_checkpoints;
        sum.damaged += one.damaged;
        sum.retained += one.retained;
        sum.overtaken += one.overtaken;
        sum.rows += one.rows;
    }
}

/// Runs seeds; fails with the first that does not hold.
fn check(seeds: impl Iterator<Item = u64>, barriers: Barriers) -> Sums {
    let begun = Instant::now();
    let mut sums = Sums::default();
    for seed in seeds {
        match run(seed, barriers) {
            None => sums.refused += 1,
            Some(Ok(report)) => {
                for event in &report.events {
                    eprintln!("  {event}");
                }
                sums.add(&report);
            }
            Some(Err(failure)) if barriers == Barriers::Overtake => {
                panic!("{failure} with --unaligned")
            }
            Some(Err(failure)) => panic!("{failure}"),
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    eprintln!("simulation: {seconds:.1} s, {sums:?}");
    sums
}

/// As many seeds as the issue asks for, in four threads.
const SEEDS: u64 = 500;

fn check_share(share: u64) {
    let sums = check(
        (0..SEEDS).filter(|seed| seed / 5 % 4 == share),
        Barriers::Wait,
    );
    let Happened {
        deaths,
        deaths_during_restore,
        restores,
        rescales,
        checkpoints,
        failed_checkpoints,
        damaged,
        retained,
        ..
    } = sums.happened;
    // A simulation in which nothing happens would pass everything.
    assert!(sums.with_rows * 10 > sums.runs * 8, "{sums:?}");
    assert!(deaths > sums.runs, "{sums:?}");
    assert!(
        restores * 4 > sums.runs * 3 && rescales > sums.runs / 2,
        "{sums:?}"
    );
    assert!(
        checkpoints > sums.runs * 2 && retained > sums.runs,
        "{sums:?}"
    );
    assert!(
        deaths_during_restore > 5 && failed_checkpoints > 10 && damaged > 1,
        "{sums:?}"
    );
    assert!(sums.refused < 5, "{sums:?}");
}

#[test]
fn jobs_that_die_give_what_those_do_that_live_1() {
    check_share(0);
}

#[test]
fn jobs_that_die_give_what_those_do_that_live_2() {
    check_share(1);
}

#[test]
fn jobs_that_die_give_what_those_do_that_live_3() {
    check_share(2);
}

#[test]
fn jobs_that_die_give_what_those_do_that_live_4() {
    check_share(3);
}

/// Jobs whose barriers overtake, restored with what they had overtaken.
#[test]
fn unaligned_checkpoints_lose_nothing_and_double_nothing() {
    let sums = check(0..5 * pool_size() as u64, Barriers::Overtake);
    let Happened {
        overtaken,
        restores,
        rescales,
        ..
    } = sums.happened;
    assert!(overtaken > sums.runs / 4, "{sums:?}");
    assert!(restores > sums.runs && rescales > sums.runs / 4, "{sums:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let options = SimulationOptions {
        verbose: true,
        unaligned: false,
    };
    for seed in [3, 11, 27] {
        let workload = workload(seed).unwrap();
        let run = || simulate_workload(&workload, seed, &options).unwrap();
        let (first, second) = (run(), run());
        assert_eq!(first.happened, second.happened, "seed {seed}");
        assert_eq!(first.events, second.events, "seed {seed}");
    }
}

/// Every kind of node is in the pool.
#[test]
fn every_operator_is_in_the_mix() {
    let mut reached: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 0..4 * pool_size() as u64 {
        let workload = pool_workload(seed);
        let nodes = nodes_of(&workload).unwrap_or_else(|error| panic!("{error}\n{workload}"));
        let nodes: BTreeSet<String> = nodes.into_iter().collect();
        for node in nodes {
            *reached.entry(node).or_default() += 1;
        }
    }
    for node in NODES {
        assert!(
            reached.contains_key(*node),
            "{node} is missing: {reached:#?}"
        );
    }
    let unknown: Vec<&String> = reached
        .keys()
        .filter(|name| !NODES.contains(&name.as_str()))
        .collect();
    assert!(unknown.is_empty(), "NODES lacks {unknown:?}");
}

/// The names of all exec nodes.
const NODES: &[&str] = &[
    "Calc",
    "ChangelogNormalize",
    "Correlate",
    "Deduplicate",
    "DropUpdateBefore",
    "Exchange",
    "Expand",
    "GlobalGroupAggregate",
    "GlobalWindowAggregate",
    "GroupAggregate",
    "GroupWindowAggregate",
    "IntervalJoin",
    "Join",
    "LateRowsSink",
    "Limit",
    "LocalGroupAggregate",
    "LocalWindowAggregate",
    "LookupJoin",
    "Match",
    "MiniBatchAssigner",
    "MultiJoin",
    "OverAggregate",
    "Rank",
    "Sink",
    "SinkUpsertMaterializer",
    "SortLimit",
    "TableSourceScan",
    "TemporalJoin",
    "TemporalSort",
    "Union",
    "Values",
    "WatermarkAssigner",
    "WindowAggregate",
    "WindowDeduplicate",
    "WindowJoin",
    "WindowRank",
    "WindowTableFunction",
];

/// Where `VOLLEY_SIMULATE_SEEDS` is set: so many fresh seeds.
#[test]
fn fresh_simulations_hold() {
    let Some(count) = number("VOLLEY_SIMULATE_SEEDS") else {
        return;
    };
    let first = number("VOLLEY_SIMULATE_SEED").unwrap_or_else(|| u64::from(rand::random::<u32>()));
    eprintln!("simulation: {count} seeds from {first} on");
    let barriers = match std::env::var_os("VOLLEY_SIMULATE_UNALIGNED") {
        None => Barriers::Wait,
        Some(_) => Barriers::Overtake,
    };
    check(first..first.saturating_add(count), barriers);
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable} is a number, not {text}")))
}

/// How many of the fixed seeds find each planted fault: the table of docs/testing.md.
#[cfg(feature = "planted-bugs")]
mod planted {
    use volley::planted::{Bug, plant};

    use super::*;

    fn found_by(bug: Bug) -> (u64, Option<String>) {
        plant(Some(bug));
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let mut found = 0;
        let mut first = None;
        for seed in 0..SEEDS {
            if let Some(Err(failure)) = run(seed, Barriers::Wait) {
                found += 1;
                let line = failure
                    .message
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .to_string();
                first.get_or_insert(format!("seed {seed}, {}: {line}", failure.workload));
            }
        }
        std::panic::set_hook(hook);
        plant(None);
        (found, first)
    }

    #[test]
    fn planted_bugs_are_found() {
        let only = std::env::var("VOLLEY_PLANT").ok();
        let only = only.filter(|only| !only.is_empty());
        let mut lines = Vec::new();
        let mut missed = Vec::new();
        for bug in Bug::ALL {
            let name = format!("{bug:?}");
            if only.as_ref().is_some_and(|only| *only != name) {
                continue;
            }
            let (found, first) = found_by(bug);
            let line = format!("| `{name}` | {found} | {} |", first.unwrap_or_default());
            eprintln!("{line}");
            lines.push(line);
            if found == 0 {
                missed.push(name);
            }
        }
        assert!(
            missed.is_empty(),
            "no seed finds {missed:?}\n{}",
            lines.join("\n")
        );
    }
}
