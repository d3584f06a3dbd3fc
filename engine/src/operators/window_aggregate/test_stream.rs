//! Streams for the tests of window operators: as text, or random from a seed, cut into batches of any size.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::functions::AggregateCall;
use crate::operators::{Context, Flow, InputIndex, Operator, OperatorMetrics, Output, Subtask};
use crate::state::StateSnapshot;
use crate::stream::{ChangelogBatch, CheckpointId, StreamElement, WatermarkStep, WatermarkSteps};
use crate::types::{
    EventTime, Field, LogicalType, RowKind, RowKinds, Schema, TimeAttribute, TypeRoot,
};

/// A row of [`schema`].
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) kind: RowKind,
    pub(crate) k: Option<String>,
    pub(crate) n: Option<i64>,
    pub(crate) s: Option<String>,
    pub(crate) f: Option<bool>,
    pub(crate) ts: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    Row(Row),
    Watermark(i64),
}

/// k STRING, n BIGINT, s STRING, f BOOLEAN, ts TIMESTAMP(3) *ROWTIME*.
pub(crate) fn schema() -> Schema {
    let time = Field::new("ts", LogicalType::nullable(TypeRoot::Timestamp(3)));
    Schema::new(vec![
        Field::new("k", LogicalType::STRING),
        Field::new("n", LogicalType::BIGINT),
        Field::new("s", LogicalType::STRING),
        Field::new("f", LogicalType::BOOLEAN),
        time.with_time_attribute(Some(TimeAttribute::Rowtime)),
    ])
}

/// The column of the time.
pub(crate) const TS: usize = 4;

/// `+I a 5 1000` is a row with k, n and ts (in ms; `-` is NULL); `-- watermark 999` is a watermark.
pub(crate) fn parse(text: &str) -> Vec<Event> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let line = line.split("//").next().unwrap().trim();
            if let Some(watermark) = line.strip_prefix("-- watermark ") {
                return Event::Watermark(watermark.parse().unwrap());
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let word = |index: usize| (words[index] != "-").then(|| words[index]);
            Event::Row(Row {
                kind: RowKind::from_symbol(words[0]).unwrap(),
                k: word(1).map(str::to_string),
                n: word(2).map(|n| n.parse().unwrap()),
                s: word(1).map(str::to_string),
                f: Some(true),
                ts: word(3).map(|ts| ts.parse().unwrap()),
            })
        })
        .collect()
}

/// The events as batches of at most `size` rows with steps inside, each followed by its last watermark.
pub(crate) fn elements(events: &[Event], size: usize) -> Vec<StreamElement> {
    let mut elements = Vec::new();
    let mut rows: Vec<Row> = Vec::new();
    let mut steps = WatermarkSteps::NONE;
    let mut watermark = i64::MIN;
    let mut behind: Option<i64> = None;
    for (index, event) in events.iter().enumerate() {
        match event {
            Event::Watermark(next) => {
                watermark = watermark.max(*next);
                if rows.is_empty() {
                    elements.push(StreamElement::Watermark(EventTime(watermark)));
                } else {
                    behind = Some(watermark);
                }
            }
            Event::Row(row) => {
                if let Some(watermark) = behind.take() {
                    steps.push(WatermarkStep {
                        row: rows.len(),
                        watermark: EventTime(watermark),
                    });
                }
                rows.push(row.clone());
            }
        }
        let last = index + 1 == events.len();
        let next_is_row = matches!(events.get(index + 1), Some(Event::Row(_)));
        if last || (next_is_row && rows.len() >= size) {
            if !rows.is_empty() {
                elements.push(StreamElement::Batch(batch(
                    &std::mem::take(&mut rows),
                    std::mem::take(&mut steps),
                )));
                if watermark > i64::MIN {
                    elements.push(StreamElement::Watermark(EventTime(watermark)));
                }
            }
            behind = None;
        }
    }
    elements
}

