//! Aggregates by window: in one phase, or folding before an exchange and merging behind it.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, columns, window};
use crate::functions::AggregateCall;
use crate::types::Schema;
use crate::window::{WindowAggregateSpec, WindowColumn, WindowInput};

/// Aggregates by key and window and emits when the window ends. Output: keys, aggregates, window columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WindowAggregateNode {
    /// What it computes, over the input.
    pub spec: WindowAggregateSpec,
}

/// Folds rows by key and slice as far as they come together. It holds nothing over a barrier.
/// Output: keys, then the accumulators and the slice end, whose columns the operators define.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LocalWindowAggregateNode {
    /// What the whole aggregation computes, over the input of this phase.
    pub spec: WindowAggregateSpec,
}

/// Merges what local aggregations folded and emits when the window ends. Output: keys, aggregates, window columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GlobalWindowAggregateNode {
    /// What the whole aggregation computes, over the input of the *local* phase; in this node's own input the keys are
    /// the first columns, in the same order.
    pub spec: WindowAggregateSpec,
    /// The columns of the local phase's input.
    pub local_input: Schema,
}

impl WindowAggregateNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        complete(&self.spec, scope.input())
    }
}

impl LocalWindowAggregateNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let input = scope.input();
        let mut select = key_names(&self.spec, input);
        select.extend(
            self.spec
                .aggregates
                .iter()
                .map(|call| format!("{} AS {}", aggregate(call, input), accumulator(call))),
        );
        select.push("slice_end('w$) AS $slice_end".to_string());
        described(&self.spec, input, &how(&self.spec.input, input), select)
    }
}

impl GlobalWindowAggregateNode {
    pub(crate) fn attributes(&self, _: &Scope) -> Attributes {
        let mut select = key_names(&self.spec, &self.local_input);
        select.extend(
            self.spec
                .aggregates
                .iter()
                .map(|call| format!("{}({}) AS {}", call.function, accumulator(call), call.name)),
        );
        select.extend(window_properties(&self.spec));
        described(
            &self.spec,
            &self.local_input,
            "slice_end=[$slice_end]",
            select,
        )
    }
}

fn complete(spec: &WindowAggregateSpec, input: &Schema) -> Attributes {
    described(
        spec,
        input,
        &how(&spec.input, input),
        complete_select(spec, input),
    )
}

/// Keys, aggregates and window columns: the output of a complete aggregation.
pub(crate) fn complete_select(spec: &WindowAggregateSpec, input: &Schema) -> Vec<String> {
    let mut select = key_names(spec, input);
    select.extend(
        spec.aggregates
            .iter()
            .map(|call| format!("{} AS {}", aggregate(call, input), call.name)),
    );
    select.extend(window_properties(spec));
    select
}

fn described(
    spec: &WindowAggregateSpec,
    input: &Schema,
    how: &str,
    select: Vec<String>,
) -> Attributes {
    let mut attributes = Attributes::new();
    if !spec.keys.is_empty() {
        attributes.push(("groupBy", columns(input, &spec.keys)));
    }
    attributes.push(("window", window(&spec.window, how)));
    attributes.push(("select", select.join(", ")));
    attributes
}

fn how(input: &WindowInput, schema: &Schema) -> String {
    let name = |column: usize| &schema.fields[column].name;
    match input {
        WindowInput::TimeColumn(column) => format!("time_col=[{}]", name(*column)),
        WindowInput::Attached {
            window_start,
            window_end,
        } => format!(
            "win_start=[{}], win_end=[{}]",
            name(*window_start),
            name(*window_end)
        ),
    }
}

fn key_names(spec: &WindowAggregateSpec, input: &Schema) -> Vec<String> {
    spec.keys
        .iter()
        .map(|key| input.fields[*key].name.clone())
        .collect()
}

fn window_properties(spec: &WindowAggregateSpec) -> Vec<String> {
    let property = |column: &WindowColumn| match column {
        WindowColumn::Start => "start('w$) AS window_start",
        WindowColumn::End => "end('w$) AS window_end",
        WindowColumn::Time => "rowtime('w$) AS window_time",
    };
    spec.window_columns
        .iter()
        .map(|column| property(column).to_string())
        .collect()
}

fn accumulator(call: &AggregateCall) -> String {
    format!("{}${}", call.function.to_lowercase(), call.name)
}

/// `COUNT(DISTINCT a) FILTER b`.
pub(crate) fn aggregate(call: &AggregateCall, input: &Schema) -> String {
    let arguments = match &call.arguments[..] {
        [] => "*".to_string(),
        arguments => columns(input, arguments),
    };
    let distinct = if call.distinct { "DISTINCT " } else { "" };
    let filter = call
        .filter
        .map(|column| format!(" FILTER {}", input.fields[column].name))
        .unwrap_or_default();
    format!("{}({distinct}{arguments}){filter}", call.function)
}
