//! Keyed state beyond memory: RocksDB below the operators' own structures.
//!
//! One database a run of a job, in a directory of its own on a local disk, that is gone when the run is over: it is room to put state aside
//! and no copy that anything restores from, so it has no log of its writes. An operator instance has a column family for its values, by
//! hash, big-endian, so that they lie in the order of key groups, and one for the times at which keys act. RocksDB is asked once a bundle:
//! one sorted lookup of many keys, one batch of writes. What it may take of memory is shared by all databases of the process
//! ([`memory`]).
//!
//! Doors: those of `state`. Deliberately absent: checkpoints (which are Arrow tables whatever the backend), options as text (see
//! `plan/job_graph_builder.rs`).

mod database;
mod directory;
mod due_index;
mod memory;
mod options;
mod store;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};

use self::database::Database;
use self::store::RocksDbUnitStore;
use super::{GroupTable, MemoryBudget, RowStore, StateBackend, UnitStore};
use crate::error::Result;

pub use options::{CompactionStyle, RocksDbOptions};

/// Keeps cold keys in RocksDB. Dropped with the last store that it gave, it removes its directory.
#[derive(Debug)]
pub struct RocksDbStateBackend {
    database: Arc<Database>,
}

impl RocksDbStateBackend {
    /// An empty database in a new directory. Removes directories that processes left there which are gone.
    ///
    /// Fails with an error of the kind `resource` where nothing can be written.
    pub fn open(options: RocksDbOptions) -> Result<Self> {
        Ok(RocksDbStateBackend {
            database: Arc::new(Database::open(options)?),
        })
    }

    /// The directory of this run, which is gone when the run is over.
    pub fn directory(&self) -> &Path {
        self.database.directory()
    }

    /// Bytes of main memory that RocksDB holds in its cache, write buffers among it.
    pub fn cache_bytes(&self) -> usize {
        self.database.memory().cache_bytes()
    }
}

impl StateBackend for RocksDbStateBackend {
    fn name(&self) -> &'static str {
        "rocksdb"
    }

    fn group_table(&self, key_types: &[DataType], groups: usize) -> Result<GroupTable> {
        GroupTable::with_capacity(key_types, groups)
    }

    fn row_store(&self, schema: SchemaRef) -> Result<RowStore> {
        Ok(RowStore::new(schema))
    }

    fn unit_store(&self, name: &str) -> Result<Option<Box<dyn UnitStore>>> {
        let store = RocksDbUnitStore::new(self.database.clone(), name)?;
        Ok(Some(Box::new(store)))
    }

    fn local_directory(&self) -> PathBuf {
        self.directory().join("parts")
    }

    fn memory_budget(&self) -> Option<Arc<MemoryBudget>> {
        Some(self.database.memory().operators())
    }
}
