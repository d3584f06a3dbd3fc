//! The connector of tables that a test feeds or collects, and the bench in memory that it reads from and writes to.
//!
//! All records of a case are on the bench from the start, each with the number of its step; the runner *releases* them step
//! by step. A reader's position is an index into its partition's records, so a restored job reads on exactly, and what it
//! reads again comes in the order in which it came first. Written rows are prepared by checkpoint and committed by
//! transaction, so a test sees what a transactional sink would show.

mod lookup;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use serde_json::json;

use super::case::{Record, Step};
use super::cell::{Value, build_array, read_cell, value_at};
use crate::config::{OptionSpec, OptionType};
use crate::connectors::source::PollRequest;
use crate::connectors::{
    Committable, ConnectorFactory, LookupSource, Sink, SinkWriter, Source, SourcePoll,
    SourceReader, SplitState, TableDescriptor,
};
use crate::error::{Error, Result};
use crate::formats::{self, Decoder, FormatContext};
use crate::operators::Subtask;
use crate::planted::{Bug, is_planted};
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{ChangelogMode, RowKind, RowKinds, Schema, TimeZone};

/// `'connector' = 'test'`, which the runner gives to tables without a connector.
pub(super) const IDENTIFIER: &str = "test";

const MODES: OptionType = OptionType::Enum(&["insert-only", "retract", "upsert"]);

/// The options of a test table, without those of its format.
const OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("connector", OptionType::Text, None, "test."),
    OptionSpec::new(
        "changelog-mode",
        MODES,
        None,
        "The kinds of rows: of a source insert-only unless set; a sink without it takes upserts where it has a primary key, all kinds otherwise.",
    ),
    OptionSpec::new(
        "partitions",
        OptionType::Integer,
        Some("1"),
        "How many splits the table has.",
    ),
    OptionSpec::new(
        "lookup",
        OptionType::Boolean,
        Some("false"),
        "Whether the table may be looked up by its primary key.",
    ),
    OptionSpec::new(
        "format",
        OptionType::Text,
        None,
        "The format of raw payloads.",
    ),
];

/// The records and results of one run of a case, shared by the runner, the sources and the sinks.
#[derive(Debug, Default)]
pub struct TestBench(Mutex<Bench>);

#[derive(Debug, Default)]
struct Bench {
    feeds: BTreeMap<String, Vec<FedRecord>>,
    /// Records of steps before this one are there.
    released: usize,
    /// Nothing follows the released records.
    closed: bool,
    /// How many partitions each table has that is read.
    read: BTreeMap<String, usize>,
    /// Partitions behind the barrier of a checkpoint that others have not.
    held_back: BTreeSet<(String, usize)>,
    /// Steps with which a batch must end.
    cuts: BTreeSet<usize>,
    sinks: BTreeMap<String, Written>,
    transactions: u64,
    sequence: u64,
    mistake: Option<String>,
    /// How many more calls of readers and writers succeed before the process "dies".
    dies_in: Option<u32>,
    died: bool,
}

/// One record of a table's feed.
#[derive(Debug, Clone)]
struct FedRecord {
    step: usize,
    partition: usize,
    item: FedItem,
}

#[derive(Debug, Clone)]
enum FedItem {
    Record(Record),
    Idle,
}

/// A row that a sink was given.
#[derive(Debug, Clone)]
pub struct WrittenRow {
    /// Counts all written rows of a run, so that rows of several writers have an order.
    pub sequence: u64,
    /// How many steps had been released when it was written.
    pub step: usize,
    /// What it does.
    pub kind: RowKind,
    /// Its cells.
    pub cells: Vec<Value>,
}

/// The transactions that sinks had committed at some time.
#[derive(Debug, Clone, Default)]
pub(super) struct CommittedMark(BTreeMap<String, BTreeSet<u64>>);

#[derive(Debug, Default)]
struct Written {
    /// Not prepared, by subtask.
    open: BTreeMap<usize, Vec<WrittenRow>>,
    /// By transaction.
    prepared: BTreeMap<u64, Vec<WrittenRow>>,
    /// By transaction.
    committed: BTreeMap<u64, Vec<WrittenRow>>,
    /// Rows from this sequence number on have not been seen by an `output` step.
    seen: u64,
}

