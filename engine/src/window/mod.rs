//! Ranges of time: which windows there are, which slice a row falls into, and when windows fire.
//!
//! Doors: `window` uses `types`, `stream` and `functions::AggregateCall`. Deliberately absent: state and what is computed in a window.

mod aggregate_spec;
mod clock;
mod divisor;
mod slice;
mod spec;

pub use aggregate_spec::{WindowAggregateSpec, WindowColumn, WindowInput};
pub use clock::WindowClock;
pub use slice::{SliceAssigner, Slices};
pub use spec::{WindowKind, WindowSpec, WindowTime};
