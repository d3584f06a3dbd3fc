//! Row logic: what one column is, computed from others.
//!
//! An [`Expression`] is what plans carry; [`compile`] turns it into vectorised kernels ([`CompiledExpression`]).
//!
//! Doors: `expr` uses `types`, `stream` and `functions`. Deliberately absent: SQL text, plans, state.

mod call;
mod case;
pub(crate) mod cast;
mod compiled;
mod compiler;
mod context;
mod expression;
mod field_access;
mod hidden;
mod kernel;
mod literal;
mod logical;
mod physical;
mod selection;
mod sharing;
mod values;

pub(crate) mod calendar;
pub(crate) mod decimal;
pub(crate) mod java_number;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use cast::{ValueFormatter, cast_array, format_value};
pub use compiled::CompiledExpression;
pub use compiler::{compile, compile_all};
pub use context::{ExpressionContext, RowContext};
pub use expression::{CastMode, Expression, Literal, Position};
pub(crate) use kernel::{Call, Kernel, plain};
pub(crate) use values::{Arguments, Primitives, Strings, Value, expand};