impl TestBench {
    /// A bench with the records and idle marks of `steps`, none of them released.
    pub fn new(steps: &[Step]) -> Self {
        let mut bench = Bench::default();
        for (number, step) in steps.iter().enumerate() {
            let (table, partition, item) = match step {
                Step::Record {
                    table,
                    partition,
                    record,
                } => (table, *partition, FedItem::Record(record.clone())),
                Step::Idle { table, partition } => (table, *partition, FedItem::Idle),
                _ => continue,
            };
            bench
                .feeds
                .entry(table.clone())
                .or_default()
                .push(FedRecord {
                    step: number,
                    partition,
                    item,
                });
        }
        TestBench(Mutex::new(bench))
    }

    fn lock(&self) -> MutexGuard<'_, Bench> {
        self.0
            .lock()
            .expect("no reader or writer of a test panics while it holds the bench")
    }

    /// Makes the records of the first `steps` steps visible and no others (a restore goes back).
    pub fn release(&self, steps: usize) {
        self.lock().released = steps;
    }

    /// Gives no more records of a partition: the barrier of a checkpoint has reached it. Whether all partitions of the job
    /// have it now, so that the checkpoint can be taken.
    pub fn hold_back(&self, table: &str, partition: usize) -> bool {
        let mut bench = self.lock();
        bench.held_back.insert((table.to_string(), partition));
        let Bench {
            read, held_back, ..
        } = &*bench;
        let has_all = |(table, count): (&String, &usize)| {
            (0..*count).all(|partition| held_back.contains(&(table.clone(), partition)))
        };
        read.iter().all(has_all)
    }

    /// Ends [`TestBench::hold_back`] for all partitions.
    pub fn let_go(&self) {
        self.lock().held_back.clear();
    }

    /// Says that nothing follows.
    pub fn close(&self) {
        self.lock().closed = true;
    }

    /// Ends a batch with the record of each of these steps.
    pub fn cut_behind(&self, steps: impl IntoIterator<Item = usize>) {
        self.lock().cuts.extend(steps);
    }

    /// Drops everything that sinks were given: the job starts again from nothing.
    pub fn discard_all(&self) {
        self.lock().sinks.values_mut().for_each(|written| {
            written.open.clear();
            written.prepared.clear();
            written.committed.clear();
        });
    }

    /// The process dies with the call of a reader or a writer behind this many.
    pub(super) fn die_in(&self, calls: u32) {
        self.lock().dies_in = Some(calls);
    }

    /// Whether it has died.
    pub(super) fn has_died(&self) -> bool {
        self.lock().died
    }

    /// What a process does not leave behind is gone; the next one lives.
    pub(super) fn revive(&self) {
        let mut bench = self.lock();
        (bench.dies_in, bench.died) = (None, false);
        let sinks = bench.sinks.values_mut();
        sinks.for_each(|written| written.open.clear());
    }

    /// Drops what no checkpoint names, as nobody restores: the job starts with nothing. Whether that is all there was.
    pub(super) fn start_over(&self) -> bool {
        let mut bench = self.lock();
        bench.sinks.values_mut().for_each(|written| {
            written.open.clear();
            written.prepared.clear();
        });
        bench
            .sinks
            .values()
            .all(|written| written.committed.is_empty())
    }

    /// What sinks have committed by now.
    pub(super) fn mark(&self) -> CommittedMark {
        let bench = self.lock();
        let committed = |written: &Written| written.committed.keys().copied().collect();
        CommittedMark(
            bench
                .sinks
                .iter()
                .map(|(name, written)| (name.clone(), committed(written)))
                .collect(),
        )
    }

    /// Goes back to when only this had been committed; what was committed since is prepared again.
    pub(super) fn rewind(&self, mark: &CommittedMark) {
        let mut bench = self.lock();
        for (name, written) in &mut bench.sinks {
            let kept = mark.0.get(name).cloned().unwrap_or_default();
            let all = std::mem::take(&mut written.committed);
            let (committed, prepared) = all
                .into_iter()
                .partition(|(transaction, _)| kept.contains(transaction));
            written.committed = committed;
            written.prepared = prepared;
            written.open.clear();
        }
    }

    /// Fails when the process dies with this call, and ever after.
    fn live(&self) -> Result<()> {
        let mut bench = self.lock();
        match &mut bench.dies_in {
            None => return Ok(()),
            Some(0) => bench.died = true,
            Some(calls) => *calls -= 1,
        }
        match bench.died {
            true => Err(Error::external("the process dies here")),
            false => Ok(()),
        }
    }

    /// What a case got wrong about a table, such as a cell that is no value of its column.
    pub fn mistake(&self) -> Option<String> {
        self.lock().mistake.clone()
    }

    /// Tables that steps feed.
    pub fn fed_tables(&self) -> Vec<String> {
        self.lock().feeds.keys().cloned().collect()
    }

    /// What a sink has committed, in the order of writing.
    pub fn committed(&self, sink: &str) -> Vec<WrittenRow> {
        let bench = self.lock();
        sorted(bench.sinks.get(sink).map_or_else(Vec::new, |written| {
            written.committed.values().flatten().cloned().collect()
        }))
    }

    /// What a sink has committed, prepared or only written.
    pub fn written(&self, sink: &str) -> Vec<WrittenRow> {
        let bench = self.lock();
        sorted(bench.sinks.get(sink).map_or_else(Vec::new, Written::all))
    }

    /// What a sink was given since the last call.
    pub fn take_output(&self, sink: &str) -> Vec<WrittenRow> {
        let mut bench = self.lock();
        let next = bench.sequence;
        let Some(written) = bench.sinks.get_mut(sink) else {
            return Vec::new();
        };
        let seen = std::mem::replace(&mut written.seen, next);
        let rows = written.all();
        sorted(
            rows.into_iter()
                .filter(|row| row.sequence >= seen)
                .collect(),
        )
    }

    /// The records of a table that is read, as values of its columns, by partition.
    fn partitions(&self, descriptor: &TableDescriptor) -> Result<Vec<Vec<Entry>>> {
        let partitions = self.entries(descriptor)?;
        let mut bench = self.lock();
        bench.read.insert(descriptor.name.clone(), partitions.len());
        Ok(partitions)
    }

    fn entries(&self, descriptor: &TableDescriptor) -> Result<Vec<Vec<Entry>>> {
        let mut bench = self.lock();
        let count: usize = descriptor
            .option("partitions")
            .and_then(|n| n.parse().ok())
            .unwrap_or(1);
        let mut partitions = vec![Vec::new(); count];
        let records = bench
            .feeds
            .get(&descriptor.name)
            .cloned()
            .unwrap_or_default();
        for record in records {
            match entry(&record, descriptor, count) {
                Ok(entry) => partitions[record.partition].push(entry),
                Err(message) => {
                    let message = format!("step {}: {message}", record.step + 1);
                    bench.mistake.get_or_insert_with(|| message.clone());
                    return Err(Error::user(message));
                }
            }
        }
        Ok(partitions)
    }
}

