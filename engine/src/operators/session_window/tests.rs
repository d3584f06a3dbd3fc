use std::collections::BTreeMap;

use rand::Rng;
use rand::rngs::SmallRng;

use super::*;
use crate::operators::Operator;
use crate::operators::keyed_state::conformance::{Conformance, RandomRows, first_cell};
use crate::operators::window_aggregate::test_stream::*;
use crate::types::LogicalType;
use crate::window::{
    WindowAggregateSpec, WindowColumn, WindowInput, WindowKind, WindowSpec, WindowTime,
};

const GAP: i64 = 10;

fn window() -> WindowSpec {
    WindowSpec {
        kind: WindowKind::Session { gap_ms: GAP },
        offset_ms: 0,
        time: WindowTime::EventTimestamp,
    }
}

fn aggregate(insert_only: bool) -> Vec<Box<dyn Operator>> {
    let distinct = crate::functions::AggregateCall {
        distinct: true,
        ..call("COUNT", Some(1), LogicalType::BIGINT)
    };
    let spec = WindowAggregateSpec {
        window: window(),
        input: WindowInput::TimeColumn(TS),
        keys: vec![0],
        aggregates: vec![
            call("COUNT", None, LogicalType::BIGINT),
            call("SUM", Some(1), LogicalType::BIGINT),
            call("MAX", Some(1), LogicalType::BIGINT),
            distinct,
        ],
        window_columns: vec![WindowColumn::Start, WindowColumn::End],
    };
    vec![Box::new(
        SessionWindowAggregateOperator::new(spec, &schema(), insert_only).unwrap(),
    )]
}

fn table_function() -> Vec<Box<dyn Operator>> {
    vec![Box::new(
        SessionWindowTableFunctionOperator::new(window(), TS, vec![0], &schema()).unwrap(),
    )]
}

fn plain_times(outcome: Outcome) -> Outcome {
    let millis = |word: &str| match word.parse::<chrono::NaiveDateTime>() {
        Ok(time) => time.and_utc().timestamp_millis().to_string(),
        Err(_) => word.to_string(),
    };
    let lines = outcome.lines.iter().map(|line| {
        let words: Vec<String> = line.split(' ').map(millis).collect();
        words.join(" ")
    });
    Outcome {
        lines: lines.collect(),
        ..outcome
    }
}

fn run(operators: Vec<Box<dyn Operator>>, events: &[Event], size: usize) -> Outcome {
    let mut chain = Chain::new(operators);
    chain.feed(elements(events, size));
    plain_times(chain.finish())
}

fn check(input: &str, expected: &[&str], late: u64) {
    for size in [1, 2, 3, 1000] {
        let outcome = run(aggregate(true), &parse(input), size);
        assert_eq!(outcome.lines, expected, "batches of {size}");
        assert_eq!(
            (outcome.late, outcome.late_rows as u64),
            (late, late),
            "batches of {size}"
        );
    }
}

#[test]
fn rows_a_gap_apart_touch_and_join() {
    check(
        "
        +I a 1 0
        +I a 2 10
        +I a 4 31
        -- watermark 1000
        ",
        &["a 2 3 2 2 0 20", "a 1 4 4 1 31 41"],
        0,
    );
}

#[test]
fn a_session_that_ended_at_a_step_is_not_joined() {
    check(
        "
        +I a 1 0
        -- watermark 0
        +I b 1 10
        -- watermark 9      // [0,10) is over
        +I a 2 10
        -- watermark 1000
        ",
        &["a 1 1 1 1 0 10", "b 1 1 1 1 10 20", "a 1 2 2 1 10 20"],
        0,
    );
}

#[test]
fn a_row_late_by_itself_counts_in_an_open_session() {
    check(
        "
        +I a 1 0
        -- watermark -5
        +I a 2 9
        -- watermark 4
        +I a 4 18
        -- watermark 13
        +I a 8 2            // [2,12) is over, [0,28) is not
        +I b 16 2           // late
        -- watermark 1000
        ",
        &["a 4 15 8 4 0 28"],
        1,
    );
}

#[test]
fn among_late_rows_the_order_of_arrival_decides() {
    check(
        "
        -- watermark 100
        +I a 1 88           // over by itself, nothing open: late
        +I a 2 95           // [95,105)
        +I a 4 88           // joins it
        +I a 8 79           // joins [88,105)
        -- watermark 1000
        ",
        &["a 3 14 8 3 79 105"],
        1,
    );
}

