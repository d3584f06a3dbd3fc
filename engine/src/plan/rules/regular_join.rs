//! What no kind of time bounds: a join that remembers both sides.

use crate::error::Result;
use crate::plan::exec_node::ExecNodeKind;
use crate::plan::logical::Join;
use crate::plan::logical_graph::LogicalId;
use crate::plan::nodes::JoinNode;
use crate::plan::physical::Planner;
use crate::plan::relation::Relation;
use crate::types::Schema;

use super::join::JoinInputs;

impl Planner<'_> {
    /// A regular join, or one more level of a chain of them; without equalities it runs in one subtask.
    pub(super) fn regular_join(
        &mut self,
        id: LogicalId,
        join: &Join,
        inputs: JoinInputs,
    ) -> Result<Relation> {
        if let Some(chain) = self.chain(join, &inputs) {
            return self.multi_join(id, join, inputs, chain);
        }
        let keys = inputs.conditions.equalities.clone();
        let residual = inputs.conditions.residual();
        let sides = self.join_sides(inputs, keys, residual)?;
        let kind = ExecNodeKind::Join(JoinNode {
            kind: join.kind,
            keys: sides.keys.clone(),
            condition: sides.condition.clone(),
            state_ttl_ms: join.state_ttl_ms,
        });
        let schema = without_time(self.join_schema(join.kind, &sides));
        Ok(self.joined(id, kind, sides, schema))
    }
}

/// Rows come out when their partners come, so no column tells the time any more.
fn without_time(mut schema: Schema) -> Schema {
    let fields = schema.fields.iter_mut();
    fields.for_each(|field| field.time_attribute = None);
    schema
}
