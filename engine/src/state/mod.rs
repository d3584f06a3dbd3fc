//! What is remembered: columnar structures for keyed state, and their snapshots.
//!
//! Doors: `state` uses `types` and `stream`. Deliberately absent: operators' meanings, files (see `checkpoint`).

mod snapshot;

pub use snapshot::{KEY_GROUP_COLUMN, StateSnapshot, StateTable, TableScope};
