//! Every type, the kinds of generators, resuming, and refusals.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{Decimal128Type, Int64Type, TimestampMillisecondType};

use super::DatagenFactory;
use crate::connectors::source::PollRequest;
use crate::connectors::{ConnectorFactory, SourcePoll, TableDescriptor};
use crate::types::{Field, LogicalType, ProcessingTime, RowField, Schema, TypeRoot};

const NOW: i64 = 1_700_000_000_123;

fn table(columns: &[(&str, TypeRoot)], options: &[(&str, &str)]) -> TableDescriptor {
    let fields = columns
        .iter()
        .map(|(name, root)| Field::new(*name, LogicalType::nullable(root.clone())))
        .collect();
    TableDescriptor {
        name: "t".into(),
        projection: (0..columns.len()).collect(),
        physical: Schema::new(fields),
        primary_key: vec![],
        options: options
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect(),
        time_zone: "UTC".into(),
    }
}

fn read(table: &TableDescriptor, batch_rows: usize) -> RecordBatch {
    let source = DatagenFactory.create_source(table).unwrap();
    assert!(source.is_bounded());
    let mut splits = source.splits().unwrap();
    let mut batches = Vec::new();
    loop {
        let mut reader = source.reader().unwrap();
        reader.add_splits(splits).unwrap();
        let request = PollRequest {
            max_rows: batch_rows,
            max_bytes: 1 << 20,
            now: ProcessingTime(NOW),
        };
        match reader.poll(&request).unwrap() {
            SourcePoll::Rows { rows, .. } => batches.push(rows),
            SourcePoll::SplitEnd(_) => break,
            other => panic!("{other:?}"),
        }
        splits = reader.snapshot().unwrap();
    }
    concat_batches(&batches[0].schema(), &batches).unwrap()
}

fn every_type() -> Vec<(&'static str, TypeRoot)> {
    let element = |root| Box::new(LogicalType::nullable(root));
    let field = |name: &str, root| RowField {
        name: name.into(),
        logical_type: LogicalType::nullable(root),
    };
    vec![
        ("c0", TypeRoot::Boolean),
        ("c1", TypeRoot::TinyInt),
        ("c2", TypeRoot::SmallInt),
        ("c3", TypeRoot::Int),
        ("c4", TypeRoot::BigInt),
        ("c5", TypeRoot::Float),
        ("c6", TypeRoot::Double),
        (
            "c7",
            TypeRoot::Decimal {
                precision: 38,
                scale: 10,
            },
        ),
        ("c8", TypeRoot::Char(4)),
        ("c9", TypeRoot::Varchar(9)),
        ("c10", TypeRoot::STRING),
        ("c11", TypeRoot::Binary(3)),
        ("c12", TypeRoot::BYTES),
        ("c13", TypeRoot::Date),
        ("c14", TypeRoot::Time(3)),
        ("c15", TypeRoot::Timestamp(3)),
        ("c16", TypeRoot::Timestamp(6)),
        ("c17", TypeRoot::TimestampLtz(9)),
        ("c18", TypeRoot::IntervalDayTime),
        ("c19", TypeRoot::IntervalYearMonth),
        ("c20", TypeRoot::Array(element(TypeRoot::Int))),
        (
            "c21",
            TypeRoot::Row(vec![
                field("a", TypeRoot::Int),
                field("b", TypeRoot::STRING),
            ]),
        ),
    ]
}

#[test]
fn every_type_has_values_and_resumes_exactly() {
    let table = table(
        &every_type(),
        &[
            ("number-of-rows", "40"),
            ("rows-per-second", "-1"),
            ("fields.c4.null-rate", "0.5"),
            ("fields.c15.max-past", "1 min"),
        ],
    );
    let whole = read(&table, 1000);
    assert_eq!(whole.num_rows(), 40);
    assert_eq!(whole, read(&table, 1));
    assert_eq!(whole, read(&table, 7));
    let nulls = whole.column(4).null_count();
    assert!((8..32).contains(&nulls), "{nulls}");
    let times = whole.column(15).as_primitive::<TimestampMillisecondType>();
    assert!(
        times
            .values()
            .iter()
            .all(|time| (NOW - 60_000..=NOW).contains(time))
    );
    let lists = whole.column(20).as_list::<i32>();
    assert!((0..40).all(|row| lists.value_length(row) == 3));
}

