use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use arrow::array::AsArray;
use arrow::datatypes::Int32Type;

use super::*;
use crate::connectors::lookup::{KeyIndex, answered};
use crate::connectors::{LookupHandle, LookupRequest};
use crate::operators::Subtask;
use crate::operators::lookup_join::{LookupKeyValue, lookup_state_schema};
use crate::operators::test_bench::{StreamText, batch, check};
use crate::stream::WatermarkStep;
use crate::types::{Field, JoinKind, LogicalType, Schema};

fn left() -> Schema {
    Schema::new(vec![
        Field::new("l", LogicalType::INT),
        Field::new("k", LogicalType::INT),
    ])
}

fn table() -> Schema {
    Schema::new(vec![
        Field::new("k", LogicalType::INT),
        Field::new("v", LogicalType::STRING),
    ])
}

fn spec() -> LookupJoinSpec {
    LookupJoinSpec {
        kind: JoinKind::Left,
        keys: vec![LookupKeyValue::Column(1)],
        condition: None,
        output: left().join(&table().project(&[1])),
    }
}

fn index() -> KeyIndex {
    let rows = batch(&table(), "+I 1, one\n+I 2, two\n+I 2, zwei\n+I 3, three");
    KeyIndex::new(&rows.rows, &[0], &[1]).unwrap()
}

/// A table that has its keys only from some time on: key `k` from `k * 1000`.
struct Growing(KeyIndex);

impl Growing {
    fn answer(&self, request: &LookupRequest) -> Result<LookupRows> {
        let keys = request.keys[0].as_primitive::<Int32Type>();
        let now = request.now.millis();
        let known = |key: i32| now >= i64::from(key) * 1000;
        let keys = keys.unary(|key| if known(key) { key } else { -1 });
        let keys: arrow::array::PrimitiveArray<Int32Type> = keys;
        self.0.lookup(&[Arc::new(keys)])
    }
}

impl LookupFunction for Growing {
    fn lookup(&mut self, request: &LookupRequest) -> Result<LookupRows> {
        self.answer(request)
    }
}

impl AsyncLookupFunction for Growing {
    fn start(&mut self, request: &LookupRequest) -> Result<Box<dyn LookupHandle>> {
        Ok(answered(self.answer(request)?))
    }
}

const RETRY: LookupRetrySpec = LookupRetrySpec {
    fixed_delay_ms: 1000,
    max_attempts: 2,
};

fn growing(side_by_side: Option<bool>) -> QueuedLookupJoinOperator {
    let asking = match side_by_side {
        None => LookupAsking::InTurn(Box::new(Growing(index()))),
        Some(unordered) => LookupAsking::SideBySide(
            Box::new(Growing(index())),
            AsyncLookupSpec {
                unordered,
                capacity: 2,
                timeout_ms: 60_000,
            },
        ),
    };
    QueuedLookupJoinOperator::new(spec(), "d".to_string(), asking, Some(RETRY))
}

const LATE: &str = "
    -- clock 500
    +I 10, 1
    +I 11, 3
    +I 12, null
    -- watermark 5
    +I 13, 0
    -- clock 1500
    -- clock 2500
    -- clock 3500
    +I 14, 3
    -- end
";

#[test]
fn asked_in_turn_a_row_holds_up_all_behind_it() {
    check(
        || growing(None),
        &[&left()],
        LATE,
        "
            +I 10, 1, one       // at 1500, after one retry
            +I 11, 3, three     // asked for first at 1500, at 3500 for the last time
            +I 12, null, null
            -- watermark 5
            +I 13, 0, null      // asked for once more at the end
            +I 14, 3, three
            -- watermark end
        ",
    );
}

#[test]
fn side_by_side_in_order_each_has_its_own_delay() {
    check(
        || growing(Some(false)),
        &[&left()],
        LATE,
        "
            +I 10, 1, one
            +I 11, 3, null      // for the last time at 2500
            +I 12, null, null
            -- watermark 5
            +I 13, 0, null
            +I 14, 3, three
            -- watermark end
        ",
    );
}

#[test]
fn without_order_rows_overtake_those_that_wait_but_no_watermark() {
    check(
        || growing(Some(true)),
        &[&left()],
        LATE,
        "
            +I 12, null, null
            +I 10, 1, one
            +I 11, 3, null
            -- watermark 5
            +I 13, 0, null
            +I 14, 3, three
            -- watermark end
        ",
    );
}

