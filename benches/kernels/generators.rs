//! The nexmark source: its cost is part of every job that reads it, so it must be known.

use std::collections::BTreeMap;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use volley::connectors::source::PollRequest;
use volley::connectors::{ConnectorFactory, NexmarkFactory, SourcePoll, TableDescriptor};
use volley::types::{Field, LogicalType, ProcessingTime, Schema, TypeRoot};

const ROWS: usize = 8192;

fn bids(columns: &[&str]) -> TableDescriptor {
    let logical_type = |name: &str| match name {
        "channel" | "url" | "extra" => LogicalType::STRING,
        "dateTime" => LogicalType::nullable(TypeRoot::Timestamp(3)),
        _ => LogicalType::BIGINT,
    };
    TableDescriptor {
        name: "bid".to_string(),
        projection: (0..columns.len()).collect(),
        physical: Schema::new(
            columns
                .iter()
                .map(|name| Field::new(*name, logical_type(name)))
                .collect(),
        ),
        primary_key: Vec::new(),
        options: BTreeMap::from([("table".to_string(), "bid".to_string())]),
        time_zone: "UTC".to_string(),
    }
}

fn nexmark(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("nexmark bids");
    group.throughput(Throughput::Elements(ROWS as u64));
    for columns in [
        &["auction"][..],
        &["bidder"],
        &["price"],
        &["channel"],
        &["url"],
        &["dateTime"],
        &["extra"],
        &[
            "auction", "bidder", "price", "channel", "url", "dateTime", "extra",
        ],
    ] {
        let source = NexmarkFactory
            .create_source(&bids(columns))
            .expect("the columns are the connector's");
        let mut reader = source.reader().expect("opens nothing");
        let splits = source.splits().expect("counts only");
        reader.add_splits(splits).expect("its own splits");
        let request = PollRequest {
            max_rows: ROWS,
            max_bytes: usize::MAX,
            now: ProcessingTime(0),
        };
        group.bench_function(columns.join(", "), |bencher| {
            bencher.iter(|| match reader.poll(&request) {
                Ok(SourcePoll::Rows { rows, .. }) => rows.num_rows(),
                other => panic!("no rows but {other:?}"),
            });
        });
    }
}

criterion_group!(benches, nexmark);
criterion_main!(benches);
