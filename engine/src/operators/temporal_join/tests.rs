use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::expr::{Expression, ExpressionContext, compile};
use crate::operators::test_bench::{Way, check, run};
use crate::state::HashMapStateBackend;
use crate::types::{Field, LogicalType, TimeZone, TypeRoot};

fn schema(value: &str) -> Schema {
    let time = LogicalType::nullable(TypeRoot::Timestamp(3));
    Schema::new(vec![
        Field::new("k", LogicalType::STRING),
        Field::new(value, LogicalType::INT),
        Field::new("ts", time),
    ])
}

/// A join on `k`, with the condition `l < r` where it is asked for.
fn join(kind: JoinKind, null_safe: bool, with_condition: bool) -> TemporalJoinOperator {
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
    let spec = TemporalJoinSpec {
        kind,
        left: side(&left),
        right: side(&right),
        null_safe: vec![null_safe],
        condition: with_condition.then(|| compile(&less, &context).unwrap()),
        output: left.join(&right),
        input_names: ["l".to_string(), "r".to_string()],
    };
    TemporalJoinOperator::new(spec, Arc::new(HashMapStateBackend)).unwrap()
}

fn check_join(operator: impl Fn() -> TemporalJoinOperator, stream: &str, expected: &str) {
    check(operator, &[&schema("l"), &schema("r")], stream, expected);
}

#[test]
fn a_row_meets_the_version_valid_at_its_time_when_the_watermark_has_passed_it() {
    check_join(
        || join(JoinKind::Left, false, false),
        "
            right +I a, 1, 10
            right -U a, 1, 10       // no version
            right +U a, 2, 20
            right -D a, 2, 30
            +I a, 1, 20             // an equal time counts
            +I a, 2, 19
            +I a, 3, 5              // nothing valid yet
            +I a, 4, 35             // deleted
            +I b, 5, 20             // another key
            +I null, 6, 20
            -- watermark 19
            right +I a, 9, 40
            -- watermark 20
            +I a, 7, 45
            -- watermark 44
            right +I c, 9, 60
            -- watermark 50
        ",
        "
            +I a, 2, 19, a, 1, 10
            +I a, 3, 5, null, null, null
            -- watermark 19
            +I a, 1, 20, a, 2, 20
            +I b, 5, 20, null, null, null
            +I null, 6, 20, null, null, null
            -- watermark 20
            +I a, 4, 35, null, null, null
            -- watermark 44
            +I a, 7, 45, a, 9, 40
            -- watermark 50
        ",
    );
}

#[test]
fn kinds_of_the_left_side_are_passed_on_and_a_condition_decides_about_the_version() {
    let stream = "
        right +I a, 1, 10
        right +U a, 5, 20
        +I a, 3, 15
        -U a, 3, 15
        +U a, 3, 25
        -D null, 0, 26
        right +I null, 9, 1
        -- end
    ";
    check_join(
        || join(JoinKind::Inner, true, true),
        stream,
        "
            +U a, 3, 25, a, 5, 20
            -D null, 0, 26, null, 9, 1
            -- watermark end
        ",
    );
    check_join(
        || join(JoinKind::Left, false, true),
        stream,
        "
            +I a, 3, 15, null, null, null
            -U a, 3, 15, null, null, null
            +U a, 3, 25, a, 5, 20
            -D null, 0, 26, null, null, null
            -- watermark end
        ",
    );
}

#[test]
fn a_late_row_meets_the_versions_that_are_left() {
    check_join(
        || join(JoinKind::Left, false, false),
        "
            right +I a, 1, 10
            right +I a, 2, 20
            -- watermark 50
            +I a, 1, 15             // 1 is forgotten
            +I a, 2, 30             // 2 is the newest
            +I a, 3, 45
            right +I a, 7, 40       // a late version: counts for rows that still wait
            -- watermark 51
            +I a, 4, 45
            +I a, 5, 30
            -- watermark 60
        ",
        "
            -- watermark 50
            +I a, 1, 15, null, null, null
            +I a, 2, 30, a, 2, 20
            +I a, 3, 45, a, 7, 40
            -- watermark 51
            +I a, 4, 45, a, 7, 40
            +I a, 5, 30, null, null, null
            -- watermark 60
        ",
    );
}

#[test]
fn versions_that_no_row_can_meet_are_forgotten() {
    let mut operator = join(JoinKind::Inner, false, false);
    let mut ctx = Context::new(super::super::Subtask::SINGLE, Default::default());
    let mut out = Output::new(false);
    for time in 0..1000 {
        let text = format!("+U a, {time}, {time}");
        let batch = super::super::test_bench::batch(&schema("r"), &text);
        let flow = operator.process_batch(&mut ctx, InputIndex::SECOND, batch, &mut out);
        assert_eq!(flow.unwrap(), Flow::Done);
    }
    assert_eq!(operator.versions.rows().len(), 1000);
    ctx.advance_watermark(EventTime(990));
    let flow = operator.process_watermark(&mut ctx, EventTime(990), &mut out);
    assert_eq!(flow.unwrap(), Flow::Done);
    assert_eq!(operator.versions.rows().len(), 10);
}

