//! Rows under stable numbers, in Arrow blocks: what joins, Top-N, OVER and the like keep rows in.
//!
//! A row gets an id when it is inserted and keeps it until it is removed; then the id is used again. Rows lie in blocks; small blocks
//! are folded together as they come, and a block that has lost half of its rows is written anew, so memory follows what
//! is kept. Which rows belong to which key, and in what order, is the matter of whoever keeps the ids. Rows are gathered
//! by `take` or `interleave`, one call a column.

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute;
use arrow::datatypes::SchemaRef;

use crate::error::Result;

/// Blocks up to this many rows are folded together.
const FOLD_ROWS: usize = 8192;

/// See the module.
#[derive(Debug)]
pub struct RowSlab {
    schema: SchemaRef,
    blocks: Vec<Block>,
    /// Places of blocks that hold nothing.
    free_blocks: Vec<u32>,
    /// Blocks that may still be folded, older ones first.
    young: Vec<u32>,
    places: Vec<Place>,
    free_ids: Vec<u32>,
    live: usize,
}

#[derive(Debug)]
struct Block {
    rows: RecordBatch,
    /// The id of each row; a row that was removed is no longer where its id points.
    ids: Vec<u32>,
    live: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    block: u32,
    row: u32,
}

const NOWHERE: Place = Place {
    block: u32::MAX,
    row: u32::MAX,
};

impl RowSlab {
    /// An empty slab for rows of this schema.
    pub fn new(schema: SchemaRef) -> Self {
        RowSlab {
            schema,
            blocks: Vec::new(),
            free_blocks: Vec::new(),
            young: Vec::new(),
            places: Vec::new(),
            free_ids: Vec::new(),
            live: 0,
        }
    }

    /// The columns of the rows.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Number of rows kept.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether no row is kept.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// One above the largest id in use: the length of a column indexed by id.
    pub fn capacity(&self) -> usize {
        self.places.len()
    }

    /// Bytes held.
    pub fn size_bytes(&self) -> usize {
        let blocks: usize = self
            .blocks
            .iter()
            .map(|block| block.rows.get_array_memory_size() + block.ids.capacity() * 4)
            .sum();
        blocks
            + self.places.capacity() * size_of::<Place>()
            + (self.free_ids.capacity() + self.free_blocks.capacity()) * 4
    }

    /// Keeps rows; their ids are appended to `ids` in order.
    pub fn insert(&mut self, rows: &RecordBatch, ids: &mut Vec<u32>) -> Result<()> {
        let count = rows.num_rows();
        if count == 0 {
            return Ok(());
        }
        let mut own = Vec::with_capacity(count);
        for _ in 0..count {
            own.push(self.new_id());
        }
        ids.extend_from_slice(&own);
        self.live += count;
        self.push_block(without_slack(rows)?, own)
    }

    /// Keeps the rows at `indices` of a batch; their ids are appended to `ids` in order.
    pub fn insert_some(
        &mut self,
        rows: &RecordBatch,
        indices: &[u32],
        ids: &mut Vec<u32>,
    ) -> Result<()> {
        if indices.is_empty() {
            return Ok(());
        }
        let indices = UInt32Array::from(indices.to_vec());
        let rows = compute::take_record_batch(rows, &indices)?;
        self.insert(&rows, ids)
    }

    /// Forgets rows; each id must be in use.
    pub fn remove(&mut self, ids: &[u32]) -> Result<()> {
        for id in ids {
            let place = std::mem::replace(&mut self.places[*id as usize], NOWHERE);
            assert_ne!(place, NOWHERE, "a row is removed once");
            self.free_ids.push(*id);
            self.live -= 1;
            let block = &mut self.blocks[place.block as usize];
            block.live -= 1;
            if block.live == 0 {
                self.free_block(place.block);
            } else if block.live * 2 < block.ids.len() {
                self.rewrite(place.block)?;
            }
        }
        Ok(())
    }

