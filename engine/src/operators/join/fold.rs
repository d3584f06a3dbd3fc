//! Folds a mini-batch bundle of one input: of what a row did within the bundle only the net change stays.
//!
//! A row that was added and taken back, or the other way round, leaves the bundle. What stays of an update whose other half left
//! takes the kind of the row at the far end of the chain: `+I a, -U a, +U b` is `+I b`, `-U a, +U b, -D b` is `-D a`. Where
//! updates come by key, the last row of each key stays.

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::datatypes::DataType;

use super::links::NONE;
use super::row_index::RowIndex;
use super::side::{JoinSide, RowIdentity};
use crate::error::Result;
use crate::state::{GroupTable, RowSlab};
use crate::stream::{ChangelogBatch, hash_columns};
use crate::types::{RowKind, RowKinds};

/// What stays of a bundle.
#[derive(Default)]
pub(super) struct Folded {
    /// The rows that go.
    pub(super) retractions: Option<ChangelogBatch>,
    /// The rows that come, or replace others.
    pub(super) accumulations: Option<ChangelogBatch>,
}

/// The net change of `batch`.
pub(super) fn fold(side: &JoinSide, null_safe: &[bool], batch: ChangelogBatch) -> Result<Folded> {
    let is_upsert = side.updates_by_key;
    if side.identity == RowIdentity::None || (batch.kinds.is_insert_only() && !is_upsert) {
        return Ok(Folded {
            retractions: None,
            accumulations: Some(batch),
        });
    }
    let kinds = match is_upsert {
        true => last_of_each_key(side, null_safe, &batch)?,
        false => net_rows(&batch)?,
    };
    Ok(Folded {
        retractions: part(&batch, &kinds, false)?,
        accumulations: part(&batch, &kinds, true)?,
    })
}

/// The rows that stay and add (or take away), each with its kind.
fn part(
    batch: &ChangelogBatch,
    kinds: &[Option<RowKind>],
    adds: bool,
) -> Result<Option<ChangelogBatch>> {
    let (mut rows, mut kept) = (Vec::new(), Vec::new());
    for (row, kind) in kinds.iter().enumerate() {
        if let Some(kind) = kind.filter(|kind| kind.is_accumulate() == adds) {
            rows.push(row as u32);
            kept.push(kind);
        }
    }
    if rows.is_empty() {
        return Ok(None);
    }
    let (mut part, _) = batch.take(&UInt32Array::from(rows))?;
    part.kinds = RowKinds::new(&kept);
    Ok(Some(part))
}

/// For each row its kind, if it stays; rows are told apart by all their columns.
fn net_rows(batch: &ChangelogBatch) -> Result<Vec<Option<RowKind>>> {
    let all: Vec<u32> = (0..batch.num_rows() as u32).collect();
    let mut slab = RowSlab::new(batch.rows.schema());
    let ids = RowIndex::default().find_or_insert(&mut slab, &batch.rows, &all)?;
    let mut chains = Chains::of(&batch.kinds, batch.num_rows());
    let mut open = vec![NONE; slab.capacity()];
    let mut below = vec![NONE; batch.num_rows()];
    for (row, id) in ids.into_iter().enumerate() {
        let top = &mut open[id as usize];
        if *top != NONE && chains.opposes(*top, row as u32) {
            chains.cancel(*top, row as u32);
            *top = below[*top as usize];
        } else {
            below[row] = std::mem::replace(top, row as u32);
        }
    }
    Ok(chains.kinds)
}

/// Which rows are the halves of one update.
struct Chains {
    /// The kind of each row that has not left.
    kinds: Vec<Option<RowKind>>,
    adds: Vec<bool>,
    /// The other half, `NONE` for none.
    partners: Vec<u32>,
}

impl Chains {
    fn of(kinds: &RowKinds, rows: usize) -> Self {
        let kind = |row: usize| kinds.get(row);
        let mut partners = vec![NONE; rows];
        for row in 1..rows {
            if (kind(row - 1), kind(row)) == (RowKind::UpdateBefore, RowKind::UpdateAfter) {
                (partners[row - 1], partners[row]) = (row as u32, row as u32 - 1);
            }
        }
        Chains {
            kinds: (0..rows).map(|row| Some(kind(row))).collect(),
            adds: (0..rows).map(|row| kind(row).is_accumulate()).collect(),
            partners,
        }
    }

    fn opposes(&self, one: u32, other: u32) -> bool {
        self.adds[one as usize] != self.adds[other as usize]
    }

