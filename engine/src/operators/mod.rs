//! What happens to rows: one operator a file, under Flink's name for it.
//!
//! Doors: `operators` use `types`, `stream`, `expr`, `functions`, `window` and `state`; only `source.rs` and `sink.rs`
//! touch `connectors`, through their traits. Deliberately absent: `sql`, `plan` and `runtime`, and any clock.

mod calc;
mod context;
mod operator;
mod output;
mod sink;
mod source;
#[cfg(test)]
pub(crate) mod test_bench;

pub use calc::{CalcOperator, CalcSpec};
pub use context::{Context, OperatorMetrics, Subtask};
pub use operator::{Flow, InputIndex, Operator};
pub use output::{LateRows, Output};
pub use sink::{NotNullEnforcer, SinkOperator};
pub use source::{SourceOperator, SourceStatus, WatermarkAssignerSpec};