    /// The rows of these ids, in this order; an id may come several times.
    pub fn gather(&self, ids: &[u32]) -> Result<RecordBatch> {
        let columns: Vec<usize> = (0..self.schema.fields().len()).collect();
        let arrays = self.gather_columns(&columns, ids)?;
        let options = RecordBatchOptions::new().with_row_count(Some(ids.len()));
        Ok(RecordBatch::try_new_with_options(
            self.schema.clone(),
            arrays,
            &options,
        )?)
    }

    /// Some columns of the rows of these ids.
    pub fn gather_columns(&self, columns: &[usize], ids: &[u32]) -> Result<Vec<ArrayRef>> {
        let mut used: Vec<u32> = Vec::new();
        let mut number = vec![u32::MAX; self.blocks.len()];
        let places: Vec<(usize, usize)> = ids
            .iter()
            .map(|id| {
                let place = self.places[*id as usize];
                let known = &mut number[place.block as usize];
                if *known == u32::MAX {
                    *known = used.len() as u32;
                    used.push(place.block);
                }
                (*known as usize, place.row as usize)
            })
            .collect();
        if let [block] = used[..] {
            let rows = UInt32Array::from_iter_values(places.iter().map(|(_, row)| *row as u32));
            let block = &self.blocks[block as usize].rows;
            return columns
                .iter()
                .map(|column| Ok(compute::take(block.column(*column), &rows, None)?))
                .collect();
        }
        columns
            .iter()
            .map(|column| self.interleaved(*column, &used, &places))
            .collect()
    }

    fn interleaved(
        &self,
        column: usize,
        blocks: &[u32],
        places: &[(usize, usize)],
    ) -> Result<ArrayRef> {
        if places.is_empty() {
            let data_type = self.schema.field(column).data_type();
            return Ok(arrow::array::new_empty_array(data_type));
        }
        let arrays: Vec<&dyn Array> = blocks
            .iter()
            .map(|block| self.blocks[*block as usize].rows.column(column).as_ref())
            .collect();
        Ok(compute::interleave(&arrays, places)?)
    }

    /// The ids of all rows, in no particular order.
    pub fn ids(&self) -> Vec<u32> {
        let lives = |id: &usize| self.places[*id] != NOWHERE;
        (0..self.places.len())
            .filter(lives)
            .map(|id| id as u32)
            .collect()
    }

    fn new_id(&mut self) -> u32 {
        self.free_ids.pop().unwrap_or_else(|| {
            self.places.push(NOWHERE);
            (self.places.len() - 1) as u32
        })
    }

    /// Adds a block and folds it with young ones, like a binary counter: each row is copied a few times.
    fn push_block(&mut self, mut rows: RecordBatch, mut ids: Vec<u32>) -> Result<()> {
        while let Some(older) = self.young.last().copied() {
            let older_rows = self.blocks[older as usize].live;
            if older_rows + ids.len() > FOLD_ROWS {
                self.young.clear();
                break;
            }
            if older_rows > 2 * ids.len() {
                break;
            }
            let (old_rows, old_ids) = self.take_block(older)?;
            rows = compute::concat_batches(&self.schema, [&old_rows, &rows])?;
            ids = [old_ids, ids].concat();
        }
        let place = self.free_blocks.pop().unwrap_or_else(|| {
            self.blocks.push(Block {
                rows: RecordBatch::new_empty(self.schema.clone()),
                ids: Vec::new(),
                live: 0,
            });
            (self.blocks.len() - 1) as u32
        });
        for (row, id) in ids.iter().enumerate() {
            self.places[*id as usize] = Place {
                block: place,
                row: row as u32,
            };
        }
        self.young.push(place);
        self.blocks[place as usize] = Block {
            rows,
            live: ids.len(),
            ids,
        };
        Ok(())
    }

    fn rewrite(&mut self, block: u32) -> Result<()> {
        let (rows, ids) = self.take_block(block)?;
        self.push_block(rows, ids)
    }

