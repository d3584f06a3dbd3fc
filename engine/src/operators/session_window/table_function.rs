//! SESSION evaluated by itself: rows are held until their session is over, then go out with its bounds.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt16Array, UInt64Array};
use arrow::compute;
use arrow::datatypes::{
    DataType, Field as ArrowField, Schema as ArrowSchema, SchemaRef, UInt16Type, UInt64Type,
};

use super::sessions::{LATE, Sessions};
use super::{SessionInput, Work};
use crate::error::{Error, Result};
use crate::operators::window_aggregate::{OUTPUT_ROWS, Window, WindowOutput, pick, window_field};
use crate::operators::{
    Context, DueTime, Flow, InputIndex, KeySet, KeyedState, Operator, Output, RESTORE_PIECES,
};
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
    /// How many rows have arrived.
    arrivals: u64,
    output: WindowOutput,
    input_schema: SchemaRef,
    schema: SchemaRef,
    work: VecDeque<Work>,
    /// Rows on their way out, with the window of each.
    leaving: VecDeque<(Place, Window)>,
}

/// Where a held row lies, in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    arrival: u64,
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
            arrivals: 0,
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
                Some(Work::Fire(time)) => self.close(ctx, time),
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
        let first = self.arrivals;
        self.arrivals += batch.num_rows() as u64;
        let arrivals: Vec<u64> = (first..self.arrivals).collect();
        self.rows.add(batch, &assigned.slots, &arrivals);
        Ok(())
    }

    fn close(&mut self, ctx: &mut Context, time: EventTime) {
        let closed = self.sessions.close(time);
        ctx.keys_changed(&self.sessions.hashes_of(&closed));
        for slot in closed {
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

    fn snapshot_places(&self, slots: &[u32], places: &[Place]) -> Result<StateSnapshot> {
        let mut snapshot = StateSnapshot::default();
        if places.is_empty() {
            snapshot.insert_keyed(TABLE, Vec::new());
            return Ok(snapshot);
        }
        let (rows, kinds) = self.rows.gather(places)?;
        let kinds = (0..places.len()).map(|row| kinds.get(row) as u16);
        let arrivals = places.iter().map(|place| place.arrival);
        let mut columns = self.sessions.columns_of(slots);
        columns.push(Arc::new(UInt16Array::from_iter_values(kinds)));
        columns.push(Arc::new(UInt64Array::from_iter_values(arrivals)));
        columns.extend(rows);
        let schema = Arc::new(snapshot_schema(&self.input_schema));
        snapshot.insert_keyed(TABLE, vec![RecordBatch::try_new(schema, columns)?]);
        Ok(snapshot)
    }

    /// Lets go of closed sessions and of blocks most of whose rows have left.
    fn compact(&mut self) -> Result<()> {
        if self.rows.held == 0 {
            self.rows = HeldRows::default();
        } else if self.rows.total > 2 * self.rows.held + OUTPUT_ROWS {
            self.rows = self.rows.packed(&self.input_schema)?;
        }
        if let Some(old) = self.sessions.compact()? {
            self.rows.renumber(old);
        }
        Ok(())
    }
}

impl HeldRows {
    /// Holds the rows that are not late. Within a session they come in order of arrival.
    fn add(&mut self, batch: ChangelogBatch, slots: &[u32], arrivals: &[u64]) {
        let block = self.blocks.len() as u32;
        for (row, slot) in slots.iter().enumerate().filter(|(_, slot)| **slot != LATE) {
            self.by_slot.entry(*slot).or_default().push(Place {
                arrival: arrivals[row],
                block,
                row: row as u32,
            });
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

    /// Sessions get other slots; `old` are their slots before, in the order of the new ones.
    fn renumber(&mut self, old: Vec<u32>) {
        let mut by_slot = BTreeMap::new();
        for (new, old) in old.into_iter().enumerate() {
            let places = self.by_slot.remove(&old);
            by_slot.extend(places.map(|places| (new as u32, places)));
        }
        self.by_slot = by_slot;
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

    fn size_bytes(&self) -> usize {
        let blocks = self.blocks.iter();
        let blocks: usize = blocks.map(|block| block.rows.get_array_memory_size()).sum();
        let sessions = self.by_slot.len() * (size_of::<Vec<Place>>() + 16);
        blocks + self.held * size_of::<Place>() + sessions
    }

    /// All places in order of sessions, with the slot of each.
    fn places(&self) -> (Vec<u32>, Vec<Place>) {
        let places = self.by_slot.iter();
        places
            .flat_map(|(slot, places)| places.iter().map(|place| (*slot, *place)))
            .unzip()
    }

    /// The places of some sessions.
    fn places_of(&self, slots: &[u32]) -> (Vec<u32>, Vec<Place>) {
        let places = slots
            .iter()
            .filter_map(|slot| Some((slot, self.by_slot.get(slot)?)));
        places
            .flat_map(|(slot, places)| places.iter().map(|place| (*slot, *place)))
            .unzip()
    }

    /// The same rows without those that have left.
    fn packed(&self, schema: &SchemaRef) -> Result<HeldRows> {
        if self.held == 0 {
            return Ok(HeldRows::default());
        }
        let (slots, places) = self.places();
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_unstable_by_key(|index| places[*index]);
        let sorted: Vec<Place> = order.iter().map(|index| places[*index]).collect();
        let slots: Vec<u32> = order.iter().map(|index| slots[*index]).collect();
        let arrivals: Vec<u64> = sorted.iter().map(|place| place.arrival).collect();
        let (columns, kinds) = self.gather(&sorted)?;
        let rows = RecordBatch::try_new(schema.clone(), columns)?;
        let mut packed = HeldRows::default();
        packed.add(ChangelogBatch::new(rows, kinds), &slots, &arrivals);
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
        self.snapshot_keyed(ctx)
    }

    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        let schema = Arc::new(snapshot_schema(&self.input_schema));
        vec![(TABLE.to_string(), schema)]
    }

    fn restore_state(&mut self, ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        self.load_keyed(ctx, &snapshot)
    }

    fn restore_pieces(&self) -> usize {
        RESTORE_PIECES
    }

    fn keyed_state(&mut self) -> Option<&mut dyn KeyedState> {
        Some(self)
    }
}

impl KeyedState for SessionWindowTableFunctionOperator {
    fn key_columns(&self, _: InputIndex) -> &[usize] {
        &self.input.keys
    }

    fn snapshot_keyed(&mut self, _: &Context) -> Result<StateSnapshot> {
        let (slots, places) = self.rows.places();
        self.snapshot_places(&slots, &places)
    }

    fn export_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let (slots, places) = self.rows.places_of(&self.sessions.slots_of(keys));
        self.snapshot_places(&slots, &places)
    }

    fn evict_keyed(&mut self, ctx: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let gone = self.export_keyed(ctx, keys)?;
        let slots = self.sessions.slots_of(keys);
        if !slots.is_empty() {
            slots.iter().for_each(|slot| drop(self.rows.take(*slot)));
            self.rows = self.rows.packed(&self.input_schema)?;
            let kept = self.sessions.remove(&slots)?;
            self.rows.renumber(kept);
        }
        Ok(gone)
    }

    fn load_keyed(&mut self, _: &Context, snapshot: &StateSnapshot) -> Result<()> {
        for batch in snapshot.batches(TABLE) {
            let rows =
                RecordBatch::try_new(self.input_schema.clone(), batch.columns()[5..].to_vec())?;
            let kinds = batch.column(3).as_primitive::<UInt16Type>().values().iter();
            let kinds: Vec<RowKind> = kinds
                .map(|byte| RowKind::from_byte(*byte as u8).unwrap_or(RowKind::Insert))
                .collect();
            let arrivals = batch.column(4).as_primitive::<UInt64Type>().values();
            let keys = pick(&rows, &self.input.keys);
            let slots = self.sessions.load(&keys, batch)?;
            let rows = ChangelogBatch::new(rows, RowKinds::new(&kinds));
            self.rows.add(rows, &slots, arrivals);
            let next = arrivals.iter().max().map_or(0, |last| last + 1);
            self.arrivals = self.arrivals.max(next);
        }
        Ok(())
    }

    fn clear_keyed(&mut self) -> Result<()> {
        self.rows = HeldRows::default();
        self.sessions.clear()
    }

    fn size_bytes(&self) -> usize {
        self.sessions.size_bytes() + self.rows.size_bytes()
    }

    fn due_time(&self) -> DueTime {
        self.input.due_time()
    }

    fn due(&self, _: &str, rows: &RecordBatch) -> Vec<i64> {
        self.sessions.due(rows)
    }
}

fn snapshot_schema(input: &SchemaRef) -> ArrowSchema {
    let mut fields = vec![
        Arc::new(ArrowField::new(KEY_HASH_COLUMN, DataType::UInt64, false)),
        Arc::new(ArrowField::new("session_start", DataType::Int64, false)),
        Arc::new(ArrowField::new("session_end", DataType::Int64, false)),
        Arc::new(ArrowField::new("kind", DataType::UInt16, false)),
        Arc::new(ArrowField::new("arrival", DataType::UInt64, false)),
    ];
    fields.extend(input.fields().iter().cloned());
    ArrowSchema::new(fields)
}