fn sorted(mut rows: Vec<WrittenRow>) -> Vec<WrittenRow> {
    rows.sort_by_key(|row| row.sequence);
    rows
}

impl Written {
    fn all(&self) -> Vec<WrittenRow> {
        let transactions = self.committed.values().chain(self.prepared.values());
        let rows = transactions.chain(self.open.values()).flatten();
        rows.cloned().collect()
    }
}

/// One record of a partition, ready to be read.
#[derive(Debug, Clone)]
struct Entry {
    step: usize,
    item: EntryItem,
}

#[derive(Debug, Clone)]
enum EntryItem {
    Row(RowKind, Vec<Value>),
    Payload(Option<Vec<u8>>),
    Idle,
}

fn entry(record: &FedRecord, table: &TableDescriptor, partitions: usize) -> Result<Entry, String> {
    if record.partition >= partitions {
        return Err(format!(
            "table {} has no partition {}: 'partitions' is {partitions}",
            table.name, record.partition
        ));
    }
    let item = match &record.item {
        FedItem::Idle => EntryItem::Idle,
        FedItem::Record(Record::Row { kind, cells }) => {
            check_kind(*kind, table)?;
            EntryItem::Row(*kind, row_values(cells, table)?)
        }
        FedItem::Record(Record::Raw { key: Some(_), .. }) => {
            return Err("payloads of keys (key_raw) are not supported yet".to_string());
        }
        FedItem::Record(Record::Raw { payload, key: None }) => {
            if table.option("format").is_none() {
                return Err(format!(
                    "table {} has no 'format' for a payload",
                    table.name
                ));
            }
            EntryItem::Payload(payload.clone())
        }
    };
    Ok(Entry {
        step: record.step,
        item,
    })
}

