//! ORDER BY, OFFSET, LIMIT and ROW_NUMBER: the rows sorted. Where rows that differ are tied, there is no answer.

use std::cmp::Ordering;

use volley::plan::logical::{RowNumber, Sort};
use volley::testing::cell::{Value, order_rows};
use volley::types::SortKey;

use super::{Row, Unclear, partitions};

/// The rows between OFFSET and LIMIT.
pub(super) fn sort(node: &Sort, mut rows: Vec<Row>) -> Result<Vec<Row>, Unclear> {
    rows.sort_by(|a, b| order(a, b, &node.order_by));
    let first = usize::try_from(node.offset)
        .unwrap_or(usize::MAX)
        .min(rows.len());
    let end = node
        .fetch
        .and_then(|fetch| usize::try_from(fetch).ok()?.checked_add(first))
        .unwrap_or(usize::MAX)
        .min(rows.len());
    for cut in [first, end] {
        if cut > 0 && cut < rows.len() && is_tie(&rows[cut - 1], &rows[cut], &node.order_by) {
            return Err(Unclear::Ties);
        }
    }
    Ok(rows[first..end].to_vec())
}

/// Each row with its number in its partition.
pub(super) fn row_number(node: &RowNumber, rows: Vec<Row>) -> Result<Vec<Row>, Unclear> {
    let mut result = Vec::new();
    for mut rows in partitions(rows, &node.partition_by).into_values() {
        sort_clearly(&mut rows, &node.order_by)?;
        for (number, mut row) in rows.into_iter().enumerate() {
            row.push(Value::Integer(number as i64 + 1));
            result.push(row);
        }
    }
    Ok(result)
}

/// Sorts rows of which only equal ones may be tied.
pub(super) fn sort_clearly(rows: &mut [Row], keys: &[SortKey]) -> Result<(), Unclear> {
    rows.sort_by(|a, b| order(a, b, keys).then_with(|| order_rows(a, b)));
    match rows.windows(2).any(|pair| is_tie(&pair[0], &pair[1], keys)) {
        true => Err(Unclear::Ties),
        false => Ok(()),
    }
}

fn is_tie(a: &Row, b: &Row, keys: &[SortKey]) -> bool {
    order(a, b, keys).is_eq() && order_rows(a, b).is_ne()
}

pub(super) fn order(a: &Row, b: &Row, keys: &[SortKey]) -> Ordering {
    keys.iter()
        .map(|key| order_by(&a[key.column], &b[key.column], key))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

fn order_by(a: &Value, b: &Value, key: &SortKey) -> Ordering {
    let nulls = match key.nulls_first {
        true => Ordering::Less,
        false => Ordering::Greater,
    };
    match (a, b) {
        (Value::Null, Value::Null) => Ordering::Equal,
        (Value::Null, _) => nulls,
        (_, Value::Null) => nulls.reverse(),
        _ if key.descending => b.order(a),
        _ => a.order(b),
    }
}
