//! Channel state: what a barrier has overtaken on its way into a task.
//!
//! An aligned barrier waits in its channel until all that stands before it is processed, and a task lets it through when it has
//! come on every channel. Under back-pressure that takes as long as the backlog. An *unaligned* barrier overtakes instead, from
//! `execution.checkpointing.aligned-checkpoint-timeout` after the start of its checkpoint:
//!
//! 1. As soon as the barrier stands anywhere in one channel of a task, the task empties its chain into its output, full or not (by no
//!    more than one element of input gives), so that nothing is on its way inside.
//! 2. The gate takes the barrier out of every channel that has it and gives it to the chain at once. What stood before it is
//!    recorded and stays in its channel. Of a channel where the barrier is still to come, what is read before it comes is
//!    recorded, too. The operators snapshot, and the barrier enters the output channels, where the next task finds it.
//! 3. When the barrier has come on every channel (or the end has), the record becomes a table of the snapshot of the chain's first
//!    operator, and the task reports. Nothing is stored of tasks in which nothing was overtaken.
//!
//! All that is on its way between two tasks is in the queue between them, so there is no state of outputs. Forward channels
//! are not recorded, as in Flink: which keys their rows have is not known to the runtime, so that they could not be dealt to
//! another number of subtasks. There the barrier waits its turn, and overtakes on the other channels when it has come.
//! Savepoints are always aligned.
//!
//! A restore puts what was recorded in front of everything new. Where the task and those before it have the parallelism that they had,
//! each channel gets its own back, watermarks included. Else every instance takes the rows of its key groups, the first one
//! those that are dealt by no key, right into the queue of the operator, without watermarks: behind them comes the lowest that those
//! before had emitted.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray, RecordBatch, StringArray};
use arrow::array::{LargeBinaryBuilder, UInt32Array};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use serde::{Deserialize, Serialize};

use super::exchange::with_hashes;
use crate::error::{Error, Result};
use crate::operators::{InputIndex, Subtask};
use crate::stream::{
    ChangelogBatch, KeyGroup, KeyHashes, StreamElement, WatermarkStatus, WatermarkStep,
    WatermarkSteps,
};
use crate::types::{EventTime, RowKinds};
use crate::watermark::ChannelTime;

/// The operator-scope table that holds it.
pub(super) const CHANNELS: &str = crate::state::CHANNELS_TABLE;

/// Who reads what comes: an operator at the head of a chain.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    /// Its kind, Flink's name.
    pub(crate) operator: String,
    /// What each of its inputs gives it; see [`ChainNode::reads`](super::graph::ChainNode).
    pub(crate) inputs: Vec<String>,
}

impl Reader {
    fn reads(&self, input: usize) -> &str {
        self.inputs.get(input).map_or("", String::as_str)
    }
}

/// Which channel of a gate it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ChannelOrigin {
    /// Which of the edges into the task, and how many there are.
    pub(super) edge: usize,
    pub(super) edges: usize,
    /// The subtask that sends, and how many could.
    pub(super) sender: usize,
    pub(super) senders: usize,
    /// As which input its elements come.
    pub(super) input: usize,
    /// The columns by whose key group rows are dealt; `None`: by none.
    pub(super) hashed: Option<Vec<usize>>,
    /// Whether a barrier may overtake here.
    pub(super) is_overtakable: bool,
}

/// What was overtaken on one channel.
#[derive(Debug, Clone)]
pub(super) struct OvertakenChannel {
    pub(super) origin: ChannelOrigin,
    /// How far it had come when the barrier overtook.
    pub(super) time: ChannelTime,
    pub(super) elements: Vec<StreamElement>,
    /// Whether the barrier is still to come.
    pub(super) is_open: bool,
}

/// Something that was overtaken, and where.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Note {
    /// The operator's kind, and what it read on the input: what comes in has the columns that this kind reads of that.
    operator: String,
    reads: String,
    subtask: usize,
    parallelism: usize,
    origin: ChannelOrigin,
    element: Noted,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Noted {
    Time(ChannelTime),
    Watermark(EventTime),
    Status(WatermarkStatus),
    Batch(NotedBatch),
}

