//! Reads a test file: YAML text to a list of cases, checked key by key.
//!
//! A key that nobody knows is an error with the file, the line and the name of the case: a misspelt `expct` must not make
//! a case pass. Cells stay YAML here; they become values when the type of their column is known (see `cell`).

use std::path::{Path, PathBuf};

use serde_yaml_ng::{Mapping, Value as Yaml};

use crate::config::edit_distance;
use crate::error::{Error, Result};
use crate::types::RowKind;

/// One case: tables, rows in the order in which they arrive, and what must come out.
#[derive(Debug, Clone)]
pub struct TestCase {
    /// The file it stands in.
    pub file: PathBuf,
    /// The line at which it begins, from 1.
    pub line: usize,
    /// Its name, unique in its file.
    pub name: String,
    /// A line for people, shown when it fails.
    pub why: Option<String>,
    /// How sure the expected result is.
    pub certainty: Option<Certainty>,
    /// Options of the session, as by SET.
    pub set: Vec<(String, String)>,
    /// Options of which each value makes a run of its own.
    pub vary: Vec<(String, Vec<String>)>,
    /// CREATE TABLE statements.
    pub tables: Vec<String>,
    /// More statements.
    pub sql: Option<String>,
    /// A file with more statements, as a path that can be opened.
    pub sql_file: Option<PathBuf>,
    /// What happens, in order.
    pub steps: Vec<Step>,
    /// Whether the input ends behind the last step.
    pub end_of_input: bool,
    /// The SELECT or INSERT under test; `None` where `sql` or `sql_file` holds it.
    pub query: Option<String>,
    /// What must come out.
    pub expect: Expect,
}

/// How sure the expected result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// It follows from the documentation, or was measured.
    Certain,
    /// Nobody has measured it.
    Likely,
    /// It wants a look at a real Flink.
    Check,
}

/// One thing that happens during a case.
#[derive(Debug, Clone)]
pub enum Step {
    /// A record arrives.
    Record {
        /// The table that is fed.
        table: String,
        /// The partition, from 0.
        partition: usize,
        /// What arrives.
        record: Record,
    },
    /// A checkpoint is taken and completes.
    Checkpoint {
        /// The job stops right after its sinks committed; a restore must follow.
        crash_after_commit: bool,
    },
    /// The job stops without warning and starts again from the last completed checkpoint.
    KillAndRestore,
    /// The same at another parallelism.
    RestoreWithParallelism(usize),
    /// The same with another query.
    RestoreWithQuery(String),
    /// The source says that a partition is idle.
    Idle {
        /// The table.
        table: String,
        /// The partition.
        partition: usize,
    },
    /// The barrier of a checkpoint reaches a partition now.
    Barrier {
        /// The table.
        table: String,
        /// The partition.
        partition: usize,
    },
    /// The clock moves on.
    AdvanceProcessingTime {
        /// By how many milliseconds.
        ms: i64,
    },
    /// What was emitted since the last such step.
    Output {
        /// Each row with its kind first.
        rows: Vec<(RowKind, Vec<Yaml>)>,
    },
}

/// What arrives at a table.
#[derive(Debug, Clone)]
pub enum Record {
    /// A row: its kind and a cell for each physical column.
    Row {
        /// What it does.
        kind: RowKind,
        /// The physical columns in order.
        cells: Vec<Yaml>,
    },
    /// A payload for the table's format.
    Raw {
        /// The bytes; `None` is a tombstone.
        payload: Option<Vec<u8>>,
        /// The bytes of the message's key.
        key: Option<Vec<u8>>,
    },
}

/// What must come out of the query, or of each sink by name.
#[derive(Debug, Clone)]
pub enum Expect {
    /// Of the query, or of the only INSERT's sink.
    Single(Expectation),
    /// Of the named sinks.
    PerSink(Vec<(String, Expectation)>),
}

/// What must come out of one query or sink.
#[derive(Debug, Clone)]
pub struct Expectation {
    /// How results are compared.
    pub mode: Mode,
    /// The names of the columns, where they matter.
    pub columns: Option<Vec<String>>,
    /// The rows; of a changelog the first cell is the kind.
    pub rows: Vec<Vec<Yaml>>,
    /// Counters by Flink's names.
    pub metrics: Vec<(String, u64)>,
}

