//! Where keyed state lives: one trait, and the backend that keeps it in memory.
//!
//! Operators get their structures from a backend and keep to one discipline, so that the same code runs over a disk: ids come
//! from `resolve`, which may do I/O, and are valid until the end of the bundle of rows they were resolved for; iterating
//! over the groups of a table goes in steps that can be resumed; dropping a structure drops what it held. A structure per
//! time slice (a window's slice) makes expiry one drop.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::datatypes::{DataType, SchemaRef};

use super::{GroupTable, RowStore, UnitStore};
use crate::error::Result;

/// Hands out the structures of keyed state.
pub trait StateBackend: Send + Sync + fmt::Debug {
    /// The name in options and messages: `hashmap`, ….
    fn name(&self) -> &'static str;

    /// A table from keys of these types to group ids, with room for about so many groups.
    fn group_table(&self, key_types: &[DataType], groups: usize) -> Result<GroupTable>;

    /// A store of rows of this schema.
    fn row_store(&self, schema: SchemaRef) -> Result<RowStore>;

    /// The lower tier of an operator instance, empty, for what does not fit into memory; `None` where everything stays in memory. `name` tells
    /// operators apart and is part of paths: letters, digits and `-` only.
    fn unit_store(&self, name: &str) -> Result<Option<Box<dyn UnitStore>>> {
        let _ = name;
        Ok(None)
    }

    /// Where operators may write files that belong to this run; cleared with it.
    fn local_directory(&self) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("volley-{}", std::process::id()))
    }

    /// Bytes of memory that the operators of the process may hold above their lower tiers; `None`: as many as there are.
    fn memory_budget(&self) -> Option<Arc<MemoryBudget>> {
        None
    }
}

/// One budget for keyed state in memory, shared by all operators of the process.
#[derive(Debug)]
pub struct MemoryBudget {
    total_bytes: usize,
    used_bytes: AtomicUsize,
    holders: AtomicUsize,
}

impl MemoryBudget {
    /// A budget of so many bytes.
    pub fn new(total_bytes: usize) -> Self {
        MemoryBudget {
            total_bytes,
            used_bytes: AtomicUsize::new(0),
            holders: AtomicUsize::new(0),
        }
    }

    /// The whole of it.
    pub fn total_bytes(&self) -> usize {
        self.total_bytes
    }

    /// What its holders have said that they use.
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }
}

/// What one holder uses of a budget; given back when dropped.
#[derive(Debug)]
pub struct MemoryShare {
    budget: Arc<MemoryBudget>,
    own_bytes: usize,
}

impl MemoryShare {
    /// A share that uses nothing yet.
    pub fn new(budget: Arc<MemoryBudget>) -> Self {
        budget.holders.fetch_add(1, Ordering::Relaxed);
        MemoryShare {
            budget,
            own_bytes: 0,
        }
    }

    /// The whole budget.
    pub fn budget_bytes(&self) -> usize {
        self.budget.total_bytes
    }

    /// What the holder said that it uses.
    pub fn own_bytes(&self) -> usize {
        self.own_bytes
    }

    /// Says how much the holder uses now.
    pub fn report(&mut self, bytes: usize) {
        let used = &self.budget.used_bytes;
        if bytes > self.own_bytes {
            used.fetch_add(bytes - self.own_bytes, Ordering::Relaxed);
        } else {
            used.fetch_sub(self.own_bytes - bytes, Ordering::Relaxed);
        }
        self.own_bytes = bytes;
    }

    /// How many bytes the holder must give back: nothing while the budget holds, or while it uses less than an even share.
    pub fn excess_bytes(&self) -> usize {
        self.excess_after(0)
    }

    /// The same if the holder used so many bytes more.
    pub fn excess_after(&self, growth: usize) -> usize {
        let even = self.budget.total_bytes / self.budget.holders.load(Ordering::Relaxed).max(1);
        let (used, own) = (self.budget.used_bytes() + growth, self.own_bytes + growth);
        if used <= self.budget.total_bytes || own <= even {
            return 0;
        }
        own - even
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.report(0);
        self.budget.holders.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Everything in memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct HashMapStateBackend;

impl StateBackend for HashMapStateBackend {
    fn name(&self) -> &'static str {
        "hashmap"
    }

    fn group_table(&self, key_types: &[DataType], groups: usize) -> Result<GroupTable> {
        GroupTable::with_capacity(key_types, groups)
    }

    fn row_store(&self, schema: SchemaRef) -> Result<RowStore> {
        Ok(RowStore::new(schema))
    }
}