fn batch(rows: &[Row], steps: WatermarkSteps) -> ChangelogBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(
            rows.iter()
                .map(|row| row.k.as_deref())
                .collect::<StringArray>(),
        ),
        Arc::new(rows.iter().map(|row| row.n).collect::<Int64Array>()),
        Arc::new(
            rows.iter()
                .map(|row| row.s.as_deref())
                .collect::<StringArray>(),
        ),
        Arc::new(rows.iter().map(|row| row.f).collect::<BooleanArray>()),
        Arc::new(
            rows.iter()
                .map(|row| row.ts)
                .collect::<TimestampMillisecondArray>(),
        ),
    ];
    let kinds: Vec<RowKind> = rows.iter().map(|row| row.kind).collect();
    ChangelogBatch {
        steps,
        ..ChangelogBatch::new(
            RecordBatch::try_new(schema().to_arrow(), columns).unwrap(),
            RowKinds::new(&kinds),
        )
    }
}

/// An aggregate over columns of [`schema`].
pub(crate) fn call(function: &str, argument: Option<usize>, result: LogicalType) -> AggregateCall {
    AggregateCall {
        function: function.to_string(),
        arguments: argument.into_iter().collect(),
        argument_types: argument
            .map(|column| schema().fields[column].logical_type.clone())
            .into_iter()
            .collect(),
        distinct: false,
        filter: None,
        logical_type: result,
        name: format!("{function}{argument:?}"),
    }
}

/// What an operator gave: rows as lines, and counters.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) lines: Vec<String>,
    pub(crate) late: u64,
    pub(crate) null_times: u64,
    pub(crate) late_rows: usize,
}

/// Runs operators one behind the other, as the runtime does; blocks after every batch where `limit` is 0.
pub(crate) struct Chain {
    pub(crate) operators: Vec<(Box<dyn Operator>, Context)>,
    limit: usize,
    outcome: Outcome,
    watermark_lines: bool,
}

impl Chain {
    pub(crate) fn new(operators: Vec<Box<dyn Operator>>) -> Self {
        let context = || Context::new(Subtask::SINGLE, Arc::new(OperatorMetrics::default()));
        Chain {
            operators: operators
                .into_iter()
                .map(|operator| (operator, context()))
                .collect(),
            limit: 0,
            outcome: Outcome::default(),
            watermark_lines: false,
        }
    }

    pub(crate) fn with_watermarks(mut self) -> Self {
        self.watermark_lines = true;
        self
    }

    pub(crate) fn feed(&mut self, elements: impl IntoIterator<Item = StreamElement>) {
        for element in elements {
            self.push(0, element);
        }
    }

    fn push(&mut self, at: usize, element: StreamElement) {
        if at == self.operators.len() {
            return self.collect(element);
        }
        let mut out = Output::new(true).with_limit(self.limit);
        let (operator, ctx) = &mut self.operators[at];
        let flow = match element {
            StreamElement::Batch(batch) => {
                operator.process_batch(ctx, InputIndex::FIRST, batch, &mut out)
            }
            StreamElement::Watermark(watermark) => {
                if watermark <= ctx.watermark() {
                    return;
                }
                ctx.advance_watermark(watermark);
                operator.process_watermark(ctx, watermark, &mut out)
            }
            other => panic!("{other:?} in a test"),
        };
        self.drain(at, flow.unwrap(), out);
    }

    fn drain(&mut self, at: usize, mut flow: Flow, mut out: Output) {
        loop {
            while let Some(late) = out.pop_late() {
                assert_eq!(late.rows.num_rows(), late.window_end.len());
                self.outcome.late_rows += late.rows.num_rows();
            }
            while let Some(element) = out.pop() {
                self.push(at + 1, element);
            }
            if flow == Flow::Done {
                return;
            }
            let (operator, ctx) = &mut self.operators[at];
            flow = operator.resume(ctx, &mut out).unwrap();
        }
    }

    fn collect(&mut self, element: StreamElement) {
        match element {
            StreamElement::Batch(batch) => {
                let options = FormatOptions::default().with_null("-");
                let formats: Vec<ArrayFormatter> = batch
                    .rows
                    .columns()
                    .iter()
                    .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
                    .collect();
                for row in 0..batch.num_rows() {
                    let cells: Vec<String> = formats
                        .iter()
                        .map(|cell| cell.value(row).to_string())
                        .collect();
                    self.outcome.lines.push(cells.join(" "));
                }
            }
            StreamElement::Watermark(watermark) if self.watermark_lines => {
                self.outcome
                    .lines
                    .push(format!("-- watermark {}", watermark.millis()));
            }
            _ => {}
        }
    }

