//! The test bench: `volley test` for users' SQL, on the deterministic stepper, and what the project's own tests share.
//!
//! A case is read (`case`), its rows are fed and its results collected by the test connector (`test_connector`), the
//! runner runs it in every way (`ways`, `execution`), and results are compared as values (`cell`, `judge`, `report`).
//! `simulation` has jobs die at any moment and compares with those that do not. The `twin` is the slow, obvious form of the window operators that random tests compare with.
//!
//! Doors: `testing` may use every room; no room uses `testing`. Deliberately absent: threads and clocks; time is manual.

pub mod case;
pub mod cell;
mod execution;
mod judge;
mod prepare;
mod report;
mod runner;
pub mod simulation;
mod stepped_job;
mod test_connector;
pub mod twin;
mod ways;

pub use judge::{Difference, SinkResult, compare_bags};
pub use report::{CaseOutcome, CaseStatus, TestReport};
pub use runner::{CaseRun, TestOptions, execute, run_case, run_files};
pub use simulation::simulate;
pub use test_connector::{TestBench, TestConnector, WrittenRow};
pub use ways::Way;