fn check_kind(kind: RowKind, table: &TableDescriptor) -> Result<(), String> {
    let mode = source_mode(table);
    if mode.contains(kind) {
        return Ok(());
    }
    Err(format!(
        "table {} cannot be fed a {kind} row: its changelog mode is {mode}; set 'changelog-mode'",
        table.name
    ))
}

fn row_values(
    cells: &[serde_yaml_ng::Value],
    table: &TableDescriptor,
) -> Result<Vec<Value>, String> {
    let fields = &table.physical.fields;
    if cells.len() != fields.len() {
        return Err(format!(
            "the row has {} cells, but table {} has {} physical columns",
            cells.len(),
            table.name,
            fields.len()
        ));
    }
    let zone = TimeZone::parse(&table.time_zone).map_err(|error| error.to_string())?;
    std::iter::zip(cells, fields)
        .map(|(cell, field)| {
            let value = read_cell(cell, &field.logical_type, &zone)
                .map_err(|message| format!("column {}: {message}", field.name))?;
            build_array(&[&value], &field.logical_type)
                .map_err(|message| format!("column {}: {message}", field.name))?;
            Ok(value)
        })
        .collect()
}

fn source_mode(table: &TableDescriptor) -> ChangelogMode {
    named_mode(table).unwrap_or(ChangelogMode::INSERT_ONLY)
}

fn named_mode(table: &TableDescriptor) -> Option<ChangelogMode> {
    match table.option("changelog-mode")? {
        "retract" => Some(ChangelogMode::RETRACT),
        "upsert" => Some(ChangelogMode::UPSERT),
        _ => Some(ChangelogMode::INSERT_ONLY),
    }
}

/// Makes test tables for one run of a case.
pub struct TestConnector {
    bench: Arc<TestBench>,
    bounded: bool,
}

impl TestConnector {
    /// Reads from and writes to `bench`; `bounded`: the input ends behind the last step.
    pub fn new(bench: Arc<TestBench>, bounded: bool) -> Self {
        TestConnector { bench, bounded }
    }
}

impl ConnectorFactory for TestConnector {
    fn identifier(&self) -> &'static str {
        IDENTIFIER
    }

    fn options(&self, descriptor: &TableDescriptor) -> Vec<OptionSpec> {
        let format = descriptor.option("format").and_then(formats::format);
        let mut options = OPTIONS.to_vec();
        options.extend_from_slice(crate::watermark::SCAN_WATERMARK_OPTIONS);
        options.extend_from_slice(crate::connectors::lookup::LOOKUP_OPTIONS);
        options.extend(format.map(|format| format.options()).unwrap_or_default());
        options
    }

    fn source_changelog_mode(&self, descriptor: &TableDescriptor) -> Result<ChangelogMode> {
        Ok(source_mode(descriptor))
    }

    fn sink_changelog_mode(&self, descriptor: &TableDescriptor) -> Result<ChangelogMode> {
        Ok(sink_mode(descriptor))
    }

    fn create_source(&self, descriptor: &TableDescriptor) -> Result<Arc<dyn Source>> {
        let format = match descriptor.option("format") {
            None => None,
            Some(name) => Some(formats::format(name).ok_or_else(|| {
                Error::user(format!(
                    "table \"{}\": there is no format '{name}'",
                    descriptor.name
                ))
            })?),
        };
        Ok(Arc::new(TestSource {
            partitions: Arc::new(self.bench.partitions(descriptor)?),
            descriptor: descriptor.clone(),
            format,
            bench: self.bench.clone(),
            bounded: self.bounded,
        }))
    }

    fn create_lookup(
        &self,
        descriptor: &TableDescriptor,
        keys: &[usize],
    ) -> Result<Arc<dyn LookupSource>> {
        lookup::lookup_source(&self.bench, descriptor, keys)
    }

    fn create_sink(&self, descriptor: &TableDescriptor) -> Result<Arc<dyn Sink>> {
        self.bench
            .lock()
            .sinks
            .entry(descriptor.name.clone())
            .or_default();
        Ok(Arc::new(TestSink {
            table: descriptor.name.clone(),
            schema: descriptor.physical.clone(),
            bench: self.bench.clone(),
        }))
    }
}

