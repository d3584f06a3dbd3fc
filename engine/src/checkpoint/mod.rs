//! Making state durable: who has reported, what a checkpoint is on disk, and how it is read back.
//!
//! Doors: `checkpoint` knows `state`, `stream` and `blobs`. Deliberately absent: operators and threads.

mod coordinator;
mod facts;
pub mod inspect;
mod manifest;
mod reader;
pub mod savepoint;
mod snapshot;
mod storage;
pub mod upgrade;

pub use coordinator::CheckpointCoordinator;
pub use facts::{OperatorFacts, PlanFacts, TableFacts};
pub use manifest::{Manifest, ManifestTable};
pub use reader::SnapshotReader;
pub use savepoint::open_snapshot;
pub use snapshot::JobSnapshot;
pub use storage::CheckpointStorage;
