//! Left rows that wait until the watermark reaches their time.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, UInt8Array};
use arrow::datatypes::{DataType, SchemaRef, UInt8Type};

use crate::error::Result;
use crate::operators::keyed_rows::{keyed_batch, keyed_schema, unkeyed_batch};
use crate::operators::row_timers::RowTimers;
use crate::operators::timed_side::{KeyNumbers, row_times};
use crate::state::RowSlab;
use crate::types::{EventTime, RowKind, RowKinds};

/// The column of a snapshot before those of the rows.
const KIND: &str = "kind";

/// Left rows by time.
pub(super) struct Probes {
    rows: RowSlab,
    /// By row.
    facts: Vec<ProbeFacts>,
    time: usize,
    waiting: RowTimers,
}

#[derive(Debug, Clone, Copy)]
struct ProbeFacts {
    key: u32,
    /// A NULL may keep it from having a version.
    joins: bool,
    kind: RowKind,
}

const NO_FACTS: ProbeFacts = ProbeFacts {
    key: 0,
    joins: false,
    kind: RowKind::Insert,
};

/// A row whose time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DueProbe {
    /// Which of the watermarks that fire makes it due.
    pub(super) fire: usize,
    /// Its place in the order of arrival.
    pub(super) place: u64,
    pub(super) time: i64,
    pub(super) row: u32,
}

impl Probes {
    /// No rows yet; column `time` is a row's time.
    pub(super) fn new(schema: SchemaRef, time: usize) -> Self {
        Probes {
            rows: RowSlab::new(schema),
            facts: Vec::new(),
            time,
            waiting: RowTimers::default(),
        }
    }

    /// The rows by [`DueProbe::row`].
    pub(super) fn rows(&self) -> &RowSlab {
        &self.rows
    }

    /// The key of a row.
    pub(super) fn key(&self, row: u32) -> u32 {
        self.facts[row as usize].key
    }

    /// The key of a row; `None` where a NULL keeps it from having a version.
    pub(super) fn joining(&self, row: u32) -> Option<u32> {
        let facts = self.facts[row as usize];
        facts.joins.then_some(facts.key)
    }

    /// What a row does.
    pub(super) fn kind(&self, row: u32) -> RowKind {
        self.facts[row as usize].kind
    }

    /// Takes rows in, behind those that came before.
    pub(super) fn add(
        &mut self,
        rows: &RecordBatch,
        kinds: &RowKinds,
        keys: &KeyNumbers,
    ) -> Result<()> {
        let times = row_times(rows, self.time)?;
        let mut ids = Vec::with_capacity(rows.num_rows());
        self.rows.insert(rows, &mut ids)?;
        self.facts.resize(self.rows.capacity(), NO_FACTS);
        for (row, id) in ids.into_iter().enumerate() {
            self.facts[id as usize] = ProbeFacts {
                key: keys.numbers[row],
                joins: keys.joining(row).is_some(),
                kind: kinds.get(row),
            };
            self.waiting.push(times[row], id);
        }
        Ok(())
    }

    /// Takes the rows out of the queue that a list of rising watermarks makes due: by watermark, then in order of arrival. They
    /// stay among the rows until they are removed.
    pub(super) fn take_due(&mut self, watermarks: &[EventTime]) -> Vec<DueProbe> {
        let last = watermarks.last().map_or(i64::MIN, |last| last.millis());
        let mut due = Vec::new();
        while let Some((time, row)) = self.waiting.pop_until(last) {
            due.push(DueProbe {
                fire: watermarks.partition_point(|watermark| watermark.millis() < time),
                place: self.waiting.place(row),
                time,
                row,
            });
        }
        due.sort_unstable();
        due
    }

    /// Gives the keys of all rows other numbers.
    pub(super) fn renumber(&mut self, number: impl Fn(u32) -> u32) {
        for row in self.rows.ids() {
            let facts = &mut self.facts[row as usize];
            facts.key = number(facts.key);
        }
    }

    /// Forgets rows that have been taken out of the queue.
    pub(super) fn remove(&mut self, rows: &[u32]) -> Result<()> {
        self.rows.remove(rows)
    }

    /// Forgets rows that wait.
    pub(super) fn take_out(&mut self, rows: &[u32]) -> Result<()> {
        self.waiting.remove(rows);
        self.rows.remove(rows)
    }

    /// Forgets everything, and gives the memory back.
    pub(super) fn clear(&mut self) {
        *self = Probes::new(self.rows.schema().clone(), self.time);
    }

    /// Bytes held.
    pub(super) fn size_bytes(&self) -> usize {
        let facts = self.facts.capacity() * size_of::<ProbeFacts>();
        self.rows.size_bytes() + self.waiting.size_bytes() + facts
    }

    /// The rows in order of arrival, of these keys (ascending) or of all.
    pub(super) fn waiting(&self, keys: Option<&[u32]>) -> Vec<u32> {
        let mut ids = self.rows.ids();
        if let Some(keys) = keys {
            ids.retain(|id| keys.binary_search(&self.key(*id)).is_ok());
        }
        ids.sort_unstable_by_key(|id| self.waiting.place(*id));
        ids
    }

    /// The columns of a snapshot.
    pub(super) fn snapshot_schema(&self) -> SchemaRef {
        keyed_schema(&[(KIND, DataType::UInt8)], self.rows.schema())
    }

    /// Rows as a table of a snapshot: the hash of the key, the kind, then the columns.
    pub(super) fn table(&self, ids: &[u32], hashes: &[u64]) -> Result<RecordBatch> {
        let kinds = ids.iter().map(|id| self.kind(*id) as u8);
        let kinds: ArrayRef = Arc::new(UInt8Array::from_iter_values(kinds));
        let hashes = ids.iter().map(|id| hashes[self.key(*id) as usize]);
        keyed_batch(hashes.collect(), &[(KIND, kinds)], &self.rows.gather(ids)?)
    }

    /// The times of the rows of such a table.
    pub(super) fn times(&self, table: &RecordBatch) -> Result<Vec<i64>> {
        Ok(row_times(table, 2 + self.time)?.to_vec())
    }

    /// The rows and kinds of such a table, to be added again.
    pub(super) fn of_table(&self, table: &RecordBatch) -> Result<(RecordBatch, RowKinds)> {
        let (notes, rows) = unkeyed_batch(table, 1, self.rows.schema())?;
        let kinds = notes[0].as_primitive::<UInt8Type>().values().clone();
        Ok((rows, RowKinds::from_bytes(kinds)))
    }
}
