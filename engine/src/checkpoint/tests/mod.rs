//! Checkpoints on both kinds of store: what is read back is what the snapshots say, whatever fails in between.

pub(crate) mod faulty_blobs;
mod instances;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use object_store::memory::InMemory;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use self::faulty_blobs::{Fault, FaultyBlobs};
use super::data_file::FileSizes;
use super::*;
use crate::blobs::{BlobStore, LocalBlobs, ObjectBlobs};
use crate::error::Result;
use crate::state::{
    HashMapStateBackend, KEY_HASH_COLUMN, StateBackend, StatePart, StateSnapshot, TableScope,
    key_hashes_of,
};
use crate::stream::{CheckpointId, KeyGroupRange};

const MAX: u16 = 128;

/// Small enough for several files, parts and buckets.
const SMALL: FileSizes = FileSizes {
    file_bytes: 6000,
    part_bytes: 1500,
    bucket_bytes: 300,
};

/// Small too, but with few calls.
const FEW_FILES: FileSizes = FileSizes {
    file_bytes: 4000,
    part_bytes: 1500,
    bucket_bytes: 4000,
};

/// One store of each kind, and what must live as long.
fn stores() -> (Vec<Arc<dyn BlobStore>>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let local = LocalBlobs::new(directory.path().join("checkpoints"));
    let memory = Arc::new(InMemory::new());
    let root = object_store::path::Path::from("job/a");
    let objects = ObjectBlobs::new(memory.clone(), Some(memory), root, "memory://job/a");
    (vec![Arc::new(local), Arc::new(objects)], directory)
}

fn memory_store() -> Arc<dyn BlobStore> {
    let memory = Arc::new(InMemory::new());
    let root = object_store::path::Path::from("job");
    // Without uploads in parts: files are put whole.
    Arc::new(ObjectBlobs::new(memory, None, root, "memory://job"))
}

fn sum_facts() -> OperatorFacts {
    OperatorFacts {
        name: "GroupAggregate".to_string(),
        ..OperatorFacts::default()
    }
}

fn options(incremental: bool, retained: usize, writer: &str) -> StorageOptions {
    StorageOptions {
        job: "job".to_string(),
        run: "run".to_string(),
        max_parallelism: MAX,
        retained,
        incremental,
        operators: BTreeMap::from([("sum".to_string(), sum_facts())]),
        owned_from: CheckpointId(0),
        writer: writer.to_string(),
    }
}

fn open(blobs: &dyn BlobStore, incremental: bool, retained: usize) -> CheckpointStorage {
    let options = options(incremental, retained, "w");
    let opened = CheckpointStorage::open(blobs, options, StartedFrom::Nothing);
    opened.unwrap().with_sizes(SMALL)
}

fn batch(rows: &[(u64, i64)]) -> RecordBatch {
    let hashes: ArrayRef = Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| row.0)));
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)));
    let words = rows.iter().map(|row| format!("value {}", row.1));
    let words: ArrayRef = Arc::new(StringArray::from_iter_values(words));
    RecordBatch::try_from_iter([
        (KEY_HASH_COLUMN, hashes),
        ("value", values),
        ("word", words),
    ])
    .unwrap()
}

/// A snapshot whose table `sums` has these rows, and `counts` one row a key; of what `changed` alone, where that is given.
fn state(changed: Option<Vec<u64>>, rows: &[(u64, i64)], position: u64) -> StateSnapshot {
    let has_rows = |key: &u64| rows.iter().any(|row| row.0 == *key);
    let gone = changed.map(|mut keys| {
        keys.retain(|key| !has_rows(key));
        keys
    });
    let mut snapshot = StateSnapshot {
        gone,
        ..StateSnapshot::default()
    };
    let (left, right) = rows.split_at(rows.len() / 2);
    snapshot.insert_keyed("sums", vec![batch(left), batch(right)]);
    let mut keys: Vec<u64> = rows.iter().map(|row| row.0).collect();
    keys.dedup();
    let counts: Vec<(u64, i64)> = keys.iter().map(|key| (*key, 1)).collect();
    snapshot.insert_keyed("counts", vec![batch(&counts)]);
    snapshot.insert_keyed("empty", vec![]);
    snapshot.insert_json("position", &position).unwrap();
    snapshot
}

