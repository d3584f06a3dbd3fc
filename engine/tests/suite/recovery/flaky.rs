//! Connectors with troubles: a source of counted numbers and a transactional sink, which fail when they are told to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use serde_json::json;
use volley::config::{OptionSpec, OptionType};
use volley::connectors::source::PollRequest;
use volley::connectors::{
    Committable, ConnectorFactory, Sink, SinkWriter, Source, SourcePoll, SourceReader, SplitState,
    TableDescriptor,
};
use volley::operators::Subtask;
use volley::stream::{ChangelogBatch, CheckpointId};
use volley::types::{ProcessingTime, RowKinds};
use volley::{Error, Result};

/// Something that goes wrong, once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Trouble {
    /// Reading this number fails.
    Read(i64),
    /// Reading this number panics.
    Panic(i64),
    /// Writing a row whose first column is this number fails.
    Write(i64),
    /// The first commit after this many fails, with half of its rows committed.
    Commit(usize),
}

/// What source and sink share with the test.
#[derive(Default)]
pub(super) struct Stage {
    troubles: Vec<Trouble>,
    /// How many numbers there are; `None` behind them: the input does not end.
    numbers: i64,
    ends: bool,
    commits: usize,
    /// What is committed, by transaction.
    transactions: BTreeMap<u64, Vec<Vec<i64>>>,
    next_transaction: u64,
    /// How long each row takes in all sink writers but the first, whose thread also reads.
    pause: Duration,
}

/// The stage, shared.
#[derive(Clone, Default)]
pub(super) struct SharedStage(Arc<Mutex<Stage>>);

impl SharedStage {
    /// Numbers from 0, and troubles.
    pub(super) fn new(numbers: i64, ends: bool, troubles: &[Trouble]) -> Self {
        SharedStage(Arc::new(Mutex::new(Stage {
            numbers,
            ends,
            troubles: troubles.to_vec(),
            ..Stage::default()
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has rows wait before the sinks.
    pub(super) fn slow_down(self, pause: Duration) -> Self {
        self.lock().pause = pause;
        self
    }

    /// More numbers come, after which the input ends.
    pub(super) fn end_at(&self, numbers: i64) {
        let mut stage = self.lock();
        (stage.numbers, stage.ends) = (numbers, true);
    }

    /// What is committed, sorted.
    pub(super) fn committed(&self) -> Vec<Vec<i64>> {
        let stage = self.lock();
        let mut rows: Vec<Vec<i64>> = stage.transactions.values().flatten().cloned().collect();
        rows.sort();
        rows
    }

    /// Troubles that have not come about.
    pub(super) fn troubles(&self) -> usize {
        self.lock().troubles.len()
    }

    fn trouble(&self, trouble: Trouble) -> Result<()> {
        let mut stage = self.lock();
        let Some(place) = stage.troubles.iter().position(|other| *other == trouble) else {
            return Ok(());
        };
        stage.troubles.remove(place);
        drop(stage);
        assert!(!matches!(trouble, Trouble::Panic(_)), "a panic on purpose");
        Err(Error::external(format!("trouble on purpose: {trouble:?}")))
    }
}

impl ConnectorFactory for SharedStage {
    fn identifier(&self) -> &'static str {
        "flaky"
    }

    fn options(&self, _: &TableDescriptor) -> Vec<OptionSpec> {
        vec![OptionSpec::new(
            "connector",
            OptionType::Text,
            None,
            "flaky.",
        )]
    }

    fn projects(&self) -> bool {
        false
    }

    fn create_source(&self, _: &TableDescriptor) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(self.clone()))
    }

    fn create_sink(&self, _: &TableDescriptor) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(self.clone()))
    }
}

impl Source for SharedStage {
    fn is_bounded(&self) -> bool {
        true
    }

    fn splits(&self) -> Result<Vec<SplitState>> {
        Ok(vec![SplitState {
            id: "numbers".to_string(),
            position: json!(0),
        }])
    }

    fn reader(&self) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(Reader {
            stage: self.clone(),
            next: None,
        }))
    }
}

/// A few numbers a millisecond.
struct Reader {
    stage: SharedStage,
    next: Option<i64>,
}

