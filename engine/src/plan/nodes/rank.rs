//! Top-N of each partition, ORDER BY with LIMIT, and LIMIT.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, columns, names, order};
use crate::types::SortKey;

/// Keeps the rows with the ranks of a range in each partition; rows equal in the order rank as they arrived. Output: all input
/// columns, then the rank if it is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RankNode {
    /// PARTITION BY; empty for ORDER BY … LIMIT.
    pub partition_by: Vec<usize>,
    /// ORDER BY; empty for LIMIT, which keeps the rows that came first.
    pub order_by: Vec<SortKey>,
    /// Which ranks are kept.
    pub range: RankRange,
    /// How it is computed.
    pub strategy: RankStrategy,
    /// Whether the rank is the last column of the output, BIGINT NOT NULL.
    pub output_rank: bool,
    /// What EXPLAIN calls it.
    pub form: RankForm,
}

/// Ranks that are kept, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RankRange {
    /// `start ..= end`; an `end` of `u64::MAX` is no end.
    Constant {
        /// The first rank.
        start: u64,
        /// The last one.
        end: u64,
    },
    /// Up to the value of this input column in the row.
    Variable {
        /// A BIGINT column.
        end_column: usize,
    },
}

/// How a Top-N is kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RankStrategy {
    /// The input only inserts: only the rows of the range are kept.
    AppendFast,
    /// The input updates by this key, and a row's place only ever gets better: only the rows of the range are kept.
    UpdateFast {
        /// Columns that name a row.
        key: Vec<usize>,
    },
    /// Everything is kept, as any row may go.
    Retract,
}

/// The statement that a Top-N comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RankForm {
    /// ROW_NUMBER with a bound.
    Rank,
    /// ORDER BY … LIMIT.
    SortLimit,
    /// LIMIT.
    Limit,
}

/// Gives rows in the order of event time, when the watermark has passed them. Output: all input columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TemporalSortNode {
    /// A time attribute, ascending, then any columns.
    pub order_by: Vec<SortKey>,
}

impl RankForm {
    /// Flink's name of the node.
    pub(crate) fn name(self) -> &'static str {
        match self {
            RankForm::Rank => "Rank",
            RankForm::SortLimit => "SortLimit",
            RankForm::Limit => "Limit",
        }
    }
}

impl RankNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let input = scope.input();
        match self.form {
            RankForm::Rank => vec![
                ("strategy", self.strategy()),
                ("rankType", "ROW_NUMBER".to_string()),
                ("rankRange", self.range(scope)),
                ("partitionBy", columns(input, &self.partition_by)),
                ("orderBy", order(input, &self.order_by)),
                ("select", names(scope.output())),
            ],
            RankForm::SortLimit => vec![
                ("orderBy", order(input, &self.order_by)),
                ("offset", self.offset().to_string()),
                ("fetch", self.fetch()),
                ("strategy", self.strategy()),
            ],
            RankForm::Limit => vec![
                ("offset", self.offset().to_string()),
                ("fetch", self.fetch()),
            ],
        }
    }

    fn strategy(&self) -> String {
        match &self.strategy {
            RankStrategy::AppendFast => "AppendFastStrategy".to_string(),
            RankStrategy::UpdateFast { key } => {
                let key: Vec<String> = key.iter().map(usize::to_string).collect();
                format!("UpdateFastStrategy[{}]", key.join(","))
            }
            RankStrategy::Retract => "RetractStrategy".to_string(),
        }
    }

    fn range(&self, scope: &Scope) -> String {
        match self.range {
            RankRange::Constant { start, end } => format!("rankStart={start}, rankEnd={end}"),
            RankRange::Variable { end_column } => {
                format!("rankEnd={}", scope.input().fields[end_column].name)
            }
        }
    }

    fn offset(&self) -> u64 {
        match self.range {
            RankRange::Constant { start, .. } => start - 1,
            RankRange::Variable { .. } => 0,
        }
    }

    fn fetch(&self) -> String {
        match self.range {
            RankRange::Constant { end: u64::MAX, .. } => "unlimited".to_string(),
            RankRange::Constant { start, end } => (end + 1 - start).to_string(),
            RankRange::Variable { .. } => "unlimited".to_string(),
        }
    }
}

impl TemporalSortNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        vec![("orderBy", order(scope.input(), &self.order_by))]
    }
}
