//! How the rows of a batch come to their slices: columns picked, hashed, and brought into runs of one slice each.
//!
//! Most batches lie within one slice and are not touched at all. Others are dealt by slice with one counting pass and one
//! `take`; within a slice rows keep their order of arrival, so that the rows of a slice that came too late, which are those
//! behind a certain watermark step, are the end of its run.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, TimestampMillisecondArray, UInt32Array};
use arrow::compute;
use arrow::datatypes::{DataType, Int64Type, TimeUnit, TimestampMillisecondType};

use super::super::null_times::without_null_times;
use super::grouped::KeyedColumns;
use crate::error::{Error, Result};
use crate::operators::{Context, LateRows, Output};
use crate::stream::{ChangelogBatch, KeyHashes, WatermarkSteps};
use crate::types::EventTime;
use crate::window::{SliceAssigner, Slices, WindowClock};

/// A slice of time, ordered by its end. The start tells windows apart that rows bring with them; it is 0 elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SliceKey {
    pub(crate) end: i64,
    pub(crate) start: i64,
}

/// Where the slice of a row stands in the input.
#[derive(Debug, Clone)]
pub(crate) enum SliceSource {
    /// An event-time column, cut by an assigner.
    Time(usize, SliceAssigner),
    /// The clock, cut by an assigner.
    Processing(SliceAssigner),
    /// The row's window: its start and end columns.
    Attached(usize, usize),
    /// Partials of a local phase.
    Partial {
        start: Option<usize>,
        end: usize,
        row_count: usize,
    },
}

/// What of the input is read.
#[derive(Debug, Clone)]
pub(crate) struct SliceInput {
    pub(crate) source: SliceSource,
    pub(crate) clock: WindowClock,
    pub(crate) keys: Vec<usize>,
    /// The arguments of the aggregates, or their partials.
    pub(crate) columns: Vec<usize>,
}

/// The rows of a batch, in runs by slice.
pub(crate) struct SlicedRows {
    /// What folds read, in the order of the runs.
    pub(crate) columns: KeyedColumns,
    /// The runs, by slice.
    pub(crate) runs: Vec<Run>,
    /// The row of the batch that each row was; `None`: the same.
    order: Option<UInt32Array>,
    batch: ChangelogBatch,
}

/// Rows of one slice, in order of arrival.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) slice: SliceKey,
    pub(crate) offset: usize,
    pub(crate) length: usize,
}

impl SliceInput {
    /// Drops and counts the rows without a time. A watermark behind the last kept row follows the batch anyway.
    pub(crate) fn without_null_times(
        &self,
        ctx: &Context,
        batch: ChangelogBatch,
    ) -> Result<ChangelogBatch> {
        let column = match self.source {
            SliceSource::Time(column, _) | SliceSource::Attached(_, column) => column,
            SliceSource::Processing(_) | SliceSource::Partial { .. } => return Ok(batch),
        };
        without_null_times(ctx, batch, column)
    }

    /// Deals the rows of a batch by slice. There are no NULL times.
    pub(crate) fn deal(&self, ctx: &Context, batch: ChangelogBatch) -> Result<SlicedRows> {
        let hashes = match batch
            .hashes
            .as_ref()
            .and_then(|own| own.for_columns(&self.keys))
        {
            Some(hashes) => hashes.to_vec(),
            None => KeyHashes::of(&batch.rows, &self.keys)?.values().to_vec(),
        };
        let columns = KeyedColumns {
            keys: pick(&batch.rows, &self.keys),
            hashes: hashes.into(),
            columns: pick(&batch.rows, &self.columns),
            weights: weights(&batch),
        };
        let rows = batch.num_rows();
        Ok(match self.slices(ctx, &batch)? {
            RowSlices::One(slice) => SlicedRows {
                columns,
                runs: vec![Run {
                    slice,
                    offset: 0,
                    length: rows,
                }],
                order: None,
                batch,
            },
            RowSlices::Each(slices) => dealt(columns, &slices, batch)?,
        })
    }

