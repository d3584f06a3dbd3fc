//! Savepoints of every type of state, in pieces, and damaged ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::*;

use super::*;
use crate::checkpoint::{JobSnapshot, OperatorFacts, PlanFacts, RowCount};
use crate::state::{KEY_HASH_COLUMN, StateSnapshot, TableScope};
use crate::stream::{CheckpointId, KeyGroupRange};

const MAX_PARALLELISM: u16 = 128;

fn facts() -> PlanFacts {
    PlanFacts {
        job: "daily totals".to_string(),
        sql: "INSERT INTO s SELECT k, SUM(v) FROM t GROUP BY k".to_string(),
        plan: "== Optimized Execution Plan ==\n".to_string(),
        operators: vec![OperatorFacts {
            uid: "group-aggregate-1".to_string(),
            name: "GroupAggregate".to_string(),
            description: "GroupAggregate(groupBy=[k])".to_string(),
            columns: [("k".to_string(), ["UPPER(k)".to_string()].into())].into(),
        }],
    }
}

fn snapshot(tables: &[(&str, Vec<RecordBatch>)]) -> JobSnapshot {
    let mut state = StateSnapshot::default();
    for (name, batches) in tables {
        state.insert_keyed(name, batches.clone());
    }
    state.insert_json("$time", &vec![1, 2, 3]).unwrap();
    JobSnapshot {
        checkpoint: CheckpointId(7),
        operators: BTreeMap::from([("group-aggregate-1".to_string(), state)]),
    }
}

/// Hashes that are spread over all key groups, ascending.
fn hashes(rows: usize) -> ArrayRef {
    let step = u64::MAX / rows.max(1) as u64;
    Arc::new(UInt64Array::from_iter_values(
        (0..rows as u64).map(|row| row * step),
    ))
}

fn keyed(columns: Vec<(Field, ArrayRef)>) -> RecordBatch {
    let rows = columns[0].1.len();
    let mut fields = vec![Field::new(KEY_HASH_COLUMN, DataType::UInt64, false)];
    let mut arrays = vec![hashes(rows)];
    for (field, array) in columns {
        fields.push(field);
        arrays.push(array);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn of(name: &str, array: ArrayRef) -> (Field, ArrayRef) {
    (Field::new(name, array.data_type().clone(), true), array)
}

fn written(snapshot: &JobSnapshot, directory: &tempfile::TempDir) -> SavepointReader {
    let path = write(
        snapshot,
        MAX_PARALLELISM,
        &facts(),
        directory.path().to_str().unwrap(),
    )
    .unwrap();
    SavepointReader::open(&path).unwrap().unwrap()
}

fn all_of(reader: &dyn SnapshotReader, table: &str) -> RecordBatch {
    let state = reader
        .read(
            "group-aggregate-1",
            KeyGroupRange::all(MAX_PARALLELISM),
            MAX_PARALLELISM,
        )
        .unwrap();
    let batches = state.batches(table);
    arrow::compute::concat_batches(&batches[0].schema(), batches).unwrap()
}

fn a_list() -> ArrayRef {
    let mut builder = ListBuilder::new(Int32Builder::new());
    builder.append_value([Some(1), None]);
    builder.append_null();
    builder.append_value([]);
    Arc::new(builder.finish())
}

fn a_struct(value: ArrayRef) -> ArrayRef {
    let fields = Fields::from(vec![
        Field::new("a", value.data_type().clone(), true),
        Field::new("b", DataType::Utf8, false),
    ]);
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["x", "", "ü"]));
    let nulls = Some(vec![true, false, true].into());
    Arc::new(StructArray::try_new(fields, vec![value, texts], nulls).unwrap())
}

fn a_map() -> ArrayRef {
    let entries = Fields::from(vec![
        Field::new("key", DataType::Decimal128(20, 3), false),
        Field::new("value", DataType::Int64, true),
    ]);
    let keys = Decimal128Array::from(vec![1, -2, 3])
        .with_precision_and_scale(20, 3)
        .unwrap();
    let values = Int64Array::from(vec![Some(10), None, Some(30)]);
    let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(values)];
    let rows = StructArray::try_new(entries.clone(), columns, None).unwrap();
    let field = Arc::new(Field::new("entries", DataType::Struct(entries), false));
    let offsets = OffsetBuffer::new(vec![0, 2, 2, 3].into());
    let nulls = Some(vec![true, false, true].into());
    Arc::new(MapArray::try_new(field, offsets, rows, nulls, false).unwrap())
}

