//! Rows of the inputs beside each other, as index vectors: complete up to some input, from left to right.

use std::ops::Range;

use crate::operators::join::changes::Event;
use crate::operators::join::links::NONE;
use crate::types::RowKind;

/// See the module.
#[derive(Debug)]
pub(super) struct Combinations {
    /// How many inputs have a row; the number of the next one.
    pub(super) level: usize,
    /// The first one that has not been extended.
    pub(super) start: usize,
    /// Which row of the batch each is about.
    pub(super) events: Vec<u32>,
    /// What it is to the output; `None`: what the row of the batch is.
    pub(super) kinds: Vec<Option<RowKind>>,
    /// For each input with a row its id, or the position in the batch; `NONE` for a row of NULLs.
    pub(super) rows: Vec<Vec<u32>>,
}

impl Combinations {
    /// One of each event, without any row yet.
    pub(super) fn of_events(events: Range<usize>, inputs: usize) -> Self {
        Combinations {
            level: 0,
            start: 0,
            kinds: vec![None; events.len()],
            events: events.map(|event| event as u32).collect(),
            rows: vec![Vec::new(); inputs],
        }
    }

    /// None, with a row more than `self`.
    pub(super) fn next(&self) -> Self {
        Combinations {
            level: self.level + 1,
            start: 0,
            events: Vec::new(),
            kinds: Vec::new(),
            rows: vec![Vec::new(); self.rows.len()],
        }
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// Adds one of `from` with a row of the next input.
    pub(super) fn extend(
        &mut self,
        from: &Combinations,
        at: usize,
        kind: Option<RowKind>,
        row: u32,
    ) {
        self.events.push(from.events[at]);
        self.kinds.push(kind);
        for (own, known) in self.rows.iter_mut().zip(&from.rows).take(from.level) {
            own.push(known[at]);
        }
        self.rows[from.level].push(row);
    }

    /// Whether all of these inputs have a row that is not of NULLs.
    pub(super) fn has(&self, inputs: &[usize], at: usize) -> bool {
        inputs.iter().all(|input| self.rows[*input][at] != NONE)
    }

    /// The kinds of the output; a join that keeps rows without a partner only adds and takes.
    pub(super) fn output_kinds(&self, events: &[Event], forwards: bool) -> Vec<RowKind> {
        let kinds = self.events.iter().zip(&self.kinds);
        let kind = |(event, kind): (&u32, &Option<RowKind>)| {
            let own = events[*event as usize].kind;
            kind.unwrap_or(match own.is_accumulate() {
                _ if forwards => own,
                true => RowKind::Insert,
                false => RowKind::Delete,
            })
        };
        kinds.map(kind).collect()
    }
}
