//! The groups that a bundle touches, with the results that they had before it; the flush of a bundle visits these alone.

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute;

use super::GroupAggregateOperator;
use super::changes::{ChangeRows, Changes, equal_rows};
use super::group_states::{Assigned, NONE};
use crate::error::Result;
use crate::operators::Output;
use crate::operators::window_aggregate::OUTPUT_ROWS;
use crate::stream::ChangelogBatch;
use crate::types::{ProcessingTime, RowKind};

/// See the file.
#[derive(Default)]
pub(super) struct Touched {
    /// In order of the first touch.
    groups: Vec<u32>,
    /// The row among the results before the bundle; [`NONE`]: the group was not there.
    before: Vec<u32>,
    /// Those results, in chunks.
    chunks: Vec<Vec<ArrayRef>>,
    rows: u32,
}

impl Touched {
    /// Looks where the groups from `first` on stand; gives the slots whose results are to be kept.
    fn look_up(&mut self, first: usize, slot: impl Fn(u32) -> u32) -> Vec<u32> {
        let mut slots = Vec::new();
        for group in &self.groups[first..] {
            match slot(*group) {
                NONE => self.before.push(NONE),
                slot => {
                    self.before.push(self.rows);
                    self.rows += 1;
                    slots.push(slot);
                }
            }
        }
        slots
    }

    fn keep(&mut self, results: Vec<ArrayRef>) {
        if results.first().is_some_and(|column| !column.is_empty()) {
            self.chunks.push(results);
        }
    }

    fn results_before(&self, columns: usize) -> Result<Option<Vec<ArrayRef>>> {
        if self.chunks.is_empty() {
            return Ok(None);
        }
        let column = |index: usize| {
            let parts: Vec<&dyn Array> = self
                .chunks
                .iter()
                .map(|chunk| chunk[index].as_ref())
                .collect();
            Ok(compute::concat(&parts)?)
        };
        (0..columns).map(column).collect::<Result<_>>().map(Some)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(super) fn size_bytes(&self) -> usize {
        let results = self.chunks.iter().flatten();
        let results: usize = results.map(|column| column.get_array_memory_size()).sum();
        results + (self.groups.capacity() + self.before.capacity()) * 4
    }

    fn clear(&mut self) {
        self.groups.clear();
        self.before.clear();
        self.chunks.clear();
        self.rows = 0;
    }
}

impl GroupAggregateOperator {
    /// Folds rows into the open bundle.
    pub(super) fn fold_bundle(
        &mut self,
        now: ProcessingTime,
        batch: &ChangelogBatch,
    ) -> Result<()> {
        let rows = self.input_rows(batch)?;
        let known = self.states.len();
        let mut groups = Vec::new();
        self.states.resolve(&rows.keys, &rows.hashes, &mut groups)?;
        self.touch(&groups, known, now)?;
        if self.merges_partials {
            let counts = self.states.spec.row_counts(&rows.columns);
            let weight = |row: usize| counts.map_or(1, |counts| counts[row]);
            let assigned = self.states.assign(&groups, known, weight, now)?;
            let (slots, columns, _) = kept(assigned, &rows.columns, None)?;
            let states = &mut self.states;
            states.aggregates.merge(&states.spec, &slots, &columns)?;
        } else {
            let weights = rows.weights.as_deref();
            let weight = |row: usize| weights.map_or(1, |weights| weights[row] as i64);
            let assigned = self.states.assign(&groups, known, weight, now)?;
            let (slots, columns, weights) = kept(assigned, &rows.columns, weights)?;
            let states = &mut self.states;
            states
                .aggregates
                .accumulate(&states.spec, &slots, &columns, weights.as_deref())?;
        }
        self.states.release();
        Ok(())
    }

    fn touch(&mut self, groups: &[u32], known: usize, now: ProcessingTime) -> Result<()> {
        let Some((_, touched)) = &mut self.bundle else {
            return Ok(());
        };
        let first = touched.groups.len();
        // The others have changed in this bundle already.
        self.states.touch(groups, &mut touched.groups);
        let states = &self.states;
        let slots = touched.look_up(first, |group| states.slot(group, known, now));
        touched.keep(states.evaluate(&slots)?);
        self.states.copy_before_change(&touched.groups[first..])
    }

    /// Emits one change for each group that the bundle has changed.
    pub(super) fn flush(&mut self, out: &mut Output) -> Result<()> {
        let Some((bundle, touched)) = &mut self.bundle else {
            return Ok(());
        };
        bundle.close();
        if touched.is_empty() {
            return Ok(());
        }
        let mut touched = std::mem::take(touched);
        self.emit_touched(&touched, out)?;
        self.states.untouch(&touched.groups);
        touched.clear();
        self.states.pack()?;
        if let Some((_, kept)) = &mut self.bundle {
            *kept = touched;
        }
        Ok(())
    }

