//! Making state durable: who has reported, what a checkpoint is on disk, and how it is read back.
//!
//! Doors: `checkpoint` knows `state` and `stream`. Deliberately absent: operators and threads.

mod coordinator;
mod manifest;
mod reader;
mod snapshot;
mod storage;

pub use coordinator::CheckpointCoordinator;
pub use manifest::{Manifest, ManifestTable};
pub use reader::SnapshotReader;
pub use snapshot::JobSnapshot;
pub use storage::CheckpointStorage;
