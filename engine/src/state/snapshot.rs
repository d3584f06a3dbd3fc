//! A frozen state: a few named Arrow tables, which a checkpoint writes and a restore reads back.

use std::collections::BTreeMap;

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute;
use arrow::datatypes::UInt64Type;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use serde::{Deserialize, Serialize};

use super::StatePart;
use crate::error::{Error, Result};
use crate::stream::{KeyGroup, KeyGroupRange};

/// The name of the first column of a keyed table: the hash of each row's key, `UInt64`, which decides its key group.
pub const KEY_HASH_COLUMN: &str = "key_hash";

/// The metadata key by which a column of a keyed table says what part of the state it is: [`AGGREGATE_PART`] or [`ROWS_PART`].
pub const STATE_PART: &str = "volley.state-part";
/// A part of one aggregate's state: it may be dropped, and where a snapshot lacks it the aggregate begins over no rows: NULL if the column is
/// nullable, else zero or nothing.
pub const AGGREGATE_PART: &str = "aggregate";
/// The number of rows of a group, which is known from the first row on or not at all.
pub const ROWS_PART: &str = "rows";
/// The name of the column that says when a row is forgotten, in milliseconds of processing time; `i64::MAX`: never.
pub const EXPIRY_COLUMN: &str = "$expiry";

/// The name of the operator-scope table of what an unaligned barrier had overtaken on its way into the operator.
pub const CHANNELS_TABLE: &str = "$channels";

/// Whether the rows of a table are a job's: not the runtime's own notes, whose names begin with `$`.
pub fn holds_job_rows(table: &str) -> bool {
    !table.starts_with('$') || table == CHANNELS_TABLE
}

/// The state of one operator instance at a barrier, or what an instance takes up at a restore.
#[derive(Debug, Clone, Default)]
pub struct StateSnapshot {
    /// The tables by name.
    pub tables: BTreeMap<String, StateTable>,
    /// `None`: the keyed tables are all that is kept for keys. Else the snapshot tells what changed since the one before: the keyed
    /// tables hold all that is kept for the keys that have rows in them, these are the hashes of keys for which nothing is kept any
    /// more, in any order, and what snapshots before hold of other keys still stands. Where a key has rows, it counts for nothing
    /// that it is here too.
    pub gone: Option<Vec<u64>>,
    /// What was written to disk before, oldest first, each part a change of its own; `tables` and later parts replace it key by key.
    /// With `gone` it is what changed earlier, without it a piece of everything.
    pub parts: Vec<StatePart>,
    /// Of how many pieces, all of about the same size, it is the first, where a state is taken up piece by piece in memory, so that room is made for
    /// all at once; 0: nothing is known of others.
    pub first_of: usize,
}

/// One table of a snapshot.
#[derive(Debug, Clone)]
pub struct StateTable {
    /// How its rows are dealt at a restore.
    pub scope: TableScope,
    /// Its rows. A keyed table begins with [`KEY_HASH_COLUMN`].
    pub batches: Vec<RecordBatch>,
}

/// How the rows of a table are dealt to the instances that restore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TableScope {
    /// By key group.
    Keyed,
    /// Every instance gets all rows of all instances and picks its own (split positions, committables, watermarks).
    Operator,
}

impl StateSnapshot {
    /// Adds a keyed table; every batch must begin with [`KEY_HASH_COLUMN`].
    pub fn insert_keyed(&mut self, name: &str, batches: Vec<RecordBatch>) {
        debug_assert!(
            batches
                .iter()
                .all(|batch| batch.schema().field(0).name() == KEY_HASH_COLUMN),
            "a keyed table begins with the hashes of its keys"
        );
        self.tables.insert(
            name.to_string(),
            StateTable {
                scope: TableScope::Keyed,
                batches,
            },
        );
    }

    /// Adds a table of the operator.
    pub fn insert_operator(&mut self, name: &str, batches: Vec<RecordBatch>) {
        self.tables.insert(
            name.to_string(),
            StateTable {
                scope: TableScope::Operator,
                batches,
            },
        );
    }

    /// Adds one JSON document of the operator, as a table of one row and one column.
    pub fn insert_json<T: Serialize>(&mut self, name: &str, value: &T) -> Result<()> {
        let text = serde_json::to_string(value).map_err(|error| {
            Error::internal(format!("state {name} does not serialise: {error}"))
        })?;
        let column = std::sync::Arc::new(arrow::array::StringArray::from(vec![text]))
            as arrow::array::ArrayRef;
        self.insert_operator(name, vec![RecordBatch::try_from_iter([("json", column)])?]);
        Ok(())
    }

