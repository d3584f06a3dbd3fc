//! Ranges of time: which windows there are, which slice a row falls into, and when windows fire.
//!
//! Doors: `window` uses `types` and `stream`. Deliberately absent: state and what is computed in a window.

mod spec;

pub use spec::{WindowKind, WindowSpec, WindowTime};
