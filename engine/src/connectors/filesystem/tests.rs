//! Tests of the filesystem connector: exact positions, files and lines in errors, and sinks that are killed at every step.

use std::fs;
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;

use super::*;
use crate::connectors::source::PollRequest;
use crate::connectors::{Committable, SinkWriter, SourcePoll, SourceReader, SplitState};
use crate::formats::json::{JsonDecoder, JsonEncoder};
use crate::formats::{Decoder, Encoder};
use crate::operators::Subtask;
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{
    Field, LogicalType, ProcessingTime, RowField, RowKind, RowKinds, Schema, TypeRoot,
};

pub(super) fn descriptor(
    path: &Path,
    options: &[(&str, &str)],
    columns: &[(&str, LogicalType)],
) -> TableDescriptor {
    let path = path.to_str().unwrap();
    TableDescriptor {
        name: "t".to_string(),
        physical: Schema::new(
            columns
                .iter()
                .map(|(name, logical_type)| Field::new(*name, logical_type.clone()))
                .collect(),
        ),
        projection: (0..columns.len()).collect(),
        primary_key: vec![],
        options: [("connector", "filesystem"), ("path", path)]
            .iter()
            .chain(options)
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect(),
        time_zone: "UTC".to_string(),
    }
}

pub(super) fn json(path: &Path) -> TableDescriptor {
    let columns = [("a", LogicalType::BIGINT), ("s", LogicalType::STRING)];
    descriptor(path, &[("format", "json")], &columns)
}

pub(super) fn request(max_rows: usize, max_bytes: usize) -> PollRequest {
    PollRequest {
        max_rows,
        max_bytes,
        now: ProcessingTime(0),
    }
}

/// Rows as JSON lines.
fn lines(descriptor: &TableDescriptor, rows: &RecordBatch) -> Vec<String> {
    let table = FilesystemTable::new(descriptor).unwrap();
    let mut out = Vec::new();
    JsonEncoder::new(&table.context)
        .unwrap()
        .encode(rows, &RowKinds::INSERT_ONLY, &mut out)
        .unwrap();
    String::from_utf8(out)
        .unwrap()
        .lines()
        .map(str::to_string)
        .collect()
}

fn reader(descriptor: &TableDescriptor, splits: Vec<SplitState>) -> Box<dyn SourceReader> {
    let source = FilesystemFactory.create_source(descriptor).unwrap();
    let mut reader = source.reader().unwrap();
    reader.add_splits(splits).unwrap();
    reader
}

/// Everything that a table holds, and how many batches it took.
pub(super) fn read(
    descriptor: &TableDescriptor,
    request: &PollRequest,
) -> Result<(Vec<String>, usize)> {
    let source = FilesystemFactory.create_source(descriptor)?;
    let mut reader = reader(descriptor, source.splits()?);
    let (mut found, mut batches) = (Vec::new(), 0);
    loop {
        match reader.poll(request)? {
            SourcePoll::Rows { rows, .. } => {
                assert!(rows.num_rows() > 0, "a batch has rows");
                found.extend(lines(descriptor, &rows));
                batches += 1;
            }
            SourcePoll::End => return Ok((found, batches)),
            _ => {}
        }
    }
}

pub(super) fn sample(rows: std::ops::Range<usize>) -> Vec<String> {
    rows.map(|row| format!("{{\"a\":{row},\"s\":\"{}\"}}", "x".repeat(row % 7)))
        .collect()
}

