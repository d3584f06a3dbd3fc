//! The way of a batch's rows through the inputs: a step extends some combinations by the rows of one input.
//!
//! Steps go depth first and a bounded number of candidates at a time, so that the output comes in the order of the rows, however
//! large it is.

use arrow::array::{ArrayRef, BooleanArray};

use super::MultiJoinLevel;
use super::combinations::Combinations;
use crate::error::Result;
use crate::operators::Context;
use crate::operators::join::changes::{Changes, Event};
use crate::operators::join::links::NONE;
use crate::operators::join::side::Side;
use crate::operators::join::{columns_of_rows, columns_of_side};
use crate::types::RowKind;

/// About how many candidates are looked at in a step.
const CANDIDATES: usize = 8192;

/// What a step reads.
pub(super) struct Walk<'a> {
    pub(super) ctx: &'a Context,
    pub(super) levels: &'a [MultiJoinLevel],
    /// The first column of each input in the output.
    pub(super) offsets: &'a [usize],
    pub(super) sides: &'a [Side],
    /// Where the batch came from.
    pub(super) input: usize,
    pub(super) changes: &'a Changes,
}

/// Combinations, each by its place, with candidates of the next input.
#[derive(Default)]
struct Candidates {
    places: Vec<u32>,
    /// Ids, or positions in the batch.
    rows: Vec<u32>,
    /// How many candidates come before the end of each combination's, from the first combination on.
    ends: Vec<usize>,
}

