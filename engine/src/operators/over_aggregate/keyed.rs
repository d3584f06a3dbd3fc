//! State by key, as tables and back: keys with what is known about them, planned times, rows that wait, and the rows of frames.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema as ArrowSchema, SchemaRef};

use super::frames::{FrameRow, Frames, Place};
use super::{OverAggregateOperator, OverFrame, functions, new_keys};
use crate::error::Result;
use crate::functions::aggregate::{FrameKind, OverScript};
use crate::operators::keyed_state::distinct;
use crate::operators::{Context, DueTime, EXPIRY_COLUMN, InputIndex, KeySet, KeyedState};
use crate::state::{Groups, KEY_HASH_COLUMN, StateSnapshot, key_hashes_of};
use crate::watermark::event_time_millis;

const KEYS: &str = "keys";
const PLANS: &str = "plans";
const WAITING: &str = "waiting";
const FRAMES: &str = "frames";

/// What a column of the key is called in a table.
fn key_name(index: usize) -> String {
    format!("key{index}")
}

impl KeyedState for OverAggregateOperator {
    fn key_columns(&self, _: InputIndex) -> &[usize] {
        &self.spec.partition_by
    }

    fn snapshot_keyed(&mut self, ctx: &Context) -> Result<StateSnapshot> {
        let groups = self.keys.here();
        self.tables(ctx, groups)
    }

    fn keys(&mut self, _: &Context) -> Result<Vec<u64>> {
        let here = self.keys.here();
        Ok(distinct(
            Groups::Ids(&here).gather(self.keys.table.hashes()),
        ))
    }

    fn load_keyed(&mut self, _: &Context, snapshot: &StateSnapshot) -> Result<()> {
        self.given_rows += snapshot
            .batches(KEYS)
            .iter()
            .map(|rows| rows.num_rows() as u64)
            .sum::<u64>();
        for batch in snapshot.batches(KEYS) {
            self.load_keys(batch)?;
        }
        for batch in snapshot.batches(PLANS) {
            let groups = self.loaded_groups(batch)?;
            let times = self.column(batch, 0);
            for (time, group) in times
                .as_primitive::<Int64Type>()
                .values()
                .iter()
                .zip(groups)
            {
                self.keys.plan(*time, group);
            }
        }
        for batch in snapshot.batches(WAITING) {
            self.load_waiting(batch)?;
        }
        for batch in snapshot.batches(FRAMES) {
            self.load_frames(batch)?;
        }
        Ok(())
    }

    fn clear_keyed(&mut self) -> Result<()> {
        self.keys = new_keys(&self.spec)?;
        self.frames = Frames::new(self.spec.frame, self.frames.rows.schema().clone());
        self.functions = functions(&self.spec, &self.columns)?;
        self.measured.set(None);
        self.waiting.clear();
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.state_bytes()
    }

    fn due_time(&self) -> DueTime {
        match (self.spec.time_column, self.spec.frame) {
            (Some(_), _) => DueTime::Event,
            (None, OverFrame::Range(Some(_))) => DueTime::Processing,
            _ => DueTime::Never,
        }
    }

    fn due(&self, table: &str, rows: &RecordBatch) -> Vec<i64> {
        let never = || vec![i64::MAX; rows.num_rows()];
        match (table, self.spec.time_column) {
            (PLANS, _) => self
                .column(rows, 0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec(),
            (WAITING, Some(column)) => match event_time_millis(&self.column(rows, column)) {
                Ok(times) => times.to_vec(),
                Err(_) => never(),
            },
            _ => never(),
        }
    }

    fn export_keyed(&mut self, ctx: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let groups = self.keys.here_of(keys);
        self.tables(ctx, groups)
    }

    fn evict_keyed(&mut self, ctx: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let groups = self.keys.here_of(keys);
        let gone = self.tables(ctx, groups.clone())?;
        self.waiting.remove_groups(&groups)?;
        self.forget(&groups)?;
        self.keys.take_out(&groups);
        self.measured.set(None);
        if self.keys.taken_out * 2 > self.keys.len() {
            let rest = self.snapshot_keyed(ctx)?;
            self.clear_keyed()?;
            self.load_keyed(ctx, &rest)?;
        }
        Ok(gone)
    }
}

impl OverAggregateOperator {
    /// All that is kept for groups, ascending.
    fn tables(&mut self, ctx: &Context, mut groups: Vec<u32>) -> Result<StateSnapshot> {
        groups.retain(|group| !self.keys.is_over(*group, ctx.processing_time()));
        let mut snapshot = StateSnapshot::default();
        let tables = [
            (KEYS, self.key_table(&groups)?),
            (PLANS, self.plan_table(&groups)?),
            (WAITING, self.waiting_table(&groups)?),
            (FRAMES, self.frame_table(&groups)?),
        ];
        for (name, batch) in tables {
            snapshot.insert_keyed(name, vec![batch]);
        }
        Ok(snapshot)
    }

