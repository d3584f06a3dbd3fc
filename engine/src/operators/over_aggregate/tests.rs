use super::*;
use crate::operators::test_bench::{Way, check, run};
use crate::types::{Field, LogicalType, TypeRoot};

fn input() -> Schema {
    Schema::new(vec![
        Field::new("k", LogicalType::STRING),
        Field::new("v", LogicalType::INT),
        Field::new("ts", LogicalType::nullable(TypeRoot::Timestamp(3))),
    ])
}

fn call(function: &str, distinct: bool) -> AggregateCall {
    let bigint = || LogicalType::not_null(TypeRoot::BigInt);
    let (arguments, logical_type) = match function {
        "COUNT(*)" | "ROW_NUMBER" | "RANK" | "DENSE_RANK" => (vec![], bigint()),
        "COUNT" => (vec![1], bigint()),
        _ => (vec![1], LogicalType::INT),
    };
    AggregateCall {
        function: function.trim_end_matches("(*)").to_string(),
        argument_types: vec![LogicalType::INT; arguments.len()],
        arguments,
        distinct,
        filter: None,
        logical_type,
        name: function.to_lowercase(),
    }
}

fn spec(frame: OverFrame, event_time: bool, calls: Vec<AggregateCall>) -> OverAggregateSpec {
    let input = input();
    let mut output = input.clone();
    let results = calls.iter();
    output
        .fields
        .extend(results.map(|call| Field::new(&call.name, call.logical_type.clone())));
    OverAggregateSpec {
        input,
        output,
        partition_by: vec![0],
        time_column: event_time.then_some(2),
        frame,
        calls,
        time_to_live: TimeToLive::NEVER,
    }
}

fn check_sum(frame: OverFrame, stream: &str, expected: &str) {
    let spec = spec(frame, true, vec![call("SUM", false)]);
    let expected: Vec<String> = expected
        .lines()
        .map(|line| line.trim().to_string())
        .collect();
    for way in Way::ALL {
        let make = || OverAggregateOperator::new(spec.clone()).unwrap();
        let actual = run(&make, &[&input()], stream, way);
        assert_eq!(rows_alone(&actual), rows_alone(&expected), "{way:?}");
    }
}

const STREAM: &str = "
    +I a, 1, 10
    +I a, 2, 10
    +I b, 5, 11
    +I a, 4, 8
    -- watermark 9
    +I a, 9, 9      // late but for a bounded frame, whose last row was 8
    +I a, 16, 12
    -- watermark 11
    +I b, 7, 11     // late
    -- end
";

#[test]
fn rows_of_one_time_count_for_each_other_in_a_range() {
    check_sum(
        OverFrame::Range(None),
        STREAM,
        "
            +I a, 4, 8, 4
            -- watermark 9
            +I a, 1, 10, 7
            +I a, 2, 10, 7
            +I b, 5, 11, 5
            -- watermark 11
            +I a, 16, 12, 23
            -- watermark end
            late a, 9, 9
            late b, 7, 11
        ",
    );
}

#[test]
fn rows_that_leave_a_frame_are_taken_off() {
    check_sum(
        OverFrame::Rows(Some(1)),
        STREAM,
        "
            +I a, 4, 8, 4
            -- watermark 9
            +I a, 9, 9, 13
            +I a, 1, 10, 10
            +I a, 2, 10, 3
            +I b, 5, 11, 5
            -- watermark 11
            +I a, 16, 12, 18
            -- watermark end
            late b, 7, 11
        ",
    );
}

#[test]
fn the_bound_of_a_range_is_inside() {
    check_sum(
        OverFrame::Range(Some(2)),
        STREAM,
        "
            +I a, 4, 8, 4
            -- watermark 9
            +I a, 9, 9, 13
            +I a, 1, 10, 16
            +I a, 2, 10, 16
            +I b, 5, 11, 5
            -- watermark 11
            +I a, 16, 12, 19
            -- watermark end
            late b, 7, 11
        ",
    );
}

#[test]
fn a_key_is_forgotten_half_a_range_after_its_last_row_left() {
    check_sum(
        OverFrame::Range(Some(4)),
        "
            +I a, 1, 10
            -- watermark 16     // a range of 4 and half of it behind 10, and 1, is 17
            +I a, 2, 9          // late
            -- watermark 17
            +I a, 4, 9          // forgotten
            -- watermark 18
        ",
        "
            +I a, 1, 10, 1
            -- watermark 17
            +I a, 4, 9, 4
            -- watermark 18
            late a, 2, 9
        ",
    );
}

