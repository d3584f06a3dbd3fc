//! Turning the crank: tasks that step, channels between them, a job on threads, and the deterministic stepper.
//!
//! Doors: `runtime` knows `operators`, `connectors` (through traits), `watermark`, `checkpoint`, `stream` and `config`.
//! Deliberately absent: what a query means (see `plan`), and reading the clock anywhere but in `clock`.

mod channel;
mod channel_state;
mod checkpoint_options;
mod checkpoint_writer;
mod checkpointing;
mod checks;
mod clock;
mod committed_since;
mod control;
mod coordinator;
mod deployment;
mod exchange;
mod expected_operators;
mod gate;
mod graph;
mod job;
mod metrics;
mod read_ahead;
mod restart_strategy;
mod restore;
mod restore_until;
mod status;
mod stepper;
mod stopping;
mod supervisor;
mod task;
mod worker;

pub use checkpoint_options::{CheckpointMode, CheckpointOptions, CheckpointRetention, JobEnd};
pub(crate) use committed_since::CommittedSince;

pub use clock::{Clock, ManualClock, SystemClock};
pub use control::{JobControl, JobRequest};
pub use expected_operators::{expected_operators, explain_upgrade};
pub use graph::{
    COPIED_BYTES, ChainNode, DEFAULT_NAME, Edge, EdgeKind, JobGraph, Partitioning, SourceNode,
    Vertex, VertexHead, VertexId,
};
pub use job::{JobOptions, JobOutcome};
pub use metrics::{CheckpointMetrics, JobMetrics, Progress};
pub use read_ahead::{read_ahead, readers};
pub use restart_strategy::{ExponentialDelay, RestartStrategy, Restarts};
pub use restore::{ClaimMode, Origin, RestoreOptions};
pub use status::{JobId, JobOverview, JobState, JobStatus};
pub use stepper::{DeterministicStepper, StepperOptions};
pub use supervisor::{GraphFactory, JobEvent, Started, StartingJob, Supervisor};
