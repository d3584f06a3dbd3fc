//! The rows of each primary key in order of arrival: each found, added and removed in constant time.
//!
//! Rows lie in a slab and are linked by their ids, twice: with the rows of the same primary key, and with equal rows (rows of one name),
//! of which the oldest goes first. Both chains are columns indexed by row id, so nothing is allocated for a row.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, UInt8Array};
use arrow::datatypes::{DataType, Int64Type, SchemaRef, UInt8Type};

use crate::error::Result;
use crate::operators::keyed_rows::{keyed_batch, keyed_schema, unkeyed_batch};
use crate::operators::{EXPIRY_COLUMN, KeySet};
use crate::state::{GroupTable, RowSlab, TimeToLive, key_hashes_of};
use crate::stream::KeyHashes;
use crate::types::ProcessingTime;

/// The column of a snapshot that holds [`LISTED`], [`SHOWN`] and [`UNDECIDED`].
const MARKS: &str = "marks";

/// No row.
pub(super) const NONE: u32 = u32::MAX;

/// Tables with fewer keys are never cleaned up.
const CLEAN_UP_KEYS: usize = 1024;

/// In a snapshot: the row is one of its key, the sink shows it, what the sink shows of the key is not decided; any of these.
const LISTED: u8 = 1;
const SHOWN: u8 = 2;
pub(super) const UNDECIDED: u8 = 4;

/// See the module.
pub(super) struct RowHistory {
    primary_key: Vec<usize>,
    /// The columns that tell rows of one primary key apart, the primary key included.
    name: Vec<usize>,
    keys: GroupTable,
    names: GroupTable,
    slab: RowSlab,
    /// By row.
    links: Vec<Link>,
    /// By primary key.
    lists: Vec<List>,
    /// By name: its oldest and its newest row.
    same: Vec<(u32, u32)>,
    clean_up_at: usize,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    key: u32,
    name: u32,
    previous: u32,
    next: u32,
    next_same: u32,
    listed: bool,
}

/// The rows of one primary key.
#[derive(Debug, Clone, Copy)]
struct List {
    first: u32,
    last: u32,
    /// What the sink shows, where that is decided later than rows come; it need not be listed any more.
    shown: u32,
    /// Whether changes have come about which nothing is decided.
    undecided: bool,
    expiry: i64,
}

const EMPTY: List = List {
    first: NONE,
    last: NONE,
    shown: NONE,
    undecided: false,
    expiry: i64::MAX,
};

/// For each row of a batch its primary key and its name, as numbers.
pub(super) struct Resolved {
    pub(super) keys: Vec<u32>,
    pub(super) names: Vec<u32>,
}

impl RowHistory {
    /// No rows. `name`: the columns that name a row.
    pub(super) fn new(schema: SchemaRef, primary_key: Vec<usize>, name: &[usize]) -> Result<Self> {
        let name = [&primary_key[..], name].concat();
        let types = |columns: &[usize]| -> Vec<DataType> {
            let types = columns
                .iter()
                .map(|column| schema.field(*column).data_type());
            types.cloned().collect()
        };
        Ok(RowHistory {
            keys: GroupTable::new(&types(&primary_key))?,
            names: GroupTable::new(&types(&name))?,
            slab: RowSlab::new(schema),
            primary_key,
            name,
            links: Vec::new(),
            lists: Vec::new(),
            same: Vec::new(),
            clean_up_at: CLEAN_UP_KEYS,
        })
    }

    /// Which primary key and which name each row has; valid until [`RowHistory::clean_up`].
    pub(super) fn resolve(&mut self, rows: &RecordBatch, key_hashes: &[u64]) -> Result<Resolved> {
        let (mut keys, mut names) = (Vec::new(), Vec::new());
        let columns = |indices: &[usize]| -> Vec<ArrayRef> {
            indices
                .iter()
                .map(|index| rows.column(*index).clone())
                .collect()
        };
        self.keys
            .resolve(&columns(&self.primary_key), key_hashes, &mut keys)?;
        let name_hashes = KeyHashes::of(rows, &self.name)?;
        self.names
            .resolve(&columns(&self.name), name_hashes.values(), &mut names)?;
        self.lists.resize(self.keys.len(), EMPTY);
        self.same.resize(self.names.len(), (NONE, NONE));
        Ok(Resolved { keys, names })
    }

