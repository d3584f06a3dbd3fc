//! Where keyed state lives: one trait, and the backend that keeps it in memory.
//!
//! Operators get their structures from a backend and keep to one discipline, so that the same code runs over a disk: ids come
//! from `resolve`, which may do I/O, and are valid until the end of the bundle of rows they were resolved for; iterating
//! over the groups of a table goes in steps that can be resumed; dropping a structure drops what it held. A structure per
//! time slice (a window's slice) makes expiry one drop.

use std::fmt;

use arrow::datatypes::{DataType, SchemaRef};

use super::{GroupTable, RowStore};
use crate::error::Result;

/// Hands out the structures of keyed state.
pub trait StateBackend: Send + Sync + fmt::Debug {
    /// The name in options and messages: `hashmap`, ….
    fn name(&self) -> &'static str;

    /// A table from keys of these types to group ids, with room for about so many groups.
    fn group_table(&self, key_types: &[DataType], groups: usize) -> Result<GroupTable>;

    /// A store of rows of this schema.
    fn row_store(&self, schema: SchemaRef) -> Result<RowStore>;
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
