//! Window Top-N: the rows with the first ranks of each window and partition, when the window ends.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{self, SortOptions};
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, SortField};

use super::calc::batch_of;
use super::window_buffer::partition_ids;
use super::window_reduce::{ReduceWindow, WindowReduceOperator};
use crate::error::Result;
use crate::state::StateBackend;
use crate::types::{Schema, SortKey};
use crate::window::WindowTime;

/// What a window Top-N does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowRankSpec {
    /// The columns of the input.
    pub input: Schema,
    /// The same, then the rank where it is asked for (BIGINT).
    pub output: Schema,
    /// The input column of the window's end.
    pub window_end: usize,
    /// The clock of the window.
    pub window_time: WindowTime,
    /// With sessions, the input column of the window's start: sessions of equal end may have unequal starts. `None` for other
    /// windows.
    pub session_start: Option<usize>,
    /// PARTITION BY without the window's columns: the key by which rows were dealt.
    pub partition_keys: Vec<usize>,
    /// ORDER BY; rows that are equal in it rank as they came.
    pub order_by: Vec<SortKey>,
    /// The first rank that is emitted, from 1.
    pub rank_start: u64,
    /// The last rank that is emitted.
    pub rank_end: u64,
    /// Whether the rank is the last column.
    pub output_rank: bool,
}

/// The Top-N operator; see [`WindowReduceOperator`].
pub type WindowRankOperator = WindowReduceOperator<WindowRank>;

/// Keeps the rows with the first ranks of each partition.
pub struct WindowRank {
    spec: WindowRankSpec,
    schema: SchemaRef,
    order: RowConverter,
}

/// Rows of a window in order of partition and rank.
struct Ranked {
    rows: Vec<u32>,
    ranks: Vec<i64>,
}

impl WindowRankOperator {
    /// An operator as `spec` says.
    pub fn new(spec: WindowRankSpec, backend: &dyn StateBackend) -> Result<Self> {
        let fields = spec.order_by.iter().map(|key| {
            let options = SortOptions {
                descending: key.descending,
                nulls_first: key.nulls_first,
            };
            let data_type = spec.input.fields[key.column].logical_type.to_arrow();
            SortField::new_with_options(data_type, options)
        });
        let rank = WindowRank {
            order: RowConverter::new(fields.collect())?,
            schema: spec.output.to_arrow(),
            spec: spec.clone(),
        };
        let input = spec.input.to_arrow();
        let (end, keys) = (spec.window_end, spec.partition_keys);
        Self::of(rank, input, end, keys, &spec.window_time, backend)
    }
}

impl WindowRank {
    /// The rows with the ranks from `start` to the last asked for.
    fn rank(&self, rows: &RecordBatch, hashes: &[u64], start: u64) -> Result<Ranked> {
        let WindowRankSpec {
            partition_keys,
            session_start,
            ..
        } = &self.spec;
        let partitions = partition_ids(rows, partition_keys, *session_start, hashes)?;
        let keys: Vec<ArrayRef> = self
            .spec
            .order_by
            .iter()
            .map(|key| rows.column(key.column).clone())
            .collect();
        let order = self.order.convert_columns(&keys)?;
        let place = |row: u32| (partitions[row as usize], order.row(row as usize), row);
        let mut sorted: Vec<u32> = (0..rows.num_rows() as u32).collect();
        sorted.sort_unstable_by(|a, b| place(*a).cmp(&place(*b)));
        Ok(ranks_between(
            &sorted,
            &partitions,
            start,
            self.spec.rank_end,
        ))
    }
}

impl ReduceWindow for WindowRank {
    fn survivors(&self, rows: &RecordBatch, hashes: &[u64]) -> Result<Vec<u32>> {
        let mut survivors = self.rank(rows, hashes, 1)?.rows;
        survivors.sort_unstable();
        Ok(survivors)
    }

    fn result(&self, rows: &RecordBatch, hashes: &[u64]) -> Result<RecordBatch> {
        let ranked = self.rank(rows, hashes, self.spec.rank_start)?;
        let rows = compute::take_record_batch(rows, &UInt32Array::from(ranked.rows))?;
        let mut columns = rows.columns().to_vec();
        if self.spec.output_rank {
            columns.push(Arc::new(Int64Array::from(ranked.ranks)));
        }
        batch_of(&self.schema, columns, rows.num_rows())
    }
}

/// Of rows sorted by partition and order, those with ranks `start ..= end` in their partition.
fn ranks_between(sorted: &[u32], partitions: &[u32], start: u64, end: u64) -> Ranked {
    let mut ranked = Ranked {
        rows: Vec::new(),
        ranks: Vec::new(),
    };
    let (mut partition, mut rank) = (None, 0);
    for row in sorted {
        let own = Some(partitions[*row as usize]);
        rank = if own == partition { rank + 1 } else { 1 };
        partition = own;
        if (start..=end).contains(&rank) {
            ranked.rows.push(*row);
            ranked.ranks.push(rank as i64);
        }
    }
    ranked
}

#[cfg(test)]
mod tests;