#[test]
fn a_row_between_merges_its_neighbours() {
    check(
        "
        +I a 1 0
        +I a 2 18
        +I b 5 0
        -- watermark 3
        +I a 4 9
        -- watermark 1000
        ",
        &["b 1 5 5 1 0 10", "a 3 7 4 3 0 28"],
        0,
    );
}

#[test]
fn a_session_whose_rows_were_taken_back_is_not_emitted() {
    let events = parse("+I a 1 0\n+I b 7 5\n-D a 1 0\n-- watermark 1000");
    for size in [1, 10] {
        assert_eq!(
            run(aggregate(false), &events, size).lines,
            ["b 1 7 7 1 5 15"]
        );
    }
}

#[test]
fn the_function_alone_holds_rows_until_their_session_is_over() {
    let events = parse("+I a 1 0\n+I b 2 3\n+I a 3 9\n-- watermark 12\n+I a 4 30\n-- watermark 20");
    for size in [1, 10] {
        let lines = run(table_function(), &events, size).lines;
        let expected = [
            "b 2 b true 3 3 13 12",
            "a 1 a true 0 0 19 18",
            "a 3 a true 9 0 19 18",
        ];
        assert_eq!(lines, expected, "batches of {size}");
    }
}

/// Start, end and rows.
type OpenSession = (i64, i64, Vec<Row>);

/// One row at a time, the obvious way.
#[derive(Default)]
struct Twin {
    open: BTreeMap<Option<String>, Vec<OpenSession>>,
    aggregates: Vec<String>,
    rows: Vec<String>,
    late: u64,
    null_times: u64,
}

impl Twin {
    fn run(events: &[Event]) -> Twin {
        let mut twin = Twin::default();
        let mut watermark = i64::MIN;
        for event in events {
            match event {
                Event::Watermark(next) => {
                    watermark = *next;
                    twin.fire(watermark);
                }
                Event::Row(row) => twin.row(row, watermark),
            }
        }
        twin
    }

    fn row(&mut self, row: &Row, watermark: i64) {
        let Some(ts) = row.ts else {
            self.null_times += 1;
            return;
        };
        let (mut start, mut end) = (ts, ts + GAP);
        let sessions = self.open.entry(row.k.clone()).or_default();
        let mut rows = Vec::new();
        sessions.retain_mut(|(from, to, held)| {
            let touches = *from <= ts + GAP && *to >= ts;
            if touches {
                start = start.min(*from);
                end = end.max(*to);
                rows.append(held);
            }
            !touches
        });
        if end - 1 <= watermark {
            self.late += 1;
            return;
        }
        rows.push(row.clone());
        sessions.push((start, end, rows));
    }

    fn fire(&mut self, watermark: i64) {
        for (key, sessions) in &mut self.open {
            let key = key.as_deref().unwrap_or("-");
            sessions.retain(|(start, end, rows)| {
                if end - 1 > watermark {
                    return true;
                }
                let mut counts: BTreeMap<i64, i64> = BTreeMap::new();
                for (n, row) in rows.iter().filter_map(|row| Some((row.n?, row))) {
                    *counts.entry(n).or_default() += row.kind.weight();
                }
                let count: i64 = rows.iter().map(|row| row.kind.weight()).sum();
                let values: i64 = counts.values().sum();
                let show =
                    |value: Option<i64>| value.map_or("-".to_string(), |value| value.to_string());
                let sum = (values != 0).then(|| counts.iter().map(|(n, count)| n * count).sum());
                counts.retain(|_, count| *count > 0);
                let (sum, max) = (show(sum), show(counts.keys().max().copied()));
                if count > 0 {
                    self.aggregates.push(format!(
                        "{key} {count} {sum} {max} {} {start} {end}",
                        counts.len()
                    ));
                }
                for row in rows {
                    let s = row.s.as_deref().unwrap_or("-");
                    let f = row.f.map_or("-".to_string(), |f| f.to_string());
                    let ts = show(row.ts);
                    self.rows.push(format!(
                        "{key} {} {s} {f} {ts} {start} {end} {}",
                        show(row.n),
                        end - 1
                    ));
                }
                false
            });
        }
    }
}

