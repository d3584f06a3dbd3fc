use std::collections::VecDeque;
use std::time::Duration;

use super::*;
use crate::expr::{Expression, ExpressionContext, Literal, compile};
use crate::operators::Subtask;
use crate::operators::test_bench::{StreamText, batch};
use crate::types::{Field, LogicalType, Schema, TimeZone, TypeRoot};

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("id", LogicalType::INT),
        Field::new("ts", LogicalType::nullable(TypeRoot::Timestamp(3))),
    ])
}

/// A line of the script is one poll: `a: 1 10 | 2 20` rows of split a, `end a`, `idle a`, `wait 50` (the clock moves on).
/// The position of a split is the number of its rows that were read; rows before a restored position are left out.
struct ScriptReader {
    script: VecDeque<String>,
    read: BTreeMap<String, usize>,
    skip: BTreeMap<String, usize>,
}

impl SourceReader for ScriptReader {
    fn add_splits(&mut self, splits: Vec<SplitState>) -> Result<()> {
        for split in splits {
            let position = split.position.as_u64().unwrap() as usize;
            self.read.insert(split.id.clone(), position);
            self.skip.insert(split.id, position);
        }
        Ok(())
    }

    fn poll(&mut self, request: &PollRequest) -> Result<SourcePoll> {
        let Some(line) = self.script.pop_front() else {
            return Ok(SourcePoll::End);
        };
        if let Some(split) = line.strip_prefix("end ") {
            self.read.remove(split);
            return Ok(SourcePoll::SplitEnd(split.to_string()));
        }
        if let Some(split) = line.strip_prefix("idle ") {
            return Ok(SourcePoll::SplitIdle(split.to_string()));
        }
        if line.starts_with("wait ") {
            let until = Some(ProcessingTime(request.now.millis() + 1000));
            return Ok(SourcePoll::Pending { until });
        }
        let (split, rows) = line.split_once(": ").unwrap();
        let Some(read) = self.read.get_mut(split) else {
            return self.poll(request);
        };
        let rows: Vec<String> = rows
            .split(" | ")
            .map(|row| format!("+I {}", row.replace(' ', ", ")))
            .collect();
        let skipped = (*self.skip.get(split).unwrap_or(&0)).min(rows.len());
        if let Some(skip) = self.skip.get_mut(split) {
            *skip -= skipped;
        }
        let rows = &rows[skipped..];
        if rows.is_empty() {
            return self.poll(request);
        }
        *read += rows.len();
        let batch = batch(&schema(), &rows.join("\n"));
        Ok(SourcePoll::Rows {
            split: split.to_string(),
            rows: batch.rows,
            kinds: batch.kinds,
        })
    }

    fn snapshot(&self) -> Result<Vec<SplitState>> {
        Ok(self
            .read
            .iter()
            .map(|(id, read)| SplitState {
                id: id.clone(),
                position: serde_json::json!(read),
            })
            .collect())
    }
}

/// A source whose watermark is `ts - delay_ms`.
fn source(script: &str, delay_ms: i64, idle_timeout_ms: u64) -> SourceOperator {
    let script = script.lines().map(str::trim).filter(|l| !l.is_empty());
    let reader = ScriptReader {
        script: script.map(str::to_string).collect(),
        read: BTreeMap::new(),
        skip: BTreeMap::new(),
    };
    let time = LogicalType::nullable(TypeRoot::Timestamp(3));
    let expression = Expression::call(
        "-",
        vec![
            Expression::column(1, "ts", time.clone()),
            Expression::literal(
                Literal::Integer(delay_ms),
                LogicalType::not_null(TypeRoot::IntervalDayTime),
            ),
        ],
        time,
    );
    let context = ExpressionContext {
        time_zone: TimeZone::UTC,
    };
    let assigner = WatermarkAssignerSpec {
        time_column: 1,
        expression: compile(&expression, &context).unwrap(),
        table: "t".to_string(),
        column: "ts".to_string(),
        strategy: WatermarkStrategy {
            idle_timeout: Some(Duration::from_millis(idle_timeout_ms)),
            ..WatermarkStrategy::default()
        },
        keep_all_steps: false,
    };
    SourceOperator::new(Box::new(reader), None, Some(assigner))
}

