use super::*;
use crate::expr::{Expression, ExpressionContext};
use crate::operators::test_bench::{Way, check, run};
use crate::state::TimeToLive;
use crate::types::{Field, LogicalType, TimeZone};

mod keyed;
pub(in crate::operators) mod random;

const KINDS: [JoinKind; 6] = [
    JoinKind::Inner,
    JoinKind::Left,
    JoinKind::Right,
    JoinKind::Full,
    JoinKind::Semi,
    JoinKind::Anti,
];

pub(in crate::operators) fn schema(value: &str) -> Schema {
    Schema::new(vec![
        Field::new("k", LogicalType::INT),
        Field::new(value, LogicalType::INT),
        Field::new("id", LogicalType::INT),
    ])
}

fn side(value: &str, identity: RowIdentity) -> JoinSide {
    JoinSide {
        schema: schema(value),
        keys: vec![0],
        identity,
        updates_by_key: false,
        time_to_live: TimeToLive::NEVER,
    }
}

fn by_key(value: &str, identity: RowIdentity) -> JoinSide {
    JoinSide {
        updates_by_key: true,
        ..side(value, identity)
    }
}

/// `l < r`.
fn less() -> JoinCondition {
    let column = |index: usize, name: &str| Expression::column(index, name, LogicalType::INT);
    let sides = vec![column(1, "l"), column(4, "r")];
    let less = Expression::call("<", sides, LogicalType::BOOLEAN);
    let context = ExpressionContext {
        time_zone: TimeZone::UTC,
    };
    JoinCondition::new(&less, &schema("l"), &schema("r"), &context).unwrap()
}

fn join(kind: JoinKind, left: JoinSide, right: JoinSide) -> JoinSpec {
    let output = match kind.is_left_only() {
        true => left.schema.clone(),
        false => left.schema.join(&right.schema),
    };
    JoinSpec {
        kind,
        left,
        right,
        null_safe: vec![false],
        condition: None,
        output,
        mini_batch_rows: None,
    }
}

fn checked(spec: impl Fn() -> JoinSpec, stream: &str, expected: &str) {
    let make = || JoinOperator::new(spec()).unwrap();
    check(make, &[&schema("l"), &schema("r")], stream, expected);
}

#[test]
fn an_inner_join_forwards_kinds_and_counts_equal_rows() {
    checked(
        || {
            let row = RowIdentity::WholeRow;
            join(JoinKind::Inner, side("l", row.clone()), side("r", row))
        },
        "
            +I 1, 5, 0
            +I 1, 5, 0
            right +I 1, 7, 0        // two pairs
            right -U 1, 7, 0
            right +U 1, 8, 0
            -D 1, 5, 0              // one of the two goes
        ",
        "
            +I 1, 5, 0, 1, 7, 0
            +I 1, 5, 0, 1, 7, 0
            -U 1, 5, 0, 1, 7, 0
            -U 1, 5, 0, 1, 7, 0
            +U 1, 5, 0, 1, 8, 0
            +U 1, 5, 0, 1, 8, 0
            -D 1, 5, 0, 1, 8, 0
        ",
    );
}

#[test]
fn an_outer_join_speaks_inserts_and_deletes() {
    checked(
        || {
            let row = RowIdentity::WholeRow;
            join(JoinKind::Left, side("l", row.clone()), side("r", row))
        },
        "
            +I 1, 5, 0
            right +I 1, 7, 0
            right -U 1, 7, 0
            right +U 1, 8, 0
            right +I 1, 9, 0
            right -D 1, 8, 0
            right -D 1, 9, 0
            +I null, 6, 0           // NULL equals nothing
            right +I null, 6, 0
        ",
        "
            +I 1, 5, 0, null, null, null
            -D 1, 5, 0, null, null, null
            +I 1, 5, 0, 1, 7, 0
            -D 1, 5, 0, 1, 7, 0
            +I 1, 5, 0, null, null, null
            -D 1, 5, 0, null, null, null
            +I 1, 5, 0, 1, 8, 0
            +I 1, 5, 0, 1, 9, 0
            -D 1, 5, 0, 1, 8, 0
            -D 1, 5, 0, 1, 9, 0
            +I 1, 5, 0, null, null, null
            +I null, 6, 0, null, null, null
        ",
    );
}

#[test]
fn an_update_by_key_replaces_the_row_in_its_pairs() {
    checked(
        || {
            let (left, right) = (
                side("l", RowIdentity::JoinKey),
                by_key("r", RowIdentity::JoinKey),
            );
            join(JoinKind::Left, left, right)
        },
        "
            +I 1, 5, 0
            right +I 1, 7, 0
            right +U 1, 8, 0
            right -D 1, null, null      // the key only
        ",
        "
            +I 1, 5, 0, null, null, null
            -D 1, 5, 0, null, null, null
            +I 1, 5, 0, 1, 7, 0
            +U 1, 5, 0, 1, 8, 0
            -D 1, 5, 0, 1, 8, 0
            +I 1, 5, 0, null, null, null
        ",
    );
}

#[test]
fn an_update_by_key_may_leave_its_partners() {
    checked(
        || JoinSpec {
            condition: Some(less()),
            ..join(
                JoinKind::Full,
                by_key("l", RowIdentity::UniqueKey(vec![0, 2])),
                side("r", RowIdentity::WholeRow),
            )
        },
        "
            right +I 1, 7, 0
            +I 1, 5, 0
            +U 1, 9, 0
            +U 1, 10, 0
            +U 1, 6, 0
        ",
        "
            +I null, null, null, 1, 7, 0
            -D null, null, null, 1, 7, 0
            +I 1, 5, 0, 1, 7, 0
            -D 1, 5, 0, 1, 7, 0
            +I null, null, null, 1, 7, 0
            +I 1, 9, 0, null, null, null
            +U 1, 10, 0, null, null, null
            -D 1, 10, 0, null, null, null
            -D null, null, null, 1, 7, 0
            +I 1, 6, 0, 1, 7, 0
        ",
    );
}