impl Walk<'_> {
    /// Extends some combinations; gives them, and those that are left.
    pub(super) fn step(
        &self,
        mut from: Combinations,
    ) -> Result<(Option<Combinations>, Option<Combinations>)> {
        let (next, end) = match from.level == self.input {
            true => self.own(&from)?,
            false => self.stored(&from)?,
        };
        from.start = end;
        let rest = (end < from.len()).then_some(from);
        Ok((Some(next).filter(|next| next.len() > 0), rest))
    }

    fn event(&self, from: &Combinations, at: usize) -> &Event {
        &self.changes.events[from.events[at] as usize]
    }

    /// The level that joins an input; the first one has none.
    fn level(&self, input: usize) -> Option<&MultiJoinLevel> {
        input.checked_sub(1).map(|level| &self.levels[level])
    }

    /// Whether the inputs whose key the next one must equal have rows.
    fn may_match(&self, from: &Combinations, at: usize) -> bool {
        let level = self.level(from.level);
        level.is_none_or(|level| from.has(&level.joined_to, at))
    }

    /// Rows of the state that have the key.
    fn stored(&self, from: &Combinations) -> Result<(Combinations, usize)> {
        let side = &self.sides[from.level];
        let now = self.ctx.processing_time();
        let candidates = self.candidates(from, |_, id| side.is_alive(id, now));
        let mask = self.mask(from, &candidates, Of::State)?;
        let is_left = self.level(from.level).is_some_and(|level| level.is_left);
        let mut next = from.next();
        let mut first = 0;
        for (at, end) in (from.start..).zip(&candidates.ends) {
            let before = next.len();
            for pair in (first..*end).filter(|pair| holds(&mask, *pair)) {
                let row = candidates.rows[pair];
                for _ in 0..side.copies(row) {
                    next.extend(from, at, from.kinds[at], row);
                }
            }
            if is_left && next.len() == before {
                next.extend(from, at, from.kinds[at], NONE);
            }
            first = *end;
        }
        Ok((next, from.start + candidates.ends.len()))
    }

    /// The rows with the key of as many combinations as there is room for.
    fn candidates(&self, from: &Combinations, counts: impl Fn(&Event, u32) -> bool) -> Candidates {
        let side = &self.sides[from.level];
        let mut found = Candidates::default();
        for at in from.start..from.len() {
            if found.rows.len() >= CANDIDATES {
                break;
            }
            if self.may_match(from, at) {
                let event = self.event(from, at);
                for id in side.links.rows(event.group) {
                    if counts(event, id) {
                        found.places.push(at as u32);
                        found.rows.push(id);
                    }
                }
            }
            found.ends.push(found.rows.len());
        }
        found
    }

    /// The rows of the batch themselves, with what they do to combinations without a match.
    fn own(&self, from: &Combinations) -> Result<(Combinations, usize)> {
        let (others, end) = self.others(from)?;
        let places: Vec<u32> = (from.start as u32..end as u32).collect();
        let with = |row: &dyn Fn(&Event) -> u32| -> Result<Option<BooleanArray>> {
            let rows = places.iter();
            let rows = rows.map(|at| row(self.event(from, *at as usize)));
            let candidates = Candidates {
                rows: rows.collect(),
                places: places.clone(),
                ends: Vec::new(),
            };
            self.mask(from, &candidates, Of::Batch)
        };
        let new = with(&|event| event.row)?;
        let old = match self.changes.replaces {
            true => with(&|event| match event.old_row {
                NONE => event.row,
                old => old,
            })?,
            false => None,
        };
        let mut next = from.next();
        for at in from.start..end {
            if !self.may_match(from, at) {
                continue;
            }
            let pair = at - from.start;
            let event = self.event(from, at);
            let pads = self.level(from.level).is_some_and(|level| level.is_left) && !others[pair];
            let is_new = holds(&new, pair);
            let is_old = event.old_row != NONE && holds(&old, pair);
            let mut give = |kind, row| next.extend(from, at, kind, row);
            let (added, taken) = (Some(RowKind::Insert), Some(RowKind::Delete));
            match (event.old_row != NONE, is_old, is_new) {
                (true, true, true) => give(Some(RowKind::UpdateAfter), event.row),
                (true, true, false) => {
                    give(taken, event.old_row);
                    if pads {
                        give(added, NONE);
                    }
                }
                (true, false, true) => {
                    if pads {
                        give(taken, NONE);
                    }
                    give(added, event.row);
                }
                (false, _, true) if event.kind.is_accumulate() => {
                    if pads {
                        give(taken, NONE);
                    }
                    give(None, event.row);
                }
                (false, _, true) => {
                    give(None, event.row);
                    if pads {
                        give(added, NONE);
                    }
                }
                (_, _, false) => {}
            }
        }
        Ok((next, end))
    }

    /// For each combination whether another row of the batch's input matches it; and how many combinations were looked at.
    fn others(&self, from: &Combinations) -> Result<(Vec<bool>, usize)> {
        let level = self.level(from.level);
        let end = from.len().min(from.start + CANDIDATES);
        match level {
            Some(level) if level.is_left && level.condition.is_some() => {}
            _ => {
                let has_others = |at: usize| self.event(from, at).has_others;
                return Ok(((from.start..end).map(has_others).collect(), end));
            }
        }
        let side = &self.sides[from.level];
        let now = self.ctx.processing_time();
        let candidates = self.candidates(from, |event, id| {
            side.is_alive(id, now) && (id != event.id || side.copies(id) > 1)
        });
        let mask = self.mask(from, &candidates, Of::State)?;
        let mut first = 0;
        let any = |end: &usize| {
            let pairs = std::mem::replace(&mut first, *end)..*end;
            pairs.into_iter().any(|pair| holds(&mask, pair))
        };
        let others: Vec<bool> = candidates.ends.iter().map(any).collect();
        let end = from.start + others.len();
        Ok((others, end))
    }

    /// Which candidates satisfy the condition of their level; `None` where all do.
    fn mask(
        &self,
        from: &Combinations,
        candidates: &Candidates,
        of: Of,
    ) -> Result<Option<BooleanArray>> {
        let level = self.level(from.level);
        let Some(condition) = level.and_then(|level| level.condition.as_ref()) else {
            return Ok(None);
        };
        let [before, own] = condition.read_columns();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(before.len() + own.len());
        for input in 0..from.level {
            let range = self.offsets[input]..self.offsets[input + 1];
            let read = before.iter().filter(|column| range.contains(column));
            let read: Vec<usize> = read.map(|column| column - range.start).collect();
            if !read.is_empty() {
                let row = |at: &u32| from.rows[input][*at as usize];
                let rows = candidates.places.iter().map(row).collect();
                columns.extend(match input == self.input {
                    true => columns_of_rows(&self.changes.rows, &read, rows)?,
                    false => columns_of_side(&self.sides[input], &read, rows)?,
                });
            }
        }
        let rows = candidates.rows.clone();
        columns.extend(match of {
            Of::State => columns_of_side(&self.sides[from.level], &own, rows)?,
            Of::Batch => columns_of_rows(&self.changes.rows, &own, rows)?,
        });
        let pairs = candidates.rows.len();
        Ok(Some(condition.mask(self.ctx, columns, pairs)?))
    }
}

/// Where the rows of candidates are.
#[derive(Debug, Clone, Copy)]
enum Of {
    State,
    Batch,
}

fn holds(mask: &Option<BooleanArray>, pair: usize) -> bool {
    mask.as_ref().is_none_or(|mask| mask.value(pair))
}
