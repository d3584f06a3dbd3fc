//! The source as a whole: the same rows at any batch size, split count and restore point.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Int32Type, Int64Type, TimestampMillisecondType};

use super::NexmarkFactory;
use crate::connectors::source::PollRequest;
use crate::connectors::{ConnectorFactory, Source, SourcePoll, SourceReader, TableDescriptor};
use crate::types::{Field, LogicalType, ProcessingTime, RowField, Schema, TypeRoot};

const TIME: LogicalType = LogicalType::nullable(TypeRoot::Timestamp(3));

fn bid_fields() -> Vec<(&'static str, LogicalType)> {
    vec![
        ("auction", LogicalType::BIGINT),
        ("bidder", LogicalType::BIGINT),
        ("price", LogicalType::BIGINT),
        ("channel", LogicalType::STRING),
        ("url", LogicalType::STRING),
        ("dateTime", TIME),
        ("extra", LogicalType::STRING),
    ]
}

fn table(columns: Vec<(&str, LogicalType)>, options: &[(&str, &str)]) -> TableDescriptor {
    TableDescriptor {
        name: "t".into(),
        projection: (0..columns.len()).collect(),
        physical: Schema::new(
            columns
                .into_iter()
                .map(|(name, logical_type)| Field::new(name, logical_type))
                .collect(),
        ),
        primary_key: vec![],
        options: options
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect::<BTreeMap<_, _>>(),
        time_zone: "UTC".into(),
    }
}

fn source(table: &TableDescriptor) -> Arc<dyn Source> {
    NexmarkFactory.create_source(table).unwrap()
}

fn bids(options: &[(&str, &str)]) -> Arc<dyn Source> {
    let mut all = vec![("table", "bid")];
    all.extend(options);
    source(&table(bid_fields(), &all))
}

fn request(max_rows: usize, now: i64) -> PollRequest {
    PollRequest {
        max_rows,
        max_bytes: 1 << 20,
        now: ProcessingTime(now),
    }
}

