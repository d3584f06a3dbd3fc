//! Which changes of a table are taken up, and how; what a report says and refuses.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;

use super::*;
use crate::checkpoint::JobSnapshot;
use crate::state::{AGGREGATE_PART, CHANNELS_TABLE, KEY_HASH_COLUMN, ROWS_PART, STATE_PART};

fn hash() -> Field {
    Field::new(KEY_HASH_COLUMN, DataType::UInt64, false)
}

fn schema(fields: Vec<Field>) -> SchemaRef {
    let mut all = vec![hash()];
    all.extend(fields);
    Arc::new(Schema::new(all))
}

fn nullable(name: &str, data_type: DataType) -> Field {
    Field::new(name, data_type, true)
}

fn part(field: Field, part: &str) -> Field {
    field.with_metadata([(STATE_PART.to_string(), part.to_string())].into())
}

fn aggregate(name: &str, data_type: DataType, null: bool) -> Field {
    part(Field::new(name, data_type, null), AGGREGATE_PART)
}

fn rows(schema: &SchemaRef, columns: Vec<ArrayRef>) -> RecordBatch {
    let count = columns[0].len() as u64;
    let mut all: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from_iter_values(0..count))];
    all.extend(columns);
    RecordBatch::try_new(schema.clone(), all).unwrap()
}

fn refused(saved: Vec<Field>, asked: Vec<Field>) -> String {
    TableChange::between("left", &schema(saved), &schema(asked))
        .unwrap_err()
        .to_string()
}

#[test]
fn columns_are_found_by_name_widened_and_added() {
    let decimal = |precision, scale| DataType::Decimal128(precision, scale);
    let saved = schema(vec![
        nullable("b", DataType::Utf8),
        nullable("a", DataType::Int32),
        nullable("d", decimal(10, 2)),
        nullable("f", DataType::Float32),
    ]);
    let asked = schema(vec![
        nullable("a", DataType::Int64),
        nullable("b", DataType::Utf8),
        nullable("d", decimal(12, 3)),
        nullable("f", DataType::Float64),
        nullable("new", DataType::Utf8),
    ]);
    let change = TableChange::between("left", &saved, &asked).unwrap();
    assert_eq!(change.added, ["new"]);
    let widened: Vec<&str> = change
        .widened
        .iter()
        .map(|(name, ..)| name.as_str())
        .collect();
    assert_eq!(widened, ["a", "d", "f"]);
    let decimals = Decimal128Array::from(vec![123, -4])
        .with_precision_and_scale(10, 2)
        .unwrap();
    let batch = rows(
        &saved,
        vec![
            Arc::new(StringArray::from(vec![Some("x"), None])),
            Arc::new(Int32Array::from(vec![Some(1), None])),
            Arc::new(decimals),
            Arc::new(Float32Array::from(vec![0.5, -1.0])),
        ],
    );
    let decimals = Decimal128Array::from(vec![1230, -40])
        .with_precision_and_scale(12, 3)
        .unwrap();
    let expected = rows(
        &asked,
        vec![
            Arc::new(Int64Array::from(vec![Some(1), None])),
            Arc::new(StringArray::from(vec![Some("x"), None])),
            Arc::new(decimals),
            Arc::new(Float64Array::from(vec![0.5, -1.0])),
            new_null_array(&DataType::Utf8, 2),
        ],
    );
    assert_eq!(
        migration::migrated("left", batch, &asked).unwrap(),
        expected
    );
}

#[test]
fn what_would_change_values_is_refused_with_both_types() {
    let narrower = refused(
        vec![nullable("a", DataType::Int64)],
        vec![nullable("a", DataType::Int32)],
    );
    assert_eq!(
        narrower,
        "table left, column a: it is Int64 in the state and Int32 now"
    );
    let other = refused(
        vec![nullable("a", DataType::Utf8)],
        vec![nullable("a", DataType::Int32)],
    );
    assert!(
        other.contains("it is Utf8 in the state and Int32 now"),
        "{other}"
    );
    let digits = refused(
        vec![nullable("a", DataType::Decimal128(10, 2))],
        vec![nullable("a", DataType::Decimal128(10, 3))],
    );
    assert!(
        digits.contains("Decimal128(10, 2)") && digits.contains("Decimal128(10, 3)"),
        "{digits}"
    );
    let renamed = refused(
        vec![nullable("a", DataType::Int64)],
        vec![nullable("b", DataType::Int64)],
    );
    assert!(
        renamed.contains("column b") && renamed.contains("under another name"),
        "{renamed}"
    );
    let missing = refused(vec![], vec![Field::new("a", DataType::Int64, false)]);
    assert!(missing.contains("cannot be NULL (Int64)"), "{missing}");
}

