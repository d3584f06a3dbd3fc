//! Statements and the plans they become, and statements that are refused.

mod aggregates;
mod ddl;
mod from;
mod inserts;
mod joins;
mod order_by;
mod robustness;
mod selects;
mod statements;
mod windows;