/// What goes with the rows of a batch.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct NotedBatch {
    steps: Vec<(usize, EventTime)>,
    hashed: Option<Vec<usize>>,
}

/// The table of what was overtaken on the way into an operator instance; `None` where nothing was.
pub(super) fn to_table(
    reader: &Reader,
    subtask: Subtask,
    channels: Vec<OvertakenChannel>,
) -> Result<Option<RecordBatch>> {
    if channels.iter().all(|channel| channel.elements.is_empty()) {
        return Ok(None);
    }
    let mut table = TableBuilder::default();
    for OvertakenChannel {
        origin,
        time,
        elements,
        ..
    } in channels
    {
        let mut note = Note {
            operator: reader.operator.clone(),
            reads: reader.reads(origin.input).to_string(),
            subtask: subtask.index,
            parallelism: subtask.parallelism,
            origin,
            element: Noted::Time(time),
        };
        table.add(&note, None)?;
        for element in elements {
            let (noted, batch) = match element {
                StreamElement::Batch(batch) => (noted_batch(&batch), Some(batch)),
                StreamElement::Watermark(watermark) => (Noted::Watermark(watermark), None),
                StreamElement::Status(status) => (Noted::Status(status), None),
                StreamElement::Barrier(_) | StreamElement::End => continue,
            };
            note.element = noted;
            table.add(&note, batch)?;
        }
    }
    table.finish().map(Some)
}

fn noted_batch(batch: &ChangelogBatch) -> Noted {
    let hashes = batch.hashes.as_ref();
    let steps = batch.steps.iter();
    Noted::Batch(NotedBatch {
        steps: steps.map(|step| (step.row, step.watermark)).collect(),
        hashed: hashes.map(|hashes| hashes.columns().to_vec()),
    })
}

/// A row an element: the note, and of a batch the rows as an Arrow IPC stream, the kinds and the hashes as they are.
#[derive(Default)]
struct TableBuilder {
    notes: Vec<String>,
    rows: LargeBinaryBuilder,
    kinds: LargeBinaryBuilder,
    hashes: LargeBinaryBuilder,
}

impl TableBuilder {
    fn add(&mut self, note: &Note, batch: Option<ChangelogBatch>) -> Result<()> {
        let note = serde_json::to_string(note)
            .map_err(|error| Error::internal(format!("channel state: {error}")))?;
        self.notes.push(note);
        let Some(batch) = batch else {
            self.rows.append_null();
            self.kinds.append_null();
            self.hashes.append_null();
            return Ok(());
        };
        let mut stream = StreamWriter::try_new(Vec::new(), &batch.rows.schema())?;
        stream.write(&batch.rows)?;
        self.rows.append_value(stream.into_inner()?);
        self.kinds.append_option(batch.kinds.bytes());
        let bytes = |hashes: KeyHashes| -> Vec<u8> {
            let values = hashes.values().iter();
            values.flat_map(|hash| hash.to_le_bytes()).collect()
        };
        self.hashes.append_option(batch.hashes.map(bytes));
        Ok(())
    }

    fn finish(mut self) -> Result<RecordBatch> {
        Ok(RecordBatch::try_from_iter_with_nullable([
            (
                "note",
                Arc::new(StringArray::from(self.notes)) as ArrayRef,
                false,
            ),
            ("rows", Arc::new(self.rows.finish()) as ArrayRef, true),
            ("kinds", Arc::new(self.kinds.finish()) as ArrayRef, true),
            ("hashes", Arc::new(self.hashes.finish()) as ArrayRef, true),
        ])?)
    }
}

/// What was on its way into all instances of an operator. The rows themselves are read by those whose they are.
#[derive(Debug, Default)]
pub(super) struct ChannelState {
    notes: Vec<(Note, Place)>,
    tables: Vec<RecordBatch>,
}

/// Where something stands.
#[derive(Debug, Clone, Copy)]
struct Place {
    table: usize,
    row: usize,
}

/// What one channel goes on with.
#[derive(Debug)]
pub(super) struct ChannelReplay {
    pub(super) edge: usize,
    pub(super) sender: usize,
    pub(super) time: Option<ChannelTime>,
    pub(super) elements: Vec<StreamElement>,
}

