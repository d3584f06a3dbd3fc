//! One aggregate of a query, bound to columns: what plans carry and operators build accumulators from.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::LogicalType;

/// `function([DISTINCT] arguments) [FILTER (WHERE filter)]` over columns of the operator's input.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AggregateCall {
    /// Upper-case name: COUNT (without arguments for `COUNT(*)`), SUM, AVG, MIN, MAX, ….
    pub function: String,
    /// Input columns of the arguments.
    pub arguments: Vec<usize>,
    /// The types of the arguments.
    pub argument_types: Vec<LogicalType>,
    /// Whether each combination of argument values counts once.
    pub distinct: bool,
    /// A BOOLEAN input column; only rows where it is TRUE count.
    pub filter: Option<usize>,
    /// The type of the result.
    pub logical_type: LogicalType,
    /// The name of the result column.
    pub name: String,
}

impl AggregateCall {
    /// What it computes, over the texts of the input's columns: `SUM(DISTINCT price) FILTER is_paid`.
    pub fn described(&self, columns: &dyn Fn(usize) -> String) -> String {
        let arguments: Vec<String> = self
            .arguments
            .iter()
            .map(|column| columns(*column))
            .collect();
        let arguments = match &arguments[..] {
            [] => "*".to_string(),
            arguments => arguments.join(", "),
        };
        let distinct = if self.distinct { "DISTINCT " } else { "" };
        let filter = self
            .filter
            .map(|column| format!(" FILTER {}", columns(column)))
            .unwrap_or_default();
        format!("{}({distinct}{arguments}){filter}", self.function)
    }
}

impl fmt::Display for AggregateCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let described = self.described(&|column| format!("${column}"));
        write!(f, "{described} AS {}", self.name)
    }
}