/// The keys of a question, and who waits for the answer.
type Open = (Vec<i32>, Option<Sender<Result<LookupRows>>>);

/// A table that answers when the test says so.
#[derive(Clone, Default)]
struct OnCommand {
    open: Arc<Mutex<Vec<Open>>>,
}

struct Waiting(Receiver<Result<LookupRows>>, AtomicBool);

impl LookupHandle for Waiting {
    fn poll(&mut self) -> Option<Result<LookupRows>> {
        let answer = self.0.try_recv().ok()?;
        assert!(
            !self.1.swap(true, Ordering::Relaxed),
            "an answer is given once"
        );
        Some(answer)
    }

    fn wait(self: Box<Self>) -> Result<LookupRows> {
        panic!("nobody waits")
    }
}

impl AsyncLookupFunction for OnCommand {
    fn start(&mut self, request: &LookupRequest) -> Result<Box<dyn LookupHandle>> {
        let keys = request.keys[0]
            .as_primitive::<Int32Type>()
            .values()
            .to_vec();
        let (sender, receiver) = channel();
        self.open.lock().unwrap().push((keys, Some(sender)));
        Ok(Box::new(Waiting(receiver, AtomicBool::new(false))))
    }
}

impl OnCommand {
    /// What has been asked so far.
    fn asked(&self) -> Vec<Vec<i32>> {
        let open = self.open.lock().unwrap();
        open.iter().map(|(keys, _)| keys.clone()).collect()
    }

    fn answer(&self, question: usize) {
        let (keys, sender) = &mut self.open.lock().unwrap()[question];
        let keys = arrow::array::Int32Array::from(keys.clone());
        let rows = index().lookup(&[Arc::new(keys)]);
        sender.take().unwrap().send(rows).unwrap();
    }
}

struct Run {
    function: OnCommand,
    operator: QueuedLookupJoinOperator,
    ctx: Context,
    out: Output,
    text: StreamText,
}

impl Run {
    fn new(unordered: bool) -> Self {
        let function = OnCommand::default();
        let asking = LookupAsking::SideBySide(
            Box::new(function.clone()),
            AsyncLookupSpec {
                unordered,
                capacity: 2,
                timeout_ms: 100,
            },
        );
        Run {
            function,
            operator: QueuedLookupJoinOperator::new(spec(), "d".to_string(), asking, None),
            ctx: Context::new(Subtask::SINGLE, Default::default()),
            out: Output::new(false),
            text: StreamText::default(),
        }
    }

    fn rows(&mut self, batch: ChangelogBatch) -> Flow {
        let (ctx, out) = (&mut self.ctx, &mut self.out);
        let flow = self
            .operator
            .process_batch(ctx, InputIndex::FIRST, batch, out);
        self.take();
        flow.unwrap()
    }

    fn watermark(&mut self, watermark: i64) {
        self.ctx.advance_watermark(EventTime(watermark));
        let (ctx, out) = (&mut self.ctx, &mut self.out);
        let flow = self
            .operator
            .process_watermark(ctx, EventTime(watermark), out);
        assert_eq!(flow.unwrap(), Flow::Done);
        self.take();
    }

    /// Another look after a millisecond.
    fn look(&mut self) -> Flow {
        let next = after(self.ctx.processing_time(), POLL_MS as u64);
        assert_eq!(self.operator.next_processing_timer(), Some(next));
        self.ctx.set_processing_time(next);
        let flow = self.operator.resume(&mut self.ctx, &mut self.out).unwrap();
        self.take();
        flow
    }

    fn take(&mut self) {
        while let Some(element) = self.out.pop() {
            self.text.element(element);
        }
    }
}