#[test]
fn files_are_read_by_name_and_each_is_a_split() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("b.json"), sample(3..5).join("\n")).unwrap();
    fs::write(
        directory.path().join("a.json"),
        sample(0..3).join("\n") + "\n\n",
    )
    .unwrap();
    fs::write(directory.path().join("c.json"), "").unwrap();
    let table = json(directory.path());
    let source = FilesystemFactory.create_source(&table).unwrap();
    assert!(source.is_bounded());
    let splits = source.splits().unwrap();
    assert_eq!(splits.len(), 3);
    assert!(splits[0].id.ends_with("a.json"));
    let mut reader = reader(&table, splits);
    let mut events = Vec::new();
    loop {
        match reader.poll(&request(10, 1 << 20)).unwrap() {
            SourcePoll::Rows { rows, .. } => events.push(rows.num_rows().to_string()),
            SourcePoll::SplitEnd(id) => events.push(id[id.len() - 6..].to_string()),
            SourcePoll::End => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(events, ["3", "a.json", "2", "b.json", "c.json"]);
    assert!(reader.snapshot().unwrap().is_empty());
}

#[test]
fn a_reader_goes_on_from_every_position() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("a.json"), sample(0..20).join("\n")).unwrap();
    fs::write(
        directory.path().join("b.json"),
        sample(20..30).join("\r\n") + "\r\n",
    )
    .unwrap();
    let table = json(directory.path());
    for max_rows in [1, 3, 100] {
        for max_bytes in [1, 50, 1 << 20] {
            let source = FilesystemFactory.create_source(&table).unwrap();
            let mut splits = source.splits().unwrap();
            let mut found = Vec::new();
            // A new reader after every poll.
            while !splits.is_empty() {
                let mut reader = reader(&table, splits);
                if let SourcePoll::Rows { rows, .. } =
                    reader.poll(&request(max_rows, max_bytes)).unwrap()
                {
                    assert!(rows.num_rows() <= max_rows);
                    found.extend(lines(&table, &rows));
                }
                splits = reader.snapshot().unwrap();
            }
            assert_eq!(found, sample(0..30), "{max_rows} rows, {max_bytes} bytes");
        }
    }
}

#[test]
fn a_batch_holds_the_records_that_its_bytes_hold_and_at_least_one() {
    let directory = tempfile::tempdir().unwrap();
    // A hundred lines of 18 bytes; then one of 515.
    let short = |row: usize| format!("{{\"a\":{},\"s\":\"\"}}\n", 1_000 + row);
    let long = format!("{{\"a\":1,\"s\":\"{}\"}}\n", "x".repeat(500));
    let text: String = (0..100).map(short).chain([long]).collect();
    assert_eq!(text.len(), 100 * 18 + 515);
    fs::write(directory.path().join("a.json"), text).unwrap();
    let table = json(directory.path());
    for (bytes, batches) in [(1, 101), (50, 51), (180, 11), (2_000, 2), (1 << 20, 1)] {
        let (found, taken) = read(&table, &request(1_000, bytes)).unwrap();
        assert_eq!((found.len(), taken), (101, batches), "{bytes} bytes");
    }
}

#[test]
fn large_files_flow_through_blocks() {
    let directory = tempfile::tempdir().unwrap();
    let long = "y".repeat(3 << 20);
    let mut expected = sample(0..100_000);
    expected.insert(70_000, format!("{{\"a\":-1,\"s\":\"{long}\"}}"));
    fs::write(directory.path().join("a.json"), expected.join("\n")).unwrap();
    let table = json(directory.path());
    let (found, batches) = read(&table, &request(8192, 1 << 20)).unwrap();
    assert!(found == expected);
    assert!(batches < 20, "{batches} batches");
}

#[test]
fn errors_name_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("x.json");
    let mut text = sample(0..30_000);
    text.insert(29_000, "{\"a\":\"delayed\"}".to_string());
    fs::write(&file, text.join("\n")).unwrap();
    let error = read(&json(&file), &request(1000, 1 << 20)).unwrap_err();
    assert_eq!(error.kind(), crate::error::ErrorKind::Data);
    assert_eq!(
        error.message(),
        format!(
            "file {}, line 29001: table \"t\": field \"a\": cannot read \"delayed\" as BIGINT",
            file.display()
        )
    );
    let csv = directory.path().join("x.csv");
    fs::write(&csv, "a,s\n1,\"x\ny\"\n\nz,2\n").unwrap();
    let options = [("format", "csv"), ("csv.ignore-first-line", "true")];
    let columns = [("a", LogicalType::BIGINT), ("s", LogicalType::STRING)];
    let error = read(
        &descriptor(&csv, &options, &columns),
        &request(1000, 1 << 20),
    )
    .unwrap_err();
    assert!(error.message().contains("x.csv, line 4: "), "{error}");
}

