//! Finds a stored row that equals a given one: by the hash of all its columns, then by comparing the columns.
//!
//! A batch is looked up as a whole: the candidates of its rows are gathered and each column is compared once. Only where
//! two different rows have one hash are rows compared one by one.

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute;
use arrow::compute::kernels::cmp::not_distinct;
use hashbrown::{HashMap, HashTable};
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use super::links::NONE;
use crate::error::Result;
use crate::state::RowSlab;
use crate::stream::hash_columns;

/// Ids of the distinct rows of a slab by their content.
#[derive(Default)]
pub(in crate::operators) struct RowIndex {
    table: HashTable<u32>,
    /// The hash of each row, by id.
    hashes: Vec<u64>,
}

impl RowIndex {
    /// The id of the stored row that equals each of `rows` (positions in `batch`); a new one where there is none.
    pub(super) fn find_or_insert(
        &mut self,
        slab: &mut RowSlab,
        batch: &RecordBatch,
        rows: &[u32],
    ) -> Result<Vec<u32>> {
        let hashes = hash_columns(batch.columns(), batch.num_rows())?;
        let mut ids: Vec<u32> = rows
            .iter()
            .map(|row| self.candidate(hashes[*row as usize]))
            .collect();
        self.drop_unequal(slab, batch, rows, &hashes, &mut ids)?;
        let missing: Vec<usize> = (0..rows.len()).filter(|at| ids[*at] == NONE).collect();
        if missing.is_empty() {
            return Ok(ids);
        }
        let rows: Vec<u32> = missing.iter().map(|at| rows[*at]).collect();
        let leaders = self.insert_leaders(slab, batch, &rows, &hashes)?;
        let leader = |row: &u32| leaders[&hashes[*row as usize]];
        let mut found: Vec<u32> = rows.iter().map(leader).collect();
        self.drop_unequal(slab, batch, &rows, &hashes, &mut found)?;
        for (at, (row, id)) in missing.into_iter().zip(rows.into_iter().zip(found)) {
            ids[at] = match id {
                NONE => self.insert(slab, batch, row, &hashes)?,
                id => id,
            };
        }
        Ok(ids)
    }

    /// Bytes held.
    pub(super) fn size_bytes(&self) -> usize {
        self.table.allocation_size() + self.hashes.capacity() * size_of::<u64>()
    }

    /// Forgets a row.
    pub(super) fn remove(&mut self, id: u32) {
        let hash = self.hashes[id as usize];
        if let Ok(entry) = self.table.find_entry(spread(hash), |known| *known == id) {
            entry.remove();
        }
    }

    /// Notes a row that is in the slab already.
    pub(super) fn note(&mut self, id: u32, hash: u64) {
        let at = id as usize;
        if self.hashes.len() <= at {
            self.hashes.resize(at + 1, 0);
        }
        self.hashes[at] = hash;
        let hashes = &self.hashes;
        self.table
            .insert_unique(spread(hash), id, |id| spread(hashes[*id as usize]));
    }

    fn candidate(&self, hash: u64) -> u32 {
        let same = |id: &u32| self.hashes[*id as usize] == hash;
        self.table.find(spread(hash), same).copied().unwrap_or(NONE)
    }

    /// Compares each row with its candidate. Where they differ, another candidate takes its place, or `NONE`.
    fn drop_unequal(
        &self,
        slab: &RowSlab,
        batch: &RecordBatch,
        rows: &[u32],
        hashes: &[u64],
        ids: &mut [u32],
    ) -> Result<()> {
        let with: Vec<usize> = (0..ids.len()).filter(|at| ids[*at] != NONE).collect();
        let given: Vec<u32> = with.iter().map(|at| rows[*at]).collect();
        let stored: Vec<u32> = with.iter().map(|at| ids[*at]).collect();
        let given = compute::take_record_batch(batch, &UInt32Array::from(given))?;
        let equal = equal_rows(&given, &slab.gather(&stored)?)?;
        if equal.count_set_bits() == equal.len() {
            return Ok(());
        }
        for (place, at) in with.into_iter().enumerate() {
            if !equal.value(place) {
                let row = rows[at];
                ids[at] = self.equal_one(slab, batch, row, hashes[row as usize])?;
            }
        }
        Ok(())
    }

    fn equal_one(&self, slab: &RowSlab, batch: &RecordBatch, row: u32, hash: u64) -> Result<u32> {
        let given = batch.slice(row as usize, 1);
        for id in self.table.iter_hash(spread(hash)) {
            if self.hashes[*id as usize] == hash
                && equal_rows(&given, &slab.gather(&[*id])?)?.value(0)
            {
                return Ok(*id);
            }
        }
        Ok(NONE)
    }

