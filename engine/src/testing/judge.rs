//! Compares what came out with what was expected, and shows both side by side.

use std::collections::BTreeMap;
use std::fmt;

use serde_yaml_ng::Value as Yaml;

use super::case::{Expectation, Mode, split_kind};
use super::cell::{Value, order_rows, read_cell, row_text, same_row};
use super::test_connector::WrittenRow;
use crate::types::{RowKind, Schema, TimeZone};

/// What a sink received, and how it is read as a table.
#[derive(Debug, Clone)]
pub struct SinkResult {
    /// Its columns.
    pub schema: Schema,
    /// The columns by which upserts are applied; empty: the changelog is a signed bag.
    pub key: Vec<usize>,
    /// The rows in the order of writing.
    pub rows: Vec<WrittenRow>,
}

/// How strictly a changelog is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strictness {
    /// Kinds and order; between rows of one step the order is free where a watermark may have fired several keys.
    Exact {
        /// Whether a watermark can fire.
        has_watermark: bool,
    },
    /// What it makes of the table.
    NetEffect,
}

/// Why a result is not the expected one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What differs.
    pub reason: String,
    lines: Vec<Line>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    expected: String,
    actual: String,
    differs: bool,
}

impl Difference {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Difference {
            reason: reason.into(),
            lines: Vec::new(),
        }
    }

    /// The same of a named part of the result.
    pub(super) fn of_sink(mut self, name: &str) -> Self {
        self.reason = format!("{name}: {}", self.reason);
        self
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        if self.lines.is_empty() {
            return Ok(());
        }
        let longest = self
            .lines
            .iter()
            .map(|line| line.expected.chars().count())
            .max();
        let width = longest.unwrap_or(0).max("expected".len());
        write!(f, "\n    {:width$} | actual", "expected")?;
        for line in &self.lines {
            let mark = if line.differs { '!' } else { ' ' };
            write!(f, "\n  {mark} {:width$} | {}", line.expected, line.actual)?;
        }
        Ok(())
    }
}

/// A row of a changelog.
type Change = (RowKind, Vec<Value>);

/// Compares the result of one sink with its expectation.
pub(super) fn judge(
    expectation: &Expectation,
    result: &SinkResult,
    zone: &TimeZone,
    strictness: Strictness,
) -> Result<(), Difference> {
    check_columns(expectation, &result.schema)?;
    let read = |row: &[Yaml]| read_row(row, &result.schema, zone);
    match &expectation.mode {
        Mode::Append => {
            let expected = expectation
                .rows
                .iter()
                .map(|row| read(row))
                .collect::<Result<_, _>>()?;
            judge_append(expected, &result.rows)
        }
        Mode::Final => {
            let expected = expectation
                .rows
                .iter()
                .map(|row| read(row))
                .collect::<Result<_, _>>()?;
            judge_final(expected, &changes(&result.rows), &result.key)
        }
        Mode::Changelog => {
            let expected = expectation
                .rows
                .iter()
                .map(|row| {
                    let (kind, cells) = split_kind(row).map_err(Difference::new)?;
                    Ok((kind, read(cells)?))
                })
                .collect::<Result<Vec<Change>, Difference>>()?;
            judge_changelog(&expected, result, strictness)
        }
        Mode::Error { .. } => Err(Difference::new("the case must be refused, but it ran")),
    }
}

/// Compares what was emitted since the last `output` step with what that step says.
pub(super) fn judge_output(
    expected: &[(RowKind, Vec<Yaml>)],
    result: &SinkResult,
    zone: &TimeZone,
    strictness: Strictness,
) -> Result<(), Difference> {
    let expected = expected
        .iter()
        .map(|(kind, cells)| Ok((*kind, read_row(cells, &result.schema, zone)?)))
        .collect::<Result<Vec<Change>, Difference>>()?;
    judge_changelog(&expected, result, strictness)
}

fn check_columns(expectation: &Expectation, schema: &Schema) -> Result<(), Difference> {
    let Some(columns) = &expectation.columns else {
        return Ok(());
    };
    let actual: Vec<&str> = schema.names().collect();
    if *columns == actual {
        return Ok(());
    }
    Err(Difference::new(format!(
        "the columns are ({}), expected ({})",
        actual.join(", "),
        columns.join(", ")
    )))
}

