//! Partitions of a stream by key, as dense numbers by which an operator keeps what it knows of each; those that are forgotten
//! leave no trace.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};

use super::key_hashes;
use crate::error::Result;
use crate::operators::keyed_state::KeySet;
use crate::state::{GroupTable, Groups, all_but};
use crate::stream::{ChangelogBatch, hash_columns};
use crate::types::Schema;

/// The partitions that were seen. A number holds until the next [`PartitionTable::keep`].
pub(super) struct PartitionTable {
    table: GroupTable,
    keys: Vec<usize>,
    key_types: Vec<DataType>,
    key_schema: SchemaRef,
}

impl PartitionTable {
    /// Partitions of rows of this schema by these columns.
    pub(super) fn new(schema: &Schema, keys: &[usize]) -> Result<Self> {
        let key_types: Vec<DataType> = keys
            .iter()
            .map(|key| schema.fields[*key].logical_type.to_arrow())
            .collect();
        Ok(PartitionTable {
            table: GroupTable::new(&key_types)?,
            keys: keys.to_vec(),
            key_types,
            key_schema: schema.project(keys).to_arrow(),
        })
    }

    /// Number of partitions; the numbers are those below it.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// The hash of each partition's key.
    pub(super) fn hashes(&self) -> &[u64] {
        self.table.hashes()
    }

    /// The partition of each row; new ones get the next numbers, in order.
    pub(super) fn resolve(&mut self, batch: &ChangelogBatch, ids: &mut Vec<u32>) -> Result<()> {
        let hashes = key_hashes(batch, &self.keys)?;
        let keys = self.key_columns(&batch.rows);
        self.table.resolve(&keys, hashes.values(), ids)
    }

    /// The same for rows of a snapshot.
    pub(super) fn resolve_rows(&mut self, rows: &RecordBatch) -> Result<Vec<u32>> {
        self.resolve_keys(&self.key_columns(rows), rows.num_rows())
    }

    /// The partitions with these hashes of their keys, ascending.
    pub(super) fn ids_of(&self, keys: &KeySet) -> Vec<u32> {
        self.table.ids_of(keys.iter().copied())
    }

    /// The partitions with other hashes, ascending.
    pub(super) fn ids_but(&self, keys: &KeySet) -> Vec<u32> {
        all_but(&self.ids_of(keys), self.len())
    }

    /// All partitions.
    pub(super) fn ids(&self) -> Vec<u32> {
        (0..self.len() as u32).collect()
    }

    /// The columns of the key.
    pub(super) fn keys(&self) -> &[usize] {
        &self.keys
    }

    /// Bytes held.
    pub(super) fn size_bytes(&self) -> usize {
        self.table.size_bytes()
    }

    /// The partitions of keys.
    pub(super) fn resolve_keys(&mut self, keys: &[ArrayRef], rows: usize) -> Result<Vec<u32>> {
        let hashes = hash_columns(keys, rows)?;
        let mut ids = Vec::new();
        self.table.resolve(keys, &hashes, &mut ids)?;
        Ok(ids)
    }

    /// The keys of partitions, as rows.
    pub(super) fn key_rows(&self, ids: &[u32]) -> Result<RecordBatch> {
        let keys = self.table.keys(&Groups::Ids(ids))?;
        let options = RecordBatchOptions::new().with_row_count(Some(ids.len()));
        let schema = self.key_schema.clone();
        Ok(RecordBatch::try_new_with_options(schema, keys, &options)?)
    }

    /// Forgets all partitions but these, given ascending, which get the numbers of their places here.
    pub(super) fn keep(&mut self, ids: &[u32]) -> Result<()> {
        if ids.is_empty() {
            self.table = GroupTable::new(&self.key_types)?;
        } else {
            self.table.keep(ids);
        }
        Ok(())
    }

    fn key_columns(&self, rows: &RecordBatch) -> Vec<ArrayRef> {
        let keys = self.keys.iter();
        keys.map(|key| rows.column(*key).clone()).collect()
    }
}

/// The values at `ids`, in that order.
pub(super) fn at<T: Copy>(column: &[T], ids: &[u32]) -> Vec<T> {
    ids.iter().map(|id| column[*id as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::test_bench::batch;
    use crate::types::{Field, LogicalType};

    #[test]
    fn what_is_kept_is_numbered_anew() {
        let schema = Schema::new(vec![Field::new("k", LogicalType::STRING)]);
        let mut partitions = PartitionTable::new(&schema, &[0]).unwrap();
        let mut ids = Vec::new();
        let rows = batch(&schema, "+I a\n+I b\n+I null\n+I b\n+I c");
        partitions.resolve(&rows, &mut ids).unwrap();
        assert_eq!(ids, [0, 1, 2, 1, 3]);
        partitions.keep(&[2, 3]).unwrap();
        partitions.resolve(&rows, &mut ids).unwrap();
        assert_eq!(ids, [2, 3, 0, 3, 1]);
        partitions.keep(&[]).unwrap();
        assert_eq!(partitions.len(), 0);
    }
}
