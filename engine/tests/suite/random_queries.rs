//! Random queries: a stream gives what a table gives.
//!
//! A scenario is made from a seed: tables of every changelog mode, changes of their rows, a query nested up to four levels,
//! a sink, and a way of running it all: batch cuts, parallelism, bundles, checkpoints, kills, restores. What its sink
//! received, folded to a table, must be what a slow twin says of the same bound plan over the folded tables.
//! `VOLLEY_FUZZ_SECONDS` runs fresh seeds for so long, from `VOLLEY_FUZZ_SEED` on where it is set.

mod column;
mod draft;
mod query;
mod run;
mod scenario;
mod shrink;
mod tables;
mod twin;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use volley::testing::case::Step;

use run::{AsCase, Fault, Outcome, without_numbers};
use scenario::Scenario;

/// How many scenarios came to what.
#[derive(Debug, Default)]
struct Counts {
    held: usize,
    with_rows: usize,
    unclear: BTreeMap<String, usize>,
    refused: BTreeMap<String, usize>,
}

impl Counts {
    /// Runs one scenario; a fault is returned.
    fn check(&mut self, scenario: &Scenario) -> Option<Fault> {
        match run::run(scenario) {
            Outcome::Held { rows } => {
                self.held += 1;
                self.with_rows += usize::from(rows > 0);
            }
            Outcome::Refused(message) => {
                *self.refused.entry(without_numbers(&message)).or_default() += 1
            }
            Outcome::Unclear(unclear) => {
                *self.unclear.entry(format!("{unclear:?}")).or_default() += 1
            }
            Outcome::Fault(fault) => return Some(fault),
        }
        None
    }

    fn refusals(&self) -> usize {
        self.refused.values().sum()
    }

    fn show(&self) -> String {
        let unclear: usize = self.unclear.values().sum();
        let mut text = format!(
            "{} held ({} with rows), {} refused, {unclear} without an answer {:?}",
            self.held,
            self.with_rows,
            self.refusals(),
            self.unclear
        );
        let mut refused: Vec<_> = self.refused.iter().collect();
        refused.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (message, count) in refused.into_iter().take(30) {
            text += &format!("\n  {count} × {message}");
        }
        text
    }
}

/// The fault, and the smallest scenario that has one of its kind.
fn report(scenario: &Scenario, fault: &Fault) -> String {
    // The panics of smaller scenarios are not news.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let smallest = shrink::shrink(scenario, fault);
    let again = match run::run(&smallest) {
        Outcome::Fault(fault) => fault,
        _ => fault.clone(),
    };
    std::panic::set_hook(hook);
    format!(
        "seed {}, {:?}: {}\n\nthe smallest case found:\n{}",
        scenario.seed,
        again.kind,
        again.message,
        AsCase(&smallest)
    )
}

/// The scenario of a seed, in so many ways.
fn runs(seed: u64, count: u64) -> impl Iterator<Item = Scenario> {
    let scenario = Scenario::from_seed(seed);
    (0..count).map(move |run| match run {
        0 => scenario.clone(),
        run => scenario
            .clone()
            .run_as(seed.wrapping_mul(31).wrapping_add(run)),
    })
}

/// A random query for others to run.
pub(crate) struct Statements {
    /// The DDL of the sources and the sink.
    pub(crate) tables: Vec<String>,
    /// The SELECT or INSERT.
    pub(crate) query: String,
    /// Options.
    pub(crate) set: Vec<(String, String)>,
    /// The changes of the tables.
    pub(crate) steps: Vec<Step>,
}

/// The scenario of a seed as statements; `None` where the engine does not take the query or the twin has no answer, which is
/// where a result may depend on the order of arrival.
pub(crate) fn scenario_statements(seed: u64) -> Option<Statements> {
    let scenario = Scenario::from_seed(seed);
    let Ok(bound) = scenario.bind() else {
        return None;
    };
    scenario.expected(&bound).ok()?;
    Some(Statements {
        tables: bound.tables,
        query: bound.query,
        steps: run::steps(&scenario),
        set: scenario.set,
    })
}

fn check_seeds(seeds: std::ops::Range<u64>) {
    let (seeds_start, seeds_end) = (seeds.start, seeds.end);
    let mut counts = Counts::default();
    for seed in seeds {
        for scenario in runs(seed, 2) {
            if let Some(fault) = counts.check(&scenario) {
                panic!("{}", report(&scenario, &fault));
            }
        }
    }
    eprintln!("random queries: {}", counts.show());
    let all = 2 * (seeds_end - seeds_start) as usize;
    assert!(
        counts.refusals() * 8 < all,
        "too many are refused: {}",
        counts.show()
    );
    assert!(
        counts.with_rows * 3 > all,
        "too few have rows: {}",
        counts.show()
    );
}

