//! Sinks of files that are killed at every step, against a model: what is visible is what complete checkpoints cover, each row once.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use arrow::array::AsArray;
use arrow::compute::concat_batches;
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::object_parts::ObjectParts;
use super::part_store::PartStore;
use super::sink::FilesystemSink;
use super::tests::{decode, descriptor, read, request, sample, sink_table};
use super::*;
use crate::blobs::{BlobInfo, BlobStore, LocalBlobs, Upload, open_blobs};
use crate::connectors::source::PollRequest;
use crate::connectors::{SourcePoll, SplitState};
use crate::operators::{COMMITTABLES, COMMITTED_SINCE, SinkOperator, SinkSpec};
use crate::operators::{Context, Flow, InputIndex, Operator, Output, Subtask};
use crate::state::StateSnapshot;
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{LogicalType, ProcessingTime};

/// A store whose calls fail now and then: before they did anything, or having done all of it.
#[derive(Debug)]
struct FaultyBlobs {
    inner: Arc<dyn BlobStore>,
    faults: Arc<Faults>,
}

#[derive(Debug)]
struct Faults {
    random: Mutex<SmallRng>,
    /// Of a hundred calls.
    rate: AtomicU64,
}

impl FaultyBlobs {
    fn call<T>(&self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let (fails, first) = {
            let mut random = self.faults.random.lock().unwrap();
            let rate = self.faults.rate.load(Ordering::Relaxed);
            (random.random_range(0..100) < rate, random.random_bool(0.5))
        };
        if fails && first {
            return Err(Error::external("the store does not answer"));
        }
        let result = call()?;
        match fails {
            true => Err(Error::external("the store's answer was lost")),
            false => Ok(result),
        }
    }
}

impl BlobStore for FaultyBlobs {
    fn location(&self) -> String {
        self.inner.location()
    }
    fn put(&self, path: &str, bytes: Bytes) -> Result<()> {
        self.call(|| self.inner.put(path, bytes))
    }
    fn create(&self, path: &str, bytes: Bytes) -> Result<bool> {
        self.call(|| self.inner.create(path, bytes))
    }
    fn get(&self, path: &str) -> Result<Option<Bytes>> {
        self.call(|| self.inner.get(path))
    }
    fn get_range(&self, path: &str, offset: u64, length: u64) -> Result<Bytes> {
        self.call(|| self.inner.get_range(path, offset, length))
    }
    fn list(&self, prefix: &str) -> Result<Vec<BlobInfo>> {
        self.call(|| self.inner.list(prefix))
    }
    fn delete(&self, path: &str) -> Result<()> {
        self.call(|| self.inner.delete(path))
    }
    fn start_upload(&self, path: &str) -> Result<Upload> {
        self.call(|| self.inner.start_upload(path))
    }
    fn put_part(&self, upload: &mut Upload, bytes: Bytes) -> Result<()> {
        self.call(|| self.inner.put_part(upload, bytes))
    }
    fn complete_upload(&self, upload: &Upload) -> Result<()> {
        self.call(|| self.inner.complete_upload(upload))
    }
    fn abort_upload(&self, upload: &Upload) -> Result<()> {
        self.call(|| self.inner.abort_upload(upload))
    }
}

/// Where the table is, and how a new process reaches it.
struct Place {
    table: TableDescriptor,
    /// The local directory, where killed processes leave hidden files.
    directory: Option<PathBuf>,
    blobs: Option<Arc<dyn BlobStore>>,
    faults: Arc<Faults>,
    _root: tempfile::TempDir,
}

impl Place {
    fn new(kind: &str, format: &str, seed: u64) -> Place {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("out");
        let faults = Arc::new(Faults {
            random: Mutex::new(SmallRng::seed_from_u64(seed)),
            rate: AtomicU64::new(0),
        });
        let faulty = |inner: Arc<dyn BlobStore>| -> Arc<dyn BlobStore> {
            Arc::new(FaultyBlobs {
                inner,
                faults: faults.clone(),
            })
        };
        let url = format!("memory://sink-{format}-{seed}/out");
        let (path, blobs) = match kind {
            "memory" => (PathBuf::from(&url), Some(faulty(open_blobs(&url).unwrap()))),
            "local blobs" => {
                let blobs = Arc::new(LocalBlobs::new(&directory));
                (directory.clone(), Some(faulty(blobs)))
            }
            _ => (directory.clone(), None),
        };
        let mut table = sink_table(&path, format);
        // Several parts a checkpoint.
        let size = "sink.rolling-policy.file-size";
        table.options.insert(size.to_string(), "200 b".to_string());
        Place {
            directory: (kind == "files").then_some(directory),
            table,
            blobs,
            faults,
            _root: root,
        }
    }