/// How results are compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// A multiset of inserted rows.
    Append,
    /// The table after the whole changelog.
    Final,
    /// Exact kinds and order at batch size 1 and parallelism 1.
    Changelog,
    /// A refusal.
    Error {
        /// When.
        phase: Phase,
        /// Words of the message, in any letter case.
        contains: Vec<String>,
        /// What it should say, for people.
        about: Option<String>,
    },
}

/// When a refusal must come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before anything runs.
    Plan,
    /// While rows flow.
    Runtime,
}

/// Reads the cases of a file.
pub fn read_cases(path: &Path) -> Result<Vec<TestCase>> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Error::external(format!("cannot read {}: {error}", path.display())))?;
    parse_cases(path, &text)
}

/// Reads the cases of a text; `path` is for messages and for the place of `sql_file`.
pub fn parse_cases(path: &Path, text: &str) -> Result<Vec<TestCase>> {
    let items: Vec<Yaml> = serde_yaml_ng::from_str(text)
        .map_err(|error| Error::user(format!("{}: no test file: {error}", path.display())))?;
    let lines = item_lines(text);
    let mut cases: Vec<TestCase> = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let place = Place {
            file: path,
            first_line: lines.get(index).copied().unwrap_or(1),
            end_line: lines.get(index + 1).copied().unwrap_or(usize::MAX),
            text,
            name: item.get("name").and_then(Yaml::as_str).unwrap_or("?"),
        };
        let case = place.case(&item)?;
        if cases.iter().any(|earlier| earlier.name == case.name) {
            return Err(place.error("name", "another case of this file has this name"));
        }
        cases.push(case);
    }
    Ok(cases)
}

/// The lines at which the items of a top-level block sequence begin.
fn item_lines(text: &str) -> Vec<usize> {
    text.lines()
        .enumerate()
        .filter(|(_, line)| line.starts_with("- "))
        .map(|(index, _)| index + 1)
        .collect()
}

const CASE_KEYS: &[&str] = &[
    "name",
    "why",
    "certainty",
    "set",
    "vary",
    "tables",
    "sql",
    "sql_file",
    "steps",
    "end_of_input",
    "query",
    "expect",
];

/// Where a case stands, for messages.
struct Place<'a> {
    file: &'a Path,
    first_line: usize,
    end_line: usize,
    text: &'a str,
    name: &'a str,
}

