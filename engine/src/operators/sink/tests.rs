use std::sync::Mutex;

use super::*;
use crate::connectors::Committable;
use crate::operators::test_bench::{batch, rows_text};
use crate::types::{Field, LogicalType, Schema};

/// A sink whose committables are the rows themselves.
#[derive(Default)]
struct MemorySink {
    log: Arc<Mutex<Vec<String>>>,
    /// What the next commits of a row fail with.
    failures: Arc<Mutex<Vec<Error>>>,
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
        for committable in committables {
            let mut failures = self.failures.lock().unwrap();
            match failures.pop() {
                Some(error) => return Err(error),
                None => self
                    .log
                    .lock()
                    .unwrap()
                    .push(format!("commit {}", committable.note)),
            }
        }
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
            .map(|row| Committable::new(row.into()))
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
    failures: Arc<Mutex<Vec<Error>>>,
}

fn bench(enforcer: NotNullEnforcer) -> Bench {
    let sink = MemorySink::default();
    let (log, failures) = (sink.log.clone(), sink.failures.clone());
    let spec = SinkSpec {
        not_null: vec![(1, "name".to_string())],
        not_null_enforcer: enforcer,
        commit_retries: 2,
        ..SinkSpec::AS_THEY_ARE
    };
    Bench {
        sink: SinkOperator::new(Arc::new(sink), Subtask::SINGLE, spec).unwrap(),
        ctx: Context::new(Subtask::SINGLE, Default::default()),
        log,
        failures,
    }
}

impl Bench {
    fn finish(&mut self) {
        let flow = self.sink.finish(&mut self.ctx, &mut Output::new(false));
        assert_eq!(flow.unwrap(), Flow::Done);
    }

    fn try_complete(&mut self, checkpoint: u64) -> Result<()> {
        self.sink
            .notify_checkpoint_complete(&mut self.ctx, CheckpointId(checkpoint))
    }

    fn fail(&self, error: Error, times: usize) {
        *self.failures.lock().unwrap() = vec![error; times];
    }

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
    bench.finish();
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
        ["commit \"1, a\"", "commit \"2, b\""],
        "another sink of the table may have something to commit"
    );
    second.sink.on_restored().unwrap();
    assert_eq!(second.log(), ["discard"]);
    second.complete(3);
    assert!(second.log().is_empty());
}

#[test]
fn a_task_that_has_ended_commits_with_the_first_checkpoint_that_holds_its_end() {
    let mut bench = bench(NotNullEnforcer::Error);
    bench.write("+I 1, a").unwrap();
    bench.checkpoint(4);
    bench.write("+I 2, b").unwrap();
    bench.finish();
    let end = bench.checkpoint(u64::MAX);
    bench.complete(4);
    assert_eq!(
        bench.log(),
        ["commit \"1, a\""],
        "the rest came behind the barrier"
    );
    bench.complete(7);
    assert_eq!(bench.log(), ["commit \"2, b\""]);
    bench.complete(u64::MAX);
    assert!(bench.log().is_empty());

    // Whoever goes on from there never gives a number twice.
    let mut next = self::bench(NotNullEnforcer::Error);
    next.sink.restore_state(&mut next.ctx, end).unwrap();
    assert_eq!(next.log().len(), 2);
    next.write("+I 3, c").unwrap();
    next.finish();
    assert_eq!(next.sink.prepared[0].checkpoint, CheckpointId(6));
}

#[test]
fn what_an_aborted_checkpoint_prepared_goes_out_with_the_next_one() {
    let mut bench = bench(NotNullEnforcer::Error);
    bench.write("+I 1, a").unwrap();
    bench.checkpoint(1);
    bench.write("+I 2, b").unwrap();
    let second = bench.checkpoint(2);
    bench.complete(2);
    assert_eq!(bench.log(), ["commit \"1, a\"", "commit \"2, b\""]);
    let mut restored = self::bench(NotNullEnforcer::Error);
    restored
        .sink
        .restore_state(&mut restored.ctx, second)
        .unwrap();
    assert_eq!(restored.log(), ["commit \"1, a\"", "commit \"2, b\""]);
}

#[test]
fn a_commit_that_fails_is_tried_again_with_the_next_checkpoints() {
    let mut bench = bench(NotNullEnforcer::Error);
    bench.write("+I 1, a\n+I 2, b").unwrap();
    bench.checkpoint(1);
    bench.fail(Error::external("the store is away"), 1);
    bench.complete(1);
    assert!(bench.log().is_empty());
    let warnings = bench.ctx.metrics().take_warnings();
    assert!(warnings[0].contains("checkpoint 1") && warnings[0].contains("the store is away"));
    bench.write("+I 3, c").unwrap();
    let second = bench.checkpoint(2);
    assert_eq!(
        second.batches(COMMITTABLES)[0].num_rows(),
        3,
        "it still owes the first"
    );
    bench.complete(2);
    assert_eq!(bench.log().len(), 3);
    // The count begins anew; behind the third failure in a row nothing is tolerated.
    bench.write("+I 4, d").unwrap();
    bench.checkpoint(3);
    bench.fail(Error::resource("disk full"), 9);
    bench.complete(3);
    bench.complete(4);
    let error = bench.try_complete(5).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("disk full") && text.contains("3 times in a row"),
        "{text}"
    );
    assert!(text.contains("restoring it commits the rest"), "{text}");
}

#[test]
fn a_commit_that_cannot_get_better_fails_at_once_as_does_the_last_one() {
    let mut bench = bench(NotNullEnforcer::Error);
    bench.write("+I 1, a").unwrap();
    bench.checkpoint(1);
    bench.fail(Error::internal("nonsense"), 1);
    assert!(bench.try_complete(1).is_err());
    bench.fail(Error::external("away"), 1);
    let error = bench.try_complete(u64::MAX).unwrap_err().to_string();
    assert!(error.contains("the end of the job"), "{error}");
    assert!(bench.log().is_empty());
}

#[test]
fn a_sink_that_owes_nothing_has_no_rows_in_a_checkpoint() {
    let mut bench = bench(NotNullEnforcer::Error);
    assert!(!bench.checkpoint(1).has_rows());
    bench.write("+I 1, a").unwrap();
    assert!(bench.checkpoint(2).has_rows());
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

mod broker;
