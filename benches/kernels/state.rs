//! Keyed state: from keys to group ids, and from rows to accumulators.

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use volley::functions::AggregateCall;
use volley::functions::aggregate::AggregateSetSpec;
use volley::state::GroupTable;
use volley::stream::hash_columns;
use volley::types::LogicalType;
use volley_benches::rows::ROWS;

/// Row numbers spread over so many keys.
fn keys(count: i64) -> impl Iterator<Item = i64> {
    (0..ROWS as i64).map(move |row| (row * 7919) % count)
}

fn resolve(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("group table: resolve");
    group.throughput(Throughput::Elements(ROWS as u64));
    for count in [100, 5_000] {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(keys(count)));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values(
            keys(count).map(|key| format!("channel-{key}")),
        ));
        for (name, columns) in [
            ("one BIGINT", vec![numbers.clone()]),
            ("one STRING", vec![texts.clone()]),
            ("BIGINT and STRING", vec![numbers.clone(), texts.clone()]),
        ] {
            let types: Vec<_> = columns
                .iter()
                .map(|column| column.data_type().clone())
                .collect();
            let hashes = hash_columns(&columns, ROWS).expect("keys can be hashed");
            let mut table = GroupTable::new(&types).expect("types can be keys");
            let mut ids = Vec::new();
            group.bench_function(format!("{name}, {count} known keys"), |bencher| {
                bencher.iter(|| table.resolve(black_box(&columns), &hashes, &mut ids));
            });
            group.bench_function(format!("{name}, {count} new keys"), |bencher| {
                bencher.iter(|| {
                    let mut table = GroupTable::new(&types).expect("types can be keys");
                    table.resolve(black_box(&columns), &hashes, &mut ids)
                });
            });
        }
    }
}

fn call(function: &str, result: LogicalType) -> AggregateCall {
    let has_argument = function != "COUNT";
    AggregateCall {
        function: function.to_string(),
        arguments: if has_argument { vec![0] } else { Vec::new() },
        argument_types: if has_argument {
            vec![LogicalType::BIGINT]
        } else {
            Vec::new()
        },
        distinct: false,
        filter: None,
        logical_type: result,
        name: function.to_string(),
    }
}

fn accumulate(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("accumulate");
    group.throughput(Throughput::Elements(ROWS as u64));
    let count = || call("COUNT", LogicalType::BIGINT);
    let sum = || call("SUM", LogicalType::BIGINT);
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(keys(1_000_000)))];
    let ids: Vec<u32> = keys(1000).map(|key| key as u32).collect();
    for (name, calls) in [
        ("COUNT", vec![count()]),
        ("SUM", vec![sum()]),
        ("AVG", vec![call("AVG", LogicalType::BIGINT)]),
        ("MAX", vec![call("MAX", LogicalType::BIGINT)]),
        ("COUNT and SUM", vec![count(), sum()]),
    ] {
        for insert_only in [true, false] {
            let spec = AggregateSetSpec::new(&calls, insert_only).expect("functions exist");
            let mut set = spec.create().expect("functions exist");
            set.grow(1000);
            let inputs = &columns[..spec.columns().len()];
            let kind = if insert_only {
                "insert-only"
            } else {
                "retracting"
            };
            group.bench_function(format!("{name}, {kind}"), |bencher| {
                bencher.iter(|| set.accumulate(&spec, black_box(&ids), inputs, None));
            });
        }
    }
}

criterion_group!(benches, resolve, accumulate);
criterion_main!(benches);
