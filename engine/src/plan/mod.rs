//! Meaning: what a query asks for (logical), how it runs (exec nodes with Flink's names), and what EXPLAIN shows.
//!
//! Doors: `plan` uses `types`, `expr`, `functions`, `window` specs, `config` and `connectors::factory`; only
//! `operator_builder.rs` names operators. Deliberately absent: SQL text (see `sql`), threads (see `runtime`).

pub mod logical;
