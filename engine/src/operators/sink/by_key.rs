//! Updates for sinks that take them by key, from a changelog that has the rows before them.

use arrow::array::BooleanArray;

use crate::error::Result;
use crate::operators::row_equality::equal_rows;
use crate::stream::ChangelogBatch;
use crate::types::{RowKind, RowKinds};

/// Leaves out each `-U` behind which the `+U` of the same key follows; any other is a delete: the filter that dropped its `+U`, or the
/// exchange that parted them, left nothing in the old row's place yet.
pub(super) fn updates_by_key(batch: ChangelogBatch, key: &[usize]) -> Result<ChangelogBatch> {
    const BEFORE: u8 = RowKind::UpdateBefore as u8;
    let Some(kinds) = batch.kinds.bytes() else {
        return Ok(batch);
    };
    if !kinds.contains(&BEFORE) {
        return Ok(batch);
    }
    let keys = batch.rows.project(key)?;
    let pairs = batch.num_rows() - 1;
    let same_key = equal_rows(&keys.slice(0, pairs), &keys.slice(1, pairs))?;
    let is_replaced = |row: usize| {
        let next = kinds.get(row + 1);
        next == Some(&(RowKind::UpdateAfter as u8)) && same_key.value(row)
    };
    let keep: BooleanArray = kinds
        .iter()
        .enumerate()
        .map(|(row, kind)| Some(*kind != BEFORE || !is_replaced(row)))
        .collect();
    let by_key = kinds.iter().map(|kind| match *kind {
        BEFORE => RowKind::Delete as u8,
        kind => kind,
    });
    let by_key = RowKinds::from_bytes(by_key.collect());
    let batch = ChangelogBatch {
        kinds: by_key,
        ..batch
    };
    if keep.true_count() == keep.len() {
        return Ok(batch);
    }
    Ok(batch.filter(&keep)?.0)
}
