//! The legacy group windows: `GROUP BY TUMBLE(ts, …)`, HOP, SESSION.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, columns, window};
use super::window_aggregate::complete_select;
use crate::window::{WindowAggregateSpec, WindowInput};

/// Aggregates by key and legacy group window. Output: keys, aggregates, window columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupWindowAggregateNode {
    /// What it computes, over the input; always by [`WindowInput::TimeColumn`].
    pub spec: WindowAggregateSpec,
}

impl GroupWindowAggregateNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let input = scope.input();
        let how = match self.spec.input {
            WindowInput::TimeColumn(column) => format!("time_col=[{}]", input.fields[column].name),
            WindowInput::Attached { .. } => "attached".to_string(),
        };
        let mut attributes = Attributes::new();
        if !self.spec.keys.is_empty() {
            attributes.push(("groupBy", columns(input, &self.spec.keys)));
        }
        attributes.push(("window", window(&self.spec.window, &how)));
        attributes.push(("select", complete_select(&self.spec, input).join(", ")));
        attributes
    }
}
