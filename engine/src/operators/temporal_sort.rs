//! Sorts rows by time: in event time they go out in order when the watermark has passed them; in processing time the rows of one
//! instant are sorted by the other keys when it is over.
//!
//! A row is late where one with its time, or a later one, has gone out.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMillisecondArray, UInt32Array,
};
use arrow::compute;
use arrow::datatypes::{DataType, Field, Int64Type, Schema as ArrowSchema, SchemaRef};

use super::keyed_rows::SNAPSHOT_ROWS;
use super::rank::SortOrder;
use super::{Context, Flow, InputIndex, LateRows, Operator, Output};
use crate::error::Result;
use crate::state::{RowSlab, StateSnapshot};
use crate::stream::{ChangelogBatch, CheckpointId, WatermarkStep, WatermarkSteps};
use crate::types::{EventTime, ProcessingTime, Schema, SortKey};
use crate::watermark::watermark_millis;

const ROWS: &str = "rows";
const LAST: &str = "last";
/// About how many rows a batch of the output has.
const OUTPUT_ROWS: usize = 8192;

/// What a temporal sort does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemporalSortSpec {
    /// The columns of input and output.
    pub schema: Schema,
    /// The first key of ORDER BY.
    pub time: SortTime,
    /// The others; rows that are equal in all keys keep the order of arrival.
    pub then_by: Vec<SortKey>,
}

/// The time by which rows are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortTime {
    /// Of this event-time column.
    Event(usize),
    /// Of arrival.
    Processing,
}

/// Sorts inserts. State: the rows that have not gone out, of no key. There is one instance, as the order is over all rows.
pub struct TemporalSortOperator {
    spec: TemporalSortSpec,
    order: SortOrder,
    rows: RowSlab,
    /// The ids of the rows of each time, in order of arrival.
    waiting: BTreeMap<i64, Vec<u32>>,
    /// The time of the last row that was released.
    last: Option<i64>,
    leaving: VecDeque<Leaving>,
}

/// What goes out next.
#[derive(Debug, Clone, Copy)]
enum Leaving {
    Row(u32),
    Watermark(EventTime),
}

impl TemporalSortOperator {
    /// The columns of a snapshot: the time, then those of the rows.
    fn snapshot_schema(&self) -> SchemaRef {
        let mut fields = vec![Arc::new(Field::new("time", DataType::Int64, false))];
        fields.extend(self.rows.schema().fields().iter().cloned());
        Arc::new(ArrowSchema::new(fields))
    }

    /// An operator as `spec` says.
    pub fn new(spec: TemporalSortSpec) -> Result<Self> {
        Ok(TemporalSortOperator {
            order: SortOrder::new(&spec.schema, &spec.then_by)?,
            rows: RowSlab::new(spec.schema.to_arrow()),
            waiting: BTreeMap::new(),
            last: None,
            leaving: VecDeque::new(),
            spec,
        })
    }

    /// Takes rows in, at the times that they have or arrive at.
    fn add(&mut self, rows: &RecordBatch, times: &[i64]) -> Result<()> {
        let mut ids = Vec::with_capacity(times.len());
        self.rows.insert(rows, &mut ids)?;
        for (time, id) in times.iter().zip(ids) {
            self.waiting.entry(*time).or_default().push(id);
        }
        Ok(())
    }

    fn add_by_event_time(
        &mut self,
        ctx: &mut Context,
        column: usize,
        batch: &ChangelogBatch,
        out: &mut Output,
    ) -> Result<()> {
        let times = watermark_millis(batch.rows.column(column))?;
        for slice in batch.by_steps(ctx.watermark()) {
            if slice.watermark > ctx.watermark() {
                ctx.advance_watermark(slice.watermark);
                self.release(slice.watermark.millis())?;
                self.leaving.push_back(Leaving::Watermark(slice.watermark));
            }
            let is_late = |row: &u32| self.last.is_some_and(|last| times[*row as usize] <= last);
            let rows = slice.offset as u32..(slice.offset + slice.length) as u32;
            let (late, on_time): (Vec<u32>, Vec<u32>) = rows.partition(is_late);
            if !late.is_empty() {
                let watermarks = vec![slice.watermark.millis(); late.len()];
                let late = LateRows {
                    window_end: TimestampMillisecondArray::new_null(late.len()),
                    watermark: TimestampMillisecondArray::from(watermarks),
                    rows: taken(&batch.rows, late)?,
                };
                out.late(ctx, late);
            }
            let times: Vec<i64> = on_time.iter().map(|row| times[*row as usize]).collect();
            self.add(&taken(&batch.rows, on_time)?, &times)?;
        }
        Ok(())
    }

