//! Operators of deduplication, Top-N and order.

use super::{Build, OperatorBuilder};
use crate::error::{Error, Result};
use crate::operators::{
    DeduplicateChangelog, DeduplicateChangingRowOperator, DeduplicateEarliestRowOperator,
    DeduplicateFirstRowOperator, DeduplicateSpec, KeepRow, RankChangelog, RankEnd, RankSpec,
    RankStrategy, SortTime, TemporalSortOperator, TemporalSortSpec, Ties, rank_operator,
};
use crate::plan::exec_node::ExecNode;
use crate::plan::nodes::{self, DeduplicateEmission, DeduplicateNode, RankNode, TemporalSortNode};
use crate::state::TimeToLive;
use crate::types::{RowKind, Schema, SortKey, TimeAttribute};

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

    pub(super) fn rank(&self, node: &ExecNode, rank: &RankNode) -> Result<Build> {
        let input = self.plan.node(node.inputs[0]);
        let (order_by, ties) = order_of_arrival(&rank.order_by, &input.schema);
        let (start, end) = match rank.range {
            nodes::RankRange::Constant { start, end } => (start, RankEnd::Constant(end)),
            nodes::RankRange::Variable { end_column } => (1, RankEnd::Column(end_column)),
        };
        let update_before = node.changelog_mode.contains(RowKind::UpdateBefore);
        let is_retract = rank.strategy == nodes::RankStrategy::Retract;
        let is_only_row = start == 1 && end == RankEnd::Constant(1) && !rank.output_rank;
        let spec = RankSpec {
            input: input.schema.clone(),
            output: node.schema.clone(),
            partition_by: rank.partition_by.clone(),
            order_by,
            ties,
            start,
            end,
            strategy: match &rank.strategy {
                nodes::RankStrategy::AppendFast => RankStrategy::AppendFast,
                nodes::RankStrategy::UpdateFast { key } => RankStrategy::UpdateFast(key.clone()),
                nodes::RankStrategy::Retract => RankStrategy::Retract,
            },
            output_rank: rank.output_rank,
            changelog: RankChangelog {
                update_before,
                // By a key of the input the row that goes would be left standing.
                replaces_only_row: is_only_row
                    && !is_retract
                    && (update_before || input.upsert_keys.is_empty()),
                bundle_rows: self.mini_batch_rows,
            },
            time_to_live: TimeToLive::of_millis(self.state_ttl_ms),
        };
        Ok(Box::new(move |_| rank_operator(spec.clone())))
    }

    pub(super) fn temporal_sort(&self, node: &ExecNode, sort: &TemporalSortNode) -> Result<Build> {
        let schema = node.schema.clone();
        let Some((first, then_by)) = sort.order_by.split_first() else {
            return Err(Error::internal("a temporal sort has a time"));
        };
        let spec = TemporalSortSpec {
            time: match schema.fields[first.column].time_attribute {
                Some(TimeAttribute::Proctime) => SortTime::Processing,
                _ => SortTime::Event(first.column),
            },
            then_by: then_by.to_vec(),
            schema,
        };
        Ok(Box::new(move |_| {
            Ok(Box::new(TemporalSortOperator::new(spec.clone())?))
        }))
    }
}

/// The order up to the first column of processing time, which is the order of arrival: no two rows are equal in it.
fn order_of_arrival(order_by: &[SortKey], schema: &Schema) -> (Vec<SortKey>, Ties) {
    let is_processing_time =
        |key: &SortKey| schema.fields[key.column].time_attribute == Some(TimeAttribute::Proctime);
    let Some(at) = order_by.iter().position(is_processing_time) else {
        return (order_by.to_vec(), Ties::FirstArrived);
    };
    let ties = if order_by[at].descending {
        Ties::LastArrived
    } else {
        Ties::FirstArrived
    };
    (order_by[..at].to_vec(), ties)
}
