//! The `datagen` connector: rows of random values or counted sequences, for trying things out.
//!
//! A cell is a function of the seed, the column and the row number, so a restore continues at a number with the values that
//! would have come. Only DATE, TIME and TIMESTAMP columns follow the clock, as in Flink.

mod factory;
mod source;
mod values;

#[cfg(test)]
mod tests;

pub use factory::DatagenFactory;