fn unread(ids: &[&str]) -> Vec<SplitState> {
    ids.iter()
        .map(|id| SplitState {
            id: id.to_string(),
            position: serde_json::json!(0),
        })
        .collect()
}

fn context(index: usize, parallelism: usize) -> Context {
    let subtask = Subtask {
        index,
        parallelism,
        max_parallelism: 128,
    };
    Context::new(subtask, Default::default())
}

/// Polls `times` times, or until the end, with a clock that moves 10 ms a poll; the stream as text.
fn poll(source: &mut SourceOperator, times: usize) -> Result<Vec<String>> {
    let mut ctx = context(0, 1);
    let (mut out, mut text) = (Output::new(false), StreamText::default());
    for turn in 0..times {
        let request = PollRequest {
            max_rows: 100,
            max_bytes: 1 << 20,
            now: ProcessingTime(turn as i64 * 10),
        };
        let status = source.poll(&mut ctx, &request, &mut out)?;
        while let Some(element) = out.pop() {
            text.element(element);
        }
        if status == SourceStatus::Ended {
            break;
        }
    }
    Ok(text.lines)
}

fn check(source: &mut SourceOperator, expected: &str) {
    let actual = poll(source, 100).unwrap();
    let expected: Vec<&str> = expected
        .lines()
        .map(|line| line.split("//").next().unwrap().trim())
        .filter(|line| !line.is_empty())
        .collect();
    assert_eq!(actual.join("\n"), expected.join("\n"));
}

#[test]
fn a_late_row_has_the_watermark_before_it() {
    let mut source = source("a: 1 1000 | 2 2000 | 3 500\na: 4 3000", 100, 0);
    source.add_splits(unread(&["a"])).unwrap();
    check(
        &mut source,
        "
            +I 1, 1000
            +I 2, 2000
            -- watermark 1900     // a step of the batch, as row 3 feels it
            +I 3, 500
            +I 4, 3000
            -- watermark end
        ",
    );
}

#[test]
fn an_empty_split_neither_holds_back_for_ever_nor_ends_the_time_of_the_others() {
    let mut source = source("a: 1 1000\nend b\na: 2 2000\nend a", 0, 0);
    source.add_splits(unread(&["a", "b"])).unwrap();
    check(
        &mut source,
        "
            +I 1, 1000            // b holds back
            -- watermark 1000     // b has ended
            +I 2, 2000
            -- watermark end      // and not idle in between
        ",
    );
}

#[test]
fn splits_go_idle_by_word_of_the_reader_and_by_timeout() {
    let mut source = source(
        "idle b\na: 1 1000\nwait 1\nwait 1\nwait 1\nb: 2 500\na: 3 3000 ",
        0,
        25,
    );
    source.add_splits(unread(&["a", "b"])).unwrap();
    check(
        &mut source,
        "
            +I 1, 1000
            -- watermark 1000
            -- Idle
            -- Active
            +I 2, 500
            +I 3, 3000            // b holds back, but nothing goes back
            -- watermark end
        ",
    );
}

#[test]
fn a_reader_without_splits_is_idle_until_it_ends() {
    check(
        &mut source("wait 1", 0, 0),
        "
            -- Idle
            -- Active
            -- watermark end
        ",
    );
}

#[test]
fn a_null_event_time_names_the_row() {
    let mut source = source("a: 1 1000 | 2 2000\na: 3 3000 | 4 null", 0, 0);
    source.add_splits(unread(&["a"])).unwrap();
    let error = poll(&mut source, 100).unwrap_err();
    assert_eq!(error.kind(), crate::ErrorKind::Data);
    assert_eq!(
        error.message(),
        "rowtime column \"ts\" of table \"t\" is null in row 4 of split a"
    );
}

