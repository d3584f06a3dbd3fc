//! What happens to rows: one operator a file, under Flink's name for it.
//!
//! Doors: `operators` use `types`, `stream`, `expr`, `functions`, `window` and `state`; only `source.rs` and `sink.rs`
//! touch `connectors`, through their traits. Deliberately absent: `sql`, `plan` and `runtime`, and any clock.

mod context;
mod local_window_aggregate;
mod operator;
mod output;
mod session_window;
mod window_aggregate;

pub use context::{Context, OperatorMetrics, Subtask};
pub use local_window_aggregate::LocalWindowAggregateOperator;
pub use operator::{Flow, InputIndex, Operator};
pub use output::{LateRows, Output};
pub use session_window::{SessionWindowAggregateOperator, SessionWindowTableFunctionOperator};
pub use window_aggregate::{AggregatePhase, WindowAggregateOperator, local_output_schema};
