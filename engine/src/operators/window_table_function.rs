//! Adds window_start, window_end and window_time to rows: TUMBLE, HOP and CUMULATE in FROM.
//!
//! A row comes once for each of its windows, at once: nothing is held, and nothing is late here. The windows of HOP come
//! latest first, those of CUMULATE shortest first, as Flink gives them.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, TimestampMillisecondArray, UInt32Array};
use arrow::buffer::ScalarBuffer;
use arrow::compute;
use arrow::datatypes::{DataType, SchemaRef};

use super::calc::batch_of;
use super::context::count;
use super::{Context, Flow, InputIndex, Operator, Output};
use crate::error::Result;
use crate::stream::ChangelogBatch;
use crate::types::Schema;
use crate::watermark::event_time_millis;
use crate::window::{SliceAssigner, Slices, WindowClock, WindowKind, WindowSpec};

/// Attaches aligned windows to rows of any kind. Rows with a NULL time are dropped and counted. No state.
pub struct WindowTableFunctionOperator {
    windows: SliceAssigner,
    clock: WindowClock,
    is_event_time: bool,
    latest_first: bool,
    time_column: usize,
    schema: SchemaRef,
}

/// The windows of the rows of a batch.
struct Assigned {
    /// The row of each window; `None`: every row has one, in order.
    rows: Option<UInt32Array>,
    /// The end of each window.
    ends: Vec<i64>,
}

impl WindowTableFunctionOperator {
    /// A window function over the input's `time_column`. `output`: the input's columns, then window_start, window_end,
    /// window_time. SESSION is refused: it needs state.
    pub fn new(spec: &WindowSpec, time_column: usize, output: &Schema) -> Result<Self> {
        Ok(WindowTableFunctionOperator {
            windows: SliceAssigner::new(spec)?,
            clock: WindowClock::new(&spec.time)?,
            is_event_time: spec.time.is_event_time(),
            latest_first: matches!(spec.kind, WindowKind::Hop { .. }),
            time_column,
            schema: output.to_arrow(),
        })
    }

    /// The rows that have a time, with their times in milliseconds: instants, or wall clock for TIMESTAMP.
    fn timed(
        &self,
        ctx: &Context,
        batch: ChangelogBatch,
    ) -> Result<(ChangelogBatch, ScalarBuffer<i64>)> {
        if !self.is_event_time {
            let now = vec![ctx.processing_time().millis(); batch.num_rows()];
            return Ok((batch, now.into()));
        }
        let nulls = batch.rows.column(self.time_column).null_count();
        let batch = if nulls == 0 {
            batch
        } else {
            count(&ctx.metrics().null_row_time_records_dropped, nulls);
            let has_time = compute::is_not_null(batch.rows.column(self.time_column))?;
            batch.filter(&has_time)?.0
        };
        let times = event_time_millis(batch.rows.column(self.time_column))?;
        Ok((batch, times))
    }

    fn assign(&self, times: &[i64]) -> Assigned {
        if self.windows.is_tumbling() {
            let ends = match self.windows.assign(times) {
                Slices::One(end) => vec![end; times.len()],
                Slices::Each(ends) => ends,
            };
            return Assigned { rows: None, ends };
        }
        let (mut rows, mut ends) = (Vec::new(), Vec::new());
        for (row, time) in times.iter().enumerate() {
            let first = ends.len();
            self.push_windows(*time, &mut ends);
            if self.latest_first {
                ends[first..].reverse();
            }
            rows.resize(ends.len(), row as u32);
        }
        Assigned {
            rows: Some(rows.into()),
            ends,
        }
    }

    /// The ends of the windows of a time, earliest first.
    fn push_windows(&self, time: i64, ends: &mut Vec<i64>) {
        let slice = self.windows.slice_end(time);
        if !self.windows.is_in_window(slice) {
            return;
        }
        let mut next = Some(self.windows.first_window_end(slice));
        while let Some(end) = next {
            ends.push(end);
            next = self.windows.next_window_end(slice, end);
        }
    }

