//! OVER: from batches to rows with the results of their frames, behind a watermark after every batch.

use arrow::array::AsArray;
use arrow::datatypes::TimestampMillisecondType;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use volley::functions::AggregateCall;
use volley::operators::{
    Context, Flow, InputIndex, Operator, Output, OverAggregateOperator, OverAggregateSpec,
    OverFrame, Subtask,
};
use volley::state::TimeToLive;
use volley::stream::{ChangelogBatch, KeyHashes};
use volley::types::{EventTime, Field, LogicalType, TypeRoot};
use volley_benches::rows::{Bids, ROWS, bid_schema};

const COLUMNS: [&str; 3] = ["auction", "price", "dateTime"];
const BATCHES: usize = 16;

fn call(function: &str, distinct: bool) -> AggregateCall {
    let bigint = LogicalType::nullable(TypeRoot::BigInt);
    AggregateCall {
        function: function.to_string(),
        arguments: vec![1],
        argument_types: vec![bigint.clone()],
        distinct,
        filter: None,
        logical_type: bigint,
        name: function.to_lowercase(),
    }
}

fn operator(frame: OverFrame, call: AggregateCall) -> OverAggregateOperator {
    let input = bid_schema(&COLUMNS);
    let mut output = input.clone();
    output
        .fields
        .push(Field::new(&call.name, call.logical_type.clone()));
    OverAggregateOperator::new(OverAggregateSpec {
        input,
        output,
        partition_by: vec![0],
        time_column: Some(2),
        frame,
        calls: vec![call],
        time_to_live: TimeToLive::NEVER,
    })
    .expect("a function of a number")
}

/// Batches of bids with hashes of their auctions, each with the watermark that follows it.
fn batches() -> Vec<(ChangelogBatch, EventTime)> {
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
    (0..BATCHES).map(|_| next()).collect()
}

fn run(mut operator: OverAggregateOperator, batches: &[(ChangelogBatch, EventTime)]) {
    let mut ctx = Context::new(Subtask::SINGLE, Default::default());
    let mut out = Output::new(false);
    for (batch, watermark) in batches {
        let flow = operator.process_batch(&mut ctx, InputIndex::FIRST, batch.clone(), &mut out);
        assert_eq!(flow.expect("rows are taken"), Flow::Done);
        ctx.advance_watermark(*watermark);
        let mut flow = operator.process_watermark(&mut ctx, *watermark, &mut out);
        loop {
            while out.pop().is_some() {}
            match flow.expect("rows are released") {
                Flow::Done => break,
                Flow::Blocked | Flow::Waiting => flow = operator.resume(&mut ctx, &mut out),
            }
        }
    }
}

fn over(criterion: &mut Criterion) {
    let batches = batches();
    let mut group = criterion.benchmark_group("over");
    group.throughput(Throughput::Elements((BATCHES * ROWS) as u64));
    let ten_minutes = OverFrame::Range(Some(600_000));
    let cases = [
        ("running sum", OverFrame::Range(None), call("SUM", false)),
        (
            "sum of 10 rows",
            OverFrame::Rows(Some(9)),
            call("SUM", false),
        ),
        ("sum of 10 minutes", ten_minutes, call("SUM", false)),
        ("maximum of 10 minutes", ten_minutes, call("MAX", false)),
        ("distinct of 10 minutes", ten_minutes, call("COUNT", true)),
        ("LAG", OverFrame::Range(None), call("LAG", false)),
    ];
    for (name, frame, call) in cases {
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || operator(frame, call.clone()),
                |operator| run(operator, &batches),
                BatchSize::LargeInput,
            );
        });
    }
}

criterion_group!(benches, over);
criterion_main!(benches);
