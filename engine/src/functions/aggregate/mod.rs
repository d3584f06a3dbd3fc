//! Aggregate functions: their states as typed columns indexed by group id.
//!
//! An [`Accumulator`] is one function over many groups; an [`AggregateSet`] is all aggregates of a query. Every state can be
//! folded from rows, merged from partials, and taken out as columns. Group ids come from the group tables of `state`.

mod accumulator;
mod aggregate_set;
mod arrivals;
mod codec;
mod count;
mod distinct;
mod first_last_value;
mod listagg;
mod min_max;
mod ordered_multiset;
mod over;
mod row_selection;
mod sum;
#[cfg(test)]
mod tests;
mod variance;

pub use accumulator::{Accumulator, AggregateRows};
pub use aggregate_set::{AggregateSet, AggregateSetSpec};
pub use over::{FrameKind, OverFunctions, OverScript};
