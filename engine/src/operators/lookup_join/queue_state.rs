//! The queue of a lookup join as state: the rows that still ask, and those that are joined but have not had their turn.
//!
//! Each row brings the watermark that stands before it. All rows of a subtask go to the subtask that owns its first key group.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Int64Array, RecordBatch, UInt8Array, UInt32Array, UInt64Array,
};
use arrow::compute;
use arrow::datatypes::{
    DataType, Field, Int64Type, Schema as ArrowSchema, SchemaRef, UInt8Type, UInt32Type, UInt64Type,
};

use super::queue::{Entry, Group, Queue, Stage};
use crate::error::Result;
use crate::operators::Context;
use crate::state::{KEY_HASH_COLUMN, StateSnapshot};
use crate::stream::{ChangelogBatch, WatermarkStep};
use crate::types::{EventTime, ProcessingTime, RowKind, RowKinds, Schema};

const ASKING: &str = "asking";
const JOINED: &str = "joined";

/// What stands before the columns of the rows.
const NOTES: [(&str, DataType, bool); 7] = [
    (KEY_HASH_COLUMN, DataType::UInt64, false),
    ("subtask", DataType::UInt32, false),
    ("place", DataType::UInt64, false),
    ("kind", DataType::UInt8, false),
    ("attempts", DataType::UInt32, false),
    ("due", DataType::Int64, true),
    ("watermark", DataType::Int64, true),
];

/// Freezes the queue.
pub(super) fn snapshot(queue: &Queue, ctx: &Context) -> Result<StateSnapshot> {
    let (mut asking, mut joined) = (Vec::new(), Vec::new());
    let mut before = None;
    for (place, entry) in queue.entries.iter().enumerate() {
        match entry {
            Entry::Watermark(watermark) => before = Some(*watermark),
            Entry::Rows(group) => {
                let batch = written(group, place, before.take(), ctx)?;
                match group.stage {
                    Stage::Joined => joined.push(batch),
                    _ => asking.push(batch),
                }
            }
        }
    }
    let mut snapshot = StateSnapshot::default();
    for (name, batches) in [(ASKING, asking), (JOINED, joined)] {
        let whole = match batches.first() {
            Some(first) => vec![compute::concat_batches(&first.schema(), &batches)?],
            None => vec![],
        };
        snapshot.insert_keyed(name, whole);
    }
    Ok(snapshot)
}

fn written(
    group: &Group,
    place: usize,
    before: Option<EventTime>,
    ctx: &Context,
) -> Result<RecordBatch> {
    let (batch, rows) = (&group.batch, group.batch.num_rows());
    let due = match group.stage {
        Stage::Delayed { due, .. } => Some(due.millis()),
        _ => None,
    };
    let mut watermarks = vec![None; rows];
    let first = before.map(|watermark| WatermarkStep { row: 0, watermark });
    for step in first.into_iter().chain(batch.steps.iter()) {
        let known: &mut Option<i64> = &mut watermarks[step.row];
        *known = (*known).max(Some(step.watermark.millis()));
    }
    let subtask = ctx.subtask();
    let first_group = subtask.key_groups().first;
    let first_hash = first_group.least_hash(subtask.max_parallelism);
    let notes: [ArrayRef; 7] = [
        Arc::new(UInt64Array::from(vec![first_hash; rows])),
        Arc::new(UInt32Array::from(vec![subtask.index as u32; rows])),
        Arc::new(UInt64Array::from(vec![place as u64; rows])),
        Arc::new(UInt8Array::from_iter_values(
            (0..rows).map(|row| batch.kinds.get(row) as u8),
        )),
        Arc::new(UInt32Array::from(vec![group.attempts; rows])),
        Arc::new(Int64Array::from(vec![due; rows])),
        Arc::new(Int64Array::from(watermarks)),
    ];
    let columns = [&notes[..], batch.rows.columns()].concat();
    let schema = noted(batch.rows.schema_ref());
    Ok(RecordBatch::try_new(schema, columns)?)
}

