//! The three operators by hand and against naive twins.

use std::collections::BTreeMap;

use rand::Rng;
use rand::rngs::SmallRng;

use super::*;
use crate::operators::Operator;
use crate::operators::keyed_state::conformance::{Conformance, RandomRows, first_cell};
use crate::operators::test_bench::{Way, check, run};
use crate::types::{Field, LogicalType, TypeRoot};

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("k", LogicalType::STRING),
        Field::new("v", LogicalType::INT),
        Field::new("ts", LogicalType::nullable(TypeRoot::Timestamp(3))),
    ])
}

fn spec(keep: KeepRow, order_column: Option<usize>) -> DeduplicateSpec {
    DeduplicateSpec {
        schema: schema(),
        key: vec![0],
        order_column,
        keep,
        time_to_live: TimeToLive::NEVER,
    }
}

const CHANGES: DeduplicateChangelog = DeduplicateChangelog {
    update_before: true,
    first_is_insert: true,
    bundle_rows: None,
};

fn first(ttl_ms: u64) -> DeduplicateFirstRowOperator {
    let time_to_live = TimeToLive::of_millis(ttl_ms);
    let spec = spec(KeepRow::First, None);
    DeduplicateFirstRowOperator::new(&DeduplicateSpec {
        time_to_live,
        ..spec
    })
    .unwrap()
}

fn earliest(ttl_ms: u64) -> DeduplicateEarliestRowOperator {
    let time_to_live = TimeToLive::of_millis(ttl_ms);
    let spec = spec(KeepRow::First, Some(2));
    DeduplicateEarliestRowOperator::new(DeduplicateSpec {
        time_to_live,
        ..spec
    })
    .unwrap()
}

fn changing(
    keep: KeepRow,
    order_column: Option<usize>,
    changelog: DeduplicateChangelog,
) -> DeduplicateChangingRowOperator {
    DeduplicateChangingRowOperator::new(spec(keep, order_column), changelog).unwrap()
}

fn check_stream<O: Operator>(operator: impl Fn() -> O, stream: &str, expected: &str) {
    check(operator, &[&schema()], stream, expected);
}

#[test]
fn the_first_to_arrive_stays() {
    check_stream(
        || first(0),
        "
            +I a, 1, 5
            +I b, 2, 4
            +I a, 3, 1      // seen already
            -- watermark 10
            +I null, 4, 1
            +I null, 5, 1   // NULL is a key
            -- end
        ",
        "
            +I a, 1, 5
            +I b, 2, 4
            -- watermark 10
            +I null, 4, 1
            -- watermark end
        ",
    );
}

#[test]
fn a_key_is_forgotten_a_time_to_live_after_its_row() {
    check_stream(
        || first(1000),
        "
            +I a, 1, 5
            -- clock 600
            +I a, 2, 5
            +I b, 3, 5
            -- clock 1000
            +I a, 4, 5      // a second after the first one
            +I b, 5, 5
            -- clock 1600
            +I a, 6, 5
            +I b, 7, 5
        ",
        "
            +I a, 1, 5
            +I b, 3, 5
            +I a, 4, 5
            +I b, 7, 5
        ",
    );
}

#[test]
fn the_earliest_waits_for_the_watermark_and_late_rows_go() {
    check_stream(
        || earliest(0),
        "
            +I a, 1, 10
            -- watermark 5
            +I a, 2, 8
            +I b, 3, 3      // before the watermark, though its key is new
            +I c, 4, 5      // at the watermark
            +I a, 5, 8      // a tie: the first stays
            -- watermark 8
            +I a, 6, 9      // given already
            +I d, 7, 20
            +I e, 8, 12
            -- end
        ",
        "
            -- watermark 5
            +I c, 4, 5
            +I a, 2, 8
            -- watermark 8
            +I e, 8, 12
            +I d, 7, 20
            -- watermark end
            late b, 3, 3
        ",
    );
}

#[test]
fn a_waiting_row_outlives_the_time_to_live_and_a_given_key_does_not() {
    check_stream(
        || earliest(1000),
        "
            +I a, 1, 10
            -- clock 5000
            +I a, 2, 11     // the first one still waits
            -- watermark 10
            -- clock 5999
            +I a, 3, 12
            -- clock 6000
            +I a, 4, 13     // forgotten: a new first row
            -- end
        ",
        "
            +I a, 1, 10
            -- watermark 10
            +I a, 4, 13
            -- watermark end
        ",
    );
}

#[test]
fn the_last_to_arrive_replaces_and_an_equal_row_goes_by() {
    check_stream(
        || changing(KeepRow::Last, None, CHANGES),
        "
            +I a, 1, 5
            +I a, 1, 5      // equal
            +I b, 9, 5
            +I a, 2, 5
            +I b, 9, 5
            +I a, 3, null
        ",
        "
            +I a, 1, 5
            +I b, 9, 5
            -U a, 1, 5
            +U a, 2, 5
            -U a, 2, 5
            +U a, 3, null
        ",
    );
}

