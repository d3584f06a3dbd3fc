//! Benchmarks: `kernels/` times micro-operators with criterion, `nexmark/` whole jobs through the binary.
//!
//! This library holds what they share: rows to work on, and running a command to read what it cost.

pub mod process;
pub mod rows;