    fn slices(&self, ctx: &Context, batch: &ChangelogBatch) -> Result<RowSlices> {
        let one = |end: i64| RowSlices::One(SliceKey { end, start: 0 });
        Ok(match &self.source {
            SliceSource::Processing(assigner) => {
                let now = self.clock.to_local(ctx.processing_time().millis());
                one(assigner.slice_end(now))
            }
            SliceSource::Time(column, assigner) => {
                let times = millis(batch.rows.column(*column))?;
                match assigner.assign(&self.clock.all_to_local(times.values())) {
                    Slices::One(end) => one(end),
                    Slices::Each(ends) => RowSlices::of(&ends, None),
                }
            }
            SliceSource::Attached(start, end) => {
                let starts = millis(batch.rows.column(*start))?;
                let ends = millis(batch.rows.column(*end))?;
                RowSlices::of(ends.values(), Some(starts.values()))
            }
            SliceSource::Partial { start, end, .. } => {
                let ends = batch.rows.column(*end).as_primitive::<Int64Type>();
                let starts =
                    start.map(|start| batch.rows.column(start).as_primitive::<Int64Type>());
                RowSlices::of(ends.values(), starts.map(|starts| &starts.values()[..]))
            }
        })
    }
}

enum RowSlices {
    One(SliceKey),
    Each(Vec<SliceKey>),
}

impl RowSlices {
    fn of(ends: &[i64], starts: Option<&[i64]>) -> Self {
        let slice = |row: usize| SliceKey {
            end: ends[row],
            start: starts.map_or(0, |starts| starts[row]),
        };
        if !ends.is_empty() && (1..ends.len()).all(|row| slice(row) == slice(0)) {
            return RowSlices::One(slice(0));
        }
        RowSlices::Each((0..ends.len()).map(slice).collect())
    }
}

/// A time column in milliseconds.
pub(crate) fn millis(column: &ArrayRef) -> Result<&TimestampMillisecondArray> {
    match column.data_type() {
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            Ok(column.as_primitive::<TimestampMillisecondType>())
        }
        other => Err(Error::internal(format!(
            "a time attribute is a timestamp in milliseconds, not {other}"
        ))),
    }
}

pub(crate) fn pick(rows: &RecordBatch, columns: &[usize]) -> Vec<ArrayRef> {
    columns
        .iter()
        .map(|column| rows.column(*column).clone())
        .collect()
}

/// +1 or -1 for each row; `None` where all are +1.
pub(crate) fn weights(batch: &ChangelogBatch) -> Option<Vec<i8>> {
    // +I and +U have the even byte values.
    let bytes = batch.kinds.bytes()?;
    let weights: Vec<i8> = bytes
        .iter()
        .map(|kind| [1, -1, 1, -1][*kind as usize & 3])
        .collect();
    weights.contains(&-1).then_some(weights)
}

/// Brings rows into runs by slice: a counting sort, left out where they lie so already.
fn dealt(columns: KeyedColumns, slices: &[SliceKey], batch: ChangelogBatch) -> Result<SlicedRows> {
    let Dealing { order, runs } = deal_by_slice(slices);
    let columns = match &order {
        None => columns,
        Some(order) => taken(&columns, order)?,
    };
    Ok(SlicedRows {
        columns,
        runs,
        order,
        batch,
    })
}

/// An order of rows that brings each slice's together, `None` where they are, and the runs in that order.
pub(crate) struct Dealing {
    pub(crate) order: Option<UInt32Array>,
    pub(crate) runs: Vec<Run>,
}

pub(crate) fn deal_by_slice(slices: &[SliceKey]) -> Dealing {
    if slices.is_sorted() {
        let mut next = 0;
        let runs = slices.chunk_by(|a, b| a == b).map(|run| {
            let offset = next;
            next += run.len();
            Run {
                slice: run[0],
                offset,
                length: run.len(),
            }
        });
        return Dealing {
            runs: runs.collect(),
            order: None,
        };
    }
    // Rows of one time stand together, so the slice of the row before is mostly the right one.
    let mut numbers: BTreeMap<SliceKey, usize> = BTreeMap::new();
    let mut counts: Vec<usize> = Vec::new();
    let (mut last, mut last_number) = (slices[0], usize::MAX);
    let row_numbers: Vec<usize> = slices
        .iter()
        .map(|slice| {
            if *slice != last || last_number == usize::MAX {
                last = *slice;
                last_number = *numbers.entry(*slice).or_insert_with(|| {
                    counts.push(0);
                    counts.len() - 1
                });
            }
            counts[last_number] += 1;
            last_number
        })
        .collect();
    let mut next = vec![0; counts.len()];
    let mut offset = 0;
    let mut runs = Vec::with_capacity(counts.len());
    for (slice, number) in numbers {
        next[number] = offset;
        runs.push(Run {
            slice,
            offset,
            length: counts[number],
        });
        offset += counts[number];
    }
    let mut order = vec![0u32; slices.len()];
    for (row, number) in row_numbers.into_iter().enumerate() {
        order[next[number]] = row as u32;
        next[number] += 1;
    }
    Dealing {
        order: Some(order.into()),
        runs,
    }
}

