//! Runs an operator over a stream written as text, in every way that must not matter.
//!
//! ```text
//!     +I 1, a, 12000         // kind, then the columns in order; timestamps in milliseconds
//!     right +I 1, b          // a row of the second input; `input2` is the third one
//!     -- watermark 10000
//!     -- clock 5000          // the processing time
//!     -- end                 // the end of bounded input, the largest watermark before it
//! ```
//!
//! What comes out is written in the same way, late rows (`late 1, a`) behind all else; of watermarks without a row between them only the
//! last, the largest as `end`. [`check`] runs the stream with one row a batch,
//! with batches as long as possible (watermarks inside become steps), with a snapshot and restore at every element, and
//! with an output that is always full.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow::compute;
use arrow::datatypes::{DataType, Int64Type};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::{Context, Flow, InputIndex, LateRows, Operator, Output, Subtask};
use crate::stream::{
    ChangelogBatch, CheckpointId, StreamElement, WatermarkStep, WatermarkSteps, concat_batches,
};
use crate::types::{EventTime, ProcessingTime, RowKind, RowKinds, Schema};

/// Checks what an operator makes of a stream, in every way.
pub(crate) fn check<O: Operator>(
    operator: impl Fn() -> O,
    inputs: &[&Schema],
    stream: &str,
    expected: &str,
) {
    let expected = lines(expected);
    for way in Way::ALL {
        let actual = run(&operator, inputs, stream, way);
        assert_eq!(
            actual.join("\n"),
            expected.join("\n"),
            "{way:?} (left: actual, right: expected)"
        );
    }
}

/// How a stream is cut and disturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// One row a batch.
    SizeOne,
    /// As many rows a batch as there are of one input.
    Whole,
    /// One row a batch, and a new operator from a snapshot at every element.
    Restore,
    /// Whole batches, and an output that blocks after every batch.
    Blocked,
}

impl Way {
    pub(crate) const ALL: [Way; 4] = [Way::SizeOne, Way::Whole, Way::Restore, Way::Blocked];
}

/// What comes out of an operator, a line each.
pub(crate) fn run<O: Operator>(
    operator: &impl Fn() -> O,
    inputs: &[&Schema],
    stream: &str,
    way: Way,
) -> Vec<String> {
    let mut bench = TestBench::new(operator, way);
    for event in events(inputs, stream, matches!(way, Way::Whole | Way::Blocked)) {
        bench.step(event);
        if way == Way::Restore {
            bench.restore();
        }
    }
    bench.text.lines.append(&mut bench.text.late);
    bench.text.lines
}

/// The lines of a text without comments, indentation and empty lines.
fn lines(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or("").trim().to_string())
        .filter(|line| !line.is_empty())
        .collect()
}

enum Event {
    Batch(InputIndex, ChangelogBatch),
    Watermark(EventTime),
    Clock(ProcessingTime),
    End,
}

fn events(inputs: &[&Schema], stream: &str, whole: bool) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut pending: Vec<EventTime> = Vec::new();
    let settle = |events: &mut Vec<Event>, pending: &mut Vec<EventTime>| {
        events.extend(pending.drain(..).max().map(Event::Watermark))
    };
    for line in lines(stream) {
        if let Some(time) = line.strip_prefix("-- watermark ") {
            let watermark = EventTime(time.parse().unwrap());
            pending.push(watermark);
            if !whole {
                settle(&mut events, &mut pending);
            }
        } else if let Some(time) = line.strip_prefix("-- clock ") {
            settle(&mut events, &mut pending);
            events.push(Event::Clock(ProcessingTime(time.parse().unwrap())));
        } else if line == "-- end" {
            settle(&mut events, &mut pending);
            events.push(Event::End);
        } else {
            let (input, row) = match line.split_once(' ') {
                Some(("right", row)) => (InputIndex::SECOND, row),
                Some(("input2", row)) => (InputIndex(2), row),
                _ => (InputIndex::FIRST, line.as_str()),
            };
            let row = batch(inputs[input.0], row);
            match events.last_mut() {
                Some(Event::Batch(last_input, rows)) if whole && *last_input == input => {
                    *rows = append(rows, row, &pending);
                    pending.clear();
                }
                _ => {
                    settle(&mut events, &mut pending);
                    events.push(Event::Batch(input, row));
                }
            }
        }
    }
    settle(&mut events, &mut pending);
    events
}

