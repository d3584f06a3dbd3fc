//! The frames of all keys: which rows are in them, and what happens to them when rows are released.

use std::collections::VecDeque;

use arrow::array::ArrayRef;
use arrow::compute;
use arrow::datatypes::SchemaRef;

use super::OverFrame;
use super::waiting::WaitingRow;
use crate::error::Result;
use crate::functions::aggregate::OverScript;
use crate::state::RowSlab;

/// The rows of bounded frames, oldest first, with what the functions read of them.
pub(super) struct Frames {
    frame: OverFrame,
    pub(super) rows: RowSlab,
    pub(super) of_group: Vec<VecDeque<FrameRow>>,
}

/// A row of a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameRow {
    pub(super) time: i64,
    pub(super) place: Place,
}

/// Where a row of a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In the slab.
    Kept(u32),
    /// Among the rows that are being released.
    Released(u32),
}

/// What a release does.
pub(super) struct Release {
    pub(super) script: OverScript,
    /// What functions read: the released rows, then those that leave.
    pub(super) columns: Vec<ArrayRef>,
    /// For each released row which result is its own.
    pub(super) result_of: Vec<u32>,
}

impl Frames {
    pub(super) fn new(frame: OverFrame, schema: SchemaRef) -> Self {
        Frames {
            frame,
            rows: RowSlab::new(schema),
            of_group: Vec::new(),
        }
    }

    pub(super) fn size_bytes(&self) -> usize {
        // A list has room for about half as many again as it holds.
        let entries = self.rows.len() * 3 / 2 * size_of::<FrameRow>();
        self.rows.size_bytes()
            + entries
            + self.of_group.capacity() * size_of::<VecDeque<FrameRow>>()
    }

    pub(super) fn grow(&mut self, groups: usize) {
        self.of_group.resize_with(groups, VecDeque::new);
    }

    /// Releases rows, which are in order of time in each group; `arguments` are what functions read of them. `peers`: rows of one
    /// time in a range count for each other.
    pub(super) fn release(
        &mut self,
        released: &[WaitingRow],
        peers: bool,
        arguments: &[ArrayRef],
    ) -> Result<Release> {
        let by_group = by_group(released);
        let times = released.iter().map(|row| row.time).collect();
        let mut writer = ScriptWriter {
            script: OverScript::new(times),
            released: released.len(),
            result_of: vec![0; released.len()],
            leaving: Vec::new(),
        };
        let with_peers = peers && matches!(self.frame, OverFrame::Range(_));
        let same_group = |a: &u32, b: &u32| group_of(released, *a) == group_of(released, *b);
        for rows in by_group.chunk_by(same_group) {
            let group = group_of(released, rows[0]);
            let frame = &mut self.of_group[group as usize];
            let same_time =
                |a: &u32, b: &u32| with_peers && time_of(released, *a) == time_of(released, *b);
            for rows in rows.chunk_by(same_time) {
                writer.step(self.frame, frame, rows, time_of(released, rows[0]));
            }
            writer.script.end_group(group);
        }
        let columns = with_rows_of(&self.rows, arguments, &writer.leaving)?;
        self.rows.remove(&writer.leaving)?;
        self.keep(released, &by_group, arguments)?;
        Ok(Release {
            script: writer.script,
            columns,
            result_of: writer.result_of,
        })
    }

    /// Moves released rows that are still in a frame into the slab.
    fn keep(
        &mut self,
        released: &[WaitingRow],
        by_group: &[u32],
        arguments: &[ArrayRef],
    ) -> Result<()> {
        if !self.is_bounded() {
            return Ok(());
        }
        let same_group = |a: &u32, b: &u32| group_of(released, *a) == group_of(released, *b);
        let groups: Vec<u32> = by_group
            .chunk_by(same_group)
            .map(|rows| group_of(released, rows[0]))
            .collect();
        let is_new = |row: &&FrameRow| matches!(row.place, Place::Released(_));
        let mut rows = Vec::new();
        for group in &groups {
            let new = self.of_group[*group as usize]
                .iter()
                .rev()
                .take_while(is_new);
            rows.extend(new.filter_map(|row| match row.place {
                Place::Released(row) => Some(row),
                Place::Kept(_) => None,
            }));
        }
        let schema = self.rows.schema().clone();
        let batch = arrow::array::RecordBatch::try_new(schema, arguments.to_vec())?;
        let mut ids = Vec::with_capacity(rows.len());
        self.rows.insert_some(&batch, &rows, &mut ids)?;
        let mut ids = ids.into_iter();
        for group in groups {
            let frame = self.of_group[group as usize].iter_mut().rev();
            for row in frame.take_while(|row| matches!(row.place, Place::Released(_))) {
                row.place = Place::Kept(ids.next().expect("an id for every row"));
            }
        }
        Ok(())
    }