#[test]
fn ranges_lengths_and_sequences_are_kept() {
    let table = table(
        &[
            ("a", TypeRoot::BigInt),
            (
                "b",
                TypeRoot::Decimal {
                    precision: 5,
                    scale: 2,
                },
            ),
            ("c", TypeRoot::STRING),
            ("d", TypeRoot::STRING),
            ("e", TypeRoot::Double),
        ],
        &[
            ("rows-per-second", "-1"),
            ("fields.a.min", "-3"),
            ("fields.a.max", "3"),
            ("fields.b.min", "1.5"),
            ("fields.b.max", "2"),
            ("fields.c.length", "5"),
            ("fields.c.var-len", "true"),
            ("fields.d.kind", "sequence"),
            ("fields.d.start", "-5"),
            ("fields.d.end", "494"),
            ("fields.e.min", "-1"),
            ("fields.e.max", "1"),
        ],
    );
    let rows = read(&table, 64);
    assert_eq!(rows.num_rows(), 500, "the table ends with its sequence");
    let integers = rows.column(0).as_primitive::<Int64Type>().values();
    assert!((-3..=3).all(|value| integers.contains(&value)));
    assert!(integers.iter().all(|value| (-3..=3).contains(value)));
    let decimals = rows.column(1).as_primitive::<Decimal128Type>().values();
    assert!(decimals.iter().all(|value| (150..=200).contains(value)));
    let texts = rows.column(2).as_string::<i32>();
    assert!((1..=5).all(|length| texts.iter().flatten().any(|text| text.len() == length)));
    let counted = rows.column(3).as_string::<i32>();
    assert_eq!([counted.value(0), counted.value(499)], ["-5", "494"]);
}

#[test]
fn a_rate_is_kept() {
    let table = table(
        &[("a", TypeRoot::Int)],
        &[("rows-per-second", "100"), ("number-of-rows", "1000")],
    );
    let source = DatagenFactory.create_source(&table).unwrap();
    let mut reader = source.reader().unwrap();
    reader.add_splits(source.splits().unwrap()).unwrap();
    let mut poll = |now| {
        let request = PollRequest {
            max_rows: 1000,
            max_bytes: 1 << 20,
            now: ProcessingTime(now),
        };
        reader.poll(&request).unwrap()
    };
    assert!(matches!(poll(0), SourcePoll::Rows { rows, .. } if rows.num_rows() == 1));
    assert!(matches!(
        poll(0),
        SourcePoll::Pending {
            until: Some(ProcessingTime(10))
        }
    ));
    assert!(matches!(poll(1_000), SourcePoll::Rows { rows, .. } if rows.num_rows() == 100));
}

#[test]
fn wrong_options_are_refused_by_name() {
    let refused = |columns: &[(&str, TypeRoot)], options: &[(&str, &str)]| {
        let error = DatagenFactory.create_source(&table(columns, options)).err();
        error.unwrap().to_string()
    };
    let int = [("a", TypeRoot::Int)];
    let error = refused(&int, &[("fields.b.min", "1")]);
    assert!(
        error.contains("'fields.b.min'") && error.contains("fields.a.min"),
        "{error}"
    );
    let error = refused(&int, &[("fields.a.max", "3000000000")]);
    assert!(error.contains("2147483647"), "{error}");
    let error = refused(
        &int,
        &[("fields.a.kind", "sequence"), ("fields.a.start", "1")],
    );
    assert!(error.contains("'fields.a.end'"), "{error}");
    let error = refused(&[("a", TypeRoot::Varchar(5))], &[("fields.a.length", "6")]);
    assert!(error.contains("at most 5"), "{error}");
}