/// The rows of a state, in an order of their own, by table.
fn rows_of(state: &StateSnapshot) -> BTreeMap<String, Vec<(u64, i64)>> {
    let mut tables = BTreeMap::new();
    for (name, table) in &state.tables {
        let mut rows = Vec::new();
        for batch in &table.batches {
            match table.scope {
                TableScope::Keyed => {
                    let values = batch.column(1).as_primitive::<Int64Type>().values();
                    rows.extend(std::iter::zip(
                        key_hashes_of(batch).to_vec(),
                        values.to_vec(),
                    ));
                }
                TableScope::Operator => {
                    let text = batch.column(0).as_string::<i32>().value(0);
                    rows.push((0, text.parse().unwrap()));
                }
            }
        }
        rows.sort_unstable();
        if !rows.is_empty() {
            tables.insert(name.clone(), rows);
        }
    }
    tables
}

type Rows = BTreeMap<String, BTreeMap<String, Vec<(u64, i64)>>>;

fn all_rows(snapshot: &JobSnapshot) -> Rows {
    let operators = snapshot.operators.iter();
    operators
        .map(|(uid, state)| (uid.clone(), rows_of(state)))
        .collect()
}

/// A job of one operator with random keys, which gives snapshots; the state beside it is laid together by definition.
struct Job {
    random: SmallRng,
    coordinator: CheckpointCoordinator,
    rows: BTreeMap<u64, Vec<i64>>,
    whole: StateSnapshot,
    position: u64,
    /// What each checkpoint holds.
    expected: BTreeMap<u64, Rows>,
    parts: Arc<dyn StateBackend>,
}

impl Job {
    fn new(seed: u64) -> Self {
        Job {
            random: SmallRng::seed_from_u64(seed),
            coordinator: CheckpointCoordinator::new(&[KeySpan::ALL], CheckpointId(0)),
            rows: BTreeMap::new(),
            whole: StateSnapshot::default(),
            position: 0,
            expected: BTreeMap::new(),
            parts: Arc::new(HashMapStateBackend),
        }
    }

    /// Changes some keys. Half of the time a part of it was written to disk before.
    fn change(&mut self, keys: usize) -> StateSnapshot {
        let mut snapshot = self.change_once(keys);
        if self.random.random() {
            let part = StatePart::write(&self.parts, "sum", &snapshot).unwrap();
            snapshot = self.change_once(keys / 2);
            snapshot.parts = vec![part];
        }
        snapshot
    }

