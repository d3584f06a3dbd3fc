//! Rows for benchmarks: bids of the nexmark source, so that keys, times and texts are distributed as in whole jobs.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use volley::connectors::source::PollRequest;
use volley::connectors::{
    ConnectorFactory, NexmarkFactory, SourcePoll, SourceReader, TableDescriptor,
};
use volley::types::{Field, LogicalType, ProcessingTime, Schema, TypeRoot};

/// Rows of a batch.
pub const ROWS: usize = 8192;

/// Bids: the columns of [`bid_schema`], one batch after the other.
pub struct Bids(Box<dyn SourceReader>);

/// The schema of bids with these columns: names as in the benchmark.
pub fn bid_schema(columns: &[&str]) -> Schema {
    let logical_type = |name: &str| match name {
        "channel" | "url" | "extra" => LogicalType::STRING,
        "dateTime" => LogicalType::nullable(TypeRoot::Timestamp(3)),
        _ => LogicalType::BIGINT,
    };
    Schema::new(
        columns
            .iter()
            .map(|name| Field::new(*name, logical_type(name)))
            .collect(),
    )
}

impl Bids {
    /// Bids from the first one on.
    pub fn new(columns: &[&str]) -> Self {
        let table = TableDescriptor {
            name: "bid".to_string(),
            projection: (0..columns.len()).collect(),
            physical: bid_schema(columns),
            primary_key: Vec::new(),
            options: BTreeMap::from([("table".to_string(), "bid".to_string())]),
            time_zone: "UTC".to_string(),
        };
        let source = NexmarkFactory
            .create_source(&table)
            .expect("the columns are the connector's");
        let mut reader = source.reader().expect("a generator opens nothing");
        let splits = source.splits().expect("a generator knows its splits");
        reader.add_splits(splits).expect("its own splits");
        Bids(reader)
    }

    /// The next [`ROWS`] bids.
    pub fn batch(&mut self) -> RecordBatch {
        let request = PollRequest {
            max_rows: ROWS,
            max_bytes: usize::MAX,
            now: ProcessingTime(0),
        };
        match self.0.poll(&request) {
            Ok(SourcePoll::Rows { rows, .. }) => rows,
            other => unreachable!("bids never end: {other:?}"),
        }
    }
}