#[test]
fn keys_that_only_rows_had_are_forgotten() {
    let mut stream = String::from("right +I k7, 1, 0\n");
    let mut expected = String::new();
    for time in 1..200 {
        stream +=
            &format!("+I k{time}, 0, {time}\nright +I k7, {time}, {time}\n-- watermark {time}\n");
        let version = match time {
            7 => "k7, 7, 7",
            _ => "null, null, null",
        };
        expected += &format!("+I k{time}, 0, {time}, {version}\n-- watermark {time}\n");
    }
    check_join(|| join(JoinKind::Left, false, false), &stream, &expected);
}

/// Element by element, with a map of versions for each key.
#[derive(Default)]
struct Twin {
    waiting: Vec<(String, i32, i64)>,
    versions: BTreeMap<String, BTreeMap<i64, Option<i32>>>,
    lines: Vec<String>,
}

impl Twin {
    fn watermark(&mut self, watermark: i64, inner: bool) {
        let (due, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(_, _, time)| *time <= watermark);
        self.waiting = waiting;
        for (key, value, time) in due {
            let mut begun = self
                .versions
                .get(&key)
                .into_iter()
                .flat_map(|of_key| of_key.range(..=time));
            match begun.next_back() {
                Some((since, Some(version))) => self.lines.push(format!(
                    "+I {key}, {value}, {time}, {key}, {version}, {since}"
                )),
                _ if inner => {}
                _ => self
                    .lines
                    .push(format!("+I {key}, {value}, {time}, null, null, null")),
            }
        }
        for of_key in self.versions.values_mut() {
            if let Some((last, _)) = of_key.range(..=watermark).next_back() {
                *of_key = of_key.split_off(&last.clone());
            }
        }
    }
}

#[test]
fn random_streams_give_what_a_walk_over_their_elements_gives() {
    for seed in 0..60 {
        let mut random = SmallRng::seed_from_u64(seed);
        let inner = seed % 2 == 0;
        let (mut twin, mut stream, mut watermark) = (Twin::default(), String::new(), 0);
        // The bench makes one of watermarks that follow each other.
        let mut may_fire = false;
        for step in 0..120 {
            let key = ["a", "b", "c"][random.random_range(0..3)].to_string();
            let time = (watermark + random.random_range(-15..25)).max(0);
            let choice = random.random_range(0..if may_fire { 10 } else { 7 });
            may_fire = choice < 7;
            match choice {
                0..4 => {
                    stream += &format!("+I {key}, {step}, {time}\n");
                    twin.waiting.push((key, step, time));
                }
                4..7 => {
                    let deletes = random.random_bool(0.2);
                    let kind = if deletes { "-D" } else { "+U" };
                    stream += &format!("right {kind} {key}, {step}, {time}\n");
                    let of_key = twin.versions.entry(key).or_default();
                    of_key.insert(time, (!deletes).then_some(step));
                }
                _ => {
                    watermark += random.random_range(1..12);
                    stream += &format!("-- watermark {watermark}\n");
                    twin.watermark(watermark, inner);
                }
            }
        }
        stream += "-- end\n";
        twin.watermark(i64::MAX, inner);
        let kind = if inner {
            JoinKind::Inner
        } else {
            JoinKind::Left
        };
        for way in Way::ALL {
            let lines = run(
                &|| join(kind, false, false),
                &[&schema("l"), &schema("r")],
                &stream,
                way,
            );
            let rows: Vec<String> = lines
                .into_iter()
                .filter(|line| !line.starts_with("--"))
                .collect();
            assert_eq!(rows, twin.lines, "seed {seed}, {way:?}\n{stream}");
        }
    }
}

#[test]
fn keys_come_and_go() {
    use crate::operators::keyed_state::conformance::{Conformance, RandomRows, first_cell};
    let rows = || -> RandomRows {
        Box::new(|rng, input, time| {
            let key = ["a", "b", "c", "d", "null"][rng.random_range(0..5)];
            let kind = match input {
                0 => "+I",
                _ => ["+I", "+U", "-D", "-U"][rng.random_range(0..4)],
            };
            let value = rng.random_range(0..5);
            let time = time + rng.random_range(-20..30);
            format!("{kind} {key}, {value}, {time}")
        })
    };
    for kind in [JoinKind::Inner, JoinKind::Left] {
        for (null_safe, with_condition) in [(false, false), (true, true)] {
            let suite = Conformance {
                name: &format!("{kind:?} temporal join"),
                inputs: &[&schema("l"), &schema("r")],
                rows: &rows,
                output_key: &first_cell,
                watermarks: true,
                clock: false,
                bundles: false,
            };
            suite.check_seeds(0..25, || join(kind, null_safe, with_condition));
        }
    }
}
