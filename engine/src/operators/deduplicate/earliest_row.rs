//! Keeps the row of each key with the earliest event time, given when the watermark has passed it: no earlier one can come.
//!
//! Rows go out in the order of time, then of arrival, across all keys. Watermark steps inside a batch fire nothing at once: they
//! are remembered, and when the watermark behind the batch comes each of them releases its rows. That is the same, as a row
//! behind a step can neither be on time and earlier than a row which the step releases, nor be given for the same key.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use arrow::array::{
    AsArray, BooleanArray, Int64Array, RecordBatch, TimestampMillisecondArray, UInt64Array,
};
use arrow::compute;
use arrow::datatypes::{DataType, Int64Type, SchemaRef, UInt64Type};

use super::{DeduplicateSpec, ROWS};
use crate::error::{Error, Result};
use crate::operators::expiry::Sweep;
use crate::operators::keyed_rows::{SNAPSHOT_ROWS, keyed_batch, keyed_schema, unkeyed_batch};
use crate::operators::keyed_state::{DueTime, EXPIRY_COLUMN, KeySet, KeyedState};
use crate::operators::partition_table::{PartitionTable, at};
use crate::operators::{Context, Flow, InputIndex, LateRows, Operator, Output, RESTORE_PIECES};
use crate::state::{RowSlab, StateSnapshot, TimeToLive, keep_at};
use crate::stream::{ChangelogBatch, CheckpointId, WatermarkStep, WatermarkSteps};
use crate::types::{EventTime, ProcessingTime};
use crate::watermark::watermark_millis;

/// The table of a snapshot with the keys whose row has been given.
const GIVEN: &str = "given";
/// The column of a snapshot that says by which watermark a row goes out.
const FIRES_AT: &str = "fires_at";
/// The column that says how many rows had come before it.
const ARRIVAL: &str = "arrival";
/// About how many rows a batch of the output has.
const OUTPUT_ROWS: usize = 8192;
/// No row.
const NONE: u32 = u32::MAX;
/// When a key is forgotten whose row has not been given.
const NOT_GIVEN: i64 = i64::MIN;

/// Keeps the earliest row of each key. Input and output are insert-only. A row before the watermark is late, one at it is not.
/// State: the row of each key that waits; then the key, for a time to live.
pub struct DeduplicateEarliestRowOperator {
    spec: DeduplicateSpec,
    order_column: usize,
    keys: PartitionTable,
    rows: RowSlab,
    /// The row of each key that waits, or [`NONE`].
    waiting: Vec<u32>,
    /// Its place in the queue.
    places: Vec<Place>,
    /// When each key is forgotten whose row was given, or [`NOT_GIVEN`].
    expiry: Vec<i64>,
    queue: BinaryHeap<Reverse<(Place, u32)>>,
    arrivals: u64,
    watermarks: VecDeque<EventTime>,
    sweep: Sweep,
    ids: Vec<u32>,
}

/// When a row goes out: with the first watermark at or above `fires_at`, ordered by time and arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// The row's time, or just above the watermark at which it came.
    fires_at: i64,
    time: i64,
    arrival: u64,
}

const NOWHERE: Place = Place {
    fires_at: i64::MAX,
    time: i64::MAX,
    arrival: u64::MAX,
};

impl DeduplicateEarliestRowOperator {
    /// An operator as `spec` says, which must name an event-time column.
    pub fn new(spec: DeduplicateSpec) -> Result<Self> {
        let order_column = spec
            .order_column
            .ok_or_else(|| Error::internal("event time needs a column"))?;
        Ok(DeduplicateEarliestRowOperator {
            order_column,
            keys: PartitionTable::new(&spec.schema, &spec.key)?,
            rows: RowSlab::new(spec.schema.to_arrow()),
            waiting: Vec::new(),
            places: Vec::new(),
            expiry: Vec::new(),
            queue: BinaryHeap::new(),
            arrivals: 0,
            watermarks: VecDeque::new(),
            sweep: Sweep::new(spec.time_to_live),
            ids: Vec::new(),
            spec,
        })
    }

