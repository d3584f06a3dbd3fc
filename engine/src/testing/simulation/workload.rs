//! What a simulation runs: tables and their rows, a job, and what of its output no interleaving may change.

use std::fmt;

use crate::testing::case::{Expect, Expectation, Mode, Record, Step, TestCase};

/// How the output of two runs is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// Inserted rows, in any order.
    Append,
    /// What the changelog makes of a table: by the sink's key, or as a bag of rows.
    Final,
}

/// A job with its input.
#[derive(Debug, Clone)]
pub struct Workload {
    /// For people.
    pub name: String,
    /// CREATE TABLE statements.
    pub tables: Vec<String>,
    /// More statements, or nothing.
    pub sql: String,
    /// The SELECT or INSERT; empty where `sql` ends with the job.
    pub query: String,
    /// Options.
    pub set: Vec<(String, String)>,
    /// The rows and idle marks, in an order that is kept within a table's partition and free between them.
    pub steps: Vec<Step>,
    /// How many of the steps are there before the job starts (tables that are looked up).
    pub preloaded: usize,
    /// How outputs are compared.
    pub compared: Compared,
    /// Whether rows may come behind their watermark.
    pub late: bool,
    /// The largest parallelism.
    pub most_parallel: usize,
    /// Whether what has come out when nothing moves, before the input ends, is compared too. Not where bundles or the clock hold rows back.
    pub compared_at_rest: bool,
    /// A directory that the job writes lines to, compared as they are.
    pub directory: Option<std::path::PathBuf>,
}

impl Workload {
    /// The case that the test bench prepares.
    pub(super) fn case(&self) -> TestCase {
        let some = |text: &String| (!text.is_empty()).then(|| text.clone());
        TestCase {
            file: "simulation".into(),
            line: 1,
            name: self.name.clone(),
            why: None,
            certainty: None,
            set: self.set.clone(),
            vary: vec![],
            tables: self.tables.clone(),
            sql: some(&self.sql),
            sql_file: None,
            steps: self.steps.clone(),
            end_of_input: true,
            query: some(&self.query),
            expect: Expect::Single(Expectation {
                mode: match self.compared {
                    Compared::Append => Mode::Append,
                    Compared::Final => Mode::Final,
                },
                columns: None,
                rows: vec![],
                metrics: vec![],
            }),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (key, value) in &self.set {
            writeln!(f, "SET '{key}' = '{value}';")?;
        }
        for table in &self.tables {
            writeln!(f, "{table};")?;
        }
        for text in [&self.sql, &self.query] {
            if !text.is_empty() {
                writeln!(f, "{text};")?;
            }
        }
        for (number, step) in self.steps.iter().enumerate() {
            match step {
                Step::Record {
                    table,
                    partition,
                    record: Record::Row { kind, cells },
                } => {
                    let cells: Vec<String> = cells.iter().map(cell).collect();
                    writeln!(
                        f,
                        "-- {number}: {table}/{partition} {kind} {}",
                        cells.join(", ")
                    )?;
                }
                Step::Idle { table, partition } => {
                    writeln!(f, "-- {number}: {table}/{partition} is idle")?;
                }
                other => writeln!(f, "-- {number}: {other:?}")?,
            }
        }
        Ok(())
    }
}

fn cell(value: &serde_yaml_ng::Value) -> String {
    let text = serde_yaml_ng::to_string(value).unwrap_or_default();
    text.trim().replace('\n', " ")
}
