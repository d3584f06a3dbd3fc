//! Rows of a table by key, in memory.

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute;
use arrow::row::{RowConverter, Rows, SortField};
use hashbrown::HashTable;

use super::LookupRows;
use crate::error::Result;
use crate::stream::hash_columns;

/// See the module. Does not change once it is made, so that all subtasks may ask it.
pub struct KeyIndex {
    rows: RecordBatch,
    converter: RowConverter,
    /// The keys of all rows.
    keys: Rows,
    /// By hash of the key: which key.
    table: HashTable<Slot>,
    /// The rows of key `k` are `members[starts[k]..starts[k + 1]]`, in the order of the table.
    starts: Vec<u32>,
    members: Vec<u32>,
}

struct Slot {
    hash: u64,
    key: u32,
    /// A row that has it.
    first: u32,
}

impl KeyIndex {
    /// Indexes rows by some of their columns; `output` of their columns are given as answers.
    pub fn new(rows: &RecordBatch, key: &[usize], output: &[usize]) -> Result<Self> {
        let columns: Vec<ArrayRef> = key.iter().map(|at| rows.column(*at).clone()).collect();
        let fields = columns.iter().map(|column| column.data_type().clone());
        let converter = RowConverter::new(fields.map(SortField::new).collect())?;
        let keys = converter.convert_columns(&columns)?;
        let hashes = hash_columns(&columns, rows.num_rows())?;
        let mut table: HashTable<Slot> = HashTable::new();
        let mut key_of = Vec::with_capacity(rows.num_rows());
        for (row, hash) in hashes.iter().enumerate() {
            let same =
                |slot: &Slot| slot.hash == *hash && keys.row(slot.first as usize) == keys.row(row);
            let next = table.len() as u32;
            let entry = table.entry(*hash, same, |slot| slot.hash);
            let slot = entry.or_insert_with(|| Slot {
                hash: *hash,
                key: next,
                first: row as u32,
            });
            key_of.push(slot.get().key);
        }
        let (starts, members) = by_key(&key_of, table.len());
        Ok(KeyIndex {
            rows: rows.project(output)?,
            converter,
            keys,
            table,
            starts,
            members,
        })
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows of each of the keys.
    pub fn lookup(&self, keys: &[ArrayRef]) -> Result<LookupRows> {
        let count = keys.first().map_or(0, |key| key.len());
        let asked = self.converter.convert_columns(keys)?;
        let hashes = hash_columns(keys, count)?;
        let (mut of, mut found) = (Vec::new(), Vec::new());
        for (index, hash) in hashes.iter().enumerate() {
            let same = |slot: &Slot| {
                slot.hash == *hash && self.keys.row(slot.first as usize) == asked.row(index)
            };
            if let Some(slot) = self.table.find(*hash, same) {
                let key = slot.key as usize;
                let rows = &self.members[self.starts[key] as usize..self.starts[key + 1] as usize];
                found.extend_from_slice(rows);
                of.resize(found.len(), index as u32);
            }
        }
        let rows = compute::take_record_batch(&self.rows, &UInt32Array::from(found))?;
        Ok(LookupRows { rows, of })
    }
}

/// Rows laid out by key, in their order: a counting sort.
fn by_key(key_of: &[u32], keys: usize) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0u32; keys + 1];
    key_of.iter().for_each(|key| starts[*key as usize + 1] += 1);
    (0..keys).for_each(|key| starts[key + 1] += starts[key]);
    let mut next = starts.clone();
    let mut members = vec![0u32; key_of.len()];
    for (row, key) in key_of.iter().enumerate() {
        let place = &mut next[*key as usize];
        members[*place as usize] = row as u32;
        *place += 1;
    }
    (starts, members)
}