    fn change_once(&mut self, keys: usize) -> StateSnapshot {
        let mut changed: Vec<u64> = (0..keys)
            .map(|_| (self.random.random_range(0..400u64)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        changed.sort_unstable();
        changed.dedup();
        for key in &changed {
            match self.random.random_range(0..4) {
                0 => drop(self.rows.remove(key)),
                count => {
                    let values = (0..count).map(|_| self.random.random_range(0..1_000_000));
                    self.rows.insert(*key, values.collect());
                }
            }
        }
        self.position += 1;
        let rows: Vec<(u64, i64)> = changed
            .iter()
            .flat_map(|key| {
                self.rows
                    .get(key)
                    .into_iter()
                    .flatten()
                    .map(|value| (*key, *value))
            })
            .collect();
        state(Some(changed), &rows, self.position)
    }

    fn everything(&mut self) -> StateSnapshot {
        self.position += 1;
        let rows = self.rows.iter();
        let rows: Vec<(u64, i64)> = rows
            .flat_map(|(key, values)| values.iter().map(|value| (*key, *value)))
            .collect();
        state(None, &rows, self.position)
    }

    /// The contents of the next checkpoint.
    fn checkpoint(&mut self, snapshot: StateSnapshot) -> CheckpointContents {
        self.whole.apply(snapshot.clone()).unwrap();
        let id = self.coordinator.trigger().unwrap();
        let expected = JobSnapshot {
            checkpoint: id,
            operators: BTreeMap::from([("sum".to_string(), self.whole.clone())]),
        };
        self.expected.insert(id.0, all_rows(&expected));
        let state = vec![("sum".to_string(), snapshot)];
        self.coordinator.acknowledge(0, id, state).unwrap()
    }

    fn changed_checkpoint(&mut self, keys: usize) -> CheckpointContents {
        let snapshot = self.change(keys);
        self.checkpoint(snapshot)
    }

    /// The checkpoint that is read is what was said by then.
    fn check(&self, reader: &CheckpointReader) {
        let read = reader.read_all().unwrap();
        assert_eq!(
            all_rows(&read),
            self.expected[&read.checkpoint.0],
            "{}",
            read.checkpoint
        );
    }
}

fn merge_all(storage: &mut CheckpointStorage, blobs: &dyn BlobStore) {
    while let Some(plan) = storage.next_merge() {
        let merged = plan.run(blobs, &|| false);
        let failed = merged.is_err();
        storage.install(blobs, merged);
        if failed {
            return;
        }
    }
}

fn latest(blobs: &Arc<dyn BlobStore>) -> Result<Option<CheckpointReader>> {
    CheckpointReader::latest(blobs.clone(), Some(MAX))?.whole("in the store")
}

fn data_files(blobs: &dyn BlobStore) -> Vec<String> {
    let all = blobs.list("").unwrap().into_iter().map(|blob| blob.path);
    all.filter(|path| path.contains("/data-")).collect()
}

#[test]
fn what_is_read_is_what_the_snapshots_say_laid_over_each_other() {
    for seed in 0..2 {
        let (stores, _directory) = stores();
        for blobs in stores {
            for incremental in [true, false] {
                let (blobs, mut job) = (blobs.clone(), Job::new(seed));
                for blob in blobs.list("").unwrap() {
                    blobs.delete(&blob.path).unwrap();
                }
                let mut storage = open(&*blobs, incremental, 2);
                for step in 0..30 {
                    let contents = match step {
                        0 => job.changed_checkpoint(200),
                        12 if seed % 2 == 0 => {
                            let everything = job.everything();
                            job.checkpoint(everything)
                        }
                        _ => job.changed_checkpoint(8),
                    };
                    let written = storage.write(&*blobs, &contents).unwrap();
                    assert!(written.location.ends_with(&format!("chk-{}", step + 1)));
                    if step % 3 != 0 {
                        merge_all(&mut storage, &*blobs);
                    }
                    let reader = latest(&blobs).unwrap().unwrap();
                    assert_eq!(reader.checkpoint(), contents.checkpoint);
                    assert_eq!(reader.manifest().operators["sum"].name, "GroupAggregate");
                    job.check(&reader);
                    let own = |file: &String| file.starts_with(&format!("chk-{}/", step + 1));
                    assert!(incremental || reader.manifest().files.keys().all(own));
                }
                assert!(storage.take_warnings().is_empty());
            }
        }
    }
}

#[test]
fn each_instance_of_another_parallelism_reads_the_keys_it_owns() {
    let (blobs, mut job) = (memory_store(), Job::new(1));
    let mut storage = open(&*blobs, true, 1);
    for keys in [200, 30, 30] {
        storage
            .write(&*blobs, &job.changed_checkpoint(keys))
            .unwrap();
    }
    let reader = latest(&blobs).unwrap().unwrap();
    let whole = rows_of(&reader.read_all().unwrap().operators["sum"]);
    for parallelism in [1, 2, 3, 128] {
        let mut together = StateSnapshot::default();
        for index in 0..parallelism {
            let range = KeyGroupRange::of_subtask(index, parallelism, MAX);
            let mine = reader.read("sum", range, MAX).unwrap();
            assert_eq!(mine.json::<u64>("position").unwrap().len(), 1);
            let inside = mine.for_key_groups(range, MAX).unwrap();
            assert_eq!(rows_of(&inside), rows_of(&mine));
            together.merge(mine);
        }
        together.tables.remove("position");
        let mut keyed = whole.clone();
        keyed.remove("position");
        assert_eq!(rows_of(&together), keyed);
    }
    assert!(reader.has_rows("sum").unwrap() && !reader.has_rows("other").unwrap());
    let range = KeyGroupRange::of_subtask(0, 1, 64);
    let error = reader.read("sum", range, 64).unwrap_err().to_string();
    assert!(error.contains("pipeline.max-parallelism 128"), "{error}");
}

#[test]
fn an_incremental_checkpoint_writes_what_changed() {
    let (blobs, mut job) = (memory_store(), Job::new(3));
    let storage = CheckpointStorage::open(&*blobs, options(true, 1, "w"), StartedFrom::Nothing);
    let mut storage = storage.unwrap();
    let first = storage
        .write(&*blobs, &job.changed_checkpoint(390))
        .unwrap();
    let second = storage.write(&*blobs, &job.changed_checkpoint(2)).unwrap();
    assert!(second.bytes * 2 < first.bytes, "{second:?} {first:?}");
    assert!(second.full_bytes > first.full_bytes * 3 / 4);
}

/// The rows of each keyed table as they are told before they are read, and as they are counted.
fn counts(reader: &CheckpointReader) -> Vec<(String, RowCount, RowCount)> {
    let told = reader.tables("sum").unwrap();
    let counted = inspect::counted_tables(reader, "sum").unwrap();
    let pairs = told.into_iter().zip(counted);
    let pairs = pairs.filter(|(told, _)| told.scope == TableScope::Keyed);
    pairs
        .map(|(told, counted)| (told.name, told.rows, counted.rows))
        .collect()
}

#[test]
fn rows_are_told_as_at_most_so_many_where_segments_replace_each_other_and_counted_exactly() {
    let (blobs, mut job) = (memory_store(), Job::new(5));
    let mut storage = open(&*blobs, true, 1);
    for step in 0..12 {
        let keys = if step == 0 { 300 } else { 40 };
        let contents = match step {
            6 => {
                let everything = job.everything();
                job.checkpoint(everything)
            }
            _ => job.changed_checkpoint(keys),
        };
        storage.write(&*blobs, &contents).unwrap();
        let reader = latest(&blobs).unwrap().unwrap();
        let whole = rows_of(&reader.read_all().unwrap().operators["sum"]);
        let speaking = reader.manifest().operators["sum"].segments.iter();
        let several = speaking.filter(|segment| segment.speaks()).count() > 1;
        for (name, told, counted) in counts(&reader) {
            let rows = whole.get(&name).map_or(0, Vec::len) as u64;
            assert_eq!(counted, RowCount::exactly(rows), "{name} at {step}");
            assert!(told.rows >= rows, "{name} at {step}: {told} of {rows}");
            assert_eq!(told.at_most, several, "{name} at {step}: {told} of {rows}");
            assert!(
                told.at_most || told.rows == rows,
                "{name} at {step}: {told}"
            );
        }
        let report = upgrade::plan_upgrade(&reader, &[]).unwrap().to_string();
        assert_eq!(report.contains(": at most "), several, "{report}");
        assert!(report.contains(" of files"), "{report}");
    }
}

#[test]
fn files_go_when_nobody_names_them_and_no_other_file_ever_does() {
    let (stores, _directory) = stores();
    for blobs in stores {
        let foreign = [
            "notes.txt",
            "chk-1/readme",
            "chk-x/data-w-1-0",
            "other/data-w-1-0",
            "chk-1/deep/data-w-1-0",
        ];
        for path in foreign {
            blobs.put(path, Bytes::from_static(b"mine")).unwrap();
        }
        blobs
            .put("chk-3/data-dead-1-0", Bytes::from_static(b"half"))
            .unwrap();
        let mut job = Job::new(7);
        let mut storage = open(&*blobs, true, 3);
        assert_eq!(
            storage.last(),
            CheckpointId(3),
            "numbers are not given twice"
        );
        job.coordinator.count_from(storage.last());
        for _ in 0..40 {
            storage.write(&*blobs, &job.changed_checkpoint(20)).unwrap();
            let is_dead = |file: &String| file.contains("dead");
            assert!(!data_files(&*blobs).iter().any(is_dead));
            let mut named = std::collections::BTreeSet::new();
            for id in super::checkpoint_reader::complete_checkpoints(&*blobs).unwrap() {
                let reader =
                    CheckpointReader::named(blobs.clone(), CheckpointId(id), Some(MAX)).unwrap();
                job.check(&reader);
                named.extend(reader.manifest().files.keys().cloned());
            }
            merge_all(&mut storage, &*blobs);
            storage.write(&*blobs, &job.changed_checkpoint(1)).unwrap();
            let complete = super::checkpoint_reader::complete_checkpoints(&*blobs).unwrap();
            assert!(complete.len() <= 3);
        }
        // What is named is there, and nothing else is.
        let mut named = std::collections::BTreeSet::new();
        for id in super::checkpoint_reader::complete_checkpoints(&*blobs).unwrap() {
            let reader =
                CheckpointReader::named(blobs.clone(), CheckpointId(id), Some(MAX)).unwrap();
            named.extend(reader.manifest().files.keys().cloned());
        }
        let there = data_files(&*blobs)
            .into_iter()
            .filter(|file| !foreign.contains(&file.as_str()));
        assert_eq!(
            there.collect::<Vec<_>>(),
            named.into_iter().collect::<Vec<_>>()
        );
        storage.discard(&*blobs, 0);
        let left: Vec<String> = blobs
            .list("")
            .unwrap()
            .into_iter()
            .map(|blob| blob.path)
            .collect();
        let mut expected = foreign.map(str::to_string).to_vec();
        expected.sort();
        assert_eq!(left, expected);
    }
}

/// Some checkpoints on a store that fails at one call. Gives how many calls there were, and the first checkpoint that failed.
fn run_with_fault(
    job: &mut Job,
    blobs: &FaultyBlobs,
    incremental: bool,
    started_from: StartedFrom,
    goes_on: bool,
) -> Option<u64> {
    let opened = CheckpointStorage::open(blobs, options(incremental, 1, "w"), started_from);
    let Ok(storage) = opened else {
        return Some(0);
    };
    let mut storage = storage.with_sizes(FEW_FILES);
    job.coordinator.count_from(storage.last());
    let mut failed = None;
    for keys in [20, 3, 15, 3] {
        let contents = job.changed_checkpoint(keys);
        if storage.write(blobs, &contents).is_err() {
            failed = failed.or(Some(contents.checkpoint.0));
            if !goes_on {
                return failed;
            }
            job.coordinator.give_back(contents);
        }
        merge_all(&mut storage, blobs);
    }
    failed
}

#[test]
fn a_store_that_fails_at_any_call_leaves_the_checkpoint_before_or_the_new_one() {
    for (fault, incremental, stops) in [
        (Fault::Refused, true, true),
        (Fault::Refused, true, false),
        (Fault::AnswerLost, true, true),
        (Fault::AnswerLost, false, false),
        (Fault::Torn, true, false),
        (Fault::Torn, false, true),
    ] {
        let mut fail_at = 0;
        loop {
            let (inner, mut job) = (memory_store(), Job::new(5));
            // One good checkpoint first.
            let mut storage = open(&*inner, incremental, 1).with_sizes(FEW_FILES);
            storage.write(&*inner, &job.changed_checkpoint(30)).unwrap();
            drop(storage);
            let before = Arc::new(latest(&inner).unwrap().unwrap());
            let faulty = FaultyBlobs::new(inner.clone(), fail_at, fault, stops);
            let from = StartedFrom::Claimed(before);
            let failed = run_with_fault(&mut job, &faulty, incremental, from, !stops);
            let reader = latest(&inner).unwrap().unwrap();
            job.check(&reader);
            let newest = *job.expected.keys().next_back().unwrap();
            let at_least = match (stops, failed) {
                (true, Some(failed)) => failed.saturating_sub(1),
                (false, Some(0)) => 1,
                // No other followed it.
                (false, Some(failed)) if failed == newest => newest - 1,
                _ => newest,
            };
            assert!(reader.checkpoint().0 >= at_least, "{fault:?} at {fail_at}");
            // Whoever goes on from there can.
            let options = options(incremental, 1, "next");
            let from = StartedFrom::Claimed(Arc::new(reader));
            let mut storage = CheckpointStorage::open(&*inner, options, from).unwrap();
            job.coordinator.count_from(storage.last());
            let everything = job.everything();
            storage.write(&*inner, &job.checkpoint(everything)).unwrap();
            let reader = latest(&inner).unwrap().unwrap();
            job.check(&reader);
            let named: Vec<String> = reader.manifest().files.keys().cloned().collect();
            assert_eq!(
                data_files(&*inner),
                named,
                "{fault:?} at {fail_at}, stops: {stops}"
            );
            if faulty.calls() <= fail_at {
                break;
            }
            fail_at += 1;
        }
        assert!(fail_at > 30, "{fail_at}");
    }
}

/// A store with the checkpoints 1 and 2.
pub(crate) fn store_of_two() -> Arc<dyn BlobStore> {
    let (blobs, mut job) = (memory_store(), Job::new(9));
    let mut storage = open(&*blobs, true, 2);
    for keys in [3, 3] {
        storage
            .write(&*blobs, &job.changed_checkpoint(keys))
            .unwrap();
    }
    blobs
}

/// What is left of the table `position` of a damaged checkpoint is what was written, or nothing, which it says.
fn check_salvaged(salvaged: &Salvaged, damaged: &str) {
    let mut rows = salvaged.rows.values().flatten();
    let is_there = rows.any(|batch| batch.column(0).as_string::<i32>().value(0) == "2");
    assert!(salvaged.rows.is_empty() || is_there, "{salvaged:?}");
    let knows_all = !damaged.ends_with("manifest.json") && is_there;
    assert_eq!(salvaged.is_complete, knows_all, "{damaged}: {salvaged:?}");
    let recovered = match (knows_all, is_there) {
        (true, _) => Recovered::Everything,
        (false, true) => Recovered::Something,
        (false, false) => Recovered::Nothing,
    };
    assert_eq!(salvaged.recovered(), recovered, "{damaged}: {salvaged:?}");
}

#[test]
fn a_store_that_does_not_answer_is_no_reason_to_go_back() {
    let blobs = store_of_two();
    let mut fail_at = 0;
    loop {
        let faulty = FaultyBlobs::new(blobs.clone(), fail_at, Fault::Refused, false);
        let faulty = Arc::new(faulty);
        let newest = CheckpointReader::latest(faulty.clone(), Some(MAX));
        if faulty.calls() <= fail_at {
            assert_eq!(
                newest.unwrap().snapshot.unwrap().checkpoint(),
                CheckpointId(2)
            );
            break;
        }
        let error = newest.unwrap_err().to_string();
        assert!(error.contains("the store failed at call"), "{error}");
        fail_at += 1;
    }
    assert!(fail_at > 3, "{fail_at}");
    // Nor while it is found out what a damaged one has left.
    let data = data_files(&*blobs);
    let data = data
        .iter()
        .rfind(|path| path.starts_with("chk-2/"))
        .unwrap();
    let whole = blobs.get(data).unwrap().unwrap();
    blobs.put(data, whole.slice(..whole.len() - 1)).unwrap();
    let counted = Arc::new(FaultyBlobs::new(
        blobs.clone(),
        u64::MAX,
        Fault::Refused,
        false,
    ));
    let newest = CheckpointReader::latest(counted.clone(), Some(MAX)).unwrap();
    assert_eq!(newest.snapshot.unwrap().checkpoint(), CheckpointId(1));
    let calls = counted.calls();
    let faulty = Arc::new(FaultyBlobs::new(blobs, calls, Fault::Refused, true));
    let newest = CheckpointReader::latest(faulty, Some(MAX)).unwrap();
    assert!(newest.passed_over[0].damage.salvage("position").is_err());
}

#[test]
fn a_truncated_or_changed_file_is_noticed_and_the_checkpoint_before_is_used() {
    let (blobs, mut job) = (memory_store(), Job::new(9));
    // Incremental, so that a data file holds nothing but what its manifest names.
    let mut storage = open(&*blobs, true, 2);
    storage.write(&*blobs, &job.changed_checkpoint(3)).unwrap();
    storage.write(&*blobs, &job.changed_checkpoint(3)).unwrap();
    let damage = |path: &str, changed: Option<Bytes>| {
        let whole = blobs.get(path).unwrap().unwrap();
        match changed {
            Some(changed) => blobs.put(path, changed).unwrap(),
            None => blobs.delete(path).unwrap(),
        }
        let error = CheckpointReader::named(blobs.clone(), CheckpointId(2), Some(MAX)).unwrap_err();
        assert!(error.to_string().contains(path), "{error}");
        let newest = CheckpointReader::latest(blobs.clone(), Some(MAX)).unwrap();
        let reader = newest.snapshot.unwrap();
        assert_eq!(reader.checkpoint(), CheckpointId(1));
        // One without a manifest was never complete, of which nobody need be told.
        if blobs.get("chk-2/manifest.json").unwrap().is_some() {
            let passed_over = &newest.passed_over[0];
            assert_eq!(passed_over.checkpoint, CheckpointId(2));
            let what = passed_over.damage.to_string();
            assert!(what.contains(path), "{what}");
            check_salvaged(&passed_over.damage.salvage("position").unwrap(), path);
        }
        job.check(&reader);
        blobs.put(path, whole).unwrap();
    };
    for blob in blobs.list("chk-2").unwrap() {
        let whole = blobs.get(&blob.path).unwrap().unwrap();
        damage(&blob.path, None);
        damage(&blob.path, Some(whole.slice(..whole.len() - 1)));
        damage(&blob.path, Some(whole.slice(..0)));
        for at in (0..whole.len()).step_by(23) {
            let mut flipped = whole.to_vec();
            flipped[at] ^= 1;
            damage(&blob.path, Some(Bytes::from(flipped)));
        }
    }
    job.check(&latest(&blobs).unwrap().unwrap());
    for id in [1, 2] {
        let path = format!("chk-{id}/manifest.json");
        blobs.put(&path, Bytes::from_static(b"{")).unwrap();
    }
    let error = latest(&blobs).unwrap_err().to_string();
    assert!(
        error.contains("no checkpoint") && error.contains("chk-1/manifest.json"),
        "{error}"
    );
}

#[test]
fn of_two_writers_of_one_checkpoint_the_second_is_fenced_off() {
    let (stores, _directory) = stores();
    for blobs in stores {
        let (mut job, mut twin) = (Job::new(2), Job::new(4));
        let mut storage = open(&*blobs, true, 1);
        let other =
            CheckpointStorage::open(&*blobs, options(true, 1, "other"), StartedFrom::Nothing);
        let mut other = other.unwrap();
        storage.write(&*blobs, &job.changed_checkpoint(50)).unwrap();
        let error = other
            .write(&*blobs, &twin.changed_checkpoint(50))
            .unwrap_err()
            .to_string();
        assert!(error.contains("written by another job"), "{error}");
        let reader = latest(&blobs).unwrap().unwrap();
        job.check(&reader);
        let named: Vec<String> = reader.manifest().files.keys().cloned().collect();
        assert_eq!(
            data_files(&*blobs),
            named,
            "the second leaves nothing behind"
        );
    }
}

fn owner(run: &str) -> Owner {
    Owner {
        job: "job".to_string(),
        run: run.to_string(),
    }
}

#[test]
fn what_another_run_is_writing_is_not_taken_for_the_rest_of_a_checkpoint() {
    let blobs = memory_store();
    let under_way = "chk-3/data-other-1-0".to_string();
    let half = Bytes::from_static(b"half");
    blobs.put(&under_way, half).unwrap();
    owner("other").take(&*blobs).unwrap();
    let mut storage = open(&*blobs, true, 1);
    let mut job = Job::new(9);
    job.coordinator.count_from(storage.last());
    let contents = job.changed_checkpoint(10);
    storage.write(&*blobs, &contents).unwrap_err();
    storage.discard(&*blobs, 0);
    assert_eq!(data_files(&*blobs), [under_way.clone()]);
    owner("run").take(&*blobs).unwrap();
    storage.write(&*blobs, &contents).unwrap();
    assert!(!data_files(&*blobs).contains(&under_way));
    job.check(&latest(&blobs).unwrap().unwrap());
}

#[test]
fn a_run_whose_directory_another_has_taken_completes_no_checkpoint_and_removes_none() {
    let blobs = memory_store();
    let mut job = Job::new(8);
    let mut storage = open(&*blobs, true, 1);
    owner("run").take(&*blobs).unwrap();
    storage.write(&*blobs, &job.changed_checkpoint(10)).unwrap();
    let files = data_files(&*blobs);
    owner("later").take(&*blobs).unwrap();
    let written = storage.write(&*blobs, &job.changed_checkpoint(10));
    let error = written.unwrap_err().to_string();
    assert!(error.contains("another run, of the job 'job'"), "{error}");
    storage.discard(&*blobs, 0);
    assert_eq!(data_files(&*blobs), files);
    job.check(&latest(&blobs).unwrap().unwrap());
    // Back in its own directory it removes what it has there, its name too.
    owner("run").take(&*blobs).unwrap();
    storage.discard(&*blobs, 0);
    assert_eq!(blobs.list("").unwrap(), []);
}

#[test]
fn a_checkpoint_of_another_run_is_copied_or_taken_over() {
    for incremental in [true, false] {
        let (blobs, mut job) = (memory_store(), Job::new(11));
        let mut storage = open(&*blobs, incremental, 1);
        storage
            .write(&*blobs, &job.changed_checkpoint(150))
            .unwrap();
        storage.write(&*blobs, &job.changed_checkpoint(10)).unwrap();
        let reader = Arc::new(latest(&blobs).unwrap().unwrap());
        let elsewhere = memory_store();
        let from = StartedFrom::Copied(reader.clone());
        let copied = CheckpointStorage::open(&*elsewhere, options(incremental, 1, "copy"), from);
        let mut copied = copied.unwrap().with_sizes(SMALL);
        let contents = job.changed_checkpoint(5);
        copied.write(&*elsewhere, &contents).unwrap();
        job.check(&latest(&elsewhere).unwrap().unwrap());
        // The same in its own directory: the old one goes once there is a new one, with all that it alone named.
        let from = StartedFrom::Claimed(reader);
        let claimed = CheckpointStorage::open(&*blobs, options(incremental, 1, "next"), from);
        claimed.unwrap().write(&*blobs, &contents).unwrap();
        let reader = latest(&blobs).unwrap().unwrap();
        job.check(&reader);
        let complete = super::checkpoint_reader::complete_checkpoints(&*blobs).unwrap();
        assert_eq!(complete, [3]);
        let named: Vec<String> = reader.manifest().files.keys().cloned().collect();
        assert_eq!(data_files(&*blobs), named);
    }
}

#[test]
fn a_checkpoint_is_found_by_its_path_and_where_it_was_moved_to() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let blobs = LocalBlobs::new(path("c"));
    let mut job = Job::new(13);
    let mut storage = open(&blobs, false, 2);
    storage.write(&blobs, &job.changed_checkpoint(20)).unwrap();
    storage.write(&blobs, &job.changed_checkpoint(20)).unwrap();
    for (path, id) in [(path("c"), 2), (path("c/chk-1"), 1), (path("c/chk-2/"), 2)] {
        let reader = CheckpointReader::open(&path, MAX).unwrap();
        assert_eq!(reader.checkpoint(), CheckpointId(id));
        job.check(&reader);
    }
    std::fs::rename(path("c/chk-1"), path("kept")).unwrap();
    job.check(&CheckpointReader::open(&path("kept"), MAX).unwrap());
    let error = CheckpointReader::open(&path("c"), 64)
        .unwrap_err()
        .to_string();
    assert!(error.contains("pipeline.max-parallelism 128"), "{error}");
    let error = CheckpointReader::open(&path("nowhere"), MAX)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("no complete checkpoint or savepoint"),
        "{error}"
    );
    assert_eq!(
        CheckpointStorage::read(&path("c"), None)
            .unwrap()
            .checkpoint,
        CheckpointId(2)
    );
}

