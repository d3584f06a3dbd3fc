//! Rows kept in Arrow blocks, by namespace: the buffer of windows that need whole rows.
//!
//! A namespace is a number by which rows are taken out again, mostly a window end. Rows are appended block by block, copied
//! free of the batch they came in, and small blocks are folded together, so that a window fed one row at a time does not
//! become a heap of tiny arrays. Taking a namespace yields its rows in order of arrival and frees them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute;
use arrow::datatypes::{DataType, Field, Int64Type, Schema as ArrowSchema, SchemaRef};

use super::row_slab::without_slack;
use super::{KEY_HASH_COLUMN, key_hashes_of};
use crate::error::Result;

/// Blocks up to this many rows are folded together.
const FOLD_ROWS: usize = 8192;

/// Rows of one schema with the hash of each row's key, by namespace.
#[derive(Debug)]
pub struct RowStore {
    schema: SchemaRef,
    namespaces: BTreeMap<i64, Vec<Block>>,
}

#[derive(Debug)]
struct Block {
    rows: RecordBatch,
    hashes: Vec<u64>,
}

impl Block {
    fn filter(&self, keep: &dyn Fn(u64) -> bool) -> Result<Block> {
        let mask = BooleanBuffer::collect_bool(self.hashes.len(), |row| keep(self.hashes[row]));
        let rows = mask.set_indices().map(|row| self.hashes[row]);
        Ok(Block {
            hashes: rows.collect(),
            rows: compute::filter_record_batch(&self.rows, &BooleanArray::new(mask, None))?,
        })
    }
}

impl RowStore {
    /// An empty store for rows of this schema.
    pub fn new(schema: SchemaRef) -> Self {
        RowStore {
            schema,
            namespaces: BTreeMap::new(),
        }
    }

    /// The columns of the rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Whether no row is kept.
    pub fn is_empty(&self) -> bool {
        self.namespaces.is_empty()
    }

    /// Bytes held.
    pub fn size_bytes(&self) -> usize {
        let blocks = self.namespaces.values().flatten();
        blocks
            .map(|block| block.rows.get_array_memory_size() + block.hashes.capacity() * 8)
            .sum()
    }

    /// Adds rows behind those of the namespace; `hashes` are the hashes of their keys.
    pub fn append(&mut self, namespace: i64, rows: RecordBatch, hashes: &[u64]) -> Result<()> {
        assert_eq!(rows.num_rows(), hashes.len(), "a hash for every row");
        if hashes.is_empty() {
            return Ok(());
        }
        let blocks = self.namespaces.entry(namespace).or_default();
        blocks.push(Block {
            rows: without_slack(&rows)?,
            hashes: hashes.to_vec(),
        });
        // Like a binary counter: a block joins its neighbour once it is about as big, so that each row is copied a few times.
        while let [.., older, newer] = blocks.as_mut_slice() {
            let together = older.hashes.len() + newer.hashes.len();
            if together > FOLD_ROWS || older.hashes.len() > 2 * newer.hashes.len() {
                break;
            }
            older.rows = compute::concat_batches(&self.schema, [&older.rows, &newer.rows])?;
            older.hashes.append(&mut newer.hashes);
            blocks.pop();
        }
        Ok(())
    }