fn read_row(row: &[Yaml], schema: &Schema, zone: &TimeZone) -> Result<Vec<Value>, Difference> {
    if row.len() != schema.len() {
        return Err(Difference::new(format!(
            "an expected row has {} cells, but the result has {} columns: {}",
            row.len(),
            schema.len(),
            schema.names().collect::<Vec<_>>().join(", ")
        )));
    }
    std::iter::zip(row, &schema.fields)
        .map(|(cell, field)| {
            read_cell(cell, &field.logical_type, zone).map_err(|message| {
                Difference::new(format!("expected cell of column {}: {message}", field.name))
            })
        })
        .collect()
}

fn changes(rows: &[WrittenRow]) -> Vec<Change> {
    rows.iter()
        .map(|row| (row.kind, row.cells.clone()))
        .collect()
}

fn judge_append(expected: Vec<Vec<Value>>, rows: &[WrittenRow]) -> Result<(), Difference> {
    if let Some(row) = rows.iter().find(|row| row.kind != RowKind::Insert) {
        return Err(Difference::new(format!(
            "the result is not append-only: {} {}",
            row.kind,
            row_text(&row.cells)
        )));
    }
    let actual = rows.iter().map(|row| row.cells.clone()).collect();
    compare_bags(expected, actual, "the inserted rows differ")
}

fn judge_final(
    expected: Vec<Vec<Value>>,
    changes: &[Change],
    key: &[usize],
) -> Result<(), Difference> {
    compare_bags(expected, table_of(changes, key)?, "the final table differs")
}

/// The table after a changelog: by key where there is one, else as a signed bag.
pub(super) fn table_of(changes: &[Change], key: &[usize]) -> Result<Vec<Vec<Value>>, Difference> {
    if key.is_empty() {
        let mut table = Vec::new();
        for (row, weight) in signed_bag(changes) {
            if weight < 0 {
                return Err(Difference::new(format!(
                    "a row was taken back more often than it was given: {}",
                    row_text(&row)
                )));
            }
            table.extend(std::iter::repeat_n(row, weight as usize));
        }
        return Ok(table);
    }
    let mut table: BTreeMap<Ordered, Vec<Value>> = BTreeMap::new();
    for (kind, row) in changes {
        let key = Ordered(key.iter().map(|column| row[*column].clone()).collect());
        match kind {
            RowKind::Insert | RowKind::UpdateAfter => drop(table.insert(key, row.clone())),
            // A filter may let a -U through and hold back its +U.
            RowKind::Delete | RowKind::UpdateBefore => drop(table.remove(&key)),
        }
    }
    Ok(table.into_values().collect())
}

/// Rows with how often they were given minus how often taken back, without those at 0.
fn signed_bag(changes: &[Change]) -> Vec<(Vec<Value>, i64)> {
    let mut weights: BTreeMap<Ordered, i64> = BTreeMap::new();
    for (kind, row) in changes {
        *weights.entry(Ordered(row.clone())).or_default() += kind.weight();
    }
    weights
        .into_iter()
        .filter(|(_, weight)| *weight != 0)
        .map(|(row, weight)| (row.0, weight))
        .collect()
}

/// A row as a key of ordered maps.
#[derive(Debug, Clone)]
struct Ordered(Vec<Value>);

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        order_rows(&self.0, &other.0)
    }
}

/// Whether two multisets of rows are the same; the difference shows equal rows side by side.
pub fn compare_bags(
    mut expected: Vec<Vec<Value>>,
    mut actual: Vec<Vec<Value>>,
    reason: &str,
) -> Result<(), Difference> {
    expected.sort_by(|a, b| order_rows(a, b));
    actual.sort_by(|a, b| order_rows(a, b));
    let mut lines = Vec::with_capacity(expected.len());
    let mut left: Vec<Option<Vec<Value>>> = actual.into_iter().map(Some).collect();
    for row in &expected {
        let found = left
            .iter_mut()
            .find(|other| other.as_ref().is_some_and(|other| same_row(row, other)));
        let other = found.and_then(Option::take);
        lines.push(Line {
            expected: row_text(row),
            differs: other.is_none(),
            actual: other.map(|other| row_text(&other)).unwrap_or_default(),
        });
    }
    lines.extend(left.into_iter().flatten().map(|row| Line {
        expected: String::new(),
        actual: row_text(&row),
        differs: true,
    }));
    finish(lines, reason)
}

fn finish(lines: Vec<Line>, reason: &str) -> Result<(), Difference> {
    if lines.iter().any(|line| line.differs) {
        return Err(Difference {
            reason: reason.to_string(),
            lines,
        });
    }
    Ok(())
}