    /// Lets the rows up to and with a time go, in order.
    fn release(&mut self, time: i64) -> Result<()> {
        while let Some(first) = self
            .waiting
            .first_entry()
            .filter(|first| *first.key() <= time)
        {
            let (time, mut ids) = first.remove_entry();
            self.last = Some(time);
            if ids.len() > 1 && !self.spec.then_by.is_empty() {
                ids = self.sorted(&ids)?;
            }
            self.leaving.extend(ids.into_iter().map(Leaving::Row));
        }
        Ok(())
    }

    fn sorted(&self, ids: &[u32]) -> Result<Vec<u32>> {
        let keys = self.order.keys(&self.rows.gather(ids)?)?;
        let mut places: Vec<usize> = (0..ids.len()).collect();
        places.sort_by(|a, b| keys.bytes(*a).cmp(keys.bytes(*b)));
        Ok(places.into_iter().map(|place| ids[place]).collect())
    }

    /// Emits what leaves, as long as there is room.
    fn emit(&mut self, out: &mut Output) -> Result<Flow> {
        while !self.leaving.is_empty() {
            if out.is_full() {
                return Ok(Flow::Blocked);
            }
            let mut ids = Vec::new();
            let mut steps = WatermarkSteps::NONE;
            let mut passed: Option<EventTime> = None;
            while let Some(next) = self.leaving.front().copied() {
                match next {
                    Leaving::Watermark(watermark) => passed = Some(watermark),
                    Leaving::Row(_) if ids.len() == OUTPUT_ROWS => break,
                    Leaving::Row(id) => {
                        if let Some(watermark) = passed.take() {
                            let row = ids.len();
                            steps.push(WatermarkStep { row, watermark });
                        }
                        ids.push(id);
                    }
                }
                self.leaving.pop_front();
            }
            let rows = self.rows.gather(&ids)?;
            self.rows.remove(&ids)?;
            out.emit(ChangelogBatch {
                steps,
                ..ChangelogBatch::insert_only(rows)
            });
            passed.into_iter().for_each(|passed| out.watermark(passed));
        }
        Ok(Flow::Done)
    }
}

fn taken(rows: &RecordBatch, indices: Vec<u32>) -> Result<RecordBatch> {
    if indices.len() == rows.num_rows() {
        return Ok(rows.clone());
    }
    let indices = UInt32Array::from(indices);
    Ok(compute::take_record_batch(rows, &indices)?)
}