#[test]
fn no_more_rows_wait_for_an_answer_than_the_capacity() {
    let mut run = Run::new(false);
    let flow = run.rows(batch(&left(), "+I 1, 1\n+I 2, 2\n+I 3, 3"));
    assert_eq!(flow, Flow::Waiting);
    assert_eq!(run.function.asked(), [vec![1, 2]]);
    assert_eq!(run.look(), Flow::Waiting);
    run.function.answer(0);
    assert_eq!(run.look(), Flow::Done);
    assert_eq!(run.function.asked(), [vec![1, 2], vec![3]]);
    run.watermark(7);
    let flow = run.operator.finish(&mut run.ctx, &mut run.out).unwrap();
    assert_eq!(flow, Flow::Waiting, "the end waits for all answers");
    run.function.answer(1);
    assert_eq!(run.look(), Flow::Done);
    assert_eq!(run.operator.next_processing_timer(), None);
    let expected = [
        "+I 1, 1, one",
        "+I 2, 2, two",
        "+I 2, 2, zwei",
        "+I 3, 3, three",
        "-- watermark 7",
    ];
    assert_eq!(run.text.lines, expected);
}

#[test]
fn answers_come_out_of_order_only_where_it_is_allowed_and_not_across_watermarks() {
    for (unordered, before) in [
        (false, vec![]),
        (true, vec!["+I 2, 2, two", "+I 2, 2, zwei"]),
    ] {
        let mut run = Run::new(unordered);
        assert_eq!(run.rows(batch(&left(), "+I 1, 1")), Flow::Done);
        assert_eq!(run.rows(batch(&left(), "+I 2, 2")), Flow::Done);
        run.watermark(3);
        run.function.answer(1);
        assert_eq!(run.look(), Flow::Done);
        assert_eq!(run.text.lines, before);
        assert_eq!(run.rows(batch(&left(), "+I 3, 3")), Flow::Done);
        run.function.answer(2);
        assert_eq!(run.look(), Flow::Done);
        assert_eq!(run.text.lines, before, "behind the watermark");
        run.function.answer(0);
        assert_eq!(run.look(), Flow::Done);
        let last = ["+I 3, 3, three"];
        assert!(run.text.lines.ends_with(&last.map(String::from)));
        assert_eq!(run.text.lines.len(), 5);
        assert_eq!(run.text.lines[3], "-- watermark 3");
    }
}

#[test]
fn rows_that_wait_are_asked_for_again_after_a_restore_and_watermarks_keep_their_places() {
    for unordered in [false, true] {
        let mut run = Run::new(unordered);
        let mut rows = batch(&left(), "+I 1, 1\n+I 2, 2");
        let step = WatermarkStep {
            row: 1,
            watermark: EventTime(4),
        };
        rows.steps.push(step);
        assert_eq!(run.rows(rows), Flow::Done);
        run.watermark(5);
        let snapshot = run.operator.snapshot_state(&mut run.ctx, CheckpointId(1));
        let snapshot = snapshot.unwrap();
        let [(asking, columns), _] = lookup_state_schema(&left(), &spec().output)
            .try_into()
            .unwrap();
        assert_eq!(snapshot.batches(&asking)[0].schema(), columns);
        let groups = Subtask::SINGLE.key_groups();
        let mut again = Run::new(unordered);
        again.ctx.advance_watermark(EventTime(5));
        let mine = snapshot.for_key_groups(groups, 128).unwrap();
        again.operator.restore_state(&mut again.ctx, mine).unwrap();
        assert!(again.operator.next_processing_timer() <= Some(ProcessingTime(0)));
        let (ctx, out) = (&mut again.ctx, &mut again.out);
        assert_eq!(
            again.operator.on_processing_time(ctx, out).unwrap(),
            Flow::Done
        );
        (0..again.function.asked().len()).for_each(|question| again.function.answer(question));
        assert_eq!(again.look(), Flow::Done);
        let expected = [
            "+I 1, 1, one",
            "-- watermark 4",
            "+I 2, 2, two",
            "+I 2, 2, zwei",
            "-- watermark 5",
        ];
        assert_eq!(again.text.lines, expected, "unordered: {unordered}");
    }
}

#[test]
fn a_row_without_an_answer_fails_the_job_in_time() {
    let mut run = Run::new(false);
    assert_eq!(run.rows(batch(&left(), "+I 1, 1")), Flow::Done);
    run.ctx.set_processing_time(ProcessingTime(100));
    let result = run.operator.on_processing_time(&mut run.ctx, &mut run.out);
    let message = result.unwrap_err().to_string();
    assert!(message.contains("table \"d\""), "{message}");
}