    /// The sink as a new process makes it.
    fn sink(&self) -> Arc<dyn Sink> {
        let Some(blobs) = &self.blobs else {
            return FilesystemFactory.create_sink(&self.table).unwrap();
        };
        let table = Arc::new(FilesystemTable::new(&self.table).unwrap());
        let store: Arc<dyn PartStore> = Arc::new(ObjectParts::with_pieces(blobs.clone(), 64));
        Arc::new(FilesystemSink::new(table, store))
    }

    /// The rows that readers see, sorted.
    fn visible(&self) -> Vec<i64> {
        let rate = self.faults.rate.swap(0, Ordering::Relaxed);
        let rows = match read(&self.table, &request(100, 1 << 20)) {
            Ok((rows, _)) => rows,
            Err(error) if error.to_string().contains("there is no") => Vec::new(),
            Err(error) => panic!("{error}"),
        };
        self.faults.rate.store(rate, Ordering::Relaxed);
        let number = |row: &String| row.split([':', ',']).nth(1).unwrap().parse().unwrap();
        let mut numbers: Vec<i64> = rows.iter().map(number).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// One attempt of a job.
struct Attempt {
    subtasks: Vec<(SinkOperator, Context)>,
}

impl Attempt {
    fn start(place: &Place, parallelism: usize) -> Result<Attempt> {
        let sink = place.sink();
        let subtask = |index| {
            let subtask = Subtask {
                index,
                parallelism,
                ..Subtask::SINGLE
            };
            let spec = SinkSpec {
                commit_retries: 3,
                ..SinkSpec::AS_THEY_ARE
            };
            let operator = SinkOperator::new(sink.clone(), subtask, spec)?;
            Ok((operator, Context::new(subtask, Default::default())))
        };
        Ok(Attempt {
            subtasks: (0..parallelism).map(subtask).collect::<Result<_>>()?,
        })
    }

    fn restore(place: &Place, parallelism: usize, snapshot: &StateSnapshot) -> Result<Attempt> {
        let mut attempt = Attempt::start(place, parallelism)?;
        for (operator, ctx) in &mut attempt.subtasks {
            operator.restore_state(ctx, snapshot.clone())?;
        }
        attempt.on_restored()?;
        Ok(attempt)
    }

    fn on_restored(&mut self) -> Result<()> {
        let mut subtasks = self.subtasks.iter_mut();
        subtasks.try_for_each(|(operator, _)| operator.on_restored())
    }

    fn write(&mut self, place: &Place, subtask: usize, rows: std::ops::Range<usize>) -> Result<()> {
        let (operator, ctx) = &mut self.subtasks[subtask];
        let batch = ChangelogBatch::insert_only(decode(&place.table, &sample(rows)));
        let mut out = Output::new(false);
        let flow = operator.process_batch(ctx, InputIndex::FIRST, batch, &mut out)?;
        assert_eq!(flow, Flow::Done);
        Ok(())
    }

    fn snapshot(&mut self, checkpoint: u64) -> Result<StateSnapshot> {
        let mut merged = StateSnapshot::default();
        for (operator, ctx) in &mut self.subtasks {
            merged.merge(operator.snapshot_state(ctx, CheckpointId(checkpoint))?);
        }
        Ok(merged)
    }

    /// Tells the first of the subtasks.
    fn complete(&mut self, checkpoint: u64, subtasks: usize) -> Result<()> {
        for (operator, ctx) in self.subtasks.iter_mut().take(subtasks) {
            operator.notify_checkpoint_complete(ctx, CheckpointId(checkpoint))?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<StateSnapshot> {
        for (operator, ctx) in &mut self.subtasks {
            let flow = operator.finish(ctx, &mut Output::new(false))?;
            assert_eq!(flow, Flow::Done);
        }
        self.snapshot(u64::MAX)
    }

    /// Dies without cleaning up, as a killed process does: only its locks are gone.
    fn kill(self, directory: Option<&Path>) {
        let entries = directory.and_then(|directory| fs::read_dir(directory).ok());
        let hidden: Vec<_> = entries
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_str().unwrap().contains(".inprogress"))
            .map(|path| (fs::read(&path).unwrap(), path))
            .collect();
        drop(self);
        for (content, path) in hidden {
            fs::write(path, content).unwrap();
        }
    }
}

/// What a complete checkpoint covers.
#[derive(Default, Clone)]
struct Complete {
    snapshot: StateSnapshot,
    rows: usize,
    checkpoint: u64,
}

/// A random run; each failing call ends an attempt, as in a job.
struct Run {
    place: Place,
    random: SmallRng,
    attempt: Option<Attempt>,
    /// Rows that the source has given.
    rows: usize,
    checkpoint: u64,
    complete: Complete,
    /// The complete checkpoint before, which is restored where the last one is damaged.
    before: Option<Complete>,
}

impl Run {
    fn new(kind: &str, format: &str, seed: u64) -> Run {
        let place = Place::new(kind, format, seed);
        let mut run = Run {
            attempt: None,
            random: SmallRng::seed_from_u64(seed + 1000),
            rows: 0,
            checkpoint: 0,
            complete: Complete::default(),
            before: None,
            place,
        };
        let faults = if seed.is_multiple_of(2) { 0 } else { 7 };
        run.place.faults.rate.store(faults, Ordering::Relaxed);
        run.restore();
        run
    }

    /// Begins an attempt at some parallelism, from the last complete checkpoint; again where that fails.
    fn restore(&mut self) {
        loop {
            if let Some(attempt) = self.attempt.take() {
                attempt.kill(self.place.directory.as_deref());
            }
            (self.rows, self.checkpoint) = (self.complete.rows, self.complete.checkpoint);
            let parallelism = self.random.random_range(1..4);
            let restored = Attempt::restore(&self.place, parallelism, &self.complete.snapshot);
            self.attempt = restored.ok();
            if self.attempt.is_some() {
                return self.assert_visible("after a restore");
            }
        }
    }

    fn completed(&mut self, complete: Complete) {
        self.before = Some(std::mem::replace(&mut self.complete, complete));
    }

    /// A byte of the last complete checkpoint changes: the one before is restored, and told what the last one had committed.
    fn damage(&mut self) {
        if let Some(mut before) = self.before.take() {
            let since = self.complete.snapshot.batches(COMMITTABLES).to_vec();
            before.snapshot.insert_operator(COMMITTED_SINCE, since);
            self.complete = before;
        }
    }

    fn step(&mut self) -> Result<()> {
        let attempt = self.attempt.as_mut().unwrap();
        match self.random.random_range(0..12) {
            0..7 => {
                let rows = self.rows..self.rows + self.random.random_range(1..6);
                let subtask = self.random.random_range(0..attempt.subtasks.len());
                self.rows = rows.end;
                attempt.write(&self.place, subtask, rows)
            }
            7..10 => {
                self.checkpoint += 1;
                let snapshot = attempt.snapshot(self.checkpoint)?;
                if self.random.random_bool(0.3) {
                    return Ok(());
                }
                let told = self.random.random_range(0..5);
                let committed = attempt.complete(self.checkpoint, told);
                self.completed(Complete {
                    snapshot,
                    rows: self.rows,
                    checkpoint: self.checkpoint,
                });
                committed
            }
            10 => {
                if self.random.random_bool(0.4) {
                    self.damage();
                }
                Err(Error::external("killed"))
            }
            _ => {
                self.assert_no_row_twice();
                Ok(())
            }
        }
    }

    fn end(&mut self) -> Result<()> {
        let attempt = self.attempt.as_mut().unwrap();
        let snapshot = attempt.finish()?;
        let committed = attempt.complete(u64::MAX, usize::MAX);
        self.completed(Complete {
            snapshot,
            rows: self.rows,
            checkpoint: self.checkpoint + 1,
        });
        committed
    }

    fn assert_no_row_twice(&self) {
        let visible = self.place.visible();
        assert!(visible.windows(2).all(|two| two[0] < two[1]), "{visible:?}");
        let covered = self.complete.rows as i64;
        assert!(visible.iter().all(|row| *row < covered), "{visible:?}");
    }

    fn assert_visible(&self, when: &str) {
        let expected: Vec<i64> = (0..self.complete.rows as i64).collect();
        assert_eq!(self.place.visible(), expected, "{when}");
    }
}

fn run_random(kind: &str, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let format = ["json", "csv", "parquet"][seed as usize % 3];
        let mut run = Run::new(kind, format, seed);
        for _ in 0..30 {
            if run.step().is_err() {
                run.restore();
            }
        }
        while run.end().is_err() {
            run.restore();
        }
        run.assert_visible("at the end");
        let left = run.place.visible();
        assert_eq!(left.len(), run.rows, "{kind}, seed {seed}");
    }
}

#[test]
fn files_hold_each_row_of_complete_checkpoints_once_whatever_is_killed() {
    run_random("files", 0..60);
}

#[test]
fn uploads_below_a_directory_hold_each_row_of_complete_checkpoints_once() {
    run_random("local blobs", 100..140);
}

#[test]
fn objects_hold_each_row_of_complete_checkpoints_once_whatever_fails() {
    run_random("memory", 200..280);
}

#[test]
fn an_older_checkpoint_writes_again_what_later_ones_had_committed() {
    for kind in ["files", "memory"] {
        let place = Place::new(kind, "json", 5000);
        let mut attempt = Attempt::start(&place, 2).unwrap();
        attempt.write(&place, 0, 0..2).unwrap();
        let first = attempt.snapshot(1).unwrap();
        attempt.complete(1, 2).unwrap();
        attempt.write(&place, 0, 2..4).unwrap();
        attempt.snapshot(2).unwrap();
        attempt.complete(2, 2).unwrap();
        attempt.write(&place, 1, 4..6).unwrap();
        let third = attempt.snapshot(3).unwrap();
        attempt.kill(place.directory.as_deref());

        let mut again = Attempt::restore(&place, 1, &first).unwrap();
        assert_eq!(place.visible(), [0, 1, 2, 3], "what is visible stays");
        let warnings = again.subtasks[0].1.metrics().take_warnings();
        assert!(warnings[0].contains("come a second time"), "{warnings:?}");
        assert!(warnings[0].contains("out/part-"), "{warnings:?}");
        again.write(&place, 0, 2..4).unwrap();
        again.snapshot(2).unwrap();
        again.complete(2, 2).unwrap();
        assert_eq!(place.visible(), [0, 1, 2, 2, 3, 3]);
        // What the third had prepared was dropped where it could be found.
        let later = Attempt::restore(&place, 1, &third);
        match kind {
            "files" => assert!(later.err().unwrap().to_string().contains("is gone")),
            _ => assert!(later.is_ok()),
        }
    }
}

#[test]
fn a_restored_sink_leaves_what_another_one_of_its_table_has_to_commit() {
    for kind in ["files", "memory", "local blobs"] {
        let place = Place::new(kind, "json", 8000);
        let statements = [0..2, 2..4].map(|rows| {
            let mut attempt = Attempt::start(&place, 1).unwrap();
            attempt.write(&place, 0, rows).unwrap();
            (attempt.snapshot(1).unwrap(), attempt)
        });
        let snapshots = statements.map(|(snapshot, attempt)| {
            attempt.kill(place.directory.as_deref());
            snapshot
        });
        let mut restored = snapshots.map(|snapshot| {
            let mut attempt = Attempt::start(&place, 1).unwrap();
            let (operator, ctx) = &mut attempt.subtasks[0];
            operator.restore_state(ctx, snapshot).unwrap();
            attempt
        });
        for attempt in &mut restored {
            attempt.on_restored().unwrap();
        }
        assert_eq!(place.visible(), [0, 1, 2, 3], "{kind}");
    }
}

#[test]
fn one_sink_for_several_attempts_gives_no_name_twice_and_leaves_nothing() {
    let place = Place::new("files", "json", 6000);
    let sink = place.sink();
    let directory = place.directory.as_deref().unwrap();
    let write = |rows: std::ops::Range<usize>| {
        let mut writer = sink.writer(Subtask::SINGLE).unwrap();
        let batch = ChangelogBatch::insert_only(decode(&place.table, &sample(rows)));
        writer.write(&batch).unwrap();
        writer.prepare_commit(CheckpointId(1)).unwrap()
    };
    let first = write(0..2);
    sink.commit(&first).unwrap();
    // Its checkpoint never completes.
    write(5..7);
    let mut third = sink.writer(Subtask::SINGLE).unwrap();
    sink.commit(&first).unwrap();
    third.discard_uncommitted().unwrap();
    let fourth = write(2..3);
    sink.commit(&fourth).unwrap();
    assert_eq!(place.visible(), [0, 1, 2]);
    assert_eq!(fs::read_dir(directory).unwrap().count(), 2);
}

#[test]
fn an_object_that_a_reader_took_away_does_not_come_back() {
    let place = Place::new("memory", "json", 7000);
    let mut attempt = Attempt::start(&place, 1).unwrap();
    attempt.write(&place, 0, 0..2).unwrap();
    let snapshot = attempt.snapshot(1).unwrap();
    attempt.complete(1, 1).unwrap();
    let blobs = place.blobs.clone().unwrap();
    let path = blobs.list("").unwrap().remove(0).path;
    blobs.delete(&path).unwrap();
    let error = Attempt::restore(&place, 1, &snapshot).err().unwrap();
    assert!(error.to_string().contains("put an object at"), "{error}");
    assert!(place.visible().is_empty());
    // As it says.
    blobs.put(&path, Bytes::from_static(b"\n")).unwrap();
    Attempt::restore(&place, 1, &snapshot).unwrap();
}

#[test]
fn a_checkpoint_of_another_kind_of_path_is_refused() {
    let (files, memory) = (
        Place::new("files", "json", 7100),
        Place::new("memory", "json", 7100),
    );
    for (from, to) in [(&files, &memory), (&memory, &files)] {
        let mut attempt = Attempt::start(from, 1).unwrap();
        attempt.write(from, 0, 0..2).unwrap();
        let snapshot = attempt.snapshot(1).unwrap();
        let error = Attempt::restore(to, 1, &snapshot)
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains("the path that the table had"), "{error}");
    }
}

#[test]
fn two_tables_may_share_a_directory() {
    let place = Place::new("files", "json", 7200);
    let mut other = place.table.clone();
    other.name = "other".to_string();
    let sinks = [
        place.sink(),
        FilesystemFactory.create_sink(&other).unwrap(),
        place.sink(),
    ];
    let mut prepared = Vec::new();
    for (number, sink) in sinks.iter().enumerate() {
        let mut writer = sink.writer(Subtask::SINGLE).unwrap();
        let rows = decode(&place.table, &sample(number..number + 1));
        writer.write(&ChangelogBatch::insert_only(rows)).unwrap();
        prepared.push(writer.prepare_commit(CheckpointId(1)).unwrap());
    }
    for (sink, prepared) in std::iter::zip(&sinks, &prepared) {
        sink.commit(prepared).unwrap();
    }
    assert_eq!(place.visible(), [0, 1, 2]);
}

#[test]
fn uploads_have_pieces_of_one_size_and_dropped_ones_are_aborted() {
    let directory = tempfile::tempdir().unwrap();
    let blobs: Arc<dyn BlobStore> = Arc::new(LocalBlobs::new(directory.path()));
    let parts = ObjectParts::with_pieces(blobs.clone(), 10);
    let mut names = part_store::PartNames::new(0, "json");
    let mut output = parts.create(&mut names).unwrap();
    for piece in ["abcdefgh", "ijklmnopqrstuvwxyz", "0", ""] {
        output.write_all(piece.as_bytes()).unwrap();
    }
    let part = output.prepare().unwrap();
    assert!(blobs.list("").unwrap().is_empty());
    parts.commit(std::slice::from_ref(&part)).unwrap();
    let path = blobs.list("").unwrap().remove(0).path;
    assert_eq!(
        &blobs.get(&path).unwrap().unwrap()[..],
        b"abcdefghijklmnopqrstuvwxyz0"
    );
    let mut dropped = parts.create(&mut names).unwrap();
    dropped.write_all(&[0; 25]).unwrap();
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    drop(dropped);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    // A part of 100 GB stays below the number of pieces that stores allow.
    let large = ObjectParts::new(blobs, 100 << 30);
    assert!((100u64 << 30) / large.piece_bytes() as u64 <= 5000);
}

#[test]
fn large_pieces_are_uploaded_beside_the_writing() {
    let blobs = open_blobs("memory://sink-large/a").unwrap();
    let parts = ObjectParts::new(blobs.clone(), 1 << 30);
    let mut names = part_store::PartNames::new(0, "json");
    let mut output = parts.create(&mut names).unwrap();
    let blocks: Vec<Vec<u8>> = (0..21u8).map(|n| vec![n; 1 << 20]).collect();
    for block in &blocks {
        output.write_all(block).unwrap();
    }
    let part = output.prepare().unwrap();
    parts.commit(&[part]).unwrap();
    let path = blobs.list("").unwrap().remove(0).path;
    assert!(blobs.get(&path).unwrap().unwrap() == blocks.concat());
    let mut dropped = parts.create(&mut names).unwrap();
    dropped.write_all(&blocks.concat()).unwrap();
    drop(dropped);
    assert_eq!(blobs.list("").unwrap().len(), 1);
}

#[test]
fn parquet_parts_are_what_was_written_in_row_groups_of_a_size() {
    for (path, compression) in [
        ("memory://sink-parquet/a", "ZSTD"),
        ("memory://sink-parquet/b", "snappy"),
    ] {
        let mut table = sink_table(Path::new(path), "parquet");
        for (key, value) in [
            ("parquet.compression", compression),
            ("parquet.block.size", "20000"),
        ] {
            table.options.insert(key.to_string(), value.to_string());
        }
        let sink = FilesystemFactory.create_sink(&table).unwrap();
        let mut writer = sink.writer(Subtask::SINGLE).unwrap();
        let batches: Vec<_> = (0..20)
            .map(|n| decode(&table, &sample(n * 1000..(n + 1) * 1000)))
            .collect();
        for batch in &batches {
            writer
                .write(&ChangelogBatch::insert_only(batch.clone()))
                .unwrap();
        }
        sink.commit(&writer.prepare_commit(CheckpointId(1)).unwrap())
            .unwrap();
        let written = concat_batches(&batches[0].schema(), &batches).unwrap();

        // By our reader, which goes on from every position.
        let source = FilesystemFactory.create_source(&table).unwrap();
        let mut splits: Vec<SplitState> = source.splits().unwrap();
        assert_eq!(splits.len(), 1);
        let mut found = Vec::new();
        while !splits.is_empty() {
            let mut reader = source.reader().unwrap();
            reader.add_splits(splits).unwrap();
            for _ in 0..3 {
                let request = PollRequest {
                    max_rows: 1700,
                    max_bytes: 1 << 20,
                    now: ProcessingTime(0),
                };
                if let SourcePoll::Rows { rows, .. } = reader.poll(&request).unwrap() {
                    found.push(rows);
                }
            }
            splits = reader.snapshot().unwrap();
        }
        assert_eq!(concat_batches(&found[0].schema(), &found).unwrap(), written);

        // By the parquet crate alone.
        let blobs = open_blobs(path).unwrap();
        let object = blobs.list("").unwrap().remove(0);
        let bytes = blobs.get(&object.path).unwrap().unwrap();
        let builder =
            parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap();
        let groups = builder.metadata().row_groups();
        assert!(groups.len() > 2, "{} row groups", groups.len());
        let codec = format!("{:?}", groups[0].column(0).compression());
        assert!(
            codec
                .to_uppercase()
                .starts_with(&compression.to_uppercase()),
            "{codec}"
        );
        let rows: usize = builder
            .build()
            .unwrap()
            .map(|batch| batch.unwrap().column(0).as_primitive::<Int64Type>().len())
            .sum();
        assert_eq!(rows, 20_000);
    }
}

#[test]
fn text_objects_are_read_from_every_position() {
    let table = sink_table(Path::new("memory://sink-text/a/*.json"), "json");
    let blobs = open_blobs("memory://sink-text/a").unwrap();
    let text = sample(0..40).join("\n");
    blobs.put("x.json", Bytes::from(text)).unwrap();
    blobs.put("y.txt", Bytes::from_static(b"no JSON")).unwrap();
    let source = FilesystemFactory.create_source(&table).unwrap();
    let mut splits = source.splits().unwrap();
    let mut rows = 0;
    while !splits.is_empty() {
        let mut reader = source.reader().unwrap();
        reader.add_splits(splits).unwrap();
        if let SourcePoll::Rows { rows: found, .. } = reader.poll(&request(7, 1 << 20)).unwrap() {
            rows += found.num_rows();
        }
        splits = reader.snapshot().unwrap();
    }
    assert_eq!(rows, 40);

    let splits = source.splits().unwrap();
    blobs.put("x.json", Bytes::from_static(b"{}")).unwrap();
    let mut reader = source.reader().unwrap();
    reader.add_splits(splits).unwrap();
    let error = reader.poll(&request(7, 1 << 20)).unwrap_err().to_string();
    assert!(error.contains("it was replaced"), "{error}");
}

#[test]
fn options_of_sinks_are_checked() {
    let columns = [("a", LogicalType::BIGINT)];
    for (key, value, expected) in [
        ("sink.parallelism", "0", "at least 1"),
        ("parquet.block.size", "0", "above 0"),
        ("parquet.compression", "BROTLI", "SNAPPY, ZSTD"),
        ("auto-compaction", "TRUE", "not supported"),
        ("sink.rolling-policy.file-size", "much", "is no size"),
    ] {
        let options = [("format", "parquet"), (key, value)];
        let table = descriptor(Path::new("memory://sink-options"), &options, &columns);
        let error = FilesystemFactory
            .create_sink(&table)
            .err()
            .unwrap()
            .to_string();
        assert!(error.contains(expected), "{error}");
    }
    let pattern = descriptor(
        Path::new("memory://sink-options/*.json"),
        &[("format", "json")],
        &columns,
    );
    let error = FilesystemFactory
        .create_sink(&pattern)
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("is a pattern"), "{error}");
    let pairs = [("format", "json"), ("sink.parallelism", "3")];
    let table = descriptor(Path::new("x"), &pairs, &columns);
    let sink = FilesystemFactory.create_sink(&table).unwrap();
    assert_eq!(sink.parallelism(), Some(3));
}

