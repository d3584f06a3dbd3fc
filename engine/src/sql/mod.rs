//! Text in: Flink SQL is split, parsed, bound to the catalog, and leaves as a logical plan.
//!
//! `script` splits a text into statements, `parser` (with `dialect`, `hints` and `type_parser`) makes syntax trees,
//! `session` runs what changes the catalog and hands queries to the `Binder` (`query` and its neighbours), which answers
//! with `plan::logical`. Every part of a syntax tree is either handled or refused with its name and place.
//!
//! Doors: `sql` uses `types`, `expr::Expression`, `functions`, `window` specs, `config`, `connectors::factory` and
//! `plan::logical`. Deliberately absent: how a query runs (see `plan`), values of rows (see `expr`).

mod aggregate;
mod binder;
mod catalog;
mod ddl;
mod ddl_parser;
mod describe;
mod dialect;
mod expression;
mod from;
mod function_call;
mod grouping;
mod hints;
mod insert;
mod interval;
mod join;
mod json_value_parser;
mod late_rows;
mod legacy_window;
mod literal;
mod lookup_hints;
mod match_recognize;
mod match_recognize_tokens;
mod multi_join;
mod operator_chain;
mod order_by;
mod over;
mod parser;
mod position;
mod projection;
mod query;
mod scalar_subquery;
mod scope;
mod script;
mod select;
mod session;
mod set_operation;
mod state_ttl;
mod statement;
mod subquery;
mod suggestion;
mod system_time;
mod table_function;
mod type_parser;
mod union;
mod unnest;
mod values;
mod window_function;

#[cfg(test)]
mod test_session;
#[cfg(test)]
mod tests;

pub use catalog::{Catalog, CatalogTable, CatalogView};
pub use script::{ScriptStatement, split_script};
pub use session::{Session, StatementResult};