#[test]
fn processing_time_does_not_wait() {
    let spec = spec(
        OverFrame::Range(Some(1000)),
        false,
        vec![call("SUM", false)],
    );
    check(
        || OverAggregateOperator::new(spec.clone()).unwrap(),
        &[&input()],
        "
            -- clock 5000
            +I a, 1, 0
            +I a, 2, 0
            -- clock 6000
            +I a, 4, 0
            -- clock 6001
            +I a, 8, 0
        ",
        "
            +I a, 1, 0, 1
            +I a, 2, 0, 3
            +I a, 4, 0, 7
            +I a, 8, 0, 12
        ",
    );
}

/// A small generator of numbers from a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Row(u64, Option<i64>, i64),
    Watermark(i64),
}

fn random_stream(seed: u64) -> Vec<Event> {
    let mut chance = Chance(seed);
    let (mut now, mut watermark) = (20i64, i64::MIN);
    let mut events = Vec::new();
    for _ in 0..60 {
        now += chance.below(4) as i64;
        let time = now - chance.below(12) as i64;
        let value = (chance.below(5) > 0).then(|| chance.below(9) as i64);
        events.push(Event::Row(chance.below(3), value, time));
        let next = now - 4 - chance.below(5) as i64;
        if chance.below(2) == 0 && next > watermark {
            watermark = next;
            events.push(Event::Watermark(watermark));
        }
    }
    events.push(Event::Watermark(1000));
    events
}

fn text(events: &[Event]) -> String {
    let lines = events.iter().map(|event| match event {
        Event::Row(key, value, time) => {
            let value = value.map_or("null".to_string(), |value| value.to_string());
            format!("+I k{key}, {value}, {time}\n")
        }
        Event::Watermark(watermark) => format!("-- watermark {watermark}\n"),
    });
    lines.collect()
}

/// The slow twin: a list of rows for each key, looked through for every result.
struct Twin {
    frame: OverFrame,
    waiting: Vec<(i64, usize, u64, Option<i64>)>,
    released: Vec<Vec<(i64, Option<i64>)>>,
    last: Vec<i64>,
    plan: Vec<Option<i64>>,
    superseded: Vec<(i64, usize)>,
    lines: Vec<String>,
    late: Vec<String>,
    watermark: i64,
}

impl Twin {
    fn run(frame: OverFrame, events: &[Event], functions: &[&str]) -> Vec<String> {
        let mut twin = Twin {
            frame,
            waiting: vec![],
            released: vec![vec![]; 3],
            last: vec![0; 3],
            plan: vec![None; 3],
            superseded: vec![],
            lines: vec![],
            late: vec![],
            watermark: i64::MIN,
        };
        for (arrival, event) in events.iter().enumerate() {
            match *event {
                Event::Row(key, value, time) => twin.row(arrival, key, value, time),
                Event::Watermark(watermark) => twin.fire(watermark, functions),
            }
        }
        twin.lines.append(&mut twin.late);
        twin.lines
    }

    fn row(&mut self, arrival: usize, key: u64, value: Option<i64>, time: i64) {
        let k = key as usize;
        if let Some(plan) = self.plan[k].filter(|plan| *plan <= self.watermark) {
            self.last[k] = if time > self.watermark {
                self.last[k].max(plan)
            } else {
                0
            };
            self.plan[k] = None;
        }
        let limit = match self.frame.kind() {
            FrameKind::Unbounded => self.watermark,
            FrameKind::Bounded => self.last[k],
        };
        if time <= limit {
            let value = value.map_or("null".to_string(), |value| value.to_string());
            self.late.push(format!("late k{key}, {value}, {time}"));
            return;
        }
        self.waiting.push((time, arrival, key, value));
        self.plan(k, time);
    }

    fn plan(&mut self, k: usize, time: i64) {
        if let OverFrame::Range(Some(range)) = self.frame
            && self.plan[k].is_none_or(|plan| plan < time + range + 1)
        {
            self.superseded.extend(self.plan[k].map(|plan| (plan, k)));
            self.plan[k] = Some(time + range * 3 / 2 + 1);
        }
    }

