//! Mini-batch: a bundle of both inputs is folded, and applied in an order in which no row comes and goes.
//!
//! First what goes from either side, then what comes: so no pair is given that another row of the bundle takes back. Rows
//! without partners are settled when the other side is through. The side whose rows are preserved is the second one, which
//! meets the final state of the other: right before left, but for RIGHT.

use std::collections::VecDeque;

use super::fold::{Folded, fold};
use super::side::JoinSide;
use super::withheld::Withheld;
use crate::error::Result;
use crate::operators::Bundle;
use crate::stream::{ChangelogBatch, WatermarkSteps, concat_batches};
use crate::types::{EventTime, JoinKind};

/// The bundle that is open, and what those before it still have to do.
pub(super) struct MiniBatch {
    bundle: Bundle,
    parts: [Vec<ChangelogBatch>; 2],
    /// The side that is applied first.
    first: usize,
    /// Whether what comes of the first side meets the other before that is final, and may need to wait.
    keeps_first: bool,
    null_safe: Vec<bool>,
    pub(super) steps: VecDeque<Step>,
    pub(super) withheld: [Withheld; 2],
}

/// A step on the way of a bundle.
pub(super) enum Step {
    /// Applies rows of an input. `withholds`: those without a partner wait.
    Rows {
        input: usize,
        rows: ChangelogBatch,
        withholds: bool,
    },
    /// Gives what the rows of a side owe.
    Settle(usize),
    /// Passes a watermark on.
    Watermark(EventTime),
}

impl MiniBatch {
    pub(super) fn new(kind: JoinKind, rows: usize, null_safe: Vec<bool>) -> Self {
        let first = match kind {
            JoinKind::Right | JoinKind::Full => 0,
            _ => 1,
        };
        MiniBatch {
            bundle: Bundle::new(rows),
            parts: Default::default(),
            first,
            keeps_first: kind == JoinKind::Full,
            null_safe,
            steps: VecDeque::new(),
            withheld: Default::default(),
        }
    }

    /// Takes rows of an input, before which the watermark was `before`. The bundles that end with them, or where the watermark
    /// advances, become steps. Says how far it has come.
    pub(super) fn add(
        &mut self,
        sides: [&JoinSide; 2],
        input: usize,
        batch: ChangelogBatch,
        before: EventTime,
    ) -> Result<EventTime> {
        let mut watermark = before;
        for slice in batch.by_steps(before) {
            if slice.watermark > watermark {
                watermark = slice.watermark;
                self.end(sides)?;
                self.steps.push_back(Step::Watermark(watermark));
            }
            for part in self.bundle.parts(slice.length) {
                let mut rows = batch.slice(slice.offset + part.offset, part.length);
                rows.steps = WatermarkSteps::NONE;
                self.parts[input].push(rows);
                if part.ends {
                    self.end(sides)?;
                }
            }
        }
        Ok(watermark)
    }

    /// Ends the bundle.
    pub(super) fn end(&mut self, sides: [&JoinSide; 2]) -> Result<()> {
        self.bundle.close();
        if self.parts.iter().all(Vec::is_empty) {
            return Ok(());
        }
        let (first, second) = (self.first, 1 - self.first);
        let of_first = self.folded(first, sides[first])?;
        let of_second = self.folded(second, sides[second])?;
        let rows = |input: usize, rows: Option<ChangelogBatch>, withholds: bool| {
            rows.map(|rows| Step::Rows {
                input,
                rows,
                withholds,
            })
        };
        let steps = [
            rows(first, of_first.retractions, false),
            rows(second, of_second.retractions, false),
            rows(first, of_first.accumulations, self.keeps_first),
            Some(Step::Settle(second)),
            rows(second, of_second.accumulations, false),
            Some(Step::Settle(first)),
        ];
        self.steps.extend(steps.into_iter().flatten());
        Ok(())
    }

    /// The net change of an input in the bundle.
    fn folded(&mut self, input: usize, side: &JoinSide) -> Result<Folded> {
        let parts = std::mem::take(&mut self.parts[input]);
        let Some(part) = parts.first() else {
            return Ok(Folded::default());
        };
        let rows = concat_batches(&part.rows.schema(), &parts)?;
        fold(side, &self.null_safe, rows)
    }
}
