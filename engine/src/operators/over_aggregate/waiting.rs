//! Rows that wait for the watermark, in order of time and arrival.
//!
//! What has come since the last firing lies unsorted; a firing sorts that and merges it into the rest, of which it moves only
//! what is later than the earliest new row.

use std::collections::VecDeque;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use crate::error::Result;
use crate::state::RowSlab;
use crate::types::EventTime;

/// A row by its time, its group, and its id in the slab.
#[derive(Debug, Clone, Copy)]
pub(in crate::operators) struct WaitingRow {
    pub(in crate::operators) time: i64,
    pub(in crate::operators) group: u32,
    pub(in crate::operators) id: u32,
}

/// See the module.
pub(in crate::operators) struct Waiting {
    rows: RowSlab,
    sorted: VecDeque<WaitingRow>,
    fresh: Vec<WaitingRow>,
}

impl Waiting {
    pub(in crate::operators) fn new(schema: SchemaRef) -> Self {
        Waiting {
            rows: RowSlab::new(schema),
            sorted: VecDeque::new(),
            fresh: Vec::new(),
        }
    }

    pub(in crate::operators) fn size_bytes(&self) -> usize {
        let entries = self.sorted.capacity() + self.fresh.capacity();
        self.rows.size_bytes() + entries * size_of::<WaitingRow>()
    }

    /// Takes the `kept` rows of a batch in, whose times and groups are given.
    pub(in crate::operators) fn add(
        &mut self,
        batch: &RecordBatch,
        kept: &[u32],
        rows: &[(i64, u32)],
    ) -> Result<()> {
        let mut ids = Vec::with_capacity(kept.len());
        if kept.len() == batch.num_rows() {
            self.rows.insert(batch, &mut ids)?;
        } else {
            self.rows.insert_some(batch, kept, &mut ids)?;
        }
        let fresh = rows.iter().zip(ids);
        self.fresh
            .extend(fresh.map(|((time, group), id)| WaitingRow {
                time: *time,
                group: *group,
                id,
            }));
        Ok(())
    }

    fn settle(&mut self) {
        if self.fresh.is_empty() {
            return;
        }
        self.fresh.sort_by_key(|row| row.time);
        let first = self.fresh[0].time;
        let stays = self.sorted.partition_point(|row| row.time <= first);
        let mut later = self.sorted.split_off(stays).into_iter().peekable();
        for row in self.fresh.drain(..) {
            while let Some(earlier) = later.next_if(|earlier| earlier.time <= row.time) {
                self.sorted.push_back(earlier);
            }
            self.sorted.push_back(row);
        }
        self.sorted.extend(later);
    }

    /// The first rows due at a watermark: about `limit`, and with a row all others of its time.
    pub(in crate::operators) fn due(
        &mut self,
        watermark: EventTime,
        limit: usize,
    ) -> Vec<WaitingRow> {
        self.settle();
        let mut due = Vec::new();
        while let Some(row) = self.sorted.front() {
            let same_time = due
                .last()
                .is_some_and(|last: &WaitingRow| last.time == row.time);
            if row.time > watermark.millis() || (due.len() >= limit && !same_time) {
                break;
            }
            due.extend(self.sorted.pop_front());
        }
        due
    }

    /// Takes rows out that [`Waiting::due`] has named.
    pub(in crate::operators) fn take(&mut self, due: &[WaitingRow]) -> Result<RecordBatch> {
        let ids: Vec<u32> = due.iter().map(|row| row.id).collect();
        let rows = self.rows.gather(&ids)?;
        self.rows.remove(&ids)?;
        Ok(rows)
    }

    /// The rows in order with their groups: of all groups, or of these (ascending).
    pub(in crate::operators) fn of_groups(
        &mut self,
        groups: Option<&[u32]>,
    ) -> Result<(RecordBatch, Vec<WaitingRow>)> {
        self.settle();
        let is_of = |row: &&WaitingRow| {
            groups.is_none_or(|groups| groups.binary_search(&row.group).is_ok())
        };
        let waiting: Vec<WaitingRow> = self.sorted.iter().filter(is_of).copied().collect();
        let ids: Vec<u32> = waiting.iter().map(|row| row.id).collect();
        Ok((self.rows.gather(&ids)?, waiting))
    }

    /// The groups of all rows, one for each.
    pub(in crate::operators) fn groups(&self) -> Vec<u32> {
        let rows = self.sorted.iter().chain(&self.fresh);
        rows.map(|row| row.group).collect()
    }

    /// Forgets the rows of these groups, ascending.
    pub(in crate::operators) fn remove_groups(&mut self, groups: &[u32]) -> Result<()> {
        self.settle();
        let mut gone = Vec::new();
        self.sorted.retain(|row| {
            let stays = groups.binary_search(&row.group).is_err();
            if !stays {
                gone.push(row.id);
            }
            stays
        });
        self.rows.remove(&gone)
    }

    /// Forgets everything, and gives the memory back.
    pub(in crate::operators) fn clear(&mut self) {
        *self = Waiting::new(self.rows.schema().clone());
    }
}