    fn fire(&mut self, watermark: i64, functions: &[&str]) {
        self.watermark = watermark;
        let (mut due, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|row| row.0 <= watermark);
        self.waiting = rest;
        due.sort();
        let peers = matches!(self.frame, OverFrame::Range(_));
        for (index, (time, _, key, value)) in due.iter().enumerate() {
            let k = *key as usize;
            self.released[k].push((*time, *value));
            self.last[k] = self.last[k].max(*time);
            let mut seen = self.released[k].clone();
            if peers {
                let later = due[index + 1..].iter();
                seen.extend(
                    later
                        .filter(|row| row.0 == *time && row.2 == *key)
                        .map(|row| (row.0, row.3)),
                );
            }
            let framed: Vec<(i64, Option<i64>)> = match self.frame {
                OverFrame::Range(Some(range)) => seen
                    .into_iter()
                    .filter(|row| row.0 >= time - range)
                    .collect(),
                OverFrame::Rows(Some(rows)) => {
                    let first = seen.len().saturating_sub(rows as usize + 1);
                    seen[first..].to_vec()
                }
                _ => seen,
            };
            let results: Vec<String> = functions
                .iter()
                .map(|name| twin_result(name, &framed))
                .collect();
            let value = value.map_or("null".to_string(), |value| value.to_string());
            self.lines.push(format!(
                "+I k{key}, {value}, {time}, {}",
                results.join(", ")
            ));
        }
        for (plan, k) in std::mem::take(&mut self.superseded) {
            if plan <= watermark {
                self.last[k] = self.last[k].max(plan);
            } else {
                self.superseded.push((plan, k));
            }
        }
        for k in 0..3 {
            if self.plan[k].is_some_and(|plan| plan <= watermark) {
                self.released[k].clear();
            }
        }
        self.lines.pop_if(|last| last.starts_with("-- watermark"));
        self.lines.push(format!("-- watermark {watermark}"));
    }
}

fn twin_result(function: &str, rows: &[(i64, Option<i64>)]) -> String {
    let values: Vec<i64> = rows.iter().filter_map(|row| row.1).collect();
    let mut distinct = values.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let last_time = rows.last().map(|row| row.0);
    let number = match function {
        "COUNT(*)" | "ROW_NUMBER" => Some(rows.len() as i64),
        "COUNT" => Some(distinct.len() as i64),
        "SUM" => (!values.is_empty()).then(|| values.iter().sum()),
        "AVG" => (!values.is_empty()).then(|| values.iter().sum::<i64>() / values.len() as i64),
        "MIN" => distinct.first().copied(),
        "MAX" => distinct.last().copied(),
        "FIRST_VALUE" => values.first().copied(),
        "LAST_VALUE" => values.last().copied(),
        "LAG" => rows.len().checked_sub(2).and_then(|at| rows[at].1),
        "RANK" => Some(1 + rows.iter().filter(|row| Some(row.0) != last_time).count() as i64),
        "DENSE_RANK" => {
            let mut times: Vec<i64> = rows.iter().map(|row| row.0).collect();
            times.dedup();
            Some(times.len() as i64)
        }
        other => panic!("{other}"),
    };
    number.map_or("null".to_string(), |number| number.to_string())
}

#[test]
fn random_streams_agree_with_the_slow_twin() {
    const SLIDING: &[&str] = &[
        "SUM",
        "COUNT(*)",
        "COUNT",
        "AVG",
        "MIN",
        "MAX",
        "FIRST_VALUE",
        "LAST_VALUE",
    ];
    const RUNNING: &[&str] = &[
        "SUM",
        "COUNT(*)",
        "COUNT",
        "MIN",
        "FIRST_VALUE",
        "LAST_VALUE",
        "LAG",
        "ROW_NUMBER",
        "RANK",
        "DENSE_RANK",
    ];
    let frames = [
        (OverFrame::Rows(Some(0)), SLIDING),
        (OverFrame::Rows(Some(3)), SLIDING),
        (OverFrame::Range(Some(0)), SLIDING),
        (OverFrame::Range(Some(6)), SLIDING),
        (OverFrame::Rows(None), RUNNING),
        (OverFrame::Range(None), RUNNING),
    ];
    for seed in 1..40 {
        let events = random_stream(seed);
        let stream = text(&events);
        for (frame, functions) in frames {
            let expected = Twin::run(frame, &events, functions);
            let calls = functions.iter().map(|name| call(name, *name == "COUNT"));
            let spec = spec(frame, true, calls.collect());
            for way in Way::ALL {
                let make = || OverAggregateOperator::new(spec.clone()).unwrap();
                let actual = run(&make, &[&input()], &stream, way);
                assert_eq!(
                    rows_alone(&actual),
                    rows_alone(&expected),
                    "{way:?} {frame:?} seed {seed}\n{stream}"
                );
            }
        }
    }
}

/// Where a batch is not cut, watermarks between rows that do not need them are left out: rows and late rows alone are compared.
fn rows_alone(lines: &[String]) -> Vec<String> {
    let rows = lines
        .iter()
        .filter(|line| !line.is_empty() && !line.starts_with("--"));
    rows.cloned().collect()
}

