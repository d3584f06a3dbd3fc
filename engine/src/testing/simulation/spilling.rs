//! A state backend with room for nothing: what an operator can take apart is taken out after every batch, into memory.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::{DataType, SchemaRef};

use crate::error::Result;
use crate::state::{
    GroupTable, HashMapStateBackend, MemoryBudget, MemoryUnitStore, RowStore, StateBackend,
    UnitStore,
};

/// See the module. `spills`: whether there is a lower tier at all.
#[derive(Debug)]
pub(super) struct SimulatedBackend {
    spills: bool,
    budget: Arc<MemoryBudget>,
    directory: PathBuf,
}

impl SimulatedBackend {
    pub(super) fn new(spills: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("volley-simulated-state-{}-{number}", std::process::id());
        SimulatedBackend {
            spills,
            budget: Arc::new(MemoryBudget::new(1)),
            directory: std::env::temp_dir().join(name),
        }
    }
}

impl StateBackend for SimulatedBackend {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn group_table(&self, key_types: &[DataType], groups: usize) -> Result<GroupTable> {
        HashMapStateBackend.group_table(key_types, groups)
    }

    fn row_store(&self, schema: SchemaRef) -> Result<RowStore> {
        HashMapStateBackend.row_store(schema)
    }

    fn unit_store(&self, _name: &str) -> Result<Option<Box<dyn UnitStore>>> {
        Ok(match self.spills {
            true => Some(Box::new(MemoryUnitStore::default())),
            false => None,
        })
    }

    fn local_directory(&self) -> PathBuf {
        self.directory.clone()
    }

    fn memory_budget(&self) -> Option<Arc<MemoryBudget>> {
        self.spills.then(|| self.budget.clone())
    }
}

impl Drop for SimulatedBackend {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