impl Place<'_> {
    /// An error at the first line of the case that shows `near`.
    fn error(&self, near: &str, message: impl std::fmt::Display) -> Error {
        let line = self
            .text
            .lines()
            .enumerate()
            .skip(self.first_line - 1)
            .take(self.end_line - self.first_line)
            .find(|(_, line)| line.contains(near))
            .map_or(self.first_line, |(index, _)| index + 1);
        Error::user(format!(
            "{}:{line}: case \"{}\": {message}",
            self.file.display(),
            self.name
        ))
    }

    fn case(&self, item: &Yaml) -> Result<TestCase> {
        let map = self.mapping(item, "a case", "")?;
        self.check_keys(map, CASE_KEYS, "a case")?;
        let expect = map
            .get("expect")
            .ok_or_else(|| self.error("", "`expect` is missing"))?;
        Ok(TestCase {
            file: self.file.to_path_buf(),
            line: self.first_line,
            name: self
                .optional_text(map, "name")?
                .ok_or_else(|| self.error("", "`name` is missing"))?,
            why: self.optional_text(map, "why")?,
            certainty: self.certainty(map)?,
            set: self.options(map)?,
            vary: self.vary(map)?,
            tables: self.texts(map, "tables")?,
            sql: self.optional_text(map, "sql")?,
            sql_file: self
                .optional_text(map, "sql_file")?
                .map(|file| self.file.parent().unwrap_or(Path::new("")).join(file)),
            steps: self.steps(map)?,
            end_of_input: match map.get("end_of_input") {
                None => true,
                Some(value) => value
                    .as_bool()
                    .ok_or_else(|| self.error("end_of_input", "`end_of_input` is true or false"))?,
            },
            query: self.optional_text(map, "query")?,
            expect: self.expect(expect)?,
        })
    }

    fn mapping<'y>(&self, value: &'y Yaml, what: &str, near: &str) -> Result<&'y Mapping> {
        value
            .as_mapping()
            .ok_or_else(|| self.error(near, format!("{what} is a mapping of keys")))
    }

    fn sequence<'y>(&self, value: &'y Yaml, key: &str) -> Result<&'y Vec<Yaml>> {
        value
            .as_sequence()
            .ok_or_else(|| self.error(key, format!("`{key}` is a list")))
    }

    fn check_keys(&self, map: &Mapping, known: &[&str], owner: &str) -> Result<()> {
        for key in map.keys() {
            let shown = scalar_text(key).unwrap_or_default();
            if !known.contains(&shown.as_str()) {
                let message = format!("{owner} has no key `{shown}`");
                return Err(self
                    .error(&format!("{shown}:"), message)
                    .hint(known_keys(&shown, known)));
            }
        }
        Ok(())
    }

    fn text(&self, value: &Yaml, key: &str) -> Result<String> {
        scalar_text(value).ok_or_else(|| self.error(key, format!("`{key}` is text")))
    }

    fn optional_text(&self, map: &Mapping, key: &str) -> Result<Option<String>> {
        map.get(key)
            .filter(|value| !value.is_null())
            .map(|value| self.text(value, key))
            .transpose()
    }

    fn texts(&self, map: &Mapping, key: &str) -> Result<Vec<String>> {
        let Some(value) = map.get(key) else {
            return Ok(Vec::new());
        };
        self.sequence(value, key)?
            .iter()
            .map(|item| self.text(item, key))
            .collect()
    }

    fn number(&self, map: &Mapping, key: &str) -> Result<i64> {
        map.get(key)
            .and_then(Yaml::as_i64)
            .ok_or_else(|| self.error(key, format!("`{key}` is a whole number")))
    }

    fn certainty(&self, map: &Mapping) -> Result<Option<Certainty>> {
        let Some(text) = self.optional_text(map, "certainty")? else {
            return Ok(None);
        };
        match text.split_whitespace().next() {
            Some("certain") => Ok(Some(Certainty::Certain)),
            Some("likely") => Ok(Some(Certainty::Likely)),
            Some("check") => Ok(Some(Certainty::Check)),
            _ => Err(self.error("certainty", "`certainty` is certain, likely or check")),
        }
    }

    fn options(&self, map: &Mapping) -> Result<Vec<(String, String)>> {
        let Some(set) = map.get("set") else {
            return Ok(Vec::new());
        };
        self.mapping(set, "`set`", "set:")?
            .iter()
            .map(|(key, value)| Ok((self.text(key, "set")?, self.text(value, "set")?)))
            .collect()
    }

    fn vary(&self, map: &Mapping) -> Result<Vec<(String, Vec<String>)>> {
        let Some(vary) = map.get("vary") else {
            return Ok(Vec::new());
        };
        let mut result = Vec::new();
        for (key, values) in self.mapping(vary, "`vary`", "vary:")? {
            let values: Vec<String> = self
                .sequence(values, "vary")?
                .iter()
                .map(|value| self.text(value, "vary"))
                .collect::<Result<_>>()?;
            if values.is_empty() {
                return Err(self.error("vary", "an option of `vary` needs at least one value"));
            }
            result.push((self.text(key, "vary")?, values));
        }
        Ok(result)
    }

    fn steps(&self, map: &Mapping) -> Result<Vec<Step>> {
        let Some(steps) = map.get("steps") else {
            return Ok(Vec::new());
        };
        self.sequence(steps, "steps")?
            .iter()
            .enumerate()
            .map(|(index, step)| {
                self.step(step)
                    .map_err(|error| error.context(format!("in step {}", index + 1)))
            })
            .collect()
    }

    fn step(&self, step: &Yaml) -> Result<Step> {
        if let Some(word) = step.as_str() {
            return match word {
                "checkpoint" => Ok(Step::Checkpoint {
                    crash_after_commit: false,
                }),
                "kill_and_restore" => Ok(Step::KillAndRestore),
                _ => Err(self.error(
                    word,
                    format!(
                        "there is no step `{word}`: a bare word is checkpoint or kill_and_restore"
                    ),
                )),
            };
        }
        let map = self.mapping(step, "a step", "steps:")?;
        let single = map.iter().next().filter(|_| map.len() == 1);
        let Some((Yaml::String(word), argument)) = single else {
            return Err(self.error("steps:", "a step has exactly one key"));
        };
        match word.as_str() {
            "checkpoint" => self.crashing_checkpoint(argument),
            "restore_with_parallelism" => self.restore_with_parallelism(argument),
            "restore_with_query" => self.restore_with_query(argument),
            "idle" => {
                let (table, partition) = self.partition_of(argument, word)?;
                Ok(Step::Idle { table, partition })
            }
            "barrier" => {
                let (table, partition) = self.partition_of(argument, word)?;
                Ok(Step::Barrier { table, partition })
            }
            "advance_processing_time" => self.advance_processing_time(argument),
            "output" => self.output(argument),
            table => self.record(table, argument),
        }
    }

    fn crashing_checkpoint(&self, argument: &Yaml) -> Result<Step> {
        let map = self.mapping(argument, "`checkpoint`", "checkpoint:")?;
        self.check_keys(map, &["crash"], "`checkpoint`")?;
        match self.optional_text(map, "crash")?.as_deref() {
            Some("after_commit") => Ok(Step::Checkpoint {
                crash_after_commit: true,
            }),
            None => Ok(Step::Checkpoint {
                crash_after_commit: false,
            }),
            Some(_) => Err(self.error("crash", "`crash` is after_commit")),
        }
    }

    fn restore_with_parallelism(&self, argument: &Yaml) -> Result<Step> {
        let map = self.mapping(argument, "`restore_with_parallelism`", "restore_with")?;
        self.check_keys(map, &["parallelism"], "`restore_with_parallelism`")?;
        match self.number(map, "parallelism")? {
            parallelism @ 1.. => Ok(Step::RestoreWithParallelism(parallelism as usize)),
            _ => Err(self.error("parallelism", "`parallelism` is at least 1")),
        }
    }

    fn restore_with_query(&self, argument: &Yaml) -> Result<Step> {
        let map = self.mapping(argument, "`restore_with_query`", "restore_with")?;
        self.check_keys(map, &["query"], "`restore_with_query`")?;
        self.optional_text(map, "query")?
            .map(Step::RestoreWithQuery)
            .ok_or_else(|| self.error("restore_with_query", "`query` is missing"))
    }

    fn advance_processing_time(&self, argument: &Yaml) -> Result<Step> {
        let map = self.mapping(argument, "`advance_processing_time`", "advance_processing")?;
        self.check_keys(map, &["ms"], "`advance_processing_time`")?;
        match self.number(map, "ms")? {
            ms @ 0.. => Ok(Step::AdvanceProcessingTime { ms }),
            _ => Err(self.error("ms:", "the clock never goes back")),
        }
    }

    fn partition_of(&self, argument: &Yaml, word: &str) -> Result<(String, usize)> {
        let map = self.mapping(argument, &format!("`{word}`"), word)?;
        self.check_keys(map, &["table", "partition"], &format!("`{word}`"))?;
        let table = self
            .optional_text(map, "table")?
            .ok_or_else(|| self.error(word, "`table` is missing"))?;
        Ok((table, self.partition(map)?))
    }

    fn partition(&self, map: &Mapping) -> Result<usize> {
        if !map.contains_key("partition") {
            return Ok(0);
        }
        usize::try_from(self.number(map, "partition")?)
            .map_err(|_| self.error("partition", "`partition` counts from 0"))
    }

    fn output(&self, argument: &Yaml) -> Result<Step> {
        let map = self.mapping(argument, "`output`", "output:")?;
        self.check_keys(map, &["rows"], "`output`")?;
        let rows = self.rows(map)?;
        Ok(Step::Output {
            rows: rows
                .iter()
                .map(|row| self.kind_and_cells(row))
                .collect::<Result<_>>()?,
        })
    }

    fn record(&self, table: &str, argument: &Yaml) -> Result<Step> {
        let table = table.to_string();
        if argument.is_sequence() {
            return Ok(Step::Record {
                record: self.row(argument)?,
                partition: 0,
                table,
            });
        }
        let map = self.mapping(argument, "a record", &table)?;
        let partition = self.partition(map)?;
        let record = match map.get("row") {
            Some(row) => {
                self.check_keys(map, &["row", "partition"], "a row")?;
                self.row(row)?
            }
            None => self.raw(map)?,
        };
        Ok(Step::Record {
            table,
            partition,
            record,
        })
    }

    fn row(&self, row: &Yaml) -> Result<Record> {
        let cells = self.sequence(row, "row")?;
        let (kind, cells) = self.kind_and_cells(cells)?;
        Ok(Record::Row { kind, cells })
    }

    fn kind_and_cells(&self, row: &[Yaml]) -> Result<(RowKind, Vec<Yaml>)> {
        let (kind, cells) = split_kind(row).map_err(|message| self.error("", message))?;
        Ok((kind, cells.to_vec()))
    }

    fn raw(&self, map: &Mapping) -> Result<Record> {
        self.check_keys(
            map,
            &["raw", "raw_b64", "key_raw", "key_raw_b64", "partition"],
            "a payload",
        )?;
        let has_payload = map.contains_key("raw") || map.contains_key("raw_b64");
        if !has_payload {
            return Err(self.error(
                "",
                "a record is `[kind, cell, …]`, `row`, `raw` or `raw_b64`",
            ));
        }
        Ok(Record::Raw {
            payload: self.bytes(map, "raw", "raw_b64")?,
            key: self.bytes(map, "key_raw", "key_raw_b64")?,
        })
    }

    fn bytes(&self, map: &Mapping, text: &str, base64: &str) -> Result<Option<Vec<u8>>> {
        use base64::Engine as _;
        if let Some(value) = self.optional_text(map, base64)? {
            return base64::engine::general_purpose::STANDARD
                .decode(value)
                .map(Some)
                .map_err(|error| self.error(base64, format!("`{base64}`: {error}")));
        }
        Ok(self.optional_text(map, text)?.map(String::into_bytes))
    }

    fn expect(&self, value: &Yaml) -> Result<Expect> {
        let map = self.mapping(value, "`expect`", "expect:")?;
        if map.contains_key("mode") {
            return Ok(Expect::Single(self.expectation(map)?));
        }
        if map.is_empty() || map.values().any(|value| !value.is_mapping()) {
            return Err(self.error(
                "expect:",
                "`expect` has a `mode`, or a mapping with a `mode` for each sink",
            ));
        }
        map.iter()
            .map(|(sink, value)| {
                let expectation = self.expectation(self.mapping(value, "a sink", "expect:")?)?;
                Ok((self.text(sink, "expect")?, expectation))
            })
            .collect::<Result<_>>()
            .map(Expect::PerSink)
    }

    fn expectation(&self, map: &Mapping) -> Result<Expectation> {
        let mode = self.mode(map)?;
        let known: &[&str] = match mode {
            Mode::Error { .. } => &["mode", "phase", "contains", "about"],
            _ => &["mode", "columns", "rows", "metrics"],
        };
        self.check_keys(map, known, "`expect` of this mode")?;
        if !matches!(mode, Mode::Error { .. }) && !map.contains_key("rows") {
            return Err(self.error("expect:", "`rows` is missing"));
        }
        let rows = self.rows(map)?;
        if mode == Mode::Changelog {
            for row in &rows {
                self.kind_and_cells(row)?;
            }
        }
        Ok(Expectation {
            mode,
            columns: match map.contains_key("columns") {
                true => Some(self.texts(map, "columns")?),
                false => None,
            },
            rows,
            metrics: self.metrics(map)?,
        })
    }

    fn mode(&self, map: &Mapping) -> Result<Mode> {
        match self.optional_text(map, "mode")?.as_deref() {
            Some("append") => Ok(Mode::Append),
            Some("final") => Ok(Mode::Final),
            Some("changelog") => Ok(Mode::Changelog),
            Some("error") => Ok(Mode::Error {
                phase: match self.optional_text(map, "phase")?.as_deref() {
                    Some("plan") => Phase::Plan,
                    Some("runtime") => Phase::Runtime,
                    _ => return Err(self.error("expect:", "`phase` is plan or runtime")),
                },
                contains: self.texts(map, "contains")?,
                about: self.optional_text(map, "about")?,
            }),
            _ => Err(self.error("mode", "`mode` is append, final, changelog or error")),
        }
    }

    fn rows(&self, map: &Mapping) -> Result<Vec<Vec<Yaml>>> {
        let Some(rows) = map.get("rows") else {
            return Ok(Vec::new());
        };
        self.sequence(rows, "rows")?
            .iter()
            .map(|row| self.sequence(row, "rows").cloned())
            .collect()
    }

    fn metrics(&self, map: &Mapping) -> Result<Vec<(String, u64)>> {
        let Some(metrics) = map.get("metrics") else {
            return Ok(Vec::new());
        };
        self.mapping(metrics, "`metrics`", "metrics:")?
            .iter()
            .map(|(name, value)| {
                let value = value
                    .as_u64()
                    .ok_or_else(|| self.error("metrics", "a metric is a whole number"))?;
                Ok((self.text(name, "metrics")?, value))
            })
            .collect()
    }
}

