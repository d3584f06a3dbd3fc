use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::operators::keyed_state::conformance::{Conformance, RandomRows};
use crate::operators::test_bench::{Way, check, run};
use crate::state::HashMapStateBackend;
use crate::types::{Field, LogicalType, TimeZone, TypeRoot};

const KINDS: [JoinKind; 6] = [
    JoinKind::Inner,
    JoinKind::Left,
    JoinKind::Right,
    JoinKind::Full,
    JoinKind::Semi,
    JoinKind::Anti,
];

fn schema(value: &str) -> Schema {
    let time = LogicalType::nullable(TypeRoot::Timestamp(3));
    Schema::new(vec![
        Field::new("k", LogicalType::STRING),
        Field::new(value, LogicalType::INT),
        Field::new("window_end", time),
    ])
}

/// A join on `k`, with the condition `l < r` where it is asked for.
fn join(kind: JoinKind, null_safe: bool, with_condition: bool) -> WindowJoinOperator {
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
    let condition = JoinCondition::new(&less, &left, &right, &context).unwrap();
    let side = |schema: &Schema| WindowJoinSide {
        schema: schema.clone(),
        window_end: 2,
        session_start: None,
        keys: vec![0],
    };
    let spec = WindowJoinSpec {
        kind,
        left: side(&left),
        right: side(&right),
        null_safe: vec![null_safe],
        condition: with_condition.then_some(condition),
        window_time: WindowTime::EventTimestamp,
        output: if kind.is_left_only() {
            left
        } else {
            left.join(&right)
        },
    };
    WindowJoinOperator::new(spec, &HashMapStateBackend).unwrap()
}

#[test]
fn rows_of_equal_windows_and_keys_are_joined_when_the_window_ends() {
    check(
        || join(JoinKind::Full, false, false),
        &[&schema("l"), &schema("r")],
        "
            +I a, 1, 10
            right +I a, 2, 10
            right +I a, 3, 20       // another window
            +I b, 4, 10
            right +I c, 5, 10
            -- watermark 9
            right +I a, 6, 10       // late
            +I a, 7, 20
            -- end
        ",
        "
            +I a, 1, 10, a, 2, 10
            +I b, 4, 10, null, null, null
            +I null, null, null, c, 5, 10
            -- watermark 9
            +I a, 7, 20, a, 3, 20
            -- watermark end
            late a, 6, 10
        ",
    );
}

#[test]
fn null_equals_null_only_where_the_key_is_null_safe() {
    let stream = "+I null, 1, 10\nright +I null, 2, 10\n-- end";
    let inputs = [&schema("l"), &schema("r")];
    check(
        || join(JoinKind::Inner, false, false),
        &inputs,
        stream,
        "-- watermark end",
    );
    check(
        || join(JoinKind::Inner, true, false),
        &inputs,
        stream,
        "
            +I null, 1, 10, null, 2, 10
            -- watermark end
        ",
    );
    check(
        || join(JoinKind::Anti, false, false),
        &inputs,
        stream,
        "
            +I null, 1, 10
            -- watermark end
        ",
    );
}

type Row = (Option<i64>, i64, i64);

fn line(prefix: &str, (key, value, end): Row) -> String {
    format!("{prefix}+I {}, {value}, {end}\n", cell(key))
}

fn cell(key: Option<i64>) -> String {
    key.map_or("null".to_string(), |key| key.to_string())
}

/// Every left row against every right row.
fn nested_loops(
    kind: JoinKind,
    null_safe: bool,
    with_condition: bool,
    left: &[Row],
    right: &[Row],
) -> Vec<String> {
    let pairs = |l: &Row, r: &Row| {
        let keys = l.0 == r.0 && (null_safe || l.0.is_some());
        keys && l.2 == r.2 && (!with_condition || l.1 < r.1)
    };
    let text = |row: &Row| format!("{}, {}, {}", cell(row.0), row.1, row.2);
    let none = "null, null, null";
    let mut lines = Vec::new();
    for l in left {
        let partners: Vec<&Row> = right.iter().filter(|r| pairs(l, r)).collect();
        match kind {
            JoinKind::Semi if !partners.is_empty() => lines.push(format!("+I {}", text(l))),
            JoinKind::Anti if partners.is_empty() => lines.push(format!("+I {}", text(l))),
            JoinKind::Semi | JoinKind::Anti => {}
            _ => {
                let pairs = partners
                    .iter()
                    .map(|r| format!("+I {}, {}", text(l), text(r)));
                lines.extend(pairs);
                if partners.is_empty() && kind.keeps_left() {
                    lines.push(format!("+I {}, {none}", text(l)));
                }
            }
        }
    }
    if kind.keeps_right() {
        let alone = right.iter().filter(|r| !left.iter().any(|l| pairs(l, r)));
        lines.extend(alone.map(|r| format!("+I {none}, {}", text(r))));
    }
    lines.sort();
    lines
}

