use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::Rng;
use rand::rngs::SmallRng;

use super::test_stream::*;
use super::*;
use crate::functions::AggregateCall;
use crate::operators::LocalWindowAggregateOperator;
use crate::operators::keyed_state::conformance::{Conformance, RandomRows};
use crate::state::HashMapStateBackend;
use crate::window::{WindowKind, WindowTime};

const TUMBLE: WindowKind = WindowKind::Tumble { size_ms: 10 };
const HOP: WindowKind = WindowKind::Hop {
    slide_ms: 5,
    size_ms: 10,
};
const CUMULATE: WindowKind = WindowKind::Cumulate {
    step_ms: 2,
    max_size_ms: 6,
};

fn spec(kind: WindowKind, aggregates: Vec<AggregateCall>) -> WindowAggregateSpec {
    WindowAggregateSpec {
        window: WindowSpec {
            kind,
            offset_ms: 0,
            time: WindowTime::EventTimestamp,
        },
        input: WindowInput::TimeColumn(TS),
        keys: vec![0],
        aggregates,
        window_columns: vec![WindowColumn::Start, WindowColumn::End, WindowColumn::Time],
    }
}

fn count_and_sum() -> Vec<AggregateCall> {
    vec![
        call("COUNT", None, LogicalType::BIGINT),
        call("SUM", Some(1), LogicalType::BIGINT),
    ]
}

fn one_phase(spec: &WindowAggregateSpec, insert_only: bool) -> Vec<Box<dyn Operator>> {
    let backend = Arc::new(HashMapStateBackend);
    let operator = WindowAggregateOperator::new(
        spec.clone(),
        &schema(),
        AggregatePhase::Single,
        insert_only,
        backend,
    );
    vec![Box::new(operator.unwrap())]
}

fn two_phases(spec: &WindowAggregateSpec, insert_only: bool) -> Vec<Box<dyn Operator>> {
    let backend = Arc::new(HashMapStateBackend);
    let local =
        LocalWindowAggregateOperator::new(spec.clone(), &schema(), insert_only, backend.clone());
    let between = local_output_schema(spec, &schema(), insert_only).unwrap();
    let global = WindowAggregateOperator::new(
        spec.clone(),
        &between,
        AggregatePhase::Global,
        insert_only,
        backend,
    );
    vec![Box::new(local.unwrap()), Box::new(global.unwrap())]
}