    /// Both rows leave; what they were updates from and to are halves of one update now.
    fn cancel(&mut self, one: u32, other: u32) {
        let (added, taken) = match self.adds[one as usize] {
            true => (one as usize, other as usize),
            false => (other as usize, one as usize),
        };
        let (before, after) = (self.partners[added], self.partners[taken]);
        let kinds = (self.kinds[added].take(), self.kinds[taken].take());
        if before == taken as u32 {
            return;
        }
        if before != NONE {
            self.partners[before as usize] = after;
            self.kinds[before as usize] = kinds.1;
        }
        if after != NONE {
            self.partners[after as usize] = before;
            self.kinds[after as usize] = kinds.0;
        }
    }
}

/// For each row its kind, if it is the last one of its key.
fn last_of_each_key(
    side: &JoinSide,
    null_safe: &[bool],
    batch: &ChangelogBatch,
) -> Result<Vec<Option<RowKind>>> {
    let columns = match &side.identity {
        RowIdentity::UniqueKey(columns) => columns,
        _ => &side.keys,
    };
    let keys = columns_of(batch, columns);
    let types: Vec<DataType> = keys.iter().map(|key| key.data_type().clone()).collect();
    let mut table = GroupTable::new(&types)?;
    let mut numbers = Vec::with_capacity(batch.num_rows());
    table.resolve(&keys, &hash_columns(&keys, batch.num_rows())?, &mut numbers)?;
    let (mut first, mut last) = (vec![NONE; table.len()], vec![NONE; table.len()]);
    for (row, number) in numbers.iter().enumerate() {
        last[*number as usize] = row as u32;
        if first[*number as usize] == NONE {
            first[*number as usize] = row as u32;
        }
    }
    let joined = columns_of(batch, &side.keys);
    let joins_nothing = |row: usize| {
        let mut keys = joined.iter().zip(null_safe);
        keys.any(|(key, null_safe)| !null_safe && key.is_null(row))
    };
    let mut kinds = vec![None; batch.num_rows()];
    for (first, last) in first.into_iter().zip(last) {
        let (before, kind) = (
            batch.kinds.get(first as usize),
            batch.kinds.get(last as usize),
        );
        kinds[last as usize] = match (before, kind.is_accumulate()) {
            (RowKind::Insert, true) => Some(RowKind::Insert),
            (_, true) => Some(RowKind::UpdateAfter),
            // Such rows are in no state that could tell that there was none before.
            (RowKind::Insert, false) if joins_nothing(last as usize) => None,
            _ => Some(kind),
        };
    }
    Ok(kinds)
}

fn columns_of(batch: &ChangelogBatch, columns: &[usize]) -> Vec<ArrayRef> {
    let columns = columns.iter();
    columns.map(|c| batch.rows.column(*c).clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::test_bench::{batch, rows_text};
    use crate::state::TimeToLive;
    use crate::types::{Field, LogicalType, Schema};

    fn side(identity: RowIdentity, updates_by_key: bool) -> JoinSide {
        JoinSide {
            schema: Schema::new(vec![
                Field::new("k", LogicalType::INT),
                Field::new("v", LogicalType::STRING),
            ]),
            keys: vec![0],
            identity,
            updates_by_key,
            time_to_live: TimeToLive::NEVER,
        }
    }

    fn folded(side: &JoinSide, rows: &str) -> String {
        let folded = fold(side, &[false], batch(&side.schema, rows)).unwrap();
        let parts = [folded.retractions, folded.accumulations];
        let mut lines = Vec::new();
        for part in parts.into_iter().flatten() {
            let rows = rows_text(&part.rows).into_iter().enumerate();
            lines.extend(rows.map(|(row, text)| format!("{} {text}", part.kinds.get(row))));
        }
        lines.join("; ")
    }

    #[test]
    fn what_came_and_went_leaves_and_chains_close() {
        let side = side(RowIdentity::WholeRow, false);
        assert_eq!(folded(&side, "+I 1, a\n-U 1, a\n+U 1, b"), "+I 1, b");
        assert_eq!(folded(&side, "-U 1, a\n+U 1, b\n-D 1, b"), "-D 1, a");
        assert_eq!(
            folded(&side, "-U 1, a\n+U 1, b\n-U 1, b\n+U 1, c"),
            "-U 1, a; +U 1, c"
        );
        assert_eq!(folded(&side, "-U 1, a\n+U 1, b\n-U 1, b\n+U 1, a"), "");
        assert_eq!(
            folded(&side, "+I 1, a\n+I 1, a\n-D 1, a\n+I null, b"),
            "+I 1, a; +I null, b"
        );
    }

    #[test]
    fn by_key_the_last_row_stays() {
        let side = side(RowIdentity::JoinKey, true);
        assert_eq!(
            folded(&side, "+I 1, a\n+U 1, b\n+U 2, c"),
            "+I 1, b; +U 2, c"
        );
        assert_eq!(folded(&side, "+U 1, a\n-D 1, a"), "-D 1, a");
        assert_eq!(folded(&side, "+I null, a\n-D null, a"), "");
    }
}
