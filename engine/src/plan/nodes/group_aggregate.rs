//! Aggregates by key without windows: in one phase, or folding before an exchange and merging behind it.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, columns};
use super::window_aggregate::aggregate as aggregate_text;
use crate::functions::AggregateCall;
use crate::types::Schema;

/// What a group aggregation computes, over the rows that come.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupAggregateSpec {
    /// The columns of GROUP BY; empty: all rows are one group.
    pub grouping: Vec<usize>,
    /// The aggregates.
    pub aggregates: Vec<AggregateCall>,
    /// How long a group is remembered, from a hint; milliseconds. `None`: `table.exec.state.ttl`.
    pub state_ttl_ms: Option<u64>,
}

/// Keeps the aggregates of each group and gives every change of them. Output: grouping columns, aggregates.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupAggregateNode {
    /// What it computes.
    pub spec: GroupAggregateSpec,
}

/// Folds the rows of a mini-batch bundle by group. It holds nothing over a barrier. Output: grouping columns, then the
/// accumulators, whose columns the operators define.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LocalGroupAggregateNode {
    /// What the whole aggregation computes, over the input of this phase.
    pub spec: GroupAggregateSpec,
}

/// Merges what local aggregations folded. Output: grouping columns, aggregates.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GlobalGroupAggregateNode {
    /// What the whole aggregation computes, over the input of the *local* phase; in this node's own input the grouping columns are
    /// the first ones, in the same order.
    pub spec: GroupAggregateSpec,
    /// The columns of the local phase's input.
    pub local_input: Schema,
}

impl GroupAggregateSpec {
    fn attributes(&self, input: &Schema) -> Attributes {
        let mut attributes = Attributes::new();
        if !self.grouping.is_empty() {
            attributes.push(("groupBy", columns(input, &self.grouping)));
        }
        let keys = self
            .grouping
            .iter()
            .map(|key| input.fields[*key].name.clone());
        let calls = self
            .aggregates
            .iter()
            .map(|call| format!("{} AS {}", aggregate_text(call, input), call.name));
        attributes.push(("select", keys.chain(calls).collect::<Vec<_>>().join(", ")));
        attributes
    }
}

impl GroupAggregateNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        self.spec.attributes(scope.input())
    }
}

impl LocalGroupAggregateNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        self.spec.attributes(scope.input())
    }
}

impl GlobalGroupAggregateNode {
    pub(crate) fn attributes(&self, _: &Scope) -> Attributes {
        self.spec.attributes(&self.local_input)
    }
}