/// The kinds of rows that a test table takes as a sink.
pub(super) fn sink_mode(descriptor: &TableDescriptor) -> ChangelogMode {
    let by_key = match descriptor.primary_key.is_empty() {
        true => ChangelogMode::RETRACT,
        false => ChangelogMode::UPSERT,
    };
    named_mode(descriptor).unwrap_or(by_key)
}

struct TestSource {
    descriptor: TableDescriptor,
    partitions: Arc<Vec<Vec<Entry>>>,
    format: Option<Arc<dyn formats::Format>>,
    bench: Arc<TestBench>,
    bounded: bool,
}

impl Source for TestSource {
    fn is_bounded(&self) -> bool {
        self.bounded
    }

    fn splits(&self) -> Result<Vec<SplitState>> {
        let split = |partition: usize| SplitState {
            id: partition.to_string(),
            position: json!(0),
        };
        Ok((0..self.partitions.len()).map(split).collect())
    }

    fn reader(&self) -> Result<Box<dyn SourceReader>> {
        let context = FormatContext {
            table: self.descriptor.name.clone(),
            physical: self.descriptor.physical.clone(),
            projection: self.descriptor.projection.clone(),
            options: self.descriptor.options.clone(),
            time_zone: self.descriptor.time_zone.clone(),
        };
        let decoder = self.format.as_ref().map(|format| format.decoder(&context));
        Ok(Box::new(TestReader {
            table: self.descriptor.name.clone(),
            schema: self.descriptor.projected(),
            projection: self.descriptor.projection.clone(),
            partitions: self.partitions.clone(),
            decoder: decoder.transpose()?,
            bench: self.bench.clone(),
            splits: Vec::new(),
        }))
    }
}

struct TestReader {
    table: String,
    schema: Schema,
    projection: Vec<usize>,
    partitions: Arc<Vec<Vec<Entry>>>,
    decoder: Option<Box<dyn Decoder>>,
    bench: Arc<TestBench>,
    splits: Vec<OpenSplit>,
}

#[derive(Debug, Clone, Copy)]
struct OpenSplit {
    partition: usize,
    position: usize,
}

impl TestReader {
    /// The open split whose next record came first, among the released ones.
    fn next_split(&self, bench: &Bench) -> Option<usize> {
        let step = |split: &OpenSplit| {
            if bench
                .held_back
                .contains(&(self.table.clone(), split.partition))
            {
                return None;
            }
            let next = self.partitions[split.partition].get(split.position)?;
            (next.step < bench.released).then_some(next.step)
        };
        (0..self.splits.len())
            .filter_map(|index| step(&self.splits[index]).map(|step| (step, index)))
            .min()
            .map(|(_, index)| index)
    }

    fn end_a_split(&mut self) -> SourcePoll {
        match self.splits.pop() {
            Some(split) => SourcePoll::SplitEnd(split.partition.to_string()),
            None => SourcePoll::End,
        }
    }

    /// The records of the next batch of a split.
    fn batch(
        &self,
        split: OpenSplit,
        released: usize,
        cuts: &BTreeSet<usize>,
        max_rows: usize,
    ) -> usize {
        let rest = &self.partitions[split.partition][split.position..];
        let mut length = 0;
        for entry in rest {
            let is_record = !matches!(entry.item, EntryItem::Idle);
            if entry.step >= released || !is_record || length == max_rows.max(1) {
                break;
            }
            length += 1;
            if cuts.contains(&entry.step) {
                break;
            }
        }
        length
    }

    fn rows(&mut self, entries: &[Entry]) -> Result<(RecordBatch, RowKinds)> {
        let rows: Vec<(RowKind, &Vec<Value>)> = entries
            .iter()
            .filter_map(|entry| match &entry.item {
                EntryItem::Row(kind, cells) => Some((*kind, cells)),
                _ => None,
            })
            .collect();
        if rows.len() < entries.len() {
            return self.payloads(entries, rows.len());
        }
        let columns: Vec<ArrayRef> = std::iter::zip(&self.projection, &self.schema.fields)
            .map(|(column, field)| {
                let values: Vec<&Value> = rows.iter().map(|(_, cells)| &cells[*column]).collect();
                build_array(&values, &field.logical_type).map_err(Error::internal)
            })
            .collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(self.schema.to_arrow(), columns, &options)?;
        let kinds: Vec<RowKind> = rows.iter().map(|(kind, _)| *kind).collect();
        Ok((batch, RowKinds::new(&kinds)))
    }

