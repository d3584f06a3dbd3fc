//! One row a key, in columns: the last row of each primary key, for whoever must know it when the next one comes.
//!
//! Keys get dense ids ([`GroupTable`]), rows lie in a [`RowSlab`], and between them is one number a key. Ids that lost their rows are given up
//! when they have become the greater part, so memory follows the keys that have a row.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema as ArrowSchema, SchemaRef};

use super::{
    EXPIRY_COLUMN, GroupTable, Groups, KEY_HASH_COLUMN, RowSlab, TimeToLive, keep_at, key_hashes_of,
};
use crate::error::Result;
use crate::types::ProcessingTime;

/// No row.
const NONE: u32 = u32::MAX;

/// Tables with fewer keys are never cleaned up.
const CLEAN_UP_KEYS: usize = 1024;

/// See the module.
pub struct KeyedRows {
    key: Vec<usize>,
    keys: GroupTable,
    slab: RowSlab,
    /// The row of each key, by id.
    rows: Vec<u32>,
    /// When each key's row is forgotten, by id.
    expiries: Vec<i64>,
    /// At how many keys dead ones are looked for.
    clean_up_at: usize,
}

/// The columns of a snapshot in front of the rows: the hash of the key, and when it is forgotten.
const COLUMNS: usize = 2;

impl KeyedRows {
    /// No rows of this schema, named by the `key` columns.
    pub fn new(schema: SchemaRef, key: Vec<usize>) -> Result<Self> {
        Ok(KeyedRows {
            keys: key_table(&schema, &key)?,
            key,
            slab: RowSlab::new(schema),
            rows: Vec::new(),
            expiries: Vec::new(),
            clean_up_at: CLEAN_UP_KEYS,
        })
    }

    /// The id of each row's key. Ids stay valid until [`KeyedRows::clean_up`].
    pub fn resolve(
        &mut self,
        rows: &RecordBatch,
        hashes: &[u64],
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        let columns: Vec<ArrayRef> = self
            .key
            .iter()
            .map(|key| rows.column(*key).clone())
            .collect();
        self.keys.resolve(&columns, hashes, ids)?;
        self.rows.resize(self.keys.len(), NONE);
        self.expiries.resize(self.keys.len(), i64::MAX);
        Ok(())
    }

    /// The row of a key, if it has one that is not forgotten: a number for [`KeyedRows::gather`].
    pub fn row(&self, id: u32, now: ProcessingTime) -> Option<u32> {
        let row = self.rows[id as usize];
        let lives = row != NONE && !TimeToLive::is_expired(self.expiries[id as usize], now);
        lives.then_some(row)
    }

    /// Rows by the numbers that [`KeyedRows::row`] gave.
    pub fn gather(&self, rows: &[u32]) -> Result<RecordBatch> {
        self.slab.gather(rows)
    }

    /// Makes rows of a batch the rows of their keys: pairs of a key's id, each once, and its row in the batch; `None` forgets the
    /// key's row.
    pub fn write(
        &mut self,
        batch: &RecordBatch,
        changes: &[(u32, Option<u32>)],
        expiry: i64,
    ) -> Result<()> {
        let gone: Vec<u32> = changes
            .iter()
            .map(|(id, _)| std::mem::replace(&mut self.rows[*id as usize], NONE))
            .filter(|row| *row != NONE)
            .collect();
        self.slab.remove(&gone)?;
        let (ids, indices): (Vec<u32>, Vec<u32>) = changes
            .iter()
            .filter_map(|(id, row)| Some((*id, (*row)?)))
            .unzip();
        let mut rows = Vec::with_capacity(ids.len());
        self.slab.insert_some(batch, &indices, &mut rows)?;
        for (id, row) in std::iter::zip(ids, rows) {
            self.rows[id as usize] = row;
            self.expiries[id as usize] = expiry;
        }
        Ok(())
    }

