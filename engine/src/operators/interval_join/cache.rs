//! The rows of one side of an interval join that a row of the other side may still meet.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Int64Type, SchemaRef};

use crate::error::Result;
use crate::operators::keyed_rows::{keyed_batch, keyed_schema, unkeyed_batch};
use crate::operators::row_timers::RowTimers;
use crate::state::{RowSlab, keep_at};

/// The columns of a snapshot before those of the rows.
const TIME: &str = "time";
const PAIRED: &str = "paired";

/// Rows by key and time.
pub(super) struct RowCache {
    rows: RowSlab,
    /// By row.
    facts: Vec<RowFacts>,
    /// By key: rows in order of time, then of arrival.
    by_key: Vec<VecDeque<(i64, u32)>>,
    expiring: RowTimers,
}

#[derive(Debug, Clone, Copy)]
struct RowFacts {
    key: u32,
    time: i64,
    /// Whether it has found a row of the other side.
    paired: bool,
}

const NO_FACTS: RowFacts = RowFacts {
    key: 0,
    time: 0,
    paired: false,
};

/// What is known of rows that are put into a cache.
pub(super) struct CachedRows<'a> {
    pub(super) keys: &'a [u32],
    pub(super) times: &'a [i64],
    pub(super) paired: &'a [bool],
}

/// Rows of a snapshot, with what was known of them.
pub(super) struct KeptRows {
    pub(super) rows: RecordBatch,
    pub(super) times: Vec<i64>,
    pub(super) paired: Vec<bool>,
}

/// A row that nothing can meet any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExpiredRow {
    pub(super) row: u32,
    pub(super) time: i64,
    pub(super) paired: bool,
}

impl RowCache {
    pub(super) fn new(schema: SchemaRef) -> Self {
        RowCache {
            rows: RowSlab::new(schema),
            facts: Vec::new(),
            by_key: Vec::new(),
            expiring: RowTimers::default(),
        }
    }

    /// The rows by their number.
    pub(super) fn rows(&self) -> &RowSlab {
        &self.rows
    }

    /// The key of a row.
    pub(super) fn key(&self, row: u32) -> u32 {
        self.facts[row as usize].key
    }

    /// Whether a key has rows.
    pub(super) fn has_rows(&self, key: u32) -> bool {
        let of_key = self.by_key.get(key as usize);
        of_key.is_some_and(|of_key| !of_key.is_empty())
    }