#[test]
fn columns_of_one_name_are_matched_in_order() {
    let saved = schema(vec![
        nullable("x", DataType::Int32),
        nullable("x", DataType::Utf8),
    ]);
    let asked = schema(vec![
        nullable("x", DataType::Int64),
        nullable("x", DataType::Utf8),
    ]);
    let change = TableChange::between("left", &saved, &asked).unwrap();
    assert_eq!(change.widened.len(), 1);
    let swapped = schema(vec![
        nullable("x", DataType::Utf8),
        nullable("x", DataType::Int32),
    ]);
    assert!(TableChange::between("left", &saved, &swapped).is_err());
}

#[test]
fn fields_of_rows_within_lists_are_added_and_widened() {
    let row = |fields: Vec<Field>| {
        let item = Field::new("item", DataType::Struct(fields.into()), true);
        nullable("r", DataType::List(Arc::new(item)))
    };
    let saved = schema(vec![row(vec![nullable("x", DataType::Int32)])]);
    let asked = schema(vec![row(vec![
        nullable("y", DataType::Utf8),
        nullable("x", DataType::Int64),
    ])]);
    let change = TableChange::between("left", &saved, &asked).unwrap();
    assert_eq!(
        (&change.added[..], change.widened.len()),
        (&["r.y".to_string()][..], 1)
    );
    let values: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let items = StructArray::from(vec![(Arc::new(nullable("x", DataType::Int32)), values)]);
    let DataType::List(item) = saved.field(1).data_type() else {
        unreachable!()
    };
    let offsets = arrow::buffer::OffsetBuffer::new(vec![0, 2, 2].into());
    let list = ListArray::try_new(item.clone(), offsets, Arc::new(items), None).unwrap();
    let migrated = migration::migrated("left", rows(&saved, vec![Arc::new(list)]), &asked).unwrap();
    let items = migrated.column(1).as_list::<i32>().value(0);
    assert_eq!(
        items
            .as_struct()
            .column(1)
            .as_primitive::<Int64Type>()
            .values(),
        &[1, 2]
    );
    assert_eq!(items.as_struct().column(0).null_count(), 2);
    let other = schema(vec![row(vec![nullable("y", DataType::Utf8)])]);
    assert!(
        TableChange::between("left", &saved, &other).is_err(),
        "a field under another name"
    );
}

#[test]
fn a_new_aggregate_begins_over_no_rows_and_others_may_go() {
    let saved = schema(vec![
        nullable("k", DataType::Utf8),
        aggregate("SUM(v).sum", DataType::Int64, false),
    ]);
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int8, true)));
    let asked = schema(vec![
        nullable("k", DataType::Utf8),
        aggregate("COUNT(v)", DataType::Int64, false),
        aggregate("MAX(v)", DataType::Int64, true),
        aggregate("ARRAY_AGG(v).values", list, false),
        Field::new("$expiry", DataType::Int64, false),
    ]);
    let change = TableChange::between("groups", &saved, &asked).unwrap();
    assert_eq!(
        change.new_aggregates,
        ["COUNT(v)", "MAX(v)", "ARRAY_AGG(v).values"]
    );
    assert_eq!(change.dropped_aggregates, ["SUM(v).sum"]);
    let batch = rows(
        &saved,
        vec![
            Arc::new(StringArray::from(vec!["a"])),
            Arc::new(Int64Array::from(vec![5])),
        ],
    );
    let migrated = migration::migrated("groups", batch, &asked).unwrap();
    assert_eq!(
        migrated.column(2).as_primitive::<Int64Type>().values(),
        &[0]
    );
    assert_eq!(migrated.column(3).null_count(), 1);
    assert_eq!(migrated.column(4).as_list::<i32>().value_length(0), 0);
    assert_eq!(
        migrated.column(5).as_primitive::<Int64Type>().values(),
        &[i64::MAX]
    );
    assert!(!change.takes_back);
    let counted = part(Field::new("COUNT(*)", DataType::Int64, false), ROWS_PART);
    let known = schema(vec![counted.clone()]);
    let more = schema(vec![counted.clone(), asked.field(2).clone()]);
    let taken_back = TableChange::between("groups", &known, &more).unwrap();
    assert!(taken_back.takes_back, "{taken_back:?}");
    let error = TableChange::between("groups", &saved, &schema(vec![counted])).unwrap_err();
    assert!(error.reason.contains("number of rows"), "{error}");
}

