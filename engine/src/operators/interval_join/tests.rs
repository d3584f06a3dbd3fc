use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::expr::{Expression, ExpressionContext, compile};
use crate::operators::test_bench::{Way, check, run};
use crate::state::HashMapStateBackend;
use crate::types::{Field, LogicalType, TimeZone, TypeRoot};

const KINDS: [JoinKind; 4] = [
    JoinKind::Inner,
    JoinKind::Left,
    JoinKind::Right,
    JoinKind::Full,
];

fn schema(value: &str) -> Schema {
    let time = LogicalType::nullable(TypeRoot::Timestamp(3));
    Schema::new(vec![
        Field::new("k", LogicalType::STRING),
        Field::new(value, LogicalType::INT),
        Field::new("ts", time),
    ])
}

fn bounds(lower_ms: i64, upper_ms: i64) -> IntervalBounds {
    IntervalBounds {
        is_event_time: true,
        lower_ms,
        upper_ms,
        min_cleanup_ms: 0,
    }
}

/// A join on `k`, with the condition `l < r` where it is asked for.
fn join(kind: JoinKind, bounds: IntervalBounds, with_condition: bool) -> IntervalJoinOperator {
    let (left, right) = (schema("l"), schema("r"));
    let column = |index: usize, name: &str| Expression::column(index, name, LogicalType::INT);
    let less = Expression::call(
        "<",
        vec![column(1, "l"), column(4, "r")],
        LogicalType::BOOLEAN,
    );
    let context = ExpressionContext {
        time_zone: TimeZone::UTC,
    };
    let side = |schema: &Schema| TimedSide {
        schema: schema.clone(),
        time: 2,
        keys: vec![0],
    };
    let spec = IntervalJoinSpec {
        kind,
        left: side(&left),
        right: side(&right),
        null_safe: vec![false],
        bounds,
        condition: with_condition.then(|| compile(&less, &context).unwrap()),
        output: left.join(&right),
    };
    IntervalJoinOperator::new(spec, Arc::new(HashMapStateBackend)).unwrap()
}

fn check_join(operator: impl Fn() -> IntervalJoinOperator, stream: &str, expected: &str) {
    check(operator, &[&schema("l"), &schema("r")], stream, expected);
}

#[test]
fn a_left_row_is_padded_when_nothing_can_come_and_the_watermark_is_held_back() {
    check_join(
        || join(JoinKind::Left, bounds(-10, 0), false),
        "
            +I a, 1, 100
            +I b, 2, 100
            right +I a, 3, 110      // bounds are inclusive
            right +I b, 4, 111
            right +I a, 5, 99
            -- watermark 110
            right +I c, 0, 120
            -- watermark 111
        ",
        "
            +I a, 1, 100, a, 3, 110
            -- watermark 100
            +I b, 2, 100, null, null, null
            -- watermark 101
        ",
    );
}

#[test]
fn pairs_must_satisfy_the_condition_and_null_meets_nothing() {
    check_join(
        || join(JoinKind::Full, bounds(-5, 5), true),
        "
            +I a, 1, 100
            +I null, 2, 100
            right +I a, 0, 102
            right +I a, 7, 103
            right +I null, 8, 101
            -- end
        ",
        "
            +I a, 1, 100, a, 7, 103
            +I null, 2, 100, null, null, null
            +I null, null, null, null, 8, 101
            +I null, null, null, a, 0, 102
            -- watermark end
        ",
    );
}

#[test]
fn a_row_that_comes_too_late_to_meet_anything_is_padded_at_once() {
    check_join(
        || join(JoinKind::Left, bounds(-10, 0), false),
        "
            right +I a, 9, 195      // left rows up to 195 could meet it
            -- watermark 200
            +I a, 1, 180
            +I a, 2, 190            // nothing on time can come any more
            +I a, 3, 191
            right +I a, 4, 200      // late, but 3 still waits
            -- watermark 300
        ",
        "
            -- watermark 190
            +I a, 1, 180, null, null, null
            +I a, 2, 190, null, null, null
            +I a, 3, 191, a, 4, 200
            -- watermark 290
        ",
    );
}

