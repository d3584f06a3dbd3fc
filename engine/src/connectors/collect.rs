//! Hands the rows of a bare SELECT to the caller, batch by batch: as they come, or where there are checkpoints, each with its
//! checkpoint, so that no row is given twice when the job starts again.
//!
//! What waits for its checkpoint is in the checkpoint, as Arrow IPC: another process that restores it gives the rows that this
//! one owed.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, RecordBatch, UInt8Array};
use arrow::datatypes::{Field, Schema};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::sink::{Committable, Sink, SinkWriter};
use crate::error::{Error, Result};
use crate::operators::Subtask;
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{RowKind, RowKinds};

/// What receives the rows.
pub type Collector = Arc<dyn Fn(&ChangelogBatch) -> Result<()> + Send + Sync>;

/// When rows are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// At once. Nothing can be taken back, so the job cannot start again.
    AtOnce,
    /// When the checkpoint behind them is complete.
    WithCheckpoints,
}

/// A sink without a table. Its clones share what was given, so that they serve one attempt of a job after the other.
#[derive(Clone)]
pub struct CollectSink {
    collector: Collector,
    delivery: Delivery,
    /// The latest checkpoint whose rows were given.
    given: Arc<Mutex<Option<CheckpointId>>>,
}

/// The rows before a barrier.
#[derive(Debug, Serialize, Deserialize)]
struct Collected {
    checkpoint: CheckpointId,
    /// An Arrow IPC stream in Base64; the last column is the kind of each row.
    rows: String,
}

impl CollectSink {
    /// A sink that gives rows to `collector`.
    pub fn new(collector: Collector, delivery: Delivery) -> Self {
        CollectSink {
            collector,
            delivery,
            given: Arc::default(),
        }
    }

    fn give(&self, collected: &Collected) -> Result<()> {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if given.is_some_and(|given| given >= collected.checkpoint) {
            return Ok(());
        }
        for batch in decode(&collected.rows)? {
            (self.collector)(&batch)?;
        }
        *given = Some(collected.checkpoint);
        Ok(())
    }
}

impl Sink for CollectSink {
    fn writer(&self, _: Subtask) -> Result<Box<dyn SinkWriter>> {
        Ok(match self.delivery {
            Delivery::AtOnce => Box::new(DirectWriter(self.collector.clone())),
            Delivery::WithCheckpoints => Box::new(CollectWriter::default()),
        })
    }

    fn commit(&self, committables: &[Committable]) -> Result<()> {
        for committable in committables {
            let collected = serde_json::from_value(committable.note.clone());
            self.give(&collected.map_err(|error| damaged(&error))?)?;
        }
        Ok(())
    }

    fn is_single(&self) -> bool {
        true
    }
}

struct DirectWriter(Collector);

impl SinkWriter for DirectWriter {
    fn write(&mut self, batch: &ChangelogBatch) -> Result<()> {
        (self.0)(batch)
    }

    fn prepare_commit(&mut self, _: CheckpointId) -> Result<Vec<Committable>> {
        Ok(Vec::new())
    }
}

/// Holds rows back until their barrier.
#[derive(Default)]
struct CollectWriter(Vec<ChangelogBatch>);

impl SinkWriter for CollectWriter {
    fn write(&mut self, batch: &ChangelogBatch) -> Result<()> {
        self.0.push(batch.clone());
        Ok(())
    }

    fn prepare_commit(&mut self, checkpoint: CheckpointId) -> Result<Vec<Committable>> {
        if self.0.is_empty() {
            return Ok(Vec::new());
        }
        let rows = encode(&std::mem::take(&mut self.0))?;
        let collected = serde_json::to_value(Collected { checkpoint, rows });
        let note = collected.map_err(|error| damaged(&error))?;
        Ok(vec![Committable::new(note)])
    }
}

fn damaged(error: &dyn std::fmt::Display) -> Error {
    Error::internal(format!(
        "the collected rows of a SELECT are damaged: {error}"
    ))
}

/// The batches as one stream; the kinds are one more column.
fn encode(batches: &[ChangelogBatch]) -> Result<String> {
    let mut writer = None;
    for batch in batches {
        let rows = with_kinds(batch)?;
        let writer = match &mut writer {
            Some(writer) => writer,
            None => writer.insert(StreamWriter::try_new(Vec::new(), &rows.schema())?),
        };
        writer.write(&rows)?;
    }
    let bytes = writer.map(StreamWriter::into_inner).transpose()?;
    Ok(STANDARD.encode(bytes.unwrap_or_default()))
}