/// `1970-01-01T00:00:00.010` as `10`.
fn plain_times(outcome: Outcome) -> Outcome {
    let millis = |word: &str| -> String {
        match word.parse::<chrono::NaiveDateTime>() {
            Ok(time) => time.and_utc().timestamp_millis().to_string(),
            Err(_) => word.to_string(),
        }
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

/// Checks at several batch sizes and in both phases. `expected` has a line for each result; late rows are counted.
fn check(spec: &WindowAggregateSpec, input: &str, expected: &str, late: u64) {
    let expected: Vec<&str> = expected
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    for size in [1, 2, 3, 1000] {
        for (name, operators) in [
            ("one phase", one_phase(spec, true)),
            ("two phases", two_phases(spec, true)),
        ] {
            let outcome = run(operators, &parse(input), size);
            assert_eq!(outcome.lines, expected, "{name}, batches of {size}");
            assert_eq!(outcome.late, late, "{name}, batches of {size}");
            assert_eq!(outcome.late_rows as u64, late);
        }
    }
}

#[test]
fn a_window_fires_at_its_last_millisecond() {
    check(
        &spec(TUMBLE, count_and_sum()),
        "
        +I a 1 3
        -- watermark 8
        +I a 2 9
        -- watermark 9      // [0,10) fires
        +I a 4 12           // behind nothing
        +I a 8 9            // its window has fired: late
        +I a - 11
        -- watermark 100
        ",
        "
        a 2 3 0 10 9
        a 2 4 10 20 19
        ",
        1,
    );
}

#[test]
fn times_before_1970_are_floored() {
    check(
        &spec(WindowKind::Tumble { size_ms: 5 }, count_and_sum()),
        "
        +I a 1 -2
        +I a 2 -1
        +I a 4 0
        -- watermark 100
        ",
        "
        a 2 3 -5 0 -1
        a 1 4 0 5 4
        ",
        0,
    );
}

#[test]
fn a_hop_counts_a_row_in_the_windows_still_open() {
    check(
        &spec(HOP, count_and_sum()),
        "
        +I a 1 1
        -- watermark 1
        +I a 2 6
        -- watermark 6      // [-5,5) fires
        +I a 4 2            // not in [-5,5) any more, but in [0,10)
        +I a 8 16
        -- watermark 16     // fires all windows of slice [0,5)
        +I a 16 2           // late
        -- watermark 1000
        ",
        "
        a 1 1 -5 5 4
        a 3 7 0 10 9
        a 1 2 5 15 14
        a 1 8 10 20 19
        a 1 8 15 25 24
        ",
        1,
    );
}

#[test]
fn a_legacy_hop_with_gaps_drops_rows_in_gaps_without_counting_them() {
    let gaps = WindowKind::Hop {
        slide_ms: 10,
        size_ms: 5,
    };
    check(
        &spec(gaps, count_and_sum()),
        "
        +I a 1 1
        +I a 2 7
        +I a 4 12
        -- watermark 1000
        ",
        "
        a 1 1 0 5 4
        a 1 4 10 15 14
        ",
        0,
    );
}

#[test]
fn cumulate_repeats_unchanged_steps_and_skips_empty_prefixes() {
    check(
        &spec(CUMULATE, count_and_sum()),
        "
        +I a 4 3
        -- watermark 3      // nothing in [0,2); [0,4) fires
        +I a 2 1            // only in [0,6)
        +I b 1 7
        -- watermark 1000
        ",
        "
        a 1 4 0 4 3
        a 2 6 0 6 5
        b 1 1 6 8 7
        b 1 1 6 10 9
        b 1 1 6 12 11
        ",
        0,
    );
}

#[test]
fn rows_without_a_time_are_counted_and_dropped() {
    let outcome = run(
        one_phase(&spec(TUMBLE, count_and_sum()), true),
        &parse("+I a 1 -\n+I a 2 3\n-- watermark 50"),
        10,
    );
    assert_eq!(outcome.lines, ["a 1 2 0 10 9"]);
    assert_eq!((outcome.null_times, outcome.late), (1, 0));
}

#[test]
fn a_group_whose_rows_were_all_taken_back_is_not_emitted() {
    let events = parse(
        "
        +I a 1 3
        +I b 2 3
        -D a 1 3
        -- watermark 50
        ",
    );
    for operators in [
        one_phase(&spec(TUMBLE, count_and_sum()), false),
        two_phases(&spec(TUMBLE, count_and_sum()), false),
    ] {
        assert_eq!(run(operators, &events, 2).lines, ["b 1 2 0 10 9"]);
    }
}

#[test]
fn results_go_out_before_the_watermark_that_made_them() {
    let mut chain = Chain::new(one_phase(&spec(TUMBLE, count_and_sum()), true)).with_watermarks();
    chain.feed(elements(
        &parse("+I a 1 3\n-- watermark 9\n+I a 1 13\n-- watermark 15"),
        1,
    ));
    let lines = plain_times(chain.finish()).lines;
    assert_eq!(lines, ["a 1 1 0 10 9", "-- watermark 9", "-- watermark 15"]);
}

#[test]
fn windows_that_rows_bring_are_kept_apart_by_start_and_end() {
    let mut attached = spec(TUMBLE, count_and_sum());
    attached.input = WindowInput::Attached {
        window_start: 0,
        window_end: 1,
    };
    attached.keys = vec![];
    attached.aggregates = vec![call("COUNT", None, LogicalType::BIGINT)];
    let time = |name: &str| Field::new(name, LogicalType::nullable(TypeRoot::Timestamp(3)));
    let schema = Schema::new(vec![time("s"), time("e")]);
    let times =
        |values: Vec<i64>| -> ArrayRef { Arc::new(TimestampMillisecondArray::from(values)) };
    let rows = RecordBatch::try_new(
        schema.to_arrow(),
        vec![times(vec![0, 5, 0, 0]), times(vec![10, 10, 10, 4])],
    );
    let batch = ChangelogBatch::insert_only(rows.unwrap());
    let operator = WindowAggregateOperator::new(
        attached,
        &schema,
        AggregatePhase::Single,
        true,
        Arc::new(HashMapStateBackend),
    );
    let mut chain = Chain::new(vec![Box::new(operator.unwrap())]);
    chain.feed([
        crate::stream::StreamElement::Batch(batch),
        crate::stream::StreamElement::Watermark(EventTime(9)),
    ]);
    let lines = plain_times(chain.finish()).lines;
    assert_eq!(lines, ["1 0 4 3", "2 0 10 9", "1 5 10 9"]);
}

#[test]
fn processing_time_windows_fire_by_the_clock_and_not_at_the_end() {
    let mut spec = spec(TUMBLE, count_and_sum());
    spec.window.time = WindowTime::Processing {
        time_zone: "+00:00".to_string(),
    };
    let mut chain = Chain::new(one_phase(&spec, true));
    chain.set_processing_time(0, 3);
    chain.feed(elements(&parse("+I a 1 500\n+I a 2 -500"), 1));
    assert_eq!(
        chain.operators[0].0.next_processing_timer(),
        Some(ProcessingTime(9))
    );
    chain.set_processing_time(0, 12);
    chain.feed(elements(
        &parse("+I a 4 1\n-- watermark 9223372036854775807"),
        1,
    ));
    let outcome = chain.finish();
    assert_eq!(outcome.lines.len(), 1);
    assert!(
        outcome.lines[0].starts_with("a 2 3 "),
        "{:?}",
        outcome.lines
    );
    assert_eq!(outcome.late, 0);
}

#[test]
fn instants_are_cut_on_the_wall_clock_of_the_zone() {
    const HOUR: i64 = 3_600_000;
    let mut spec = spec(WindowKind::Tumble { size_ms: 4 * HOUR }, count_and_sum());
    spec.window.time = WindowTime::EventInstant {
        time_zone: "America/Los_Angeles".to_string(),
    };
    let times = [
        1_710_059_400_000i64,
        1_710_063_000_000,
        1_710_066_600_000,
        1_710_070_200_000,
    ];
    let mut text = String::new();
    for time in times {
        text.push_str(&format!("+I a 1 {time}\n-- watermark {time}\n"));
    }
    text.push_str("-- watermark 9223372036854775807");
    for size in [1, 10] {
        let lines = run(one_phase(&spec, true), &parse(&text), size).lines;
        let midnight = 1_710_028_800_000i64; // 2024-03-10 00:00 as wall clock
        let expected = |count: i64, from: i64, to: i64| {
            format!(
                "a {count} {count} {} {}",
                midnight + from * HOUR,
                midnight + to * HOUR
            )
        };
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with(&expected(3, 0, 4)), "{lines:?}");
        assert!(lines[1].starts_with(&expected(1, 4, 8)), "{lines:?}");
    }
}

/// All kinds of aggregates over the test columns.
fn many_aggregates() -> Vec<AggregateCall> {
    let filtered = |call: AggregateCall| AggregateCall {
        filter: Some(3),
        ..call
    };
    let distinct = |call: AggregateCall| AggregateCall {
        distinct: true,
        ..call
    };
    let n = |function: &str| call(function, Some(1), LogicalType::BIGINT);
    let s = |function: &str| call(function, Some(2), LogicalType::STRING);
    let two = AggregateCall {
        arguments: vec![1, 2],
        argument_types: vec![LogicalType::BIGINT, LogicalType::STRING],
        ..distinct(n("COUNT"))
    };
    vec![
        call("COUNT", None, LogicalType::BIGINT),
        filtered(call("COUNT", None, LogicalType::BIGINT)),
        n("COUNT"),
        n("SUM"),
        filtered(n("SUM")),
        n("AVG"),
        n("MIN"),
        n("MAX"),
        filtered(n("MAX")),
        s("MIN"),
        s("MAX"),
        distinct(n("COUNT")),
        filtered(distinct(n("COUNT"))),
        filtered(distinct(n("SUM"))),
        distinct(call("COUNT", Some(2), LogicalType::BIGINT)),
        distinct(n("MAX")),
        two,
    ]
}

/// One row at a time, the obvious way.
struct Twin {
    kind: WindowKind,
    watermark: i64,
    windows: BTreeMap<(i64, i64), BTreeMap<Option<String>, Vec<Row>>>,
    lines: Vec<String>,
    late: u64,
    null_times: u64,
}

impl Twin {
    fn run(kind: WindowKind, events: &[Event]) -> Outcome {
        let mut twin = Twin {
            kind,
            watermark: i64::MIN,
            windows: BTreeMap::new(),
            lines: Vec::new(),
            late: 0,
            null_times: 0,
        };
        for event in events {
            match event {
                Event::Row(row) => twin.row(row),
                Event::Watermark(watermark) => twin.fire(*watermark),
            }
        }
        Outcome {
            lines: twin.lines,
            late: twin.late,
            null_times: twin.null_times,
            late_rows: twin.late as usize,
        }
    }

    fn windows_of(&self, ts: i64) -> Vec<(i64, i64)> {
        let starts = |unit: i64| (ts - 500..=ts).filter(move |start| start.rem_euclid(unit) == 0);
        let windows: Vec<(i64, i64)> = match self.kind {
            WindowKind::Tumble { size_ms } => starts(size_ms)
                .map(|start| (start + size_ms, start))
                .collect(),
            WindowKind::Hop { slide_ms, size_ms } => starts(slide_ms)
                .map(|start| (start + size_ms, start))
                .collect(),
            WindowKind::Cumulate {
                step_ms,
                max_size_ms,
            } => starts(max_size_ms)
                .filter(|start| ts < start + max_size_ms)
                .flat_map(|start| {
                    (1..=max_size_ms / step_ms).map(move |n| (start + n * step_ms, start))
                })
                .collect(),
            WindowKind::Session { .. } => unreachable!(),
        };
        windows.into_iter().filter(|(end, _)| ts < *end).collect()
    }

    fn row(&mut self, row: &Row) {
        let Some(ts) = row.ts else {
            self.null_times += 1;
            return;
        };
        let windows = self.windows_of(ts);
        let open: Vec<_> = windows
            .iter()
            .filter(|(end, _)| *end - 1 > self.watermark)
            .collect();
        if open.is_empty() && !windows.is_empty() {
            self.late += 1;
        }
        for window in open {
            let groups = self.windows.entry(*window).or_default();
            groups.entry(row.k.clone()).or_default().push(row.clone());
        }
    }

    fn fire(&mut self, watermark: i64) {
        self.watermark = watermark;
        while let Some(entry) = self.windows.first_entry() {
            let (end, start) = *entry.key();
            if end - 1 > watermark {
                break;
            }
            for (key, rows) in entry.remove() {
                if let Some(results) = evaluate(&rows) {
                    let key = key.as_deref().unwrap_or("-");
                    self.lines
                        .push(format!("{key} {results} {start} {end} {}", end - 1));
                }
            }
        }
    }
}

fn evaluate(rows: &[Row]) -> Option<String> {
    let weight = |row: &Row| row.kind.weight();
    let count: i64 = rows.iter().map(weight).sum();
    if count <= 0 {
        return None;
    }
    // What is left of a column's values after all that was taken back, as value and number of times.
    let bag = |filtered: bool| -> Vec<&Row> {
        let mut left: Vec<&Row> = Vec::new();
        let keep = |row: &&Row| !filtered || row.f == Some(true);
        for row in rows.iter().filter(keep).filter(|row| weight(row) > 0) {
            left.push(row);
        }
        for gone in rows.iter().filter(keep).filter(|row| weight(row) < 0) {
            let same =
                |row: &&Row| (&row.n, &row.s, row.f, row.ts) == (&gone.n, &gone.s, gone.f, gone.ts);
            let place = left
                .iter()
                .position(same)
                .expect("rows come before they go");
            left.remove(place);
        }
        left
    };
    let (all, kept) = (bag(false), bag(true));
    let numbers = |rows: &[&Row]| -> Vec<i64> { rows.iter().filter_map(|row| row.n).collect() };
    let texts =
        |rows: &[&Row]| -> Vec<String> { rows.iter().filter_map(|row| row.s.clone()).collect() };
    let show = |value: Option<i64>| value.map_or("-".to_string(), |value| value.to_string());
    let show_text = |value: Option<&String>| value.cloned().unwrap_or("-".to_string());
    let sum = |values: &[i64]| (!values.is_empty()).then(|| values.iter().sum::<i64>());
    let n = numbers(&all);
    let kept_n = numbers(&kept);
    let distinct = |values: &[i64]| values.iter().copied().collect::<BTreeSet<i64>>();
    let s = texts(&all);
    let pairs: BTreeSet<(i64, String)> = all
        .iter()
        .filter_map(|row| Some((row.n?, row.s.clone()?)))
        .collect();
    let kept_distinct: Vec<i64> = distinct(&kept_n).into_iter().collect();
    Some(
        [
            count.to_string(),
            kept.len().to_string(),
            n.len().to_string(),
            show(sum(&n)),
            show(sum(&kept_n)),
            show(sum(&n).map(|sum| sum / n.len() as i64)),
            show(n.iter().min().copied()),
            show(n.iter().max().copied()),
            show(kept_n.iter().max().copied()),
            show_text(s.iter().min()),
            show_text(s.iter().max()),
            distinct(&n).len().to_string(),
            kept_distinct.len().to_string(),
            show(sum(&kept_distinct)),
            s.iter().collect::<BTreeSet<_>>().len().to_string(),
            show(n.iter().max().copied()),
            pairs.len().to_string(),
        ]
        .join(" "),
    )
}

/// Lines with those of one window in a fixed order: between keys it is free.
fn ordered(mut outcome: Outcome) -> Outcome {
    let window = |line: &String| -> Vec<i64> {
        let words: Vec<&str> = line.rsplit(' ').take(3).collect();
        words[1..]
            .iter()
            .map(|word| word.parse().unwrap())
            .collect()
    };
    outcome
        .lines
        .chunk_by_mut(|a, b| window(a) == window(b))
        .for_each(|lines| lines.sort());
    outcome
}

/// Aligned windows with one more key column than the twin would print: compares an operator with its twin.
fn compare_with_twin(kind: WindowKind, seed: u64, retract: bool) {
    let events = random_events(seed, 200, retract);
    let expected = ordered(Twin::run(kind, &events));
    assert!(!expected.lines.is_empty() && expected.null_times > 0);
    assert!(expected.late > 0 || kind != TUMBLE);
    let spec = spec(kind, many_aggregates());
    for size in [1, 64] {
        for phases in [one_phase, two_phases] {
            let outcome = ordered(run(phases(&spec, !retract), &events, size));
            let place = format!("{kind}, seed {seed}, batches of {size}, retract {retract}");
            assert_eq!(outcome, expected, "{place}");
        }
    }
    // The same with a stop and a restore in the middle.
    let mut random = Random::new(seed);
    for phases in [one_phase, two_phases] {
        let mut chain = Chain::new(phases(&spec, !retract));
        for element in elements(&events, 9) {
            chain.feed([element]);
            if random.below(6) == 0 {
                let state = chain.snapshot();
                chain.restore(phases(&spec, !retract), state);
            }
        }
        let outcome = ordered(plain_times(chain.finish()));
        assert_eq!(
            outcome, expected,
            "{kind}, seed {seed}, restored, retract {retract}"
        );
    }
}

#[test]
fn agrees_with_one_row_at_a_time() {
    let kinds = [
        TUMBLE,
        HOP,
        CUMULATE,
        WindowKind::Hop {
            slide_ms: 2,
            size_ms: 5,
        },
        WindowKind::Hop {
            slide_ms: 3,
            size_ms: 60,
        },
        WindowKind::Hop {
            slide_ms: 7,
            size_ms: 3,
        },
        WindowKind::Cumulate {
            step_ms: 5,
            max_size_ms: 40,
        },
    ];
    for kind in kinds {
        for seed in 1..3 {
            compare_with_twin(kind, seed, false);
            compare_with_twin(kind, seed + 100, true);
        }
    }
}

#[test]
fn a_snapshot_is_dealt_to_more_instances_and_back() {
    let spec = spec(HOP, count_and_sum());
    let events = random_events(5, 200, false);
    let half = events.len() / 2;
    let mut whole = Chain::new(one_phase(&spec, true));
    whole.feed(elements(&events[..half], 50));
    let state = whole.snapshot();
    let watermark = state[0].1;
    let mut lines = Vec::new();
    for index in 0..3 {
        let subtask = crate::operators::Subtask {
            index,
            parallelism: 3,
            max_parallelism: 128,
        };
        let mine = state[0]
            .0
            .for_key_groups(subtask.key_groups(), subtask.max_parallelism)
            .unwrap();
        let mut chain = Chain::new(Vec::new());
        chain.restore(one_phase(&spec, true), vec![(mine, watermark)]);
        chain.feed(elements(&[Event::Watermark(i64::MAX)], 1));
        lines.extend(chain.finish().lines);
    }
    let before = whole.snapshot();
    drop(before);
    let mut rest = Chain::new(Vec::new());
    rest.restore(one_phase(&spec, true), state);
    rest.feed(elements(&[Event::Watermark(i64::MAX)], 1));
    let mut expected = rest.finish().lines;
    lines.sort();
    expected.sort();
    assert!(!lines.is_empty());
    assert_eq!(lines, expected);
}

/// Rows of a few keys around the time of the stream; `cells` makes the columns of a key, a value and a time.
fn random_rows(
    takes_back: bool,
    cells: &'static dyn Fn(u32, u32, i64) -> String,
) -> impl Fn() -> RandomRows {
    move || {
        Box::new(move |rng: &mut SmallRng, _, time| {
            let time = time + rng.random_range(-20..10);
            let (key, value) = (rng.random_range(0..8), rng.random_range(0..5));
            let kind = if takes_back && rng.random_bool(0.3) {
                "-D"
            } else {
                "+I"
            };
            format!("{kind} {}", cells(key, value, time))
        })
    }
}

fn plain_cells(key: u32, value: u32, time: i64) -> String {
    let key = match key {
        0 => "null".to_string(),
        key => format!("k{key}"),
    };
    format!("{key}, {value}, null, true, {time}")
}

fn conforms(
    name: &str,
    spec: &WindowAggregateSpec,
    input: &Schema,
    phase: AggregatePhase,
    rows: &dyn Fn() -> RandomRows,
    insert_only: bool,
) {
    let keys = spec.keys.len();
    Conformance {
        name,
        inputs: &[input],
        rows,
        output_key: &|cells| cells[..keys].join(", "),
        watermarks: true,
        clock: !spec.window.time.is_event_time(),
        bundles: false,
    }
    .check(|| {
        let backend = Arc::new(HashMapStateBackend);
        WindowAggregateOperator::new(spec.clone(), input, phase, insert_only, backend).unwrap()
    });
}

/// Kinds of few and of many slices.
const KINDS: [WindowKind; 5] = [
    TUMBLE,
    HOP,
    WindowKind::Hop {
        slide_ms: 2,
        size_ms: 40,
    },
    CUMULATE,
    WindowKind::Cumulate {
        step_ms: 5,
        max_size_ms: 50,
    },
];

fn all_aggregates() -> Vec<AggregateCall> {
    let distinct = AggregateCall {
        distinct: true,
        ..call("COUNT", Some(1), LogicalType::BIGINT)
    };
    let mut calls = count_and_sum();
    calls.extend([
        call("MAX", Some(1), LogicalType::BIGINT),
        call("FIRST_VALUE", Some(1), LogicalType::BIGINT),
        call("LAST_VALUE", Some(1), LogicalType::BIGINT),
        distinct,
    ]);
    calls
}

#[test]
fn windows_fire_for_the_keys_that_are_there() {
    for kind in KINDS {
        for insert_only in [true, false] {
            // Rows that are taken back go through more of an aggregate than those that are not.
            let aggregates = match insert_only {
                true => count_and_sum(),
                false => all_aggregates(),
            };
            let spec = spec(kind, aggregates);
            let rows = random_rows(!insert_only, &plain_cells);
            let name = format!("{kind:?}");
            let phase = AggregatePhase::Single;
            conforms(&name, &spec, &schema(), phase, &rows, insert_only);
        }
    }
}

#[test]
fn windows_without_a_key_are_one_unit() {
    for kind in [TUMBLE, HOP] {
        let spec = WindowAggregateSpec {
            keys: Vec::new(),
            ..spec(kind, count_and_sum())
        };
        let rows = random_rows(false, &plain_cells);
        let phase = AggregatePhase::Single;
        conforms("no key", &spec, &schema(), phase, &rows, true);
    }
}

#[test]
fn windows_of_the_clock_fire_for_the_keys_that_are_there() {
    for kind in KINDS {
        let mut spec = spec(kind, count_and_sum());
        spec.window.time = WindowTime::Processing {
            time_zone: "UTC".to_string(),
        };
        let rows = random_rows(false, &plain_cells);
        let phase = AggregatePhase::Single;
        conforms("the clock", &spec, &schema(), phase, &rows, true);
    }
}

#[test]
fn partials_find_the_windows_of_their_keys() {
    fn cells(key: u32, value: u32, time: i64) -> String {
        let end = (time.div_euclid(5) + 1) * 5;
        format!("k{key}, 1, {value}, 1, 1, {end}")
    }
    for kind in [HOP, WindowKind::Tumble { size_ms: 5 }] {
        let spec = spec(kind, count_and_sum());
        let between = local_output_schema(&spec, &schema(), true).unwrap();
        let rows = random_rows(false, &cells);
        let phase = AggregatePhase::Global;
        conforms("partials", &spec, &between, phase, &rows, true);
    }
}

#[test]
fn attached_windows_fire_for_the_keys_that_are_there() {
    let time = LogicalType::nullable(TypeRoot::Timestamp(3));
    let input = Schema::new(vec![
        Field::new("k", LogicalType::STRING),
        Field::new("n", LogicalType::BIGINT),
        Field::new("window_start", time.clone()),
        Field::new("window_end", time),
    ]);
    fn cells(key: u32, value: u32, time: i64) -> String {
        let end = (time.div_euclid(10) + 1) * 10;
        format!("k{key}, {value}, {}, {end}", end - 10)
    }
    let spec = WindowAggregateSpec {
        input: WindowInput::Attached {
            window_start: 2,
            window_end: 3,
        },
        ..spec(TUMBLE, count_and_sum())
    };
    let rows = random_rows(false, &cells);
    let phase = AggregatePhase::Single;
    conforms("attached", &spec, &input, phase, &rows, true);
}

#[test]
fn a_row_in_the_millisecond_of_the_fire_is_not_lost() {
    let mut spec = spec(TUMBLE, count_and_sum());
    spec.window.time = WindowTime::Processing {
        time_zone: "UTC".to_string(),
    };
    crate::operators::test_bench::check(
        || {
            let backend = Arc::new(HashMapStateBackend);
            let phase = AggregatePhase::Single;
            WindowAggregateOperator::new(spec.clone(), &schema(), phase, true, backend).unwrap()
        },
        &[&schema()],
        "
            -- clock 5
            +I a, 1, null, true, 0
            -- clock 9
            +I a, 2, null, true, 0
            -- clock 10
        ",
        "
            +I a, 1, 1, 0, 10, 9
            +I a, 1, 2, 0, 10, 9
        ",
    );
}
