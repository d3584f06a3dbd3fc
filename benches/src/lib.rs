//! Benchmarks: `kernels/` times micro-operators with criterion, `nexmark/` whole jobs through the binary.
//!
//! This library holds what the harnesses share: running a command and reading what it cost.

pub mod process;
