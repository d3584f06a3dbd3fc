//! What an expression may depend on beside the columns: the session time zone, the clock and the watermark.

use crate::stream::WatermarkSteps;
use crate::types::{EventTime, ProcessingTime, TimeZone};

/// What is fixed for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpressionContext {
    /// `table.local-time-zone`.
    pub time_zone: TimeZone,
}

impl Default for ExpressionContext {
    /// UTC.
    fn default() -> Self {
        ExpressionContext {
            time_zone: TimeZone::UTC,
        }
    }
}

/// What is known when a batch is evaluated.
#[derive(Debug, Clone, Copy)]
pub struct RowContext<'a> {
    /// The clock, read once a batch.
    pub processing_time: ProcessingTime,
    /// The watermark before the batch; [`EventTime::MIN`] before the first.
    pub watermark: EventTime,
    /// How the watermark advances inside the batch.
    pub steps: &'a WatermarkSteps,
}

impl RowContext<'_> {
    /// No time has passed: for constants and tests.
    pub const START: RowContext<'static> = RowContext {
        processing_time: ProcessingTime(0),
        watermark: EventTime::MIN,
        steps: &WatermarkSteps::NONE,
    };
}
