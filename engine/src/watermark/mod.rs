//! How far event time has come: from the rows of a split to one watermark for a whole input.
//!
//! Each split of a source has a generator; a source reader combines its splits; a valve combines the channels of an
//! input. None of them ever goes back, and all of them speak in watermark steps, so that a batch need not be cut where
//! the watermark advances.
//!
//! Doors: `watermark` uses `types`, `stream` and `config`. Deliberately absent: the watermark expression itself (the
//! source operator evaluates it with `expr`), clocks, and what operators do with the time.

mod event_times;
mod idleness;
mod pruning;
mod source_watermarks;
mod strategy;
mod valve;

pub use crate::config::SCAN_WATERMARK_OPTIONS;
pub use event_times::{event_time_millis, watermark_millis};
pub use idleness::IdlenessTimer;
pub use pruning::{WatermarkAdvance, watermark_steps};
pub use source_watermarks::{SourceWatermarks, SourceWatermarksState, SplitWatermark};
pub use strategy::WatermarkStrategy;
pub use valve::{ChannelTime, ValveOutput, WatermarkValve};