    fn payloads(&mut self, entries: &[Entry], rows: usize) -> Result<(RecordBatch, RowKinds)> {
        let decoder = match &mut self.decoder {
            Some(decoder) if rows == 0 => decoder,
            _ => {
                return Err(Error::user(format!(
                    "table {}: rows and payloads cannot follow each other without another step between",
                    self.table
                )));
            }
        };
        for entry in entries {
            let EntryItem::Payload(Some(payload)) = &entry.item else {
                continue;
            };
            decoder.decode_message(payload).map_err(|error| {
                let step = entry.step + 1;
                error.context(format!(
                    "in the payload of step {step} for table {}",
                    self.table
                ))
            })?;
        }
        decoder.finish()
    }
}

impl SourceReader for TestReader {
    fn add_splits(&mut self, splits: Vec<SplitState>) -> Result<()> {
        self.bench.live()?;
        for split in splits {
            let partition = split.id.parse().ok();
            let position = split.position.as_u64();
            let (Some(partition), Some(position)) = (partition, position) else {
                return Err(Error::internal(format!(
                    "{split:?} is no split of a test table"
                )));
            };
            self.splits.push(OpenSplit {
                partition,
                position: position as usize,
            });
        }
        self.splits
            .sort_by_key(|split| std::cmp::Reverse(split.partition));
        Ok(())
    }

    fn poll(&mut self, request: &PollRequest) -> Result<SourcePoll> {
        self.bench.live()?;
        let bench = self.bench.clone();
        let bench = bench.lock();
        let Some(index) = self.next_split(&bench) else {
            return Ok(match bench.closed {
                true => self.end_a_split(),
                false => SourcePoll::Pending { until: None },
            });
        };
        let split = self.splits[index];
        let id = split.partition.to_string();
        let length = self.batch(split, bench.released, &bench.cuts, request.max_rows);
        drop(bench);
        if length == 0 {
            self.splits[index].position += 1;
            return Ok(SourcePoll::SplitIdle(id));
        }
        let partitions = self.partitions.clone();
        let entries = &partitions[split.partition][split.position..split.position + length];
        let (rows, kinds) = self.rows(entries)?;
        self.splits[index].position += length;
        Ok(SourcePoll::Rows {
            split: id,
            rows,
            kinds,
        })
    }

    fn snapshot(&self) -> Result<Vec<SplitState>> {
        let state = |split: &OpenSplit| SplitState {
            id: split.partition.to_string(),
            position: json!(match is_planted(Bug::PositionBehind) {
                true => split.position.saturating_sub(1),
                false => split.position,
            }),
        };
        Ok(self.splits.iter().map(state).collect())
    }
}

struct TestSink {
    table: String,
    schema: Schema,
    bench: Arc<TestBench>,
}

impl TestSink {
    fn with<T>(&self, action: impl FnOnce(&mut Written) -> T) -> T {
        action(
            self.bench
                .lock()
                .sinks
                .entry(self.table.clone())
                .or_default(),
        )
    }
}

impl Sink for TestSink {
    fn writer(&self, subtask: Subtask) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(TestWriter {
            sink: TestSink {
                table: self.table.clone(),
                schema: self.schema.clone(),
                bench: self.bench.clone(),
            },
            subtask: subtask.index,
        }))
    }

    fn commit(&self, committables: &[Committable]) -> Result<()> {
        for committable in committables {
            let transaction = committable.note.as_u64().ok_or_else(|| {
                Error::internal(format!("{committable:?} is no committable of a test table"))
            })?;
            self.bench.live()?;
            self.with(|written| written.commit(transaction))?;
            self.bench.live()?;
        }
        Ok(())
    }

    fn take_back(&self, committables: &[Committable]) -> Result<usize> {
        for transaction in committables.iter().filter_map(|one| one.note.as_u64()) {
            self.bench.live()?;
            self.with(|written| {
                written.committed.remove(&transaction);
                written.prepared.remove(&transaction);
            });
            self.bench.live()?;
        }
        Ok(committables.len())
    }
}

