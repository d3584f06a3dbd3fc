//! The `nexmark` connector: the auction site of the Nexmark benchmark as a source, made from a seed.
//!
//! Event `n` is a function of the seed and `n` alone, so splits can share the events out and a restore continues at a
//! number. Proportions and distributions are those of the public benchmark. The table is the benchmark's wide one
//! (`event_type` and the rows `person`, `auction`, `bid`) or, with the option `table`, one kind with its fields as columns.

mod events;
mod factory;
mod generator;
mod source;
mod text;

#[cfg(test)]
mod tests;

pub use factory::NexmarkFactory;
