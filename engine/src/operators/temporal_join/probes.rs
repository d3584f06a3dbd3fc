//! Left rows that wait until the watermark reaches their time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, UInt8Array, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema, SchemaRef, UInt8Type, UInt64Type};

use crate::error::Result;
use crate::operators::timed_side::row_times;
use crate::state::{KEY_HASH_COLUMN, RowSlab};
use crate::types::{EventTime, RowKind, RowKinds};

/// Left rows by time.
pub(super) struct Probes {
    rows: RowSlab,
    /// By row.
    facts: Vec<ProbeFacts>,
    time: usize,
    waiting: BinaryHeap<Reverse<(i64, u64, u32)>>,
    /// The place of the next row in the order of arrival.
    next_sequence: u64,
}

#[derive(Debug, Clone, Copy)]
struct ProbeFacts {
    key: Option<u32>,
    kind: RowKind,
    hash: u64,
    sequence: u64,
}

const NO_FACTS: ProbeFacts = ProbeFacts {
    key: None,
    kind: RowKind::Insert,
    hash: 0,
    sequence: 0,
};

/// A row whose time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DueProbe {
    /// Which of the watermarks that fire makes it due.
    pub(super) fire: usize,
    /// Its place in the order of arrival.
    pub(super) sequence: u64,
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
            waiting: BinaryHeap::new(),
            next_sequence: 0,
        }
    }

    /// The rows by [`DueProbe::row`].
    pub(super) fn rows(&self) -> &RowSlab {
        &self.rows
    }

    /// The key of a row; `None` where a NULL keeps it from having a version.
    pub(super) fn key(&self, row: u32) -> Option<u32> {
        self.facts[row as usize].key
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
        keys: &[Option<u32>],
        hashes: &[u64],
    ) -> Result<()> {
        let times = row_times(rows, self.time)?;
        let mut ids = Vec::with_capacity(rows.num_rows());
        self.rows.insert(rows, &mut ids)?;
        self.facts.resize(self.rows.capacity(), NO_FACTS);
        for (row, id) in ids.into_iter().enumerate() {
            let sequence = self.next_sequence;
            self.next_sequence += 1;
            self.facts[id as usize] = ProbeFacts {
                key: keys[row],
                kind: kinds.get(row),
                hash: hashes[row],
                sequence,
            };
            self.waiting.push(Reverse((times[row], sequence, id)));
        }
        Ok(())
    }

    /// Takes the rows out of the queue that a list of rising watermarks makes due: by watermark, then in order of arrival. They
    /// stay among the rows until they are removed.
    pub(super) fn take_due(&mut self, watermarks: &[EventTime]) -> Vec<DueProbe> {
        let last = watermarks.last().map_or(i64::MIN, |last| last.millis());
        let mut due = Vec::new();
        while let Some(Reverse((time, sequence, row))) = self.waiting.peek().copied()
            && time <= last
        {
            self.waiting.pop();
            due.push(DueProbe {
                fire: watermarks.partition_point(|watermark| watermark.millis() < time),
                sequence,
                time,
                row,
            });
        }
        due.sort_unstable();
        due
    }

    /// Gives the keys new numbers, which `number` tells from the key `columns` of rows and the hashes of their keys.
    pub(super) fn renumber(
        &mut self,
        columns: &[usize],
        mut number: impl FnMut(&[ArrayRef], &[u64]) -> Result<Vec<u32>>,
    ) -> Result<()> {
        let mut ids = self.rows.ids();
        ids.retain(|id| self.facts[*id as usize].key.is_some());
        let hashes: Vec<u64> = ids.iter().map(|id| self.facts[*id as usize].hash).collect();
        let numbers = number(&self.rows.gather_columns(columns, &ids)?, &hashes)?;
        for (id, key) in ids.into_iter().zip(numbers) {
            self.facts[id as usize].key = Some(key);
        }
        Ok(())
    }

    /// Forgets rows.
    pub(super) fn remove(&mut self, rows: &[u32]) -> Result<()> {
        self.rows.remove(rows)
    }

    /// All rows in order of arrival: key group, hash of the key, place in that order, kind, then the columns.
    pub(super) fn snapshot(&self, max_parallelism: u16) -> Result<Vec<RecordBatch>> {
        let mut ids = self.rows.ids();
        ids.sort_unstable_by_key(|id| self.facts[*id as usize].sequence);
        let facts = || ids.iter().map(|id| self.facts[*id as usize]);
        let groups = facts().map(|facts| facts.hash);
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from_iter_values(groups)),
            Arc::new(UInt64Array::from_iter_values(
                facts().map(|facts| facts.hash),
            )),
            Arc::new(UInt64Array::from_iter_values(
                facts().map(|facts| facts.sequence),
            )),
            Arc::new(UInt8Array::from_iter_values(
                facts().map(|facts| facts.kind as u8),
            )),
        ];
        columns.extend_from_slice(self.rows.gather(&ids)?.columns());
        let mut fields = vec![
            Arc::new(Field::new(KEY_HASH_COLUMN, DataType::UInt64, false)),
            Arc::new(Field::new("hash", DataType::UInt64, false)),
            Arc::new(Field::new("sequence", DataType::UInt64, false)),
            Arc::new(Field::new("kind", DataType::UInt8, false)),
        ];
        fields.extend(self.rows.schema().fields().iter().cloned());
        let schema = Arc::new(ArrowSchema::new(fields));
        Ok(vec![RecordBatch::try_new(schema, columns)?])
    }

    /// The rows, kinds and hashes of a batch of a snapshot, to be added again. Rows of one key keep their order.
    pub(super) fn of_snapshot(
        &self,
        batch: &RecordBatch,
    ) -> Result<(RecordBatch, RowKinds, Vec<u64>)> {
        let columns = batch.columns()[4..].to_vec();
        let rows = RecordBatch::try_new(self.rows.schema().clone(), columns)?;
        let hashes = batch.column(1).as_primitive::<UInt64Type>().values();
        let kinds = batch.column(3).as_primitive::<UInt8Type>().values().clone();
        Ok((rows, RowKinds::from_bytes(kinds), hashes.to_vec()))
    }
}