    /// Takes a block out, without the rows that were removed.
    fn take_block(&mut self, place: u32) -> Result<(RecordBatch, Vec<u32>)> {
        let empty = Block {
            rows: RecordBatch::new_empty(self.schema.clone()),
            ids: Vec::new(),
            live: 0,
        };
        let block = std::mem::replace(&mut self.blocks[place as usize], empty);
        self.young.retain(|young| *young != place);
        self.free_blocks.push(place);
        if block.live == block.ids.len() {
            return Ok((block.rows, block.ids));
        }
        let lives = |row: usize, id: u32| {
            let row = row as u32;
            self.places[id as usize] == Place { block: place, row }
        };
        let keep: Vec<bool> = block
            .ids
            .iter()
            .enumerate()
            .map(|(row, id)| lives(row, *id))
            .collect();
        let ids = block
            .ids
            .iter()
            .zip(&keep)
            .filter_map(|(id, keep)| keep.then_some(*id))
            .collect();
        let rows = compute::filter_record_batch(&block.rows, &BooleanArray::from(keep))?;
        Ok((rows, ids))
    }

    fn free_block(&mut self, place: u32) {
        let block = &mut self.blocks[place as usize];
        block.rows = RecordBatch::new_empty(self.schema.clone());
        block.ids = Vec::new();
        self.young.retain(|young| *young != place);
        self.free_blocks.push(place);
    }
}

/// A copy where the rows are a small part of larger buffers, which they would keep alive.
pub(super) fn without_slack(rows: &RecordBatch) -> Result<RecordBatch> {
    let used: usize = rows
        .columns()
        .iter()
        .map(|column| column.to_data().get_slice_memory_size().unwrap_or(0))
        .sum();
    if rows.get_array_memory_size() <= 2 * used + 4096 {
        return Ok(rows.clone());
    }
    let indices = UInt32Array::from_iter_values(0..rows.num_rows() as u32);
    Ok(compute::take_record_batch(rows, &indices)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{AsArray, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn rows(values: &[i64]) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        let texts = values.iter().map(|value| format!("row {value}"));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap()
    }

    fn numbers(slab: &RowSlab, ids: &[u32]) -> Vec<i64> {
        let batch = slab.gather(ids).unwrap();
        batch
            .column(0)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    }

    #[test]
    fn rows_keep_their_ids_through_folding() {
        let mut slab = RowSlab::new(rows(&[]).schema());
        let mut ids = Vec::new();
        for value in 0..100 {
            slab.insert(&rows(&[value]), &mut ids).unwrap();
        }
        assert_eq!(numbers(&slab, &ids), (0..100).collect::<Vec<_>>());
        assert_eq!(numbers(&slab, &[ids[7], ids[7], ids[3]]), [7, 7, 3]);
        assert!(slab.blocks.len() - slab.free_blocks.len() < 9);
    }

    #[test]
    fn removed_rows_give_their_memory_back() {
        let mut slab = RowSlab::new(rows(&[]).schema());
        let mut ids = Vec::new();
        let values: Vec<i64> = (0..20_000).collect();
        for part in values.chunks(1000) {
            slab.insert(&rows(part), &mut ids).unwrap();
        }
        let full = slab.size_bytes();
        let (gone, kept): (Vec<u32>, Vec<u32>) = ids.iter().partition(|id| *id % 10 != 0);
        slab.remove(&gone).unwrap();
        assert_eq!(slab.len(), kept.len());
        // The places of ids stay.
        let places = slab.places.capacity() * 8 + slab.free_ids.capacity() * 4;
        assert!(
            slab.size_bytes() - places < full / 3,
            "{full} {}",
            slab.size_bytes()
        );
        let expected: Vec<i64> = kept.iter().map(|id| *id as i64).collect();
        assert_eq!(numbers(&slab, &kept), expected);
        let mut again = Vec::new();
        slab.insert(&rows(&[-1, -2]), &mut again).unwrap();
        assert_eq!(numbers(&slab, &again), [-1, -2]);
        assert_eq!(slab.ids().len(), kept.len() + 2);
        slab.remove(&slab.ids()).unwrap();
        assert!(slab.is_empty());
        assert_eq!(slab.gather(&[]).unwrap().num_rows(), 0);
    }
}
