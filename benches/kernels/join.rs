//! Regular joins: batches through both sides, by what tells rows apart and what the join keeps.

use std::hint::black_box;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use volley::operators::{
    Context, Flow, InputIndex, JoinOperator, JoinSide, JoinSpec, Operator, Output, RowIdentity,
    Subtask,
};
use volley::state::TimeToLive;
use volley::stream::{ChangelogBatch, KeyHashes};
use volley::types::{Field, JoinKind, LogicalType, RowKind, RowKinds, Schema};
use volley_benches::rows::ROWS;

const BATCHES: i64 = 32;

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("key", LogicalType::BIGINT),
        Field::new("value", LogicalType::BIGINT),
        Field::new("text", LogicalType::STRING),
    ])
}

/// Rows from a number on; one key has `rows_a_key` of them.
fn rows(from: i64, rows_a_key: i64, kinds: RowKinds) -> ChangelogBatch {
    let numbers = from..from + ROWS as i64;
    let keys = Int64Array::from_iter_values(numbers.clone().map(|row| row * 7919 / rows_a_key));
    let values = Int64Array::from_iter_values(numbers.clone());
    let texts = StringArray::from_iter_values(numbers.map(|row| format!("the text of row {row}")));
    let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(values), Arc::new(texts)];
    let rows =
        RecordBatch::try_new(schema().to_arrow(), columns).expect("columns as the schema says");
    let hashes = KeyHashes::of(&rows, &[0]).expect("numbers can be hashed");
    ChangelogBatch {
        hashes: Some(hashes),
        ..ChangelogBatch::new(rows, kinds)
    }
}

fn side(identity: RowIdentity) -> JoinSide {
    JoinSide {
        schema: schema(),
        keys: vec![0],
        identity,
        updates_by_key: false,
        time_to_live: TimeToLive::NEVER,
    }
}

fn operator(kind: JoinKind, left: &RowIdentity, right: &RowIdentity) -> JoinOperator {
    let output = match kind.is_left_only() {
        true => schema(),
        false => schema().join(&schema()),
    };
    let spec = JoinSpec {
        kind,
        left: side(left.clone()),
        right: side(right.clone()),
        null_safe: vec![false],
        condition: None,
        output,
    };
    JoinOperator::new(spec).expect("the spec is right")
}

fn run(operator: &mut JoinOperator, batches: Vec<(InputIndex, ChangelogBatch)>) {
    let mut context = Context::new(Subtask::SINGLE, Arc::default());
    let mut out = Output::new(false);
    for (input, batch) in batches {
        let mut flow = operator
            .process_batch(&mut context, input, batch, &mut out)
            .expect("the rows are right");
        loop {
            while let Some(element) = out.pop() {
                black_box(element);
            }
            match flow {
                Flow::Done => break,
                Flow::Blocked | Flow::Waiting => {
                    flow = operator
                        .resume(&mut context, &mut out)
                        .expect("the rows are right");
                }
            }
        }
    }
}

fn join(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("join: two sides of 262144 rows");
    group.throughput(Throughput::Elements(2 * BATCHES as u64 * ROWS as u64));
    group.sample_size(10);
    let inserts = |rows_a_key: i64| -> Vec<(InputIndex, ChangelogBatch)> {
        let both = |batch: i64| {
            let rows = rows(batch * ROWS as i64, rows_a_key, RowKinds::INSERT_ONLY);
            [
                (InputIndex::FIRST, rows.clone()),
                (InputIndex::SECOND, rows),
            ]
        };
        (0..BATCHES).flat_map(both).collect()
    };
    let cases = [
        ("INNER, insert-only", JoinKind::Inner, RowIdentity::None),
        (
            "INNER, one row a key",
            JoinKind::Inner,
            RowIdentity::JoinKey,
        ),
        (
            "INNER, rows counted",
            JoinKind::Inner,
            RowIdentity::WholeRow,
        ),
        ("LEFT, one row a key", JoinKind::Left, RowIdentity::JoinKey),
        ("SEMI, insert-only", JoinKind::Semi, RowIdentity::None),
    ];
    let batches = inserts(1);
    for (name, kind, identity) in cases {
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || (operator(kind, &identity, &identity), batches.clone()),
                |(mut operator, batches)| run(&mut operator, batches),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

fn retract(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("join: rows come and go");
    group.throughput(Throughput::Elements(2 * BATCHES as u64 * ROWS as u64));
    group.sample_size(10);
    let kinds = |kind: RowKind| RowKinds::new(&vec![kind; ROWS]);
    let mut batches = vec![(InputIndex::SECOND, rows(0, 1, RowKinds::INSERT_ONLY))];
    for _ in 0..BATCHES {
        for kind in [RowKind::Insert, RowKind::Delete] {
            batches.push((InputIndex::FIRST, rows(0, 1, kinds(kind))));
        }
    }
    for (name, identity) in [
        ("LEFT, one row a key", RowIdentity::JoinKey),
        (
            "LEFT, rows by a key of their own",
            RowIdentity::UniqueKey(vec![0, 1]),
        ),
        ("LEFT, rows counted", RowIdentity::WholeRow),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || {
                    let operator = operator(JoinKind::Left, &identity, &RowIdentity::None);
                    (operator, batches.clone())
                },
                |(mut operator, batches)| run(&mut operator, batches),
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, join, retract);
criterion_main!(benches);