/// `rows`, then the watermarks as steps, then `row`.
fn append(rows: &ChangelogBatch, row: ChangelogBatch, watermarks: &[EventTime]) -> ChangelogBatch {
    let at = rows.num_rows();
    let mut both = concat_batches(&rows.rows.schema(), &[rows.clone(), row]).unwrap();
    let steps = watermarks.iter().map(|watermark| WatermarkStep {
        row: at,
        watermark: *watermark,
    });
    both.steps = WatermarkSteps::new(rows.steps.iter().chain(steps));
    both
}

/// A batch of the rows in `text`, one a line.
pub(crate) fn batch(schema: &Schema, text: &str) -> ChangelogBatch {
    let rows: Vec<(RowKind, Vec<String>)> = lines(text)
        .iter()
        .map(|line| {
            let (kind, cells) = line.split_once(' ').unwrap_or((line, ""));
            let kind = RowKind::from_symbol(kind).unwrap_or_else(|| panic!("no row: {line}"));
            let cells = cells.split(',').map(|cell| cell.trim().to_string());
            (kind, cells.collect())
        })
        .collect();
    let kinds: Vec<RowKind> = rows.iter().map(|(kind, _)| *kind).collect();
    let columns = schema
        .fields
        .iter()
        .enumerate()
        .map(|(index, field)| {
            let cells = rows.iter().map(|(_, cells)| cells[index].as_str());
            column(&field.logical_type.to_arrow(), &cells.collect::<Vec<_>>())
        })
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let rows = RecordBatch::try_new_with_options(schema.to_arrow(), columns, &options).unwrap();
    ChangelogBatch::new(rows, RowKinds::new(&kinds))
}

fn column(data_type: &DataType, cells: &[&str]) -> ArrayRef {
    let text: ArrayRef = Arc::new(
        cells
            .iter()
            .map(|cell| (*cell != "null").then_some(*cell))
            .collect::<StringArray>(),
    );
    if matches!(data_type, DataType::Timestamp(_, _)) {
        let millis = compute::cast(&text, &DataType::Int64).unwrap();
        assert_eq!(millis.null_count(), text.null_count(), "{cells:?}");
        let to_millis = DataType::Timestamp(arrow::datatypes::TimeUnit::Millisecond, None);
        return compute::cast(&compute::cast(&millis, &to_millis).unwrap(), data_type).unwrap();
    }
    compute::cast(&text, data_type).unwrap()
}

struct TestBench<'a, O, F: Fn() -> O> {
    make: &'a F,
    operator: O,
    ctx: Context,
    out: Output,
    way: Way,
    text: StreamText,
}

impl<'a, O: Operator, F: Fn() -> O> TestBench<'a, O, F> {
    fn new(make: &'a F, way: Way) -> Self {
        let out = Output::new(true);
        let mut ctx = Context::new(Subtask::SINGLE, Default::default());
        ctx.await_answers();
        TestBench {
            make,
            operator: make(),
            ctx,
            out: if way == Way::Blocked {
                out.with_limit(0)
            } else {
                out
            },
            way,
            text: StreamText::default(),
        }
    }

    fn step(&mut self, event: Event) {
        let (ctx, out) = (&mut self.ctx, &mut self.out);
        match event {
            Event::Batch(input, batch) => {
                let steps = batch.steps.last();
                let flow = self.operator.process_batch(ctx, input, batch, out).unwrap();
                self.settle(flow);
                steps.into_iter().for_each(|last| self.watermark(last));
            }
            Event::Watermark(watermark) => self.watermark(watermark),
            Event::Clock(now) => self.clock(now),
            Event::End => {
                self.watermark(EventTime::MAX);
                let flow = self
                    .operator
                    .flush_bundle(&mut self.ctx, &mut self.out)
                    .unwrap();
                self.settle(flow);
                let flow = self.operator.finish(&mut self.ctx, &mut self.out).unwrap();
                self.settle(flow);
            }
        }
    }

    fn watermark(&mut self, watermark: EventTime) {
        if watermark > self.ctx.watermark() {
            self.ctx.advance_watermark(watermark);
            let flow = self
                .operator
                .process_watermark(&mut self.ctx, watermark, &mut self.out)
                .unwrap();
            self.settle(flow);
        }
    }