    /// Forgets what is due, and gives ids up where most keys have no row. Call it between batches.
    pub fn clean_up(&mut self, now: ProcessingTime) -> Result<()> {
        if self.keys.len() < self.clean_up_at {
            return Ok(());
        }
        self.forget_expired(now)?;
        if self.slab.len() * 2 < self.keys.len() {
            self.give_up_ids()?;
        }
        self.clean_up_at = CLEAN_UP_KEYS.max(2 * self.keys.len());
        Ok(())
    }

    fn forget_expired(&mut self, now: ProcessingTime) -> Result<()> {
        let mut gone = Vec::new();
        for (row, expiry) in self.rows.iter_mut().zip(&self.expiries) {
            if *row != NONE && TimeToLive::is_expired(*expiry, now) {
                gone.push(std::mem::replace(row, NONE));
            }
        }
        self.slab.remove(&gone)
    }

    fn living(&self) -> Vec<u32> {
        let ids = 0..self.rows.len() as u32;
        ids.filter(|id| self.rows[*id as usize] != NONE).collect()
    }

    fn give_up_ids(&mut self) -> Result<()> {
        let living = self.living();
        self.keys.keep(&living);
        keep_at(&mut self.rows, &living);
        keep_at(&mut self.expiries, &living);
        Ok(())
    }

    /// Forgets everything, and gives the memory back.
    pub fn clear(&mut self) -> Result<()> {
        *self = KeyedRows::new(self.slab.schema().clone(), std::mem::take(&mut self.key))?;
        Ok(())
    }

    /// The columns of the key.
    pub fn key(&self) -> &[usize] {
        &self.key
    }

    /// The hashes of the keys that have a row.
    pub fn hashes(&self) -> Vec<u64> {
        Groups::Ids(&self.living()).gather(self.keys.hashes())
    }

    /// Bytes held.
    pub fn size_bytes(&self) -> usize {
        let by_key = self.rows.capacity() * 4 + self.expiries.capacity() * 8;
        self.slab.size_bytes() + self.keys.size_bytes() + by_key
    }

    /// All rows, for a snapshot: the hash of the key, the expiry, then the columns.
    pub fn snapshot(&self, now: ProcessingTime) -> Result<Vec<RecordBatch>> {
        self.table(self.living(), now)
    }

    /// The rows of the keys with these hashes.
    pub fn export(
        &self,
        hashes: impl Iterator<Item = u64>,
        now: ProcessingTime,
    ) -> Result<Vec<RecordBatch>> {
        let mut ids = self.keys.ids_of(hashes);
        ids.retain(|id| self.rows[*id as usize] != NONE);
        self.table(ids, now)
    }

    /// Forgets the rows of the keys with these hashes. Ids do not stay valid.
    pub fn take_out(&mut self, hashes: impl Iterator<Item = u64>) -> Result<()> {
        let ids = self.keys.ids_of(hashes);
        let rows = ids
            .iter()
            .map(|id| std::mem::replace(&mut self.rows[*id as usize], NONE));
        let rows: Vec<u32> = rows.filter(|row| *row != NONE).collect();
        self.slab.remove(&rows)?;
        if self.slab.len() * 2 < self.keys.len() {
            self.give_up_ids()?;
        }
        Ok(())
    }

