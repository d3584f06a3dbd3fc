//! Runs a scenario on the engine, folds what its sink received, and compares it with the twin.

use std::collections::BTreeMap;
use std::fmt;

use serde_yaml_ng::Value as Yaml;
use volley::error::{Error, ErrorKind};
use volley::testing::case::{Expect, Expectation, Mode, Record, Step, TestCase, Variant};
use volley::testing::cell::{Value, row_text};
use volley::testing::{WrittenRow, compare_bags, execute};

use super::scenario::{Bound, Scenario};
use super::twin::{Ordered, Row, Unclear};

/// What a scenario came to.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The engine gives what the twin says.
    Held { rows: usize },
    /// The engine does not run the query, and says why.
    Refused(String),
    /// The twin has no answer.
    Unclear(Unclear),
    /// The engine is wrong.
    Fault(Fault),
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    pub(super) message: String,
}

/// Faults of one kind may have one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// A query that should bind does not.
    Binding,
    /// An error where there must be none.
    Failure,
    /// A law of changelogs is broken.
    Law,
    /// Other rows.
    Rows,
}

impl Fault {
    pub(super) fn is_error(&self) -> bool {
        matches!(self.kind, FaultKind::Binding | FaultKind::Failure)
    }

    /// Faults that are alike have the same: for errors it is the message.
    pub(super) fn signature(&self) -> String {
        match self.kind {
            FaultKind::Binding | FaultKind::Failure => without_numbers(&self.message),
            FaultKind::Law => "a law is broken".to_string(),
            FaultKind::Rows => "other rows".to_string(),
        }
    }
}

/// The first line of a message, without its numbers.
pub(super) fn without_numbers(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    line.chars()
        .filter(|c| !c.is_ascii_digit())
        .take(150)
        .collect()
}

pub(super) fn run(scenario: &Scenario) -> Outcome {
    let bound = match scenario.bind() {
        Ok(bound) => bound,
        Err(error) => return failed(&error, FaultKind::Binding),
    };
    let expected = match scenario.expected(&bound) {
        Ok(expected) => expected,
        Err(unclear) => return Outcome::Unclear(unclear),
    };
    let case = case(scenario, &bound, &expected);
    let run = execute(&case, &Variant::default(), scenario.way, scenario.seed);
    if let Some((_, error)) = &run.failure {
        return failed(error, FaultKind::Failure);
    }
    let Some(result) = run.result() else {
        return fault(FaultKind::Failure, "the job has no result".to_string());
    };
    let table = match bound.key.is_empty() {
        true => fold_bag(&result.rows),
        false => Ok(fold_by_key(&result.rows, &bound.key)),
    };
    let actual = match table {
        Ok(actual) => actual,
        Err(message) => return fault(FaultKind::Law, message),
    };
    let rows = expected.len();
    match compare_bags(expected, actual, "the result differs from the twin's") {
        Ok(()) => Outcome::Held { rows },
        Err(difference) => fault(FaultKind::Rows, difference.to_string()),
    }
}

fn fault(kind: FaultKind, message: String) -> Outcome {
    Outcome::Fault(Fault { kind, message })
}

/// A refusal says that something is not supported; any other error is a fault.
fn failed(error: &Error, kind: FaultKind) -> Outcome {
    let text = error.to_string();
    // Flink orders OVER by one column; an empty range of row numbers is named rather than run.
    let refusals = [
        "support",
        "can only be ordered by a single",
        "is never true",
    ];
    let is_refusal = refusals.iter().any(|words| text.contains(words));
    match error.kind() == ErrorKind::User && is_refusal {
        true => Outcome::Refused(text),
        false => fault(kind, text),
    }
}

/// The rows that stay. No row may be taken back that is not there.
fn fold_bag(rows: &[WrittenRow]) -> Result<Vec<Row>, String> {
    let mut counts: BTreeMap<Ordered, i64> = BTreeMap::new();
    for row in rows {
        let count = counts.entry(Ordered(row.cells.clone())).or_default();
        *count += row.kind.weight();
        if *count < 0 {
            return Err(format!(
                "{} {} takes back a row that is not there\n{}",
                row.kind,
                row_text(&row.cells),
                log(rows)
            ));
        }
    }
    let copies = |(row, count): (Ordered, i64)| std::iter::repeat_n(row.0, count as usize);
    Ok(counts.into_iter().flat_map(copies).collect())
}

/// The last row of each key. Where a filter lets a -U through and holds back its +U, the -U takes the row away.
fn fold_by_key(rows: &[WrittenRow], key: &[usize]) -> Vec<Row> {
    let mut table: BTreeMap<Ordered, Row> = BTreeMap::new();
    for row in rows {
        let key = Ordered(
            key.iter()
                .map(|column| row.cells[*column].clone())
                .collect(),
        );
        match row.kind.is_accumulate() {
            true => table.insert(key, row.cells.clone()),
            false => table.remove(&key),
        };
    }
    table.into_values().collect()
}

fn log(rows: &[WrittenRow]) -> String {
    let lines = rows
        .iter()
        .map(|row| format!("    {} {}\n", row.kind, row_text(&row.cells)));
    lines.collect()
}