impl Operator for TemporalSortOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        match self.spec.time {
            SortTime::Event(column) => self.add_by_event_time(ctx, column, &batch, out)?,
            SortTime::Processing if self.spec.then_by.is_empty() => out.emit(batch),
            SortTime::Processing => {
                let now = ctx.processing_time().millis();
                self.add(&batch.rows, &vec![now; batch.num_rows()])?;
            }
        }
        self.emit(out)
    }

    fn process_watermark(
        &mut self,
        _ctx: &mut Context,
        watermark: EventTime,
        out: &mut Output,
    ) -> Result<Flow> {
        if let SortTime::Event(_) = self.spec.time {
            self.release(watermark.millis())?;
        }
        self.leaving.push_back(Leaving::Watermark(watermark));
        self.emit(out)
    }

    fn resume(&mut self, _ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.emit(out)
    }

    fn next_processing_timer(&self) -> Option<ProcessingTime> {
        let first = self.waiting.keys().next().copied();
        match self.spec.time {
            SortTime::Event(_) => None,
            SortTime::Processing => first.map(|time| ProcessingTime(time + 1)),
        }
    }

    fn on_processing_time(&mut self, ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.release(ctx.processing_time().millis() - 1)?;
        self.emit(out)
    }

    fn finish(&mut self, _ctx: &mut Context, out: &mut Output) -> Result<Flow> {
        self.release(i64::MAX)?;
        self.emit(out)
    }

    fn snapshot_state(&mut self, _ctx: &mut Context, _: CheckpointId) -> Result<StateSnapshot> {
        let held: Vec<(i64, u32)> = self
            .waiting
            .iter()
            .flat_map(|(time, ids)| ids.iter().map(|id| (*time, *id)))
            .collect();
        let mut batches = Vec::new();
        for held in held.chunks(SNAPSHOT_ROWS) {
            let (times, ids): (Vec<i64>, Vec<u32>) = held.iter().copied().unzip();
            let rows = self.rows.gather(&ids)?;
            let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(times))];
            columns.extend_from_slice(rows.columns());
            batches.push(RecordBatch::try_new(self.snapshot_schema(), columns)?);
        }
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_operator(ROWS, batches);
        snapshot.insert_json(LAST, &self.last)?;
        Ok(snapshot)
    }

    fn state_schema(&self) -> Vec<(String, SchemaRef)> {
        vec![(ROWS.to_string(), self.snapshot_schema())]
    }

    fn restore_state(&mut self, _ctx: &mut Context, snapshot: StateSnapshot) -> Result<()> {
        for batch in snapshot.batches(ROWS) {
            let times = batch.column(0).as_primitive::<Int64Type>().values();
            let columns = batch.columns()[1..].to_vec();
            let rows = RecordBatch::try_new(self.rows.schema().clone(), columns)?;
            self.add(&rows, times)?;
        }
        let last: Vec<Option<i64>> = snapshot.json(LAST)?;
        self.last = last.into_iter().flatten().max();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::test_bench::check;
    use crate::types::{LogicalType, TypeRoot};

    fn check_sort(time: SortTime, stream: &str, expected: &str) {
        let schema = Schema::new(vec![
            crate::types::Field::new("k", LogicalType::STRING),
            crate::types::Field::new("v", LogicalType::INT),
            crate::types::Field::new("ts", LogicalType::nullable(TypeRoot::Timestamp(3))),
        ]);
        let spec = TemporalSortSpec {
            schema: schema.clone(),
            time,
            then_by: vec![SortKey {
                column: 1,
                descending: true,
                nulls_first: false,
            }],
        };
        let make = || TemporalSortOperator::new(spec.clone()).unwrap();
        check(make, &[&schema], stream, expected);
    }

    #[test]
    fn rows_go_out_in_order_when_the_watermark_has_passed_them() {
        check_sort(
            SortTime::Event(2),
            "
                +I a, 1, 10
                +I b, 2, 5
                +I c, null, 5
                +I d, 3, 5
                +I e, 3, 5      // equal in all keys: as they came
                -- watermark 7
                +I f, 1, 5      // one of its time has gone out
                +I g, 1, 6      // before the watermark, but none of its time or later has
                -- watermark 9
                +I h, 1, 12
                -- end
            ",
            "
                +I d, 3, 5
                +I e, 3, 5
                +I b, 2, 5
                +I c, null, 5
                -- watermark 7
                +I g, 1, 6
                -- watermark 9
                +I a, 1, 10
                +I h, 1, 12
                -- watermark end
                late f, 1, 5
            ",
        );
    }

    #[test]
    fn in_processing_time_the_rows_of_an_instant_are_sorted_when_it_is_over() {
        check_sort(
            SortTime::Processing,
            "
                -- clock 5
                +I a, 1, 0
                +I b, 2, 0
                -- clock 6
                +I c, 3, 0
                +I d, 4, 0
                -- end
            ",
            "
                +I b, 2, 0
                +I a, 1, 0
                -- watermark end
                +I d, 4, 0
                +I c, 3, 0
            ",
        );
    }
}
