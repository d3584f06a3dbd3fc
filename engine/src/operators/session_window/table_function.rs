//! SESSION evaluated by itself: rows are held until their session is over, then go out with its bounds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::compute;
use arrow::datatypes::{
    DataType, Field as ArrowField, Int64Type, Schema as ArrowSchema, SchemaRef, UInt64Type,
};

use super::sessions::{LATE, Sessions};
use super::{SessionInput, Work};
use crate::error::{Error, Result};
use crate::operators::window_aggregate::{OUTPUT_ROWS, Window, WindowOutput, pick, window_field};
use crate::operators::{Context, Flow, InputIndex, Operator, Output};
use crate::state::{KEY_HASH_COLUMN, StateSnapshot};
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{EventTime, ProcessingTime, RowKind, RowKinds, Schema};
use crate::window::{WindowClock, WindowColumn, WindowKind, WindowSpec};

/// The name of the keyed table in snapshots.
const TABLE: &str = "session_rows";

/// Adds window_start, window_end and window_time to rows when their session is over.
pub struct SessionWindowTableFunctionOperator {
    input: SessionInput,
    sessions: Sessions,
    rows: HeldRows,
    output: WindowOutput,
    input_schema: SchemaRef,
    schema: SchemaRef,
    work: VecDeque<Work>,
    /// Rows on their way out, with the window of each.
    leaving: VecDeque<(Place, Window)>,
}

/// Where a held row lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    block: u32,
    row: u32,
}

/// Held rows in blocks as they came, and where those of each session lie.
#[derive(Default)]
struct HeldRows {
    blocks: Vec<ChangelogBatch>,
    by_slot: BTreeMap<u32, Vec<Place>>,
    held: usize,
    total: usize,
}

impl SessionWindowTableFunctionOperator {
    /// Sessions of `window` over rows of `input_schema`, by the columns `partition_by`. Fails where the window is no session.
    pub fn new(
        window: WindowSpec,
        time_column: usize,
        partition_by: Vec<usize>,
        input_schema: &Schema,
    ) -> Result<Self> {
        let WindowKind::Session { gap_ms } = window.kind else {
            return Err(Error::internal("only a session holds rows back"));
        };
        let clock = WindowClock::new(&window.time)?;
        let columns = vec![WindowColumn::Start, WindowColumn::End, WindowColumn::Time];
        let mut fields = input_schema.fields.clone();
        fields.extend(columns.iter().map(|column| window_field(&window, *column)));
        let schema = Schema::new(fields);
        let keys = input_schema.project(&partition_by).to_arrow();
        let key_types = keys.fields().iter().map(|key| key.data_type().clone());
        Ok(SessionWindowTableFunctionOperator {
            sessions: Sessions::new(gap_ms, clock, key_types.collect())?,
            rows: HeldRows::default(),
            output: WindowOutput::new(&schema, columns, clock),
            input_schema: input_schema.to_arrow(),
            schema: schema.to_arrow(),
            input: SessionInput {
                time_column: window.time.is_event_time().then_some(time_column),
                clock,
                keys: partition_by,
                gap_ms,
            },
            work: VecDeque::new(),
            leaving: VecDeque::new(),
        })
    }

    fn is_event_time(&self) -> bool {
        self.input.time_column.is_some()
    }

    fn drive(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        loop {
            while !self.leaving.is_empty() {
                if out.is_full() {
                    return Ok(Flow::Blocked);
                }
                self.emit(out)?;
            }
            self.compact()?;
            match self.work.pop_front() {
                None => return Ok(Flow::Done),
                Some(Work::Fold(batch)) => self.hold(ctx, batch, out)?,
                Some(Work::Fire(time)) => self.close(time),
                Some(Work::Watermark(watermark)) => {
                    if watermark > ctx.watermark() {
                        ctx.advance_watermark(watermark);
                    }
                    out.watermark(watermark);
                }
            }
        }
    }

