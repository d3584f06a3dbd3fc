//! Marks where bundles of mini-batch end: it thins watermarks to one an interval, and a watermark ends the bundles behind it.
//!
//! In processing time the marks come from the clock, and the watermarks of the source are swallowed but for the last one, the
//! end: nothing behind reads event time. In event time a watermark is cut down to the last millisecond of the latest
//! interval that it completes. That depends on the watermark alone, so which watermark steps of a batch were left out because
//! they do not matter still does not matter.

use crate::error::Result;
use crate::operators::{Context, Flow, InputIndex, Operator, Output};
use crate::stream::{ChangelogBatch, WatermarkStep, WatermarkSteps};
use crate::types::{EventTime, ProcessingTime};

/// See the file.
#[derive(Debug)]
pub struct MiniBatchAssignerOperator {
    interval_ms: i64,
    event_time: bool,
    /// The last mark that went out.
    mark: Option<i64>,
}

impl MiniBatchAssignerOperator {
    /// Intervals of so many milliseconds, at least one, of event time or else of processing time.
    pub fn new(interval_ms: u64, event_time: bool) -> Self {
        MiniBatchAssignerOperator {
            interval_ms: i64::try_from(interval_ms).unwrap_or(i64::MAX).max(1),
            event_time,
            mark: None,
        }
    }

    /// The last millisecond of the latest interval that ends at or before `watermark`.
    fn cut(&self, watermark: EventTime) -> EventTime {
        let next = watermark.millis().saturating_add(1);
        let start = next.saturating_sub(next.rem_euclid(self.interval_ms));
        EventTime(start.saturating_sub(1))
    }

    /// Marks the interval that the clock is in, once.
    fn mark_now(&mut self, now: ProcessingTime, out: &mut Output) {
        let start = now.millis() - now.millis().rem_euclid(self.interval_ms);
        if self.mark.is_none_or(|mark| mark < start) {
            self.mark = Some(start);
            out.watermark(EventTime(start));
        }
    }

    fn cut_steps(&self, steps: &WatermarkSteps, before: EventTime) -> WatermarkSteps {
        let mut last = self.cut(before);
        let mut kept = WatermarkSteps::NONE;
        for step in steps.iter() {
            let watermark = self.cut(step.watermark);
            if watermark > last {
                last = watermark;
                kept.push(WatermarkStep { watermark, ..step });
            }
        }
        kept
    }
}

impl Operator for MiniBatchAssignerOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        let steps = if self.event_time {
            self.cut_steps(&batch.steps, ctx.watermark())
        } else {
            self.mark_now(ctx.processing_time(), out);
            WatermarkSteps::NONE
        };
        out.emit(ChangelogBatch { steps, ..batch });
        Ok(Flow::Done)
    }

    fn process_watermark(
        &mut self,
        _: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        if watermark == EventTime::MAX {
            out.watermark(watermark);
        } else if self.event_time {
            let cut = self.cut(watermark);
            if self.mark.is_none_or(|mark| mark < cut.millis()) {
                self.mark = Some(cut.millis());
                out.watermark(cut);
            }
        }
        Ok(Flow::Done)
    }

    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        if self.event_time {
            return None;
        }
        let first = ProcessingTime(i64::MIN);
        Some(self.mark.map_or(first, |mark| {
            ProcessingTime(mark.saturating_add(self.interval_ms))
        }))
    }

    fn on_processing_time(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        if !self.event_time {
            self.mark_now(ctx.processing_time(), out);
        }
        Ok(Flow::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::test_bench::{Way, run};
    use crate::types::{Field, LogicalType, Schema};

    fn lines(event_time: bool, stream: &str, way: Way) -> Vec<String> {
        let schema = Schema::new(vec![Field::new("a", LogicalType::INT)]);
        let operator = || MiniBatchAssignerOperator::new(5_000, event_time);
        run(&operator, &[&schema], stream, way)
    }

    #[test]
    fn event_time_is_told_at_the_ends_of_intervals() {
        let stream = "
            +I 1
            -- watermark 3000
            +I 2
            -- watermark 5200
            +I 3
            -- watermark 9998
            +I 4
            -- watermark 9999
            -- end
        ";
        let expected = [
            "+I 1",
            "-- watermark -1",
            "+I 2",
            "-- watermark 4999",
            "+I 3",
            "+I 4",
            "-- watermark end",
        ];
        for way in [Way::SizeOne, Way::Whole] {
            assert_eq!(lines(true, stream, way), expected, "{way:?}");
        }
    }

    #[test]
    fn processing_time_is_told_by_the_clock_and_watermarks_are_swallowed() {
        let stream = "
            -- clock 12000
            +I 1
            -- watermark 3000
            -- clock 14999
            +I 2
            -- clock 15000
            -- end
        ";
        assert_eq!(
            lines(false, stream, Way::SizeOne),
            ["-- watermark 10000", "+I 1", "+I 2", "-- watermark end"]
        );
    }
}