/// The rows with their kinds as a last column. Every column may be NULL, as batches of one query can differ in that.
fn with_kinds(batch: &ChangelogBatch) -> Result<RecordBatch> {
    let kinds = (0..batch.num_rows()).map(|row| batch.kinds.get(row) as u8);
    let kinds: ArrayRef = Arc::new(UInt8Array::from_iter_values(kinds));
    let schema = batch.rows.schema();
    let fields = schema.fields().iter().map(|field| field.as_ref().clone());
    let kind = Field::new("$kind", kinds.data_type().clone(), true);
    let fields = fields.chain([kind]).map(|field| field.with_nullable(true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let columns = batch.rows.columns().iter().cloned().chain([kinds]);
    Ok(RecordBatch::try_new(schema, columns.collect())?)
}

fn decode(text: &str) -> Result<Vec<ChangelogBatch>> {
    let bytes = STANDARD.decode(text).map_err(|error| damaged(&error))?;
    let mut batches = Vec::new();
    for rows in StreamReader::try_new(std::io::Cursor::new(bytes), None)? {
        let rows = rows?;
        let last = rows.num_columns().saturating_sub(1);
        let kinds = rows.column(last).as_any().downcast_ref::<UInt8Array>();
        let kinds = kinds.ok_or_else(|| damaged(&"no column of kinds"))?;
        let kinds: Option<Vec<RowKind>> = kinds
            .values()
            .iter()
            .map(|kind| RowKind::from_byte(*kind))
            .collect();
        let kinds = kinds.ok_or_else(|| damaged(&"no such kind"))?;
        let columns: Vec<usize> = (0..last).collect();
        batches.push(ChangelogBatch::new(
            rows.project(&columns)?,
            RowKinds::new(&kinds),
        ));
    }
    Ok(batches)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};

    use super::*;

    fn batch(numbers: &[i64], kinds: &[RowKind]) -> ChangelogBatch {
        let column: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
        let texts = numbers.iter().map(|n| (*n > 1).then(|| format!("t{n}")));
        let texts: ArrayRef = Arc::new(StringArray::from_iter(texts));
        let rows = RecordBatch::try_from_iter([("n", column), ("t", texts)]).unwrap();
        ChangelogBatch::new(rows, RowKinds::new(kinds))
    }

    /// A sink and what it has given, a line a row.
    fn sink(delivery: Delivery) -> (CollectSink, Arc<Mutex<Vec<String>>>) {
        let seen: Arc<Mutex<Vec<String>>> = Arc::default();
        let lines = seen.clone();
        let collector = move |batch: &ChangelogBatch| {
            let numbers = batch.rows.column(0).as_any();
            let numbers = numbers.downcast_ref::<Int64Array>().unwrap();
            let line = |row| format!("{}{}", batch.kinds.get(row), numbers.value(row));
            lines
                .lock()
                .unwrap()
                .extend((0..batch.num_rows()).map(line));
            Ok(())
        };
        (CollectSink::new(Arc::new(collector), delivery), seen)
    }

    fn subtask() -> Subtask {
        Subtask {
            index: 0,
            parallelism: 1,
            max_parallelism: 128,
        }
    }

    #[test]
    fn with_checkpoints_rows_wait_for_theirs_and_come_once() {
        let (sink, seen) = sink(Delivery::WithCheckpoints);
        let mut writer = sink.writer(subtask()).unwrap();
        let rows = batch(&[1, 2], &[RowKind::Insert, RowKind::Delete]);
        writer.write(&rows).unwrap();
        writer.write(&batch(&[3], &[RowKind::Insert])).unwrap();
        let first = writer.prepare_commit(CheckpointId(1)).unwrap();
        writer.write(&batch(&[4], &[RowKind::Insert])).unwrap();
        assert!(seen.lock().unwrap().is_empty());
        sink.commit(&first).unwrap();
        assert_eq!(*seen.lock().unwrap(), ["+I1", "-D2", "+I3"]);

        // The job fails and starts again from the first checkpoint.
        let again = sink.clone();
        drop(writer);
        again.commit(&first).unwrap();
        let mut writer = again.writer(subtask()).unwrap();
        writer.write(&batch(&[4], &[RowKind::Insert])).unwrap();
        let second = writer.prepare_commit(CheckpointId(2)).unwrap();
        again.commit(&second).unwrap();
        assert_eq!(*seen.lock().unwrap(), ["+I1", "-D2", "+I3", "+I4"]);
        assert!(writer.prepare_commit(CheckpointId(3)).unwrap().is_empty());
    }

    #[test]
    fn without_checkpoints_rows_come_at_once() {
        let (sink, seen) = sink(Delivery::AtOnce);
        let mut writer = sink.writer(subtask()).unwrap();
        writer.write(&batch(&[7], &[RowKind::UpdateAfter])).unwrap();
        assert_eq!(*seen.lock().unwrap(), ["+U7"]);
    }
}
