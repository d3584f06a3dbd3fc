//! What flows on an edge: elements, changelog batches, watermark steps, barriers, and how rows are dealt to channels.
//!
//! Doors: `stream` uses `types`; everybody uses `stream`. Deliberately absent: anything that decides (operators) or waits
//! (runtime).

mod barrier;
mod changelog_batch;
mod element;
mod hash;
mod key_group;
mod partitioner;
mod watermark;

pub use barrier::{BarrierKind, CheckpointBarrier, CheckpointId};
pub use changelog_batch::{ChangelogBatch, StepSlice, concat_batches};
pub use element::{StreamElement, WatermarkStatus};
pub use hash::{KeyHashes, hash_columns};
pub use key_group::{KeyGroup, KeyGroupRange};
pub use partitioner::{scatter_by_channel, scatter_by_key_group};
pub use watermark::{WatermarkStep, WatermarkSteps};