impl ChannelState {
    /// Reads the tables of all instances of an operator. Fails where this one is of another kind, or reads something else.
    pub(super) fn read(reader: &Reader, tables: &[RecordBatch]) -> Result<Self> {
        let mut notes = Vec::new();
        for (table, batch) in tables.iter().enumerate() {
            for (row, note) in read_notes(batch)?.into_iter().enumerate() {
                note.check(reader)?;
                notes.push((note, Place { table, row }));
            }
        }
        Ok(ChannelState {
            notes,
            tables: tables.to_vec(),
        })
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }

    /// Whether every channel can have its own back: an instance and a gate with these channels are as they were, all instances alike.
    pub(super) fn fits(&self, subtask: Subtask, channels: &[&ChannelOrigin]) -> bool {
        self.notes.iter().all(|(note, _)| {
            let same = |origin: &&&ChannelOrigin| {
                origin.edge == note.origin.edge
                    && origin.edges == note.origin.edges
                    && origin.senders == note.origin.senders
                    && origin.hashed == note.origin.hashed
            };
            note.parallelism == subtask.parallelism && channels.iter().any(|origin| same(&origin))
        })
    }

    /// What the channels of one instance go on with, each by itself.
    pub(super) fn of_instance(self, subtask: Subtask) -> Result<Vec<ChannelReplay>> {
        let mut replays: Vec<ChannelReplay> = Vec::new();
        let mine = self.notes.iter();
        for (note, place) in mine.filter(|(note, _)| note.subtask == subtask.index) {
            let (edge, sender) = (note.origin.edge, note.origin.sender);
            let is_it = |replay: &ChannelReplay| replay.edge == edge && replay.sender == sender;
            let at = replays.iter().position(is_it).unwrap_or_else(|| {
                replays.push(ChannelReplay {
                    edge,
                    sender,
                    time: None,
                    elements: Vec::new(),
                });
                replays.len() - 1
            });
            let element = match &note.element {
                Noted::Time(time) => {
                    replays[at].time = Some(*time);
                    continue;
                }
                Noted::Watermark(watermark) => StreamElement::Watermark(*watermark),
                Noted::Status(status) => StreamElement::Status(*status),
                Noted::Batch(batch) => StreamElement::Batch(self.batch(batch, *place)?),
            };
            replays[at].elements.push(element);
        }
        replays.iter_mut().for_each(ChannelReplay::wake_at_the_end);
        Ok(replays)
    }

    /// The rows that one of any number of instances goes on with, without watermarks.
    pub(super) fn dealt(self, subtask: Subtask) -> Result<Vec<(InputIndex, StreamElement)>> {
        let mut dealt = Vec::new();
        for (note, place) in &self.notes {
            let Noted::Batch(batch) = &note.element else {
                continue;
            };
            let hashed = note.origin.hashed.as_deref();
            if hashed.is_none() && subtask.index > 0 {
                continue;
            }
            let input = InputIndex(note.origin.input);
            if let Some(batch) = share(self.batch(batch, *place)?, hashed, subtask)? {
                dealt.push((input, StreamElement::Batch(batch)));
            }
        }
        Ok(dealt)
    }

    fn batch(&self, noted: &NotedBatch, place: Place) -> Result<ChangelogBatch> {
        read_batch(&self.tables[place.table], place.row, noted)?.ok_or_else(damaged)
    }
}

impl Note {
    /// Fails where an operator cannot take it up.
    fn check(&self, reader: &Reader) -> Result<()> {
        let (operator, input) = (&self.operator, self.origin.input);
        let why = if *operator != reader.operator {
            format!("which is {} in this job", reader.operator)
        } else if self.reads != reader.reads(input) {
            format!(
                "whose input {} has other rows or columns in this job",
                input + 1
            )
        } else {
            return Ok(());
        };
        Err(Error::unsupported(format!(
            "the checkpoint holds rows on their way into {operator}, {why}"
        ))
        .hint("restore an unaligned checkpoint with the statements, at the parallelism and with the options that it was taken with, or restore a savepoint"))
    }
}

