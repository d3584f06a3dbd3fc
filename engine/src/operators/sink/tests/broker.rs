//! A sink whose transactions die with their process: what a checkpoint owes is in the checkpoint, and a restore writes it anew.

use std::collections::BTreeMap;

use bytes::Bytes;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::json;

use super::*;

/// What outlives processes: the committed rows, and the last checkpoint that each transactional id has committed.
#[derive(Default)]
struct Broker {
    rows: Vec<String>,
    markers: BTreeMap<usize, u64>,
}

/// Rows by transactional id and checkpoint.
type OpenTransactions = BTreeMap<(usize, u64), Vec<String>>;

/// One process's connection: its open transactions.
struct BrokerSink {
    broker: Arc<Mutex<Broker>>,
    open: Arc<Mutex<OpenTransactions>>,
}

impl BrokerSink {
    fn new(broker: &Arc<Mutex<Broker>>) -> Arc<Self> {
        Arc::new(BrokerSink {
            broker: broker.clone(),
            open: Arc::default(),
        })
    }
}

impl Sink for BrokerSink {
    fn writer(&self, subtask: Subtask) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(BrokerWriter {
            id: subtask.index,
            rows: Vec::new(),
            open: self.open.clone(),
        }))
    }

    fn commit(&self, committables: &[Committable]) -> Result<()> {
        for committable in committables {
            let (id, checkpoint): (usize, u64) =
                serde_json::from_value(committable.note.clone()).unwrap();
            let mut broker = self.broker.lock().unwrap();
            if broker
                .markers
                .get(&id)
                .is_some_and(|done| *done >= checkpoint)
            {
                continue;
            }
            let rows = match self.open.lock().unwrap().remove(&(id, checkpoint)) {
                Some(rows) => rows,
                None => std::str::from_utf8(&committable.rows)
                    .unwrap()
                    .lines()
                    .map(str::to_string)
                    .collect(),
            };
            broker.rows.extend(rows);
            broker.markers.insert(id, checkpoint);
        }
        Ok(())
    }
}

struct BrokerWriter {
    id: usize,
    rows: Vec<String>,
    open: Arc<Mutex<OpenTransactions>>,
}

impl SinkWriter for BrokerWriter {
    fn write(&mut self, batch: &ChangelogBatch) -> Result<()> {
        self.rows.extend(rows_text(&batch.rows));
        Ok(())
    }

    fn prepare_commit(&mut self, checkpoint: CheckpointId) -> Result<Vec<Committable>> {
        if self.rows.is_empty() {
            return Ok(Vec::new());
        }
        let rows = std::mem::take(&mut self.rows);
        let owed = Bytes::from(rows.join("\n"));
        let before = self
            .open
            .lock()
            .unwrap()
            .insert((self.id, checkpoint.0), rows);
        assert!(before.is_none(), "nobody is asked twice for one checkpoint");
        Ok(vec![Committable::with_rows(
            json!([self.id, checkpoint.0]),
            owed,
        )])
    }
}

struct Job {
    subtasks: Vec<(SinkOperator, Context)>,
}

impl Job {
    fn start(broker: &Arc<Mutex<Broker>>, parallelism: usize) -> Job {
        let sink = BrokerSink::new(broker);
        let subtask = |index| {
            let subtask = Subtask {
                index,
                parallelism,
                ..Subtask::SINGLE
            };
            let operator = SinkOperator::new(sink.clone(), subtask, SinkSpec::AS_THEY_ARE).unwrap();
            (operator, Context::new(subtask, Default::default()))
        };
        Job {
            subtasks: (0..parallelism).map(subtask).collect(),
        }
    }

    fn restore(&mut self, snapshot: &StateSnapshot) {
        for (operator, ctx) in &mut self.subtasks {
            operator.restore_state(ctx, snapshot.clone()).unwrap();
        }
    }

    fn write(&mut self, subtask: usize, row: usize) {
        let (operator, ctx) = &mut self.subtasks[subtask];
        let batch = batch(&schema(), &format!("+I {row}, x"));
        let mut out = Output::new(false);
        let flow = operator.process_batch(ctx, InputIndex::FIRST, batch, &mut out);
        assert_eq!(flow.unwrap(), Flow::Done);
    }

    fn snapshot(&mut self, checkpoint: u64) -> StateSnapshot {
        let mut merged = StateSnapshot::default();
        for (operator, ctx) in &mut self.subtasks {
            merged.merge(
                operator
                    .snapshot_state(ctx, CheckpointId(checkpoint))
                    .unwrap(),
            );
        }
        merged
    }

    /// Tells the first of the subtasks.
    fn complete(&mut self, checkpoint: u64, subtasks: usize) {
        for (operator, ctx) in self.subtasks.iter_mut().take(subtasks) {
            operator
                .notify_checkpoint_complete(ctx, CheckpointId(checkpoint))
                .unwrap();
        }
    }
}

#[test]
fn a_broker_whose_transactions_nobody_can_resume_gets_every_row_once() {
    for seed in 0..200 {
        let mut random = SmallRng::seed_from_u64(seed);
        let broker = Arc::new(Mutex::new(Broker::default()));
        let mut job = Job::start(&broker, random.random_range(1..4));
        let (mut row, mut checkpoint) = (0, 0);
        let mut complete: (StateSnapshot, usize, u64) = Default::default();
        for _ in 0..40 {
            match random.random_range(0..10) {
                0..6 => {
                    let subtask = random.random_range(0..job.subtasks.len());
                    job.write(subtask, row);
                    row += 1;
                }
                6..9 => {
                    checkpoint += 1;
                    let snapshot = job.snapshot(checkpoint);
                    if random.random_bool(0.7) {
                        complete = (snapshot, row, checkpoint);
                        job.complete(checkpoint, random.random_range(0..5));
                    }
                }
                _ => {
                    job = Job::start(&broker, random.random_range(1..4));
                    (row, checkpoint) = (complete.1, complete.2);
                    job.restore(&complete.0);
                    assert_rows(&broker, row, seed);
                }
            }
        }
        for (operator, ctx) in &mut job.subtasks {
            let flow = operator.finish(ctx, &mut Output::new(false));
            assert_eq!(flow.unwrap(), Flow::Done);
        }
        job.complete(u64::MAX, usize::MAX);
        assert_rows(&broker, row, seed);
    }
}

fn assert_rows(broker: &Mutex<Broker>, rows: usize, seed: u64) {
    let mut found = broker.lock().unwrap().rows.clone();
    let number = |row: &String| row.split(',').next().unwrap().parse::<usize>().unwrap();
    found.sort_by_key(number);
    let numbers: Vec<usize> = found.iter().map(number).collect();
    assert_eq!(numbers, (0..rows).collect::<Vec<_>>(), "seed {seed}");
}
