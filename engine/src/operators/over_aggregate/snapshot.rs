//! State as tables and back: keys with what is known about them, rows that wait, and the rows of frames.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema as ArrowSchema};

use super::OverAggregateOperator;
use super::frames::{FrameRow, Place};
use crate::error::Result;
use crate::functions::aggregate::{FrameKind, OverScript};
use crate::state::{Groups, KEY_HASH_COLUMN, StateSnapshot};
use crate::stream::hash_columns;
use crate::watermark::event_time_millis;

const KEYS: &str = "keys";
const PLANS: &str = "plans";
const WAITING: &str = "waiting";
const FRAMES: &str = "frames";

impl OverAggregateOperator {
    pub(super) fn snapshot(&mut self, max_parallelism: u16) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        let tables = [
            (KEYS, self.key_table(max_parallelism)?),
            (PLANS, self.plan_table(max_parallelism)?),
            (WAITING, self.waiting_table(max_parallelism)?),
            (FRAMES, self.frame_table(max_parallelism)?),
        ];
        for (name, batch) in tables {
            snapshot.insert_keyed(name, vec![batch]);
        }
        Ok(snapshot)
    }

    pub(super) fn restore(&mut self, snapshot: &StateSnapshot) -> Result<()> {
        for batch in snapshot.batches(KEYS) {
            self.restore_keys(batch)?;
        }
        for batch in snapshot.batches(PLANS) {
            let groups = self.restored_groups(batch)?;
            let times = self.column(batch, 0);
            let times = times.as_primitive::<Int64Type>().values();
            let plans = times.iter().copied().zip(groups);
            self.keys.plans.extend(plans);
        }
        for batch in snapshot.batches(WAITING) {
            self.restore_waiting(batch)?;
        }
        for batch in snapshot.batches(FRAMES) {
            self.restore_frames(batch)?;
        }
        Ok(())
    }

    /// A table of rows that belong to groups: key group, keys, then the columns.
    fn by_group(
        &self,
        groups: &Groups,
        columns: Vec<(&str, ArrayRef)>,
        max_parallelism: u16,
    ) -> Result<RecordBatch> {
        let hashes = self.keys.table.hashes();
        let key_groups = groups.map(|group| hashes[group]);
        let keys = self.keys.table.keys(groups)?;
        let names = (0..keys.len()).map(|index| format!("key{index}"));
        let named = names.zip(keys).chain(
            columns
                .into_iter()
                .map(|(name, column)| (name.to_string(), column)),
        );
        let mut fields = vec![Field::new(KEY_HASH_COLUMN, DataType::UInt64, false)];
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from(key_groups))];
        for (name, array) in named {
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
        Ok(RecordBatch::try_new(
            Arc::new(ArrowSchema::new(fields)),
            arrays,
        )?)
    }

    /// The groups of the rows of such a table.
    fn restored_groups(&mut self, batch: &RecordBatch) -> Result<Vec<u32>> {
        let keys = &batch.columns()[1..=self.spec.partition_by.len()];
        let hashes = hash_columns(keys, batch.num_rows())?;
        let groups = self.keys.resolve(keys, &hashes)?;
        self.grow();
        Ok(groups)
    }

    /// The column behind the keys of such a table.
    fn column(&self, batch: &RecordBatch, index: usize) -> ArrayRef {
        batch
            .column(1 + self.spec.partition_by.len() + index)
            .clone()
    }

    fn key_table(&self, max_parallelism: u16) -> Result<RecordBatch> {
        let groups = Groups::Range(0..self.keys.len());
        let states = &self.keys.states;
        let of = |part: fn(&super::keys::KeyState) -> i64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(states.iter().map(part)))
        };
        let mut columns = vec![
            ("released", of(|state| state.released)),
            ("plan", of(|state| state.plan)),
            ("expiry", of(|state| state.expiry)),
        ];
        if self.spec.frame.kind() == FrameKind::Unbounded {
            let saved = self.functions.save(&groups)?;
            columns.extend(saved.into_iter().map(|column| ("state", column)));
        }
        self.by_group(&groups, columns, max_parallelism)
    }

    fn restore_keys(&mut self, batch: &RecordBatch) -> Result<()> {
        let groups = self.restored_groups(batch)?;
        let (released, plan, expiry) = (
            self.column(batch, 0),
            self.column(batch, 1),
            self.column(batch, 2),
        );
        for (row, group) in groups.iter().enumerate() {
            let state = &mut self.keys.states[*group as usize];
            state.released = released.as_primitive::<Int64Type>().value(row);
            state.plan = plan.as_primitive::<Int64Type>().value(row);
            state.expiry = expiry.as_primitive::<Int64Type>().value(row);
        }
        if self.spec.frame.kind() == FrameKind::Unbounded {
            let saved = &batch.columns()[1 + self.spec.partition_by.len() + 3..];
            self.functions.load(&groups, saved)?;
        }
        Ok(())
    }

    fn plan_table(&self, max_parallelism: u16) -> Result<RecordBatch> {
        let groups: Vec<u32> = self.keys.plans.iter().map(|(_, group)| *group).collect();
        let times = self.keys.plans.iter().map(|(time, _)| *time);
        let times: ArrayRef = Arc::new(Int64Array::from_iter_values(times));
        self.by_group(
            &Groups::Ids(&groups),
            vec![("time", times)],
            max_parallelism,
        )
    }

    fn waiting_table(&mut self, max_parallelism: u16) -> Result<RecordBatch> {
        let (rows, groups) = self.waiting.all()?;
        let fields = rows.schema_ref().fields().clone();
        let columns = fields.iter().map(|field| field.name().as_str());
        let columns = columns.zip(rows.columns().iter().cloned()).collect();
        self.by_group(&Groups::Ids(&groups), columns, max_parallelism)
    }

    fn restore_waiting(&mut self, batch: &RecordBatch) -> Result<()> {
        let groups = self.restored_groups(batch)?;
        let columns = batch.columns()[1 + self.spec.partition_by.len()..].to_vec();
        let rows = RecordBatch::try_new(self.spec.input.to_arrow(), columns)?;
        let Some(column) = self.spec.time_column else {
            return Ok(());
        };
        let times = event_time_millis(rows.column(column))?;
        let kept: Vec<u32> = (0..rows.num_rows() as u32).collect();
        let waiting: Vec<(i64, u32)> = times.iter().copied().zip(groups).collect();
        for (_, group) in &waiting {
            self.keys.states[*group as usize].waiting += 1;
        }
        self.waiting.add(&rows, &kept, &waiting)
    }

    fn frame_table(&self, max_parallelism: u16) -> Result<RecordBatch> {
        let (mut groups, mut times, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        for (group, frame) in self.frames.of_group.iter().enumerate() {
            for row in frame {
                if let Place::Kept(id) = row.place {
                    groups.push(group as u32);
                    times.push(row.time);
                    ids.push(id);
                }
            }
        }
        let rows = self.frames.rows.gather(&ids)?;
        let times: ArrayRef = Arc::new(Int64Array::from(times));
        let mut columns = vec![("time", times)];
        columns.extend(
            rows.columns()
                .iter()
                .map(|column| ("argument", column.clone())),
        );
        self.by_group(&Groups::Ids(&groups), columns, max_parallelism)
    }

    /// Brings the rows of frames back; the states of functions follow from them.
    fn restore_frames(&mut self, batch: &RecordBatch) -> Result<()> {
        let groups = self.restored_groups(batch)?;
        let times = self.column(batch, 0);
        let times = times.as_primitive::<Int64Type>().values();
        let arguments = batch.columns()[2 + self.spec.partition_by.len()..].to_vec();
        let rows = RecordBatch::try_new(self.frames.rows.schema().clone(), arguments.clone())?;
        let mut ids = Vec::with_capacity(rows.num_rows());
        self.frames.rows.insert(&rows, &mut ids)?;
        let mut by_group: Vec<u32> = (0..rows.num_rows() as u32).collect();
        by_group.sort_by_key(|row| groups[*row as usize]);
        let mut script = OverScript::new(times.to_vec());
        for rows in by_group.chunk_by(|a, b| groups[*a as usize] == groups[*b as usize]) {
            let group = groups[rows[0] as usize];
            let frame: &mut VecDeque<FrameRow> = &mut self.frames.of_group[group as usize];
            for row in rows {
                script.add(*row as usize);
                frame.push_back(FrameRow {
                    time: times[*row as usize],
                    place: Place::Kept(ids[*row as usize]),
                });
            }
            script.end_group(group);
        }
        self.functions.run(&script, &arguments)?;
        Ok(())
    }
}
