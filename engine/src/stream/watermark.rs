//! Watermark steps: how far event time had come before each row of a batch.
//!
//! A batch is not cut where the watermark advances; it carries the advances as *steps* `(row, W)`: `W` had been emitted
//! before that row was read. What came after the last row follows the batch as a watermark element.

use crate::types::EventTime;

/// `watermark` had been emitted before row `row` of the batch was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatermarkStep {
    /// Index of the first row that comes after the watermark.
    pub row: usize,
    /// The watermark.
    pub watermark: EventTime,
}

/// The steps of one batch: rows and watermarks strictly increasing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatermarkSteps(Vec<WatermarkStep>);

impl WatermarkSteps {
    /// No step: the watermark before every row is the one before the batch.
    pub const NONE: WatermarkSteps = WatermarkSteps(Vec::new());

    /// The given steps. Of several at one row the last stays; a step that does not advance is left out.
    pub fn new(steps: impl IntoIterator<Item = WatermarkStep>) -> Self {
        let mut result = WatermarkSteps(Vec::new());
        steps.into_iter().for_each(|step| result.push(step));
        result
    }

    /// Adds a step behind the others; see [`WatermarkSteps::new`] for what is left out.
    pub fn push(&mut self, step: WatermarkStep) {
        if let Some(last) = self.0.last_mut() {
            assert!(
                step.row >= last.row,
                "watermark steps must come in row order: {} after {}",
                step.row,
                last.row
            );
            if step.watermark <= last.watermark {
                return;
            }
            if step.row == last.row {
                last.watermark = step.watermark;
                return;
            }
        }
        self.0.push(step);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The steps in row order.
    pub fn iter(&self) -> impl Iterator<Item = WatermarkStep> + '_ {
        self.0.iter().copied()
    }

    /// The last watermark, if there is a step.
    pub fn last(&self) -> Option<EventTime> {
        self.0.last().map(|step| step.watermark)
    }

    /// The steps of rows `offset .. offset + length`. A step before `offset` moves to row 0 of the slice (callers that have
    /// handled it already see that it does not advance); one at or behind the end is left out.
    pub fn slice(&self, offset: usize, length: usize) -> Self {
        Self::new(
            self.0
                .iter()
                .filter(|step| step.row < offset + length)
                .map(|step| WatermarkStep {
                    row: step.row.saturating_sub(offset),
                    ..*step
                }),
        )
    }

    /// The steps after rows were taken out, duplicated or dealt elsewhere: `new_row(r)` is the number of kept rows before
    /// old row `r`, `kept` the number of rows kept. Steps behind the last kept row are returned beside: they happened, but
    /// no row of the batch follows them.
    pub fn reindex(
        &self,
        mut new_row: impl FnMut(usize) -> usize,
        kept: usize,
    ) -> (Self, Option<EventTime>) {
        let mut steps = WatermarkSteps::NONE;
        let mut behind = None;
        for step in self.iter() {
            let row = new_row(step.row);
            if row < kept {
                steps.push(WatermarkStep { row, ..step });
            } else {
                behind = Some(step.watermark);
            }
        }
        (steps, behind)
    }

    /// The watermark before each of `rows` rows, given the one before the batch.
    pub fn expand(&self, before: EventTime, rows: usize) -> Vec<EventTime> {
        let mut result = Vec::with_capacity(rows);
        let mut current = before;
        for step in self.iter() {
            result.resize(step.row.min(rows), current);
            current = current.max(step.watermark);
        }
        result.resize(rows, current);
        result
    }
}