/// The columns in another order.
pub(crate) fn taken(columns: &KeyedColumns, order: &UInt32Array) -> Result<KeyedColumns> {
    let take = |columns: &[ArrayRef]| -> Result<Vec<ArrayRef>> {
        let taken = columns
            .iter()
            .map(|column| compute::take(column, order, None));
        Ok(taken.collect::<Result<_, _>>()?)
    };
    let rows = || order.values().iter().map(|row| *row as usize);
    Ok(KeyedColumns {
        keys: take(&columns.keys)?,
        hashes: rows().map(|row| columns.hashes[row]).collect(),
        columns: take(&columns.columns)?,
        weights: columns
            .weights
            .as_ref()
            .map(|weights| rows().map(|row| weights[row]).collect()),
    })
}

/// The first row before which the watermark is at least `watermark`, given the one before the batch; the number of rows
/// where there is none.
pub(crate) fn first_row_at(
    steps: &WatermarkSteps,
    before: EventTime,
    watermark: EventTime,
    rows: usize,
) -> usize {
    if before >= watermark {
        return 0;
    }
    steps
        .iter()
        .find(|step| step.watermark >= watermark)
        .map_or(rows, |step| step.row)
}

impl SlicedRows {
    /// The steps of the batch.
    pub(crate) fn steps(&self) -> &WatermarkSteps {
        &self.batch.steps
    }

    /// The row of the batch at a position of the runs.
    pub(crate) fn row(&self, position: usize) -> usize {
        match &self.order {
            None => position,
            Some(order) => order.value(position) as usize,
        }
    }

    /// How many rows of the run come before the watermark reaches `watermark`; the others are the end of the run.
    pub(crate) fn rows_before(&self, run: &Run, before: EventTime, watermark: EventTime) -> usize {
        if self.batch.steps.is_empty() {
            return if before >= watermark { 0 } else { run.length };
        }
        let first = first_row_at(&self.batch.steps, before, watermark, self.batch.num_rows());
        let (mut low, mut high) = (0, run.length);
        while low < high {
            let middle = (low + high) / 2;
            if self.row(run.offset + middle) < first {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Counts the late rows of a run, those from `kept` on, and keeps them where they are wanted.
    pub(crate) fn report_late(
        &self,
        ctx: &Context,
        source: &SliceSource,
        run: &Run,
        kept: usize,
        window_end: i64,
        out: &mut Output,
    ) -> Result<()> {
        let positions = run.offset + kept..run.offset + run.length;
        let mut rows: Vec<u32> = positions
            .map(|position| self.row(position) as u32)
            .collect();
        if let SliceSource::Partial { row_count, .. } = source {
            let counts = self
                .batch
                .rows
                .column(*row_count)
                .as_primitive::<Int64Type>();
            let repeated = rows
                .iter()
                .flat_map(|row| std::iter::repeat_n(*row, counts.value(*row as usize) as usize));
            rows = repeated.collect();
        }
        let batch = &self.batch;
        let late = if out.keeps_late_rows() {
            let watermarks = batch.steps.expand(ctx.watermark(), batch.num_rows());
            let watermarks = rows.iter().map(|row| watermarks[*row as usize].millis());
            LateRows {
                watermark: TimestampMillisecondArray::from_iter_values(watermarks),
                window_end: TimestampMillisecondArray::from(vec![window_end; rows.len()]),
                rows: compute::take_record_batch(&batch.rows, &UInt32Array::from(rows))?,
            }
        } else {
            only_counted(rows.len())?
        };
        out.late(ctx, late);
        Ok(())
    }
}

/// Late rows that nobody keeps.
pub(crate) fn only_counted(rows: usize) -> Result<LateRows> {
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = std::sync::Arc::new(arrow::datatypes::Schema::empty());
    Ok(LateRows {
        rows: RecordBatch::try_new_with_options(schema, Vec::new(), &options)?,
        window_end: TimestampMillisecondArray::new_null(rows),
        watermark: TimestampMillisecondArray::new_null(rows),
    })
}
