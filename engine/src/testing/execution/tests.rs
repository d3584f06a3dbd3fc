//! The runner's loop against a job that copies table `t` to sink `s`, so that every wrong replay shows.

use super::super::case::Record;
use super::super::test_connector::TestConnector;
use super::super::ways::{Cuts, WaySettings};
use super::*;
use crate::connectors::source::PollRequest;
use crate::connectors::{
    Committable, ConnectorFactory, Sink, SinkWriter, SourcePoll, SourceReader, SplitState,
    TableDescriptor,
};
use crate::operators::Subtask;
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::{Field, LogicalType, ProcessingTime, RowKind, Schema};

/// Copies, and adds to each committed checkpoint what it has prepared.
struct Copy {
    reader: Box<dyn SourceReader>,
    writer: Box<dyn SinkWriter>,
    sink: Arc<dyn Sink>,
    rows: u64,
    finished: bool,
}

struct CopySnapshot {
    splits: Vec<SplitState>,
    prepared: Vec<Committable>,
}

struct CopyLauncher {
    bench: Arc<TestBench>,
}

fn table(name: &str) -> TableDescriptor {
    TableDescriptor {
        name: name.into(),
        physical: Schema::new(vec![Field::new("n", LogicalType::INT)]),
        projection: vec![0],
        primary_key: vec![],
        options: BTreeMap::from([("partitions".to_string(), "2".to_string())]),
        time_zone: "UTC".into(),
    }
}

impl Launcher for CopyLauncher {
    type Job = Copy;

    fn launch(&self, _plan: &JobPlan, snapshot: Option<&CopySnapshot>) -> Result<Copy> {
        let connector = TestConnector::new(self.bench.clone(), true);
        let source = connector.create_source(&table("t"))?;
        let sink = connector.create_sink(&table("s"))?;
        let mut copy = Copy {
            reader: source.reader()?,
            writer: sink.writer(Subtask::SINGLE)?,
            sink,
            rows: 0,
            finished: false,
        };
        match snapshot {
            None => copy.reader.add_splits(source.splits()?)?,
            Some(snapshot) => {
                copy.reader.add_splits(snapshot.splits.clone())?;
                copy.sink.commit(&snapshot.prepared)?;
                copy.writer.discard_uncommitted()?;
            }
        }
        Ok(copy)
    }
}

impl SteppedJob for Copy {
    type Snapshot = CopySnapshot;

    fn run_until_idle(&mut self) -> Result<()> {
        let request = PollRequest {
            max_rows: 100,
            max_bytes: 1 << 20,
            now: ProcessingTime(0),
        };
        loop {
            match self.reader.poll(&request)? {
                SourcePoll::Rows { rows, kinds, .. } => {
                    self.rows += rows.num_rows() as u64;
                    self.writer.write(&ChangelogBatch::new(rows, kinds))?;
                }
                SourcePoll::Pending { .. } => return Ok(()),
                SourcePoll::End => {
                    self.finished = true;
                    return Ok(());
                }
                SourcePoll::SplitEnd(_) | SourcePoll::SplitIdle(_) => {}
            }
        }
    }

    fn advance_processing_time(&mut self, _ms: i64) -> Result<()> {
        self.run_until_idle()
    }

    fn checkpoint(&mut self) -> Result<Option<CopySnapshot>> {
        let prepared = self.writer.prepare_commit(CheckpointId(1))?;
        self.sink.commit(&prepared)?;
        Ok(Some(CopySnapshot {
            splits: self.reader.snapshot()?,
            prepared,
        }))
    }

    fn is_finished(&self) -> bool {
        self.finished
    }

    fn commit_end(&mut self) -> Result<()> {
        let prepared = self.writer.prepare_commit(CheckpointId(u64::MAX))?;
        self.sink.commit(&prepared)
    }

    fn metrics(&self) -> BTreeMap<String, u64> {
        BTreeMap::from([("rows".to_string(), self.rows)])
    }
}

fn row(n: i32, partition: usize) -> Step {
    Step::Record {
        table: "t".into(),
        partition,
        record: Record::Row {
            kind: RowKind::Insert,
            cells: vec![n.into()],
        },
    }
}

const CHECKPOINT: Step = Step::Checkpoint {
    crash_after_commit: false,
};

