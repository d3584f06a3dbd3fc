//! Window deduplication: the first or the last row by event time of each window and partition, when the window ends.

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute;

use super::window_buffer::partition_ids;
use super::window_reduce::{ReduceWindow, WindowReduceOperator};
use crate::error::Result;
use crate::state::StateBackend;
use crate::types::Schema;
use crate::watermark::watermark_millis;
use crate::window::WindowTime;

/// Which row of several stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepRow {
    /// The one with the earliest time; of several, the one that came first.
    First,
    /// The one with the latest time; of several, the one that came last.
    Last,
}

/// What a window deduplication does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowDeduplicateSpec {
    /// The columns of input and output.
    pub schema: Schema,
    /// The column of the window's end.
    pub window_end: usize,
    /// The clock of the window.
    pub window_time: WindowTime,
    /// With sessions, the column of the window's start: sessions of equal end may have unequal starts. `None` for other windows.
    pub session_start: Option<usize>,
    /// PARTITION BY without the window's columns: the key by which rows were dealt.
    pub partition_keys: Vec<usize>,
    /// The event-time column of ORDER BY.
    pub order_column: usize,
    /// Which row stays.
    pub keep: KeepRow,
}

/// The deduplication operator; see [`WindowReduceOperator`].
pub type WindowDeduplicateOperator = WindowReduceOperator<WindowDeduplicate>;

/// Keeps one row of each partition.
pub struct WindowDeduplicate {
    spec: WindowDeduplicateSpec,
}

impl WindowDeduplicateOperator {
    /// An operator as `spec` says.
    pub fn new(spec: WindowDeduplicateSpec, backend: &dyn StateBackend) -> Result<Self> {
        let deduplicate = WindowDeduplicate { spec: spec.clone() };
        let input = spec.schema.to_arrow();
        let (end, keys) = (spec.window_end, spec.partition_keys);
        Self::of(deduplicate, input, end, keys, &spec.window_time, backend)
    }
}

impl ReduceWindow for WindowDeduplicate {
    fn survivors(&self, rows: &RecordBatch, hashes: &[u64]) -> Result<Vec<u32>> {
        let WindowDeduplicateSpec {
            partition_keys,
            session_start,
            ..
        } = &self.spec;
        let partitions = partition_ids(rows, partition_keys, *session_start, hashes)?;
        let times = watermark_millis(rows.column(self.spec.order_column))?;
        Ok(kept_rows(&partitions, &times, self.spec.keep))
    }

    fn result(&self, rows: &RecordBatch, hashes: &[u64]) -> Result<RecordBatch> {
        let kept = UInt32Array::from(self.survivors(rows, hashes)?);
        Ok(compute::take_record_batch(rows, &kept)?)
    }
}

/// The row of each partition that stays, of rows in order of arrival; sorted.
fn kept_rows(partitions: &[u32], times: &[i64], keep: KeepRow) -> Vec<u32> {
    let count = partitions.iter().max().map_or(0, |last| *last as usize + 1);
    let mut kept: Vec<Option<u32>> = vec![None; count];
    for (row, partition) in partitions.iter().enumerate() {
        let best = &mut kept[*partition as usize];
        let wins = best.is_none_or(|best| match keep {
            KeepRow::First => times[row] < times[best as usize],
            KeepRow::Last => times[row] >= times[best as usize],
        });
        if wins {
            *best = Some(row as u32);
        }
    }
    let mut rows: Vec<u32> = kept.into_iter().flatten().collect();
    rows.sort_unstable();
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::test_bench::check;
    use crate::state::HashMapStateBackend;
    use crate::types::{Field, LogicalType, TypeRoot};

    fn check_keep(keep: KeepRow, window_time: WindowTime, stream: &str, expected: &str) {
        let time = LogicalType::nullable(TypeRoot::Timestamp(3));
        let schema = Schema::new(vec![
            Field::new("k", LogicalType::STRING),
            Field::new("v", LogicalType::INT),
            Field::new("ts", time.clone()),
            Field::new("window_end", time),
        ]);
        let spec = WindowDeduplicateSpec {
            schema: schema.clone(),
            window_end: 3,
            window_time,
            session_start: None,
            partition_keys: vec![0],
            order_column: 2,
            keep,
        };
        check(
            || WindowDeduplicateOperator::new(spec.clone(), &HashMapStateBackend).unwrap(),
            &[&schema],
            stream,
            expected,
        );
    }

    const STREAM: &str = "
        +I a, 1, 5, 10
        +I b, 2, 6, 10
        +I a, 3, 5, 10      // the same time
        +I a, 4, 12, 20
        +I b, 5, 4, 10
        -- watermark 9
        +I b, 6, 3, 10      // late
        +I b, 7, 11, 20
        -- end
    ";

    #[test]
    fn the_first_row_is_the_earliest_and_of_equal_ones_the_first_to_come() {
        check_keep(
            KeepRow::First,
            WindowTime::EventTimestamp,
            STREAM,
            "
                +I a, 1, 5, 10
                +I b, 5, 4, 10
                -- watermark 9
                +I a, 4, 12, 20
                +I b, 7, 11, 20
                -- watermark end
                late b, 6, 3, 10
            ",
        );
    }

    #[test]
    fn the_last_row_is_the_latest_and_of_equal_ones_the_last_to_come() {
        check_keep(
            KeepRow::Last,
            WindowTime::EventTimestamp,
            STREAM,
            "
                +I b, 2, 6, 10
                +I a, 3, 5, 10
                -- watermark 9
                +I a, 4, 12, 20
                +I b, 7, 11, 20
                -- watermark end
                late b, 6, 3, 10
            ",
        );
    }

    #[test]
    fn processing_time_windows_fire_by_the_clock_and_not_at_the_end() {
        check_keep(
            KeepRow::First,
            WindowTime::Processing {
                time_zone: "UTC".to_string(),
            },
            "
                +I a, 1, 5, 10
                +I a, 2, 15, 20
                -- clock 8
                -- watermark 100
                -- clock 9
                -- end
            ",
            "
                -- watermark 100
                +I a, 1, 5, 10
                -- watermark end
            ",
        );
    }
}