    /// The JSON documents that all instances stored under `name` with [`StateSnapshot::insert_json`].
    pub fn json<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Result<Vec<T>> {
        let mut documents = Vec::new();
        for batch in self.batches(name) {
            for text in batch.column(0).as_string::<i32>().iter().flatten() {
                documents.push(serde_json::from_str(text).map_err(|error| {
                    Error::external(format!("state {name} cannot be read: {error}"))
                })?);
            }
        }
        Ok(documents)
    }

    /// The batches of a table; empty where it is absent.
    pub fn batches(&self, name: &str) -> &[RecordBatch] {
        self.tables.get(name).map_or(&[], |table| &table.batches)
    }

    /// Whether there is anything but the runtime's own notes; see [`holds_job_rows`].
    pub fn has_rows(&self) -> bool {
        let holds_rows =
            |table: &StateTable| table.batches.iter().any(|batch| batch.num_rows() > 0);
        self.tables
            .iter()
            .any(|(name, table)| holds_job_rows(name) && holds_rows(table))
    }

    /// How many rows the keyed tables have.
    pub fn keyed_rows(&self) -> usize {
        let tables = self.tables.values();
        let keyed = tables.filter(|table| table.scope == TableScope::Keyed);
        let batches = keyed.flat_map(|table| &table.batches);
        batches.map(RecordBatch::num_rows).sum()
    }

    /// Adds the tables of another instance of the same operator. Both hold everything, or both what changed.
    pub fn merge(&mut self, other: StateSnapshot) {
        let first = self.tables.is_empty() && self.gone.is_none();
        match (&mut self.gone, other.gone) {
            (Some(mine), Some(others)) => mine.extend(others),
            (None, Some(others)) if first => self.gone = Some(others),
            (mine, others) => debug_assert_eq!(mine.is_some(), others.is_some()),
        }
        self.parts.extend(other.parts);
        self.extend_tables(other.tables);
    }

    /// Adds what else the same instance keeps for keys, of which none is here: a piece that was copied later.
    pub fn add_piece(&mut self, piece: StateSnapshot) {
        if let Some(gone) = &mut self.gone {
            gone.extend(piece.gone.unwrap_or_default());
        }
        self.extend_tables(piece.tables);
    }

    fn extend_tables(&mut self, tables: BTreeMap<String, StateTable>) {
        for (name, table) in tables {
            match self.tables.get_mut(&name) {
                Some(mine) => mine.batches.extend(table.batches),
                None => drop(self.tables.insert(name, table)),
            }
        }
    }

    /// The part that an instance with these of `max_parallelism` key groups takes up.
    pub fn for_key_groups(
        &self,
        range: KeyGroupRange,
        max_parallelism: u16,
    ) -> Result<StateSnapshot> {
        let mine = |hash: u64| range.contains(KeyGroup::of_hash(hash, max_parallelism));
        self.filter_keyed(&mine)
    }

    /// The same with only those rows of keyed tables whose key's hash is kept.
    pub fn filter_keyed(&self, keep: &dyn Fn(u64) -> bool) -> Result<StateSnapshot> {
        let mut result = StateSnapshot {
            gone: self.gone.clone(),
            parts: self.parts.clone(),
            ..StateSnapshot::default()
        };
        for (name, table) in &self.tables {
            let batches = match table.scope {
                TableScope::Operator => table.batches.clone(),
                TableScope::Keyed => table
                    .batches
                    .iter()
                    .map(|batch| keep_hashes(batch, keep))
                    .collect::<Result<_>>()?,
            };
            result.tables.insert(
                name.clone(),
                StateTable {
                    scope: table.scope,
                    batches,
                },
            );
        }
        Ok(result)
    }
}

impl StateSnapshot {
    /// Lays a later snapshot of the same operator over this one, which holds everything: it then holds everything as of the later one.
    pub fn apply(&mut self, later: StateSnapshot) -> Result<()> {
        if later.gone.is_none() {
            *self = StateSnapshot::default();
        }
        for part in &later.parts {
            self.apply_one(part.read()?)?;
        }
        let replaces = !later.parts.is_empty();
        let gone = later.gone.clone().or(replaces.then(Vec::new));
        self.apply_one(StateSnapshot {
            gone,
            parts: Vec::new(),
            ..later
        })
    }