impl Written {
    fn commit(&mut self, transaction: u64) -> Result<()> {
        if let Some(rows) = self.committed.get_mut(&transaction) {
            if is_planted(Bug::CommitRepeats) {
                let again = rows.clone();
                rows.extend(again);
            }
            return Ok(());
        }
        let rows = self.prepared.remove(&transaction).ok_or_else(|| {
            Error::internal(format!(
                "transaction {transaction} was never prepared, or discarded"
            ))
        })?;
        self.committed.insert(transaction, rows);
        Ok(())
    }
}

struct TestWriter {
    sink: TestSink,
    subtask: usize,
}

impl SinkWriter for TestWriter {
    fn write(&mut self, batch: &ChangelogBatch) -> Result<()> {
        self.sink.bench.live()?;
        let fields = &self.sink.schema.fields;
        if batch.rows.num_columns() != fields.len() {
            return Err(Error::internal(format!(
                "sink {} has {} columns and was given {}",
                self.sink.table,
                fields.len(),
                batch.rows.num_columns()
            )));
        }
        let bench = self.sink.bench.clone();
        let mut bench = bench.lock();
        let step = bench.released;
        for row in 0..batch.num_rows() {
            let cell = |(index, field): (usize, &crate::types::Field)| {
                value_at(batch.rows.column(index), row, &field.logical_type)
            };
            let written = WrittenRow {
                sequence: bench.sequence,
                step,
                kind: batch.kinds.get(row),
                cells: fields.iter().enumerate().map(cell).collect(),
            };
            bench.sequence += 1;
            let sink = bench.sinks.entry(self.sink.table.clone()).or_default();
            sink.open.entry(self.subtask).or_default().push(written);
        }
        Ok(())
    }

    fn prepare_commit(&mut self, _checkpoint: CheckpointId) -> Result<Vec<Committable>> {
        self.sink.bench.live()?;
        let bench = self.sink.bench.clone();
        let mut bench = bench.lock();
        let transaction = bench.transactions;
        let sink = bench.sinks.entry(self.sink.table.clone()).or_default();
        let rows = sink.open.remove(&self.subtask).unwrap_or_default();
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        sink.prepared.insert(transaction, rows);
        bench.transactions += 1;
        Ok(vec![Committable::new(json!(transaction))])
    }