/// One column of each type that state can have, with NULLs and bounds.
fn every_type() -> RecordBatch {
    let time = |array: TimestampMillisecondArray| Arc::new(array.with_timezone("UTC")) as ArrayRef;
    let bytes = vec![Some(&b"abc"[..]), None, Some(&b"\0\xff1"[..])];
    keyed(vec![
        of(
            "boolean",
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        ),
        of(
            "i8",
            Arc::new(Int8Array::from(vec![Some(i8::MIN), None, Some(i8::MAX)])),
        ),
        of(
            "i16",
            Arc::new(Int16Array::from(vec![Some(i16::MIN), None, Some(i16::MAX)])),
        ),
        of(
            "i32",
            Arc::new(Int32Array::from(vec![Some(i32::MIN), None, Some(i32::MAX)])),
        ),
        of(
            "i64",
            Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)])),
        ),
        of(
            "u8",
            Arc::new(UInt8Array::from(vec![Some(0), None, Some(u8::MAX)])),
        ),
        of(
            "u16",
            Arc::new(UInt16Array::from(vec![Some(0), None, Some(u16::MAX)])),
        ),
        of(
            "u32",
            Arc::new(UInt32Array::from(vec![Some(0), None, Some(u32::MAX)])),
        ),
        of(
            "u64",
            Arc::new(UInt64Array::from(vec![Some(0), None, Some(u64::MAX)])),
        ),
        of(
            "f32",
            Arc::new(Float32Array::from(vec![Some(f32::MIN), None, Some(-0.0)])),
        ),
        of(
            "f64",
            Arc::new(Float64Array::from(vec![Some(f64::MAX), None, Some(-0.0)])),
        ),
        of(
            "text",
            Arc::new(StringArray::from(vec![Some("a b"), None, Some("")])),
        ),
        of("binary", Arc::new(BinaryArray::from(bytes.clone()))),
        of(
            "fixed",
            Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes.into_iter(), 3).unwrap(),
            ),
        ),
        of(
            "decimal",
            Arc::new(
                Decimal128Array::from(vec![Some(i128::from(i64::MAX) * 1000), None, Some(-1)])
                    .with_precision_and_scale(38, 18)
                    .unwrap(),
            ),
        ),
        of(
            "date",
            Arc::new(Date32Array::from(vec![Some(-1), None, Some(19_000)])),
        ),
        of(
            "time",
            Arc::new(Time32MillisecondArray::from(vec![
                Some(0),
                None,
                Some(86_399_999),
            ])),
        ),
        of(
            "ms",
            Arc::new(TimestampMillisecondArray::from(vec![
                Some(-1),
                None,
                Some(i64::MAX),
            ])),
        ),
        of(
            "us",
            Arc::new(TimestampMicrosecondArray::from(vec![
                Some(i64::MIN),
                None,
                Some(1),
            ])),
        ),
        of(
            "ns",
            Arc::new(TimestampNanosecondArray::from(vec![
                Some(i64::MIN),
                None,
                Some(1),
            ])),
        ),
        of(
            "ltz",
            time(TimestampMillisecondArray::from(vec![
                Some(1),
                None,
                Some(2),
            ])),
        ),
        of(
            "day-time",
            Arc::new(DurationMillisecondArray::from(vec![
                Some(-1),
                None,
                Some(i64::MAX),
            ])),
        ),
        of(
            "year-month",
            Arc::new(IntervalYearMonthArray::from(vec![
                Some(-13),
                None,
                Some(i32::MAX),
            ])),
        ),
        of("nothing", new_null_array(&DataType::Null, 3)),
        of("list", a_list()),
        of("map", a_map()),
        of(
            "row",
            a_struct(Arc::new(IntervalYearMonthArray::from(vec![
                Some(1),
                None,
                Some(3),
            ]))),
        ),
        of("rows", a_struct(a_struct(a_list()))),
        of("twice", Arc::new(Int8Array::from(vec![1, 2, 3]))),
        of("twice", Arc::new(StringArray::from(vec!["p", "q", "r"]))),
        of("$odd.name [x]", Arc::new(Int8Array::from(vec![1, 2, 3]))),
    ])
}

