//! The watermarks of joins on time: those that have come and have fired nothing yet.
//!
//! Most rows cannot tell whether a watermark before them has fired, so the watermarks inside a batch are only noted and
//! fire together behind it. A batch is cut in front of a row that can tell: one that comes behind a watermark.

use std::collections::VecDeque;

use super::InputIndex;
use crate::stream::ChangelogBatch;
use crate::types::EventTime;

/// What is to be done, in this order.
pub(super) enum TimedWork {
    /// These rows have come.
    Rows(InputIndex, ChangelogBatch),
    /// These watermarks, which rise, have come one after the other.
    Fire(Vec<EventTime>),
}

/// See the module.
pub(super) struct WatermarkQueue {
    pending: Vec<EventTime>,
    last: EventTime,
}

impl WatermarkQueue {
    pub(super) fn new() -> Self {
        WatermarkQueue {
            pending: Vec::new(),
            last: EventTime::MIN,
        }
    }

    /// Everything up to this watermark has fired.
    pub(super) fn restore(&mut self, watermark: EventTime) {
        self.last = watermark;
    }

    /// Whether every watermark that came has fired.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    fn note(&mut self, watermark: EventTime) {
        if watermark > self.last {
            self.last = watermark;
            self.pending.push(watermark);
        }
    }

    /// Plans the rows of a batch. `felt[r]` is the lowest watermark that row `r` can tell from a lower one.
    pub(super) fn rows(
        &mut self,
        before: EventTime,
        input: InputIndex,
        batch: &ChangelogBatch,
        felt: &[i64],
        work: &mut VecDeque<TimedWork>,
    ) {
        self.last = self.last.max(before);
        let rows = |from: usize, to: usize| TimedWork::Rows(input, batch.slice(from, to - from));
        let mut from = 0;
        for slice in batch.by_steps(before) {
            self.note(slice.watermark);
            let feels = |felt: &i64| *felt <= self.last.millis();
            let slice_rows = slice.offset..slice.offset + slice.length;
            if !self.pending.is_empty() && felt[slice_rows].iter().any(feels) {
                if slice.offset > from {
                    work.push_back(rows(from, slice.offset));
                }
                work.push_back(TimedWork::Fire(std::mem::take(&mut self.pending)));
                from = slice.offset;
            }
        }
        if batch.num_rows() > from {
            work.push_back(rows(from, batch.num_rows()));
        }
    }

    /// Plans a watermark, and those noted before it. One that has fired fires again, for keys that have been brought back since.
    pub(super) fn watermark(&mut self, watermark: EventTime, work: &mut VecDeque<TimedWork>) {
        self.note(watermark);
        if self.pending.is_empty() {
            self.pending.push(watermark);
        }
        work.push_back(TimedWork::Fire(std::mem::take(&mut self.pending)));
    }
}