    /// Keeps rows of a batch, in no list yet; returns their ids.
    pub(super) fn store(&mut self, rows: &RecordBatch, indices: &[u32]) -> Result<Vec<u32>> {
        let mut ids = Vec::with_capacity(indices.len());
        self.slab.insert_some(rows, indices, &mut ids)?;
        let unlinked = Link {
            key: NONE,
            name: NONE,
            previous: NONE,
            next: NONE,
            next_same: NONE,
            listed: false,
        };
        self.links
            .resize(self.slab.capacity().max(self.links.len()), unlinked);
        Ok(ids)
    }

    /// Forgets rows that are in no list.
    pub(super) fn forget(&mut self, rows: &[u32]) -> Result<()> {
        self.slab.remove(rows)
    }

    pub(super) fn gather(&self, rows: &[u32]) -> Result<RecordBatch> {
        self.slab.gather(rows)
    }

    /// Puts a stored row behind the others of its key.
    pub(super) fn append(&mut self, row: u32, key: u32, name: u32) {
        let list = &mut self.lists[key as usize];
        let previous = std::mem::replace(&mut list.last, row);
        match previous {
            NONE => list.first = row,
            previous => self.links[previous as usize].next = row,
        }
        let same = &mut self.same[name as usize];
        match std::mem::replace(&mut same.1, row) {
            NONE => same.0 = row,
            older => self.links[older as usize].next_same = row,
        }
        self.links[row as usize] = Link {
            key,
            name,
            previous,
            next: NONE,
            next_same: NONE,
            listed: true,
        };
    }

    /// Takes the oldest row of a name out of its lists.
    pub(super) fn remove_oldest(&mut self, name: u32) -> Option<u32> {
        let row = self.same[name as usize].0;
        if row == NONE {
            return None;
        }
        let link = self.links[row as usize];
        self.links[row as usize].listed = false;
        let same = &mut self.same[name as usize];
        same.0 = link.next_same;
        if same.0 == NONE {
            same.1 = NONE;
        }
        let list = &mut self.lists[link.key as usize];
        match link.previous {
            NONE => list.first = link.next,
            previous => self.links[previous as usize].next = link.next,
        }
        match link.next {
            NONE => list.last = link.previous,
            next => self.links[next as usize].previous = link.previous,
        }
        Some(row)
    }

    pub(super) fn last(&self, key: u32) -> u32 {
        self.lists[key as usize].last
    }