    /// The batch without late rows, and the watermark before each row.
    fn on_time(
        &self,
        ctx: &Context,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<(ChangelogBatch, Vec<EventTime>)> {
        let times = watermark_millis(batch.rows.column(self.order_column))?;
        let watermarks = batch.steps.expand(ctx.watermark(), batch.num_rows());
        let late: BooleanArray = times
            .iter()
            .zip(&watermarks)
            .map(|(time, watermark)| Some(*time < watermark.millis()))
            .collect();
        if late.true_count() == 0 {
            return Ok((batch, watermarks));
        }
        let rows = compute::filter_record_batch(&batch.rows, &late)?;
        let at: Vec<i64> = late
            .values()
            .set_indices()
            .map(|row| watermarks[row].millis())
            .collect();
        let late_rows = LateRows {
            window_end: TimestampMillisecondArray::new_null(rows.num_rows()),
            watermark: TimestampMillisecondArray::from(at),
            rows,
        };
        out.late(ctx, late_rows);
        let on_time = compute::not(&late)?;
        let watermarks = on_time
            .values()
            .set_indices()
            .map(|row| watermarks[row])
            .collect();
        Ok((batch.filter(&on_time)?.0, watermarks))
    }

    fn add(
        &mut self,
        batch: &ChangelogBatch,
        watermarks: &[EventTime],
        now: ProcessingTime,
    ) -> Result<()> {
        let mut ids = std::mem::take(&mut self.ids);
        self.keys.resolve(batch, &mut ids)?;
        self.grow();
        let times = watermark_millis(batch.rows.column(self.order_column))?;
        let mut touched: Vec<u32> = Vec::new();
        let first_arrival = self.arrivals;
        for (row, id) in ids.iter().enumerate() {
            let key = *id as usize;
            let held = self.places[key];
            let is_given = !TimeToLive::is_expired(self.expiry[key], now);
            if is_given || (held != NOWHERE && times[row] >= held.time) {
                continue;
            }
            if held == NOWHERE || held.arrival < first_arrival {
                touched.push(*id);
            }
            self.places[key] = Place {
                fires_at: times[row].max(watermarks[row].millis().saturating_add(1)),
                time: times[row],
                arrival: first_arrival + row as u64,
            };
        }
        self.arrivals += ids.len() as u64;
        self.ids = ids;
        self.store(batch, &touched, first_arrival)
    }

    /// Moves the rows that wait from the batch into the state.
    fn store(&mut self, batch: &ChangelogBatch, touched: &[u32], first_arrival: u64) -> Result<()> {
        let replaced: Vec<u32> = at(&self.waiting, touched)
            .into_iter()
            .filter(|held| *held != NONE)
            .collect();
        let places = at(&self.places, touched);
        let stay: Vec<u32> = places
            .iter()
            .map(|place| (place.arrival - first_arrival) as u32)
            .collect();
        let mut ids = Vec::with_capacity(stay.len());
        self.rows.remove(&replaced)?;
        self.rows.insert_some(&batch.rows, &stay, &mut ids)?;
        for ((key, place), id) in touched.iter().zip(places).zip(ids) {
            self.waiting[*key as usize] = id;
            self.queue.push(Reverse((place, *key)));
        }
        Ok(())
    }

    fn grow(&mut self) {
        self.waiting.resize(self.keys.len(), NONE);
        self.places.resize(self.keys.len(), NOWHERE);
        self.expiry.resize(self.keys.len(), NOT_GIVEN);
    }

    /// Lets rows go that the watermarks have passed, as long as there is room.
    fn release(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        let expiry = self.spec.time_to_live.expiry(ctx.processing_time());
        let mut ids: Vec<u32> = Vec::new();
        let mut steps = WatermarkSteps::NONE;
        let mut passed: Option<EventTime> = None;
        while let Some(watermark) = self.watermarks.front().copied() {
            while let Some(key) = self.next_due(watermark) {
                if out.is_full() {
                    self.emit(&ids, steps, out)?;
                    passed.into_iter().for_each(|passed| out.watermark(passed));
                    return Ok(Flow::Blocked);
                }
                if let Some(watermark) = passed.take() {
                    let row = ids.len();
                    steps.push(WatermarkStep { row, watermark });
                }
                self.queue.pop();
                ctx.keys_changed(&[self.keys.hashes()[key as usize]]);
                ids.push(self.give(key, expiry));
                if ids.len() == OUTPUT_ROWS {
                    self.emit(&ids, std::mem::take(&mut steps), out)?;
                    ids.clear();
                }
            }
            self.watermarks.pop_front();
            passed = Some(watermark);
        }
        self.emit(&ids, steps, out)?;
        passed.into_iter().for_each(|passed| out.watermark(passed));
        Ok(Flow::Done)
    }

    /// The first key in the queue, if the watermark has passed its row.
    fn next_due(&mut self, watermark: EventTime) -> Option<u32> {
        while let Some(Reverse((place, key))) = self.queue.peek().copied() {
            if self.places[key as usize] == place {
                return (place.fires_at <= watermark.millis()).then_some(key);
            }
            self.queue.pop();
        }
        None
    }

    fn give(&mut self, key: u32, expiry: i64) -> u32 {
        let key = key as usize;
        self.places[key] = NOWHERE;
        self.expiry[key] = expiry;
        std::mem::replace(&mut self.waiting[key], NONE)
    }

    fn emit(&mut self, ids: &[u32], steps: WatermarkSteps, out: &mut Output) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        let rows = self.rows.gather(ids)?;
        self.rows.remove(ids)?;
        out.emit(ChangelogBatch {
            steps,
            ..ChangelogBatch::insert_only(rows)
        });
        Ok(())
    }