#[test]
fn bounds_that_exclude_each_other_pad_at_once() {
    check_join(
        || join(JoinKind::Left, bounds(5, -5), false),
        "
            +I a, 1, 100
            right +I a, 2, 100
            -- watermark 100
        ",
        "
            +I a, 1, 100, null, null, null
            -- watermark 100
        ",
    );
}

#[test]
fn rows_may_stay_longer_than_they_must() {
    let longer = IntervalBounds {
        min_cleanup_ms: 5,
        ..bounds(-10, 0)
    };
    check_join(
        || join(JoinKind::Left, longer, false),
        "
            +I a, 1, 100
            +I b, 2, 100
            -- watermark 115
            right +I a, 3, 110
            -- watermark 116
        ",
        "
            -- watermark 105
            +I a, 1, 100, a, 3, 110
            +I b, 2, 100, null, null, null
            -- watermark 106
        ",
    );
}

#[test]
fn in_processing_time_the_clock_tells_the_time_of_rows() {
    let by_clock = IntervalBounds {
        is_event_time: false,
        ..bounds(-10, 5)
    };
    check_join(
        || join(JoinKind::Full, by_clock, false),
        "
            -- clock 100
            +I a, 1, 0
            +I b, 2, 0
            -- clock 108
            right +I a, 3, 0
            right +I c, 4, 0
            -- clock 111
            -- clock 113
            +I c, 5, 0
            -- clock 1000
        ",
        "
            +I a, 1, 0, a, 3, 0
            +I b, 2, 0, null, null, null
            +I c, 5, 0, c, 4, 0
        ",
    );
}

#[test]
fn nothing_is_remembered_of_what_has_expired() {
    let mut operator = join(JoinKind::Full, bounds(-10, 10), false);
    let mut ctx = Context::new(super::super::Subtask::SINGLE, Default::default());
    let mut out = Output::new(false);
    for time in 0..1000 {
        let text = format!("+I k{time}, {time}, {time}");
        for input in [InputIndex::FIRST, InputIndex::SECOND] {
            let batch = super::super::test_bench::batch(&schema("l"), &text);
            let flow = operator.process_batch(&mut ctx, input, batch, &mut out);
            assert_eq!(flow.unwrap(), Flow::Done);
        }
        ctx.advance_watermark(EventTime(time));
        let flow = operator.process_watermark(&mut ctx, EventTime(time), &mut out);
        assert_eq!(flow.unwrap(), Flow::Done);
    }
    assert_eq!(operator.caches[0].rows().len(), 11);
    assert!(operator.keys.len() < 100, "{}", operator.keys.len());
    let mut pairs = 0;
    while let Some(element) = out.pop() {
        if let crate::stream::StreamElement::Batch(batch) = element {
            pairs += batch.num_rows();
        }
    }
    assert_eq!(pairs, 1000);
}

/// Row by row over lists.
struct Twin {
    kind: JoinKind,
    bounds: IntervalBounds,
    waiting: [Vec<Waiting>; 2],
    watermark: i64,
    lines: Vec<String>,
}

#[derive(Clone)]
struct Waiting {
    key: String,
    value: i32,
    time: i64,
    paired: bool,
}

impl Waiting {
    fn text(&self) -> String {
        format!("{}, {}, {}", self.key, self.value, self.time)
    }
}

impl Twin {
    fn pad(&mut self, side: usize, row: &Waiting) {
        if side == 0 && self.kind.keeps_left() {
            self.lines
                .push(format!("+I {}, null, null, null", row.text()));
        }
        if side == 1 && self.kind.keeps_right() {
            self.lines
                .push(format!("+I null, null, null, {}", row.text()));
        }
    }

    fn reach(&self, side: usize) -> i64 {
        if side == 0 {
            -self.bounds.lower_ms
        } else {
            self.bounds.upper_ms
        }
    }