fn judge_changelog(
    expected: &[Change],
    result: &SinkResult,
    strictness: Strictness,
) -> Result<(), Difference> {
    match strictness {
        Strictness::NetEffect => {
            let expected = table_of(expected, &result.key)?;
            judge_final(expected, &changes(&result.rows), &result.key)
        }
        Strictness::Exact { has_watermark } => judge_order(expected, &result.rows, has_watermark),
    }
}

fn judge_order(
    expected: &[Change],
    rows: &[WrittenRow],
    has_watermark: bool,
) -> Result<(), Difference> {
    let actual = changes(rows);
    let aligned = match has_watermark {
        true => align(expected, rows),
        false => expected.to_vec(),
    };
    let length = aligned.len().max(actual.len());
    let text = |change: Option<&Change>| {
        change.map_or(String::new(), |(kind, row)| {
            format!("{kind} {}", row_text(row))
        })
    };
    let lines = (0..length).map(|at| Line {
        expected: text(aligned.get(at)),
        actual: text(actual.get(at)),
        differs: match (aligned.get(at), actual.get(at)) {
            (Some(expected), Some(actual)) => !same_change(expected, actual),
            _ => true,
        },
    });
    finish(lines.collect(), "the changelog differs")
}

fn same_change(a: &Change, b: &Change) -> bool {
    a.0 == b.0 && same_row(&a.1, &b.1)
}

/// The expected changes in the order of the actual ones, as far as the order is free: within what one step wrote, between
/// single changes and pairs of -U and +U.
fn align(expected: &[Change], rows: &[WrittenRow]) -> Vec<Change> {
    let mut aligned = Vec::with_capacity(expected.len());
    let mut rest = expected;
    for step in rows.chunk_by(|a, b| a.step == b.step) {
        let (mine, others) = rest.split_at(step.len().min(rest.len()));
        rest = others;
        aligned.extend(permuted(mine, &changes(step)));
    }
    aligned.extend_from_slice(rest);
    aligned
}

fn permuted(expected: &[Change], actual: &[Change]) -> Vec<Change> {
    let mut left: Vec<&[Change]> = units(expected);
    let mut result = Vec::with_capacity(expected.len());
    for unit in units(actual) {
        let same = |other: &&[Change]| {
            other.len() == unit.len()
                && std::iter::zip(*other, unit).all(|(a, b)| same_change(a, b))
        };
        match left.iter().position(same) {
            Some(at) => result.extend_from_slice(left.remove(at)),
            None => return expected.to_vec(),
        }
    }
    match left.is_empty() {
        true => result,
        false => expected.to_vec(),
    }
}

