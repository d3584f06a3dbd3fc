//! Finds the held row that an update or a deletion names: by a 128-bit hash of its key, or of all of it.

use std::collections::VecDeque;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::row::{RowConverter, SortField};
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::Result;
use crate::stream::hash_columns;
use crate::types::Schema;

/// Rows by the hash of some columns; of equal rows the one that came first is found.
pub(super) struct RowIndex {
    columns: Vec<usize>,
    /// `None` where a column has no encoding as bytes.
    converter: Option<RowConverter>,
    entries: HashTable<Entry>,
}

struct Entry {
    hash: u128,
    row: u32,
    /// Equal rows that came later.
    more: VecDeque<u32>,
}

impl RowIndex {
    pub(super) fn new(schema: &Schema, columns: Vec<usize>) -> Result<Self> {
        let types = columns.iter().map(|column| &schema.fields[*column]);
        let fields: Vec<SortField> = types
            .map(|field| SortField::new(field.logical_type.to_arrow()))
            .collect();
        let encodes = !fields.is_empty() && RowConverter::supports_fields(&fields);
        let converter = encodes.then(|| RowConverter::new(fields));
        Ok(RowIndex {
            columns,
            converter: converter.transpose()?,
            entries: HashTable::new(),
        })
    }

    /// The same without rows.
    pub(super) fn cleared(self) -> Self {
        RowIndex {
            entries: HashTable::new(),
            ..self
        }
    }

    /// The hash of each row.
    pub(super) fn hashes(&self, rows: &RecordBatch) -> Result<Vec<u128>> {
        let columns = self.columns.iter();
        let columns: Vec<ArrayRef> = columns.map(|column| rows.column(*column).clone()).collect();
        if let Some(converter) = &self.converter {
            let encoded = converter.convert_columns(&columns)?;
            return Ok(encoded.iter().map(|row| xxh3_128(row.data())).collect());
        }
        let hashes = hash_columns(&columns, rows.num_rows())?;
        Ok(hashes.into_iter().map(u128::from).collect())
    }

    /// The first row with this hash.
    pub(super) fn get(&self, hash: u128) -> Option<u32> {
        let found = self.entries.find(hash as u64, |entry| entry.hash == hash);
        found.map(|entry| entry.row)
    }

    /// Adds a row behind its equals.
    pub(super) fn insert(&mut self, hash: u128, row: u32) {
        if let Some(entry) = self
            .entries
            .find_mut(hash as u64, |entry| entry.hash == hash)
        {
            entry.more.push_back(row);
            return;
        }
        let entry = Entry {
            hash,
            row,
            more: VecDeque::new(),
        };
        self.entries
            .insert_unique(hash as u64, entry, |entry| entry.hash as u64);
    }

    /// Takes a row out.
    pub(super) fn remove(&mut self, hash: u128, row: u32) {
        let Ok(mut found) = self
            .entries
            .find_entry(hash as u64, |entry| entry.hash == hash)
        else {
            return;
        };
        let entry = found.get_mut();
        if entry.row != row {
            entry.more.retain(|other| *other != row);
        } else if let Some(next) = entry.more.pop_front() {
            entry.row = next;
        } else {
            found.remove();
        }
        if self.entries.capacity() > 1024 && self.entries.len() * 4 < self.entries.capacity() {
            self.entries.shrink_to(0, |entry| entry.hash as u64);
        }
    }
}
