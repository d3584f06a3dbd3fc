//! What is remembered: columnar structures for keyed state, their snapshots, and the lower tier for what does not fit into memory.
//!
//! Doors: `state` uses `types` and `stream`. Deliberately absent: operators' meanings, durable files (see `checkpoint`).

mod backend;
#[cfg(test)]
mod conformance;
mod encoding;
mod group_table;
mod keyed_rows;
mod part;
mod rocksdb;
mod row_slab;
mod row_store;
mod snapshot;
mod time_to_live;
mod unit_metrics;
mod unit_store;

pub use self::rocksdb::{CompactionStyle, RocksDbOptions, RocksDbStateBackend};
pub use backend::{HashMapStateBackend, MemoryBudget, MemoryShare, StateBackend};
pub use encoding::{EncodedUnits, NoTimes, UnitCodec, UnitTimes};
pub use group_table::{GroupTable, Groups, KeyRows};
pub(crate) use group_table::{all_but, fixed_array, is_fixed, keep_at, with_fixed_values};
pub use keyed_rows::KeyedRows;
pub use part::StatePart;
pub use row_slab::RowSlab;
pub use row_store::RowStore;
pub use snapshot::{
    AGGREGATE_PART, CHANNELS_TABLE, EXPIRY_COLUMN, KEY_HASH_COLUMN, ROWS_PART, STATE_PART,
    StateSnapshot, StateTable, TableScope, holds_job_rows, key_hashes_of,
};
pub use time_to_live::TimeToLive;
pub use unit_metrics::UnitStoreMetrics;
pub use unit_store::{MemoryUnitStore, UnitStore, UnitWrite};
