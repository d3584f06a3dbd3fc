//! Deduplication and Top-N: the operators over bids with their texts, without an exchange.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use volley::operators::{
    Context, DeduplicateChangelog, DeduplicateChangingRowOperator, DeduplicateFirstRowOperator,
    DeduplicateSpec, Flow, InputIndex, KeepRow, Operator, Output, RankChangelog, RankEnd, RankSpec,
    RankStrategy, Subtask, Ties, rank_operator,
};
use volley::state::TimeToLive;
use volley::stream::{ChangelogBatch, KeyHashes};
use volley::types::{Field, LogicalType, Schema, SortKey, TypeRoot};
use volley_benches::rows::{Bids, ROWS, bid_schema};

const COLUMNS: [&str; 7] = [
    "auction", "bidder", "price", "channel", "url", "dateTime", "extra",
];
const BATCHES: usize = 32;

/// Batches of bids with the hashes of a key.
fn batches(key: &[usize]) -> Vec<ChangelogBatch> {
    let mut bids = Bids::new(&COLUMNS);
    let mut next = || {
        let rows = bids.batch();
        let hashes = KeyHashes::of(&rows, key).expect("numbers can be hashed");
        ChangelogBatch {
            hashes: Some(hashes),
            ..ChangelogBatch::insert_only(rows)
        }
    };
    (0..BATCHES).map(|_| next()).collect()
}

/// Runs all batches through an operator and drops what comes out.
fn drive(operator: &mut dyn Operator, batches: Vec<ChangelogBatch>) {
    let mut context = Context::new(Subtask::SINGLE, Arc::default());
    let mut out = Output::new(false);
    for batch in batches {
        let mut flow = operator
            .process_batch(&mut context, InputIndex::FIRST, batch, &mut out)
            .expect("the rows are right");
        loop {
            while let Some(element) = out.pop() {
                black_box(element);
            }
            if flow == Flow::Done {
                break;
            }
            flow = operator
                .resume(&mut context, &mut out)
                .expect("the rows are right");
        }
    }
}

fn deduplicate(criterion: &mut Criterion) {
    let key = vec![1, 0];
    let batches = batches(&key);
    let mut group = criterion.benchmark_group("deduplicate by bidder and auction");
    group.throughput(Throughput::Elements((BATCHES * ROWS) as u64));
    group.sample_size(10);
    let spec = |keep, order_column| DeduplicateSpec {
        schema: bid_schema(&COLUMNS),
        key: key.clone(),
        order_column,
        keep,
        time_to_live: TimeToLive::NEVER,
    };
    group.bench_function("first to arrive", |bencher| {
        let operator = || {
            let spec = spec(KeepRow::First, None);
            DeduplicateFirstRowOperator::new(&spec).expect("the plan is right")
        };
        bencher.iter_batched(
            || (operator(), batches.clone()),
            |(mut operator, batches)| drive(&mut operator, batches),
            BatchSize::PerIteration,
        );
    });
    for (name, update_before) in [("last by time", true), ("last by time, upserts", false)] {
        let changelog = DeduplicateChangelog {
            update_before,
            first_is_insert: true,
            bundle_rows: None,
        };
        let operator = || {
            let spec = spec(KeepRow::Last, Some(5));
            DeduplicateChangingRowOperator::new(spec, changelog).expect("the plan is right")
        };
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || (operator(), batches.clone()),
                |(mut operator, batches)| drive(&mut operator, batches),
                BatchSize::PerIteration,
            );
        });
    }
}

fn top_n(criterion: &mut Criterion) {
    let batches = batches(&[0]);
    let mut group = criterion.benchmark_group("ten highest bids of each auction");
    group.throughput(Throughput::Elements((BATCHES * ROWS) as u64));
    group.sample_size(10);
    for (name, output_rank) in [("without ranks", false), ("with ranks", true)] {
        let mut output = bid_schema(&COLUMNS);
        if output_rank {
            let rank_type = LogicalType::not_null(TypeRoot::BigInt);
            output.fields.push(Field::new("place", rank_type));
        }
        let spec = spec(bid_schema(&COLUMNS), output, output_rank);
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                || {
                    let operator = rank_operator(spec.clone()).expect("the plan is right");
                    (operator, batches.clone())
                },
                |(mut operator, batches)| drive(operator.as_mut(), batches),
                BatchSize::PerIteration,
            );
        });
    }
}

fn spec(input: Schema, output: Schema, output_rank: bool) -> RankSpec {
    RankSpec {
        input,
        output,
        partition_by: vec![0],
        order_by: vec![SortKey {
            column: 2,
            descending: true,
            nulls_first: false,
        }],
        ties: Ties::FirstArrived,
        start: 1,
        end: RankEnd::Constant(10),
        strategy: RankStrategy::AppendFast,
        output_rank,
        changelog: RankChangelog {
            update_before: true,
            replaces_only_row: false,
            bundle_rows: None,
        },
        time_to_live: TimeToLive::NEVER,
    }
}

criterion_group!(kernels, deduplicate, top_n);
criterion_main!(kernels);