/// What could have been meant instead of a key.
fn known_keys(key: &str, known: &[&str]) -> String {
    let closest = known
        .iter()
        .min_by_key(|name| edit_distance(name, key))
        .filter(|name| edit_distance(name, key) <= 2)
        .map(|name| format!("did you mean `{name}`? "))
        .unwrap_or_default();
    format!("{closest}known keys: {}", known.join(", "))
}

/// The kind and the cells of a row whose first element is the kind.
pub(super) fn split_kind(row: &[Yaml]) -> Result<(RowKind, &[Yaml]), String> {
    let (first, cells) = row
        .split_first()
        .ok_or_else(|| "a row begins with its kind".to_string())?;
    let kind = first.as_str().and_then(RowKind::from_symbol);
    kind.map(|kind| (kind, cells))
        .ok_or_else(|| "a row begins with its kind: +I, -U, +U or -D".to_string())
}

/// The text of a scalar as it was meant; `None` for null, lists and mappings.
pub(super) fn scalar_text(value: &Yaml) -> Option<String> {
    match value {
        Yaml::String(text) => Some(text.clone()),
        Yaml::Bool(value) => Some(value.to_string()),
        Yaml::Number(number) => Some(number.to_string()),
        Yaml::Tagged(tagged) => scalar_text(&tagged.value),
        Yaml::Null | Yaml::Sequence(_) | Yaml::Mapping(_) => None,
    }
}

