//! What the pairs of an event mean for the output: Flink's protocol of regular joins.
//!
//! An inner join forwards the kind of the row that came. An outer join speaks `+I` and `-D`: the padded row of the other side goes
//! before its first pair and comes back after the last. A semi join gives a left row with its first partner and takes it
//! back with the last, an anti join the other way round. A row that replaces another one changes the pairs that stay and
//! adds or takes the rest.

use super::changes::{Changes, Event};
use super::links::NONE;
use super::probe::{Candidates, Masks};
use super::side::Side;
use super::withheld::Withheld;
use crate::types::{JoinKind, ProcessingTime, RowKind};

/// Rows of the output: a row of the input beside one of the other side; `NONE` is a row of NULLs.
#[derive(Debug, Default)]
pub(super) struct Emission {
    pub(super) kinds: Vec<RowKind>,
    /// Positions in [`Changes::rows`].
    pub(super) input: Vec<u32>,
    /// Ids of the other side.
    pub(super) other: Vec<u32>,
}

impl Emission {
    #[inline]
    fn push(&mut self, kind: RowKind, input: u32, other: u32) {
        self.kinds.push(kind);
        self.input.push(input);
        self.other.push(other);
    }
}

/// What is known of the current event, whose candidates may be cut by the bound on pairs.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Progress {
    /// How many rows of the other side it has found.
    matches: u32,
}

/// The walk over the pairs of a batch.
pub(super) struct Walk<'a> {
    pub(super) kind: JoinKind,
    /// Which side the rows came from: 0 or 1.
    pub(super) input_index: usize,
    pub(super) input: &'a mut Side,
    pub(super) other: &'a mut Side,
    pub(super) now: ProcessingTime,
    /// Mini-batch: what the rows of both sides owe.
    pub(super) withheld: Option<&'a mut [Withheld; 2]>,
    /// Whether rows of the input that find no partner wait, too.
    pub(super) withholds_input: bool,
    pub(super) emission: Emission,
}