/// The columns of rows behind the notes.
fn noted(rows: &ArrowSchema) -> SchemaRef {
    let notes = NOTES.iter().map(|(name, data_type, nullable)| {
        Arc::new(Field::new(*name, data_type.clone(), *nullable))
    });
    let fields: Vec<_> = notes.chain(rows.fields().iter().cloned()).collect();
    Arc::new(ArrowSchema::new(fields))
}

/// The tables of a lookup join whose rows wait, of rows with the columns of `input` that become rows with those of `output`.
pub fn lookup_state_schema(input: &Schema, output: &Schema) -> Vec<(String, SchemaRef)> {
    let tables = [(ASKING, input), (JOINED, output)];
    tables
        .map(|(name, rows)| (name.to_string(), noted(&rows.to_arrow())))
        .to_vec()
}

/// Takes up what [`snapshot`] has frozen. A watermark that the context has come to stands behind all rows.
pub(super) fn restore(queue: &mut Queue, ctx: &Context, snapshot: &StateSnapshot) -> Result<()> {
    let mut groups = Vec::new();
    for (name, is_joined) in [(ASKING, false), (JOINED, true)] {
        for batch in snapshot.batches(name) {
            read(batch, is_joined, ctx, &mut groups)?;
        }
    }
    groups.sort_by_key(|(place, _)| *place);
    if groups.is_empty() {
        return Ok(());
    }
    let mut passed = EventTime::MIN;
    for (_, group) in groups {
        let steps = group.batch.steps.last();
        queue.push_group(group, passed);
        passed = steps.map_or(passed, |last| passed.max(last));
    }
    if ctx.watermark() > EventTime::MIN {
        queue.push_watermark(ctx.watermark());
    }
    Ok(())
}

type Placed = ((u32, u64), Group);

fn read(batch: &RecordBatch, is_joined: bool, ctx: &Context, to: &mut Vec<Placed>) -> Result<()> {
    let subtasks = batch.column(1).as_primitive::<UInt32Type>().values();
    let places = batch.column(2).as_primitive::<UInt64Type>().values();
    let of: Vec<(u32, u64)> = (0..batch.num_rows())
        .map(|row| (subtasks[row], places[row]))
        .collect();
    let mut first = 0;
    for run in of.chunk_by(|one, next| one == next) {
        let rows = batch.slice(first, run.len());
        to.push((run[0], group_of(&rows, is_joined, ctx)?));
        first += run.len();
    }
    Ok(())
}

/// The rows of one place.
fn group_of(batch: &RecordBatch, is_joined: bool, ctx: &Context) -> Result<Group> {
    let kinds = batch.column(3).as_primitive::<UInt8Type>().values();
    let kinds: Vec<RowKind> = kinds
        .iter()
        .filter_map(|kind| RowKind::from_byte(*kind))
        .collect();
    let columns: Vec<usize> = (NOTES.len()..batch.num_columns()).collect();
    let mut rows = ChangelogBatch::new(batch.project(&columns)?, RowKinds::new(&kinds));
    let watermarks = batch.column(6).as_primitive::<Int64Type>();
    for (row, watermark) in watermarks.iter().enumerate() {
        // In another parallelism the watermark is the lowest of all subtasks.
        if let Some(watermark) = watermark.map(|millis| EventTime(millis).min(ctx.watermark())) {
            rows.steps.push(WatermarkStep { row, watermark });
        }
    }
    let due = batch.column(5).as_primitive::<Int64Type>().iter().next();
    Ok(Group {
        batch: rows,
        attempts: batch.column(4).as_primitive::<UInt32Type>().value(0),
        stage: match (is_joined, due.flatten()) {
            (true, _) => Stage::Joined,
            (false, None) => Stage::New,
            (false, Some(due)) => Stage::Delayed {
                due: ProcessingTime(due),
                since: None,
            },
        },
    })
}
