//! The scalar functions, a file a family; each file lists its own at the top.

mod arithmetic;
mod collection;
mod comparison;
mod conditional;
mod current_time;
mod date_text;
mod extract;
mod hash_code;
mod interval;
mod java_pattern;
mod java_regex;
mod json_value;
mod kinds;
mod like;
mod logic;
mod math;
mod random;
mod regexp;
mod rounding;
mod search;
mod substring;
mod text;
mod trim;

use super::registry::{Rewrite, ScalarFunction};

/// All functions, a list a family.
pub(super) const FUNCTIONS: &[&[ScalarFunction]] = &[
    arithmetic::FUNCTIONS,
    collection::FUNCTIONS,
    comparison::FUNCTIONS,
    conditional::FUNCTIONS,
    current_time::FUNCTIONS,
    date_text::FUNCTIONS,
    extract::FUNCTIONS,
    hash_code::FUNCTIONS,
    interval::FUNCTIONS,
    json_value::FUNCTIONS,
    kinds::FUNCTIONS,
    like::FUNCTIONS,
    logic::FUNCTIONS,
    math::FUNCTIONS,
    random::FUNCTIONS,
    regexp::FUNCTIONS,
    rounding::FUNCTIONS,
    search::FUNCTIONS,
    substring::FUNCTIONS,
    text::FUNCTIONS,
    trim::FUNCTIONS,
];

/// All names that stand for other expressions, a list a family.
pub(super) const REWRITES: &[&[Rewrite]] = &[
    comparison::REWRITES,
    conditional::REWRITES,
    extract::REWRITES,
    interval::REWRITES,
    kinds::REWRITES,
];