#[test]
fn random_streams_agree_with_nested_loops() {
    let mut random = SmallRng::seed_from_u64(11);
    for round in 0..24 {
        let kind = KINDS[round % 6];
        let (null_safe, with_condition) = (round % 4 < 2, round % 5 < 3);
        let mut row = || -> Row {
            let key = random.random_range(0..5);
            (
                (key > 0).then_some(key),
                random.random_range(0..6),
                10 * random.random_range(1..4),
            )
        };
        let left: Vec<Row> = (0..15).map(|_| row()).collect();
        let right: Vec<Row> = (0..15).map(|_| row()).collect();
        let mut stream = String::new();
        for (l, r) in left.iter().zip(&right) {
            stream += &line("", *l);
            stream += &line("right ", *r);
        }
        let expected = nested_loops(kind, null_safe, with_condition, &left, &right);
        for way in Way::ALL {
            let mut actual = run(
                &|| join(kind, null_safe, with_condition),
                &[&schema("l"), &schema("r")],
                &format!("{stream}-- end"),
                way,
            );
            actual.retain(|line| line.starts_with("+I"));
            actual.sort();
            assert_eq!(actual, expected, "{kind:?} {way:?}");
        }
    }
}

#[test]
fn many_pairs_of_one_window_come_in_bounded_batches() {
    let row = |prefix: &str, value: usize| line(prefix, (Some(1), value as i64, 10));
    let left: String = (0..300).map(|value| row("", value)).collect();
    let right: String = (0..100).map(|value| row("", value)).collect();
    let batch = crate::operators::test_bench::batch;
    let mut operator = join(JoinKind::Inner, false, false);
    let mut ctx = Context::new(crate::operators::Subtask::SINGLE, Default::default());
    let mut out = Output::new(false).with_limit(0);
    for (input, rows) in [
        (0, batch(&schema("l"), &left)),
        (1, batch(&schema("r"), &right)),
    ] {
        let flow = operator.process_batch(&mut ctx, InputIndex(input), rows, &mut out);
        assert_eq!(flow.unwrap(), Flow::Done);
    }
    ctx.advance_watermark(EventTime::MAX);
    let mut flow = operator
        .process_watermark(&mut ctx, EventTime::MAX, &mut out)
        .unwrap();
    let mut sizes = Vec::new();
    loop {
        while let Some(element) = out.pop() {
            if let crate::stream::StreamElement::Batch(batch) = element {
                sizes.push(batch.num_rows());
            }
        }
        if flow == Flow::Done {
            break;
        }
        flow = operator.resume(&mut ctx, &mut out).unwrap();
    }
    assert_eq!(sizes.iter().sum::<usize>(), 30_000);
    assert!(sizes.iter().all(|rows| *rows <= OUTPUT_ROWS), "{sizes:?}");
}

#[test]
fn windows_fire_for_the_keys_that_are_there() {
    let rows = || -> RandomRows {
        Box::new(|rng: &mut SmallRng, _, time| {
            let end = ((time + rng.random_range(-20..10)).div_euclid(10) + 1) * 10;
            let (key, value) = (rng.random_range(0..6), rng.random_range(0..9));
            match key {
                0 => format!("+I null, {value}, {end}"),
                key => format!("+I k{key}, {value}, {end}"),
            }
        })
    };
    let key = |cells: &[&str]| format!("{} {:?}", cells[0], cells.get(3));
    let null_safe = KINDS.iter().map(|kind| (*kind, *kind == JoinKind::Left));
    for (kind, null_safe) in null_safe.chain([(JoinKind::Full, true)]) {
        Conformance {
            name: &format!("{kind:?} window join"),
            inputs: &[&schema("l"), &schema("r")],
            rows: &rows,
            output_key: &key,
            watermarks: true,
            clock: false,
            bundles: false,
        }
        .check(|| join(kind, null_safe, true));
    }
}