/// What `converted` says of a column.
fn misfit(array: impl Array + 'static, to: &DataType) -> String {
    let array: ArrayRef = Arc::new(array);
    match converted(&array, to) {
        Ok(array) => panic!("it fits: {array:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn values_that_do_not_fit_a_type_are_told_and_never_null() {
    let whole = || Int64Array::from(vec![Some(-128), None, Some(127)]);
    let fits = converted(&(Arc::new(whole()) as ArrayRef), &DataType::Int8).unwrap();
    assert_eq!(*fits, Int8Array::from(vec![Some(-128), None, Some(127)]));
    let text = |text: &str| StringArray::from(vec![None, Some(text)]);
    let said = |array: ArrayRef, to: &DataType| converted(&array, to).unwrap_err().to_string();
    for (array, to, expected) in [
        (
            Arc::new(Int64Array::from(vec![1, 406])) as ArrayRef,
            DataType::Int8,
            "406 does not fit TINYINT",
        ),
        (
            Arc::new(UInt64Array::from(vec![u64::MAX])),
            DataType::Int64,
            "18446744073709551615 does not fit BIGINT",
        ),
        (
            Arc::new(Int64Array::from(vec![-1])),
            DataType::UInt8,
            "-1 does not fit",
        ),
        (
            Arc::new(Int64Array::from(vec![12345])),
            DataType::Decimal128(4, 0),
            "12345 does not fit DECIMAL(4, 0)",
        ),
        (
            Arc::new(Float64Array::from(vec![1e300])),
            DataType::Float32,
            "1e300 does not fit FLOAT",
        ),
        (
            Arc::new(Float64Array::from(vec![1e300])),
            DataType::Int32,
            "1e300 does not fit INT",
        ),
        (
            Arc::new(text("abc")),
            DataType::Int32,
            "abc does not fit INT",
        ),
        (
            Arc::new(text("300")),
            DataType::Int8,
            "300 does not fit TINYINT",
        ),
        (
            Arc::new(text("soon")),
            DataType::Date32,
            "soon does not fit DATE",
        ),
        (
            Arc::new(text("perhaps")),
            DataType::Boolean,
            "perhaps does not fit BOOLEAN",
        ),
    ] {
        let error = said(array, &to);
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn values_within_lists_and_rows_must_fit_too_but_not_what_lies_where_there_is_no_row() {
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>(vec![Some(vec![
        Some(1),
        None,
        Some(300),
    ])]);
    let small = |name: &str| Arc::new(Field::new(name, DataType::Int8, true));
    let error = misfit(list, &DataType::List(small("item")));
    assert!(error.contains("300 does not fit TINYINT"), "{error}");
    let rows = |nulls: Vec<bool>| {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 300]));
        let fields = Fields::from(vec![nullable("a", DataType::Int64)]);
        StructArray::try_new(fields, vec![values], Some(nulls.into())).unwrap()
    };
    let to = DataType::Struct(Fields::from(vec![small("a")]));
    let error = misfit(rows(vec![true, true]), &to);
    assert!(error.contains("300 does not fit TINYINT"), "{error}");
    let scalar = || Int64Array::from(vec![1]);
    for nested in [to.clone(), DataType::List(small("item"))] {
        let error = misfit(scalar(), &nested);
        assert!(error.contains("BIGINT cannot become"), "{error}");
    }
    let hidden: ArrayRef = Arc::new(rows(vec![true, false]));
    assert_eq!(converted(&hidden, &to).unwrap().null_count(), 1);
}

fn job(operators: Vec<(&str, RecordBatch)>) -> JobSnapshot {
    let states = operators.into_iter().map(|(uid, batch)| {
        let mut state = StateSnapshot::default();
        state.insert_keyed("groups", vec![batch]);
        state.insert_json("$time", &1).unwrap();
        (uid.to_string(), state)
    });
    JobSnapshot {
        checkpoint: CheckpointId(3),
        operators: states.collect::<BTreeMap<_, _>>(),
    }
}

fn expected(uid: &str, table: SchemaRef) -> ExpectedOperator {
    ExpectedOperator {
        uid: uid.to_string(),
        name: format!("Operator {uid}"),
        is_stateful: true,
        tables: BTreeMap::from([("groups".to_string(), table)]),
        columns: ColumnTexts::new(),
    }
}

#[test]
fn the_report_tells_what_becomes_of_each_operator_and_losses_must_be_allowed() {
    let small = schema(vec![nullable("a", DataType::Int32)]);
    let wide = schema(vec![nullable("a", DataType::Int64)]);
    let text = schema(vec![nullable("a", DataType::Utf8)]);
    let of = |value| rows(&small, vec![Arc::new(Int32Array::from(vec![value]))]);
    let mut saved = job(vec![
        ("same", of(1)),
        ("wider", of(2)),
        ("other", of(3)),
        ("gone", of(4)),
    ]);
    let mut sink = StateSnapshot::default();
    sink.insert_json("prepared", &Vec::<i64>::new()).unwrap();
    saved.operators.insert("sink-gone".to_string(), sink);
    let operators = [
        expected("same", small.clone()),
        expected("wider", wide.clone()),
        expected("other", text),
        expected("new", small.clone()),
    ];
    let report = plan_upgrade(&saved, &operators).unwrap();
    let fates: Vec<&str> = report
        .operators
        .iter()
        .map(|operator| operator.uid.as_str())
        .collect();
    assert_eq!(
        fates,
        ["same", "wider", "other", "new", "gone"],
        "a sink that owes nothing is no loss"
    );
    let shown = report.to_string();
    for part in [
        "kept           Operator same [same]: 1 row,",
        "changed shape  Operator wider [wider]",
        "groups: a is widened from Int32 to Int64",
        "incompatible   Operator other [other]",
        "column a: it is Int32 in the state and Utf8 now",
        "starts empty   Operator new [new]\n",
        "dropped        gone [gone]: 1 row,",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert!(!report.is_unchanged());
    let error = report.refuse_losses(false).unwrap_err().to_string();
    assert!(
        error.contains("dropped        gone") && error.contains("incompatible   Operator other"),
        "{error}"
    );
    assert!(error.contains("--allow-dropped-state"), "{error}");
    report.refuse_losses(true).unwrap();

    let reader = MigratingReader::new(&saved, &report, &operators);
    let all = KeyGroupRange::all(128);
    let wider = reader.read("wider", all, 128).unwrap();
    assert_eq!(wider.batches("groups")[0].schema(), wide);
    assert!(reader.read("other", all, 128).unwrap().tables.is_empty());
    assert!(!reader.operators().contains(&"gone".to_string()));
}

/// What was on its way into an operator is lost with it, also where the operator itself keeps nothing.
#[test]
fn rows_on_their_way_into_an_operator_that_is_gone_are_a_loss() {
    let mut saved = job(vec![]);
    let notes: ArrayRef = Arc::new(StringArray::from(vec!["{}"]));
    let table = RecordBatch::try_from_iter([("note", notes)]).unwrap();
    let mut calc = StateSnapshot::default();
    calc.insert_operator(CHANNELS_TABLE, vec![table]);
    calc.insert_json("$time", &1).unwrap();
    saved.operators.insert("calc-gone".to_string(), calc);
    let report = plan_upgrade(&saved, &[]).unwrap();
    let error = report.refuse_losses(false).unwrap_err().to_string();
    assert!(error.contains("calc-gone]: 1 row"), "{error}");
    report.refuse_losses(true).unwrap();
}

#[test]
fn the_same_job_is_restored_without_a_word() {
    let small = schema(vec![nullable("a", DataType::Int32)]);
    let batch = rows(&small, vec![Arc::new(Int32Array::from(vec![1]))]);
    let report = plan_upgrade(&job(vec![("same", batch)]), &[expected("same", small)]).unwrap();
    assert!(report.is_unchanged());
    report.refuse_losses(false).unwrap();
}

#[test]
fn a_column_is_the_same_only_if_it_holds_the_same() {
    let texts = |name: &str, texts: &[&str]| -> ColumnTexts {
        let texts = texts.iter().map(|text| text.to_string()).collect();
        [(name.to_string(), texts)].into()
    };
    let table = schema(vec![nullable("EXPR$1", DataType::Int64)]);
    let check = |saved: Option<&ColumnTexts>, now: &ColumnTexts| {
        let change = TableChange::between("rows", &table, &table).unwrap();
        change.holding(&table, saved, now)
    };
    let (sum, other) = (texts("EXPR$1", &["(a + b)"]), texts("EXPR$1", &["(a - b)"]));
    assert!(check(Some(&sum), &sum).is_ok());
    assert!(check(None, &sum).is_ok() && check(Some(&ColumnTexts::new()), &sum).is_ok());
    let refused = check(Some(&sum), &other).unwrap_err().to_string();
    assert!(
        refused.contains("EXPR$1: it is (a + b) in the state and (a - b) now"),
        "{refused}"
    );
    let of_two = texts("EXPR$1", &["(a + b)", "(a - b)"]);
    assert!(check(Some(&of_two), &other).is_ok() && check(Some(&other), &of_two).is_err());
    let sums = schema(vec![aggregate("EXPR$1", DataType::Int64, false)]);
    let change = TableChange::between("groups", &sums, &sums).unwrap();
    assert!(
        change.holding(&sums, Some(&sum), &other).is_ok(),
        "named after what they hold"
    );
}