#[test]
fn semi_and_anti_joins_follow_the_last_partner() {
    let stream = "
        +I 1, 5, 0
        right +I 1, 7, 0
        right +I 1, 7, 0
        right -D 1, 7, 0
        +I 1, 6, 0
        right -D 1, 7, 0
    ";
    let spec = |kind: JoinKind| {
        let row = RowIdentity::WholeRow;
        join(kind, side("l", row.clone()), side("r", row))
    };
    checked(
        || spec(JoinKind::Semi),
        stream,
        "
            +I 1, 5, 0
            +I 1, 6, 0
            -D 1, 5, 0
            -D 1, 6, 0
        ",
    );
    checked(
        || spec(JoinKind::Anti),
        stream,
        "
            +I 1, 5, 0
            -D 1, 5, 0
            +I 1, 5, 0
            +I 1, 6, 0
        ",
    );
}

#[test]
fn a_side_forgets_rows_that_were_not_written_for_its_time_to_live() {
    checked(
        || {
            let mut left = side("l", RowIdentity::WholeRow);
            left.time_to_live = TimeToLive::of_millis(1000);
            join(JoinKind::Inner, left, side("r", RowIdentity::None))
        },
        "
            +I 1, 5, 0
            +I 2, 5, 0
            -- clock 900
            right +I 1, 7, 0        // a read is no write
            +I 2, 5, 0              // a write: both copies live on
            -- clock 1000
            right +I 1, 8, 0        // nothing
            right +I 2, 8, 0
            -- clock 1900
            right +I 2, 9, 0        // nothing
            +I 1, 6, 0              // the right side never forgets
        ",
        "
            +I 1, 5, 0, 1, 7, 0
            +I 2, 5, 0, 2, 8, 0
            +I 2, 5, 0, 2, 8, 0
            +I 1, 6, 0, 1, 7, 0
            +I 1, 6, 0, 1, 8, 0
        ",
    );
}

#[test]
fn without_keys_every_row_meets_every_row() {
    checked(
        || {
            let mut left = side("l", RowIdentity::None);
            let mut right = by_key("r", RowIdentity::JoinKey);
            (left.keys, right.keys) = (vec![], vec![]);
            JoinSpec {
                null_safe: vec![],
                condition: Some(less()),
                ..join(JoinKind::Inner, left, right)
            }
        },
        "
            +I 1, 5, 0
            +I 2, 9, 0
            right +I 0, 6, 0
            right +U 0, 10, 0
            right +U 0, 9, 0
            +I null, 1, 0
        ",
        "
            +I 1, 5, 0, 0, 6, 0
            +U 1, 5, 0, 0, 10, 0
            +I 2, 9, 0, 0, 10, 0
            +U 1, 5, 0, 0, 9, 0
            -D 2, 9, 0, 0, 10, 0
            +I null, 1, 0, 0, 9, 0
        ",
    );
}

#[test]
fn deletes_give_memory_back() {
    let spec = join(
        JoinKind::Left,
        side("l", RowIdentity::UniqueKey(vec![2])),
        side("r", RowIdentity::WholeRow),
    );
    let mut operator = JoinOperator::new(spec).unwrap();
    let mut ctx = Context::new(crate::operators::Subtask::SINGLE, Default::default());
    let mut out = Output::new(false);
    for round in 0..50 {
        for kind in ["+I", "-D"] {
            let row = |row: i32| format!("{kind} {0}, {0}, {0}", round * 1000 + row);
            let text: Vec<String> = (0..1000).map(row).collect();
            for (input, value) in [(InputIndex::FIRST, "l"), (InputIndex::SECOND, "r")] {
                let batch = crate::operators::test_bench::batch(&schema(value), &text.join("\n"));
                let flow = operator
                    .process_batch(&mut ctx, input, batch, &mut out)
                    .unwrap();
                assert_eq!(flow, Flow::Done);
            }
            while out.pop().is_some() {}
        }
    }
    for side in &operator.state.sides {
        assert!(side.slab.is_empty());
        assert!(side.slab.capacity() <= 2000);
    }
    assert!(operator.state.groups.len() < 10_000);
}

#[test]
fn a_bundle_gives_its_net_change() {
    let make = || {
        let row = || RowIdentity::WholeRow;
        JoinOperator::new(JoinSpec {
            mini_batch_rows: Some(4),
            ..join(JoinKind::Left, side("l", row()), side("r", row()))
        })
        .unwrap()
    };
    let stream = "
        +I 1, 5, 0
        right +I 1, 7, 0
        right -U 1, 7, 0
        right +U 1, 8, 0        // the fourth row: no padded row was ever there
        right -D 1, 8, 0
        right +I 1, 9, 0        // nor between the two
        -- watermark 10
        right -D 1, 9, 0
        -D 1, 5, 0
        +I 2, 5, 0
        -- watermark 20
    ";
    let expected = [
        "+I 1, 5, 0, 1, 8, 0",
        "-D 1, 5, 0, 1, 8, 0",
        "+I 1, 5, 0, 1, 9, 0",
        "-- watermark 10",
        "-D 1, 5, 0, 1, 9, 0",
        "+I 2, 5, 0, null, null, null",
        "-- watermark 20",
    ];
    for way in [Way::SizeOne, Way::Whole, Way::Blocked] {
        let schemas = [&schema("l"), &schema("r")];
        assert_eq!(run(&make, &schemas, stream, way), expected, "{way:?}");
    }
}
