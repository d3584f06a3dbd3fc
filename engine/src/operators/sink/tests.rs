use std::sync::Mutex;

use super::*;
use crate::operators::test_bench::{batch, rows_text};
use crate::types::{Field, LogicalType, Schema};

/// A sink whose committables are the rows themselves.
#[derive(Default)]
struct MemorySink {
    log: Arc<Mutex<Vec<String>>>,
}

struct MemoryWriter {
    rows: Vec<String>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Sink for MemorySink {
    fn writer(&self, _: Subtask) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(MemoryWriter {
            rows: Vec::new(),
            log: self.log.clone(),
        }))
    }

    fn commit(&self, committables: &[Committable]) -> Result<()> {
        let rows = committables.iter().map(|c| format!("commit {}", c.0));
        self.log.lock().unwrap().extend(rows);
        Ok(())
    }
}

impl SinkWriter for MemoryWriter {
    fn write(&mut self, batch: &ChangelogBatch) -> Result<()> {
        self.rows.extend(rows_text(&batch.rows));
        Ok(())
    }

    fn prepare_commit(&mut self, _: CheckpointId) -> Result<Vec<Committable>> {
        Ok(self
            .rows
            .drain(..)
            .map(|row| Committable(row.into()))
            .collect())
    }

    fn discard_uncommitted(&mut self) -> Result<()> {
        self.log.lock().unwrap().push("discard".to_string());
        Ok(())
    }
}

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("id", LogicalType::INT),
        Field::new("name", LogicalType::STRING),
    ])
}

struct Bench {
    sink: SinkOperator,
    ctx: Context,
    log: Arc<Mutex<Vec<String>>>,
}

fn bench(enforcer: NotNullEnforcer) -> Bench {
    let sink = MemorySink::default();
    let log = sink.log.clone();
    let spec = SinkSpec {
        not_null: vec![(1, "name".to_string())],
        not_null_enforcer: enforcer,
        ..SinkSpec::AS_THEY_ARE
    };
    Bench {
        sink: SinkOperator::new(Arc::new(sink), Subtask::SINGLE, spec).unwrap(),
        ctx: Context::new(Subtask::SINGLE, Default::default()),
        log,
    }
}

impl Bench {
    fn write(&mut self, rows: &str) -> Result<()> {
        let (batch, mut out) = (batch(&schema(), rows), Output::new(false));
        let flow = self
            .sink
            .process_batch(&mut self.ctx, InputIndex::FIRST, batch, &mut out)?;
        assert_eq!(flow, Flow::Done);
        Ok(())
    }

    fn complete(&mut self, checkpoint: u64) {
        self.sink
            .notify_checkpoint_complete(&mut self.ctx, CheckpointId(checkpoint))
            .unwrap()
    }

    fn checkpoint(&mut self, checkpoint: u64) -> StateSnapshot {
        self.sink
            .snapshot_state(&mut self.ctx, CheckpointId(checkpoint))
            .unwrap()
    }

    fn log(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

#[test]
fn rows_are_committed_with_their_checkpoint_and_the_rest_at_the_end() {
    let mut bench = bench(NotNullEnforcer::Error);
    bench.write("+I 1, a").unwrap();
    bench.checkpoint(1);
    bench.write("+I 2, b").unwrap();
    bench.checkpoint(2);
    bench.write("+I 3, c").unwrap();
    assert!(bench.log().is_empty(), "nothing is visible before");
    bench.complete(1);
    assert_eq!(bench.log(), ["commit \"1, a\""]);
    let flow = bench.sink.finish(&mut bench.ctx, &mut Output::new(false));
    assert_eq!(flow.unwrap(), Flow::Done);
    assert!(bench.log().is_empty(), "the job may still fail");
    bench.complete(u64::MAX);
    assert_eq!(bench.log(), ["commit \"2, b\"", "commit \"3, c\""]);
}

#[test]
fn a_restore_commits_what_the_snapshot_holds_then_drops_the_rest() {
    let mut first = bench(NotNullEnforcer::Error);
    first.write("+I 1, a").unwrap();
    first.checkpoint(1);
    first.write("+I 2, b").unwrap();
    let snapshot = first.checkpoint(2);
    first.write("+I 3, lost").unwrap();

    let mut second = bench(NotNullEnforcer::Error);
    second
        .sink
        .restore_state(&mut second.ctx, snapshot)
        .unwrap();
    assert_eq!(
        second.log(),
        ["commit \"1, a\"", "commit \"2, b\"", "discard"]
    );
    second.complete(3);
    assert!(second.log().is_empty());
}

#[test]
fn a_null_in_a_not_null_column_fails_or_is_dropped() {
    let rows = "+I 1, a\n+I 2, null\n+I null, c";
    let error = bench(NotNullEnforcer::Error).write(rows).unwrap_err();
    assert_eq!(
        error.message(),
        "column \"name\" of the sink is NOT NULL, but a null value came in the row (id=2, name=NULL)"
    );
    let mut dropping = bench(NotNullEnforcer::Drop);
    dropping.write(rows).unwrap();
    dropping.checkpoint(1);
    dropping.complete(1);
    assert_eq!(dropping.log(), ["commit \"1, a\"", "commit \"null, c\""]);
}

#[test]
fn a_delete_by_key_may_have_nulls() {
    let mut bench = bench(NotNullEnforcer::Error);
    bench.sink.spec.deletes_by_key = true;
    bench.write("+I 1, a\n-D 1, null").unwrap();
    assert!(bench.write("+U 1, null").is_err());
}

#[test]
fn a_sink_of_updates_by_key_sees_no_old_rows() {
    let rows = "
        +I 1, a
        -U 1, a
        +U 1, b
        -U 1, b      // the new row was filtered out
        -U 2, x
        -U 3, y
        +U 3, z
        +U 2, y
        -D 3, z
    ";
    let by_key = by_key::updates_by_key(batch(&schema(), rows), &[0]).unwrap();
    let kinds = (0..by_key.num_rows()).map(|row| by_key.kinds.get(row));
    let lines: Vec<String> = std::iter::zip(kinds, rows_text(&by_key.rows))
        .map(|(kind, row)| format!("{kind} {row}"))
        .collect();
    let expected = [
        "+I 1, a", "+U 1, b", "-D 1, b", "-D 2, x", "+U 3, z", "+U 2, y", "-D 3, z",
    ];
    assert_eq!(lines, expected);
}