    /// The rows of a key whose times lie in a range, by time, then in order of arrival: the `skip`th and those behind it.
    pub(super) fn within(
        &self,
        key: u32,
        (least, greatest): (i64, i64),
        skip: usize,
    ) -> impl Iterator<Item = u32> + '_ {
        let of_key = self.by_key.get(key as usize);
        of_key.into_iter().flat_map(move |of_key| {
            let first = of_key.partition_point(|(time, _)| *time < least);
            let last = of_key.partition_point(|(time, _)| *time <= greatest);
            let first = (first + skip).min(last.max(first));
            of_key.range(first..last.max(first)).map(|(_, row)| *row)
        })
    }

    /// Notes that a row has found one of the other side.
    pub(super) fn mark_paired(&mut self, row: u32) {
        self.facts[row as usize].paired = true;
    }

    /// Takes the rows at `indices` in; `known` speaks about all rows of the batch.
    pub(super) fn add(
        &mut self,
        rows: &RecordBatch,
        indices: &[u32],
        known: &CachedRows,
    ) -> Result<()> {
        let mut ids = Vec::with_capacity(indices.len());
        self.rows.insert_some(rows, indices, &mut ids)?;
        self.facts.resize(self.rows.capacity(), NO_FACTS);
        for (index, id) in indices.iter().zip(ids) {
            let index = *index as usize;
            let facts = RowFacts {
                key: known.keys[index],
                time: known.times[index],
                paired: known.paired[index],
            };
            self.facts[id as usize] = facts;
            self.expiring.push(facts.time, id);
            self.add_to_key(facts.key, facts.time, id);
        }
        Ok(())
    }

    fn add_to_key(&mut self, key: u32, time: i64, id: u32) {
        if self.by_key.len() <= key as usize {
            self.by_key.resize_with(key as usize + 1, VecDeque::new);
        }
        let of_key = &mut self.by_key[key as usize];
        let at = of_key.partition_point(|(known, _)| *known <= time);
        of_key.insert(at, (time, id));
    }

    /// The time of the oldest row.
    pub(super) fn first_time(&self) -> Option<i64> {
        self.expiring.first_time()
    }

    /// Takes the rows up to a time out, by time, then in order of arrival. They stay among the rows until they are removed.
    pub(super) fn expire(&mut self, last: i64) -> Vec<ExpiredRow> {
        let mut expired = Vec::new();
        while let Some((time, row)) = self.expiring.pop_until(last) {
            let facts = self.facts[row as usize];
            expired.push(ExpiredRow {
                row,
                time,
                paired: facts.paired,
            });
            // Rows leave by time, then in order of arrival: the first of the key goes.
            let of_key = &mut self.by_key[facts.key as usize];
            let first = of_key.pop_front();
            debug_assert_eq!(first, Some((time, row)), "rows of a key leave in order");
            if of_key.is_empty() {
                *of_key = VecDeque::new();
            }
        }
        expired
    }

    /// Keeps these keys, ascending, and numbers them by their places here; no other one has rows.
    pub(super) fn keep_keys(&mut self, keys: &[u32]) {
        let known = self.by_key.len() as u32;
        let known = keys.partition_point(|key| *key < known);
        keep_at(&mut self.by_key, &keys[..known]);
        for (key, rows) in (0u32..).zip(&self.by_key) {
            for (_, row) in rows {
                self.facts[*row as usize].key = key;
            }
        }
    }

    /// Forgets rows that have been taken out.
    pub(super) fn remove(&mut self, rows: &[u32]) -> Result<()> {
        self.rows.remove(rows)
    }

    /// Forgets all rows of keys.
    pub(super) fn remove_keys(&mut self, keys: &[u32]) -> Result<()> {
        let mut gone = Vec::new();
        for key in keys {
            if let Some(of_key) = self.by_key.get_mut(*key as usize) {
                gone.extend(std::mem::take(of_key).into_iter().map(|(_, row)| row));
            }
        }
        self.expiring.remove(&gone);
        self.rows.remove(&gone)
    }

    /// Forgets everything, and gives the memory back.
    pub(super) fn clear(&mut self) {
        *self = RowCache::new(self.rows.schema().clone());
    }

    /// Bytes held, but for the lists of keys, which are a constant for each.
    pub(super) fn size_bytes(&self) -> usize {
        let entries = self.rows.len() * size_of::<(i64, u32)>();
        let lists = self.by_key.capacity() * size_of::<VecDeque<(i64, u32)>>();
        let facts = self.facts.capacity() * size_of::<RowFacts>();
        self.rows.size_bytes() + self.expiring.size_bytes() + entries + lists + facts
    }

    /// All rows in order of arrival, as a table of a snapshot.
    pub(super) fn snapshot(&self, hashes: &[u64]) -> Result<RecordBatch> {
        let mut ids = self.rows.ids();
        ids.sort_unstable_by_key(|id| self.expiring.place(*id));
        self.table(&ids, hashes)
    }

    /// The rows of keys.
    pub(super) fn snapshot_keys(&self, keys: &[u32], hashes: &[u64]) -> Result<RecordBatch> {
        let of_keys = keys
            .iter()
            .filter_map(|key| self.by_key.get(*key as usize))
            .flatten();
        let ids: Vec<u32> = of_keys.map(|(_, row)| *row).collect();
        self.table(&ids, hashes)
    }

    /// The columns of a snapshot.
    pub(super) fn snapshot_schema(&self) -> SchemaRef {
        let notes = [(TIME, DataType::Int64), (PAIRED, DataType::Boolean)];
        keyed_schema(&notes, self.rows.schema())
    }

    /// The hash of the key, the time, whether paired, then the columns.
    fn table(&self, ids: &[u32], hashes: &[u64]) -> Result<RecordBatch> {
        let facts = || ids.iter().map(|id| self.facts[*id as usize]);
        let times = Int64Array::from_iter_values(facts().map(|facts| facts.time));
        let paired: Vec<bool> = facts().map(|facts| facts.paired).collect();
        let notes: [(&str, ArrayRef); 2] = [
            (TIME, Arc::new(times)),
            (PAIRED, Arc::new(BooleanArray::from(paired))),
        ];
        let hashes = facts().map(|facts| hashes[facts.key as usize]).collect();
        keyed_batch(hashes, &notes, &self.rows.gather(ids)?)
    }

    /// A batch of a snapshot taken apart.
    pub(super) fn of_snapshot(&self, batch: &RecordBatch) -> Result<KeptRows> {
        let (notes, rows) = unkeyed_batch(batch, 2, self.rows.schema())?;
        Ok(KeptRows {
            rows,
            times: notes[0].as_primitive::<Int64Type>().values().to_vec(),
            paired: notes[1].as_boolean().values().iter().collect(),
        })
    }
}