#[test]
fn what_cannot_be_read_is_refused_clearly() {
    let directory = tempfile::tempdir().unwrap();
    let missing = read(&json(&directory.path().join("nothing")), &request(1, 1)).unwrap_err();
    assert!(
        missing
            .to_string()
            .contains("table \"t\": there is no file or directory"),
        "{missing}"
    );
    fs::write(directory.path().join("x.json.gz"), "").unwrap();
    let gz = read(&json(directory.path()), &request(1, 1)).unwrap_err();
    assert!(gz.to_string().contains("compressed file (.gz"), "{gz}");
    for (key, value) in [
        ("source.monitor-interval", "1 s"),
        ("partition.default-name", "x"),
        ("auto-compaction", "true"),
    ] {
        let mut table = json(directory.path());
        table.options.insert(key.to_string(), value.to_string());
        let refused = read(&table, &request(1, 1)).unwrap_err().to_string();
        assert!(
            refused.contains(key) && refused.contains("not supported"),
            "{refused}"
        );
    }
    let columns = [("a", LogicalType::BIGINT)];
    let format = descriptor(directory.path(), &[("format", "orc")], &columns);
    let format = read(&format, &request(1, 1)).unwrap_err().to_string();
    assert!(
        format.contains("no format 'orc'") && format.contains("json, csv, raw, parquet"),
        "{format}"
    );
    let remote = descriptor(Path::new("ftp://b/x"), &[("format", "json")], &columns);
    let remote = read(&remote, &request(1, 1)).unwrap_err().to_string();
    assert!(remote.contains("ftp://b/x"), "{remote}");
}

#[test]
fn every_option_of_the_formats_is_known() {
    let mut registry = crate::connectors::ConnectorRegistry::default();
    registry.register(Arc::new(FilesystemFactory));
    for (format, key, value) in [
        ("json", "json.ignore-parse-errors", "true"),
        ("csv", "csv.field-delimiter", "|"),
        ("parquet", "parquet.compression", "ZSTD"),
    ] {
        let columns = [("a", LogicalType::BIGINT)];
        let mut table = descriptor(
            Path::new("x"),
            &[("format", format), (key, value)],
            &columns,
        );
        registry.for_table(&table, None).unwrap();
        table
            .options
            .insert("json.nonsense".to_string(), "1".to_string());
        let Err(error) = registry.for_table(&table, None) else {
            panic!("an unknown option was accepted");
        };
        assert!(error.to_string().contains(key), "{error}");
    }
}

/// A sink with its writers, on the way through a job.
struct Job {
    sink: Arc<dyn Sink>,
    writers: Vec<Box<dyn SinkWriter>>,
}

impl Job {
    fn start(table: &TableDescriptor, parallelism: usize) -> Job {
        let sink = FilesystemFactory.create_sink(table).unwrap();
        let writers = (0..parallelism)
            .map(|index| {
                let subtask = Subtask {
                    index,
                    parallelism,
                    ..Subtask::SINGLE
                };
                sink.writer(subtask).unwrap()
            })
            .collect();
        Job { sink, writers }
    }

    /// Restores from a checkpoint as the runtime does: what it holds is committed, what it does not is discarded.
    fn restore(table: &TableDescriptor, parallelism: usize, committables: &[Committable]) -> Job {
        let mut job = Job::start(table, parallelism);
        job.sink.commit(committables).unwrap();
        for writer in &mut job.writers {
            writer.discard_uncommitted().unwrap();
        }
        job
    }

    fn write(&mut self, writer: usize, table: &TableDescriptor, rows: &[String]) {
        let batch = ChangelogBatch::insert_only(decode(table, rows));
        self.writers[writer].write(&batch).unwrap();
    }

    fn prepare(&mut self) -> Vec<Committable> {
        let prepare =
            |writer: &mut Box<dyn SinkWriter>| writer.prepare_commit(CheckpointId(1)).unwrap();
        self.writers.iter_mut().flat_map(prepare).collect()
    }