    fn window_columns(&self, ends: Vec<i64>) -> [ArrayRef; 3] {
        let starts = ends.iter().map(|end| self.windows.window_start(*end));
        let starts = TimestampMillisecondArray::from_iter_values(starts);
        let mut last = None;
        let times = ends.iter().map(|end| match last {
            Some((known, time)) if known == *end => time,
            _ => {
                let time = self.clock.window_time(*end);
                last = Some((*end, time));
                time
            }
        });
        let times = TimestampMillisecondArray::from_iter_values(times);
        let zone = match self
            .schema
            .field(self.schema.fields().len() - 1)
            .data_type()
        {
            DataType::Timestamp(_, zone) => zone.clone(),
            _ => None,
        };
        [
            Arc::new(starts),
            Arc::new(TimestampMillisecondArray::from(ends)),
            Arc::new(times.with_timezone_opt(zone)),
        ]
    }
}

impl Operator for WindowTableFunctionOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        let (batch, times) = self.timed(ctx, batch)?;
        let local: Cow<[i64]> = self.clock.all_to_local(&times);
        let Assigned { rows, ends } = self.assign(&local);
        let batch = match rows {
            None => batch,
            Some(rows) => batch.take(&rows)?.0,
        };
        let mut columns = batch.rows.columns().to_vec();
        columns.extend(self.window_columns(ends));
        let rows = batch_of(&self.schema, columns, batch.num_rows())?;
        out.emit(batch.with_rows(rows));
        Ok(Flow::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::test_bench::check;
    use crate::types::{Field, LogicalType, TypeRoot};
    use crate::window::WindowTime;

    fn check_windows(kind: WindowKind, time: WindowTime, stream: &str, expected: &str) {
        let root = if time == WindowTime::EventTimestamp {
            TypeRoot::Timestamp(3)
        } else {
            TypeRoot::TimestampLtz(3)
        };
        let input = Schema::new(vec![
            Field::new("a", LogicalType::INT),
            Field::new("ts", LogicalType::nullable(root.clone())),
        ]);
        let bound = LogicalType::not_null(TypeRoot::Timestamp(3));
        let output = input.join(&Schema::new(vec![
            Field::new("window_start", bound.clone()),
            Field::new("window_end", bound),
            Field::new("window_time", LogicalType::not_null(root)),
        ]));
        let spec = WindowSpec {
            kind,
            offset_ms: 0,
            time,
        };
        check(
            || WindowTableFunctionOperator::new(&spec, 1, &output).unwrap(),
            &[&input],
            stream,
            expected,
        );
    }

    #[test]
    fn a_tumbling_row_has_one_window_and_late_or_null_rows_do_not_matter() {
        check_windows(
            WindowKind::Tumble { size_ms: 10 },
            WindowTime::EventTimestamp,
            "
                +I 1, 3
                -- watermark 30
                +I 2, null      // dropped
                -U 3, -1        // late, all the same
                +U 4, 10
            ",
            "
                +I 1, 3, 0, 10, 9
                -- watermark 30
                -U 3, -1, -10, 0, -1
                +U 4, 10, 10, 20, 19
            ",
        );
    }

    #[test]
    fn a_hopping_row_comes_once_for_each_window_latest_first() {
        check_windows(
            WindowKind::Hop {
                slide_ms: 5,
                size_ms: 10,
            },
            WindowTime::EventTimestamp,
            "
                +I 1, 7
                -- watermark 6
                +I 2, 12
            ",
            "
                +I 1, 7, 5, 15, 14
                +I 1, 7, 0, 10, 9
                -- watermark 6
                +I 2, 12, 10, 20, 19
                +I 2, 12, 5, 15, 14
            ",
        );
    }

    #[test]
    fn cumulating_windows_share_their_start() {
        check_windows(
            WindowKind::Cumulate {
                step_ms: 2,
                max_size_ms: 6,
            },
            WindowTime::EventTimestamp,
            "+I 1, 3",
            "
                +I 1, 3, 0, 4, 3
                +I 1, 3, 0, 6, 5
            ",
        );
    }

    #[test]
    fn windows_over_instants_are_cut_in_the_session_time_zone() {
        check_windows(
            WindowKind::Tumble {
                size_ms: 86_400_000,
            },
            WindowTime::EventInstant {
                time_zone: "+08:00".to_string(),
            },
            "+I 1, 61200000                                     // 17:00 UTC is 01:00 of the next day",
            "+I 1, 61200000, 86400000, 172800000, 143999999     // bounds are local, the time is an instant",
        );
    }
}