#[test]
fn the_next_poll_is_asked_for_when_a_split_would_go_idle() {
    let mut source = source("wait 1", 0, 25);
    source.add_splits(unread(&["a"])).unwrap();
    let request = PollRequest {
        max_rows: 1,
        max_bytes: 1,
        now: ProcessingTime(100),
    };
    let status = source.poll(&mut context(0, 1), &request, &mut Output::new(false));
    assert_eq!(
        status.unwrap(),
        SourceStatus::Pending(Some(ProcessingTime(125)))
    );
}

const SCRIPT: &str = "
    a: 1 1000 | 2 5000
    b: 3 4000
    a: 4 2000 | 5 6000
    b: 6 1000 | 7 9000
";

#[test]
fn after_a_restore_rows_go_on_and_time_does_not_go_back() {
    let mut whole = source(SCRIPT, 0, 0);
    whole.add_splits(unread(&["a", "b"])).unwrap();
    let expected = poll(&mut whole, 100).unwrap();
    for stop in 1..4 {
        let mut first = source(SCRIPT, 0, 0);
        first.add_splits(unread(&["a", "b"])).unwrap();
        let mut lines = poll(&mut first, stop).unwrap();
        let snapshot = first.snapshot_state(context(0, 1).subtask()).unwrap();
        let mut second = source(SCRIPT, 0, 0);
        second.restore_state(&mut context(0, 1), &snapshot).unwrap();
        lines.extend(poll(&mut second, 100).unwrap());
        assert_eq!(rows_with_time(&lines), rows_with_time(&expected));
    }
}

/// Each row with the watermark before it.
fn rows_with_time(lines: &[String]) -> Vec<(String, String)> {
    let mut watermark = String::new();
    let mut rows = Vec::new();
    for line in lines {
        match line.strip_prefix("-- ") {
            Some(time) => watermark = time.to_string(),
            None => rows.push((line.clone(), watermark.clone())),
        }
    }
    rows
}

#[test]
fn a_rescaled_restore_deals_every_split_once_and_keeps_the_watermark() {
    let mut snapshot = StateSnapshot::default();
    for (index, script, split) in [(0, "a: 1 1000", "a"), (1, "b: 2 3000", "b")] {
        let mut source = source(script, 0, 0);
        source.add_splits(unread(&[split])).unwrap();
        let request = PollRequest {
            max_rows: 1,
            max_bytes: 1,
            now: ProcessingTime(0),
        };
        let mut out = Output::new(false);
        let status = source.poll(&mut context(index, 2), &request, &mut out);
        assert_eq!(status.unwrap(), SourceStatus::Emitted);
        let subtask = context(index, 2).subtask();
        snapshot.merge(source.snapshot_state(subtask).unwrap());
    }
    let mut dealt = Vec::new();
    for index in 0..3 {
        let mut source = source("", 0, 0);
        source
            .restore_state(&mut context(index, 3), &snapshot)
            .unwrap();
        let watermark = source.watermarks.combined().millis();
        dealt.push((source.reader.snapshot().unwrap().len(), watermark));
    }
    assert_eq!(dealt, [(1, 1000), (1, 3000), (0, 1000)]);
}

/// Rows of a split that are on their way come before what is read of it then only from the same subtask.
#[test]
fn at_the_same_parallelism_splits_stay_where_they_are_also_where_an_instance_was_never_polled() {
    let mut snapshot = StateSnapshot::default();
    for (index, splits) in [(0, vec!["a", "b"]), (1, vec!["c", "d"])] {
        let mut source = source("", 0, 0);
        source.add_splits(unread(&splits)).unwrap();
        let subtask = context(index, 2).subtask();
        snapshot.merge(source.snapshot_state(subtask).unwrap());
    }
    for (index, splits) in [(0, ["a", "b"]), (1, ["c", "d"])] {
        let mut source = source("", 0, 0);
        let mut ctx = context(index, 2);
        source.restore_state(&mut ctx, &snapshot).unwrap();
        let read = source.reader.snapshot().unwrap();
        let read: Vec<&str> = read.iter().map(|split| split.id.as_str()).collect();
        assert_eq!(read, splits);
    }
}