fn read_all(source: &dyn Source, sizes: &mut dyn Iterator<Item = usize>) -> RecordBatch {
    let mut reader = source.reader().unwrap();
    reader.add_splits(source.splits().unwrap()).unwrap();
    let mut batches = Vec::new();
    loop {
        // Each poll goes to a new reader at the position of the old one: a restore at every batch.
        let mut restored = source.reader().unwrap();
        restored.add_splits(reader.snapshot().unwrap()).unwrap();
        reader = restored;
        match reader.poll(&request(sizes.next().unwrap(), 0)).unwrap() {
            SourcePoll::Rows { rows, .. } => batches.push(rows),
            SourcePoll::SplitEnd(_) => {}
            SourcePoll::End => break,
            other => panic!("{other:?}"),
        }
    }
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

#[test]
fn rows_are_the_same_at_any_batch_size_and_restore_point() {
    let source = bids(&[("events.num", "2000")]);
    let whole = read_all(&*source, &mut std::iter::repeat(100_000));
    assert_eq!(whole.num_rows(), 2000 * 46 / 50);
    assert_eq!(whole, read_all(&*source, &mut std::iter::repeat(1)));
    assert_eq!(
        whole,
        read_all(&*source, &mut [7, 46, 1, 300].into_iter().cycle())
    );
}

#[test]
fn a_seed_gives_one_table_and_another_seed_another() {
    let one = read_all(
        &*bids(&[("events.num", "500")]),
        &mut std::iter::repeat(100),
    );
    let again = read_all(
        &*bids(&[("events.num", "500"), ("seed", "1")]),
        &mut std::iter::repeat(64),
    );
    let other = read_all(
        &*bids(&[("events.num", "500"), ("seed", "2")]),
        &mut std::iter::repeat(100),
    );
    assert_eq!(one, again);
    assert_ne!(one.column(2), other.column(2));
}

#[test]
fn a_column_does_not_depend_on_the_others() {
    let mut narrow = table(bid_fields(), &[("table", "bid"), ("events.num", "1000")]);
    let whole = read_all(&*source(&narrow), &mut std::iter::repeat(500));
    narrow.projection = vec![5, 0, 6];
    let some = read_all(&*source(&narrow), &mut std::iter::repeat(500));
    assert_eq!(some.num_columns(), 3);
    assert_eq!(some.column(0), whole.column(5));
    assert_eq!(some.column(1), whole.column(0));
    assert_eq!(some.column(2), whole.column(6));
}

#[test]
fn splits_share_the_events_out_and_keep_together_in_time() {
    let whole = read_all(
        &*bids(&[("events.num", "5000")]),
        &mut std::iter::repeat(512),
    );
    let shared = read_all(
        &*bids(&[("events.num", "5000"), ("splits", "3")]),
        &mut std::iter::repeat(64),
    );
    let keys = |rows: &RecordBatch| {
        let times = rows.column(5).as_primitive::<TimestampMillisecondType>();
        let extras = rows.column(6).as_string::<i32>();
        let mut keys: Vec<(i64, String)> = (0..rows.num_rows())
            .map(|row| (times.value(row), extras.value(row).to_string()))
            .collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(&whole), keys(&shared));
    let times = shared.column(5).as_primitive::<TimestampMillisecondType>();
    let (mut newest, mut furthest_back) = (i64::MIN, 0);
    for time in times.values() {
        newest = newest.max(*time);
        furthest_back = furthest_back.max(newest - time);
    }
    assert!(furthest_back < 50, "{furthest_back} ms behind");
}

#[test]
fn the_wide_table_holds_one_row_a_event_and_agrees_with_the_narrow_one() {
    let row = |fields: Vec<(&str, LogicalType)>| {
        let fields = fields
            .into_iter()
            .map(|(name, logical_type)| RowField {
                name: name.into(),
                logical_type,
            })
            .collect();
        LogicalType::nullable(TypeRoot::Row(fields))
    };
    let wide = table(
        vec![
            ("event_type", LogicalType::INT),
            (
                "person",
                row(vec![
                    ("id", LogicalType::BIGINT),
                    ("extra", LogicalType::STRING),
                ]),
            ),
            (
                "auction",
                row(vec![
                    ("expires", TIME),
                    ("dateTime", TIME),
                    ("seller", LogicalType::BIGINT),
                ]),
            ),
            ("bid", row(bid_fields())),
        ],
        &[("events.num", "1000")],
    );
    let rows = read_all(&*source(&wide), &mut std::iter::repeat(333));
    assert_eq!(rows.num_rows(), 1000);
    let types = rows.column(0).as_primitive::<Int32Type>();
    let (person, auction, bid) = (
        rows.column(1).as_struct(),
        rows.column(2).as_struct(),
        rows.column(3).as_struct(),
    );
    for row in 0..1000 {
        let expected = match row % 50 {
            0 => 0,
            1..=3 => 1,
            _ => 2,
        };
        assert_eq!(types.value(row), expected);
        assert_eq!(
            [
                person.is_valid(row),
                auction.is_valid(row),
                bid.is_valid(row)
            ],
            [expected == 0, expected == 1, expected == 2]
        );
        if expected == 1 {
            let times = [0, 1].map(|column| {
                let times = auction
                    .column(column)
                    .as_primitive::<TimestampMillisecondType>();
                times.value(row)
            });
            assert!(times[0] > times[1]);
        }
    }
    let ids = person.column(0).as_primitive::<Int64Type>();
    assert_eq!(
        [ids.value(0), ids.value(50), ids.value(950)],
        [1000, 1001, 1019]
    );
    let mask = arrow::compute::is_not_null(rows.column(3)).unwrap();
    let narrow = read_all(
        &*bids(&[("events.num", "1000")]),
        &mut std::iter::repeat(333),
    );
    for column in 0..7 {
        let of_bids = arrow::compute::filter(bid.column(column), &mask).unwrap();
        assert_eq!(&of_bids, narrow.column(column), "column {column}");
    }
}

#[test]
fn half_of_the_bids_are_for_hot_auctions_and_sizes_average_out() {
    let rows = read_all(
        &*bids(&[("events.num", "100000")]),
        &mut std::iter::repeat(8192),
    );
    let auctions = rows.column(0).as_primitive::<Int64Type>();
    let hot = auctions.values().iter().filter(|id| *id % 100 == 0).count() as f64;
    let share = hot / rows.num_rows() as f64;
    assert!((0.48..0.53).contains(&share), "{share}");
    let bidders = rows.column(1).as_primitive::<Int64Type>();
    let hot = bidders.values().iter().filter(|id| *id % 100 == 1).count() as f64;
    let share = hot / rows.num_rows() as f64;
    assert!((0.73..0.78).contains(&share), "{share}");
    let extra = rows.column(6).as_string::<i32>();
    let average = extra.value_data().len() / rows.num_rows();
    assert!((66..69).contains(&average), "{average}");
    let times = rows.column(5).as_primitive::<TimestampMillisecondType>();
    assert_eq!(times.value(0), 1_436_918_400_000);
    assert_eq!(
        times.value(rows.num_rows() - 1) - times.value(0),
        99_999 / 10
    );
}

#[test]
fn a_rate_gives_what_is_due_and_says_when_to_come_back() {
    let source = bids(&[
        ("first-event.rate", "1000"),
        ("rate.limited", "true"),
        ("events.num", "100"),
    ]);
    let mut reader = source.reader().unwrap();
    reader.add_splits(source.splits().unwrap()).unwrap();
    // Event 4, the first bid, is due at once, the next a millisecond later.
    let rows =
        |reader: &mut Box<dyn SourceReader>, now| match reader.poll(&request(1000, now)).unwrap() {
            SourcePoll::Rows { rows, .. } => rows.num_rows(),
            other => panic!("{other:?}"),
        };
    assert_eq!(rows(&mut reader, 50), 1);
    match reader.poll(&request(1000, 50)).unwrap() {
        SourcePoll::Pending { until } => assert_eq!(until, Some(ProcessingTime(51))),
        other => panic!("{other:?}"),
    }
    assert_eq!(rows(&mut reader, 60), 10);
}

#[test]
fn a_wrong_column_or_option_is_refused_with_what_there_is() {
    let refused = |table: TableDescriptor| {
        NexmarkFactory
            .create_source(&table)
            .err()
            .unwrap()
            .to_string()
    };
    let error = refused(table(
        vec![("prise", LogicalType::BIGINT)],
        &[("table", "bid")],
    ));
    assert!(
        error.contains("prise BIGINT") && error.contains("price BIGINT"),
        "{error}"
    );
    let error = refused(table(vec![("event_type", LogicalType::STRING)], &[]));
    assert!(error.contains("event_type INT"), "{error}");
    let error = refused(table(
        bid_fields(),
        &[("table", "bid"), ("next-event.rate", "5")],
    ));
    assert!(error.contains("next-event.rate"), "{error}");
    let error = refused(table(
        bid_fields(),
        &[("table", "bid"), ("base-time", "noon")],
    ));
    assert!(
        error.contains("base-time") && error.contains("2015-07-15"),
        "{error}"
    );
}