#[test]
fn memory_follows_the_frame() {
    let mut calls = vec![call("COUNT", true), call("MAX", false)];
    calls.push(call("FIRST_VALUE", false));
    let spec = spec(OverFrame::Range(Some(100)), true, calls);
    let mut operator = OverAggregateOperator::new(spec).unwrap();
    let mut ctx = Context::new(crate::operators::Subtask::SINGLE, Default::default());
    let mut out = Output::new(false);
    let mut sizes = Vec::new();
    for round in 0..50i64 {
        let rows: String = (0..1000)
            .map(|row| {
                format!(
                    "+I k{}, {}, {}\n",
                    row % 7,
                    round * 1000 + row,
                    10 + round * 1000 + row
                )
            })
            .collect();
        let batch = crate::operators::test_bench::batch(&input(), &rows);
        let _ = operator
            .process_batch(&mut ctx, InputIndex::FIRST, batch, &mut out)
            .unwrap();
        let watermark = EventTime(round * 1000 + 1010);
        ctx.advance_watermark(watermark);
        let _ = operator
            .process_watermark(&mut ctx, watermark, &mut out)
            .unwrap();
        while out.pop().is_some() {}
        sizes.push(operator.state_bytes());
    }
    let most = sizes.iter().max().unwrap();
    assert!(*most < 2 * sizes[2], "{sizes:?}");
}

#[test]
fn keys_come_and_go() {
    use crate::operators::keyed_state::conformance::{Conformance, RandomRows, first_cell};
    use rand::Rng;
    let rows = || -> RandomRows {
        Box::new(|rng, _, time| {
            let key = ["a", "b", "c", "d", "null"][rng.random_range(0..5)];
            let value = ["1", "2", "3", "null"][rng.random_range(0..4)];
            let time = time + rng.random_range(-20..20);
            format!("+I {key}, {value}, {time}")
        })
    };
    let frames = [
        OverFrame::Rows(None),
        OverFrame::Range(None),
        OverFrame::Rows(Some(2)),
        OverFrame::Range(Some(8)),
        OverFrame::Range(Some(30)),
    ];
    let calls = ["SUM", "COUNT(*)", "MIN", "LAST_VALUE"];
    let mut seed = 0;
    for frame in frames {
        for (event_time, ttl_ms) in [(true, 0), (true, 100), (false, 0), (false, 100)] {
            let mut calls: Vec<AggregateCall> = calls.map(|name| call(name, false)).to_vec();
            calls.push(call("COUNT", true));
            let spec = OverAggregateSpec {
                time_to_live: TimeToLive::of_millis(ttl_ms),
                ..spec(frame, event_time, calls)
            };
            let suite = Conformance {
                name: &format!("OVER {frame:?}, event time: {event_time}, for {ttl_ms} ms"),
                inputs: &[&input()],
                rows: &rows,
                output_key: &first_cell,
                watermarks: event_time,
                clock: !event_time || ttl_ms > 0,
                bundles: false,
            };
            suite.check_seeds(seed..seed + 9, || {
                OverAggregateOperator::new(spec.clone()).unwrap()
            });
            let without_key = Conformance {
                output_key: &|_| String::new(),
                ..suite
            };
            without_key.check_seeds(seed..seed + 2, || {
                let spec = OverAggregateSpec {
                    partition_by: vec![],
                    ..spec.clone()
                };
                OverAggregateOperator::new(spec).unwrap()
            });
            seed += 9;
        }
    }
}

#[test]
fn numbers_of_keys_that_are_taken_out_are_given_back() {
    let calls = vec![call("SUM", false)];
    let spec = spec(OverFrame::Range(None), true, calls);
    let mut operator = OverAggregateOperator::new(spec).unwrap();
    let mut ctx = Context::new(crate::operators::Subtask::SINGLE, Default::default());
    let mut out = Output::new(false);
    for round in 0..20 {
        let rows: Vec<String> = (0..500)
            .map(|row| format!("+I {round}-{row}, 1, {}", round + 1))
            .collect();
        let batch = crate::operators::test_bench::batch(&input(), &rows.join("\n"));
        let flow = operator.process_batch(&mut ctx, InputIndex::FIRST, batch, &mut out);
        assert_eq!(flow.unwrap(), Flow::Done);
        let keys = operator.snapshot_keyed(&ctx).unwrap().key_hashes();
        operator
            .evict_keyed(&ctx, &keys.into_iter().collect())
            .unwrap();
    }
    assert!(operator.keys.len() < 1500);
    assert_eq!(operator.keys.here(), [0u32; 0]);
}