    fn emit_touched(&self, touched: &Touched, out: &mut Output) -> Result<()> {
        let columns = self.writer.results();
        let before = touched.results_before(columns)?;
        for first in (0..touched.groups.len()).step_by(OUTPUT_ROWS) {
            let last = (first + OUTPUT_ROWS).min(touched.groups.len());
            let groups = &touched.groups[first..last];
            let stood = &touched.before[first..last];
            self.emit_groups(groups, stood, before.as_deref(), out)?;
        }
        Ok(())
    }

    /// Emits groups; `stood` are the rows of `before` that hold what each had before the bundle.
    fn emit_groups(
        &self,
        groups: &[u32],
        stood: &[u32],
        before: Option<&[ArrayRef]>,
        out: &mut Output,
    ) -> Result<()> {
        let mut live = Vec::new();
        let mut stands = Vec::with_capacity(groups.len());
        for group in groups {
            let slot = self.states.current_slot(*group);
            stands.push(if slot == NONE {
                NONE
            } else {
                live.push(slot);
                live.len() as u32 - 1
            });
        }
        let results = after_and_before(self.states.evaluate(&live)?, stood, before)?;
        let mut next_before = live.len() as u32;
        let stood: Vec<u32> = stood
            .iter()
            .map(|row| {
                if *row == NONE {
                    return NONE;
                }
                next_before += 1;
                next_before - 1
            })
            .collect();
        let changes = self.group_changes(&stood, &stands, &results)?;
        if changes.len() == 0 {
            return Ok(());
        }
        let rows = ChangeRows {
            keys: &self.states.keys(groups)?,
            hashes: &self.states.hashes(groups),
            results: &results,
        };
        out.emit(self.writer.write(changes, &rows)?);
        Ok(())
    }

    fn group_changes(
        &self,
        stood: &[u32],
        stands: &[u32],
        results: &[ArrayRef],
    ) -> Result<Changes> {
        let mut changes = Changes::with_capacity(2 * stood.len());
        let equal = if self.writer.has_results() && !self.writer.tells_equal {
            let pairs = stood.iter().zip(stands);
            let pairs: Vec<Option<(u32, u32)>> = pairs
                .map(|(before, after)| {
                    (*before != NONE && *after != NONE).then_some((*before, *after))
                })
                .collect();
            equal_rows(results, &pairs)?
        } else {
            vec![!self.writer.has_results(); stood.len()]
        };
        for (group, (before, after)) in stood.iter().zip(stands).enumerate() {
            let group_row = group as u32;
            match (*before, *after) {
                (NONE, NONE) => {}
                (NONE, after) => changes.push(RowKind::Insert, group_row, after),
                (before, NONE) => changes.push(RowKind::Delete, group_row, before),
                _ if equal[group] => {}
                (before, after) => self.writer.update(&mut changes, group_row, before, after),
            }
        }
        Ok(changes)
    }
}

/// The results of groups now, then those they had before the bundle.
fn after_and_before(
    after: Vec<ArrayRef>,
    stood: &[u32],
    before: Option<&[ArrayRef]>,
) -> Result<Vec<ArrayRef>> {
    let rows: Vec<u32> = stood.iter().copied().filter(|row| *row != NONE).collect();
    let Some(before) = before.filter(|_| !rows.is_empty()) else {
        return Ok(after);
    };
    let rows = UInt32Array::from(rows);
    let both = after.iter().zip(before);
    both.map(|(after, before)| {
        let before = compute::take(before, &rows, None)?;
        Ok(compute::concat(&[after, &before])?)
    })
    .collect()
}

type Kept = (Vec<u32>, Vec<ArrayRef>, Option<Vec<i8>>);

/// The rows that are not ignored: slots, columns, weights.
fn kept(assigned: Assigned, columns: &[ArrayRef], weights: Option<&[i8]>) -> Result<Kept> {
    if !assigned.ignores {
        let weights = weights.map(<[i8]>::to_vec);
        return Ok((assigned.slots, columns.to_vec(), weights));
    }
    let places: Vec<u32> = (0..assigned.slots.len() as u32)
        .filter(|row| assigned.slots[*row as usize] != NONE)
        .collect();
    let at = |row: &u32| *row as usize;
    let slots = places.iter().map(|row| assigned.slots[at(row)]).collect();
    let weights = weights.map(|weights| places.iter().map(|row| weights[at(row)]).collect());
    let indices = UInt32Array::from(places);
    let columns = columns.iter();
    let columns = columns.map(|column| Ok(compute::take(column, &indices, None)?));
    Ok((slots, columns.collect::<Result<_>>()?, weights))
}
