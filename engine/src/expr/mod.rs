//! Row logic: what one column is, computed from others.
//!
//! Doors: `expr` uses `types`, `stream` and `functions`. Deliberately absent: SQL text, plans, state.

mod expression;

pub use expression::{CastMode, Expression, Literal, Position};
