//! What is remembered: columnar structures for keyed state, and their snapshots.
//!
//! Doors: `state` uses `types` and `stream`. Deliberately absent: operators' meanings, files (see `checkpoint`).

mod backend;
#[cfg(test)]
mod conformance;
mod group_table;
mod keyed_rows;
mod part;
mod row_slab;
mod row_store;
mod snapshot;
mod time_to_live;
mod unit_store;

pub use backend::{HashMapStateBackend, MemoryBudget, MemoryShare, StateBackend};
pub use group_table::{GroupTable, Groups};
pub(crate) use group_table::{fixed_array, is_fixed, with_fixed_values};
pub use keyed_rows::KeyedRows;
pub use part::StatePart;
pub use row_slab::RowSlab;
pub use row_store::RowStore;
pub use snapshot::{
    AGGREGATE_PART, KEY_HASH_COLUMN, ROWS_PART, STATE_PART, StateSnapshot, StateTable, TableScope,
    key_hashes_of,
};
pub(crate) use snapshot::{decode_snapshot, encode_snapshot};
pub use time_to_live::TimeToLive;
pub use unit_store::{MemoryUnitStore, UnitStore, UnitWrite};
