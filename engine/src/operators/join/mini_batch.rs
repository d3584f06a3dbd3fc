//! Mini-batch: a bundle of both inputs is folded, and applied in an order in which no row comes and goes.
//!
//! First what goes from either side, then what comes: so no pair is given that another row of the bundle takes back. Rows
//! without partners are settled when the other side is through. The side whose rows are preserved is the second one, which
//! meets the final state of the other: right before left, but for RIGHT.

use std::collections::VecDeque;

use super::fold::fold;
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
        let (first, second) = (self.first, 1 - self.first);
        let mut gone = Vec::new();
        let mut come = Vec::new();
        for input in [first, second] {
            let parts = std::mem::take(&mut self.parts[input]);
            let Some(part) = parts.first() else {
                continue;
            };
            let rows = concat_batches(&part.rows.schema(), &parts)?;
            let folded = fold(sides[input], &self.null_safe, rows)?;
            let step = |rows: ChangelogBatch, withholds: bool| Step::Rows {
                input,
                rows,
                withholds,
            };
            gone.extend(folded.retractions.map(|rows| step(rows, false)));
            let withholds = self.keeps_first && input == first;
            let rows = folded.accumulations.map(|rows| step(rows, withholds));
            come.push((input, rows));
        }
        let is_empty = come.is_empty();
        self.steps.extend(gone);
        let mut come_of = |input: usize| {
            let at = come.iter_mut().find(|(of, _)| *of == input);
            at.and_then(|(_, step)| step.take())
        };
        let steps = [come_of(first), come_of(second)];
        if !is_empty {
            for (step, settled) in steps.into_iter().zip([second, first]) {
                self.steps.extend(step);
                self.steps.push_back(Step::Settle(settled));
            }
        }
        Ok(())
    }
}