    fn clock(&mut self, now: ProcessingTime) {
        self.ctx.set_processing_time(now);
        while self
            .operator
            .next_processing_timer()
            .is_some_and(|timer| timer <= now)
        {
            let flow = self
                .operator
                .on_processing_time(&mut self.ctx, &mut self.out)
                .unwrap();
            self.settle(flow);
        }
    }

    fn settle(&mut self, mut flow: Flow) {
        loop {
            while let Some(element) = self.out.pop() {
                self.text.element(element);
            }
            while let Some(late) = self.out.pop_late() {
                self.text.late(late);
            }
            if flow == Flow::Done {
                return;
            }
            flow = self.operator.resume(&mut self.ctx, &mut self.out).unwrap();
        }
    }

    fn restore(&mut self) {
        debug_assert_eq!(self.way, Way::Restore);
        let flow = self
            .operator
            .flush_bundle(&mut self.ctx, &mut self.out)
            .unwrap();
        self.settle(flow);
        let snapshot = self
            .operator
            .snapshot_state(&mut self.ctx, CheckpointId(1))
            .unwrap();
        let mine = snapshot
            .for_key_groups(Subtask::SINGLE.key_groups(), 128)
            .unwrap();
        self.operator = (self.make)();
        self.operator.restore_state(&mut self.ctx, mine).unwrap();
    }
}

/// Stream elements as lines.
#[derive(Default)]
pub(crate) struct StreamText {
    pub(crate) lines: Vec<String>,
    late: Vec<String>,
    watermark: Option<EventTime>,
}

impl StreamText {
    pub(crate) fn element(&mut self, element: StreamElement) {
        match element {
            StreamElement::Batch(batch) => self.batch(&batch),
            StreamElement::Watermark(watermark) => self.watermark(watermark),
            StreamElement::Status(status) => self.lines.push(format!("-- {status:?}")),
            StreamElement::Barrier(barrier) => self
                .lines
                .push(format!("-- barrier {}", barrier.checkpoint)),
            StreamElement::End => self.lines.push("-- end".to_string()),
        }
    }

    fn batch(&mut self, batch: &ChangelogBatch) {
        let mut steps: VecDeque<WatermarkStep> = batch.steps.iter().collect();
        for (row, cells) in rows_text(&batch.rows).into_iter().enumerate() {
            while let Some(step) = steps.pop_front_if(|step| step.row <= row) {
                self.watermark(step.watermark);
            }
            self.lines.push(format!("{} {cells}", batch.kinds.get(row)));
        }
        assert!(steps.is_empty(), "a step stands before a row of its batch");
    }

    fn watermark(&mut self, watermark: EventTime) {
        if self.watermark < Some(watermark) {
            self.watermark = Some(watermark);
            self.lines.pop_if(|last| last.starts_with("-- watermark"));
            self.lines.push(match watermark {
                EventTime::MAX => "-- watermark end".to_string(),
                EventTime(millis) => format!("-- watermark {millis}"),
            });
        }
    }

    fn late(&mut self, late: LateRows) {
        for row in rows_text(&late.rows) {
            self.late.push(format!("late {row}"));
        }
    }
}

/// The cells of each row, timestamps in milliseconds.
pub(crate) fn rows_text(rows: &RecordBatch) -> Vec<String> {
    let columns: Vec<ArrayRef> = rows.columns().iter().map(in_millis).collect();
    let options = FormatOptions::default().with_null("null");
    let cells: Vec<_> = columns
        .iter()
        .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
        .collect();
    (0..rows.num_rows())
        .map(|row| {
            let cells: Vec<String> = cells
                .iter()
                .map(|cell| cell.value(row).to_string())
                .collect();
            cells.join(", ")
        })
        .collect()
}

fn in_millis(column: &ArrayRef) -> ArrayRef {
    if !matches!(column.data_type(), DataType::Timestamp(_, _)) {
        return column.clone();
    }
    let to_millis = DataType::Timestamp(arrow::datatypes::TimeUnit::Millisecond, None);
    let millis = compute::cast(
        &compute::cast(column, &to_millis).unwrap(),
        &DataType::Int64,
    );
    Arc::new(millis.unwrap().as_primitive::<Int64Type>().clone())
}