    fn discard_uncommitted(&mut self) -> Result<()> {
        self.sink.bench.live()?;
        self.sink.with(|written| {
            written.open.clear();
            written.prepared.clear();
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Field, LogicalType, ProcessingTime, TypeRoot};

    fn table(options: &[(&str, &str)]) -> TableDescriptor {
        TableDescriptor {
            name: "t".into(),
            physical: Schema::new(vec![
                Field::new("k", LogicalType::STRING),
                Field::new("ts", LogicalType::nullable(TypeRoot::Timestamp(3))),
            ]),
            projection: vec![1, 0],
            primary_key: vec![],
            options: options
                .iter()
                .map(|(k, v)| (k.to_string(), v.to_string()))
                .collect(),
            time_zone: "UTC".into(),
        }
    }

    fn row(k: &str, second: u32, partition: usize) -> Step {
        let cells = vec![k.into(), format!("2024-01-01 00:00:{second:02}").into()];
        Step::Record {
            table: "t".into(),
            partition,
            record: Record::Row {
                kind: RowKind::Insert,
                cells,
            },
        }
    }

    fn reader(bench: &Arc<TestBench>, options: &[(&str, &str)]) -> Box<dyn SourceReader> {
        let source = TestConnector::new(bench.clone(), true)
            .create_source(&table(options))
            .unwrap();
        let mut reader = source.reader().unwrap();
        reader.add_splits(source.splits().unwrap()).unwrap();
        reader
    }

    fn poll(reader: &mut Box<dyn SourceReader>) -> String {
        let request = PollRequest {
            max_rows: 10,
            max_bytes: 1 << 20,
            now: ProcessingTime(0),
        };
        match reader.poll(&request).unwrap() {
            SourcePoll::Rows { split, rows, .. } => {
                assert_eq!(rows.num_columns(), 2);
                format!("{split}:{}", rows.num_rows())
            }
            SourcePoll::SplitEnd(split) => format!("{split} ended"),
            SourcePoll::SplitIdle(split) => format!("{split} idle"),
            SourcePoll::Pending { .. } => "pending".into(),
            SourcePoll::End => "end".into(),
        }
    }

    #[test]
    fn records_come_when_released_and_again_after_a_restore() {
        let idle = Step::Idle {
            table: "t".into(),
            partition: 1,
        };
        let steps = vec![
            row("a", 1, 0),
            row("b", 2, 0),
            row("c", 3, 1),
            idle,
            row("d", 4, 0),
        ];
        let bench = Arc::new(TestBench::new(&steps));
        let options = [("partitions", "2")];
        let mut first = reader(&bench, &options);
        assert_eq!(poll(&mut first), "pending");
        bench.release(2);
        assert_eq!(poll(&mut first), "0:2");
        let positions = first.snapshot().unwrap();
        bench.release(5);
        let expected = ["1:1", "1 idle", "0:1", "pending"];
        assert_eq!(expected.map(|_| poll(&mut first)), expected);
        let mut second = reader(&bench, &options);
        bench.release(2);
        second = {
            drop(second);
            let source = TestConnector::new(bench.clone(), true)
                .create_source(&table(&options))
                .unwrap();
            let mut reader = source.reader().unwrap();
            reader.add_splits(positions).unwrap();
            reader
        };
        assert_eq!(poll(&mut second), "pending");
        bench.release(5);
        bench.close();
        let expected = ["1:1", "1 idle", "0:1", "0 ended", "1 ended", "end"];
        assert_eq!(expected.map(|_| poll(&mut second)), expected);
    }

    #[test]
    fn cuts_end_batches() {
        let steps: Vec<Step> = (0..5).map(|second| row("a", second, 0)).collect();
        let bench = Arc::new(TestBench::new(&steps));
        let mut reader = reader(&bench, &[]);
        bench.cut_behind([0, 2]);
        bench.release(5);
        let expected = ["0:1", "0:2", "0:2", "pending"];
        assert_eq!(expected.map(|_| poll(&mut reader)), expected);
    }

    #[test]
    fn a_wrong_cell_is_a_mistake_of_the_case() {
        let mut steps = vec![row("a", 1, 0), row("b", 61, 0)];
        let bench = Arc::new(TestBench::new(&steps));
        let connector = TestConnector::new(bench.clone(), true);
        assert!(connector.create_source(&table(&[])).is_err());
        assert!(bench.mistake().unwrap().starts_with("step 2: column ts"));
        steps[1] = row("b", 1, 1);
        let bench = Arc::new(TestBench::new(&steps));
        assert!(
            TestConnector::new(bench, true)
                .create_source(&table(&[]))
                .is_err()
        );
    }

    #[test]
    fn rows_are_seen_once_committed_and_commits_repeat() {
        let bench = Arc::new(TestBench::new(&[]));
        let connector = TestConnector::new(bench.clone(), true);
        let mut descriptor = table(&[]);
        descriptor.physical = Schema::new(vec![Field::new("n", LogicalType::INT)]);
        let sink = connector.create_sink(&descriptor).unwrap();
        let mut writer = sink.writer(Subtask::SINGLE).unwrap();
        let batch = |n: i32| {
            let column = arrow::array::create_array!(Int32, [n]) as ArrayRef;
            ChangelogBatch::insert_only(RecordBatch::try_from_iter([("n", column)]).unwrap())
        };
        writer.write(&batch(1)).unwrap();
        let prepared = writer.prepare_commit(CheckpointId(1)).unwrap();
        writer.write(&batch(2)).unwrap();
        assert!(bench.committed("t").is_empty());
        assert_eq!(bench.take_output("t").len(), 2);
        sink.commit(&prepared).unwrap();
        sink.commit(&prepared).unwrap();
        writer.discard_uncommitted().unwrap();
        assert_eq!(bench.committed("t").len(), 1);
        assert_eq!(bench.written("t").len(), 1);
        assert!(bench.take_output("t").is_empty());
        assert!(sink.commit(&[Committable::new(json!(77))]).is_err());
    }
}
