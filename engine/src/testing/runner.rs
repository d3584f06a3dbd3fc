//! Runs cases in all ways and judges what comes out.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::case::{
    Expect, Expectation, Mode, Phase, Step, TestCase, Variant, is_mistake, mistake, read_cases,
};
use super::execution::{Execution, Outcome};
use super::judge::{Difference, SinkResult, Strictness, judge, judge_output};
use super::prepare::{PreparedCase, SELECT, SinkTable, prepare};
use super::report::{CaseOutcome, CaseStatus, TestReport};
use super::stepped_job::StepperLauncher;
use super::test_connector::{TestBench, WrittenRow};
use super::ways::{Cuts, Way, WaySettings};
use crate::error::{Error, ErrorKind, Result};
use crate::types::TimeZone;

/// How test files are run.
#[derive(Debug, Clone)]
pub struct TestOptions {
    /// The ways in which each case is run. Default: all.
    pub ways: Vec<Way>,
    /// Only cases whose name contains this text.
    pub filter: Option<String>,
    /// Where a JUnit report goes.
    pub junit: Option<PathBuf>,
    /// Decides batch cuts and task orders of random ways. Default: 1.
    pub seed: u64,
}

impl Default for TestOptions {
    fn default() -> Self {
        TestOptions {
            ways: Way::ALL.to_vec(),
            filter: None,
            junit: None,
            seed: 1,
        }
    }
}

impl TestOptions {
    /// Takes the value of `--ways`: `all`, `one`, or names with commas between.
    pub fn set_ways(&mut self, ways: &str) -> Result<()> {
        self.ways = Way::parse_list(ways)?;
        Ok(())
    }
}

/// Runs the cases of test files. Fails where a file cannot be read or is no test file; a failing case is in the report.
pub fn run_files(paths: &[PathBuf], options: &TestOptions) -> Result<TestReport> {
    let mut cases = Vec::new();
    for path in paths {
        cases.extend(read_cases(path)?);
    }
    if let Some(filter) = &options.filter {
        cases.retain(|case| case.name.contains(filter.as_str()));
    }
    let report = TestReport {
        outcomes: cases
            .iter()
            .flat_map(|case| run_case(case, options))
            .collect(),
        seed: options.seed,
    };
    if let Some(path) = &options.junit {
        report.write_junit(path)?;
    }
    Ok(report)
}

/// Runs one case in the ways of the options.
pub fn run_case(case: &TestCase, options: &TestOptions) -> Vec<CaseOutcome> {
    let mut outcomes = Vec::new();
    for variant in case.variants() {
        for way in &options.ways {
            let status = match way.unavailable() {
                Some(reason) => CaseStatus::Skipped(reason.to_string()),
                None => status_of(case, &variant, *way, options.seed),
            };
            outcomes.push(CaseOutcome {
                file: case.file.clone(),
                line: case.line,
                name: format!("{}{}", case.name, variant.label()),
                way: *way,
                why: case.why.clone(),
                certainty: case.certainty,
                status,
            });
        }
    }
    outcomes
}

fn status_of(case: &TestCase, variant: &Variant, way: Way, seed: u64) -> CaseStatus {
    let run = execute(case, variant, way, seed);
    match judge_run(case, &run) {
        Ok(()) => CaseStatus::Passed,
        Err(difference) => CaseStatus::Failed(difference.to_string()),
    }
}

/// What a case came to in one way.
pub struct CaseRun {
    /// What each sink received, by its name; see [`CaseRun::result`] for a SELECT's.
    pub sinks: BTreeMap<String, SinkResult>,
    /// Counters by Flink's names.
    pub metrics: BTreeMap<String, u64>,
    /// Why it did not run to its end, and when.
    pub failure: Option<(Phase, Error)>,
    outputs: Vec<(usize, SinkResult)>,
    default_sink: Option<String>,
    strictness: Strictness,
    zone: TimeZone,
    mistake: Option<String>,
}