impl ChannelReplay {
    /// Those before a restored task are active until they say otherwise.
    fn wake_at_the_end(&mut self) {
        let began = self.time.filter(|time| !time.active && !time.ended);
        let began = began.map(|_| WatermarkStatus::Idle);
        let status = |element: &StreamElement| match element {
            StreamElement::Status(status) => Some(*status),
            _ => None,
        };
        let last = self.elements.iter().rev().find_map(status).or(began);
        if last == Some(WatermarkStatus::Idle) {
            let active = StreamElement::Status(WatermarkStatus::Active);
            self.elements.push(active);
        }
    }
}

/// The rows of a batch that are an instance's; all where they are dealt by no key.
fn share(
    batch: ChangelogBatch,
    hashed: Option<&[usize]>,
    subtask: Subtask,
) -> Result<Option<ChangelogBatch>> {
    let batch = ChangelogBatch {
        steps: WatermarkSteps::NONE,
        ..batch
    };
    let Some(columns) = hashed else {
        return Ok(Some(batch));
    };
    let batch = with_hashes(batch, columns)?;
    let hashes = batch.hashes.as_ref().map_or(&[][..], KeyHashes::values);
    let range = subtask.key_groups();
    let is_mine = |hash: u64| range.contains(KeyGroup::of_hash(hash, subtask.max_parallelism));
    let rows = (0u32..).zip(hashes);
    let mine: UInt32Array = rows
        .filter(|(_, hash)| is_mine(**hash))
        .map(|(row, _)| Some(row))
        .collect();
    Ok(match mine.len() {
        0 => None,
        all if all == batch.num_rows() => Some(batch),
        _ => Some(batch.take(&mine)?.0),
    })
}

fn damaged() -> Error {
    Error::external(format!("the state {CHANNELS} cannot be read"))
}

fn read_notes(table: &RecordBatch) -> Result<Vec<Note>> {
    let notes = table.column_by_name("note").ok_or_else(damaged)?;
    let notes = notes.as_string_opt::<i32>().ok_or_else(damaged)?;
    let read = |text: Option<&str>| {
        serde_json::from_str(text.unwrap_or_default()).map_err(|error| {
            Error::external(format!("the state {CHANNELS} cannot be read: {error}"))
        })
    };
    notes.iter().map(read).collect()
}

/// `None` where a part is missing, or has another length than the rows.
fn read_batch(
    table: &RecordBatch,
    row: usize,
    noted: &NotedBatch,
) -> Result<Option<ChangelogBatch>> {
    let bytes = |name: &str| -> Option<&[u8]> {
        let column: &LargeBinaryArray = table.column_by_name(name)?.as_binary_opt()?;
        column.is_valid(row).then(|| column.value(row))
    };
    let Some(stream) = bytes("rows") else {
        return Ok(None);
    };
    let Some(rows) = StreamReader::try_new(stream, None)?.next().transpose()? else {
        return Ok(None);
    };
    let kinds = bytes("kinds").map(<[u8]>::to_vec);
    if kinds
        .as_ref()
        .is_some_and(|kinds| kinds.len() != rows.num_rows() || kinds.iter().any(|kind| *kind > 3))
    {
        return Ok(None);
    }
    let hashes = match (&noted.hashed, bytes("hashes")) {
        (Some(columns), Some(bytes)) if bytes.len() == rows.num_rows() * 8 => {
            let values = bytes.as_chunks::<8>().0.iter();
            let values: Vec<u64> = values.map(|hash| u64::from_le_bytes(*hash)).collect();
            Some(KeyHashes::known(columns, values.into()))
        }
        (None, _) => None,
        _ => return Ok(None),
    };
    let steps = noted.steps.iter();
    Ok(Some(ChangelogBatch {
        rows,
        kinds: kinds.map_or(RowKinds::INSERT_ONLY, |kinds| {
            RowKinds::from_bytes(kinds.into())
        }),
        steps: WatermarkSteps::new(steps.map(|(row, watermark)| WatermarkStep {
            row: *row,
            watermark: *watermark,
        })),
        hashes,
    }))
}
