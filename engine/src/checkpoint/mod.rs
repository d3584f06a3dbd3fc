//! Making state durable: who has reported, what a checkpoint is on disk, and how it is read back.
//!
//! A checkpoint is a manifest and a few data files in a store of blobs. Keyed state is a list of segments, each of which
//! replaces the ones before it key by key; an incremental checkpoint adds one and names the files of the others.
//!
//! Doors: `checkpoint` knows `state`, `stream` and `blobs`. Deliberately absent: operators and threads.

mod change;
mod checkpoint_reader;
mod contents;
mod coordinator;
mod damage;
mod data_file;
mod deal;
mod facts;
mod hash_set;
pub mod inspect;
mod manifest;
mod merge;
mod newest;
mod owner;
mod reader;
pub mod savepoint;
mod sealed;
mod segment;
mod snapshot;
mod storage;
pub mod upgrade;

pub use change::KeySpan;
pub use checkpoint_reader::CheckpointReader;
pub use contents::{CheckpointContents, TaskState};
pub use coordinator::CheckpointCoordinator;
pub use damage::{Damage, Recovered, Salvaged, Verified};
pub use facts::{ColumnTexts, OperatorFacts, PlanFacts, RowCount, TableFacts};
pub use manifest::{
    Bucket, Manifest, OperatorManifest, Piece, Segment, VERSION as MANIFEST_VERSION,
};
pub use merge::{MergePlan, Merged};
pub use newest::{Newest, PassedOver, newest_whole};
pub use owner::Owner;
pub use reader::SnapshotReader;
pub(crate) use reader::reads_like;
pub use savepoint::open_snapshot;
pub use snapshot::JobSnapshot;
pub use storage::{
    CheckpointStorage, PresentCheckpoints, StartedFrom, StorageOptions, WrittenCheckpoint,
};

#[cfg(test)]
pub(crate) mod tests;
