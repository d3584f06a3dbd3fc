//! Logic with a SQL name: scalar, aggregate and table functions with Flink's types and semantics.
//!
//! `bind_*` checks arguments, casts them to what a function takes and tells the type of the result; a scalar function's
//! kernel is made when its expression is compiled (`expr::compile`).
//!
//! Doors: `functions` use `types`, `stream`, `expr` and the group tables of `state`. Deliberately absent: SQL text, plans.

pub mod aggregate;
mod aggregate_binding;
mod aggregate_call;
mod binding;
mod match_pattern;
mod registry;
mod scalar;
mod type_inference;

#[cfg(test)]
mod tests;

pub use aggregate_binding::{BoundAggregate, bind_aggregate, is_aggregate};
pub use aggregate_call::AggregateCall;
pub use binding::{bind_cast, bind_scalar, can_fail, implicit_cast, is_deterministic};
pub use match_pattern::{AfterMatch, MatchPattern, Navigation, PatternStep};
pub(crate) use registry::{HiddenInput, ScalarFunction, hidden_input, is_random, scalar_function};
pub use registry::{is_scalar, scalar_function_names};
pub use type_inference::common_type;
