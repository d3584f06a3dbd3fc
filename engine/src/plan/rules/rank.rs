//! ROW_NUMBER without a window becomes a deduplication, where one row stays by a time attribute, or a Top-N.

use super::window_rank::keep;
use crate::error::Result;
use crate::plan::exec_node::{ExecNodeKind, NodeId};
use crate::plan::monotonicity::{Monotonicity, modified_monotonicity};
use crate::plan::nodes::{
    DeduplicateEmission, DeduplicateNode, KeepRow, RankForm, RankNode, RankRange, RankStrategy,
};
use crate::plan::physical::Planner;
use crate::plan::relation::{PendingRank, Relation};
use crate::types::{SortKey, TimeAttribute};

impl Planner<'_> {
    pub(super) fn rank(
        &mut self,
        relation: Relation,
        rank: PendingRank,
        range: RankRange,
    ) -> Result<Relation> {
        let base = self.builder.node(relation.base);
        let number = base.schema.len();
        let reads_number = |part: &crate::expr::Expression| part.columns().contains(&number);
        let mut parts = relation.columns.iter().flatten().chain(&relation.condition);
        let is_first = range == RankRange::Constant { start: 1, end: 1 };
        if is_first
            && base.changelog_mode.is_insert_only()
            && let [key] = rank.order_by[..]
            && let Some(attribute) = base.schema.fields[key.column].time_attribute
            && !parts.any(reads_number)
        {
            return self.deduplicate(relation, &rank, key, attribute);
        }
        let mut also: Vec<usize> = rank.partition_by.clone();
        also.extend(rank.order_by.iter().map(|key| key.column));
        if let RankRange::Variable { end_column } = range {
            also.push(end_column);
        }
        let input = self.rank_input(&relation, &also)?;
        let partition_by = input.all(&rank.partition_by);
        let order_by = input.order(&rank.order_by);
        let below = self.builder.distribute(input.node, &partition_by);
        let kind = ExecNodeKind::Rank(RankNode {
            strategy: self.rank_strategy(below, &partition_by, &order_by),
            range: match range {
                RankRange::Variable { end_column } => RankRange::Variable {
                    end_column: input.at(end_column),
                },
                constant => constant,
            },
            partition_by,
            order_by,
            output_rank: input.output_rank,
            form: RankForm::Rank,
        });
        Ok(self.over_rank(relation, &rank, &input, kind, below))
    }

    fn deduplicate(
        &mut self,
        relation: Relation,
        rank: &PendingRank,
        key: SortKey,
        attribute: TimeAttribute,
    ) -> Result<Relation> {
        let is_rowtime = attribute == TimeAttribute::Rowtime;
        let mut also: Vec<usize> = rank.partition_by.clone();
        also.extend(is_rowtime.then_some(key.column));
        let input = self.rank_input(&relation, &also)?;
        let unique_key = input.all(&rank.partition_by);
        let below = self.builder.distribute(input.node, &unique_key);
        let keep = keep(&key);
        let kind = ExecNodeKind::Deduplicate(DeduplicateNode {
            unique_key,
            order_column: is_rowtime.then(|| input.at(key.column)),
            keep,
            emission: self.deduplicate_emission(keep, is_rowtime),
        });
        Ok(self.over_rank(relation, rank, &input, kind, below))
    }

    /// In mini-batch the first row by event time does not wait for the watermark.
    fn deduplicate_emission(&self, keep: KeepRow, is_rowtime: bool) -> DeduplicateEmission {
        let mini_batch = self.config.boolean("table.exec.mini-batch.enabled");
        match keep {
            KeepRow::First if !is_rowtime || !mini_batch => DeduplicateEmission::Final,
            _ => DeduplicateEmission::Updating,
        }
    }

    /// How a Top-N of the rows of a node, which are dealt by its partition, is kept.
    pub(super) fn rank_strategy(
        &self,
        input: NodeId,
        partition_by: &[usize],
        order_by: &[SortKey],
    ) -> RankStrategy {
        let node = self.builder.node(input);
        if node.changelog_mode.is_insert_only() {
            return RankStrategy::AppendFast;
        }
        let names_partition =
            |key: &&Vec<usize>| partition_by.iter().all(|column| key.contains(column));
        let key = node.upsert_keys.iter().find(names_partition);
        match key {
            Some(key) if !order_by.is_empty() && self.only_rises(input, order_by) => {
                RankStrategy::UpdateFast { key: key.clone() }
            }
            _ => RankStrategy::Retract,
        }
    }

    /// Whether a row that is updated never gets worse in this order, nor goes.
    fn only_rises(&self, input: NodeId, order_by: &[SortKey]) -> bool {
        let Some(monotonicity) = modified_monotonicity(&self.builder, input) else {
            return false;
        };
        let schema = &self.builder.node(input).schema;
        order_by.iter().all(|key| {
            // A NULL may become a value: it must be the worst.
            let nulls = schema.fields[key.column].logical_type.nullable && key.nulls_first;
            match monotonicity[key.column] {
                Monotonicity::Constant => true,
                Monotonicity::Increasing => key.descending && !nulls,
                Monotonicity::Decreasing => !key.descending && !nulls,
                Monotonicity::NotMonotonic => false,
            }
        })
    }
}
