//! Bytes to batches and back: JSON lines of bids.

use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use volley::formats::json::JsonFormat;
use volley::formats::{Format, FormatContext};
use volley::types::RowKinds;
use volley_benches::rows::{Bids, ROWS, bid_schema};

const FOUR: [&str; 4] = ["auction", "bidder", "price", "dateTime"];
const SEVEN: [&str; 7] = [
    "auction", "bidder", "price", "channel", "url", "dateTime", "extra",
];

fn context(columns: &[&str], projection: Vec<usize>) -> FormatContext {
    FormatContext {
        table: "bid".to_string(),
        physical: bid_schema(columns),
        projection,
        options: BTreeMap::from([("format".to_string(), "json".to_string())]),
        time_zone: "UTC".to_string(),
    }
}

fn lines(columns: &[&str]) -> Vec<u8> {
    let mut encoder = JsonFormat
        .encoder(&context(columns, (0..columns.len()).collect()))
        .expect("bids can be written");
    let mut lines = Vec::new();
    encoder
        .encode(
            &Bids::new(columns).batch(),
            &RowKinds::INSERT_ONLY,
            &mut lines,
        )
        .expect("bids can be written");
    lines
}

fn decode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("json: decode");
    for (name, columns, projection) in [
        ("3 of 4 fields", &FOUR[..], vec![0, 2, 3]),
        ("7 of 7 fields", &SEVEN, (0..7).collect()),
        ("2 of 7 fields", &SEVEN, vec![0, 5]),
    ] {
        let lines = lines(columns);
        group.throughput(Throughput::Bytes(lines.len() as u64));
        let mut decoder = JsonFormat
            .decoder(&context(columns, projection))
            .expect("bids can be read");
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || lines.clone(),
                |mut block| {
                    decoder
                        .decode_block(&mut block, true, ROWS)
                        .expect("what was written can be read");
                    decoder.finish().expect("what was written can be read")
                },
                BatchSize::LargeInput,
            );
        });
    }
}

fn encode(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("json: encode");
    for (name, columns) in [("4 fields", &FOUR[..]), ("7 fields", &SEVEN)] {
        let rows = Bids::new(columns).batch();
        let mut encoder = JsonFormat
            .encoder(&context(columns, (0..columns.len()).collect()))
            .expect("bids can be written");
        let mut out = Vec::new();
        group.throughput(Throughput::Bytes(lines(columns).len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                out.clear();
                encoder.encode(black_box(&rows), &RowKinds::INSERT_ONLY, &mut out)
            });
        });
    }
}

criterion_group!(benches, decode, encode);
criterion_main!(benches);
