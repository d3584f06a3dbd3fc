//! Turning the crank: tasks that step, channels between them, a job on threads, and the deterministic stepper.
//!
//! Doors: `runtime` knows `operators`, `connectors` (through traits), `watermark`, `checkpoint`, `stream` and `config`.
//! Deliberately absent: what a query means (see `plan`), and reading the clock anywhere but in `clock`.

mod channel;
mod checkpoint_options;
mod checkpoint_writer;
mod checkpointing;
mod checks;
mod clock;
mod coordinator;
mod deployment;
mod exchange;
mod gate;
mod graph;
mod job;
mod metrics;
mod stepper;
mod task;
mod worker;

pub use checkpoint_options::{CheckpointMode, CheckpointOptions, CheckpointRetention, JobEnd};
pub use clock::{Clock, ManualClock, SystemClock};
pub use graph::{
    ChainNode, Edge, EdgeKind, JobGraph, Partitioning, SourceNode, Vertex, VertexHead, VertexId,
};
pub use job::{Job, JobOptions, JobOutcome};
pub use metrics::{CheckpointMetrics, JobMetrics, Progress};
pub use stepper::{DeterministicStepper, StepperOptions};