    /// Stores the first of the missing rows of each hash.
    fn insert_leaders(
        &mut self,
        slab: &mut RowSlab,
        batch: &RecordBatch,
        rows: &[u32],
        hashes: &[u64],
    ) -> Result<HashMap<u64, u32, Xxh3DefaultBuilder>> {
        let mut leaders = HashMap::with_capacity_and_hasher(rows.len(), Default::default());
        let mut first = Vec::new();
        for row in rows {
            leaders.entry(hashes[*row as usize]).or_insert_with(|| {
                first.push(*row);
                NONE
            });
        }
        let mut ids = Vec::with_capacity(first.len());
        slab.insert_some(batch, &first, &mut ids)?;
        for (row, id) in first.into_iter().zip(ids) {
            let hash = hashes[row as usize];
            self.note(id, hash);
            leaders.insert(hash, id);
        }
        Ok(leaders)
    }

    fn insert(
        &mut self,
        slab: &mut RowSlab,
        batch: &RecordBatch,
        row: u32,
        hashes: &[u64],
    ) -> Result<u32> {
        let known = self.equal_one(slab, batch, row, hashes[row as usize])?;
        if known != NONE {
            return Ok(known);
        }
        let mut ids = Vec::new();
        slab.insert_some(batch, &[row], &mut ids)?;
        self.note(ids[0], hashes[row as usize]);
        Ok(ids[0])
    }
}

/// The table looks at other bits than the key groups do.
fn spread(hash: u64) -> u64 {
    hash ^ (hash << 32)
}

/// Which rows are equal; NULL equals NULL.
fn equal_rows(a: &RecordBatch, b: &RecordBatch) -> Result<BooleanBuffer> {
    let mut equal = BooleanBuffer::new_set(a.num_rows());
    for (a, b) in a.columns().iter().zip(b.columns()) {
        equal = &equal & equal_values(a, b)?.values();
    }
    Ok(equal)
}

fn equal_values(a: &ArrayRef, b: &ArrayRef) -> Result<BooleanArray> {
    if a.data_type().is_nested() {
        let same = |row: usize| a.slice(row, 1).to_data() == b.slice(row, 1).to_data();
        return Ok((0..a.len()).map(|row| Some(same(row))).collect());
    }
    Ok(not_distinct(a, b)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};

    use super::*;

    fn batch(rows: &[(Option<i64>, &str)]) -> RecordBatch {
        let numbers: Int64Array = rows.iter().map(|(number, _)| *number).collect();
        let texts = StringArray::from_iter_values(rows.iter().map(|(_, text)| text));
        let columns: [(&str, ArrayRef); 2] = [("n", Arc::new(numbers)), ("t", Arc::new(texts))];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn equal_rows_are_one_within_and_across_batches() {
        let first = batch(&[(Some(1), "a"), (None, "a"), (Some(1), "a"), (Some(1), "b")]);
        let mut slab = RowSlab::new(first.schema());
        let mut index = RowIndex::default();
        let ids = index
            .find_or_insert(&mut slab, &first, &[0, 1, 2, 3])
            .unwrap();
        assert_eq!(ids[0], ids[2]);
        assert_eq!(slab.len(), 3);
        let second = batch(&[(None, "a"), (Some(2), "a"), (Some(1), "b")]);
        let again = index.find_or_insert(&mut slab, &second, &[0, 2]).unwrap();
        assert_eq!(again, [ids[1], ids[3]]);
        index.remove(ids[1]);
        slab.remove(&[ids[1]]).unwrap();
        index.find_or_insert(&mut slab, &second, &[0, 1]).unwrap();
        assert_eq!(slab.len(), 4);
    }

    #[test]
    fn rows_of_one_hash_are_told_apart() {
        let rows = batch(&[(Some(1), "a"), (Some(2), "b"), (Some(3), "c")]);
        let mut slab = RowSlab::new(rows.schema());
        let mut index = RowIndex::default();
        let mut ids = Vec::new();
        slab.insert(&rows, &mut ids).unwrap();
        ids.iter().for_each(|id| index.note(*id, 7));
        let mut found = vec![ids[0], ids[0], ids[0]];
        index
            .drop_unequal(&slab, &rows, &[0, 1, 2], &[7, 7, 7], &mut found)
            .unwrap();
        assert_eq!(found, ids);
    }
}
