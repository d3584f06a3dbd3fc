use arrow::array::ListArray;
use arrow::array::{
    Int32Builder, ListBuilder, MapBuilder, RecordBatch, StringBuilder, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};

use super::*;
use crate::expr::{Expression, ExpressionContext, compile};
use crate::operators::Subtask;
use crate::operators::test_bench::StreamText;
use crate::stream::{WatermarkStep, WatermarkSteps};
use crate::types::{EventTime, Field, LogicalType, RowField, RowKind, RowKinds, TimeZone};

/// Unnests column `c` beside `id`; batches blocked after every output, and whole.
fn unnest(
    collection: ArrayRef,
    collection_type: TypeRoot,
    element: &[LogicalType],
    outer: bool,
    steps: &[(usize, i64)],
) -> Vec<String> {
    let input = Schema::new(vec![
        Field::new("id", LogicalType::INT),
        Field::new("c", LogicalType::nullable(collection_type.clone())),
    ]);
    let mut output = input.clone();
    for (index, logical_type) in element.iter().enumerate() {
        output
            .fields
            .push(Field::new(format!("e{index}"), logical_type.clone()));
    }
    output.fields.push(Field::new("n", LogicalType::INT));
    let ids: ArrayRef = Arc::new(Int32Array::from_iter_values(1..=collection.len() as i32));
    let rows = RecordBatch::try_new(input.to_arrow(), vec![ids, collection]).unwrap();
    let kinds: Vec<RowKind> = (0..rows.num_rows())
        .map(|row| {
            if row == 1 {
                RowKind::Delete
            } else {
                RowKind::Insert
            }
        })
        .collect();
    let mut batch = ChangelogBatch::new(rows, RowKinds::new(&kinds));
    batch.steps = WatermarkSteps::new(steps.iter().map(|(row, millis)| WatermarkStep {
        row: *row,
        watermark: EventTime(*millis),
    }));
    let context = ExpressionContext {
        time_zone: TimeZone::UTC,
    };
    let expression = Expression::column(1, "c", input.fields[1].logical_type.clone());
    let mut operator = CorrelateOperator::new(CorrelateSpec {
        collection: compile(&expression, &context).unwrap(),
        collection_type,
        outer,
        with_ordinality: true,
        output,
    });
    let mut ctx = Context::new(Subtask::SINGLE, Default::default());
    let (mut out, mut text) = (Output::new(false).with_limit(0), StreamText::default());
    let mut flow = operator
        .process_batch(&mut ctx, InputIndex::FIRST, batch, &mut out)
        .unwrap();
    loop {
        while let Some(element) = out.pop() {
            text.element(element);
        }
        if flow == Flow::Done {
            return text.lines;
        }
        flow = operator.resume(&mut ctx, &mut out).unwrap();
    }
}

fn integers(rows: &[Option<&[Option<i32>]>]) -> ArrayRef {
    let mut builder = ListBuilder::new(Int32Builder::new());
    for row in rows {
        if let Some(values) = row {
            values
                .iter()
                .for_each(|value| builder.values().append_option(*value));
        }
        builder.append(row.is_some());
    }
    Arc::new(builder.finish())
}

#[test]
fn an_inner_join_drops_empty_and_null_collections_and_keeps_null_elements() {
    let lists = integers(&[Some(&[Some(7), None]), Some(&[Some(8)]), Some(&[]), None]);
    let array = TypeRoot::Array(Box::new(LogicalType::INT));
    assert_eq!(
        unnest(
            lists,
            array,
            &[LogicalType::INT],
            false,
            &[(1, 50), (3, 60)]
        ),
        [
            "+I 1, [7, null], 7, 1",
            "+I 1, [7, null], null, 2",
            "-- watermark 50",
            "-D 2, [8], 8, 1",
        ]
    );
}

#[test]
fn an_outer_join_pads_them() {
    let lists = integers(&[Some(&[]), None, Some(&[Some(1)])]);
    let array = TypeRoot::Array(Box::new(LogicalType::INT));
    assert_eq!(
        unnest(lists, array, &[LogicalType::INT], true, &[]),
        [
            "+I 1, [], null, null",
            "-D 2, null, null, null",
            "+I 3, [1], 1, 1"
        ]
    );
}

#[test]
fn rows_become_columns_and_a_null_row_becomes_nulls() {
    let fields = vec![RowField {
        name: "f".to_string(),
        logical_type: LogicalType::INT,
    }];
    let row = LogicalType::nullable(TypeRoot::Row(fields));
    let array = TypeRoot::Array(Box::new(row.clone()));
    let DataType::Struct(struct_fields) = row.to_arrow() else {
        panic!()
    };
    let DataType::List(item) = array.to_arrow() else {
        panic!()
    };
    let values: ArrayRef = Arc::new(Int32Array::from(vec![5, 6]));
    let nulls = NullBuffer::from(vec![true, false]);
    let rows = StructArray::new(struct_fields, vec![values], Some(nulls));
    let offsets = OffsetBuffer::from_lengths([2]);
    let lists = ListArray::new(item, offsets, Arc::new(rows), None);
    let lines = unnest(Arc::new(lists), array, &[LogicalType::INT], false, &[]);
    let cells: Vec<&str> = lines.iter().map(|line| &line[line.len() - 7..]).collect();
    assert!(lines[0].ends_with(", 5, 1"), "{cells:?}");
    assert!(lines[1].ends_with(", null, 2"), "{cells:?}");
}

fn map_of_counts(entries: &[(&str, i32)]) -> ArrayRef {
    let names = arrow::array::MapFieldNames {
        entry: "entries".to_string(),
        key: "key".to_string(),
        value: "value".to_string(),
    };
    let mut builder = MapBuilder::new(Some(names), StringBuilder::new(), Int32Builder::new());
    for (key, value) in entries {
        builder.keys().append_value(key);
        builder.values().append_value(*value);
    }
    builder.append(true).unwrap();
    Arc::new(builder.finish())
}

#[test]
fn a_map_gives_key_and_value() {
    let map = map_of_counts(&[("a", 2), ("b", 1)]);
    let map_type = TypeRoot::Map(Box::new(LogicalType::STRING), Box::new(LogicalType::INT));
    let lines = unnest(
        map,
        map_type,
        &[LogicalType::STRING, LogicalType::INT],
        false,
        &[],
    );
    assert!(lines[0].ends_with("a, 2, 1") && lines[1].ends_with("b, 1, 2"));
}

#[test]
fn a_multiset_gives_each_element_as_often_as_it_counts() {
    let multiset_type = TypeRoot::Multiset(Box::new(LogicalType::STRING));
    let DataType::Map(entries, sorted) = multiset_type.to_arrow() else {
        panic!()
    };
    let map = map_of_counts(&[("a", 2), ("b", 1)]);
    let map = map.as_map();
    let DataType::Struct(fields) = entries.data_type().clone() else {
        panic!()
    };
    let rows = StructArray::new(fields, map.entries().columns().to_vec(), None);
    let offsets = OffsetBuffer::from_lengths([2]);
    let multiset = arrow::array::MapArray::new(entries, offsets, rows, None, sorted);
    let lines = unnest(
        Arc::new(multiset),
        multiset_type,
        &[LogicalType::STRING],
        false,
        &[],
    );
    assert_eq!(lines.len(), 3);
    assert!(lines[0].ends_with("a, 1") && lines[1].ends_with("a, 2") && lines[2].ends_with("b, 3"));
}