#[test]
fn updates_by_key_come_without_the_row_before() {
    let by_key = |first_is_insert| DeduplicateChangelog {
        update_before: false,
        first_is_insert,
        bundle_rows: None,
    };
    let stream = "
        +I a, 1, 5
        +I a, 2, 5
    ";
    check_stream(
        || changing(KeepRow::Last, None, by_key(true)),
        stream,
        "
            +I a, 1, 5
            +U a, 2, 5
        ",
    );
    check_stream(
        || changing(KeepRow::Last, None, by_key(false)),
        stream,
        "
            +U a, 1, 5
            +U a, 2, 5
        ",
    );
}

const BY_TIME: &str = "
    +I a, 1, 5
    +I a, 2, 5
    +I a, 3, 4
    -- watermark 100
    +I b, 4, 1
    +I a, 5, 6
";

#[test]
fn the_latest_by_event_time_replaces_also_at_equal_times_and_nothing_is_late() {
    check_stream(
        || changing(KeepRow::Last, Some(2), CHANGES),
        BY_TIME,
        "
            +I a, 1, 5
            -U a, 1, 5
            +U a, 2, 5
            -- watermark 100
            +I b, 4, 1
            -U a, 2, 5
            +U a, 5, 6
        ",
    );
}

#[test]
fn the_earliest_by_event_time_may_be_given_at_once() {
    check_stream(
        || changing(KeepRow::First, Some(2), CHANGES),
        BY_TIME,
        "
            +I a, 1, 5
            -U a, 1, 5
            +U a, 3, 4
            -- watermark 100
            +I b, 4, 1
        ",
    );
}

#[test]
fn a_bundle_gives_one_change_a_key() {
    let changelog = DeduplicateChangelog {
        bundle_rows: Some(4),
        ..CHANGES
    };
    let stream = "
        +I a, 1, 5
        +I b, 1, 5
        +I a, 2, 5
        +I a, 3, 5
        +I a, 4, 5
        +I b, 1, 5      // equal to what was there
        -- watermark 7
        +I a, 5, 5
    ";
    for way in [Way::SizeOne, Way::Whole, Way::Blocked] {
        let make = || changing(KeepRow::Last, None, changelog);
        let stream = format!("{stream}\n-- end");
        let expected = [
            "+I a, 3, 5",
            "+I b, 1, 5",
            "-U a, 3, 5",
            "+U a, 4, 5",
            "-- watermark 7",
            "-U a, 4, 5",
            "+U a, 5, 5",
            "-- watermark end",
        ];
        assert_eq!(run(&make, &[&schema()], &stream, way), expected, "{way:?}");
    }
}

#[test]
fn a_replaced_row_lives_on_from_its_replacement() {
    let make = || {
        let time_to_live = TimeToLive::of_millis(1000);
        let spec = spec(KeepRow::Last, None);
        let spec = DeduplicateSpec {
            time_to_live,
            ..spec
        };
        DeduplicateChangingRowOperator::new(spec, CHANGES).unwrap()
    };
    check_stream(
        make,
        "
            +I a, 1, 5
            -- clock 600
            +I a, 1, 5      // equal, but with a time to live all go out
            -- clock 1500
            +I a, 2, 5
            +I b, 1, 5
            -- clock 2500
            +I a, 3, 5      // forgotten
        ",
        "
            +I a, 1, 5
            -U a, 1, 5
            +U a, 1, 5
            -U a, 1, 5
            +U a, 2, 5
            +I b, 1, 5
            +I a, 3, 5
        ",
    );
}

/// Small deterministic pseudo-random numbers.
fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    }
}

/// A stream of rows `(key, value, time)` with the watermarks before some of them.
fn random_stream(seed: u64) -> (String, Vec<(u64, usize, i64, i64)>) {
    let mut next = numbers(seed);
    let (mut text, mut rows, mut watermark) = (String::new(), Vec::new(), -1);
    for value in 0..200 {
        let time = (value as i64 / 4 + next(12) as i64 - 6).max(0);
        let key = next(9);
        text += &format!("+I k{key}, {value}, {time}\n");
        rows.push((key, value, time, watermark));
        if next(3) == 0 {
            let new = value as i64 / 4 - 3 + next(4) as i64;
            if new > watermark {
                watermark = new;
                text += &format!("-- watermark {watermark}\n");
            }
        }
    }
    (text + "-- end\n", rows)
}