#[test]
fn every_type_that_state_can_have_comes_back_exactly() {
    let directory = tempfile::tempdir().unwrap();
    let rows = every_type();
    let reader = written(
        &snapshot(&[("groups", vec![rows.clone()]), ("none", vec![])]),
        &directory,
    );
    let back = all_of(&reader, "groups");
    assert_eq!(back.schema(), rows.schema());
    for (index, field) in rows.schema().fields().iter().enumerate() {
        assert_eq!(back.column(index), rows.column(index), "{}", field.name());
    }
    let state = reader
        .read("group-aggregate-1", KeyGroupRange::all(128), 128)
        .unwrap();
    assert_eq!(state.tables["groups"].scope, TableScope::Keyed);
    assert!(state.batches("none").is_empty());
    assert_eq!(state.json::<Vec<i64>>("$time").unwrap(), [[1, 2, 3]]);
    assert_eq!(
        reader
            .read("unknown", KeyGroupRange::all(128), 128)
            .unwrap()
            .tables
            .len(),
        0
    );
}

#[test]
fn metadata_of_columns_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let field = Field::new("SUM(v)", DataType::Int64, false)
        .with_metadata([("volley.state-part".to_string(), "aggregate".to_string())].into());
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let rows = keyed(vec![(field, column)]);
    let reader = written(&snapshot(&[("groups", vec![rows.clone()])]), &directory);
    assert_eq!(all_of(&reader, "groups"), rows);
}

#[test]
fn a_range_of_key_groups_is_read_without_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..300_000));
    let rows = keyed(vec![of("v", values)]);
    let reader = written(&snapshot(&[("groups", vec![rows])]), &directory);
    let table = &reader.manifest().operators[0].tables[1];
    assert_eq!((table.name.as_str(), table.rows), ("groups", 300_000));
    assert!(table.key_groups.len() > 2, "{:?}", table.key_groups);
    let mut rows = 0;
    for index in 0..3 {
        let range = KeyGroupRange::of_subtask(index, 3, MAX_PARALLELISM);
        let state = reader
            .read("group-aggregate-1", range, MAX_PARALLELISM)
            .unwrap();
        let found: usize = state
            .batches("groups")
            .iter()
            .map(RecordBatch::num_rows)
            .sum();
        assert!(found > 90_000 && found < 110_000, "{found}");
        rows += found;
    }
    assert_eq!(rows, 300_000);
    // By hashes, the state goes into any number of key groups.
    let other = KeyGroupRange::of_subtask(0, 2, 6);
    let state = reader.read("group-aggregate-1", other, 6).unwrap();
    let found: usize = state
        .batches("groups")
        .iter()
        .map(RecordBatch::num_rows)
        .sum();
    assert!((149_000..151_000).contains(&found), "{found}");
}

#[test]
fn the_manifest_tells_of_the_job_and_a_second_savepoint_has_a_place_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let snapshot = snapshot(&[("groups", vec![every_type()])]);
    let target = directory.path().to_str().unwrap();
    let first = write(&snapshot, MAX_PARALLELISM, &facts(), target).unwrap();
    assert!(first.ends_with("/savepoint-daily_totals-7"), "{first}");
    let second = write(&snapshot, MAX_PARALLELISM, &facts(), target).unwrap();
    assert!(second.ends_with("/savepoint-daily_totals-7-2"), "{second}");
    let reader = open_snapshot(&second).unwrap();
    assert_eq!(reader.plan_facts(), Some(facts()));
    assert_eq!(
        (reader.checkpoint(), reader.max_parallelism()),
        (CheckpointId(7), Some(128))
    );
    let tables = reader.tables("group-aggregate-1").unwrap();
    let groups = tables.iter().find(|table| table.name == "groups").unwrap();
    assert_eq!(groups.schema.clone().unwrap(), every_type().schema());
    assert_eq!(groups.rows, RowCount::exactly(3));
}

fn parquet_files(directory: &tempfile::TempDir) -> Vec<PathBuf> {
    let pattern = format!("{}/**/*groups.parquet", directory.path().display());
    glob::glob(&pattern)
        .unwrap()
        .map(|path| path.unwrap())
        .collect()
}

