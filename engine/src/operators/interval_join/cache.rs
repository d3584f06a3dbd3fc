//! The rows of one side of an interval join that a row of the other side may still meet.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema as ArrowSchema, SchemaRef, UInt64Type};

use crate::error::Result;
use crate::state::{KEY_HASH_COLUMN, RowSlab};

/// Rows by key and time.
pub(super) struct RowCache {
    rows: RowSlab,
    /// By row.
    facts: Vec<RowFacts>,
    /// By key: rows in order of time, then of arrival.
    by_key: Vec<VecDeque<(i64, u32)>>,
    expiring: BinaryHeap<Reverse<(i64, u64, u32)>>,
    next_sequence: u64,
}

#[derive(Debug, Clone, Copy)]
struct RowFacts {
    key: Option<u32>,
    hash: u64,
    time: i64,
    sequence: u64,
    /// Whether it has found a row of the other side.
    paired: bool,
}

const NO_FACTS: RowFacts = RowFacts {
    key: None,
    hash: 0,
    time: 0,
    sequence: 0,
    paired: false,
};

/// What is known of rows that are put into a cache.
pub(super) struct CachedRows<'a> {
    pub(super) keys: &'a [Option<u32>],
    pub(super) hashes: &'a [u64],
    pub(super) times: &'a [i64],
    pub(super) paired: &'a [bool],
}

/// Rows of a snapshot, with what was known of them.
pub(super) struct KeptRows {
    pub(super) rows: RecordBatch,
    pub(super) hashes: Vec<u64>,
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
            expiring: BinaryHeap::new(),
            next_sequence: 0,
        }
    }

    /// The rows by their number.
    pub(super) fn rows(&self) -> &RowSlab {
        &self.rows
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
                hash: known.hashes[index],
                time: known.times[index],
                sequence: self.next_sequence,
                paired: known.paired[index],
            };
            self.next_sequence += 1;
            self.facts[id as usize] = facts;
            self.expiring
                .push(Reverse((facts.time, facts.sequence, id)));
            if let Some(key) = facts.key {
                self.add_to_key(key, facts.time, id);
            }
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
        self.expiring.peek().map(|Reverse((time, _, _))| *time)
    }

    /// Takes the rows up to a time out, by time, then in order of arrival. They stay among the rows until they are removed.
    pub(super) fn expire(&mut self, last: i64) -> Vec<ExpiredRow> {
        let mut expired = Vec::new();
        while let Some(Reverse((time, _, row))) = self.expiring.peek().copied()
            && time <= last
        {
            self.expiring.pop();
            let facts = self.facts[row as usize];
            expired.push(ExpiredRow {
                row,
                time,
                paired: facts.paired,
            });
            if let Some(key) = facts.key {
                // Rows leave by time, then in order of arrival: the first of the key goes.
                let of_key = &mut self.by_key[key as usize];
                let first = of_key.pop_front();
                debug_assert_eq!(first, Some((time, row)), "rows of a key leave in order");
                if of_key.is_empty() {
                    *of_key = VecDeque::new();
                }
            }
        }
        expired
    }

    /// Gives the keys new numbers, which `number` tells from the `columns` of rows and the hashes of their keys.
    pub(super) fn renumber(
        &mut self,
        columns: &[usize],
        mut number: impl FnMut(&[ArrayRef], &[u64]) -> Result<Vec<u32>>,
    ) -> Result<()> {
        let mut ids = self.rows.ids();
        ids.retain(|id| self.facts[*id as usize].key.is_some());
        ids.sort_unstable_by_key(|id| {
            let facts = self.facts[*id as usize];
            (facts.time, facts.sequence)
        });
        let hashes: Vec<u64> = ids.iter().map(|id| self.facts[*id as usize].hash).collect();
        let numbers = number(&self.rows.gather_columns(columns, &ids)?, &hashes)?;
        self.by_key = Vec::new();
        for (id, key) in ids.into_iter().zip(numbers) {
            let facts = &mut self.facts[id as usize];
            facts.key = Some(key);
            let time = facts.time;
            self.add_to_key(key, time, id);
        }
        Ok(())
    }

    /// Forgets rows.
    pub(super) fn remove(&mut self, rows: &[u32]) -> Result<()> {
        self.rows.remove(rows)
    }

    /// All rows in order of arrival: key group, hash of the key, time, whether paired, then the columns.
    pub(super) fn snapshot(&self, max_parallelism: u16) -> Result<Vec<RecordBatch>> {
        let mut ids = self.rows.ids();
        ids.sort_unstable_by_key(|id| self.facts[*id as usize].sequence);
        let facts = || ids.iter().map(|id| self.facts[*id as usize]);
        let groups = facts().map(|facts| facts.hash);
        let paired: Vec<bool> = facts().map(|facts| facts.paired).collect();
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from_iter_values(groups)),
            Arc::new(UInt64Array::from_iter_values(
                facts().map(|facts| facts.hash),
            )),
            Arc::new(Int64Array::from_iter_values(
                facts().map(|facts| facts.time),
            )),
            Arc::new(BooleanArray::from(paired)),
        ];
        columns.extend_from_slice(self.rows.gather(&ids)?.columns());
        let mut fields = vec![
            Arc::new(Field::new(KEY_HASH_COLUMN, DataType::UInt64, false)),
            Arc::new(Field::new("hash", DataType::UInt64, false)),
            Arc::new(Field::new("time", DataType::Int64, false)),
            Arc::new(Field::new("paired", DataType::Boolean, false)),
        ];
        fields.extend(self.rows.schema().fields().iter().cloned());
        let schema = Arc::new(ArrowSchema::new(fields));
        Ok(vec![RecordBatch::try_new(schema, columns)?])
    }

    /// A batch of a snapshot taken apart.
    pub(super) fn of_snapshot(&self, batch: &RecordBatch) -> Result<KeptRows> {
        let columns = batch.columns()[4..].to_vec();
        let hashes = batch.column(1).as_primitive::<UInt64Type>().values();
        let times = batch.column(2).as_primitive::<Int64Type>().values();
        Ok(KeptRows {
            rows: RecordBatch::try_new(self.rows.schema().clone(), columns)?,
            hashes: hashes.to_vec(),
            times: times.to_vec(),
            paired: batch.column(3).as_boolean().values().iter().collect(),
        })
    }
}
