//! The rows of a lookup join that wait, in the order in which they came, with the watermarks between them.

use std::collections::VecDeque;

use super::joiner::Question;
use crate::connectors::LookupHandle;
use crate::operators::window_buffer::OUTPUT_ROWS;
use crate::operators::{Flow, Output};
use crate::stream::{ChangelogBatch, WatermarkSteps};
use crate::types::{EventTime, ProcessingTime};

/// See the module.
pub(super) struct Queue {
    pub(super) entries: VecDeque<Entry>,
    /// Whether rows may overtake others between two watermarks; then watermarks stand between batches, not inside them.
    unordered: bool,
    /// The most rows of a group.
    group_rows: usize,
}

/// One place of the queue.
pub(super) enum Entry {
    Rows(Group),
    Watermark(EventTime),
}

/// Rows that wait for the same.
pub(super) struct Group {
    /// Rows of the input; once they are joined, of the output.
    pub(super) batch: ChangelogBatch,
    /// How often the table has answered for them.
    pub(super) attempts: u32,
    pub(super) stage: Stage,
}

/// What rows wait for.
pub(super) enum Stage {
    /// To be asked for.
    New,
    /// For an answer.
    Asked(Asked),
    /// Their keys were not found: to be asked for again.
    Delayed {
        due: ProcessingTime,
        /// When they were asked for first; `None`: before a restore, which is forgiven.
        since: Option<ProcessingTime>,
    },
    /// For their turn.
    Joined,
}

/// An open question.
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) handle: Box<dyn LookupHandle>,
    /// When its rows were asked for first.
    pub(super) since: ProcessingTime,
}

impl Queue {
    pub(super) fn new(unordered: bool, group_rows: usize) -> Self {
        Queue {
            entries: VecDeque::new(),
            unordered,
            group_rows: group_rows.clamp(1, OUTPUT_ROWS),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Appends rows that are to be asked for; `before`: the watermark that stands before them.
    pub(super) fn push(&mut self, batch: &ChangelogBatch, before: EventTime) {
        for offset in (0..batch.num_rows()).step_by(self.group_rows) {
            let rows = self.group_rows.min(batch.num_rows() - offset);
            let group = Group {
                batch: batch.slice(offset, rows),
                attempts: 0,
                stage: Stage::New,
            };
            self.push_group(group, before);
        }
    }

    /// Appends a group, whose question is not open.
    pub(super) fn push_group(&mut self, group: Group, before: EventTime) {
        if !self.unordered || group.batch.steps.is_empty() {
            return self.entries.push_back(Entry::Rows(group));
        }
        let mut passed = before;
        for slice in group.batch.by_steps(before) {
            if slice.watermark > passed {
                passed = slice.watermark;
                self.push_watermark(passed);
            }
            let mut batch = group.batch.slice(slice.offset, slice.length);
            batch.steps = WatermarkSteps::NONE;
            self.entries.push_back(Entry::Rows(Group {
                batch,
                attempts: group.attempts,
                stage: match group.stage {
                    Stage::Delayed { due, since } => Stage::Delayed { due, since },
                    Stage::Joined => Stage::Joined,
                    Stage::New | Stage::Asked(_) => Stage::New,
                },
            }));
        }
    }

    pub(super) fn push_watermark(&mut self, watermark: EventTime) {
        self.entries.push_back(Entry::Watermark(watermark));
    }

    /// Emits what is joined and has its turn, as long as there is room.
    pub(super) fn emit(&mut self, out: &mut Output) -> Flow {
        let mut place = 0;
        while let Some(entry) = self.entries.get(place) {
            let may_go = match entry {
                Entry::Watermark(_) => place == 0,
                Entry::Rows(group) => matches!(group.stage, Stage::Joined),
            };
            let overtakes = self.unordered && matches!(entry, Entry::Rows(_));
            if may_go && out.is_full() {
                return Flow::Blocked;
            }
            match (may_go, overtakes) {
                (true, _) => self.emit_at(place, out),
                (false, true) => place += 1,
                (false, false) => break,
            }
        }
        Flow::Done
    }

    fn emit_at(&mut self, place: usize, out: &mut Output) {
        match self.entries.remove(place) {
            Some(Entry::Rows(group)) => out.emit(group.batch),
            Some(Entry::Watermark(watermark)) => out.watermark(watermark),
            None => {}
        }
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Rows(group) => Some(group),
            Entry::Watermark(_) => None,
        })
    }

    /// How many rows are held.
    pub(super) fn rows(&self) -> usize {
        self.groups().map(|group| group.batch.num_rows()).sum()
    }
}
