//! Operators that mend changelogs.

use super::{Build, OperatorBuilder};
use crate::error::Result;
use crate::expr::compile;
use crate::operators::{
    ChangelogNormalizeOperator, ChangelogNormalizeSpec, DropUpdateBeforeOperator, OnConflict,
    SinkUpsertMaterializerOperator, SinkUpsertMaterializerSpec,
};
use crate::plan::exec_node::ExecNode;
use crate::plan::logical;
use crate::plan::nodes::{ChangelogNormalizeNode, SinkUpsertMaterializerNode};
use crate::state::TimeToLive;
use crate::types::RowKind;

impl OperatorBuilder<'_> {
    pub(super) fn changelog_normalize(
        &self,
        node: &ExecNode,
        normalize: &ChangelogNormalizeNode,
    ) -> Result<Build> {
        let spec = ChangelogNormalizeSpec {
            schema: node.schema.clone(),
            key: normalize.key.clone(),
            update_before: node.changelog_mode.contains(RowKind::UpdateBefore),
            time_to_live: TimeToLive::of_millis(self.state_ttl_ms),
            bundle_rows: self.mini_batch_rows,
            bundle_latency_ms: self.mini_batch_latency_ms,
        };
        let (condition, context) = (normalize.condition.clone(), self.context);
        Ok(Box::new(move |_| {
            let condition = condition
                .as_ref()
                .map(|condition| compile(condition, &context))
                .transpose()?;
            Ok(Box::new(ChangelogNormalizeOperator::new(
                spec.clone(),
                condition,
            )?))
        }))
    }

    pub(super) fn sink_upsert_materializer(
        &self,
        node: &ExecNode,
        materializer: &SinkUpsertMaterializerNode,
    ) -> Result<Build> {
        let spec = SinkUpsertMaterializerSpec {
            table: materializer.table.clone(),
            schema: node.schema.clone(),
            primary_key: materializer.primary_key.clone(),
            upsert_key: materializer.upsert_key.clone(),
            on_conflict: match materializer.on_conflict {
                Some(logical::OnConflict::DoNothing) => OnConflict::Nothing,
                Some(logical::OnConflict::DoError) => OnConflict::Error,
                Some(logical::OnConflict::DoDeduplicate) | None => OnConflict::Deduplicate,
            },
            compacts_at_checkpoints: materializer.compacts_at_checkpoints,
            time_to_live: TimeToLive::of_millis(self.state_ttl_ms),
        };
        Ok(Box::new(move |_| {
            let operator = SinkUpsertMaterializerOperator::new(spec.clone())?;
            Ok(Box::new(operator))
        }))
    }
}

/// Lets everything pass but the rows before updates.
pub(super) fn drop_update_before() -> Build {
    Box::new(|_| Ok(Box::new(DropUpdateBeforeOperator)))
}
