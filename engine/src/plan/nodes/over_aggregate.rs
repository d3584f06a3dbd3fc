//! Aggregates over the rows before each row.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, columns, order};
use super::window_aggregate::aggregate as aggregate_text;
use crate::functions::AggregateCall;
use crate::plan::logical::OverFrame;
use crate::types::SortKey;

/// Gives every row with the results of the calls over its frame. Output: all input columns, then the results.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OverAggregateNode {
    /// PARTITION BY.
    pub partition_by: Vec<usize>,
    /// ORDER BY.
    pub order_by: Vec<SortKey>,
    /// Which rows before the current one count.
    pub frame: OverFrame,
    /// The calls over input columns.
    pub calls: Vec<AggregateCall>,
    /// Whether the order is that of a time attribute, ascending; else rows come out again where one comes before them.
    pub is_time_ordered: bool,
    /// Whether that is event time: rows come out when the watermark passes them.
    pub is_event_time: bool,
}

impl OverAggregateNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let input = scope.input();
        let mut attributes = Attributes::new();
        if !self.partition_by.is_empty() {
            attributes.push(("partitionBy", columns(input, &self.partition_by)));
        }
        attributes.push(("orderBy", order(input, &self.order_by)));
        attributes.push(("window", frame(self.frame)));
        let names = input.names().map(str::to_string);
        let calls = self
            .calls
            .iter()
            .map(|call| format!("{} AS {}", aggregate_text(call, input), call.name));
        attributes.push(("select", names.chain(calls).collect::<Vec<_>>().join(", ")));
        attributes
    }
}

fn frame(frame: OverFrame) -> String {
    let (unit, preceding) = match frame {
        OverFrame::Rows(preceding) => ("ROWS", preceding.map(|rows| rows.to_string())),
        OverFrame::Range(preceding) => ("RANGE", preceding.map(|millis| millis.to_string())),
    };
    let preceding = preceding.unwrap_or_else(|| "UNBOUNDED".to_string());
    format!(" {unit} BETWEEN {preceding} PRECEDING AND CURRENT ROW")
}