#[test]
fn agrees_with_one_row_at_a_time() {
    for seed in 1..7 {
        for retract in [false, true] {
            let events = random_events(seed, 300, retract);
            let mut twin = Twin::run(&events);
            twin.aggregates.sort();
            twin.rows.sort();
            assert!(twin.aggregates.len() > 10);
            type Make<'a> = &'a dyn Fn() -> Vec<Box<dyn Operator>>;
            let operators: [(Make, &Vec<String>); 2] = [
                (&|| aggregate(!retract), &twin.aggregates),
                (&table_function, &twin.rows),
            ];
            for (fresh, expected) in operators {
                for size in [1, 5, 64, 1000] {
                    let place = format!("seed {seed}, batches of {size}, retract {retract}");
                    let mut outcome = run(fresh(), &events, size);
                    outcome.lines.sort();
                    assert_eq!(&outcome.lines, expected, "{place}");
                    assert_eq!(
                        (outcome.late, outcome.null_times),
                        (twin.late, twin.null_times),
                        "{place}"
                    );
                }
                let mut chain = Chain::new(fresh());
                for (number, element) in elements(&events, 7).into_iter().enumerate() {
                    chain.feed([element]);
                    if number % 5 == 0 {
                        let state = chain.snapshot();
                        chain.restore(fresh(), state);
                    }
                }
                let mut outcome = plain_times(chain.finish());
                outcome.lines.sort();
                assert_eq!(
                    &outcome.lines, expected,
                    "seed {seed}, restored, retract {retract}"
                );
            }
        }
    }
}

#[test]
fn closed_sessions_are_forgotten() {
    let mut text = String::new();
    for number in 0..5000 {
        text.push_str(&format!(
            "+I k{number} 1 {}\n-- watermark {}\n",
            number * 3,
            number * 3
        ));
    }
    let mut chain = Chain::new(aggregate(true));
    chain.feed(elements(&parse(&text), 1));
    let state = chain.snapshot();
    let open = state[0].0.batches("sessions")[0].num_rows();
    assert!((1..10).contains(&open), "{open}");
    assert_eq!(chain.finish().lines.len(), 5000 - open);
}

fn random_rows(takes_back: bool) -> impl Fn() -> RandomRows {
    move || {
        Box::new(move |rng: &mut SmallRng, _, time| {
            let time = time + rng.random_range(-25..10);
            let (key, value) = (rng.random_range(0..6), rng.random_range(0..5));
            let kind = if takes_back && rng.random_bool(0.3) {
                "-D"
            } else {
                "+I"
            };
            match key {
                0 => format!("{kind} null, {value}, null, true, {time}"),
                key => format!("{kind} k{key}, {value}, null, true, {time}"),
            }
        })
    }
}

fn conforms<O: Operator>(name: &str, takes_back: bool, window: &WindowSpec, make: impl Fn() -> O) {
    Conformance {
        name,
        inputs: &[&schema()],
        rows: &random_rows(takes_back),
        output_key: &first_cell,
        watermarks: true,
        clock: !window.time.is_event_time(),
        bundles: false,
    }
    .check(make);
}

fn both_clocks() -> [WindowSpec; 2] {
    let clock = WindowTime::Processing {
        time_zone: "UTC".to_string(),
    };
    let of_clock = WindowSpec {
        time: clock,
        ..window()
    };
    [window(), of_clock]
}

#[test]
fn sessions_end_for_the_keys_that_are_there() {
    for window in both_clocks() {
        for insert_only in [true, false] {
            let spec = WindowAggregateSpec {
                window: window.clone(),
                input: WindowInput::TimeColumn(TS),
                keys: vec![0],
                aggregates: vec![
                    call("COUNT", None, LogicalType::BIGINT),
                    call("SUM", Some(1), LogicalType::BIGINT),
                    call("LAST_VALUE", Some(1), LogicalType::BIGINT),
                ],
                window_columns: vec![WindowColumn::Start, WindowColumn::End],
            };
            conforms("sessions", !insert_only, &window, || {
                SessionWindowAggregateOperator::new(spec.clone(), &schema(), insert_only).unwrap()
            });
        }
    }
}

#[test]
fn rows_of_sessions_come_for_the_keys_that_are_there() {
    for window in both_clocks() {
        conforms("rows of sessions", true, &window, || {
            SessionWindowTableFunctionOperator::new(window.clone(), TS, vec![0], &schema()).unwrap()
        });
    }
}