    /// Dies without cleaning up, as a killed process does: only its locks are gone.
    fn kill(self, directory: &Path) {
        let hidden: Vec<_> = fs::read_dir(directory)
            .unwrap()
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

pub(super) fn decode(table: &TableDescriptor, rows: &[String]) -> RecordBatch {
    let table = FilesystemTable::new(table).unwrap();
    let mut decoder = JsonDecoder::new(&table.context).unwrap();
    for row in rows {
        decoder.decode_message(row.as_bytes()).unwrap();
    }
    decoder.finish().unwrap().0
}

fn all_rows(table: &TableDescriptor) -> Vec<String> {
    let mut rows = read(table, &request(100, 1 << 20)).unwrap().0;
    rows.sort_by_key(|row| {
        row.split(&[':', ','][..])
            .nth(1)
            .unwrap()
            .parse::<i64>()
            .unwrap()
    });
    rows
}

pub(super) fn file_names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

pub(super) fn sink_table(path: &Path, format: &str) -> TableDescriptor {
    let columns = [("a", LogicalType::BIGINT), ("s", LogicalType::STRING)];
    descriptor(path, &[("format", format)], &columns)
}

#[test]
fn files_become_visible_when_they_are_committed() {
    for format in ["json", "csv", "parquet"] {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("out/deep");
        let table = sink_table(&directory, format);
        let mut job = Job::start(&table, 2);
        assert!(job.prepare().is_empty(), "nothing was written");
        job.write(0, &table, &sample(0..5));
        job.write(1, &table, &sample(5..7));
        assert!(all_rows(&table).is_empty(), "nothing is visible");
        let prepared = job.prepare();
        assert_eq!(prepared.len(), 2);
        assert!(
            all_rows(&table).is_empty(),
            "nothing is visible before the commit"
        );
        job.sink.commit(&prepared).unwrap();
        assert_eq!(all_rows(&table), sample(0..7));
        job.sink.commit(&prepared).unwrap();
        job.write(0, &table, &sample(7..9));
        let second = job.prepare();
        job.sink.commit(&second).unwrap();
        assert_eq!(all_rows(&table), sample(0..9));
        let endings = [
            format!("-0-0.{format}"),
            format!("-0-1.{format}"),
            format!("-1-0.{format}"),
        ];
        let names = file_names(&directory);
        assert_eq!(names.len(), 3);
        for ending in endings {
            let of_writer = |name: &String| name.starts_with("part-") && name.ends_with(&ending);
            assert_eq!(
                names.iter().filter(|name| of_writer(name)).count(),
                1,
                "{names:?}"
            );
        }
    }
}

#[test]
fn a_killed_job_is_restored_without_loss_or_repetition() {
    for format in ["json", "parquet"] {
        let root = tempfile::tempdir().unwrap();
        let table = sink_table(root.path(), format);
        let mut job = Job::start(&table, 2);
        job.write(0, &table, &sample(0..3));
        let first = job.prepare();
        job.sink.commit(&first).unwrap();
        job.write(1, &table, &sample(3..6));
        // The checkpoint is complete with `second`, but the commit was not told.
        let second = job.prepare();
        job.write(0, &table, &sample(100..103));
        // A later barrier, whose checkpoint never completes.
        job.prepare();
        job.write(1, &table, &sample(103..105));
        job.kill(root.path());

        let mut job = Job::restore(&table, 3, &second);
        assert_eq!(all_rows(&table), sample(0..6));
        assert!(
            file_names(root.path())
                .iter()
                .all(|name| !name.contains("inprogress"))
        );
        job.write(2, &table, &sample(6..8));
        let third = job.prepare();
        job.sink.commit(&third).unwrap();
        job.sink.commit(&second).unwrap();
        assert_eq!(all_rows(&table), sample(0..8));
        let ending = format!("-2-0.{format}");
        assert!(
            file_names(root.path())
                .iter()
                .any(|name| name.ends_with(&ending))
        );
    }
}

#[test]
fn a_restore_leaves_the_files_of_living_jobs_and_other_tables() {
    let root = tempfile::tempdir().unwrap();
    let table = sink_table(root.path(), "json");
    let mut other = table.clone();
    other.name = "other table".to_string();
    let mut living = Job::start(&table, 1);
    living.write(0, &table, &sample(0..2));
    let prepared = living.prepare();
    living.write(0, &table, &sample(2..4));
    let mut dead = Job::start(&other, 1);
    dead.write(0, &other, &sample(10..12));
    let of_other = dead.prepare();
    dead.kill(root.path());

    Job::restore(&table, 2, &[]);
    living.sink.commit(&prepared).unwrap();
    let more = living.prepare();
    living.sink.commit(&more).unwrap();
    let restored = Job::restore(&other, 1, &of_other);
    drop(restored);
    let expected: Vec<_> = sample(0..4).into_iter().chain(sample(10..12)).collect();
    assert_eq!(all_rows(&table), expected);
}

#[test]
fn a_job_that_ends_early_takes_its_open_files_with_it() {
    let root = tempfile::tempdir().unwrap();
    let table = sink_table(root.path(), "json");
    let mut job = Job::start(&table, 1);
    job.write(0, &table, &sample(0..2));
    let names = file_names(root.path());
    assert!(names[0].starts_with(".part-") && names[0].ends_with("-0-0.json.inprogress.t"));
    drop(job);
    assert!(file_names(root.path()).is_empty());
}

#[test]
fn a_lost_file_is_an_error() {
    let root = tempfile::tempdir().unwrap();
    let table = sink_table(root.path(), "json");
    let mut job = Job::start(&table, 1);
    job.write(0, &table, &sample(0..2));
    let prepared = job.prepare();
    let hidden = file_names(root.path()).remove(0);
    fs::remove_file(root.path().join(&hidden)).unwrap();
    let error = job.sink.commit(&prepared).unwrap_err().to_string();
    assert!(
        error.contains("is gone") && error.contains("put a file without rows at"),
        "{error}"
    );
    // As it says.
    let visible = hidden
        .trim_start_matches('.')
        .trim_end_matches(".inprogress.t");
    fs::write(root.path().join(visible), "").unwrap();
    job.sink.commit(&prepared).unwrap();
}

#[test]
fn files_roll_by_size() {
    let root = tempfile::tempdir().unwrap();
    let mut table = sink_table(root.path(), "json");
    table.options.insert(
        "sink.rolling-policy.file-size".to_string(),
        "80 b".to_string(),
    );
    let mut job = Job::start(&table, 1);
    for rows in [0..5, 5..10, 10..11] {
        job.write(0, &table, &sample(rows));
    }
    let prepared = job.prepare();
    assert_eq!(prepared.len(), 3);
    job.sink.commit(&prepared).unwrap();
    assert_eq!(all_rows(&table), sample(0..11));
}

#[test]
fn updates_are_refused() {
    for format in ["json", "csv", "parquet"] {
        let root = tempfile::tempdir().unwrap();
        let table = sink_table(root.path(), format);
        let mut job = Job::start(&table, 1);
        let rows = decode(&table, &sample(0..1));
        let batch = ChangelogBatch::new(rows, RowKinds::new(&[RowKind::Delete]));
        assert!(job.writers[0].write(&batch).is_err(), "{format}");
    }
}

#[test]
fn a_sink_needs_a_directory() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("x");
    fs::write(&file, "").unwrap();
    let Err(error) = FilesystemFactory.create_sink(&json(&file)) else {
        panic!("a file is no directory");
    };
    assert!(error.to_string().contains("is a file"), "{error}");
}

fn nullable(root: TypeRoot) -> LogicalType {
    LogicalType::nullable(root)
}

#[test]
fn parquet_keeps_values_of_every_type() {
    let columns = [
        ("bo", LogicalType::BOOLEAN),
        ("ti", nullable(TypeRoot::TinyInt)),
        ("sm", nullable(TypeRoot::SmallInt)),
        ("in", LogicalType::INT),
        ("bi", LogicalType::BIGINT),
        ("fl", nullable(TypeRoot::Float)),
        ("do", LogicalType::DOUBLE),
        (
            "d1",
            nullable(TypeRoot::Decimal {
                precision: 9,
                scale: 3,
            }),
        ),
        (
            "d2",
            nullable(TypeRoot::Decimal {
                precision: 38,
                scale: 18,
            }),
        ),
        ("st", LogicalType::STRING),
        ("by", nullable(TypeRoot::BYTES)),
        ("da", nullable(TypeRoot::Date)),
        ("tm", nullable(TypeRoot::Time(3))),
        ("t3", nullable(TypeRoot::Timestamp(3))),
        ("t6", nullable(TypeRoot::Timestamp(6))),
        ("z9", nullable(TypeRoot::TimestampLtz(9))),
        ("ar", nullable(TypeRoot::Array(Box::new(LogicalType::INT)))),
        (
            "ma",
            nullable(TypeRoot::Map(
                Box::new(LogicalType::STRING),
                Box::new(LogicalType::DOUBLE),
            )),
        ),
        (
            "ro",
            nullable(TypeRoot::Row(vec![RowField {
                name: "x".into(),
                logical_type: LogicalType::STRING,
            }])),
        ),
    ];
    let values = r#"{"bo":true,"ti":-1,"sm":2,"in":3,"bi":4,"fl":0.5,"do":-0.0,"d1":-12.345,"d2":1.000000000000000001,"st":"a","by":"aGk=","da":"1969-12-31","tm":"01:02:03.4","t3":"1969-12-31 23:59:59.999","t6":"2020-01-02 03:04:05.000006","z9":"1969-12-31 23:59:59.999999999Z","ar":[1,null],"ma":{"k":1.5},"ro":{"x":null}}"#;
    let root = tempfile::tempdir().unwrap();
    let table = descriptor(root.path(), &[("format", "parquet")], &columns);
    let mut job = Job::start(&table, 1);
    job.write(0, &table, &[values.to_string(), "{}".to_string()]);
    let prepared = job.prepare();
    job.sink.commit(&prepared).unwrap();
    let found = read(&table, &request(100, 1 << 20)).unwrap().0;
    assert_eq!(found[0], values);
    assert!(found[1].starts_with("{\"bo\":null"), "{}", found[1]);
    // Other declared types, another order, fewer columns, and one that the file lacks.
    let narrow = [
        ("t6", nullable(TypeRoot::Timestamp(3))),
        ("nope", LogicalType::INT),
        ("in", LogicalType::BIGINT),
        ("t3", nullable(TypeRoot::TimestampLtz(6))),
        ("fl", LogicalType::DOUBLE),
    ];
    let mut table = descriptor(root.path(), &[("format", "parquet")], &narrow);
    let (found, _) = read(&table, &request(1, 1 << 20)).unwrap();
    let expected = r#"{"t6":"2020-01-02 03:04:05","nope":null,"in":3,"t3":"1969-12-31 23:59:59.999Z","fl":0.5}"#;
    assert_eq!(found[0], expected);
    assert_eq!(found.len(), 2);
    table.projection = vec![];
    let source = FilesystemFactory.create_source(&table).unwrap();
    let mut reader = reader(&table, source.splits().unwrap());
    let SourcePoll::Rows { rows, .. } = reader.poll(&request(9, 9)).unwrap() else {
        panic!("rows come first");
    };
    assert_eq!((rows.num_rows(), rows.num_columns()), (2, 0));
    let wrong = descriptor(
        root.path(),
        &[("format", "parquet")],
        &[("st", LogicalType::INT)],
    );
    let wrong = read(&wrong, &request(1, 1)).unwrap_err().to_string();
    assert!(
        wrong.contains("column \"st\"") && wrong.contains("cannot be read as INT"),
        "{wrong}"
    );
    let none = descriptor(
        root.path(),
        &[("format", "parquet")],
        &[("zz", LogicalType::INT)],
    );
    let none = read(&none, &request(1, 1)).unwrap_err().to_string();
    assert!(none.contains("none of the table's columns"), "{none}");
}

#[test]
fn parquet_goes_on_from_every_row() {
    let root = tempfile::tempdir().unwrap();
    let table = sink_table(root.path(), "parquet");
    let schema = table.physical.to_arrow();
    let properties = parquet::file::properties::WriterProperties::builder()
        .set_max_row_group_row_count(Some(7))
        .build();
    let file = fs::File::create(root.path().join("x.parquet")).unwrap();
    let mut writer =
        parquet::arrow::ArrowWriter::try_new(file, schema.clone(), Some(properties)).unwrap();
    writer.write(&decode(&table, &sample(0..20))).unwrap();
    writer.close().unwrap();
    for (max_rows, max_bytes) in [
        (1, 1 << 20),
        (3, 1 << 20),
        (7, 1 << 20),
        (100, 1 << 20),
        (100, 20),
    ] {
        let source = FilesystemFactory.create_source(&table).unwrap();
        let mut splits = source.splits().unwrap();
        let mut batches = Vec::new();
        while !splits.is_empty() {
            let mut reader = reader(&table, splits);
            for _ in 0..2 {
                if let SourcePoll::Rows { rows, .. } =
                    reader.poll(&request(max_rows, max_bytes)).unwrap()
                {
                    assert!(rows.num_rows() <= max_rows);
                    batches.push(rows);
                }
            }
            splits = reader.snapshot().unwrap();
        }
        let all = concat_batches(&schema, &batches).unwrap();
        assert_eq!(
            lines(&table, &all),
            sample(0..20),
            "{max_rows} rows, {max_bytes} bytes"
        );
    }
}

#[test]
fn int96_timestamps_are_read() {
    use parquet::data_type::{Int96, Int96Type};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    let root = tempfile::tempdir().unwrap();
    let schema = parse_message_type("message m { optional int96 ts; }").unwrap();
    let file = fs::File::create(root.path().join("x.parquet")).unwrap();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    // Nanoseconds of the day (two words) and the Julian day, of which 2440588 is 1970-01-01.
    let mut value = Int96::new();
    value.set_data(1_500_000, 0, 2_440_588);
    column
        .typed::<Int96Type>()
        .write_batch(&[value], Some(&[1, 0]), None)
        .unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    let columns = [("ts", nullable(TypeRoot::Timestamp(3)))];
    let table = descriptor(root.path(), &[("format", "parquet")], &columns);
    let found = read(&table, &request(10, 1 << 20)).unwrap().0;
    assert_eq!(
        found,
        ["{\"ts\":\"1970-01-01 00:00:00.001\"}", "{\"ts\":null}"]
    );
}

/// The texts found for numbers.
fn looked_up(
    function: &mut dyn crate::connectors::LookupFunction,
    keys: &[i64],
    now: i64,
) -> Vec<String> {
    let keys: arrow::array::ArrayRef = Arc::new(arrow::array::Int64Array::from(keys.to_vec()));
    let request = crate::connectors::LookupRequest {
        keys: &[keys],
        now: ProcessingTime(now),
    };
    let found = function.lookup(&request).unwrap();
    assert_eq!(found.rows.num_columns(), 1);
    let texts = arrow::array::AsArray::as_string::<i32>(found.rows.column(0));
    let of = found.of.iter().zip(texts.iter());
    of.map(|(of, text)| format!("{of} {}", text.unwrap()))
        .collect()
}

#[test]
fn files_are_looked_up_and_read_again_when_they_change_or_when_it_is_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.json");
    let line = |a: i64, s: &str| format!("{{\"a\":{a},\"s\":\"{s}\"}}\n");
    let old = line(1, "one") + &line(2, "two") + &line(1, "uno");
    let function = |options: &[(&str, &str)]| {
        let mut table = json(directory.path());
        table.projection = vec![1];
        let options = options.iter();
        table
            .options
            .extend(options.map(|(key, value)| (key.to_string(), value.to_string())));
        let source = FilesystemFactory.create_lookup(&table, &[0]).unwrap();
        source.function().unwrap()
    };
    fs::write(&path, &old).unwrap();
    let mut plain = function(&[]);
    let mut full = function(&[
        ("lookup.cache", "FULL"),
        ("lookup.full-cache.periodic-reload.interval", "1 min"),
    ]);
    let mut forever = function(&[("lookup.cache", "FULL")]);
    for function in [&mut plain, &mut full, &mut forever] {
        let found = looked_up(&mut **function, &[2, 3, 1], 0);
        assert_eq!(found, ["0 two", "2 one", "2 uno"]);
    }
    fs::write(&path, line(1, "changed")).unwrap();
    assert_eq!(looked_up(&mut *plain, &[1], 1), ["0 changed"]);
    assert_eq!(looked_up(&mut *full, &[1], 59_999), ["0 one", "0 uno"]);
    assert_eq!(looked_up(&mut *full, &[1], 60_000), ["0 changed"]);
    assert_eq!(looked_up(&mut *forever, &[1], 60_000), ["0 one", "0 uno"]);
    let timed = [("lookup.full-cache.reload-strategy", "TIMED")];
    let mut table = json(directory.path());
    let timed = timed.map(|(key, value)| (key.to_string(), value.to_string()));
    table.options.extend(timed);
    let error = FilesystemFactory.create_lookup(&table, &[0]).err().unwrap();
    assert!(error.message().contains("TIMED"), "{error}");
}

#[test]
fn numbers_of_lookups_have_bounds() {
    let columns = [("a", LogicalType::BIGINT), ("s", LogicalType::STRING)];
    for (key, value, bound) in [
        ("lookup.partial-cache.max-rows", "0", "at least 1"),
        ("lookup.max-retries", "-1", "at least 0"),
    ] {
        let options = [
            ("format", "json"),
            ("lookup.cache", "PARTIAL"),
            (key, value),
        ];
        let table = descriptor(Path::new("x"), &options, &columns);
        let error = FilesystemFactory.create_lookup(&table, &[0]).err().unwrap();
        let text = error.to_string();
        assert!(text.contains(key) && text.contains(bound), "{text}");
    }
}