#[test]
fn what_damaged_checkpoints_had_committed_is_hidden_and_kept() {
    let place = Place::new("files", "json", 5100);
    let directory = place.directory.clone().unwrap();
    let mut attempt = Attempt::start(&place, 1).unwrap();
    attempt.write(&place, 0, 0..2).unwrap();
    let mut older = attempt.snapshot(1).unwrap();
    attempt.complete(1, 1).unwrap();
    attempt.write(&place, 0, 2..4).unwrap();
    let damaged = attempt.snapshot(2).unwrap();
    attempt.complete(2, 1).unwrap();
    assert_eq!(place.visible(), [0, 1, 2, 3]);
    attempt.kill(Some(&directory));

    older.insert_operator(COMMITTED_SINCE, damaged.batches(COMMITTABLES).to_vec());
    // Again and again, as where the process dies behind it.
    for _ in 0..2 {
        let restored = Attempt::restore(&place, 1, &older).unwrap();
        assert_eq!(place.visible(), [0, 1]);
        let (_, ctx) = &restored.subtasks[0];
        assert_eq!(ctx.metrics().take_warnings(), Vec::<String>::new());
    }
    let kept: Vec<PathBuf> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().contains(".taken-back."))
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(fs::read_to_string(&kept[0]).unwrap().lines().count() == 2);

    // Who has taken the file away gets its rows again, and is told so.
    fs::remove_file(&kept[0]).unwrap();
    let restored = Attempt::restore(&place, 1, &older).unwrap();
    let warnings = restored.subtasks[0].1.metrics().take_warnings();
    assert!(warnings[0].contains("a second time"), "{warnings:?}");
}
