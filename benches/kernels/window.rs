//! Windows: rows to slices, and the operators from batches to fired windows.

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::TimestampMillisecondType;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use volley::functions::AggregateCall;
use volley::operators::{
    AggregatePhase, Context, Flow, InputIndex, Operator, Output, Subtask, WindowAggregateOperator,
    WindowJoinOperator, WindowJoinSide, WindowJoinSpec,
};
use volley::state::HashMapStateBackend;
use volley::stream::{ChangelogBatch, KeyHashes};
use volley::types::{EventTime, Field, JoinKind, LogicalType, Schema, TypeRoot};
use volley::window::{
    SliceAssigner, WindowAggregateSpec, WindowColumn, WindowInput, WindowKind, WindowSpec,
    WindowTime,
};
use volley_benches::rows::{Bids, ROWS, bid_schema};

const COLUMNS: [&str; 3] = ["auction", "price", "dateTime"];
const TUMBLE: WindowKind = WindowKind::Tumble { size_ms: 10_000 };
const HOP: WindowKind = WindowKind::Hop {
    slide_ms: 2_000,
    size_ms: 10_000,
};

fn spec(kind: WindowKind) -> WindowSpec {
    WindowSpec {
        kind,
        offset_ms: 0,
        time: WindowTime::EventTimestamp,
    }
}

fn assign(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("slices");
    group.throughput(Throughput::Elements(ROWS as u64));
    let assigner = SliceAssigner::new(&spec(TUMBLE)).expect("a tumbling window");
    for (name, step_ms) in [("all rows in one slice", 1), ("rows of many slices", 37)] {
        let times: Vec<i64> = (0..ROWS as i64).map(|row| row * step_ms).collect();
        group.bench_function(name, |bencher| {
            bencher.iter(|| assigner.assign(black_box(&times)));
        });
    }
}

/// Batches of bids with hashes of their auctions, each with the watermark that follows it.
fn batches(count: usize) -> Vec<(ChangelogBatch, EventTime)> {
    let mut bids = Bids::new(&COLUMNS);
    let mut next = || {
        let rows = bids.batch();
        let times = rows.column(2).as_primitive::<TimestampMillisecondType>();
        let watermark = EventTime(times.value(ROWS - 1) - 4_000);
        let hashes = KeyHashes::of(&rows, &[0]).expect("numbers can be hashed");
        let batch = ChangelogBatch {
            hashes: Some(hashes),
            ..ChangelogBatch::insert_only(rows)
        };
        (batch, watermark)
    };
    (0..count).map(|_| next()).collect()
}

fn count_and_sum() -> Vec<AggregateCall> {
    let call = |function: &str, arguments: Vec<usize>| AggregateCall {
        function: function.to_string(),
        argument_types: vec![LogicalType::BIGINT; arguments.len()],
        arguments,
        distinct: false,
        filter: None,
        logical_type: LogicalType::BIGINT,
        name: function.to_string(),
    };
    vec![call("COUNT", vec![]), call("SUM", vec![1])]
}

/// Drives an operator and empties its output.
struct Driver {
    context: Context,
    out: Output,
}

impl Driver {
    fn new() -> Self {
        Driver {
            context: Context::new(Subtask::SINGLE, Arc::default()),
            out: Output::new(false),
        }
    }

    fn batch(&mut self, operator: &mut impl Operator, input: InputIndex, batch: ChangelogBatch) {
        let flow = operator
            .process_batch(&mut self.context, input, batch, &mut self.out)
            .expect("the rows are right");
        self.drain(operator, flow);
    }

    fn watermark(&mut self, operator: &mut impl Operator, watermark: EventTime) {
        self.context.advance_watermark(watermark);
        let flow = operator
            .process_watermark(&mut self.context, watermark, &mut self.out)
            .expect("the rows are right");
        self.drain(operator, flow);
    }

    fn drain(&mut self, operator: &mut impl Operator, mut flow: Flow) {
        loop {
            while let Some(element) = self.out.pop() {
                black_box(element);
            }
            match flow {
                Flow::Done => return,
                Flow::Blocked | Flow::Waiting => {
                    flow = operator
                        .resume(&mut self.context, &mut self.out)
                        .expect("the rows are right");
                }
            }
        }
    }
}

fn aggregate(criterion: &mut Criterion) {
    const BATCHES: usize = 64;
    let batches = batches(BATCHES);
    let mut group = criterion.benchmark_group("window aggregate: COUNT, SUM by auction");
    group.throughput(Throughput::Elements((BATCHES * ROWS) as u64));
    group.sample_size(10);
    for (name, kind) in [("TUMBLE 10 s", TUMBLE), ("HOP 2 s, 10 s", HOP)] {
        let spec = WindowAggregateSpec {
            window: spec(kind),
            input: WindowInput::TimeColumn(2),
            keys: vec![0],
            aggregates: count_and_sum(),
            window_columns: vec![WindowColumn::Start],
        };
        let operator = || {
            WindowAggregateOperator::new(
                spec.clone(),
                &bid_schema(&COLUMNS),
                AggregatePhase::Single,
                true,
                Arc::new(HashMapStateBackend),
            )
            .expect("the spec is right")
        };
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || (operator(), Driver::new(), batches.clone()),
                |(mut operator, mut driver, batches)| {
                    for (batch, watermark) in batches {
                        driver.batch(&mut operator, InputIndex::FIRST, batch);
                        driver.watermark(&mut operator, watermark);
                    }
                    driver.watermark(&mut operator, EventTime::MAX);
                },
                BatchSize::LargeInput,
            );
        });
    }
}

/// Rows of one window with a key of so many values, and the window's end.
fn joined_rows(keys: i64) -> ChangelogBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(
        (0..ROWS as i64).map(|row| (row * 7919) % keys),
    ));
    let ends: ArrayRef = Arc::new(TimestampMillisecondArray::from_value(10_000, ROWS));
    let rows = RecordBatch::try_new(join_schema().to_arrow(), vec![numbers, ends])
        .expect("columns as the schema says");
    ChangelogBatch::insert_only(rows)
}

fn join_schema() -> Schema {
    Schema::new(vec![
        Field::new("key", LogicalType::BIGINT),
        Field::new("window_end", LogicalType::nullable(TypeRoot::Timestamp(3))),
    ])
}

fn join(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("window join: INNER, 8192 rows a side");
    group.throughput(Throughput::Elements(2 * ROWS as u64));
    let side = || WindowJoinSide {
        schema: join_schema(),
        window_end: 1,
        session_start: None,
        keys: vec![0],
    };
    for (name, keys) in [
        ("unique keys", ROWS as i64),
        ("16 pairs a row", ROWS as i64 / 16),
    ] {
        let rows = joined_rows(keys);
        let operator = || {
            let spec = WindowJoinSpec {
                kind: JoinKind::Inner,
                left: side(),
                right: side(),
                null_safe: vec![false],
                condition: None,
                window_time: WindowTime::EventTimestamp,
                output: join_schema().join(&join_schema()),
            };
            WindowJoinOperator::new(spec, &HashMapStateBackend).expect("the spec is right")
        };
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || (operator(), Driver::new(), rows.clone(), rows.clone()),
                |(mut operator, mut driver, left, right)| {
                    driver.batch(&mut operator, InputIndex::FIRST, left);
                    driver.batch(&mut operator, InputIndex::SECOND, right);
                    driver.watermark(&mut operator, EventTime::MAX);
                },
                BatchSize::LargeInput,
            );
        });
    }
}

criterion_group!(benches, assign, aggregate, join);
criterion_main!(benches);