/// Runs a case in one way. A panic of the engine is a failure of this run only.
pub fn execute(case: &TestCase, variant: &Variant, way: Way, seed: u64) -> CaseRun {
    let seed = xxh3_64_with_seed(case.name.as_bytes(), seed);
    let settings = WaySettings::of(way, case, variant);
    let bench = Arc::new(TestBench::new(&case.steps));
    let mut run = CaseRun {
        sinks: BTreeMap::new(),
        metrics: BTreeMap::new(),
        failure: None,
        outputs: Vec::new(),
        default_sink: None,
        strictness: Strictness::NetEffect,
        zone: TimeZone::UTC,
        mistake: None,
    };
    let mut phase = Phase::Plan;
    let attempt =
        AssertUnwindSafe(|| attempt(case, variant, settings, &bench, seed, &mut run, &mut phase));
    let result = catch_unwind(attempt).unwrap_or_else(|panic| Err(panic_error(&panic)));
    if let Err(error) = result {
        run.failure = Some((phase, error));
    }
    run.mistake = bench_mistake(&bench);
    run
}

fn bench_mistake(bench: &Arc<TestBench>) -> Option<String> {
    catch_unwind(AssertUnwindSafe(|| bench.mistake()))
        .ok()
        .flatten()
}

fn panic_error(panic: &Box<dyn std::any::Any + Send>) -> Error {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    Error::internal(format!("panic: {}", text.unwrap_or("without a message")))
}

fn attempt(
    case: &TestCase,
    variant: &Variant,
    settings: WaySettings,
    bench: &Arc<TestBench>,
    seed: u64,
    run: &mut CaseRun,
    phase: &mut Phase,
) -> Result<()> {
    let prepared = prepare(case, variant, &settings.options(), bench)?;
    let config = &prepared.session.config;
    run.zone = TimeZone::parse(config.time_zone())?;
    run.strictness = strictness(case, settings, &prepared);
    run.default_sink = match &prepared.sinks[..] {
        [only] => Some(only.name.clone()),
        _ => None,
    };
    let has_output = case
        .steps
        .iter()
        .any(|step| matches!(step, Step::Output { .. }));
    if has_output && run.default_sink.is_none() {
        return Err(mistake("an `output` step needs a job with a single sink"));
    }
    let launcher = StepperLauncher::new(&prepared, settings, seed);
    let sink = run.default_sink.clone();
    let execution = Execution::start(
        &launcher,
        bench.clone(),
        &case.steps,
        settings,
        sink.as_deref(),
        seed,
    )?;
    *phase = Phase::Runtime;
    let outcome = execution.run(case.end_of_input)?;
    collect(case, &prepared, bench, outcome, run)
}

fn strictness(case: &TestCase, settings: WaySettings, prepared: &PreparedCase) -> Strictness {
    let config = &prepared.session.config;
    let one_by_one = settings.cuts == Cuts::Rows && !settings.kills;
    let rescales = case
        .steps
        .iter()
        .any(|step| matches!(step, Step::RestoreWithParallelism(_)));
    if !one_by_one
        || rescales
        || config.parallelism() > 1
        || config.boolean("table.exec.mini-batch.enabled")
    {
        return Strictness::NetEffect;
    }
    let tables = prepared.session.catalog.table_names();
    let has_watermark = |name: &String| {
        prepared
            .session
            .catalog
            .table(name)
            .is_some_and(|table| table.watermark.is_some())
    };
    Strictness::Exact {
        has_watermark: tables.iter().any(has_watermark),
    }
}

fn collect(
    case: &TestCase,
    prepared: &PreparedCase,
    bench: &TestBench,
    outcome: Outcome,
    run: &mut CaseRun,
) -> Result<()> {
    let result = |table: SinkTable, rows: Vec<WrittenRow>| SinkResult {
        schema: table.schema,
        key: table.key,
        rows,
    };
    let mut names: Vec<String> = prepared
        .sinks
        .iter()
        .map(|sink| sink.name.clone())
        .collect();
    if let Expect::PerSink(sinks) = &case.expect {
        names.extend(sinks.iter().map(|(name, _)| name.clone()));
    }
    for name in names {
        let rows = match case.end_of_input {
            true => bench.committed(&name),
            false => bench.written(&name),
        };
        if let Some(table) = prepared.sink(&name) {
            run.sinks.insert(name, result(table, rows));
        }
    }
    run.metrics = outcome.metrics;
    for output in outcome.outputs {
        let name = run.default_sink.as_deref().unwrap_or_default();
        if let Some(table) = prepared.sink(name) {
            run.outputs.push((output.step, result(table, output.rows)));
        }
    }
    Ok(())
}

