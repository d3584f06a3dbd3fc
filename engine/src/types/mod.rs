//! What a value is: logical types, schemas, row kinds, changelog modes and points in time.
//!
//! Doors: `types` uses only `error`; everybody uses `types`. Deliberately absent: anything that flows (see `stream`)
//! and anything that computes (see `expr`).

mod changelog_mode;
mod event_time;
mod join_kind;
mod logical_type;
mod position;
mod row_kind;
mod schema;
mod sort_key;
mod time_zone;

pub use changelog_mode::ChangelogMode;
pub use event_time::{EventTime, ProcessingTime};
pub use join_kind::JoinKind;
pub use logical_type::{LogicalType, RowField, TypeRoot};
pub use position::SqlPosition;
pub use row_kind::{RowKind, RowKinds};
pub use schema::{Field, Schema, TimeAttribute};
pub use sort_key::SortKey;
pub use time_zone::TimeZone;
