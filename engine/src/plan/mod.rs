//! Meaning: what a query asks for (logical), how it runs (exec nodes with Flink's names), and what EXPLAIN shows.
//!
//! A statement's logical plans become one graph with equal sub-plans shared (`logical_graph`), rules turn it into exec
//! nodes (`physical`, `rules`), and changelog modes are checked (`changelog_inference`).
//!
//! Doors: `plan` uses `types`, `expr`, `functions`, `window` specs, `config` and `connectors::factory`; only
//! `operator_builder.rs` names operators. Deliberately absent: SQL text (see `sql`), threads (see `runtime`).

pub mod logical;

mod changelog_inference;
mod exec_node;
mod explain;
mod explain_state;
mod graph_builder;
mod job_graph_builder;
mod logical_graph;
mod monotonicity;
mod node_facts;
mod node_uid;
pub mod nodes;
mod operator_builder;
mod physical;
mod relation;
mod row_logic;
mod rules;
mod sinks;
mod upsert_keys;
mod window_properties;

pub use exec_node::{ExecNode, ExecNodeKind, ExecPlan, NodeId};
pub use explain::explain;
pub use job_graph_builder::build_graph;
pub use physical::plan_statement;
pub use rules::late_rows_schema;

#[cfg(test)]
mod tests;
