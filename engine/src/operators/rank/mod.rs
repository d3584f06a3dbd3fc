//! Top-N: the rows with the first ranks of each partition, kept up to date.
//!
//! `rank_operator` holds the rows of each partition in their order (`ranked_rows`); what an arriving row does to them depends on
//! the input: it only inserts, it updates rows by key and makes them only better, or any row may go (`strategy`). What goes out
//! is collected as changes of ranks, or of the set of rows where nobody asks for the rank (`rank_changes`). Where order is
//! arrival and nothing ever goes, counting is enough (`first_rows`).

mod first_rows;
mod rank_changes;
mod rank_operator;
mod ranked_rows;
mod row_index;
mod sort_order;

use super::Operator;
use crate::error::Result;
use crate::state::TimeToLive;
use crate::types::{Schema, SortKey};

pub(super) use sort_order::SortOrder;

pub use first_rows::FirstRowsOperator;
pub use rank_operator::RankOperator;

/// What a Top-N does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankSpec {
    /// The columns of the input.
    pub input: Schema,
    /// The same, then the rank where it is asked for (BIGINT).
    pub output: Schema,
    /// PARTITION BY.
    pub partition_by: Vec<usize>,
    /// ORDER BY, up to the first column of processing time.
    pub order_by: Vec<SortKey>,
    /// How rows that are equal in `order_by` rank.
    pub ties: Ties,
    /// The first rank that is given, from 1.
    pub start: u64,
    /// The last one.
    pub end: RankEnd,
    /// What the input does.
    pub strategy: RankStrategy,
    /// Whether the rank is the last column.
    pub output_rank: bool,
    /// What goes out.
    pub changelog: RankChangelog,
    /// How long a partition is remembered after it changed last.
    pub time_to_live: TimeToLive,
}

/// How rows rank that are equal in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ties {
    /// As they arrived.
    FirstArrived,
    /// The last to arrive first: ORDER BY a processing time DESC.
    LastArrived,
}

/// The last rank that is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankEnd {
    /// The same for all partitions.
    Constant(u64),
    /// The value of this whole-number column in the first row of the partition; NULL is 0.
    Column(usize),
}

/// What the input does to the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RankStrategy {
    /// It inserts.
    AppendFast,
    /// It updates rows by this key, and an update never makes a row worse.
    UpdateFast(Vec<usize>),
    /// It takes rows back.
    Retract,
}

/// How changes go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankChangelog {
    /// Whether the row before an update goes out too.
    pub update_before: bool,
    /// Whether a row that takes the place of the only one of its partition is an update of it, rather than a deletion and an
    /// insertion.
    pub replaces_only_row: bool,
    /// How many rows make a bundle, of which the net change goes out; `None`: every change does.
    pub bundle_rows: Option<usize>,
}

/// The Top-N operator for `spec`.
pub fn rank_operator(spec: RankSpec) -> Result<Box<dyn Operator>> {
    let counts = spec.strategy == RankStrategy::AppendFast
        && spec.order_by.is_empty()
        && spec.ties == Ties::FirstArrived;
    if counts {
        return Ok(Box::new(FirstRowsOperator::new(spec)?));
    }
    if sort_order::is_short(&spec.input, &spec.order_by) {
        Ok(Box::new(RankOperator::<u128>::new(spec)?))
    } else {
        Ok(Box::new(RankOperator::<Box<[u8]>>::new(spec)?))
    }
}

#[cfg(test)]
mod tests;