#[test]
fn the_earliest_agrees_with_a_naive_twin() {
    for seed in 1..40 {
        let (stream, rows) = random_stream(seed);
        let mut first: BTreeMap<u64, (i64, usize)> = BTreeMap::new();
        for (key, value, time, watermark) in rows {
            if time >= watermark {
                // Who is given is fixed: an earlier one behind the watermark that gave it is late.
                let held = first.entry(key).or_insert((time, value));
                *held = (*held).min((time, value));
            }
        }
        let mut expected: Vec<(i64, usize, u64)> = first
            .into_iter()
            .map(|(key, (time, value))| (time, value, key))
            .collect();
        expected.sort_unstable();
        let expected: Vec<String> = expected
            .iter()
            .map(|(time, value, key)| format!("+I k{key}, {value}, {time}"))
            .collect();
        for way in Way::ALL {
            let lines = run(&|| earliest(0), &[&schema()], &stream, way);
            let given: Vec<String> = lines
                .into_iter()
                .filter(|line| line.starts_with('+'))
                .collect();
            assert_eq!(given, expected, "{way:?} {seed}");
        }
    }
}

#[test]
fn the_last_agrees_with_a_naive_twin() {
    for seed in 1..40 {
        let (stream, rows) = random_stream(seed);
        let mut held: BTreeMap<u64, (i64, usize)> = BTreeMap::new();
        let mut expected = Vec::new();
        for (key, value, time, _) in rows {
            let line = |(time, value): (i64, usize)| format!("k{key}, {value}, {time}");
            match held.get(&key).copied() {
                None => expected.push(format!("+I {}", line((time, value)))),
                Some(old) if time >= old.0 => {
                    expected.push(format!("-U {}", line(old)));
                    expected.push(format!("+U {}", line((time, value))));
                }
                Some(_) => continue,
            }
            held.insert(key, (time, value));
        }
        for way in Way::ALL {
            let make = || changing(KeepRow::Last, Some(2), CHANGES);
            let lines = run(&make, &[&schema()], &stream, way);
            let changes: Vec<String> = lines
                .into_iter()
                .filter(|line| !line.starts_with("--"))
                .collect();
            assert_eq!(changes, expected, "{way:?} {seed}");
        }
    }
}

/// Rows of a few keys with a time around that of the stream.
fn random_rows() -> RandomRows {
    let mut value = 0;
    Box::new(move |rng: &mut SmallRng, _, time| {
        value += rng.random_range(0..2);
        let time = time + rng.random_range(-15..15);
        match rng.random_range(0..10) {
            0 => format!("+I null, {value}, {time}"),
            key => format!("+I k{key}, {value}, {time}"),
        }
    })
}

fn conforms<O: Operator>(name: &str, clock: bool, bundles: bool, make: impl Fn() -> O) {
    Conformance {
        name,
        inputs: &[&schema()],
        rows: &random_rows,
        output_key: &first_cell,
        watermarks: true,
        clock,
        bundles,
    }
    .check(make);
}

#[test]
fn first_rows_are_known_wherever_their_keys_are() {
    conforms("first row", false, false, || first(0));
    conforms("first row for a time", true, false, || first(80));
}

#[test]
fn earliest_rows_come_wherever_their_keys_are() {
    conforms("earliest row", false, false, || earliest(0));
    conforms("earliest row for a time", true, false, || earliest(80));
}

#[test]
fn changing_rows_change_wherever_their_keys_are() {
    let bundled = DeduplicateChangelog {
        bundle_rows: Some(4),
        ..CHANGES
    };
    for (keep, order) in [
        (KeepRow::Last, None),
        (KeepRow::Last, Some(2)),
        (KeepRow::First, Some(2)),
    ] {
        let make = |changelog| move || changing(keep, order, changelog);
        conforms("changing row", false, false, make(CHANGES));
        conforms("changing row in bundles", false, true, make(bundled));
        let short = DeduplicateSpec {
            time_to_live: TimeToLive::of_millis(80),
            ..spec(keep, order)
        };
        conforms("changing row for a time", true, false, || {
            DeduplicateChangingRowOperator::new(short.clone(), CHANGES).unwrap()
        });
    }
}

#[test]
fn of_first_rows_new_keys_alone_have_changed() {
    use crate::operators::test_bench::batch;
    use crate::operators::{Context, InputIndex, KeyedState, Output, Subtask};
    let mut operator = first(0);
    let mut ctx = Context::new(Subtask::SINGLE, Default::default());
    let mut out = Output::new(false);
    operator.track_changes();
    for (rows, new) in [("+I a, 1, 1\n+I b, 1, 1", 2), ("+I a, 1, 1\n+I c, 1, 1", 1)] {
        let rows = batch(&schema(), rows);
        let _ = operator
            .process_batch(&mut ctx, InputIndex::FIRST, rows, &mut out)
            .unwrap();
        assert_eq!(operator.take_changed().len(), new);
    }
}