    fn apply_one(&mut self, later: StateSnapshot) -> Result<()> {
        if later.gone.is_none() {
            *self = later;
            return Ok(());
        }
        let told = later.told_hashes();
        let stands = |hash: u64| told.binary_search(&hash).is_err();
        let mut kept = self.filter_keyed(&stands)?;
        kept.retain_keyed();
        kept.merge(StateSnapshot {
            gone: None,
            ..later
        });
        *self = kept;
        Ok(())
    }

    /// Drops all tables that are not by key.
    pub fn retain_keyed(&mut self) {
        self.tables
            .retain(|_, table| table.scope == TableScope::Keyed);
    }

    /// The hashes of all keys of which it says something, ascending and each once.
    fn told_hashes(&self) -> Vec<u64> {
        let mut hashes = self.key_hashes();
        hashes.extend(self.gone.iter().flatten());
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }

    /// The hashes of all keys that have rows here, ascending and each once.
    pub fn key_hashes(&self) -> Vec<u64> {
        let keyed = self
            .tables
            .values()
            .filter(|table| table.scope == TableScope::Keyed);
        let mut hashes: Vec<u64> = keyed
            .flat_map(|table| &table.batches)
            .flat_map(|batch| key_hashes_of(batch).iter().copied())
            .collect();
        hashes.sort_unstable();
        hashes.dedup();
        hashes
    }
}

/// A snapshot as bytes, for this process: table by table name, scope, length and an Arrow IPC stream.
pub(super) fn encode_snapshot(snapshot: &StateSnapshot) -> Result<Vec<u8>> {
    let gone = snapshot.gone.as_deref().unwrap_or_default();
    let mut bytes = Vec::new();
    bytes.extend((gone.len() as u64).to_le_bytes());
    bytes.extend(gone.iter().flat_map(|hash| hash.to_le_bytes()));
    for (name, table) in &snapshot.tables {
        let Some(first) = table.batches.first() else {
            continue;
        };
        bytes.push(u8::from(table.scope == TableScope::Keyed));
        bytes.extend((name.len() as u64).to_le_bytes());
        bytes.extend(name.as_bytes());
        let mut stream = StreamWriter::try_new(Vec::new(), &first.schema())?;
        for batch in &table.batches {
            stream.write(batch)?;
        }
        let stream = stream.into_inner()?;
        bytes.extend((stream.len() as u64).to_le_bytes());
        bytes.extend(stream);
    }
    Ok(bytes)
}

/// The snapshot that [`encode_snapshot`] made bytes of.
pub(super) fn decode_snapshot(mut bytes: &[u8]) -> Result<StateSnapshot> {
    let damaged = || Error::external("a part of a snapshot on the local disk is damaged");
    let mut take = |length: usize| -> Result<&[u8]> {
        let (head, rest) = bytes.split_at_checked(length).ok_or_else(damaged)?;
        bytes = rest;
        Ok(head)
    };
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let keys = number(take(8)?) as usize;
    let (hashes, _) = take(keys * 8)?.as_chunks::<8>();
    let mut snapshot = StateSnapshot {
        gone: Some(
            hashes
                .iter()
                .map(|hash| u64::from_le_bytes(*hash))
                .collect(),
        ),
        ..StateSnapshot::default()
    };
    while let Ok(scope) = take(1) {
        let keyed = scope[0] == 1;
        let length = number(take(8)?) as usize;
        let name = String::from_utf8_lossy(take(length)?).into_owned();
        let length = number(take(8)?) as usize;
        let batches =
            StreamReader::try_new(take(length)?, None)?.collect::<std::result::Result<_, _>>()?;
        let scope = if keyed {
            TableScope::Keyed
        } else {
            TableScope::Operator
        };
        snapshot.tables.insert(name, StateTable { scope, batches });
    }
    Ok(snapshot)
}

/// The hashes of the keys of a batch of a keyed table.
pub fn key_hashes_of(batch: &RecordBatch) -> &[u64] {
    batch.column(0).as_primitive::<UInt64Type>().values()
}

fn keep_hashes(batch: &RecordBatch, keep: &dyn Fn(u64) -> bool) -> Result<RecordBatch> {
    let hashes = key_hashes_of(batch);
    let mask = BooleanBuffer::collect_bool(hashes.len(), |row| keep(hashes[row]));
    if mask.count_set_bits() == mask.len() {
        return Ok(batch.clone());
    }
    let mask = BooleanArray::new(mask, None);
    Ok(compute::filter_record_batch(batch, &mask)?)
}
