//! The scalar functions, a file a family; each file lists its own at the top.

mod arithmetic;
mod comparison;
mod conditional;
mod current_time;
mod interval;
mod logic;
mod math;

use super::registry::{Rewrite, ScalarFunction};

/// All functions, a list a family.
pub(super) const FUNCTIONS: &[&[ScalarFunction]] = &[
    arithmetic::FUNCTIONS,
    comparison::FUNCTIONS,
    conditional::FUNCTIONS,
    current_time::FUNCTIONS,
    interval::FUNCTIONS,
    logic::FUNCTIONS,
    math::FUNCTIONS,
];

/// All names that stand for other expressions, a list a family.
pub(super) const REWRITES: &[&[Rewrite]] = &[
    comparison::REWRITES,
    conditional::REWRITES,
    interval::REWRITES,
];