/// The scenario as a case of a test file.
fn case(scenario: &Scenario, bound: &Bound, expected: &[Row]) -> TestCase {
    TestCase {
        file: "random".into(),
        line: 1,
        name: format!("seed {}", scenario.seed),
        why: None,
        certainty: None,
        set: scenario.set.clone(),
        vary: vec![],
        tables: bound.tables.clone(),
        sql: None,
        sql_file: None,
        steps: steps(scenario),
        end_of_input: true,
        query: Some(bound.query.clone()),
        expect: Expect::Single(Expectation {
            mode: Mode::Final,
            columns: None,
            rows: expected
                .iter()
                .map(|row| row.iter().map(yaml).collect())
                .collect(),
            metrics: vec![],
        }),
    }
}

pub(super) fn steps(scenario: &Scenario) -> Vec<Step> {
    let mut steps = Vec::new();
    for at in 0..=scenario.history.len() {
        let events = scenario.events.iter().filter(|(before, _)| *before == at);
        steps.extend(events.map(|(_, step)| step.clone()));
        if let Some(change) = scenario.history.get(at) {
            steps.push(Step::Record {
                table: scenario.tables[change.table].name.clone(),
                partition: change.partition,
                record: Record::Row {
                    kind: change.kind,
                    cells: change.row.iter().map(yaml).collect(),
                },
            });
        }
    }
    steps
}

fn yaml(value: &Value) -> Yaml {
    match value {
        Value::Null => Yaml::Null,
        Value::Text(text) => Yaml::String(text.clone()),
        Value::Integer(number) => Yaml::Number((*number).into()),
        Value::Boolean(value) => Yaml::Bool(*value),
        Value::List(values) => Yaml::Sequence(values.iter().map(yaml).collect()),
        other => Yaml::String(other.to_string()),
    }
}

/// The scenario as text for a test file: a case that fails until the fault is gone.
pub(super) struct AsCase<'s>(pub(super) &'s Scenario);

impl fmt::Display for AsCase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scenario = self.0;
        let Ok(bound) = scenario.bind() else {
            return writeln!(
                f,
                "# not bound: {:?}\n{}",
                scenario.tables,
                super::draft::plain(&scenario.draft)
            );
        };
        let expected = scenario.expected(&bound).unwrap_or_default();
        writeln!(f, "- name: random query {}", scenario.seed)?;
        if !scenario.set.is_empty() {
            let set: Vec<String> = scenario
                .set
                .iter()
                .map(|(key, value)| format!("{key}: '{value}'"))
                .collect();
            writeln!(f, "  set: {{{}}}", set.join(", "))?;
        }
        writeln!(f, "  tables:")?;
        for table in &bound.tables {
            writeln!(
                f,
                "  - {}",
                table
                    .replace("'connector' = 'test', ", "")
                    .replace(", 'partitions' = '1'", "")
            )?;
        }
        writeln!(f, "  steps:")?;
        for step in steps(scenario) {
            writeln!(f, "  - {}", StepText(&step))?;
        }
        writeln!(f, "  query: >-\n    {}", bound.query)?;
        writeln!(f, "  expect:\n    mode: final\n    rows:")?;
        for row in expected {
            writeln!(f, "    - {}", flow(&row))?;
        }
        writeln!(f, "# way {}, seed {}", scenario.way.name(), scenario.seed)
    }
}

struct StepText<'s>(&'s Step);

impl fmt::Display for StepText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Step::Record {
                table,
                partition,
                record: Record::Row { kind, cells },
            } => {
                let cells: Vec<String> = cells.iter().map(flow_yaml).collect();
                let row = format!("[{kind}, {}]", cells.join(", "));
                match partition {
                    0 => write!(f, "{{{table}: {row}}}"),
                    _ => write!(f, "{{{table}: {{row: {row}, partition: {partition}}}}}"),
                }
            }
            Step::KillAndRestore => write!(f, "kill_and_restore"),
            Step::RestoreWithParallelism(parallelism) => {
                write!(
                    f,
                    "{{restore_with_parallelism: {{parallelism: {parallelism}}}}}"
                )
            }
            Step::AdvanceProcessingTime { ms } => {
                write!(f, "{{advance_processing_time: {{ms: {ms}}}}}")
            }
            _ => write!(f, "checkpoint"),
        }
    }
}

fn flow(row: &[Value]) -> String {
    let cells: Vec<String> = row.iter().map(|value| flow_yaml(&yaml(value))).collect();
    format!("[{}]", cells.join(", "))
}

fn flow_yaml(value: &Yaml) -> String {
    match value {
        Yaml::Null => "null".to_string(),
        Yaml::Bool(value) => value.to_string(),
        Yaml::Number(number) => number.to_string(),
        Yaml::Sequence(values) => {
            let values: Vec<String> = values.iter().map(flow_yaml).collect();
            format!("[{}]", values.join(", "))
        }
        other => format!("'{}'", other.as_str().unwrap_or_default()),
    }
}