    fn hold(&mut self, ctx: &Context, batch: ChangelogBatch, out: &mut Output) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let times = self.input.times(ctx, &batch)?.into_owned();
        let hashes = self.input.hashes(&batch)?;
        let keys = pick(&batch.rows, &self.input.keys);
        let watermark = self.is_event_time().then_some(ctx.watermark());
        let assigned = self.sessions.assign(&keys, &hashes, &times, watermark)?;
        self.input
            .report_late(ctx, &batch.rows, &times, &assigned.slots, out)?;
        self.rows.merge(&assigned.merged);
        self.rows.add(batch, &assigned.slots);
        Ok(())
    }

    fn close(&mut self, time: EventTime) {
        for slot in self.sessions.close(time) {
            let session = self.sessions.session(slot);
            let window = Window {
                start: session.start,
                end: session.end,
            };
            let rows = self.rows.take(slot);
            self.leaving
                .extend(rows.into_iter().map(|place| (place, window)));
        }
    }

    fn emit(&mut self, out: &mut Output) -> Result<()> {
        let count = self.leaving.len().min(OUTPUT_ROWS);
        let (places, windows): (Vec<Place>, Vec<Window>) = self.leaving.drain(..count).unzip();
        let (mut columns, kinds) = self.rows.gather(&places)?;
        columns.extend(self.output.window_columns(|row| windows[row], count));
        let rows = RecordBatch::try_new(self.schema.clone(), columns)?;
        out.emit(ChangelogBatch::new(rows, kinds));
        Ok(())
    }

    /// Lets go of closed sessions and of blocks most of whose rows have left.
    fn compact(&mut self) -> Result<()> {
        if self.rows.held == 0 {
            self.rows = HeldRows::default();
        } else if self.rows.total > 2 * self.rows.held + OUTPUT_ROWS {
            self.rows = self.rows.packed(&self.input_schema)?;
        }
        if let Some(old) = self.sessions.compact()? {
            let mut by_slot = BTreeMap::new();
            for (new, old) in old.into_iter().enumerate() {
                by_slot.extend(
                    self.rows
                        .by_slot
                        .remove(&old)
                        .map(|places| (new as u32, places)),
                );
            }
            self.rows.by_slot = by_slot;
        }
        Ok(())
    }
}

impl HeldRows {
    fn add(&mut self, batch: ChangelogBatch, slots: &[u32]) {
        let block = self.blocks.len() as u32;
        for (row, slot) in slots.iter().enumerate().filter(|(_, slot)| **slot != LATE) {
            let row = row as u32;
            self.by_slot
                .entry(*slot)
                .or_default()
                .push(Place { block, row });
            self.held += 1;
        }
        self.total += batch.num_rows();
        self.blocks.push(batch);
    }

    fn merge(&mut self, merged: &[(u32, u32)]) {
        for (source, target) in merged {
            if let Some(mut places) = self.by_slot.remove(source) {
                let all = self.by_slot.entry(*target).or_default();
                all.append(&mut places);
                // In order of arrival, as if they had always been one.
                all.sort_unstable();
            }
        }
    }

    fn take(&mut self, slot: u32) -> Vec<Place> {
        let places = self.by_slot.remove(&slot).unwrap_or_default();
        self.held -= places.len();
        places
    }

    fn gather(&self, places: &[Place]) -> Result<(Vec<ArrayRef>, RowKinds)> {
        let indices: Vec<(usize, usize)> = places
            .iter()
            .map(|place| (place.block as usize, place.row as usize))
            .collect();
        let kind = |(block, row): &(usize, usize)| self.blocks[*block].kinds.get(*row);
        let kinds: Vec<RowKind> = indices.iter().map(kind).collect();
        let Some(first) = self.blocks.first() else {
            return Ok((Vec::new(), RowKinds::INSERT_ONLY));
        };
        let columns = (0..first.rows.num_columns()).map(|column| {
            let arrays: Vec<&dyn Array> = self
                .blocks
                .iter()
                .map(|block| block.rows.column(column).as_ref())
                .collect();
            Ok(compute::interleave(&arrays, &indices)?)
        });
        Ok((columns.collect::<Result<_>>()?, RowKinds::new(&kinds)))
    }

    /// All places in order of sessions, with the slot of each.
    fn places(&self) -> (Vec<u32>, Vec<Place>) {
        let places = self.by_slot.iter();
        places
            .flat_map(|(slot, places)| places.iter().map(|place| (*slot, *place)))
            .unzip()
    }

    /// The same rows without those that have left.
    fn packed(&self, schema: &SchemaRef) -> Result<HeldRows> {
        let (slots, places) = self.places();
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_unstable_by_key(|index| places[*index]);
        let sorted: Vec<Place> = order.iter().map(|index| places[*index]).collect();
        let slots: Vec<u32> = order.iter().map(|index| slots[*index]).collect();
        let (columns, kinds) = self.gather(&sorted)?;
        let rows = RecordBatch::try_new(schema.clone(), columns)?;
        let mut packed = HeldRows::default();
        packed.add(ChangelogBatch::new(rows, kinds), &slots);
        Ok(packed)
    }
}

impl Operator for SessionWindowTableFunctionOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        let batch = self.input.without_null_times(ctx, batch)?;
        self.input
            .queue(ctx, &self.sessions, batch, &mut self.work)?;
        self.drive(ctx, out)
    }

    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        if self.is_event_time() {
            self.work.push_back(Work::Fire(watermark));
        }
        self.work.push_back(Work::Watermark(watermark));
        self.drive(ctx, out)
    }

    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.drive(ctx, out)
    }

    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        let time = self.sessions.next_fire_time()?;
        (!self.is_event_time()).then_some(ProcessingTime(time.millis()))
    }

    fn on_processing_time(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        if !self.is_event_time() {
            let now = EventTime(ctx.processing_time().millis());
            self.work.push_back(Work::Fire(now));
        }
        self.drive(ctx, out)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        let (slots, places) = self.rows.places();
        let hashes = self.sessions.hashes_of(&slots);
        let groups = hashes.iter().map(|hash| *hash);
        let starts = slots.iter().map(|slot| self.sessions.session(*slot).start);
        let ends = slots.iter().map(|slot| self.sessions.session(*slot).end);
        let (rows, kinds) = self.rows.gather(&places)?;
        let kinds = (0..places.len()).map(|row| kinds.get(row) as u16);
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from_iter_values(groups)),
            Arc::new(UInt64Array::from(hashes.clone())),
            Arc::new(Int64Array::from_iter_values(starts)),
            Arc::new(Int64Array::from_iter_values(ends)),
            Arc::new(UInt16Array::from_iter_values(kinds)),
        ];
        columns.extend(rows);
        let mut snapshot = StateSnapshot::default();
        let batches = if places.is_empty() {
            Vec::new()
        } else {
            let schema = Arc::new(snapshot_schema(&self.input_schema));
            vec![RecordBatch::try_new(schema, columns)?]
        };
        snapshot.insert_keyed(TABLE, batches);
        Ok(snapshot)
    }

    fn restore_state(&mut self, _: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        for batch in snapshot.batches(TABLE) {
            let rows =
                RecordBatch::try_new(self.input_schema.clone(), batch.columns()[5..].to_vec())?;
            let hashes = batch.column(1).as_primitive::<UInt64Type>().values();
            let starts = batch.column(2).as_primitive::<Int64Type>().values();
            let ends = batch.column(3).as_primitive::<Int64Type>().values();
            let kinds = batch
                .column(4)
                .as_primitive::<arrow::datatypes::UInt16Type>()
                .values();
            let kinds: Vec<RowKind> = kinds
                .iter()
                .map(|byte| RowKind::from_byte(*byte as u8).unwrap_or(RowKind::Insert))
                .collect();
            // Rows of a session stand together: the first of each opens it. Sessions of a key are apart in time.
            let mut firsts = Vec::new();
            let mut numbers = Vec::with_capacity(rows.num_rows());
            for row in 0..rows.num_rows() {
                let same = row > 0
                    && (hashes[row], starts[row], ends[row])
                        == (hashes[row - 1], starts[row - 1], ends[row - 1]);
                if !same {
                    firsts.push(row as u32);
                }
                numbers.push(firsts.len() - 1);
            }
            let of = |values: &[i64]| -> Vec<i64> {
                firsts.iter().map(|row| values[*row as usize]).collect()
            };
            let first_hashes: Vec<u64> = firsts.iter().map(|row| hashes[*row as usize]).collect();
            let keys = compute::take_record_batch(&rows, &UInt32Array::from(firsts.clone()))?;
            let slots = self.sessions.restore(
                &pick(&keys, &self.input.keys),
                &first_hashes,
                &of(starts),
                &of(ends),
            )?;
            let slots: Vec<u32> = numbers.into_iter().map(|number| slots[number]).collect();
            self.rows
                .add(ChangelogBatch::new(rows, RowKinds::new(&kinds)), &slots);
        }
        Ok(())
    }
}

fn snapshot_schema(input: &SchemaRef) -> ArrowSchema {
    let mut fields = vec![
        Arc::new(ArrowField::new(KEY_HASH_COLUMN, DataType::UInt64, false)),
        Arc::new(ArrowField::new("hash", DataType::UInt64, false)),
        Arc::new(ArrowField::new("session_start", DataType::Int64, false)),
        Arc::new(ArrowField::new("session_end", DataType::Int64, false)),
        Arc::new(ArrowField::new("kind", DataType::UInt16, false)),
    ];
    fields.extend(input.fields().iter().cloned());
    ArrowSchema::new(fields)
}