    /// Forgets keys whose row was given and whose time is over, now and then.
    fn forget(&mut self, ctx: &mut Context) -> Result<()> {
        let now = ctx.processing_time();
        if !self.sweep.is_due(now) {
            return Ok(());
        }
        let lives = |key: &u32| {
            let key = *key as usize;
            self.waiting[key] != NONE || !TimeToLive::is_expired(self.expiry[key], now)
        };
        let (live, gone): (Vec<u32>, Vec<u32>) = self.keys.ids().into_iter().partition(lives);
        ctx.keys_changed(&at(self.keys.hashes(), &gone));
        self.keep(&live)
    }

    /// Forgets all keys but these, which get new numbers. Rows of those that go must be gone.
    fn keep(&mut self, live: &[u32]) -> Result<()> {
        if live.len() == self.keys.len() {
            return Ok(());
        }
        self.keys.keep(live)?;
        keep_at(&mut self.waiting, live);
        keep_at(&mut self.places, live);
        keep_at(&mut self.expiry, live);
        self.queue_anew();
        Ok(())
    }

    fn snapshot_keys(&self, keys: Vec<u32>) -> Result<StateSnapshot> {
        let waits = |key: &u32| self.waiting[*key as usize] != NONE;
        let (waiting, given): (Vec<u32>, Vec<u32>) = keys.into_iter().partition(waits);
        let waiting = waiting.chunks(SNAPSHOT_ROWS);
        let given = given.chunks(SNAPSHOT_ROWS);
        let rows: Result<Vec<_>> = waiting.map(|keys| self.snapshot_waiting(keys)).collect();
        let keys: Result<Vec<_>> = given.map(|keys| self.snapshot_given(keys)).collect();
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed(ROWS, rows?);
        snapshot.insert_keyed(GIVEN, keys?);
        Ok(snapshot)
    }

    fn snapshot_waiting(&self, keys: &[u32]) -> Result<RecordBatch> {
        let places = at(&self.places, keys);
        let fires_at = Int64Array::from_iter_values(places.iter().map(|place| place.fires_at));
        let arrivals = UInt64Array::from_iter_values(places.iter().map(|place| place.arrival));
        keyed_batch(
            at(self.keys.hashes(), keys),
            &[
                (FIRES_AT, Arc::new(fires_at)),
                (ARRIVAL, Arc::new(arrivals)),
            ],
            &self.rows.gather(&at(&self.waiting, keys))?,
        )
    }

    fn snapshot_given(&self, keys: &[u32]) -> Result<RecordBatch> {
        let expiry = Int64Array::from(at(&self.expiry, keys));
        keyed_batch(
            at(self.keys.hashes(), keys),
            &[(EXPIRY_COLUMN, Arc::new(expiry))],
            &self.keys.key_rows(keys)?,
        )
    }

    fn load_waiting(&mut self, batch: &RecordBatch) -> Result<()> {
        let (notes, rows) = unkeyed_batch(batch, 2, self.rows.schema())?;
        let fires_at = notes[0].as_primitive::<Int64Type>().values();
        let arrivals = notes[1].as_primitive::<UInt64Type>().values();
        let times = watermark_millis(rows.column(self.order_column))?;
        let keys = self.keys.resolve_rows(&rows)?;
        self.grow();
        let mut ids = Vec::new();
        self.rows.insert(&rows, &mut ids)?;
        for (row, key) in keys.iter().enumerate() {
            let place = Place {
                fires_at: fires_at[row],
                time: times[row],
                arrival: arrivals[row],
            };
            self.waiting[*key as usize] = ids[row];
            self.places[*key as usize] = place;
            self.queue.push(Reverse((place, *key)));
            self.arrivals = self.arrivals.max(arrivals[row] + 1);
        }
        Ok(())
    }