#[test]
fn a_file_with_one_byte_less_more_or_changed_is_refused() {
    type Damage = fn(&mut Vec<u8>);
    let damages: [Damage; 3] = [
        |bytes| bytes.truncate(bytes.len() - 1),
        |bytes| bytes.push(0),
        |bytes| bytes[20] ^= 1,
    ];
    for damage in damages {
        let directory = tempfile::tempdir().unwrap();
        let reader = written(&snapshot(&[("groups", vec![every_type()])]), &directory);
        let [file] = &parquet_files(&directory)[..] else {
            panic!("one file")
        };
        let mut bytes = fs::read(file).unwrap();
        damage(&mut bytes);
        fs::write(file, bytes).unwrap();
        let error = reader
            .read("group-aggregate-1", KeyGroupRange::all(128), 128)
            .unwrap_err();
        assert!(
            error.to_string().contains("groups.parquet is damaged"),
            "{error}"
        );
    }
}

/// What is wrong with the savepoint at a path, if anything is.
fn damage_of(path: &str) -> Option<String> {
    let verified = SavepointReader::verified(path).unwrap().unwrap();
    verified.err().map(|damage| damage.to_string())
}

#[test]
fn a_savepoint_in_an_object_store_is_read_and_its_damage_told_from_other_trouble() {
    let saved = snapshot(&[("groups", vec![every_type()])]);
    let target = "memory://savepoint-tests/a";
    let path = write(&saved, MAX_PARALLELISM, &facts(), target).unwrap();
    let reader = SavepointReader::open(&path).unwrap().unwrap();
    assert_eq!(all_of(&reader, "groups"), every_type());
    assert_eq!(damage_of(&path), None);
    let blobs = crate::blobs::open_blobs(&path).unwrap();
    for blob in blobs.list("").unwrap() {
        let whole = blobs.get(&blob.path).unwrap().unwrap();
        blobs
            .put(&blob.path, whole.slice(..whole.len() - 1))
            .unwrap();
        let damage = damage_of(&path).unwrap();
        assert!(damage.contains(&blob.path), "{damage}");
        if blob.path != SAVEPOINT_FILE {
            blobs.delete(&blob.path).unwrap();
            assert!(damage_of(&path).unwrap().contains(&blob.path));
        }
        blobs.put(&blob.path, whole).unwrap();
    }
    assert!(SavepointReader::verified(target).unwrap().is_none());
}

/// A savepoint of one keyed table with several row groups, and one that is not keyed.
fn of_several_row_groups(directory: &tempfile::TempDir) -> (String, PathBuf) {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100_000));
    let state = snapshot(&[("groups", vec![keyed(vec![of("v", values)])])]);
    let target = directory.path().to_str().unwrap();
    let path = write(&state, MAX_PARALLELISM, &facts(), target).unwrap();
    let file = PathBuf::from(&path).join(SAVEPOINT_FILE);
    (path, file)
}

#[test]
fn a_manifest_of_which_a_byte_was_altered_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let (path, file) = of_several_row_groups(&directory);
    let whole = fs::read(&file).unwrap();
    for at in 0..whole.len() {
        for bit in [1, 2, 8] {
            let mut altered = whole.clone();
            altered[at] ^= bit;
            fs::write(&file, altered).unwrap();
            let error = open_snapshot(&path).err().map(|error| error.to_string());
            let error = error.unwrap_or_else(|| panic!("byte {at} is trusted"));
            assert!(error.contains("savepoint.json is damaged"), "{at}: {error}");
        }
    }
    for at in 0..whole.len() {
        fs::write(&file, &whole[..at]).unwrap();
        assert!(open_snapshot(&path).is_err(), "{at} bytes");
    }
    fs::write(&file, [&whole[..], b" "].concat()).unwrap();
    assert!(open_snapshot(&path).is_err());
}

