//! Finds the matches of one key, row by row.
//!
//! Every row may begin a match. A match in the making knows at which variable of the pattern it is, and to which variable each of its
//! rows belongs; since rows follow each other without a gap, that is a list from its first row on. A row goes to the variable
//! at hand or to one behind it; what a greedy variable may take it takes. Of the matches that begin with the same row the first
//! to be complete counts. A complete match waits while one that began earlier is still in the making, then goes out, and those
//! matches are given up that AFTER MATCH SKIP leaves out.

use std::collections::VecDeque;

use crate::error::{Error, Result};
use crate::functions::{AfterMatch, MatchPattern};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct KeyMatcher {
    /// The number of the first row that is kept.
    pub(super) first: u64,
    /// Rows that matches may need.
    pub(super) rows: VecDeque<Row>,
    /// Matches in the making, by their first row.
    pub(super) partial: Vec<Partial>,
    /// Complete ones that wait, by their first row.
    pub(super) complete: Vec<Partial>,
}

/// A row by its time and its id in the slab.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) time: i64,
    pub(super) id: u32,
}

/// A match in the making, or a complete one.
#[derive(Debug, Clone)]
pub(super) struct Partial {
    /// The number of its first row.
    pub(super) start: u64,
    /// The step of each row.
    pub(super) steps: Vec<u16>,
    /// How many rows the last step has.
    pub(super) count: u32,
}

/// A match by its rows: the step and the id of each.
#[derive(Debug, Clone)]
pub(super) struct Match {
    pub(super) steps: Vec<u16>,
    pub(super) ids: Vec<u32>,
}

/// A row that may become the next of a match.
pub(super) struct Candidate<'a> {
    /// The step that it would belong to.
    pub(super) step: usize,
    /// The steps of the rows before it.
    pub(super) steps: &'a [u16],
    /// The ids of the rows before it.
    pub(super) ids: &'a [u32],
    /// Its own id.
    pub(super) id: u32,
}

type Holds<'h> = &'h mut dyn FnMut(&Candidate) -> Result<bool>;

impl KeyMatcher {
    /// Whether no match has begun.
    pub(super) fn is_idle(&self) -> bool {
        self.partial.is_empty() && self.complete.is_empty()
    }

    /// Takes the next row. Returns the matches that go out, and adds the ids of rows that are no longer needed to `freed`.
    pub(super) fn show(
        &mut self,
        pattern: &MatchPattern,
        time: i64,
        id: u32,
        holds: Holds,
        freed: &mut Vec<u32>,
    ) -> Result<Vec<Match>> {
        let mut matches = self.give_up_long(pattern, time)?;
        let number = self.first + self.rows.len() as u64;
        self.rows.push_back(Row { time, id });
        let begun = Partial {
            start: number,
            steps: Vec::new(),
            count: 0,
        };
        let before: Vec<Partial> = std::mem::take(&mut self.partial);
        let mut done_start = None;
        for partial in before.into_iter().chain([begun]) {
            if done_start == Some(partial.start) {
                continue;
            }
            let ids = self.ids(partial.start, number);
            for next in extend(pattern, &partial, &ids, id, holds)? {
                if is_complete(pattern, &next) {
                    done_start = Some(next.start);
                    self.partial.retain(|other| other.start != next.start);
                    self.complete.push(next);
                    break;
                }
                self.partial.push(next);
            }
        }
        matches.extend(self.go_out(pattern)?);
        self.free(freed);
        Ok(matches)
    }

    /// Gives up what would be too long at this time; returns the matches that go out by that.
    pub(super) fn prune(
        &mut self,
        pattern: &MatchPattern,
        time: i64,
        freed: &mut Vec<u32>,
    ) -> Result<Vec<Match>> {
        let matches = self.give_up_long(pattern, time)?;
        self.free(freed);
        Ok(matches)
    }

    fn give_up_long(&mut self, pattern: &MatchPattern, time: i64) -> Result<Vec<Match>> {
        let Some(within) = pattern.within_ms else {
            return Ok(Vec::new());
        };
        let (first, rows) = (self.first, &self.rows);
        self.partial.retain(|partial| {
            let start = rows[(partial.start - first) as usize].time;
            time.saturating_sub(start) < within
        });
        self.go_out(pattern)
    }

