//! ROW_NUMBER over the rows of windows becomes a Top-N of windows, or a deduplication where one row stays by event time.

use crate::error::{Error, Result};
use crate::plan::exec_node::ExecNodeKind;
use crate::plan::nodes::{KeepRow, RankRange, WindowDeduplicateNode, WindowRankNode};
use crate::plan::physical::Planner;
use crate::plan::relation::{PendingRank, Relation};
use crate::plan::window_properties::WindowProperties;
use crate::types::SortKey;
use crate::window::WindowColumn;

impl Planner<'_> {
    /// The window by whose bounds the rows are partitioned.
    pub(super) fn rank_window(
        &self,
        relation: &Relation,
        rank: &PendingRank,
    ) -> Option<RankWindow> {
        let windows = self.builder.facts(relation.base).window.clone()?;
        RankWindow::of(windows, &rank.partition_by)
    }

    pub(super) fn window_rank(
        &mut self,
        relation: Relation,
        rank: PendingRank,
        window: RankWindow,
        range: RankRange,
    ) -> Result<Relation> {
        let RankRange::Constant { start, end } = range else {
            return Err(variable_end(&rank));
        };
        let order = rank.order_by.iter().map(|key| key.column);
        let also: Vec<usize> = rank.partition_by.iter().copied().chain(order).collect();
        let input = self.rank_input(&relation, &also)?;
        let partition_by = input.all(&window.others);
        let below = self.builder.distribute(input.node, &partition_by);
        let deduplicates = (start, end) == (1, 1) && !input.output_rank;
        let by_time = &window.properties.time_columns;
        let kind = match &rank.order_by[..] {
            [key] if deduplicates && by_time.contains(&key.column) => {
                ExecNodeKind::WindowDeduplicate(WindowDeduplicateNode {
                    window: window.properties.window,
                    window_start: input.at(window.start),
                    window_end: input.at(window.end),
                    partition_by,
                    order_column: input.at(key.column),
                    keep: keep(key),
                })
            }
            order => ExecNodeKind::WindowRank(WindowRankNode {
                window: window.properties.window,
                window_start: input.at(window.start),
                window_end: input.at(window.end),
                partition_by,
                order_by: input.order(order),
                rank_start: start,
                rank_end: end,
                output_rank: input.output_rank,
            }),
        };
        Ok(self.over_rank(relation, &rank, &input, kind, below))
    }
}

/// The row that has the number 1 in this order.
pub(super) fn keep(key: &SortKey) -> KeepRow {
    if key.descending {
        KeepRow::Last
    } else {
        KeepRow::First
    }
}

fn variable_end(rank: &PendingRank) -> Error {
    Error::user("the last rank of a Top-N of windows must be a constant")
        .at(rank.position.0)
        .hint(format!("as in {} <= 10", rank.name))
}

/// The window of a partition, and what else it is partitioned by.
pub(super) struct RankWindow {
    properties: WindowProperties,
    start: usize,
    end: usize,
    others: Vec<usize>,
}

impl RankWindow {
    /// `None` where the partition lacks a bound.
    fn of(properties: WindowProperties, partition_by: &[usize]) -> Option<RankWindow> {
        let bound = |wanted: WindowColumn| {
            partition_by
                .iter()
                .copied()
                .find(|column| properties.of(*column) == Some(wanted))
        };
        let (start, end) = (bound(WindowColumn::Start)?, bound(WindowColumn::End)?);
        let mut others: Vec<usize> = Vec::new();
        for column in partition_by {
            if properties.of(*column).is_none() && !others.contains(column) {
                others.push(*column);
            }
        }
        Some(RankWindow {
            properties,
            start,
            end,
            others,
        })
    }
}