const MISTAKE: &str = "the case is wrong: ";

/// An error of whoever wrote the case, which no expectation accepts.
pub(super) fn mistake(message: impl std::fmt::Display) -> Error {
    Error::user(format!("{MISTAKE}{message}"))
}

/// Whether an error comes from [`mistake`].
pub(super) fn is_mistake(error: &Error) -> bool {
    error.message().starts_with(MISTAKE)
}

impl TestCase {
    /// The runs that `vary` asks for: the options of each with its label, such as `[a=1]`. One without options where
    /// nothing varies.
    pub fn variants(&self) -> Vec<Variant> {
        let mut variants = vec![Variant::default()];
        for (key, values) in &self.vary {
            variants = variants
                .iter()
                .flat_map(|variant| {
                    values.iter().map(|value| {
                        let mut next = variant.clone();
                        next.set.push((key.clone(), value.clone()));
                        next
                    })
                })
                .collect();
        }
        variants
    }
}

/// One choice among what a case varies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variant {
    /// Options over those of the case.
    pub set: Vec<(String, String)>,
}

impl Variant {
    /// What follows the case's name in a report; empty where nothing varies.
    pub fn label(&self) -> String {
        if self.set.is_empty() {
            return String::new();
        }
        let parts: Vec<String> = self
            .set
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        format!(" [{}]", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<TestCase>> {
        parse_cases(Path::new("dir/x.yaml"), text)
    }

    #[test]
    fn a_whole_case_is_read() {
        let cases = parse(
            r#"
- name: first
  why: because
  certainty: check with real Flink
  set: {parallelism.default: 2}
  vary: {a: ['1', 2], b: [x]}
  tables:
  - CREATE TABLE t (k STRING)
  sql_file: job.sql
  steps:
  - {t: [+I, a, null, [1, 2]]}
  - {t: {row: [-D, a], partition: 1}}
  - {t: {raw: null, key_raw: 'k'}}
  - {t: {raw_b64: 'aGk='}}
  - checkpoint
  - {checkpoint: {crash: after_commit}}
  - kill_and_restore
  - {restore_with_parallelism: {parallelism: 3}}
  - {restore_with_query: {query: SELECT 1}}
  - {idle: {table: t, partition: 1}}
  - {barrier: {table: t}}
  - {advance_processing_time: {ms: 5000}}
  - {output: {rows: [[+U, a, 2]]}}
  end_of_input: false
  query: SELECT k FROM t
  expect:
    mode: changelog
    columns: [k]
    rows: [[+I, a]]
    metrics: {numLateRecordsDropped: 1}
- name: second
  expect: {one: {mode: append, rows: []}, two: {mode: final, rows: [[1]]}}
- name: third
  expect: {mode: error, phase: plan, contains: [x, '1'], about: y}
"#,
        )
        .unwrap();
        let first = &cases[0];
        assert_eq!((first.line, first.certainty), (2, Some(Certainty::Check)));
        assert_eq!(
            first.set,
            [("parallelism.default".to_string(), "2".to_string())]
        );
        assert_eq!(first.variants().len(), 2);
        assert_eq!(first.variants()[1].label(), " [a=2, b=x]");
        assert_eq!(first.sql_file, Some(PathBuf::from("dir/job.sql")));
        assert_eq!(first.steps.len(), 13);
        assert!(!first.end_of_input);
        assert!(matches!(
            &first.steps[1],
            Step::Record {
                partition: 1,
                record: Record::Row {
                    kind: RowKind::Delete,
                    ..
                },
                ..
            }
        ));
        assert!(matches!(
            &first.steps[3],
            Step::Record { record: Record::Raw { payload: Some(bytes), .. }, .. } if bytes == b"hi"
        ));
        assert!(matches!(&cases[1].expect, Expect::PerSink(sinks) if sinks.len() == 2));
        assert!(cases[1].end_of_input);
        let Expect::Single(third) = &cases[2].expect else {
            panic!("one expectation")
        };
        assert!(
            matches!(&third.mode, Mode::Error { phase: Phase::Plan, contains, .. } if contains.len() == 2)
        );
    }

    #[test]
    fn a_wrong_key_is_an_error_with_its_place() {
        let error = parse("- name: a\n  expect: {mode: append, rows: []}\n- name: b\n  expct: 1\n  expect: {mode: append, rows: []}\n")
            .unwrap_err()
            .to_string();
        for part in ["dir/x.yaml:4", "\"b\"", "`expct`", "did you mean `expect`?"] {
            assert!(error.contains(part), "{part} is missing in: {error}");
        }
        let nested = parse("- name: a\n  expect: {mode: append, rows: [], row: 1}\n").unwrap_err();
        assert!(nested.to_string().contains("`row`"));
        let step =
            parse("- name: a\n  steps:\n  - chekpoint\n  expect: {mode: append, rows: []}\n")
                .unwrap_err();
        assert!(step.to_string().contains("dir/x.yaml:3"), "{step}");
        assert!(parse("- name: a\n  expect: {rows: []}\n").is_err());
        assert!(parse("- name: a\n  expect: {mode: append}\n").is_err());
        assert!(parse("- name: a\n  expect: {mode: changelog, rows: [[a]]}\n").is_err());
        assert!(parse("nonsense").is_err());
    }

    #[test]
    fn names_are_unique() {
        let twice = "- name: a\n  expect: {mode: append, rows: []}\n".repeat(2);
        assert!(parse(&twice).unwrap_err().to_string().contains(":3:"));
    }
}