    fn ids(&self, from: u64, to: u64) -> Vec<u32> {
        let range = (from - self.first) as usize..(to - self.first) as usize;
        self.rows.range(range).map(|row| row.id).collect()
    }

    /// Complete matches go out unless an earlier one is still in the making.
    fn go_out(&mut self, pattern: &MatchPattern) -> Result<Vec<Match>> {
        let mut matches = Vec::new();
        loop {
            let earliest = self.complete.iter().map(|done| done.start).min();
            let pending = self.partial.iter().map(|partial| partial.start).min();
            let Some(start) = earliest.filter(|start| pending.is_none_or(|other| *start <= other))
            else {
                return Ok(matches);
            };
            let at = self.complete.iter().position(|done| done.start == start);
            let done = self
                .complete
                .remove(at.expect("the earliest is one of them"));
            let resume = resume_at(pattern, &done)?;
            self.partial.retain(|other| other.start >= resume);
            self.complete.retain(|other| other.start >= resume);
            let end = done.start + done.steps.len() as u64;
            matches.push(Match {
                ids: self.ids(done.start, end),
                steps: done.steps,
            });
        }
    }

    /// Drops the rows that no match needs.
    fn free(&mut self, freed: &mut Vec<u32>) {
        let all = self.partial.iter().chain(&self.complete);
        let needed = all.map(|partial| partial.start).min();
        let end = self.first + self.rows.len() as u64;
        while self.first < needed.unwrap_or(end) {
            freed.extend(self.rows.pop_front().map(|row| row.id));
            self.first += 1;
        }
    }
}

/// Where the next match may begin at the earliest.
fn resume_at(pattern: &MatchPattern, done: &Partial) -> Result<u64> {
    let row_of = |step: usize, last: bool| {
        let belongs = |of: &u16| *of as usize == step;
        let at = if last {
            done.steps.iter().rposition(belongs)
        } else {
            done.steps.iter().position(belongs)
        };
        let variable = &pattern.steps[step].variable;
        match at {
            Some(0) if !last || done.steps.len() == 1 => Err(Error::data(format!(
                "AFTER MATCH SKIP TO {variable} goes back to the first row of the match, which would be found again"
            ))),
            Some(at) => Ok(done.start + at as u64),
            None => Err(Error::data(format!(
                "AFTER MATCH SKIP TO {variable}: no row of the match belongs to {variable}"
            ))),
        }
    };
    match pattern.after_match {
        AfterMatch::ToNextRow => Ok(done.start + 1),
        AfterMatch::PastLastRow => Ok(done.start + done.steps.len() as u64),
        AfterMatch::ToFirst(step) => row_of(step, false),
        AfterMatch::ToLast(step) => row_of(step, true),
    }
}

/// What becomes of a match in the making with the next row: a match for each variable that may take it, the preferred first.
fn extend(
    pattern: &MatchPattern,
    partial: &Partial,
    ids: &[u32],
    id: u32,
    holds: Holds,
) -> Result<Vec<Partial>> {
    let mut next = Vec::new();
    let mut step = partial.steps.last().map_or(0, |step| *step as usize);
    let mut count = partial.count;
    let mut stays = Vec::new();
    while let Some(here) = pattern.steps.get(step) {
        let may_take = here.most.is_none_or(|most| count < most);
        let candidate = Candidate {
            step,
            steps: &partial.steps,
            ids,
            id,
        };
        // As in Flink, a row that a greedy variable would take goes to nothing behind it, even where that has its most rows.
        let holds = (may_take || here.greedy) && holds(&candidate)?;
        if holds && may_take {
            let mut steps = partial.steps.clone();
            steps.push(step as u16);
            let taken = Partial {
                start: partial.start,
                steps,
                count: count + 1,
            };
            // A reluctant variable lets those behind it try first.
            if here.greedy || count < here.least {
                next.push(taken);
            } else {
                stays.push(taken);
            }
        }
        if count < here.least || (holds && here.greedy) {
            break;
        }
        step += 1;
        count = 0;
    }
    stays.reverse();
    next.extend(stays);
    Ok(next)
}

/// Whether nothing more is needed.
fn is_complete(pattern: &MatchPattern, partial: &Partial) -> bool {
    let Some(last) = partial.steps.last() else {
        return false;
    };
    let step = *last as usize;
    partial.count >= pattern.steps[step].least
        && pattern.steps[step + 1..].iter().all(|step| step.least == 0)
}
