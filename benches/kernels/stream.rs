//! What every batch passes through: hashing of keys, dealing to channels, filtering, joining batches, watermark steps.

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use volley::stream::{
    ChangelogBatch, KeyHashes, WatermarkStep, WatermarkSteps, concat_batches, scatter_by_key_group,
};
use volley::types::EventTime;

const ROWS: usize = 8192;

/// Three numbers and a text of about 60 bytes, as a bid has.
fn bids() -> RecordBatch {
    let numbers = |seed: i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(
            (0..ROWS as i64).map(|row| (row * 7919 + seed) % 1009),
        ))
    };
    let texts: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..ROWS).map(|row| {
            format!("https://www.nexmark.com/abc/de/f_g/item.htm?query={row}")
        })));
    RecordBatch::try_from_iter([
        ("auction", numbers(1)),
        ("bidder", numbers(2)),
        ("price", numbers(3)),
        ("url", texts),
    ])
    .expect("columns of one length")
}

fn hashed() -> ChangelogBatch {
    let rows = bids();
    let hashes = KeyHashes::of(&rows, &[0]).expect("numbers can be hashed");
    ChangelogBatch {
        hashes: Some(hashes),
        ..ChangelogBatch::insert_only(rows)
    }
}

fn hash(criterion: &mut Criterion) {
    let rows = bids();
    let mut group = criterion.benchmark_group("hash");
    group.throughput(Throughput::Elements(ROWS as u64));
    for (name, columns) in [
        ("one BIGINT", &[0][..]),
        ("two BIGINT", &[0, 1]),
        ("one STRING", &[3]),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| KeyHashes::of(black_box(&rows), columns));
        });
    }
}

fn scatter(criterion: &mut Criterion) {
    let batch = hashed();
    let mut group = criterion.benchmark_group("scatter");
    group.throughput(Throughput::Elements(ROWS as u64));
    for channels in [1, 2, 8] {
        group.bench_function(format!("{channels} channels"), |bencher| {
            bencher.iter_batched(
                || batch.clone(),
                |batch| scatter_by_key_group(batch, channels, 128),
                BatchSize::SmallInput,
            );
        });
    }
}

fn filter(criterion: &mut Criterion) {
    let plain = hashed();
    let mut stepped = plain.clone();
    stepped.steps = WatermarkSteps::new((0..ROWS / 64).map(|step| WatermarkStep {
        row: step * 64,
        watermark: EventTime(step as i64),
    }));
    let mut group = criterion.benchmark_group("filter");
    group.throughput(Throughput::Elements(ROWS as u64));
    for (name, batch) in [("without steps", &plain), ("128 steps", &stepped)] {
        for one_in in [2, 100] {
            let mask = BooleanArray::from_iter((0..ROWS).map(|row| Some(row % one_in == 0)));
            group.bench_function(format!("{name}, one in {one_in}"), |bencher| {
                bencher.iter(|| batch.filter(black_box(&mask)));
            });
        }
    }
}

fn join_batches(criterion: &mut Criterion) {
    let batch = hashed();
    let schema = batch.rows.schema();
    let parts: Vec<ChangelogBatch> = (0..16).map(|part| batch.slice(part * 512, 512)).collect();
    let mut group = criterion.benchmark_group("concat");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("16 batches of 512", |bencher| {
        bencher.iter(|| concat_batches(&schema, black_box(&parts)));
    });
}

fn watermark_steps(criterion: &mut Criterion) {
    let mut batch = ChangelogBatch::insert_only(bids());
    batch.steps = WatermarkSteps::new((0..ROWS / 8).map(|step| WatermarkStep {
        row: step * 8,
        watermark: EventTime(step as i64),
    }));
    let mut group = criterion.benchmark_group("watermark steps");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("by_steps, a step every 8 rows", |bencher| {
        bencher.iter(|| black_box(&batch).by_steps(EventTime::MIN));
    });
}

criterion_group!(
    benches,
    hash,
    scatter,
    filter,
    join_batches,
    watermark_steps
);
criterion_main!(benches);