    /// The rows of a key, oldest first.
    pub(super) fn listed(&self, key: u32) -> impl Iterator<Item = u32> + '_ {
        let next = |row: &u32| Some(self.links[*row as usize].next).filter(|row| *row != NONE);
        let first = Some(self.lists[key as usize].first).filter(|row| *row != NONE);
        std::iter::successors(first, next)
    }

    pub(super) fn is_listed(&self, row: u32) -> bool {
        self.links[row as usize].listed
    }

    pub(super) fn name_of(&self, row: u32) -> u32 {
        self.links[row as usize].name
    }

    /// The newest row of a name.
    pub(super) fn newest(&self, name: u32) -> Option<u32> {
        Some(self.same[name as usize].1).filter(|row| *row != NONE)
    }

    pub(super) fn shown(&self, key: u32) -> Option<u32> {
        Some(self.lists[key as usize].shown).filter(|row| *row != NONE)
    }

    pub(super) fn show(&mut self, key: u32, row: Option<u32>) {
        self.lists[key as usize].shown = row.unwrap_or(NONE);
    }

    pub(super) fn written(&mut self, key: u32, expiry: i64) {
        self.lists[key as usize].expiry = expiry;
    }

    /// Takes out all rows of a key whose time is over; they are appended to `gone`.
    pub(super) fn forget_expired(&mut self, key: u32, now: ProcessingTime, gone: &mut Vec<u32>) {
        let List {
            expiry, undecided, ..
        } = self.lists[key as usize];
        if TimeToLive::is_expired(expiry, now) {
            self.take_rows(key, gone);
            self.set_undecided(key, undecided);
        }
    }

    /// Gives up the ids of keys and names that lost their rows, where they are the greater part or rows may be due. Says whether
    /// ids have changed.
    pub(super) fn clean_up(&mut self, ttl: TimeToLive, now: ProcessingTime) -> Result<bool> {
        if self.names.len().max(self.keys.len()) < self.clean_up_at {
            return Ok(false);
        }
        let changes = ttl.is_enabled() || self.slab.len() * 2 < self.names.len();
        if changes {
            self.give_up_ids(now)?;
        }
        self.clean_up_at = CLEAN_UP_KEYS.max(2 * self.names.len());
        Ok(changes)
    }

    fn give_up_ids(&mut self, now: ProcessingTime) -> Result<()> {
        let rows = self.snapshot(now)?;
        self.clear()?;
        self.restore(&rows)?;
        Ok(())
    }

    /// Forgets everything, and gives the memory back.
    pub(super) fn clear(&mut self) -> Result<()> {
        let name = &self.name[self.primary_key.len()..];
        let schema = self.slab.schema().clone();
        *self = RowHistory::new(schema, self.primary_key.clone(), name)?;
        Ok(())
    }

    /// The columns of the primary key.
    pub(super) fn primary_key(&self) -> &[usize] {
        &self.primary_key
    }

    /// The hash of a primary key.
    pub(super) fn hash(&self, key: u32) -> u64 {
        self.keys.hashes()[key as usize]
    }

    /// The hashes of the primary keys with rows.
    pub(super) fn hashes(&self) -> Vec<u64> {
        let keys = (0u32..).zip(&self.lists);
        let known = keys.filter(|(_, list)| list.first != NONE || list.shown != NONE);
        known.map(|(key, _)| self.hash(key)).collect()
    }

    /// Bytes held.
    pub(super) fn size_bytes(&self) -> usize {
        let by_row = self.links.capacity() * size_of::<Link>();
        let by_key = self.lists.capacity() * size_of::<List>();
        let by_name = self.same.capacity() * size_of::<(u32, u32)>();
        let tables = self.keys.size_bytes() + self.names.size_bytes();
        self.slab.size_bytes() + tables + by_row + by_key + by_name
    }

    /// Forgets the rows of primary keys. Says whether ids have changed.
    pub(super) fn take_out(&mut self, keys: &KeySet, now: ProcessingTime) -> Result<bool> {
        let mut gone = Vec::new();
        for key in self.keys.ids_of(keys.iter().copied()) {
            self.take_rows(key, &mut gone);
        }
        self.forget(&gone)?;
        let changes = self.slab.len() * 2 < self.names.len();
        if changes {
            self.give_up_ids(now)?;
        }
        Ok(changes)
    }

    /// Takes all rows of a key out; they are appended to `gone`.
    fn take_rows(&mut self, key: u32, gone: &mut Vec<u32>) {
        let shown = self.shown(key).filter(|row| !self.is_listed(*row));
        let rows: Vec<u32> = self.listed(key).collect();
        for row in rows {
            gone.extend(self.remove_oldest(self.name_of(row)));
        }
        gone.extend(shown);
        self.lists[key as usize] = EMPTY;
    }

    /// The keys about whose changes nothing is decided.
    pub(super) fn undecided(&self) -> Vec<u32> {
        let is_undecided = |key: &u32| self.lists[*key as usize].undecided;
        (0..self.lists.len() as u32).filter(is_undecided).collect()
    }

    /// Notes whether changes of a key are to be decided about; says whether that was noted already.
    pub(super) fn set_undecided(&mut self, key: u32, undecided: bool) -> bool {
        std::mem::replace(&mut self.lists[key as usize].undecided, undecided) == undecided
    }

    /// All rows, as a table of a snapshot.
    pub(super) fn snapshot(&self, now: ProcessingTime) -> Result<Vec<RecordBatch>> {
        self.table(0..self.lists.len() as u32, now)
    }

    /// The rows of some keys.
    pub(super) fn export(&self, keys: &KeySet, now: ProcessingTime) -> Result<Vec<RecordBatch>> {
        let keys = self.keys.ids_of(keys.iter().copied());
        self.table(keys.into_iter(), now)
    }

    /// The columns of a snapshot.
    pub(super) fn snapshot_schema(&self) -> SchemaRef {
        let notes = [(EXPIRY_COLUMN, DataType::Int64), (MARKS, DataType::UInt8)];
        keyed_schema(&notes, self.slab.schema())
    }

    /// The hash of the key, the expiry, whether listed, shown and undecided, then the columns. Rows of a key keep their order. A key about
    /// which something is to be decided has a row, though it may be one that was taken back.
    fn table(
        &self,
        keys: impl Iterator<Item = u32>,
        now: ProcessingTime,
    ) -> Result<Vec<RecordBatch>> {
        let (mut rows, mut hashes, mut expiries, mut marks) = (vec![], vec![], vec![], vec![]);
        for key in keys {
            let list = &self.lists[key as usize];
            if TimeToLive::is_expired(list.expiry, now) && !list.undecided {
                continue;
            }
            let unlisted = self.shown(key).filter(|row| !self.is_listed(*row));
            let undecided = if list.undecided { UNDECIDED } else { 0 };
            for row in unlisted.into_iter().chain(self.listed(key)) {
                let shown = if row == list.shown { SHOWN } else { 0 };
                let listed = if self.is_listed(row) { LISTED } else { 0 };
                rows.push(row);
                hashes.push(self.hash(key));
                expiries.push(list.expiry);
                marks.push(shown | listed | undecided);
            }
        }
        let notes: [(&str, ArrayRef); 2] = [
            (EXPIRY_COLUMN, Arc::new(Int64Array::from(expiries))),
            (MARKS, Arc::new(UInt8Array::from(marks))),
        ];
        Ok(vec![keyed_batch(hashes, &notes, &self.gather(&rows)?)?])
    }

    /// Adds the rows of snapshots, this instance's or others'. Says about which keys something is to be decided.
    pub(super) fn restore(&mut self, batches: &[RecordBatch]) -> Result<Vec<u32>> {
        let mut undecided = Vec::new();
        for batch in batches {
            let (notes, rows) = unkeyed_batch(batch, 2, self.slab.schema())?;
            let expiries = notes[0].as_primitive::<Int64Type>().values();
            let marks = notes[1].as_primitive::<UInt8Type>().values();
            let Resolved { keys, names } = self.resolve(&rows, key_hashes_of(batch))?;
            let all: Vec<u32> = (0..rows.num_rows() as u32).collect();
            let ids = self.store(&rows, &all)?;
            for (at, row) in ids.into_iter().enumerate() {
                if marks[at] & LISTED != 0 {
                    self.append(row, keys[at], names[at]);
                } else {
                    let link = &mut self.links[row as usize];
                    (link.key, link.name, link.listed) = (keys[at], names[at], false);
                }
                if marks[at] & SHOWN != 0 {
                    self.show(keys[at], Some(row));
                }
                self.written(keys[at], expiries[at]);
                if marks[at] & UNDECIDED != 0 && !self.set_undecided(keys[at], true) {
                    undecided.push(keys[at]);
                }
            }
        }
        Ok(undecided)
    }
}
