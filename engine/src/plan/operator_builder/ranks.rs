//! Operators of deduplication, Top-N and order.

use super::{Build, OperatorBuilder};
use crate::error::{Error, Result};
use crate::operators::{
    DeduplicateChangelog, DeduplicateChangingRowOperator, DeduplicateEarliestRowOperator,
    DeduplicateFirstRowOperator, DeduplicateSpec, KeepRow,
};
use crate::plan::exec_node::ExecNode;
use crate::plan::nodes::{self, DeduplicateEmission, DeduplicateNode, RankNode, TemporalSortNode};
use crate::state::TimeToLive;
use crate::types::RowKind;

impl OperatorBuilder<'_> {
    pub(super) fn deduplicate(
        &self,
        node: &ExecNode,
        deduplicate: &DeduplicateNode,
    ) -> Result<Build> {
        let spec = DeduplicateSpec {
            schema: node.schema.clone(),
            key: deduplicate.unique_key.clone(),
            order_column: deduplicate.order_column,
            keep: match deduplicate.keep {
                nodes::KeepRow::First => KeepRow::First,
                nodes::KeepRow::Last => KeepRow::Last,
            },
            time_to_live: TimeToLive::of_millis(self.state_ttl_ms),
        };
        let changelog = DeduplicateChangelog {
            update_before: node.changelog_mode.contains(RowKind::UpdateBefore),
            first_is_insert: self.deduplicate_options.first_is_insert,
            // All versions of a row by event time go out, as a temporal join may need each.
            bundle_rows: self.mini_batch_rows.filter(|_| {
                spec.order_column.is_none() || self.deduplicate_options.compact_changes
            }),
        };
        Ok(match (deduplicate.emission, deduplicate.order_column) {
            (DeduplicateEmission::Updating, _) => Box::new(move |_| {
                let spec = spec.clone();
                Ok(Box::new(DeduplicateChangingRowOperator::new(
                    spec, changelog,
                )?))
            }),
            (DeduplicateEmission::Final, Some(_)) => Box::new(move |_| {
                let spec = spec.clone();
                Ok(Box::new(DeduplicateEarliestRowOperator::new(spec)?))
            }),
            (DeduplicateEmission::Final, None) => {
                Box::new(move |_| Ok(Box::new(DeduplicateFirstRowOperator::new(&spec)?)))
            }
        })
    }

    pub(super) fn rank(&self, node: &ExecNode, _: &RankNode) -> Result<Build> {
        Err(Error::unsupported(node.kind.name()))
    }

    pub(super) fn temporal_sort(&self, node: &ExecNode, _: &TemporalSortNode) -> Result<Build> {
        Err(Error::unsupported(node.kind.name()))
    }
}
