//! Turning the crank: tasks that step, channels between them, a job on threads, and the deterministic stepper.
//!
//! Doors: `runtime` knows `operators`, `connectors` (through traits), `watermark`, `checkpoint`, `stream` and `config`.
//! Deliberately absent: what a query means (see `plan`), and reading the clock anywhere but in `clock`.

mod channel;
mod checks;
mod clock;
mod coordinator;
mod deployment;
mod exchange;
mod expected_operators;
mod gate;
mod graph;
mod job;
mod metrics;
mod stepper;
mod task;
mod worker;

pub use clock::{Clock, ManualClock, SystemClock};
pub use expected_operators::{expected_operators, explain_upgrade};
pub use graph::{
    ChainNode, Edge, EdgeKind, JobGraph, Partitioning, SourceNode, Vertex, VertexHead, VertexId,
};
pub use job::{Job, JobOptions, JobOutcome};
pub use metrics::{JobMetrics, Progress};
pub use stepper::{DeterministicStepper, StepperOptions};