    /// Flushes bundles, as before a barrier and at the end.
    pub(crate) fn flush(&mut self) {
        for at in 0..self.operators.len() {
            let mut out = Output::new(true);
            let (operator, ctx) = &mut self.operators[at];
            let flow = operator.flush_bundle(ctx, &mut out).unwrap();
            self.drain(at, flow, out);
        }
    }

    pub(crate) fn set_processing_time(&mut self, at: usize, now: i64) {
        let now = crate::types::ProcessingTime(now);
        let (operator, ctx) = &mut self.operators[at];
        ctx.set_processing_time(now);
        if operator
            .next_processing_timer()
            .is_some_and(|timer| timer <= now)
        {
            let mut out = Output::new(true).with_limit(self.limit);
            let flow = operator.on_processing_time(ctx, &mut out).unwrap();
            self.drain(at, flow, out);
        }
    }

    pub(crate) fn snapshot(&mut self) -> Vec<(StateSnapshot, EventTime)> {
        self.flush();
        self.operators
            .iter_mut()
            .map(|(operator, ctx)| {
                let snapshot = operator.snapshot_state(ctx, CheckpointId(1)).unwrap();
                (snapshot, ctx.watermark())
            })
            .collect()
    }

    /// Takes state up in fresh operators; the outcome so far goes on.
    pub(crate) fn restore(
        &mut self,
        fresh: Vec<Box<dyn Operator>>,
        state: Vec<(StateSnapshot, EventTime)>,
    ) {
        let old = std::mem::replace(self, Chain::new(fresh));
        self.outcome = Outcome {
            lines: old.outcome.lines.clone(),
            late_rows: old.outcome.late_rows,
            ..old.counted()
        };
        self.watermark_lines = old.watermark_lines;
        for ((operator, ctx), (snapshot, watermark)) in self.operators.iter_mut().zip(state) {
            ctx.advance_watermark(watermark);
            let all = Subtask::SINGLE.key_groups();
            operator
                .restore_state(ctx, snapshot.for_key_groups(all, 128).unwrap())
                .unwrap();
        }
    }

    fn counted(&self) -> Outcome {
        let mut outcome = self.outcome.clone();
        for (_, ctx) in &self.operators {
            let load = |counter: &std::sync::atomic::AtomicU64| {
                counter.load(std::sync::atomic::Ordering::Relaxed)
            };
            outcome.late += load(&ctx.metrics().late_records_dropped);
            outcome.null_times += load(&ctx.metrics().null_row_time_records_dropped);
        }
        outcome
    }

    pub(crate) fn finish(mut self) -> Outcome {
        self.flush();
        self.counted()
    }
}

/// Small deterministic pseudo-random numbers.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number from 0 to below.
    pub(crate) fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }

    fn maybe<T>(&mut self, value: T) -> Option<T> {
        (self.below(8) > 0).then_some(value)
    }
}

/// A random stream: disorder, late rows, NULLs, repeated values, watermarks now and then; with `retract`, rows that are taken
/// back later.
pub(crate) fn random_events(seed: u64, rows: usize, retract: bool) -> Vec<Event> {
    let mut random = Random::new(seed);
    let mut events = Vec::new();
    let mut live: Vec<Row> = Vec::new();
    let (mut now, mut watermark) = (-60i64, i64::MIN);
    for _ in 0..rows {
        now += random.below(4) as i64;
        if retract && random.below(5) == 0 && !live.is_empty() {
            let mut row = live.swap_remove(random.below(live.len() as u64) as usize);
            row.kind = RowKind::Delete;
            events.push(Event::Row(row));
        } else {
            let text =
                |random: &mut Random| ["x", "yy", "", "zzz"][random.below(4) as usize].to_string();
            let (key, number) = (random.below(4), random.below(7) as i64 - 3);
            let row = Row {
                kind: RowKind::Insert,
                k: random.maybe(format!("k{key}")),
                n: random.maybe(number),
                s: Some(text(&mut random)).filter(|_| random.below(6) > 0),
                f: Some(random.below(2) == 0).filter(|_| random.below(6) > 0),
                ts: Some(now - random.below(25) as i64).filter(|_| random.below(40) > 0),
            };
            live.push(row.clone());
            events.push(Event::Row(row));
        }
        if random.below(3) == 0 {
            let next = now - 10 - random.below(3) as i64;
            if next > watermark {
                watermark = next;
                events.push(Event::Watermark(watermark));
            }
        }
    }
    events.push(Event::Watermark(i64::MAX));
    events
}
