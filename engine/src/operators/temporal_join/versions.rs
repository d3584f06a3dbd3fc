//! The versions of each key: which row of the right side was valid from when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Int64Type, SchemaRef};

use crate::error::Result;
use crate::operators::keyed_rows::{keyed_batch, keyed_schema, unkeyed_batch};
use crate::operators::timed_side::{KeyNumbers, row_times};
use crate::state::{RowSlab, keep_at};
use crate::types::{EventTime, RowKind, RowKinds};

/// The columns of a snapshot before those of the rows.
const UNTIL: &str = "until";
const DELETES: &str = "deletes";

/// In a snapshot: the last version of its key, which stays.
const STAYS: i64 = i64::MAX;

/// Versions by the number of their key.
pub(super) struct Versions {
    rows: RowSlab,
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
        keys: &KeyNumbers,
    ) -> Result<()> {
        let times = row_times(rows, self.time)?;
        let taken: Vec<u32> = (0..rows.num_rows())
            .filter(|row| kinds.get(*row) != RowKind::UpdateBefore && keys.joining(*row).is_some())
            .map(|row| row as u32)
            .collect();
        let mut ids = Vec::with_capacity(taken.len());
        self.rows.insert_some(rows, &taken, &mut ids)?;
        let mut replaced = Vec::new();
        for (row, id) in taken.into_iter().zip(ids) {
            let row = row as usize;
            let version = Version {
                time: times[row],
                row: id,
                deletes: kinds.get(row) == RowKind::Delete,
            };
            replaced.extend(self.add_version(keys.numbers[row], version));
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

    /// Forgets the versions that begin by `watermark`, but for the last one of each key. Says of which keys, some more than once.
    pub(super) fn prune(&mut self, watermark: EventTime) -> Result<Vec<u32>> {
        let (mut gone, mut keys) = (Vec::new(), Vec::new());
        while let Some(Reverse((time, key))) = self.prunings.peek().copied()
            && time <= watermark.millis()
        {
            self.prunings.pop();
            let versions = &mut self.by_key[key as usize];
            let begun = versions.partition_point(|version| version.time <= watermark.millis());
            let old = versions.drain(..begun.saturating_sub(1));
            gone.extend(old.map(|version| version.row));
            keys.push(key);
        }
        self.rows.remove(&gone)?;
        Ok(keys)
    }

    /// Whether a key has versions.
    pub(super) fn has_versions(&self, key: u32) -> bool {
        let of_key = self.by_key.get(key as usize);
        of_key.is_some_and(|of_key| !of_key.is_empty())
    }

    /// Keeps these keys, ascending, and numbers them by their places here; no other one has versions.
    pub(super) fn keep_keys(&mut self, keys: &[u32]) {
        let known = self.by_key.len() as u32;
        let known = keys.partition_point(|key| *key < known);
        keep_at(&mut self.by_key, &keys[..known]);
        self.plan_prunings();
    }

    fn plan_prunings(&mut self) {
        self.prunings.clear();
        for (key, versions) in (0u32..).zip(&self.by_key) {
            let newer = versions.iter().skip(1);
            let prunings = newer.map(|version| Reverse((version.time, key)));
            self.prunings.extend(prunings);
        }
    }

    /// Forgets all versions of keys.
    pub(super) fn remove_keys(&mut self, keys: &[u32]) -> Result<()> {
        let mut gone = Vec::new();
        for key in keys {
            if let Some(of_key) = self.by_key.get_mut(*key as usize) {
                let old = std::mem::take(of_key).into_iter();
                gone.extend(old.map(|version| version.row));
            }
        }
        self.rows.remove(&gone)?;
        // What was planned for them is harmless, but is planned again when they come back.
        if self.prunings.len() > 2 * self.rows.len() {
            self.plan_prunings();
        }
        Ok(())
    }

    /// Forgets everything, and gives the memory back.
    pub(super) fn clear(&mut self) {
        *self = Versions::new(self.rows.schema().clone(), self.time);
    }

    /// Bytes held.
    pub(super) fn size_bytes(&self) -> usize {
        let lists = self.by_key.capacity() * size_of::<Vec<Version>>();
        let versions = self.rows.len() * size_of::<Version>();
        let prunings = self.prunings.capacity() * size_of::<(i64, u32)>();
        self.rows.size_bytes() + lists + versions + prunings
    }

    /// The columns of a snapshot.
    pub(super) fn snapshot_schema(&self) -> SchemaRef {
        let notes = [(UNTIL, DataType::Int64), (DELETES, DataType::Boolean)];
        keyed_schema(&notes, self.rows.schema())
    }

    /// The versions of keys as a table of a snapshot: the hash of the key, when the next version begins, whether it is a
    /// deletion, then the columns.
    pub(super) fn table(
        &self,
        keys: impl Iterator<Item = u32>,
        hashes: &[u64],
    ) -> Result<RecordBatch> {
        let (mut of_keys, mut ids) = (Vec::new(), Vec::new());
        let (mut until, mut deletes) = (Vec::new(), Vec::new());
        for key in keys {
            let versions = self.by_key.get(key as usize).map_or(&[][..], Vec::as_slice);
            for (at, version) in versions.iter().enumerate() {
                of_keys.push(hashes[key as usize]);
                ids.push(version.row);
                until.push(versions.get(at + 1).map_or(STAYS, |next| next.time));
                deletes.push(version.deletes);
            }
        }
        let notes: [(&str, ArrayRef); 2] = [
            (UNTIL, Arc::new(Int64Array::from(until))),
            (DELETES, Arc::new(BooleanArray::from(deletes))),
        ];
        keyed_batch(of_keys, &notes, &self.rows.gather(&ids)?)
    }

    /// For each row of such a table the first watermark by which it may go.
    pub(super) fn until(table: &RecordBatch) -> Vec<i64> {
        table
            .column(1)
            .as_primitive::<Int64Type>()
            .values()
            .to_vec()
    }

    /// The rows and kinds of such a table, to be added again.
    pub(super) fn of_table(&self, table: &RecordBatch) -> Result<(RecordBatch, RowKinds)> {
        let (notes, rows) = unkeyed_batch(table, 2, self.rows.schema())?;
        let kind = |deletes: bool| match deletes {
            true => RowKind::Delete,
            false => RowKind::Insert,
        };
        let kinds: Vec<RowKind> = notes[1].as_boolean().values().iter().map(kind).collect();
        Ok((rows, RowKinds::new(&kinds)))
    }
}