#[test]
fn streams_are_tables_1() {
    check_seeds(0..200);
}

#[test]
fn streams_are_tables_2() {
    check_seeds(200..400);
}

#[test]
fn streams_are_tables_3() {
    check_seeds(400..600);
}

#[test]
fn streams_are_tables_4() {
    check_seeds(600..800);
}

/// The seeds of these tests reach what they are there for; a generator that makes nothing would pass everything.
#[test]
fn scenarios_reach_everything() {
    let scenarios: Vec<Scenario> = (0..800).map(Scenario::from_seed).collect();
    let count = |is: &dyn Fn(&Scenario) -> bool| scenarios.iter().filter(|s| is(s)).count();
    let words = [
        "GROUP BY",
        "HAVING",
        "ROLLUP",
        "CUBE",
        "GROUPING SETS",
        "FILTER",
        "DISTINCT",
        "COUNT(DISTINCT",
        "SUM(",
        "AVG(",
        "MIN(",
        "MAX(",
        "LISTAGG",
        " JOIN ",
        "LEFT JOIN",
        "RIGHT JOIN",
        "FULL JOIN",
        "CROSS JOIN",
        "IS NOT DISTINCT FROM",
        "NOT EXISTS",
        "NOT IN (SELECT",
        " IN (SELECT",
        "(SELECT MAX",
        "ROW_NUMBER",
        "LIMIT",
        "OFFSET",
        "UNION ALL",
        "UNION SELECT",
        "INTERSECT",
        "INTERSECT ALL",
        "EXCEPT",
        "EXCEPT ALL",
        "UNNEST",
        "ORDINALITY",
        "TUMBLE",
        "HOP",
        "CUMULATE",
        "OVER (PARTITION",
        "PRECEDING",
    ];
    for word in words {
        let found = count(&|s| draft::plain(&s.draft).contains(word));
        assert!(found >= 3, "{word} in {found} scenarios");
    }
    let mode = |mode| count(&|s| s.tables.iter().any(|table| table.mode == mode));
    for known in [
        tables::Mode::InsertOnly,
        tables::Mode::Retract,
        tables::Mode::Upsert,
    ] {
        assert!(mode(known) >= 100, "{known:?}");
    }
    let option = |key: &str| count(&|s| s.set.iter().any(|(name, _)| name.contains(key)));
    assert!(option("mini-batch.size") >= 100, "bundles");
    assert!(option("parallelism") >= 100, "parallelism");
    assert!(count(&|s| s.events.len() > 1) >= 100, "restores");
    let upserts = |s: &Scenario| {
        matches!(
            s.sink,
            scenario::Sink::Table {
                is_upsert: true,
                ..
            }
        )
    };
    assert!(count(&upserts) >= 100, "sinks that take upserts");
    assert!(
        count(&|s| draft::plain(&s.draft).matches("SELECT").count() >= 4) >= 200,
        "depth"
    );
}

/// Where `VOLLEY_FUZZ_SECONDS` is set: fresh seeds for so long. Goes on behind a fault, to find others.
#[test]
fn fresh_streams_are_tables() {
    let Some(seconds) = number("VOLLEY_FUZZ_SECONDS") else {
        return;
    };
    let first = number("VOLLEY_FUZZ_SEED").unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let most_faults = number("VOLLEY_FUZZ_FAULTS").unwrap_or(1);
    eprintln!(
        "fuzz: queries from seed {first} for {seconds} s; VOLLEY_FUZZ_SEED={first} repeats it"
    );
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut counts = Counts::default();
    let mut faults: BTreeMap<String, u64> = BTreeMap::new();
    for seed in first.. {
        for scenario in runs(seed, 3) {
            let Some(fault) = counts.check(&scenario) else {
                continue;
            };
            let alike = faults.entry(fault.signature()).or_default();
            *alike += 1;
            if *alike > 1 && fault.is_error() || *alike > most_faults {
                continue;
            }
            eprintln!("{}\n", report(&scenario, &fault));
        }
        if Instant::now() >= end || faults.values().sum::<u64>() >= most_faults.max(1) * 20 {
            break;
        }
    }
    eprintln!("fuzz: {}", counts.show());
    assert!(faults.is_empty(), "faults: {faults:#?}");
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is a number, not {text}")),
    )
}