#[test]
fn a_new_manifest_is_not_taken_for_an_old_one() {
    let directory = tempfile::tempdir().unwrap();
    let (path, file) = of_several_row_groups(&directory);
    let whole = fs::read_to_string(&file).unwrap();
    let old = whole.replacen("\"version\": 2", "\"version\": 1", 1);
    for altered in [
        whole.replacen("\"checksum\"", "\"checksun\"", 1),
        old.clone(),
        old.replacen("\"checksum\"", "\"checksun\"", 1),
    ] {
        fs::write(&file, altered).unwrap();
        let damage = damage_of(&path).unwrap();
        assert!(damage.contains("savepoint.json is damaged"), "{damage}");
    }
}

/// The savepoint as builds before version 2 wrote it.
fn without_checksum(file: &PathBuf) -> serde_json::Value {
    let mut old: serde_json::Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    old.as_object_mut().unwrap().remove("checksum").unwrap();
    old["version"] = 1.into();
    old
}

#[test]
fn an_old_manifest_is_read_and_must_agree_with_its_files() {
    let directory = tempfile::tempdir().unwrap();
    let (path, file) = of_several_row_groups(&directory);
    let before = all_of(&*open_snapshot(&path).unwrap(), "groups");
    let old = without_checksum(&file);
    let put = |value: &serde_json::Value| {
        fs::write(&file, serde_json::to_vec_pretty(value).unwrap()).unwrap();
    };
    put(&old);
    assert_eq!(damage_of(&path), None);
    assert_eq!(all_of(&*open_snapshot(&path).unwrap(), "groups"), before);

    let groups = |value: &serde_json::Value| value["operators"][0]["tables"][1].clone();
    assert_eq!(groups(&old)["name"], "groups");
    let count = groups(&old)["key_groups"].as_array().unwrap().len();
    assert!(count > 2, "{count}");
    let mut altered = Vec::new();
    let mut alter = |what: &str, change: &dyn Fn(&mut serde_json::Value)| {
        let mut value = old.clone();
        change(&mut value["operators"][0]["tables"][1]);
        altered.push((what.to_string(), value));
    };
    for index in 0..count {
        // Of each range all that no longer has its rows, or is no range.
        let part = groups(&old)["key_groups"][index].clone();
        let (first, last) = (
            part["first"].as_u64().unwrap(),
            part["last"].as_u64().unwrap(),
        );
        for other in (first + 1)..140 {
            alter(&format!("first {other} of {index}"), &|table| {
                table["key_groups"][index]["first"] = other.into();
            });
        }
        for other in (0..last).chain([128, 200, 65535]) {
            alter(&format!("last {other} of {index}"), &|table| {
                table["key_groups"][index]["last"] = other.into();
            });
        }
    }
    alter("one row group less", &|table| {
        table["key_groups"].as_array_mut().unwrap().pop();
    });
    alter("no row groups", &|table| {
        table.as_object_mut().unwrap().remove("key_groups");
    });
    alter("in another order", &|table| {
        table["key_groups"].as_array_mut().unwrap().reverse();
    });
    alter("no rows", &|table| table["rows"] = 0.into());
    alter("no file", &|table| table["file"] = serde_json::Value::Null);
    alter("another name", &|table| table["name"] = "grours".into());
    let mut value = old.clone();
    value["operators"][0]["uid"] = "group-aggregate-9".into();
    altered.push(("another operator".to_string(), value));
    for (what, value) in altered {
        put(&value);
        let damage = damage_of(&path).unwrap_or_else(|| panic!("{what} is trusted"));
        assert!(
            damage.contains("savepoint.json is damaged"),
            "{what}: {damage}"
        );
        let reads = open_snapshot(&path)
            .and_then(|reader| reader.read("group-aggregate-1", KeyGroupRange::all(128), 128));
        assert!(reads.is_err(), "{what}");
    }
}

#[test]
fn what_is_no_savepoint_and_another_version_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let error = open_snapshot(path).err().unwrap().to_string();
    assert!(
        error.contains("no complete checkpoint or savepoint"),
        "{error}"
    );
    fs::write(directory.path().join(SAVEPOINT_FILE), "{\"version\": 9}").unwrap();
    let error = open_snapshot(path).err().unwrap().to_string();
    assert!(error.contains("layout version 9"), "{error}");
    fs::write(directory.path().join(SAVEPOINT_FILE), "{\"version\": 1, ").unwrap();
    let error = open_snapshot(path).err().unwrap().to_string();
    assert!(error.contains("damaged"), "{error}");
}
