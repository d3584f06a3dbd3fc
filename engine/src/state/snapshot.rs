//! A frozen state: a few named Arrow tables, which a checkpoint writes and a restore reads back.

use std::collections::BTreeMap;

use arrow::array::{AsArray, RecordBatch};
use arrow::compute;
use arrow::datatypes::UInt16Type;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::stream::{KeyGroup, KeyGroupRange};

/// The name of the first column of a keyed table: the key group of each row, `UInt16`.
pub const KEY_GROUP_COLUMN: &str = "key_group";

/// The state of one operator instance at a barrier, or what an instance takes up at a restore.
#[derive(Debug, Clone, Default)]
pub struct StateSnapshot {
    /// The tables by name.
    pub tables: BTreeMap<String, StateTable>,
}

/// One table of a snapshot.
#[derive(Debug, Clone)]
pub struct StateTable {
    /// How its rows are dealt at a restore.
    pub scope: TableScope,
    /// Its rows. A keyed table begins with [`KEY_GROUP_COLUMN`].
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
    /// Adds a keyed table; every batch must begin with [`KEY_GROUP_COLUMN`].
    pub fn insert_keyed(&mut self, name: &str, batches: Vec<RecordBatch>) {
        debug_assert!(
            batches
                .iter()
                .all(|batch| batch.schema().field(0).name() == KEY_GROUP_COLUMN),
            "a keyed table begins with its key groups"
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

    /// Whether there is anything but the runtime's own notes, whose names begin with `$`.
    pub fn has_rows(&self) -> bool {
        let holds_rows =
            |table: &StateTable| table.batches.iter().any(|batch| batch.num_rows() > 0);
        self.tables
            .iter()
            .any(|(name, table)| !name.starts_with('$') && holds_rows(table))
    }

    /// Adds the tables of another instance of the same operator.
    pub fn merge(&mut self, other: StateSnapshot) {
        for (name, table) in other.tables {
            match self.tables.get_mut(&name) {
                Some(mine) => mine.batches.extend(table.batches),
                None => drop(self.tables.insert(name, table)),
            }
        }
    }

    /// The part that an instance with these key groups takes up.
    pub fn for_key_groups(&self, range: KeyGroupRange) -> Result<StateSnapshot> {
        let mut result = StateSnapshot::default();
        for (name, table) in &self.tables {
            let batches = match table.scope {
                TableScope::Operator => table.batches.clone(),
                TableScope::Keyed => table
                    .batches
                    .iter()
                    .map(|batch| keep_key_groups(batch, range))
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

fn keep_key_groups(batch: &RecordBatch, range: KeyGroupRange) -> Result<RecordBatch> {
    let groups = batch.column(0).as_primitive::<UInt16Type>();
    let mask = groups
        .values()
        .iter()
        .map(|group| range.contains(KeyGroup(*group)))
        .collect::<Vec<_>>();
    Ok(compute::filter_record_batch(batch, &mask.into())?)
}
