//! Candidate pairs: the rows of a batch with those of the other side that have their key, a bounded number at a time.

use arrow::array::{ArrayRef, BooleanArray, UInt32Array};
use arrow::compute;

use super::changes::Changes;
use super::links::NONE;
use super::side::Side;
use crate::error::Result;
use crate::operators::{Context, JoinCondition};
use crate::types::ProcessingTime;

/// About how many pairs are looked at, and emitted, at a time.
const PAIRS: usize = 8192;

/// Where the walk over the events of a batch and their candidates is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    event: usize,
    /// The next candidate; `NONE`: the first one.
    next: u32,
}

impl Cursor {
    pub(super) const START: Cursor = Cursor {
        event: 0,
        next: NONE,
    };

    /// Whether all candidates of `changes` have been looked at.
    pub(super) fn is_done(&self, changes: &Changes) -> bool {
        self.event == changes.events.len()
    }
}

/// Pairs of an event and a row of the other side, in the order of events.
pub(super) struct Candidates {
    /// The first event that has pairs here, or ends here.
    pub(super) first_event: usize,
    pub(super) events: Vec<u32>,
    pub(super) others: Vec<u32>,
    /// For each event that ends here, in order, how many pairs come before its end.
    pub(super) ends: Vec<u32>,
}

/// Which candidates satisfy the condition: with the rows that come, and with those that they replace.
pub(super) struct Masks {
    new: Option<BooleanArray>,
    old: Option<BooleanArray>,
}

impl Masks {
    /// Without a condition every pair matches.
    pub(super) const ALL: Masks = Masks {
        new: None,
        old: None,
    };

    #[inline]
    pub(super) fn is_new(&self, pair: usize) -> bool {
        self.new.as_ref().is_none_or(|mask| mask.value(pair))
    }

    #[inline]
    pub(super) fn is_old(&self, pair: usize) -> bool {
        self.old.as_ref().is_none_or(|mask| mask.value(pair))
    }
}

impl Candidates {
    /// The next candidates.
    pub(super) fn next(
        cursor: &mut Cursor,
        changes: &Changes,
        other: &Side,
        now: ProcessingTime,
    ) -> Candidates {
        let mut found = Candidates {
            first_event: cursor.event,
            events: Vec::new(),
            others: Vec::new(),
            ends: Vec::new(),
        };
        let mut rows = 0;
        while cursor.event < changes.events.len() && rows < PAIRS {
            let mut id = match cursor.next {
                NONE => other.links.first(changes.events[cursor.event].group),
                next => next,
            };
            while id != NONE && rows < PAIRS {
                let next = other.links.next(id);
                if other.is_alive(id, now) {
                    found.events.push(cursor.event as u32);
                    found.others.push(id);
                    rows += other.copies(id) as usize;
                }
                id = next;
            }
            cursor.next = id;
            if id == NONE {
                cursor.event += 1;
                found.ends.push(found.others.len() as u32);
            }
        }
        found
    }

    /// Evaluates the condition once over all pairs, twice where rows are replaced.
    pub(super) fn masks(
        &self,
        ctx: &Context,
        condition: &JoinCondition,
        input: usize,
        changes: &Changes,
        other: &Side,
    ) -> Result<Masks> {
        let read = condition.read_columns();
        let others = other.slab.gather_columns(&read[1 - input], &self.others)?;
        let mask = |row: &dyn Fn(u32) -> u32| -> Result<BooleanArray> {
            let rows = self.events.iter().map(|event| row(*event));
            let rows = UInt32Array::from_iter_values(rows);
            let of_input =
                |column: &usize| compute::take(changes.rows.column(*column), &rows, None);
            let own: Vec<ArrayRef> = read[input].iter().map(of_input).collect::<Result<_, _>>()?;
            let columns = match input {
                0 => [own, others.clone()].concat(),
                _ => [others.clone(), own].concat(),
            };
            condition.mask(ctx, columns, rows.len())
        };
        let new = |event: u32| changes.events[event as usize].row;
        let old = |event: u32| match changes.events[event as usize].old_row {
            NONE => new(event),
            old => old,
        };
        Ok(Masks {
            new: Some(mask(&new)?),
            old: changes.replaces.then(|| mask(&old)).transpose()?,
        })
    }
}
