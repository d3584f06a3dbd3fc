//! Where an operator puts its results: a short queue of stream elements, and one for late rows.

use std::collections::VecDeque;

use arrow::array::{RecordBatch, TimestampMillisecondArray};

use super::Context;
use super::context::count;
use crate::stream::{ChangelogBatch, StreamElement};
use crate::types::EventTime;

/// The results of a call, in order, until the runtime takes them away.
#[derive(Debug)]
pub struct Output {
    elements: VecDeque<StreamElement>,
    late: VecDeque<LateRows>,
    bytes: usize,
    limit_bytes: usize,
    keep_late_rows: bool,
    /// Whether watermarks are kept from the queue, and the highest that was.
    hold_back: bool,
    held_back: Option<EventTime>,
}

/// Rows that came after their window had fired; the raw material of the late-rows table.
#[derive(Debug, Clone)]
pub struct LateRows {
    /// The columns still in the plan.
    pub rows: RecordBatch,
    /// The end of the last window of each row, in the window's own clock; NULL where there is no window.
    pub window_end: TimestampMillisecondArray,
    /// The watermark at which each row came.
    pub watermark: TimestampMillisecondArray,
}

impl Output {
    /// How much may wait in an output before [`Output::is_full`]: 4 MiB.
    pub const LIMIT_BYTES: usize = 4 << 20;

    /// An empty output. `keep_late_rows` says whether a late-rows table wants them; they are counted either way.
    pub fn new(keep_late_rows: bool) -> Self {
        Output {
            elements: VecDeque::new(),
            late: VecDeque::new(),
            bytes: 0,
            limit_bytes: Self::LIMIT_BYTES,
            keep_late_rows,
            hold_back: false,
            held_back: None,
        }
    }

    /// The same with another limit in bytes (tests use 0 to block after every batch).
    pub fn with_limit(mut self, limit_bytes: usize) -> Self {
        self.limit_bytes = limit_bytes;
        self
    }

    /// Sets the limit in bytes.
    pub(crate) fn set_limit(&mut self, limit_bytes: usize) {
        self.limit_bytes = limit_bytes;
    }

    /// Emits rows; an empty batch is left out.
    pub fn emit(&mut self, batch: ChangelogBatch) {
        if batch.num_rows() > 0 {
            self.bytes += batch.size_bytes();
            self.elements.push_back(StreamElement::Batch(batch));
        }
    }

    /// Emits a watermark.
    pub fn watermark(&mut self, watermark: EventTime) {
        if self.hold_back {
            self.held_back = self.held_back.max(Some(watermark));
            return;
        }
        self.elements.push_back(StreamElement::Watermark(watermark));
    }

    /// Emits any element, as it is.
    pub fn element(&mut self, element: StreamElement) {
        match element {
            StreamElement::Batch(batch) => self.emit(batch),
            StreamElement::Watermark(watermark) => self.watermark(watermark),
            other => self.elements.push_back(other),
        }
    }

    /// Keeps watermarks from going out, or no longer: while an operator fires piece by piece.
    pub(super) fn hold_back_watermarks(&mut self, hold_back: bool) {
        self.hold_back = hold_back;
    }

    /// The highest watermark that was held back since the last call.
    pub(super) fn take_held_back(&mut self) -> Option<EventTime> {
        self.held_back.take()
    }

    /// Counts late rows and keeps them where a late-rows table wants them.
    pub fn late(&mut self, ctx: &Context, late: LateRows) {
        count(&ctx.metrics().late_records_dropped, late.rows.num_rows());
        if self.keep_late_rows && late.rows.num_rows() > 0 {
            self.late.push_back(late);
        }
    }

    /// Whether late rows are kept; where not, `late` may be given rows without columns.
    pub fn keeps_late_rows(&self) -> bool {
        self.keep_late_rows
    }

    /// Whether an operator with more to emit should return [`super::Flow::Blocked`].
    pub fn is_full(&self) -> bool {
        self.bytes > self.limit_bytes
    }

    /// Takes the oldest element away.
    pub fn pop(&mut self) -> Option<StreamElement> {
        let element = self.elements.pop_front();
        if let Some(StreamElement::Batch(batch)) = &element {
            self.bytes = self.bytes.saturating_sub(batch.size_bytes());
        }
        element
    }

    /// Takes the oldest late rows away.
    pub fn pop_late(&mut self) -> Option<LateRows> {
        self.late.pop_front()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty() && self.late.is_empty()
    }
}