    /// The namespaces with rows, in order.
    pub fn namespaces(&self) -> impl Iterator<Item = i64> + '_ {
        self.namespaces.keys().copied()
    }

    /// The first namespace with rows.
    pub fn first_namespace(&self) -> Option<i64> {
        self.namespaces.keys().next().copied()
    }

    /// The namespaces with rows up to and with `last`, in order.
    pub fn namespaces_up_to(&self, last: i64) -> Vec<i64> {
        self.namespaces
            .range(..=last)
            .map(|(key, _)| *key)
            .collect()
    }

    /// Takes the rows of a namespace out, in order of arrival, with their hashes.
    pub fn take(&mut self, namespace: i64) -> Result<Option<(RecordBatch, Vec<u64>)>> {
        let Some(mut blocks) = self.namespaces.remove(&namespace) else {
            return Ok(None);
        };
        if blocks.len() == 1 {
            let block = blocks.pop().expect("there is one");
            return Ok(Some((block.rows, block.hashes)));
        }
        let rows = compute::concat_batches(&self.schema, blocks.iter().map(|block| &block.rows))?;
        let hashes = blocks
            .iter()
            .flat_map(|block| &block.hashes)
            .copied()
            .collect();
        Ok(Some((rows, hashes)))
    }

    /// Forgets all rows.
    pub fn clear(&mut self) {
        self.namespaces.clear();
    }

    /// All rows, for a snapshot: the hash of the key, the namespace, then the columns. Rows of a namespace keep their order.
    pub fn snapshot(&self) -> Result<Vec<RecordBatch>> {
        let blocks = self.blocks();
        blocks
            .map(|(namespace, block)| self.snapshot_of(namespace, block))
            .collect()
    }

    /// The same of rows of some keys.
    pub fn export(&self, is_wanted: &dyn Fn(u64) -> bool) -> Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        for (namespace, block) in self.blocks() {
            let block = block.filter(is_wanted)?;
            if !block.hashes.is_empty() {
                batches.push(self.snapshot_of(namespace, &block)?);
            }
        }
        Ok(batches)
    }

    /// Forgets the rows of some keys.
    pub fn remove(&mut self, is_gone: &dyn Fn(u64) -> bool) -> Result<()> {
        for blocks in self.namespaces.values_mut() {
            for block in blocks.iter_mut() {
                if block.hashes.iter().any(|hash| is_gone(*hash)) {
                    *block = block.filter(&|hash| !is_gone(hash))?;
                }
            }
            blocks.retain(|block| !block.hashes.is_empty());
        }
        self.namespaces.retain(|_, blocks| !blocks.is_empty());
        Ok(())
    }

    /// The number of rows of each namespace.
    pub fn sizes(&self) -> impl Iterator<Item = (i64, usize)> + '_ {
        self.namespaces.iter().map(|(namespace, blocks)| {
            let rows = blocks.iter().map(|block| block.hashes.len());
            (*namespace, rows.sum())
        })
    }

    fn blocks(&self) -> impl Iterator<Item = (i64, &Block)> {
        self.namespaces
            .iter()
            .flat_map(|(namespace, blocks)| blocks.iter().map(|block| (*namespace, block)))
    }

    fn snapshot_of(&self, namespace: i64, block: &Block) -> Result<RecordBatch> {
        let Block { rows, hashes } = block;
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(hashes.clone())),
            Arc::new(Int64Array::from(vec![namespace; hashes.len()])),
        ];
        columns.extend_from_slice(rows.columns());
        Ok(RecordBatch::try_new(self.snapshot_schema(), columns)?)
    }

    /// Adds the rows of snapshots, this instance's or others'.
    pub fn restore(&mut self, batches: &[RecordBatch]) -> Result<()> {
        for batch in batches {
            let namespaces = batch.column(1).as_primitive::<Int64Type>().values();
            let hashes = key_hashes_of(batch);
            let rows = RecordBatch::try_new(self.schema.clone(), batch.columns()[2..].to_vec())?;
            for run in runs(namespaces) {
                let (first, length) = (*run.start(), run.end() - run.start() + 1);
                let rows = rows.slice(first, length);
                self.append(namespaces[first], rows, &hashes[run])?;
            }
        }
        Ok(())
    }

    /// The columns of a snapshot.
    pub fn snapshot_schema(&self) -> SchemaRef {
        let mut fields = vec![
            Arc::new(Field::new(KEY_HASH_COLUMN, DataType::UInt64, false)),
            Arc::new(Field::new("namespace", DataType::Int64, false)),
        ];
        fields.extend(self.schema.fields().iter().cloned());
        Arc::new(ArrowSchema::new(fields))
    }
}

/// The runs of equal values.
fn runs(values: &[i64]) -> impl Iterator<Item = RangeInclusive<usize>> + '_ {
    let mut next = 0;
    values.chunk_by(|a, b| a == b).map(move |run| {
        let first = next;
        next += run.len();
        first..=next - 1
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: std::ops::Range<i64>) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
        RecordBatch::try_from_iter_with_nullable([("v", column, true)]).unwrap()
    }

    #[test]
    fn rows_come_back_in_order_of_arrival_and_are_then_gone() {
        let mut store = RowStore::new(rows(0..0).schema());
        for value in 0..1000 {
            let namespace = 10 + value % 2;
            store
                .append(namespace, rows(value..value + 1), &[value as u64])
                .unwrap();
        }
        assert_eq!(store.namespaces_up_to(10), [10]);
        assert!(store.namespaces.values().all(|blocks| blocks.len() < 12));
        let (taken, hashes) = store.take(11).unwrap().unwrap();
        let expected: Vec<i64> = (0..500).map(|value| 2 * value + 1).collect();
        assert_eq!(
            taken.column(0).as_primitive::<Int64Type>().values(),
            &expected[..]
        );
        assert_eq!(hashes[1], 3);
        assert!(store.take(11).unwrap().is_none());
    }

    #[test]
    fn a_slice_does_not_keep_its_batch_alive() {
        let mut store = RowStore::new(rows(0..0).schema());
        store
            .append(1, rows(0..100_000).slice(5, 2), &[1, 2])
            .unwrap();
        assert!(store.size_bytes() < 4096, "{}", store.size_bytes());
    }

    #[test]
    fn a_snapshot_restores_elsewhere() {
        let mut store = RowStore::new(rows(0..0).schema());
        store.append(5, rows(0..3), &[1 << 60, 2, 3]).unwrap();
        store.append(4, rows(3..4), &[9]).unwrap();
        let batches = store.snapshot().unwrap();
        assert_eq!(batches[0].schema().field(0).name(), KEY_HASH_COLUMN);
        let mut other = RowStore::new(rows(0..0).schema());
        other.restore(&batches).unwrap();
        assert_eq!(other.take(5).unwrap(), store.take(5).unwrap());
        assert_eq!(other.take(4).unwrap(), store.take(4).unwrap());
    }
}