impl Walk<'_> {
    /// Walks over candidates in order.
    pub(super) fn run(
        &mut self,
        changes: &Changes,
        candidates: &Candidates,
        masks: &Masks,
        progress: &mut Progress,
    ) {
        let mut pair = 0;
        for (event, end) in (candidates.first_event..).zip(&candidates.ends) {
            self.pairs(changes, candidates, masks, pair..*end as usize, progress);
            self.end(&changes.events[event], progress.matches);
            *progress = Progress::default();
            pair = *end as usize;
        }
        let rest = pair..candidates.others.len();
        self.pairs(changes, candidates, masks, rest, progress);
    }

    fn pairs(
        &mut self,
        changes: &Changes,
        candidates: &Candidates,
        masks: &Masks,
        pairs: std::ops::Range<usize>,
        progress: &mut Progress,
    ) {
        for pair in pairs {
            let event = &changes.events[candidates.events[pair] as usize];
            let other = candidates.others[pair];
            let is_new = masks.is_new(pair);
            if event.old_row != NONE {
                self.replaced(event, other, masks.is_old(pair), is_new, progress);
            } else if is_new {
                self.matched(event, other, progress);
            }
        }
    }

    /// A pair of a row that adds or takes away.
    fn matched(&mut self, event: &Event, other: u32, progress: &mut Progress) {
        let accumulate = event.kind.is_accumulate();
        if self.kind.is_left_only() {
            match (self.input_index, accumulate) {
                (0, _) => {}
                (_, true) => self.partner_comes(event.kind, other),
                (_, false) => self.partner_goes(event.kind, other),
            }
        } else if accumulate {
            self.pair_comes(event.kind, event.row, other);
        } else {
            self.pair_goes(event.kind, event.row, other);
        }
        progress.matches += self.other.copies(other);
    }

    fn pair_comes(&mut self, kind: RowKind, row: u32, other: u32) {
        let kind = self.forwarded(kind);
        let copies = self.other.copies(other);
        let padded = match self.other_is_outer() && self.other.association(other) == 0 {
            true => copies - self.void_other(other),
            false => 0,
        };
        for copy in 0..copies {
            if copy < padded {
                self.emission.push(RowKind::Delete, NONE, other);
            }
            self.emission.push(kind, row, other);
        }
        self.associate(other, 1);
    }

    fn pair_goes(&mut self, kind: RowKind, row: u32, other: u32) {
        let kind = self.forwarded(kind);
        let associations = self.other.association(other);
        if self.other_is_outer() && associations == 0 {
            // The row was never there, or has been forgotten: the padded row stands.
            return;
        }
        let pads = self.other_is_outer()
            && associations == 1
            && !self.withhold_other(other, RowKind::Insert);
        for _ in 0..self.other.copies(other) {
            self.emission.push(kind, row, other);
            if pads {
                self.emission.push(RowKind::Insert, NONE, other);
            }
        }
        self.associate(other, -1);
    }

    /// A right row of a semi or anti join comes to a left row.
    fn partner_comes(&mut self, kind: RowKind, left: u32) {
        if self.other.association(left) == 0 {
            let kind = match self.kind {
                JoinKind::Semi => kind,
                _ => RowKind::Delete,
            };
            let copies = self.other.copies(left) - self.void_other(left);
            self.emit_left(kind, left, copies);
        }
        self.associate(left, 1);
    }

    /// A right row of a semi or anti join leaves a left row.
    fn partner_goes(&mut self, kind: RowKind, left: u32) {
        match self.other.association(left) {
            0 => return,
            1 => {
                let kind = match self.kind {
                    JoinKind::Semi => kind,
                    _ => RowKind::Insert,
                };
                if !self.withhold_other(left, kind) {
                    self.emit_left(kind, left, self.other.copies(left));
                }
            }
            _ => {}
        }
        self.associate(left, -1);
    }

    fn emit_left(&mut self, kind: RowKind, left: u32, copies: u32) {
        for _ in 0..copies {
            self.emission.push(kind, NONE, left);
        }
    }

    /// In a mini-batch bundle a row that lost its last partner owes its output; else nothing is withheld.
    fn withhold_other(&mut self, other: u32, kind: RowKind) -> bool {
        let copies = self.other.copies(other);
        let Some(withheld) = &mut self.withheld else {
            return false;
        };
        withheld[1 - self.input_index].add(other, copies, kind);
        true
    }

    /// How many copies of a row of the other side owe what its new partner makes void.
    fn void_other(&mut self, other: u32) -> u32 {
        let side = 1 - self.input_index;
        let withheld = self.withheld.as_mut();
        withheld.map_or(0, |withheld| withheld[side].void(other))
    }

    /// Whether a copy of an input's row that goes owed its output.
    fn void_one(&mut self, event: &Event) -> bool {
        let withheld = self.withheld.as_mut();
        withheld.is_some_and(|withheld| withheld[self.input_index].void_one(event.old_id))
    }

    /// A candidate of a row that replaces another one; says for either whether it matches.
    fn replaced(
        &mut self,
        event: &Event,
        other: u32,
        is_old: bool,
        is_new: bool,
        progress: &mut Progress,
    ) {
        let copies = self.other.copies(other);
        let is_left_only = self.kind.is_left_only();
        if is_left_only && self.input_index == 1 {
            match (is_old, is_new) {
                (true, false) => self.partner_goes(RowKind::Delete, other),
                (false, true) => self.partner_comes(RowKind::Insert, other),
                _ => {}
            }
        } else if !is_left_only {
            if is_new && progress.matches == 0 && self.was_padded(event) {
                self.emission.push(RowKind::Delete, event.old_row, NONE);
            }
            match (is_old, is_new) {
                (true, true) => (0..copies).for_each(|_| {
                    self.emission.push(RowKind::UpdateAfter, event.row, other);
                }),
                (true, false) => self.pair_goes(RowKind::Delete, event.old_row, other),
                (false, true) => self.pair_comes(RowKind::Insert, event.row, other),
                (false, false) => {}
            }
        }
        if is_new {
            progress.matches += copies;
        }
    }

    /// All candidates of an event have been seen.
    fn end(&mut self, event: &Event, matches: u32) {
        if self.kind.is_left_only() && self.input_index == 0 {
            self.end_of_left_row(event, matches);
        } else if self.input_is_outer() && matches == 0 {
            self.end_alone(event);
        }
        if event.old_row != NONE
            && let Some(withheld) = &mut self.withheld
        {
            withheld[self.input_index].void(event.old_id);
        }
        self.input.set_association(event.id, matches);
    }

    /// A row of an outer side that has no partner.
    fn end_alone(&mut self, event: &Event) {
        let kind = match event.kind.is_accumulate() {
            false if self.void_one(event) => return,
            false => RowKind::Delete,
            true if self.was_padded(event) => RowKind::UpdateAfter,
            true => RowKind::Insert,
        };
        match &mut self.withheld {
            Some(withheld)
                if self.withholds_input && kind == RowKind::Insert && event.id != NONE =>
            {
                withheld[self.input_index].add(event.id, 1, kind);
            }
            _ => self.emission.push(kind, event.row, NONE),
        }
    }

    /// A left row of a semi or anti join.
    fn end_of_left_row(&mut self, event: &Event, matches: u32) {
        let is_given = |matches: u32| (matches > 0) == (self.kind == JoinKind::Semi);
        let was_given = event.old_row != NONE && is_given(self.input.association(event.old_id));
        let is_given = is_given(matches);
        let owes = !event.kind.is_accumulate() && self.void_one(event);
        if is_given != owes {
            self.emission.push(event.kind, event.row, NONE);
        } else if was_given {
            self.emission.push(RowKind::Delete, event.old_row, NONE);
        }
    }

    /// Whether the row that an event replaces was without a partner in the output.
    fn was_padded(&self, event: &Event) -> bool {
        let owes =
            |withheld: &&mut [Withheld; 2]| withheld[self.input_index].count(event.old_id) > 0;
        self.input_is_outer()
            && event.old_row != NONE
            && self.input.association(event.old_id) == 0
            && !self.withheld.as_ref().is_some_and(owes)
    }

    /// The kind of a pair: an outer join only adds and takes.
    fn forwarded(&self, kind: RowKind) -> RowKind {
        match (self.kind, kind.is_accumulate()) {
            (JoinKind::Inner, _) => kind,
            (_, true) => RowKind::Insert,
            (_, false) => RowKind::Delete,
        }
    }

    fn associate(&mut self, other: u32, change: i32) {
        if self.other.associations.is_some() {
            let count = self.other.association(other);
            self.other
                .set_association(other, count.saturating_add_signed(change));
            self.other.refresh(other, self.now);
        }
    }

    fn input_is_outer(&self) -> bool {
        self.is_outer(self.input_index)
    }

    fn other_is_outer(&self) -> bool {
        self.is_outer(1 - self.input_index)
    }

    fn is_outer(&self, side: usize) -> bool {
        match side {
            0 => self.kind.keeps_left(),
            _ => self.kind.keeps_right(),
        }
    }
}