#[test]
fn everything_in_pieces_takes_the_place_of_all_before() {
    let (blobs, mut job) = (memory_store(), Job::new(17));
    let mut storage = open(&*blobs, false, 1);
    storage
        .write(&*blobs, &job.changed_checkpoint(100))
        .unwrap();
    let everything = job.everything();
    let pieces = 5;
    for _ in 0..2 {
        let mut at_hand = everything.clone();
        for piece in 0..pieces {
            let span = KeySpan::ALL.share(piece, pieces + 1);
            let mut part = everything
                .filter_keyed(&|hash| span.contains(hash))
                .unwrap();
            part.retain_keyed();
            part.gone = Some(Vec::new());
            let part = StatePart::write(&job.parts, "sum", &part).unwrap();
            at_hand.parts.push(part);
            let operator = at_hand.tables["position"].clone();
            at_hand = StateSnapshot {
                parts: at_hand.parts.clone(),
                ..at_hand.filter_keyed(&|hash| !span.contains(hash)).unwrap()
            };
            at_hand.tables.insert("position".to_string(), operator);
        }
        job.position += 1;
        let contents = job.checkpoint(at_hand);
        storage.write(&*blobs, &contents).unwrap();
        let reader = latest(&blobs).unwrap().unwrap();
        job.check(&reader);
        let segments = &reader.manifest().operators["sum"].segments;
        assert!(
            segments.len() <= 2,
            "pieces in order are one segment: {}",
            segments.len()
        );
    }
}
