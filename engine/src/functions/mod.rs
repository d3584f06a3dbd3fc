//! Logic with a SQL name: scalar, aggregate and table functions with Flink's types and semantics.
//!
//! Doors: `functions` use `types`, `stream` and `expr::Expression`. Deliberately absent: SQL text, plans.

pub mod aggregate;
mod aggregate_call;

pub use aggregate_call::AggregateCall;
