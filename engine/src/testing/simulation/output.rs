//! What a run gave, in the form in which runs are compared.

use std::collections::BTreeMap;

use super::workload::Compared;
use crate::testing::cell::{Value, order_rows, row_text};
use crate::testing::judge::compare_bags;
use crate::testing::prepare::SinkTable;
use crate::testing::test_connector::WrittenRow;
use crate::types::RowKind;

/// The rows of each sink.
pub(super) type Output = BTreeMap<String, Vec<Vec<Value>>>;

/// What the rows that a sink got come to. Fails where they break a law of changelogs.
pub(super) fn folded(
    table: &SinkTable,
    compared: Compared,
    rows: Vec<WrittenRow>,
) -> Result<Vec<Vec<Value>>, String> {
    match (compared, table.key.is_empty()) {
        (Compared::Append, _) => appended(rows),
        (Compared::Final, true) => bag(&rows),
        (Compared::Final, false) => Ok(by_key(rows, &table.key)),
    }
}

fn appended(rows: Vec<WrittenRow>) -> Result<Vec<Vec<Value>>, String> {
    let inserted = |row: WrittenRow| match row.kind {
        RowKind::Insert => Ok(row.cells),
        kind => Err(format!(
            "{kind} {} where rows are only inserted",
            row_text(&row.cells)
        )),
    };
    rows.into_iter().map(inserted).collect()
}

/// The rows that stay. No row may be taken back that is not there.
fn bag(rows: &[WrittenRow]) -> Result<Vec<Vec<Value>>, String> {
    let mut counts: BTreeMap<Ordered, i64> = BTreeMap::new();
    for row in rows {
        let count = counts.entry(Ordered(row.cells.clone())).or_default();
        *count += row.kind.weight();
        if *count < 0 {
            let text = row_text(&row.cells);
            return Err(format!(
                "{} {text} takes back a row that is not there",
                row.kind
            ));
        }
    }
    let copies = |(row, count): (Ordered, i64)| std::iter::repeat_n(row.0, count as usize);
    Ok(counts.into_iter().flat_map(copies).collect())
}

fn by_key(rows: Vec<WrittenRow>, key: &[usize]) -> Vec<Vec<Value>> {
    let mut table: BTreeMap<Ordered, Vec<Value>> = BTreeMap::new();
    for row in rows {
        let of_row = Ordered(
            key.iter()
                .map(|column| row.cells[*column].clone())
                .collect(),
        );
        match row.kind.is_accumulate() {
            true => table.insert(of_row, row.cells),
            false => table.remove(&of_row),
        };
    }
    table.into_values().collect()
}

/// The first difference between two outputs.
pub(super) fn compare(expected: &Output, actual: &Output, when: &str) -> Result<(), String> {
    for (sink, rows) in expected {
        let given = actual.get(sink).cloned().unwrap_or_default();
        let reason = format!("{sink}: {when} (left: without faults)");
        compare_bags(rows.clone(), given, &reason).map_err(|difference| difference.to_string())?;
    }
    Ok(())
}

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