    fn table(&self, mut ids: Vec<u32>, now: ProcessingTime) -> Result<Vec<RecordBatch>> {
        ids.retain(|id| !TimeToLive::is_expired(self.expiries[*id as usize], now));
        let ids = Groups::Ids(&ids);
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(ids.gather(self.keys.hashes()))),
            Arc::new(Int64Array::from(ids.gather(&self.expiries))),
        ];
        let rows = self.gather(&ids.gather(&self.rows))?;
        columns.extend_from_slice(rows.columns());
        Ok(vec![RecordBatch::try_new(self.snapshot_schema(), columns)?])
    }

    /// Adds the rows of snapshots, this instance's or others'.
    pub fn restore(&mut self, batches: &[RecordBatch]) -> Result<()> {
        for batch in batches {
            let expiries = batch.column(1).as_primitive::<Int64Type>().clone();
            let columns = batch.columns()[COLUMNS..].to_vec();
            let rows = RecordBatch::try_new(self.slab.schema().clone(), columns)?;
            let mut ids = Vec::new();
            self.resolve(&rows, key_hashes_of(batch), &mut ids)?;
            let numbered = ids.iter().zip(0u32..);
            let changes: Vec<_> = numbered.map(|(id, row)| (*id, Some(row))).collect();
            self.write(&rows, &changes, i64::MAX)?;
            for (id, expiry) in ids.iter().zip(expiries.values()) {
                self.expiries[*id as usize] = *expiry;
            }
        }
        Ok(())
    }

    /// The columns of [`KeyedRows::snapshot`].
    pub fn snapshot_schema(&self) -> SchemaRef {
        let mut fields = vec![
            Arc::new(Field::new(KEY_HASH_COLUMN, DataType::UInt64, false)),
            Arc::new(Field::new(EXPIRY_COLUMN, DataType::Int64, false)),
        ];
        fields.extend(self.slab.schema().fields().iter().cloned());
        Arc::new(ArrowSchema::new(fields))
    }
}

fn key_table(schema: &SchemaRef, key: &[usize]) -> Result<GroupTable> {
    let types: Vec<DataType> = key
        .iter()
        .map(|key| schema.field(*key).data_type().clone())
        .collect();
    GroupTable::new(&types)
}

#[cfg(test)]
mod tests {
    use arrow::array::StringArray;

    use super::*;
    use crate::stream::KeyHashes;

    fn rows(keys: &[i64]) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
        let texts = keys.iter().map(|key| format!("row {key}"));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        RecordBatch::try_from_iter([("k", numbers), ("v", texts)]).unwrap()
    }

    fn store(table: &mut KeyedRows, keys: &[i64], stays: bool, expiry: i64) {
        let batch = rows(keys);
        let hashes = KeyHashes::of(&batch, &[0]).unwrap();
        let mut ids = Vec::new();
        table.resolve(&batch, hashes.values(), &mut ids).unwrap();
        let changes: Vec<_> = ids
            .iter()
            .zip(0u32..)
            .map(|(id, row)| (*id, stays.then_some(row)))
            .collect();
        table.write(&batch, &changes, expiry).unwrap();
    }

    fn known(table: &mut KeyedRows, keys: &[i64], now: i64) -> Vec<bool> {
        let batch = rows(keys);
        let hashes = KeyHashes::of(&batch, &[0]).unwrap();
        let mut ids = Vec::new();
        table.resolve(&batch, hashes.values(), &mut ids).unwrap();
        let row = |id: &u32| table.row(*id, ProcessingTime(now)).is_some();
        ids.iter().map(row).collect()
    }

    #[test]
    fn ids_of_deleted_keys_are_given_up_and_rows_stay() {
        let mut table = KeyedRows::new(rows(&[]).schema(), vec![0]).unwrap();
        let keys: Vec<i64> = (0..5000).collect();
        store(&mut table, &keys, true, i64::MAX);
        store(&mut table, &keys[10..], false, i64::MAX);
        table.clean_up(ProcessingTime(0)).unwrap();
        assert_eq!(table.keys.len(), 10);
        assert_eq!(known(&mut table, &[9, 10], 0), [true, false]);
        let snapshot = table.snapshot(ProcessingTime(0)).unwrap();
        let mut other = KeyedRows::new(rows(&[]).schema(), vec![0]).unwrap();
        other.restore(&snapshot).unwrap();
        assert_eq!(known(&mut other, &[9, 10], 0), [true, false]);
    }

    #[test]
    fn what_is_due_is_forgotten() {
        let mut table = KeyedRows::new(rows(&[]).schema(), vec![0]).unwrap();
        store(&mut table, &[1], true, 100);
        store(&mut table, &[2], true, 200);
        assert_eq!(known(&mut table, &[1, 2], 99), [true, true]);
        assert_eq!(known(&mut table, &[1, 2], 100), [false, true]);
        let snapshot = table.snapshot(ProcessingTime(150)).unwrap();
        assert_eq!(snapshot[0].num_rows(), 1);
    }
}