/// Single changes, and pairs of -U and the +U behind it.
fn units(changes: &[Change]) -> Vec<&[Change]> {
    let mut units = Vec::new();
    let mut rest = changes;
    while let Some((first, _)) = rest.split_first() {
        let is_pair = first.0 == RowKind::UpdateBefore
            && rest
                .get(1)
                .is_some_and(|second| second.0 == RowKind::UpdateAfter);
        let (unit, others) = rest.split_at(if is_pair { 2 } else { 1 });
        units.push(unit);
        rest = others;
    }
    units
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Field, LogicalType};

    fn expectation(mode: Mode, rows: &str) -> Expectation {
        Expectation {
            mode,
            columns: Some(vec!["k".into(), "n".into()]),
            rows: serde_yaml_ng::from_str(rows).unwrap(),
            metrics: vec![],
        }
    }

    /// Rows as `kind key number step`, the key without quotes.
    fn result(rows: &[(&str, &str, i64, usize)], key: &[usize]) -> SinkResult {
        let written = rows
            .iter()
            .enumerate()
            .map(|(at, (kind, k, n, step))| WrittenRow {
                sequence: at as u64,
                step: *step,
                kind: RowKind::from_symbol(kind).unwrap(),
                cells: vec![Value::Text(k.to_string()), Value::Integer(*n)],
            });
        SinkResult {
            schema: Schema::new(vec![
                Field::new("k", LogicalType::STRING),
                Field::new("n", LogicalType::BIGINT),
            ]),
            key: key.to_vec(),
            rows: written.collect(),
        }
    }

    const EXACT: Strictness = Strictness::Exact {
        has_watermark: true,
    };

    fn verdict(
        mode: Mode,
        expected: &str,
        result: &SinkResult,
        strictness: Strictness,
    ) -> Result<(), Difference> {
        judge(
            &expectation(mode, expected),
            result,
            &TimeZone::UTC,
            strictness,
        )
    }

    #[test]
    fn append_is_a_multiset_of_inserts() {
        let twice = result(
            &[("+I", "a", 1, 0), ("+I", "b", 2, 0), ("+I", "a", 1, 0)],
            &[],
        );
        let net = Strictness::NetEffect;
        assert_eq!(
            verdict(Mode::Append, "[[b, 2], [a, 1], [a, 1]]", &twice, net),
            Ok(())
        );
        let difference =
            verdict(Mode::Append, "[[b, 2], [a, 1], [c, 3]]", &twice, net).unwrap_err();
        let shown = difference.to_string();
        assert!(shown.contains("! c, 3     | \n"), "{shown}");
        assert!(shown.ends_with("!          | a, 1"), "{shown}");
        let updated = result(&[("+I", "a", 1, 0), ("+U", "a", 2, 0)], &[]);
        assert!(verdict(Mode::Append, "[[a, 1], [a, 2]]", &updated, net).is_err());
    }

    #[test]
    fn final_is_a_signed_bag_or_a_table_by_key() {
        let changes = [
            ("+I", "a", 1, 0),
            ("-U", "a", 1, 1),
            ("+U", "a", 2, 1),
            ("+I", "b", 1, 2),
            ("-D", "b", 1, 3),
        ];
        let net = Strictness::NetEffect;
        assert_eq!(
            verdict(Mode::Final, "[[a, 2]]", &result(&changes, &[]), net),
            Ok(())
        );
        let upserts = [
            ("+I", "a", 1, 0),
            ("+U", "a", 2, 1),
            ("+I", "b", 1, 2),
            ("-D", "b", 9, 3),
        ];
        assert_eq!(
            verdict(Mode::Final, "[[a, 2]]", &result(&upserts, &[0]), net),
            Ok(())
        );
        assert!(verdict(Mode::Final, "[[a, 2]]", &result(&upserts, &[]), net).is_err());
        let negative = [("-D", "a", 1, 0)];
        assert!(verdict(Mode::Final, "[]", &result(&negative, &[]), net).is_err());
    }

    #[test]
    fn a_changelog_is_free_only_between_units_of_one_step() {
        let fired = result(
            &[
                ("-U", "b", 1, 4),
                ("+U", "b", 2, 4),
                ("+I", "a", 1, 4),
                ("+I", "c", 1, 5),
            ],
            &[],
        );
        let expected = "[[+I, a, 1], [-U, b, 1], [+U, b, 2], [+I, c, 1]]";
        assert_eq!(verdict(Mode::Changelog, expected, &fired, EXACT), Ok(()));
        let strict = Strictness::Exact {
            has_watermark: false,
        };
        assert!(verdict(Mode::Changelog, expected, &fired, strict).is_err());
        let later = "[[+I, c, 1], [-U, b, 1], [+U, b, 2], [+I, a, 1]]";
        assert!(verdict(Mode::Changelog, later, &fired, EXACT).is_err());
        let shorter = "[[+I, a, 1], [-U, b, 1], [+U, b, 2]]";
        assert!(verdict(Mode::Changelog, shorter, &fired, EXACT).is_err());
        assert!(verdict(Mode::Changelog, "[]", &fired, EXACT).is_err());
    }

    #[test]
    fn the_net_effect_of_a_changelog_ignores_detours() {
        let actual = result(&[("+I", "a", 3, 0)], &[]);
        let expected = "[[+I, a, 1], [-U, a, 1], [+U, a, 3]]";
        assert_eq!(
            verdict(Mode::Changelog, expected, &actual, Strictness::NetEffect),
            Ok(())
        );
    }

    #[test]
    fn wrong_columns_and_cells_are_differences() {
        let one = result(&[("+I", "a", 1, 0)], &[]);
        let mut wrong = expectation(Mode::Append, "[[a, 1]]");
        wrong.columns = Some(vec!["k".into(), "m".into()]);
        assert!(
            judge(&wrong, &one, &TimeZone::UTC, EXACT)
                .unwrap_err()
                .reason
                .contains("(k, m)")
        );
        assert!(
            verdict(Mode::Append, "[[a, x]]", &one, EXACT)
                .unwrap_err()
                .reason
                .contains("column n")
        );
        assert!(verdict(Mode::Append, "[[a]]", &one, EXACT).is_err());
    }
}