fn run(steps: &[Step], settings: WaySettings, seed: u64) -> (Vec<i64>, Outcome) {
    let bench = Arc::new(TestBench::new(steps));
    let launcher = CopyLauncher {
        bench: bench.clone(),
    };
    let execution = Execution::start(&launcher, bench.clone(), steps, settings, Some("s"), seed);
    let outcome = execution.unwrap().run(true).unwrap();
    let number = |row: WrittenRow| match row.cells[0] {
        super::super::cell::Value::Integer(n) => n,
        _ => panic!("a number"),
    };
    (
        bench.committed("s").into_iter().map(number).collect(),
        outcome,
    )
}

const RUNS: WaySettings = WaySettings {
    cuts: Cuts::Runs,
    parallelism: None,
    kills: false,
    spills: false,
};

#[test]
fn every_way_gives_every_row_once_and_in_order() {
    let steps: Vec<Step> = (0..12)
        .map(|n| match n {
            5 => Step::Idle {
                table: "t".into(),
                partition: 1,
            },
            n => row(n, (n / 4 % 2) as usize),
        })
        .collect();
    for cuts in [Cuts::Runs, Cuts::Rows, Cuts::Random] {
        for kills in [false, true] {
            for seed in 0..5 {
                let settings = WaySettings {
                    cuts,
                    kills,
                    ..RUNS
                };
                let (rows, outcome) = run(&steps, settings, seed);
                assert_eq!(rows, [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11], "{settings:?}");
                assert_eq!(outcome.metrics["rows"], 11);
            }
        }
    }
}

#[test]
fn a_kill_takes_back_and_replays_in_the_order_of_arrival() {
    let steps = [
        row(1, 1),
        CHECKPOINT,
        row(2, 1),
        row(3, 0),
        row(4, 1),
        Step::KillAndRestore,
        row(5, 0),
    ];
    let (rows, outcome) = run(&steps, RUNS, 0);
    assert_eq!(rows, [1, 2, 3, 4, 5]);
    assert_eq!(outcome.metrics["rows"], 5);
    let without_checkpoint = [row(1, 1), row(2, 0), Step::KillAndRestore];
    assert_eq!(run(&without_checkpoint, RUNS, 0).0, [1, 2]);
}

/// The row behind partition 0's barrier waits until partition 1 has it too; a kill forgets both.
#[test]
fn a_barrier_holds_its_partition_back() {
    let barrier = |partition| Step::Barrier {
        table: "t".into(),
        partition,
    };
    let steps = [
        row(1, 0),
        barrier(0),
        row(2, 0),
        row(3, 1),
        barrier(1),
        row(4, 1),
    ];
    assert_eq!(run(&steps, RUNS, 0).0, [1, 3, 2, 4]);
    let killed = [&steps[..5], &[Step::KillAndRestore], &steps[5..]].concat();
    assert_eq!(run(&killed, RUNS, 0).0, [1, 3, 2, 4]);
    let before = [&steps[..4], &[Step::KillAndRestore], &steps[5..]].concat();
    assert_eq!(run(&before, RUNS, 0).0, [1, 2, 3, 4]);
    let open = [row(1, 0), barrier(0), row(2, 0)];
    assert_eq!(run(&open, RUNS, 0).0, [1, 2]);
}

#[test]
fn output_steps_see_what_came_since_the_last() {
    let output = || Step::Output { rows: vec![] };
    let steps = [
        row(1, 0),
        output(),
        row(2, 0),
        row(3, 0),
        output(),
        output(),
    ];
    let (_, outcome) = run(&steps, RUNS, 0);
    let seen: Vec<usize> = outcome
        .outputs
        .iter()
        .map(|output| output.rows.len())
        .collect();
    assert_eq!(seen, [1, 2, 0]);
}

#[test]
fn a_crash_needs_a_restore() {
    let crash = Step::Checkpoint {
        crash_after_commit: true,
    };
    let good = [row(1, 0), crash.clone(), Step::KillAndRestore, row(2, 0)];
    assert_eq!(run(&good, RUNS, 0).0, [1, 2]);
    let steps = [row(1, 0), crash, row(2, 0)];
    let bench = Arc::new(TestBench::new(&steps));
    let launcher = CopyLauncher {
        bench: bench.clone(),
    };
    let execution = Execution::start(&launcher, bench, &steps, RUNS, None, 0).unwrap();
    assert!(execution.run(true).is_err());
}
