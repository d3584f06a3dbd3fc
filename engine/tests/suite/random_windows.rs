//! Random windows: the engine, in every way, against a slow twin and against DataFusion's batch aggregation.
//!
//! A scenario is made from a seed: a schema, rows in disorder (late ones, NULLs, times before 1970 and around changes of
//! daylight saving time), a window, and a query over it. The twin says what must come out; every way of running must give
//! that. `VOLLEY_FUZZ_SECONDS` runs fresh seeds for so long, from `VOLLEY_FUZZ_SEED` on and in `VOLLEY_FUZZ_WAYS` where
//! they are set.

mod batch_engine;
mod query;
mod scenario;

use std::time::{Duration, Instant};

use volley::testing::case::Variant;
use volley::testing::{Way, compare_bags, execute};

use scenario::Scenario;

/// Every scenario runs row by row and in these ways.
const WAYS: [Way; 6] = [
    Way::Size1,
    Way::Base,
    Way::Random,
    Way::Parallel3,
    Way::Kill,
    Way::Mixed,
];

fn check(seed: u64, ways: &[Way]) {
    let scenario = Scenario::from_seed(seed);
    if let Some((expected, actual)) = batch_engine::aggregate(&scenario) {
        compare_bags(expected, actual, "the twin and DataFusion differ")
            .unwrap_or_else(|difference| panic!("seed {seed}: {difference}\n{scenario}"));
    }
    for way in ways {
        let run = execute(&scenario.case, &Variant::default(), *way, seed);
        let name = way.name();
        if let Some((phase, error)) = &run.failure {
            panic!("seed {seed}, way {name}: failed ({phase:?}): {error}\n{scenario}");
        }
        let result = run.result().expect("a SELECT has a result");
        let rows = result.rows.iter().map(|row| row.cells.clone()).collect();
        compare_bags(
            scenario.expected.clone(),
            rows,
            "the result differs from the twin's",
        )
        .unwrap_or_else(|difference| panic!("seed {seed}, way {name}: {difference}\n{scenario}"));
        if let Some(late) = scenario.late {
            let counted = run
                .metrics
                .get("numLateRecordsDropped")
                .copied()
                .unwrap_or(0);
            assert_eq!(
                counted, late,
                "seed {seed}, way {name}: numLateRecordsDropped\n{scenario}"
            );
        }
    }
}

#[test]
fn windows_are_the_twins_in_every_way() {
    (0..60).for_each(|seed| check(seed, &WAYS));
}

#[test]
fn more_windows_are_the_twins_in_two_ways_1() {
    (1_000..1_100).for_each(|seed| check(seed, &[Way::Size1, Way::Mixed]));
}

#[test]
fn more_windows_are_the_twins_in_two_ways_2() {
    (1_100..1_200).for_each(|seed| check(seed, &[Way::Size1, Way::Mixed]));
}

/// The seeds of these tests reach what they are there for; a generator that makes nothing would pass everything.
#[test]
fn scenarios_reach_everything() {
    let scenarios: Vec<Scenario> = (0..60)
        .chain(1_000..1_200)
        .map(Scenario::from_seed)
        .collect();
    let count = |is: &dyn Fn(&Scenario) -> bool| scenarios.iter().filter(|s| is(s)).count();
    let sql = |word: &str| {
        count(&|s| {
            s.case.query.as_deref().unwrap_or_default().contains(word) && !s.expected.is_empty()
        })
    };
    for word in [
        "TUMBLE",
        "HOP",
        "CUMULATE",
        "SESSION",
        "INTERVAL '-",
        "GROUPING SETS",
        "FILTER",
        "DISTINCT",
        "WHERE MOD",
        "ROW_NUMBER",
        "rn = 1",
        " JOIN ",
        "LEFT JOIN",
        "RIGHT JOIN",
        "FULL JOIN",
        "NOT EXISTS",
        "SUM(",
        "AVG(",
    ] {
        assert!(
            sql(word) >= 3,
            "{word} in {} of {} scenarios",
            sql(word),
            scenarios.len()
        );
    }
    assert!(
        count(&|s| s.late.is_some_and(|late| late > 0)) >= 30,
        "late rows"
    );
    assert!(
        count(&|s| s.setting.is_instant && !s.expected.is_empty()) >= 30,
        "TIMESTAMP_LTZ"
    );
    assert!(
        count(&|s| s.setting.is_union && !s.expected.is_empty()) >= 10,
        "UNION ALL"
    );
    assert!(
        count(&|s| s.setting.partitions > 1 && !s.expected.is_empty()) >= 30,
        "partitions"
    );
    assert!(
        count(&|s| s.rows.iter().any(|row| row.takes_back.is_some())) >= 15,
        "rows taken back"
    );
    assert!(
        count(&|s| s.rows.iter().any(|row| row.time_ms < 0)) >= 30,
        "times before 1970"
    );
    assert!(
        count(&|s| batch_engine::aggregate(s).is_some()) >= 60,
        "comparisons with DataFusion"
    );
    assert!(
        count(&|s| s.case.steps.len() > s.rows.len()) >= 30,
        "restores"
    );
}

#[test]
fn fresh_windows_are_the_twins() {
    let Some(seconds) = number("VOLLEY_FUZZ_SECONDS") else {
        return;
    };
    let first = number("VOLLEY_FUZZ_SEED").unwrap_or_else(|| u64::from(rand::random::<u32>()));
    eprintln!("fuzz: from seed {first} for {seconds} s; VOLLEY_FUZZ_SEED={first} repeats it");
    let end = Instant::now() + Duration::from_secs(seconds);
    let ways = match std::env::var("VOLLEY_FUZZ_WAYS") {
        Ok(names) => Way::parse_list(&names).unwrap(),
        Err(_) => WAYS.to_vec(),
    };
    let mut seed = first;
    // At least one, so that `VOLLEY_FUZZ_SECONDS=0` looks at a single seed.
    loop {
        check(seed, &ways);
        seed += 1;
        if Instant::now() >= end {
            break;
        }
    }
    eprintln!("fuzz: {} scenarios held", seed - first);
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is a number, not {text}")),
    )
}
