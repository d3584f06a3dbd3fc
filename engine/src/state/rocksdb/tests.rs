//! What is RocksDB's own: its directory, its compactions, its memory, its errors. What any store does is in `state/conformance`.

use std::sync::Arc;

use super::database::Database;
use super::store::RocksDbUnitStore;
use super::*;
use crate::state::UnitWrite;
use crate::types::ProcessingTime;

fn options(parent: &Path, memory_bytes: usize) -> RocksDbOptions {
    RocksDbOptions {
        local_directory: parent.to_path_buf(),
        memory_bytes,
        ..RocksDbOptions::default()
    }
}

fn entries_of(path: &Path) -> usize {
    std::fs::read_dir(path).unwrap().count()
}

/// Writes `count` values of 200 bytes that do not compress.
fn fill(store: &mut dyn UnitStore, count: u64, expiry: i64) {
    let values: Vec<Vec<u8>> = (0..count).map(noise).collect();
    let writes: Vec<UnitWrite> = std::iter::zip(0.., &values)
        .map(|(hash, value)| UnitWrite {
            hash,
            value: Some(value),
            expiry,
            due: i64::MAX,
        })
        .collect();
    for writes in writes.chunks(500) {
        store.write(writes).unwrap();
    }
}

fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..200).map(|_| next()).collect()
}

#[test]
fn the_directory_goes_with_the_last_store() {
    let parent = tempfile::tempdir().unwrap();
    let backend = RocksDbStateBackend::open(options(parent.path(), 4 << 20)).unwrap();
    let directory = backend.directory().to_path_buf();
    let mut store = backend.unit_store("join-1").unwrap().unwrap();
    drop(backend);
    fill(store.as_mut(), 10, i64::MAX);
    assert!(directory.exists());
    drop(store);
    assert!(!directory.exists());
    assert_eq!(entries_of(parent.path()), 0);
}

#[test]
fn compactions_drop_what_is_forgotten() {
    let parent = tempfile::tempdir().unwrap();
    let database = Arc::new(Database::open(options(parent.path(), 4 << 20)).unwrap());
    let mut store = RocksDbUnitStore::new(database.clone(), "a").unwrap();
    fill(&mut store, 2000, 500);
    let family = database.family("a-0").unwrap();
    let entries = |database: &Database| {
        database
            .db()
            .compact_range_cf(&family, None::<&[u8]>, None::<&[u8]>);
        let count = rocksdb::properties::ESTIMATE_NUM_KEYS;
        database
            .db()
            .property_int_value_cf(&family, count)
            .unwrap()
            .unwrap()
    };
    assert_eq!(entries(&database), 2000);
    let mut values = Vec::new();
    store.get(&[7], ProcessingTime(500), &mut values).unwrap();
    assert_eq!(values, [None]);
    assert_eq!(entries(&database), 0);
}

#[test]
fn memory_is_shared_and_bounded() {
    let parent = tempfile::tempdir().unwrap();
    let memory_bytes = 8 << 20;
    let first = RocksDbStateBackend::open(options(parent.path(), memory_bytes)).unwrap();
    let second = RocksDbStateBackend::open(options(parent.path(), memory_bytes)).unwrap();
    let budget = first.memory_budget().unwrap();
    assert!(Arc::ptr_eq(&budget, &second.memory_budget().unwrap()));
    let of_rocksdb = memory_bytes - budget.total_bytes();
    let mut stores: Vec<_> = [&first, &second, &first]
        .iter()
        .map(|backend| backend.unit_store("a").unwrap().unwrap())
        .collect();
    for store in &mut stores {
        fill(store.as_mut(), 20_000, i64::MAX);
        let mut values = Vec::new();
        let hashes: Vec<u64> = (0..20_000).step_by(3).collect();
        store.get(&hashes, ProcessingTime(0), &mut values).unwrap();
        let expected: Vec<_> = hashes.iter().map(|hash| Some(noise(*hash))).collect();
        assert!(values == expected, "a value is not what was written");
    }
    // Write buffers are given back when they are flushed, which goes on beside.
    assert!(
        first.cache_bytes() < of_rocksdb * 3 / 2,
        "{} of {of_rocksdb}",
        first.cache_bytes()
    );
    let stored = &stores[0].metrics().stored_bytes;
    assert!(stored.load(std::sync::atomic::Ordering::Relaxed) > 2_000_000);
}

#[test]
fn errors_name_the_path_and_the_option() {
    let parent = tempfile::tempdir().unwrap();
    let database = Arc::new(Database::open(options(parent.path(), 4 << 20)).unwrap());
    let mut store = RocksDbUnitStore::new(database.clone(), "a").unwrap();
    fill(&mut store, 2000, i64::MAX);
    database
        .db()
        .flush_cf(&database.family("a-0").unwrap())
        .unwrap();
    // Cut every file of values short, as a disk that lost blocks would.
    for entry in std::fs::read_dir(database.directory().join("db")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "sst") {
            std::fs::write(path, "").unwrap();
        }
    }
    let mut values = Vec::new();
    let hashes: Vec<u64> = (0..2000).collect();
    let error = store
        .get(&hashes, ProcessingTime(0), &mut values)
        .unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), crate::error::ErrorKind::Resource);
    assert!(
        text.contains(&database.directory().display().to_string()),
        "{text}"
    );
    assert!(text.contains("state.backend.rocksdb.localdir"), "{text}");
}