impl CaseRun {
    /// What the SELECT gave, or the only INSERT.
    pub fn result(&self) -> Option<&SinkResult> {
        self.sinks
            .get(self.default_sink.as_deref().unwrap_or(SELECT))
    }
}

fn judge_run(case: &TestCase, run: &CaseRun) -> Result<(), Difference> {
    if let Some(mistake) = &run.mistake {
        return Err(Difference::new(format!("the case is wrong: {mistake}")));
    }
    if let Some((phase, error)) = &run.failure {
        return judge_failure(case, *phase, error);
    }
    judge_outputs(case, run)?;
    match &case.expect {
        Expect::Single(expectation) => {
            let result = run.result().ok_or_else(|| {
                Difference::new(
                    "the case is wrong: it has several sinks, so `expect` must name them",
                )
            });
            judge_sink(expectation, expected_result(expectation, result)?, run)
        }
        Expect::PerSink(sinks) => {
            for (name, expectation) in sinks {
                let result = run.sinks.get(name).ok_or_else(|| {
                    Difference::new(format!("the case is wrong: there is no table {name}"))
                });
                judge_sink(expectation, expected_result(expectation, result)?, run)
                    .map_err(|difference| difference.of_sink(name))?;
            }
            Ok(())
        }
    }
}

fn expected_result<'r>(
    expectation: &Expectation,
    result: Result<&'r SinkResult, Difference>,
) -> Result<&'r SinkResult, Difference> {
    match &expectation.mode {
        Mode::Error { phase, .. } => Err(Difference::new(format!(
            "an error was expected {}, but the case ran to its end",
            when(*phase)
        ))),
        _ => result,
    }
}

fn judge_sink(
    expectation: &Expectation,
    result: &SinkResult,
    run: &CaseRun,
) -> Result<(), Difference> {
    judge(expectation, result, &run.zone, run.strictness)?;
    for (name, expected) in &expectation.metrics {
        let actual = run.metrics.get(name).copied().unwrap_or(0);
        if actual != *expected {
            return Err(Difference::new(format!(
                "metric {name} is {actual}, expected {expected}"
            )));
        }
    }
    Ok(())
}

fn judge_outputs(case: &TestCase, run: &CaseRun) -> Result<(), Difference> {
    for (at, result) in &run.outputs {
        let Step::Output { rows } = &case.steps[*at] else {
            continue;
        };
        judge_output(rows, result, &run.zone, run.strictness)
            .map_err(|difference| difference.of_sink(&format!("the output at step {}", at + 1)))?;
    }
    Ok(())
}

fn judge_failure(case: &TestCase, phase: Phase, error: &Error) -> Result<(), Difference> {
    let message = error.to_string();
    let expectation = match &case.expect {
        Expect::Single(expectation) => Some(&expectation.mode),
        Expect::PerSink(_) => None,
    };
    let Some(Mode::Error {
        phase: expected,
        contains,
        about,
    }) = expectation
    else {
        return Err(Difference::new(format!(
            "it failed {}: {message}",
            when(phase)
        )));
    };
    if is_mistake(error) {
        return Err(Difference::new(message));
    }
    if error.kind() == ErrorKind::Internal {
        return Err(Difference::new(format!(
            "an internal error is nobody's answer: {message}"
        )));
    }
    if phase != *expected {
        return Err(Difference::new(format!(
            "the error came {}, expected {}: {message}",
            when(phase),
            when(*expected)
        )));
    }
    let lower = message.to_lowercase();
    let missing: Vec<&str> = contains
        .iter()
        .filter(|word| !lower.contains(&word.to_lowercase()))
        .map(String::as_str)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let about = about
        .as_ref()
        .map(|about| format!(" (it should say: {about})"))
        .unwrap_or_default();
    Err(Difference::new(format!(
        "the error lacks {}{about}: {message}",
        missing.join(", ")
    )))
}

fn when(phase: Phase) -> &'static str {
    match phase {
        Phase::Plan => "when planning",
        Phase::Runtime => "at run time",
    }
}

#[cfg(test)]
mod tests;
