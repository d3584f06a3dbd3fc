//! Aggregates with OVER: each row with the list of the rows in its frame.

use volley::plan::logical::{Over, OverFrame};
use volley::testing::cell::Value;

use super::aggregate::value;
use super::sort::{order, sort_clearly};
use super::{Row, Unclear, partitions};

pub(super) fn over(node: &Over, rows: Vec<Row>) -> Result<Vec<Row>, Unclear> {
    let mut result = Vec::new();
    for mut rows in partitions(rows, &node.partition_by).into_values() {
        match node.frame {
            OverFrame::Rows(_) => sort_clearly(&mut rows, &node.order_by)?,
            OverFrame::Range(_) => rows.sort_by(|a, b| order(a, b, &node.order_by)),
        }
        for at in 0..rows.len() {
            let frame = frame(node, &rows, at)?;
            let mut row = rows[at].clone();
            for call in &node.calls {
                row.push(value(call, frame)?);
            }
            result.push(row);
        }
    }
    Ok(result)
}

/// The rows that count for the one at `at`, of one partition in order.
fn frame<'r>(node: &Over, rows: &'r [Row], at: usize) -> Result<&'r [Row], Unclear> {
    let is_peer = |row: &Row| order(row, &rows[at], &node.order_by).is_eq();
    let end = at + rows[at..].iter().take_while(|row| is_peer(row)).count();
    Ok(match node.frame {
        OverFrame::Rows(None) => &rows[..=at],
        OverFrame::Rows(Some(before)) => {
            let before = usize::try_from(before).unwrap_or(usize::MAX);
            &rows[at.saturating_sub(before)..=at]
        }
        OverFrame::Range(None) => &rows[..end],
        OverFrame::Range(Some(ms)) => {
            let column = node.order_by[0].column;
            let earliest = nanos(&rows[at][column])? - ms as i128 * 1_000_000;
            let mut start = 0;
            while nanos(&rows[start][column])? < earliest {
                start += 1;
            }
            &rows[start..end]
        }
    })
}

fn nanos(value: &Value) -> Result<i128, Unclear> {
    match value {
        Value::Timestamp(nanos) | Value::Instant(nanos) => Ok(*nanos),
        _ => Err(Unclear::Unknown("a time that is NULL")),
    }
}
