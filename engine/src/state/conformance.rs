//! What every state backend must do: one suite of tests, run over each of them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, StringArray};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;

use super::{
    Groups, HashMapStateBackend, MemoryUnitStore, RocksDbOptions, RocksDbStateBackend, StateBackend,
};
use crate::stream::hash_columns;

mod unit_store;

#[test]
fn hashmap_conforms() {
    conforms(&HashMapStateBackend);
    assert!(HashMapStateBackend.unit_store("a").unwrap().is_none());
}

#[test]
fn rocksdb_conforms() {
    let parent = tempfile::tempdir().unwrap();
    let backend = rocksdb_in(parent.path());
    conforms(&backend);
    unit_store::conforms(&|| backend.unit_store("a").unwrap().unwrap());
}

#[test]
fn the_unit_store_in_memory_conforms() {
    unit_store::conforms(&|| Box::new(MemoryUnitStore::default()));
}

/// With so little memory that files are written and merged.
fn rocksdb_in(parent: &std::path::Path) -> RocksDbStateBackend {
    RocksDbStateBackend::open(RocksDbOptions {
        local_directory: parent.to_path_buf(),
        memory_bytes: 1 << 20,
        ..RocksDbOptions::default()
    })
    .unwrap()
}

/// Runs the suite.
fn conforms(backend: &dyn StateBackend) {
    for keys in key_columns() {
        ids_are_dense_stable_and_lead_back_to_keys(backend, &keys);
        groups_go_and_come_back(backend, &keys);
    }
    tables_are_independent(backend);
    namespaces_are_taken_whole(backend);
}

/// Keys of every layout, each with a NULL and a repetition.
fn key_columns() -> Vec<Vec<ArrayRef>> {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![
        Some(5),
        None,
        Some(0),
        Some(5),
        None,
    ]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec![
        Some("x"),
        None,
        Some(""),
        Some("x"),
        None,
    ]));
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![
        Some(true),
        None,
        Some(false),
        Some(true),
        None,
    ]));
    let doubles: ArrayRef = Arc::new(Float64Array::from(vec![
        Some(1.5),
        None,
        Some(f64::NAN),
        Some(1.5),
        None,
    ]));
    vec![
        vec![numbers.clone()],
        vec![texts.clone()],
        vec![flags.clone()],
        vec![doubles],
        vec![numbers, texts, flags],
    ]
}

fn types(keys: &[ArrayRef]) -> Vec<DataType> {
    keys.iter().map(|key| key.data_type().clone()).collect()
}

fn ids_are_dense_stable_and_lead_back_to_keys(backend: &dyn StateBackend, keys: &[ArrayRef]) {
    let mut table = backend.group_table(&types(keys), 0).unwrap();
    let hashes = hash_columns(keys, 5).unwrap();
    let mut ids = Vec::new();
    for _ in 0..2 {
        table.resolve(keys, &hashes, &mut ids).unwrap();
        assert_eq!(
            ids,
            [0, 1, 2, 0, 1],
            "{}: {:?}",
            backend.name(),
            types(keys)
        );
    }
    assert_eq!(table.hashes(), &hashes[..3]);
    let back = table.keys(&Groups::Range(0..3)).unwrap();
    let expected: Vec<ArrayRef> = keys.iter().map(|key| key.slice(0, 3)).collect();
    assert_eq!(back, expected);
    let picked = table.keys(&Groups::Ids(&[2, 0])).unwrap();
    assert!(picked[0].is_valid(0) && picked[0].len() == 2);
}

fn groups_go_and_come_back(backend: &dyn StateBackend, keys: &[ArrayRef]) {
    let mut table = backend.group_table(&types(keys), 0).unwrap();
    let hashes = hash_columns(keys, 5).unwrap();
    let mut ids = Vec::new();
    table.resolve(keys, &hashes, &mut ids).unwrap();
    for (hash, id) in hashes.iter().zip(0..3) {
        assert_eq!(table.ids_of([*hash, 77].into_iter()), [id]);
    }
    assert!(!table.has_collisions());
    for gone in 0..3 {
        let kept: Vec<u32> = (0..3).filter(|id| *id != gone).collect();
        let before = table.keys(&Groups::Ids(&kept)).unwrap();
        let hash = table.hashes()[gone as usize];
        table.keep(&kept);
        assert_eq!(table.keys(&Groups::Range(0..2)).unwrap(), before);
        assert!(table.ids_of(std::iter::once(hash)).is_empty());
        table.resolve(keys, &hashes, &mut ids).unwrap();
        assert_eq!(table.len(), 3);
        assert_eq!(ids[..2], ids[3..], "{:?}", types(keys));
        assert_eq!(table.hashes()[2], hash, "what went is the last to come");
    }
    let half: Vec<u32> = (0..3).collect();
    table.keep(&half);
    assert_eq!(table.len(), 3);
}

fn tables_are_independent(backend: &dyn StateBackend) {
    let keys: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![1, 2]))];
    let hashes = hash_columns(&keys, 2).unwrap();
    let mut ids = Vec::new();
    let mut first = backend.group_table(&types(&keys), 10).unwrap();
    let second = backend.group_table(&types(&keys), 10).unwrap();
    first.resolve(&keys, &hashes, &mut ids).unwrap();
    assert_eq!((first.len(), second.len()), (2, 0));
}

fn namespaces_are_taken_whole(backend: &dyn StateBackend) {
    let column: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let rows = RecordBatch::try_from_iter_with_nullable([("v", column, true)]).unwrap();
    let mut store = backend.row_store(rows.schema()).unwrap();
    store.append(7, rows.slice(0, 1), &[1]).unwrap();
    store.append(7, rows.slice(1, 2), &[2, 3]).unwrap();
    store.append(8, rows.slice(0, 1), &[1]).unwrap();
    assert_eq!(store.namespaces_up_to(7), [7]);
    let (taken, hashes) = store.take(7).unwrap().unwrap();
    assert_eq!((taken, hashes), (rows, vec![1, 2, 3]));
    assert_eq!(store.first_namespace(), Some(8));
    assert_eq!(
        store.snapshot().unwrap()[0]
            .column(2)
            .as_string::<i32>()
            .value(0),
        "a"
    );
}
