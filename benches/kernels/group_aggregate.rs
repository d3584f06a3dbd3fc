//! Group aggregation: batches of bids to changes, record by record and in bundles.

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use volley::functions::AggregateCall;
use volley::operators::{
    Context, Flow, GroupAggregateOperator, GroupAggregateSpec, InputIndex, Operator, Output,
    Subtask,
};
use volley::state::{HashMapStateBackend, TimeToLive};
use volley::stream::{ChangelogBatch, KeyHashes};
use volley::types::{Field, LogicalType, Schema};
use volley_benches::rows::ROWS;

/// Batches that an operator is given in turn.
const BATCHES: i64 = 16;

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("key", LogicalType::BIGINT),
        Field::new("value", LogicalType::BIGINT),
    ])
}

/// Batches of so many keys, spread evenly, and of so many different values.
fn batches(keys: i64, values: i64) -> Vec<ChangelogBatch> {
    let batch = |number: i64| {
        let rows = number * ROWS as i64..(number + 1) * ROWS as i64;
        let spread = |row: i64, over: i64| row.wrapping_mul(0x9e37_79b9).rem_euclid(over);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from_iter_values(
                rows.clone().map(|row| spread(row, keys)),
            )),
            Arc::new(Int64Array::from_iter_values(
                rows.map(|row| spread(row + 77, values)),
            )),
        ];
        let rows = RecordBatch::try_new(schema().to_arrow(), columns).expect("two columns");
        ChangelogBatch {
            hashes: Some(KeyHashes::of(&rows, &[0]).expect("numbers can be hashed")),
            ..ChangelogBatch::insert_only(rows)
        }
    };
    (0..BATCHES).map(batch).collect()
}

fn call(function: &str, distinct: bool) -> AggregateCall {
    let arguments = if function == "COUNT" && !distinct {
        vec![]
    } else {
        vec![1]
    };
    AggregateCall {
        function: function.to_string(),
        argument_types: vec![LogicalType::BIGINT; arguments.len()],
        arguments,
        distinct,
        filter: None,
        logical_type: LogicalType::BIGINT,
        name: function.to_string(),
    }
}

fn operator(aggregates: &[AggregateCall], mini_batch_rows: Option<usize>) -> impl Operator {
    let spec = GroupAggregateSpec {
        keys: vec![0],
        aggregates: aggregates.to_vec(),
        input: schema(),
        merges_partials: false,
        insert_only: true,
        update_before: true,
        mini_batch_rows,
        ttl: TimeToLive::NEVER,
    };
    GroupAggregateOperator::new(spec, Arc::new(HashMapStateBackend)).expect("functions exist")
}

fn aggregate(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("group aggregate");
    group.throughput(Throughput::Elements(ROWS as u64));
    let sums = vec![call("COUNT", false), call("SUM", false)];
    let many = ["COUNT", "MIN", "MAX", "AVG", "SUM"].map(|name| call(name, false));
    let distinct = vec![call("COUNT", false), call("COUNT", true)];
    for (name, aggregates, keys) in [
        ("COUNT and SUM, 100000 keys", sums.clone(), 100_000),
        ("COUNT and SUM, 100 keys", sums.clone(), 100),
        ("COUNT and SUM, 1 key", sums, 1),
        ("five aggregates, 100000 keys", many.to_vec(), 100_000),
        ("COUNT DISTINCT, 1 key", distinct, 1),
    ] {
        let batches = batches(keys, 50_000);
        for (mode, bundle) in [
            ("every record", None),
            ("bundles of 5000 rows", Some(5_000)),
        ] {
            let mut operator = operator(&aggregates, bundle);
            let mut context = Context::new(Subtask::SINGLE, Arc::default());
            let mut out = Output::new(false);
            let mut next = batches.iter().cycle().cloned();
            group.bench_function(format!("{name}, {mode}"), |bencher| {
                bencher.iter(|| {
                    let batch = next.next().expect("they go round");
                    let flow =
                        operator.process_batch(&mut context, InputIndex::FIRST, batch, &mut out);
                    assert!(matches!(flow, Ok(Flow::Done)), "nothing blocks");
                    while let Some(element) = out.pop() {
                        black_box(element);
                    }
                });
            });
        }
    }
}

criterion_group!(benches, aggregate);
criterion_main!(benches);