    /// A table of rows that belong to groups: the hash of the key, the key, then the columns.
    fn by_group(&self, groups: &[u32], columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
        let groups = Groups::Ids(groups);
        let hashes = groups.gather(self.keys.table.hashes());
        let keys = self.keys.table.keys(&groups)?;
        let names = (0..keys.len()).map(key_name);
        let named = names.zip(keys).chain(
            columns
                .into_iter()
                .map(|(name, column)| (name.to_string(), column)),
        );
        let mut fields = vec![Field::new(KEY_HASH_COLUMN, DataType::UInt64, false)];
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from(hashes))];
        for (name, array) in named {
            fields.push(Field::new(name, array.data_type().clone(), true));
            arrays.push(array);
        }
        Ok(RecordBatch::try_new(
            Arc::new(ArrowSchema::new(fields)),
            arrays,
        )?)
    }

    /// The table of rows that wait, which holds what the plan carries along.
    pub(super) fn waiting_rows_table(&self) -> (String, SchemaRef) {
        let input = self.spec.input.to_arrow();
        let key = self.spec.partition_by.iter().enumerate();
        let key = key.map(|(index, column)| {
            Field::new(
                key_name(index),
                input.field(*column).data_type().clone(),
                true,
            )
        });
        let rows = input.fields().iter();
        let rows = rows.map(|field| Field::new(field.name(), field.data_type().clone(), true));
        let hash = Field::new(KEY_HASH_COLUMN, DataType::UInt64, false);
        let fields: Vec<Field> = [hash].into_iter().chain(key).chain(rows).collect();
        (WAITING.to_string(), Arc::new(ArrowSchema::new(fields)))
    }

    /// The groups of the rows of such a table.
    fn loaded_groups(&mut self, batch: &RecordBatch) -> Result<Vec<u32>> {
        let keys = &batch.columns()[1..=self.spec.partition_by.len()];
        let groups = self.keys.resolve(keys, key_hashes_of(batch))?;
        self.grow();
        Ok(groups)
    }

    /// The column behind the keys of such a table.
    fn column(&self, batch: &RecordBatch, index: usize) -> ArrayRef {
        batch
            .column(1 + self.spec.partition_by.len() + index)
            .clone()
    }

    fn key_table(&self, groups: &[u32]) -> Result<RecordBatch> {
        let states = groups.iter().map(|group| self.keys.states[*group as usize]);
        let of = |part: fn(&super::keys::KeyState) -> i64| -> ArrayRef {
            let values = states.clone().map(|state| part(&state));
            Arc::new(Int64Array::from_iter_values(values))
        };
        let mut columns = vec![
            ("released", of(|state| state.released)),
            ("plan", of(|state| state.plan)),
            (EXPIRY_COLUMN, self.expiries(groups.iter())),
        ];
        if self.spec.frame.kind() == FrameKind::Unbounded {
            let saved = self.functions.save(&Groups::Ids(groups))?;
            columns.extend(saved.into_iter().map(|column| ("state", column)));
        }
        self.by_group(groups, columns)
    }

    fn expiries<'a>(&self, groups: impl Iterator<Item = &'a u32>) -> ArrayRef {
        let expiries = groups.map(|group| self.keys.expiry(*group));
        Arc::new(Int64Array::from_iter_values(expiries))
    }

    fn load_keys(&mut self, batch: &RecordBatch) -> Result<()> {
        let groups = self.loaded_groups(batch)?;
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

    fn plan_table(&self, groups: &[u32]) -> Result<RecordBatch> {
        let (mut of, mut times) = (Vec::new(), Vec::new());
        for group in groups {
            times.extend_from_slice(self.keys.plans_of(*group));
            of.resize(times.len(), *group);
        }
        let times: ArrayRef = Arc::new(Int64Array::from(times));
        self.by_group(&of, vec![("time", times)])
    }

    fn waiting_table(&mut self, groups: &[u32]) -> Result<RecordBatch> {
        let (rows, waiting) = self.waiting.of_groups(Some(groups))?;
        let fields = rows.schema_ref().fields().clone();
        let columns = fields.iter().map(|field| field.name().as_str());
        let columns = columns.zip(rows.columns().iter().cloned()).collect();
        let groups: Vec<u32> = waiting.iter().map(|row| row.group).collect();
        self.by_group(&groups, columns)
    }

    fn load_waiting(&mut self, batch: &RecordBatch) -> Result<()> {
        let groups = self.loaded_groups(batch)?;
        let columns = batch.columns()[1 + self.spec.partition_by.len()..].to_vec();
        let rows = RecordBatch::try_new(self.spec.input.to_arrow(), columns)?;
        let Some(column) = self.spec.time_column else {
            return Ok(());
        };
        let times = event_time_millis(rows.column(column))?;
        let kept: Vec<u32> = (0..rows.num_rows() as u32).collect();
        let waiting: Vec<(i64, u32)> = times.iter().copied().zip(groups).collect();
        self.keys.wait(waiting.iter().map(|(_, group)| *group));
        self.waiting.add(&rows, &kept, &waiting)
    }

    fn frame_table(&self, groups: &[u32]) -> Result<RecordBatch> {
        let (mut of, mut times, mut ids) = (Vec::new(), Vec::new(), Vec::new());
        for group in groups {
            for row in &self.frames.of_group[*group as usize] {
                if let Place::Kept(id) = row.place {
                    of.push(*group);
                    times.push(row.time);
                    ids.push(id);
                }
            }
        }
        let rows = self.frames.rows.gather(&ids)?;
        let times: ArrayRef = Arc::new(Int64Array::from(times));
        let mut columns = vec![("time", times), (EXPIRY_COLUMN, self.expiries(of.iter()))];
        columns.extend(
            rows.columns()
                .iter()
                .map(|column| ("argument", column.clone())),
        );
        self.by_group(&of, columns)
    }

    /// Brings the rows of frames back; the states of functions follow from them.
    fn load_frames(&mut self, batch: &RecordBatch) -> Result<()> {
        let groups = self.loaded_groups(batch)?;
        let times = self.column(batch, 0);
        let times = times.as_primitive::<Int64Type>().values();
        let arguments = batch.columns()[3 + self.spec.partition_by.len()..].to_vec();
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
