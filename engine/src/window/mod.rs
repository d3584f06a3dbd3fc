//! Ranges of time: which windows there are, which slice a row falls into, and when windows fire.
//!
//! Doors: `window` uses `types`, `stream` and `functions::AggregateCall`. Deliberately absent: state and what is computed in a window.

mod aggregate_spec;
mod spec;

pub use aggregate_spec::{WindowAggregateSpec, WindowColumn, WindowInput};
pub use spec::{WindowKind, WindowSpec, WindowTime};
