//! Record by record: every row that comes tells how it changes its group, a batch at a time.

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute;

use super::changes::{ChangeRows, Changes, equal_rows};
use super::group_states::{Assigned, GroupEvent, NONE};
use super::{GroupAggregateOperator, InputRows};
use crate::error::Result;
use crate::operators::Output;
use crate::stream::ChangelogBatch;
use crate::types::{ProcessingTime, RowKind};

/// The rows of a batch that change a group, and between which results they change it.
struct RecordChanges {
    /// The row of the batch; `None`: all rows in order.
    places: Option<Vec<u32>>,
    events: Vec<GroupEvent>,
    /// The row of results that stood before each row; empty where nobody asks.
    before: Vec<u32>,
    /// The results behind each row, then those of the touched groups before the batch.
    results: Vec<ArrayRef>,
}

impl GroupAggregateOperator {
    /// Folds a batch and emits its changes.
    pub(super) fn fold_records(
        &mut self,
        now: ProcessingTime,
        batch: &ChangelogBatch,
        out: &mut Output,
    ) -> Result<()> {
        let rows = self.input_rows(batch)?;
        let known = self.states.len();
        let mut groups = Vec::new();
        self.states.resolve(&rows.keys, &rows.hashes, &mut groups)?;
        let weight = |row: usize| match &rows.weights {
            None => 1,
            Some(weights) => weights[row] as i64,
        };
        self.states.before_change(&groups)?;
        let assigned = self.states.assign(&groups, known, weight, now)?;
        let record = self.run(&rows, assigned)?;
        self.states.release();
        self.states.pack()?;
        let changes = self.changes(&record)?;
        if changes.len() > 0 {
            let rows = ChangeRows {
                keys: &rows.keys,
                hashes: &rows.hashes,
                results: &record.results,
            };
            out.emit(self.writer.write(changes, &rows)?);
        }
        Ok(())
    }

    /// Folds the rows that are not ignored.
    fn run(&mut self, rows: &InputRows, assigned: Assigned) -> Result<RecordChanges> {
        if !assigned.ignores {
            return self.run_all(rows.columns.clone(), rows.weights.as_deref(), assigned);
        }
        let places: Vec<u32> = (0..assigned.slots.len() as u32)
            .filter(|row| assigned.slots[*row as usize] != NONE)
            .collect();
        let indices = UInt32Array::from(places.clone());
        let columns = rows.columns.iter();
        let columns = columns
            .map(|column| Ok(compute::take(column, &indices, None)?))
            .collect::<Result<_>>()?;
        let at = |row: &u32| *row as usize;
        let weights = rows.weights.as_ref();
        let weights: Option<Vec<i8>> =
            weights.map(|weights| places.iter().map(|row| weights[at(row)]).collect());
        let kept = Assigned {
            slots: places.iter().map(|row| assigned.slots[at(row)]).collect(),
            events: places.iter().map(|row| assigned.events[at(row)]).collect(),
            ignores: false,
        };
        let record = self.run_all(columns, weights.as_deref(), kept)?;
        Ok(RecordChanges {
            places: Some(places),
            ..record
        })
    }

    fn run_all(
        &mut self,
        columns: Vec<ArrayRef>,
        weights: Option<&[i8]>,
        assigned: Assigned,
    ) -> Result<RecordChanges> {
        let Assigned { slots, events, .. } = assigned;
        let (before, touched) = if self.needs_before {
            self.rows_before(&slots, &events)
        } else {
            Default::default()
        };
        let earlier = self.states.evaluate(&touched)?;
        let behind = self.states.aggregates.accumulate_running(
            &self.states.spec,
            &slots,
            &columns,
            weights,
        )?;
        let results = if touched.is_empty() {
            behind
        } else {
            let both = behind.iter().zip(&earlier);
            both.map(|(behind, earlier)| Ok(compute::concat(&[behind, earlier])?))
                .collect::<Result<_>>()?
        };
        Ok(RecordChanges {
            places: None,
            events,
            before,
            results,
        })
    }

    /// For each row where in the results stands what its group had before it: behind an earlier row of the batch, or, behind
    /// all of those, before the batch. Also the slots that had something before the batch, in that order.
    fn rows_before(&mut self, slots: &[u32], events: &[GroupEvent]) -> (Vec<u32>, Vec<u32>) {
        let mut touched = Vec::new();
        let mut before = Vec::with_capacity(slots.len());
        let last = slots.iter().max().map_or(0, |slot| *slot as usize + 1);
        if self.result_rows.len() < last {
            self.result_rows.resize(last, NONE);
        }
        for (row, slot) in slots.iter().enumerate() {
            let known = &mut self.result_rows[*slot as usize];
            if *known == NONE && events[row] != GroupEvent::First {
                *known = (slots.len() + touched.len()) as u32;
                touched.push(*slot);
            }
            before.push(*known);
            *known = row as u32;
        }
        for slot in slots {
            self.result_rows[*slot as usize] = NONE;
        }
        (before, touched)
    }

    fn changes(&self, record: &RecordChanges) -> Result<Changes> {
        let equal = self.equal(record)?;
        let mut changes = Changes::with_capacity(2 * record.events.len());
        for (row, event) in record.events.iter().enumerate() {
            let key_row = match &record.places {
                None => row as u32,
                Some(places) => places[row],
            };
            match event {
                GroupEvent::First => changes.push(RowKind::Insert, key_row, row as u32),
                GroupEvent::Last => changes.push(RowKind::Delete, key_row, record.before[row]),
                GroupEvent::Change if equal[row] => {}
                GroupEvent::Change => {
                    let before = record.before.get(row).copied().unwrap_or(NONE);
                    self.writer
                        .update(&mut changes, key_row, before, row as u32);
                }
                GroupEvent::Ignored => {}
            }
        }
        Ok(changes)
    }

    /// The rows that change nothing and need not be told.
    fn equal(&self, record: &RecordChanges) -> Result<Vec<bool>> {
        if !self.writer.has_results() {
            return Ok(vec![true; record.events.len()]);
        }
        if self.writer.tells_equal {
            return Ok(vec![false; record.events.len()]);
        }
        let pair = |row: usize| {
            let changes = record.events[row] == GroupEvent::Change;
            changes.then(|| (record.before[row], row as u32))
        };
        let pairs: Vec<Option<(u32, u32)>> = (0..record.events.len()).map(pair).collect();
        equal_rows(&record.results, &pairs)
    }
}
