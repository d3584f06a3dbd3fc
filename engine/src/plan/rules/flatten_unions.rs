//! A union of unions is one union.

use crate::plan::logical::{LogicalPlan, Union};

/// Takes the inputs of inner unions as its own, where the column types agree (which a union's inputs always do).
pub(super) fn flatten(plan: LogicalPlan) -> LogicalPlan {
    let LogicalPlan::Union(Union { inputs, schema }) = plan else {
        return plan;
    };
    let inputs = inputs.into_iter().flat_map(|input| match input {
        LogicalPlan::Union(inner) if inner.schema == schema => inner.inputs,
        other => vec![other],
    });
    LogicalPlan::Union(Union {
        inputs: inputs.collect(),
        schema,
    })
}