    fn is_bounded(&self) -> bool {
        !matches!(self.frame, OverFrame::Rows(None) | OverFrame::Range(None))
    }

    /// Lets all rows of groups leave; returns what functions read of them.
    pub(super) fn empty(
        &mut self,
        groups: &[u32],
        script: &mut OverScript,
    ) -> Result<Vec<ArrayRef>> {
        let mut ids = Vec::new();
        for group in groups {
            for row in std::mem::take(&mut self.of_group[*group as usize]) {
                if let Place::Kept(id) = row.place {
                    script.remove(ids.len());
                    ids.push(id);
                }
            }
            script.end_group(*group);
        }
        let columns: Vec<usize> = (0..self.rows.schema().fields().len()).collect();
        let left = self.rows.gather_columns(&columns, &ids)?;
        self.rows.remove(&ids)?;
        Ok(left)
    }
}

/// The rows of a release by group; the rows of a group keep their order.
fn by_group(released: &[WaitingRow]) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..released.len() as u32).collect();
    rows.sort_by_key(|row| group_of(released, *row));
    rows
}

fn group_of(released: &[WaitingRow], row: u32) -> u32 {
    released[row as usize].group
}

fn time_of(released: &[WaitingRow], row: u32) -> i64 {
    released[row as usize].time
}

/// Columns with kept rows behind.
fn with_rows_of(slab: &RowSlab, columns: &[ArrayRef], ids: &[u32]) -> Result<Vec<ArrayRef>> {
    if ids.is_empty() {
        return Ok(columns.to_vec());
    }
    let all: Vec<usize> = (0..columns.len()).collect();
    let kept = slab.gather_columns(&all, ids)?;
    columns
        .iter()
        .zip(&kept)
        .map(|(column, kept)| Ok(compute::concat(&[column, kept])?))
        .collect()
}

/// Writes what happens to frames.
struct ScriptWriter {
    script: OverScript,
    released: usize,
    result_of: Vec<u32>,
    /// Kept rows that leave.
    leaving: Vec<u32>,
}

impl ScriptWriter {
    /// Rows of one time enter together: those leave that are out of their frame, they come, and get their result.
    fn step(
        &mut self,
        frame: OverFrame,
        rows: &mut VecDeque<FrameRow>,
        entering: &[u32],
        time: i64,
    ) {
        match frame {
            OverFrame::Range(Some(range)) => {
                let first = time.saturating_sub(range);
                while let Some(row) = rows.pop_front_if(|row| row.time < first) {
                    self.leave(row);
                }
            }
            OverFrame::Rows(Some(preceding)) => {
                while rows.len() as u64 > preceding
                    && let Some(row) = rows.pop_front()
                {
                    self.leave(row);
                }
            }
            OverFrame::Range(None) | OverFrame::Rows(None) => {}
        }
        for row in entering {
            self.script.add(*row as usize);
            if !matches!(frame, OverFrame::Range(None) | OverFrame::Rows(None)) {
                rows.push_back(FrameRow {
                    time,
                    place: Place::Released(*row),
                });
            }
        }
        let result = self.script.result() as u32;
        for row in entering {
            self.result_of[*row as usize] = result;
        }
    }

    fn leave(&mut self, row: FrameRow) {
        match row.place {
            Place::Released(row) => self.script.remove(row as usize),
            Place::Kept(id) => {
                self.script.remove(self.released + self.leaving.len());
                self.leaving.push(id);
            }
        }
    }
}
