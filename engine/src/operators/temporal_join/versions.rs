//! The versions of each key: which row of the right side was valid from when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema, SchemaRef, UInt64Type};

use crate::error::Result;
use crate::operators::timed_side::row_times;
use crate::state::{KEY_HASH_COLUMN, RowSlab};
use crate::types::{EventTime, RowKind, RowKinds};

/// Versions by the number of their key.
pub(super) struct Versions {
    rows: RowSlab,
    /// By row: the hash of its key.
    hashes: Vec<u64>,
    time: usize,
    /// By key: its versions in order of time.
    by_key: Vec<Vec<Version>>,
    /// When a key gets a version that makes an older one useless, by time.
    prunings: BinaryHeap<Reverse<(i64, u32)>>,
}

#[derive(Debug, Clone, Copy)]
struct Version {
    time: i64,
    row: u32,
    /// A deletion ends what was valid before.
    deletes: bool,
}

impl Versions {
    /// No versions yet; column `time` says when one begins.
    pub(super) fn new(schema: SchemaRef, time: usize) -> Self {
        Versions {
            rows: RowSlab::new(schema),
            hashes: Vec::new(),
            time,
            by_key: Vec::new(),
            prunings: BinaryHeap::new(),
        }
    }

    /// The rows; see [`Versions::valid_at`].
    pub(super) fn rows(&self) -> &RowSlab {
        &self.rows
    }

    /// Takes versions in. Of several of one key and time the last one counts. Rows before updates are none: the row after
    /// the update begins at its own time.
    pub(super) fn add(
        &mut self,
        rows: &RecordBatch,
        kinds: &RowKinds,
        keys: &[Option<u32>],
        hashes: &[u64],
    ) -> Result<()> {
        let times = row_times(rows, self.time)?;
        let taken: Vec<u32> = (0..rows.num_rows())
            .filter(|row| kinds.get(*row) != RowKind::UpdateBefore && keys[*row].is_some())
            .map(|row| row as u32)
            .collect();
        let mut ids = Vec::with_capacity(taken.len());
        self.rows.insert_some(rows, &taken, &mut ids)?;
        self.hashes.resize(self.rows.capacity(), 0);
        let mut replaced = Vec::new();
        for (row, id) in taken.into_iter().zip(ids) {
            let row = row as usize;
            self.hashes[id as usize] = hashes[row];
            let version = Version {
                time: times[row],
                row: id,
                deletes: kinds.get(row) == RowKind::Delete,
            };
            let key = keys[row].expect("rows without a key are left out");
            replaced.extend(self.add_version(key, version));
        }
        self.rows.remove(&replaced)
    }

    /// Says which row goes for it.
    fn add_version(&mut self, key: u32, version: Version) -> Option<u32> {
        if self.by_key.len() <= key as usize {
            self.by_key.resize_with(key as usize + 1, Vec::new);
        }
        let versions = &mut self.by_key[key as usize];
        let at = versions.partition_point(|known| known.time < version.time);
        if let Some(same) = versions.get_mut(at)
            && same.time == version.time
        {
            return Some(std::mem::replace(same, version).row);
        }
        versions.insert(at, version);
        if versions.len() > 1 {
            let newer = versions[at.max(1)].time;
            self.prunings.push(Reverse((newer, key)));
        }
        None
    }

    /// The row that is valid at a time: of the last version that begins by then, unless it is a deletion.
    pub(super) fn valid_at(&self, key: u32, time: i64) -> Option<u32> {
        let versions = self.by_key.get(key as usize)?;
        let begun = versions.partition_point(|version| version.time <= time);
        let last = versions[..begun].last()?;
        (!last.deletes).then_some(last.row)
    }

    /// Forgets the versions that begin by `watermark`, but for the last one of each key.
    pub(super) fn prune(&mut self, watermark: EventTime) -> Result<()> {
        let mut gone = Vec::new();
        while let Some(Reverse((time, key))) = self.prunings.peek().copied()
            && time <= watermark.millis()
        {
            self.prunings.pop();
            let versions = &mut self.by_key[key as usize];
            let begun = versions.partition_point(|version| version.time <= watermark.millis());
            let old = versions.drain(..begun.saturating_sub(1));
            gone.extend(old.map(|version| version.row));
        }
        self.rows.remove(&gone)
    }

    /// Gives the keys new numbers, which `number` tells from the key `columns` of rows and the hashes of their keys.
    pub(super) fn renumber(
        &mut self,
        columns: &[usize],
        mut number: impl FnMut(&[ArrayRef], &[u64]) -> Result<Vec<u32>>,
    ) -> Result<()> {
        let old = std::mem::take(&mut self.by_key);
        let old: Vec<Vec<Version>> = old
            .into_iter()
            .filter(|of_key| !of_key.is_empty())
            .collect();
        let rows: Vec<u32> = old.iter().map(|of_key| of_key[0].row).collect();
        let hashes: Vec<u64> = rows.iter().map(|row| self.hashes[*row as usize]).collect();
        let numbers = number(&self.rows.gather_columns(columns, &rows)?, &hashes)?;
        self.prunings.clear();
        for (key, of_key) in numbers.into_iter().zip(old) {
            for version in of_key {
                let replaced = self.add_version(key, version);
                debug_assert_eq!(replaced, None, "versions of a key have different times");
            }
        }
        Ok(())
    }

    /// All versions: key group, hash of the key, whether it is a deletion, then the columns.
    pub(super) fn snapshot(&self, max_parallelism: u16) -> Result<Vec<RecordBatch>> {
        let versions: Vec<Version> = self.by_key.iter().flatten().copied().collect();
        let ids: Vec<u32> = versions.iter().map(|version| version.row).collect();
        let hashes: Vec<u64> = ids.iter().map(|id| self.hashes[*id as usize]).collect();
        let groups = hashes.iter().map(|hash| *hash);
        let deletes: Vec<bool> = versions.iter().map(|version| version.deletes).collect();
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from_iter_values(groups)),
            Arc::new(UInt64Array::from(hashes.clone())),
            Arc::new(BooleanArray::from(deletes)),
        ];
        columns.extend_from_slice(self.rows.gather(&ids)?.columns());
        let mut fields = vec![
            Arc::new(Field::new(KEY_HASH_COLUMN, DataType::UInt64, false)),
            Arc::new(Field::new("hash", DataType::UInt64, false)),
            Arc::new(Field::new("deletes", DataType::Boolean, false)),
        ];
        fields.extend(self.rows.schema().fields().iter().cloned());
        let schema = Arc::new(ArrowSchema::new(fields));
        Ok(vec![RecordBatch::try_new(schema, columns)?])
    }

    /// The rows, kinds and hashes of a batch of a snapshot, to be added again.
    pub(super) fn of_snapshot(
        &self,
        batch: &RecordBatch,
    ) -> Result<(RecordBatch, RowKinds, Vec<u64>)> {
        let columns = batch.columns()[3..].to_vec();
        let rows = RecordBatch::try_new(self.rows.schema().clone(), columns)?;
        let hashes = batch.column(1).as_primitive::<UInt64Type>().values();
        let kinds: Vec<RowKind> = batch
            .column(2)
            .as_boolean()
            .values()
            .iter()
            .map(|deletes| match deletes {
                true => RowKind::Delete,
                false => RowKind::Insert,
            })
            .collect();
        Ok((rows, RowKinds::new(&kinds), hashes.to_vec()))
    }
}