impl SourceReader for Reader {
    fn add_splits(&mut self, splits: Vec<SplitState>) -> Result<()> {
        self.next = splits
            .first()
            .and_then(|split| split.position.as_i64())
            .or(self.next);
        Ok(())
    }

    fn poll(&mut self, request: &PollRequest) -> Result<SourcePoll> {
        const NUMBERS: i64 = 5;
        let Some(first) = self.next else {
            return Ok(SourcePoll::End);
        };
        let (numbers, ends) = {
            let stage = self.stage.lock();
            (stage.numbers, stage.ends)
        };
        let next = numbers.min(first + NUMBERS);
        if next <= first && ends {
            return Ok(SourcePoll::End);
        }
        if next <= first {
            let until = Some(ProcessingTime(request.now.millis() + 1));
            return Ok(SourcePoll::Pending { until });
        }
        std::thread::sleep(Duration::from_micros(200));
        for number in first..next {
            self.stage.trouble(Trouble::Read(number))?;
            self.stage.trouble(Trouble::Panic(number))?;
        }
        self.next = Some(next);
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(first..next));
        let options = RecordBatchOptions::new().with_row_count(Some((next - first) as usize));
        let schema = arrow::datatypes::Schema::new(vec![arrow::datatypes::Field::new(
            "n",
            column.data_type().clone(),
            true,
        )]);
        Ok(SourcePoll::Rows {
            split: "numbers".to_string(),
            rows: RecordBatch::try_new_with_options(Arc::new(schema), vec![column], &options)?,
            kinds: RowKinds::INSERT_ONLY,
        })
    }

    fn snapshot(&self) -> Result<Vec<SplitState>> {
        let split = |next: i64| SplitState {
            id: "numbers".to_string(),
            position: json!(next),
        };
        Ok(self.next.map(split).into_iter().collect())
    }
}

impl Sink for SharedStage {
    fn writer(&self, subtask: Subtask) -> Result<Box<dyn SinkWriter>> {
        let pause = self.lock().pause;
        Ok(Box::new(Writer {
            stage: self.clone(),
            pause: if subtask.index > 0 {
                pause
            } else {
                Duration::ZERO
            },
            rows: Vec::new(),
        }))
    }

    fn commit(&self, committables: &[Committable]) -> Result<()> {
        for committable in committables {
            let (transaction, rows): (u64, Vec<Vec<i64>>) =
                serde_json::from_value(committable.note.clone()).unwrap();
            let mut stage = self.lock();
            stage.transactions.insert(transaction, rows);
            stage.commits += 1;
            let commits = stage.commits;
            drop(stage);
            self.trouble(Trouble::Commit(commits))?;
        }
        Ok(())
    }

    fn take_back(&self, committables: &[Committable]) -> Result<usize> {
        for committable in committables {
            let (transaction, _): (u64, serde_json::Value) =
                serde_json::from_value(committable.note.clone()).unwrap();
            self.lock().transactions.remove(&transaction);
        }
        Ok(committables.len())
    }
}

struct Writer {
    stage: SharedStage,
    pause: Duration,
    rows: Vec<Vec<i64>>,
}

impl SinkWriter for Writer {
    fn write(&mut self, batch: &ChangelogBatch) -> Result<()> {
        for row in 0..batch.num_rows() {
            let cell = |column: &ArrayRef| {
                let column = column.as_any().downcast_ref::<Int64Array>().unwrap();
                if column.is_null(row) {
                    -1
                } else {
                    column.value(row)
                }
            };
            let row: Vec<i64> = batch.rows.columns().iter().map(cell).collect();
            self.stage.trouble(Trouble::Write(row[0]))?;
            std::thread::sleep(self.pause);
            self.rows.push(row);
        }
        Ok(())
    }

    fn prepare_commit(&mut self, _: CheckpointId) -> Result<Vec<Committable>> {
        if self.rows.is_empty() {
            return Ok(Vec::new());
        }
        let mut stage = self.stage.lock();
        stage.next_transaction += 1;
        let rows = std::mem::take(&mut self.rows);
        Ok(vec![Committable::new(json!((
            stage.next_transaction,
            rows
        )))])
    }
}