    fn load_given(&mut self, batch: &RecordBatch) -> Result<()> {
        let expiry = batch.column(1).as_primitive::<Int64Type>().values();
        let keys = &batch.columns()[2..];
        let keys = self.keys.resolve_keys(keys, batch.num_rows())?;
        self.grow();
        for (row, key) in keys.iter().enumerate() {
            self.expiry[*key as usize] = expiry[row];
        }
        Ok(())
    }

    fn queue_anew(&mut self) {
        let waits = |key: &usize| self.waiting[*key] != NONE;
        let keys = (0..self.waiting.len()).filter(waits);
        self.queue = keys
            .map(|key| Reverse((self.places[key], key as u32)))
            .collect();
    }
}

impl Operator for DeduplicateEarliestRowOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        let now = ctx.processing_time();
        self.forget(ctx)?;
        let steps = batch.steps.clone();
        let (batch, watermarks) = self.on_time(ctx, batch, out)?;
        self.add(&batch, &watermarks, now)?;
        self.watermarks
            .extend(steps.iter().map(|step| step.watermark));
        Ok(Flow::Done)
    }

    fn process_watermark(
        &mut self,
        ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        if self.watermarks.back() != Some(&watermark) {
            self.watermarks.push_back(watermark);
        }
        self.release(ctx, out)
    }

    fn resume(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.release(ctx, out)
    }

    fn snapshot_state(&mut self, ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        self.snapshot_keyed(ctx)
    }

    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        let notes = [(FIRES_AT, DataType::Int64), (ARRIVAL, DataType::UInt64)];
        vec![(ROWS.to_string(), keyed_schema(&notes, self.rows.schema()))]
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

impl KeyedState for DeduplicateEarliestRowOperator {
    fn key_columns(&self, _: InputIndex) -> &[usize] {
        self.keys.keys()
    }

    fn snapshot_keyed(&mut self, _: &Context) -> Result<StateSnapshot> {
        self.snapshot_keys(self.keys.ids())
    }

    fn load_keyed(&mut self, _: &Context, snapshot: &StateSnapshot) -> Result<()> {
        let rows = snapshot.batches(ROWS);
        rows.iter().try_for_each(|rows| self.load_waiting(rows))?;
        let keys = snapshot.batches(GIVEN);
        keys.iter().try_for_each(|keys| self.load_given(keys))
    }

    fn clear_keyed(&mut self) -> Result<()> {
        self.rows = RowSlab::new(self.rows.schema().clone());
        self.waiting = Vec::new();
        self.places = Vec::new();
        self.expiry = Vec::new();
        self.queue = BinaryHeap::new();
        self.keys.keep(&[])
    }

    fn size_bytes(&self) -> usize {
        let by_key = self.waiting.capacity() * 4
            + self.places.capacity() * size_of::<Place>()
            + self.expiry.capacity() * 8;
        let queue = self.queue.capacity() * size_of::<(Place, u32)>();
        self.keys.size_bytes() + self.rows.size_bytes() + by_key + queue
    }

    fn due_time(&self) -> DueTime {
        DueTime::Event
    }

    fn due(&self, _: &str, rows: &RecordBatch) -> Vec<i64> {
        match rows.column_by_name(FIRES_AT) {
            Some(times) => times.as_primitive::<Int64Type>().values().to_vec(),
            None => vec![i64::MAX; rows.num_rows()],
        }
    }

    fn export_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        self.snapshot_keys(self.keys.ids_of(keys))
    }

    fn evict_keyed(&mut self, _: &Context, keys: &KeySet) -> Result<StateSnapshot> {
        let mut gone = self.keys.ids_of(keys);
        let snapshot = self.snapshot_keys(gone.clone())?;
        gone.retain(|key| self.waiting[*key as usize] != NONE);
        self.rows.remove(&at(&self.waiting, &gone))?;
        self.keep(&self.keys.ids_but(keys))?;
        Ok(snapshot)
    }
}
