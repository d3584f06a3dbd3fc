//! Windows that rows make themselves: sessions, aggregated or as whole rows.
//!
//! Sessions merge, so the watermark steps of a batch matter here: rows at both sides of a step belong together or not by
//! whether a session ended in between. A batch is cut at a step only where one did, or could have.

mod sessions;
mod table_function;
#[cfg(test)]
mod tests;
mod window_aggregate;

pub use table_function::SessionWindowTableFunctionOperator;
pub use window_aggregate::SessionWindowAggregateOperator;

use std::borrow::Cow;
use std::collections::VecDeque;

use arrow::array::{RecordBatch, TimestampMillisecondArray, UInt32Array};
use arrow::compute;

use self::sessions::{LATE, Sessions};
use super::null_times::without_null_times;
use super::window_aggregate::{millis, only_counted};
use crate::error::Result;
use crate::operators::{Context, DueTime, LateRows, Output};
use crate::stream::{ChangelogBatch, KeyHashes, WatermarkSteps};
use crate::types::EventTime;
use crate::window::WindowClock;

/// How rows come to sessions.
struct SessionInput {
    /// The time column; `None` in processing time.
    time_column: Option<usize>,
    clock: WindowClock,
    keys: Vec<usize>,
    gap_ms: i64,
}

/// What is to be done, in order.
enum Work {
    /// Bring these rows to their sessions; none of those ends among them.
    Fold(ChangelogBatch),
    /// Close the sessions that are over.
    Fire(EventTime),
    /// Pass the watermark on.
    Watermark(EventTime),
}

impl SessionInput {
    /// Drops and counts rows without a time.
    fn without_null_times(&self, ctx: &Context, batch: ChangelogBatch) -> Result<ChangelogBatch> {
        let Some(column) = self.time_column else {
            return Ok(batch);
        };
        without_null_times(ctx, batch, column)
    }

    /// By which time sessions end.
    fn due_time(&self) -> DueTime {
        match self.time_column {
            Some(_) => DueTime::Event,
            None => DueTime::Processing,
        }
    }

    fn hashes(&self, batch: &ChangelogBatch) -> Result<Vec<u64>> {
        let known = batch
            .hashes
            .as_ref()
            .and_then(|hashes| hashes.for_columns(&self.keys));
        Ok(match known {
            Some(hashes) => hashes.to_vec(),
            None => KeyHashes::of(&batch.rows, &self.keys)?.values().to_vec(),
        })
    }

    /// The wall clock of each row.
    fn times<'a>(&self, ctx: &Context, batch: &'a ChangelogBatch) -> Result<Cow<'a, [i64]>> {
        Ok(match self.time_column {
            Some(column) => {
                let times = millis(batch.rows.column(column))?;
                self.clock.all_to_local(times.values())
            }
            None => {
                let now = self.clock.to_local(ctx.processing_time().millis());
                Cow::Owned(vec![now; batch.num_rows()])
            }
        })
    }

    /// Queues the batch, cut at the steps by which a session ends, or after which a row is over by itself.
    fn queue(
        &self,
        ctx: &Context,
        sessions: &Sessions,
        batch: ChangelogBatch,
        work: &mut VecDeque<Work>,
    ) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if self.time_column.is_none() || batch.steps.is_empty() {
            work.push_back(Work::Fold(batch));
            return Ok(());
        }
        let times = self.times(ctx, &batch)?;
        let (mut offset, mut length) = (0, 0);
        let mut first_end = sessions.next_fire_time();
        for slice in batch.by_steps(ctx.watermark()) {
            let rows = &times[slice.offset..slice.offset + slice.length];
            let first = rows.iter().min().copied().unwrap_or(i64::MAX);
            let own_end = self.clock.fire_time(first.saturating_add(self.gap_ms));
            let ends = first_end.is_some_and(|end| end <= slice.watermark);
            if slice.watermark > ctx.watermark() && (ends || own_end <= slice.watermark) {
                work.push_back(Work::Fold(without_steps(&batch, offset, length)));
                work.push_back(Work::Fire(slice.watermark));
                work.push_back(Work::Watermark(slice.watermark));
                (offset, length) = (slice.offset, 0);
                // What stays open is not known here; it may end by any later step.
                first_end = Some(EventTime(slice.watermark.millis().saturating_add(1)));
            }
            length += slice.length;
            first_end = Some(first_end.map_or(own_end, |end| end.min(own_end)));
        }
        work.push_back(Work::Fold(without_steps(&batch, offset, length)));
        Ok(())
    }

    /// Counts late rows and keeps them where they are wanted. Their window is the one they would have opened.
    fn report_late(
        &self,
        ctx: &Context,
        rows: &RecordBatch,
        times: &[i64],
        slots: &[u32],
        out: &mut Output,
    ) -> Result<()> {
        let late: Vec<u32> = (0..slots.len() as u32)
            .filter(|row| slots[*row as usize] == LATE)
            .collect();
        if late.is_empty() {
            return Ok(());
        }
        let report = if out.keeps_late_rows() {
            let ends = late
                .iter()
                .map(|row| times[*row as usize].saturating_add(self.gap_ms));
            LateRows {
                window_end: TimestampMillisecondArray::from_iter_values(ends),
                watermark: TimestampMillisecondArray::from(vec![
                    ctx.watermark().millis();
                    late.len()
                ]),
                rows: compute::take_record_batch(rows, &UInt32Array::from(late))?,
            }
        } else {
            only_counted(late.len())?
        };
        out.late(ctx, report);
        Ok(())
    }
}

fn without_steps(batch: &ChangelogBatch, offset: usize, length: usize) -> ChangelogBatch {
    ChangelogBatch {
        steps: WatermarkSteps::NONE,
        ..batch.slice(offset, length)
    }
}