    fn row(&mut self, side: usize, key: &str, value: i32, time: i64) {
        let mut row = Waiting {
            key: key.to_string(),
            value,
            time,
            paired: false,
        };
        let (lower, upper) = (self.bounds.lower_ms, self.bounds.upper_ms);
        for other in &mut self.waiting[1 - side] {
            let (left, right) = if side == 0 {
                (&row, &*other)
            } else {
                (&*other, &row)
            };
            let difference = left.time - right.time;
            if row.key == other.key && (lower..=upper).contains(&difference) {
                self.lines
                    .push(format!("+I {}, {}", left.text(), right.text()));
                row.paired = true;
                other.paired = true;
            }
        }
        if self.watermark < time + self.reach(side) {
            self.waiting[side].push(row);
        } else if !row.paired {
            self.pad(side, &row);
        }
    }

    fn watermark(&mut self, watermark: i64) {
        self.watermark = watermark;
        for side in [0, 1] {
            let last = watermark.saturating_sub(self.reach(side)).saturating_sub(1);
            let (gone, waiting): (Vec<Waiting>, Vec<Waiting>) =
                std::mem::take(&mut self.waiting[side])
                    .into_iter()
                    .partition(|row| watermark == i64::MAX || row.time <= last);
            self.waiting[side] = waiting;
            for row in gone.iter().filter(|row| !row.paired) {
                self.pad(side, row);
            }
        }
    }
}

#[test]
fn random_streams_give_what_a_walk_over_their_elements_gives() {
    for seed in 0..80 {
        let mut random = SmallRng::seed_from_u64(seed);
        let kind = KINDS[seed as usize % 4];
        let lower = random.random_range(-15..15);
        let bounds = bounds(lower, lower + random.random_range(0..15));
        let mut twin = Twin {
            kind,
            bounds,
            waiting: [vec![], vec![]],
            watermark: i64::MIN,
            lines: vec![],
        };
        let (mut stream, mut watermark) = (String::new(), 0);
        for step in 0..120 {
            let key = ["a", "b"][random.random_range(0..2)];
            let time = (watermark + random.random_range(-20..25)).max(0);
            match random.random_range(0..10) {
                0..4 => {
                    stream += &format!("+I {key}, {step}, {time}\n");
                    twin.row(0, key, step, time);
                }
                4..8 => {
                    stream += &format!("right +I {key}, {step}, {time}\n");
                    twin.row(1, key, step, time);
                }
                _ => {
                    watermark += random.random_range(1..12);
                    stream += &format!("-- watermark {watermark}\n");
                    twin.watermark(watermark);
                }
            }
        }
        stream += "-- end\n";
        twin.watermark(i64::MAX);
        twin.lines.sort();
        for way in Way::ALL {
            let make = || join(kind, bounds, false);
            let mut lines = run(&make, &[&schema("l"), &schema("r")], &stream, way);
            lines.retain(|line| !line.starts_with("--"));
            lines.sort();
            assert_eq!(
                lines, twin.lines,
                "seed {seed}, {way:?}, {bounds:?}\n{stream}"
            );
        }
    }
}

#[test]
fn keys_come_and_go() {
    use crate::operators::keyed_state::conformance::{Conformance, RandomRows};
    let rows = || -> RandomRows {
        Box::new(|rng, _, time| {
            let key = ["a", "b", "c", "d", "null"][rng.random_range(0..5)];
            let value = rng.random_range(0..5);
            let time = time + rng.random_range(-20..20);
            format!("+I {key}, {value}, {time}")
        })
    };
    let key = |cells: &[&str]| match cells[0] {
        "null" => cells[3].to_string(),
        key => key.to_string(),
    };
    for (seed, kind) in (0..).zip(KINDS) {
        for (number, is_event_time) in (0..).zip([true, false, true]) {
            let bounds = IntervalBounds {
                is_event_time,
                min_cleanup_ms: 3 * number,
                ..[bounds(-10, 5), bounds(-10, 20), bounds(3, 8)][number as usize]
            };
            let suite = Conformance {
                name: &format!("{kind:?} interval join, {bounds:?}"),
                inputs: &[&schema("l"), &schema("r")],
                rows: &rows,
                output_key: &key,
                watermarks: is_event_time,
                clock: !is_event_time,
                bundles: false,
            };
            let seed = 100 * seed + 20 * number as u64;
            suite.check_seeds(seed..seed + 12, || join(kind, bounds, number == 0));
        }
    }
}
