use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::expr::{Expression, ExpressionContext};
use crate::operators::join::tests::random::{Result, Row, Table, drain, sides, text};
use crate::operators::join::tests::schema;
use crate::operators::test_bench::{batch, check};
use crate::operators::{JoinOperator, JoinSpec, RowIdentity, Subtask};
use crate::state::TimeToLive;
use crate::types::{JoinKind, LogicalType, RowKind, TimeZone};

const WIDTH: usize = 3;

fn side(identity: RowIdentity) -> JoinSide {
    JoinSide {
        schema: schema("v"),
        keys: vec![0],
        identity,
        updates_by_key: false,
        time_to_live: TimeToLive::NEVER,
    }
}

/// How a level of a test joins.
#[derive(Debug, Clone)]
struct Level {
    is_left: bool,
    joined_to: Vec<usize>,
    /// The input before it whose `v` must be less than its own.
    less_than: Option<usize>,
}

/// The columns of the first inputs, each with its number in the name.
fn joined_schema(inputs: usize) -> Schema {
    let mut fields = Vec::new();
    for _ in 0..inputs {
        fields.extend(schema("v").fields);
    }
    Schema::new(fields)
}

fn condition(own: usize, other: usize) -> JoinCondition {
    let column = |input: usize| Expression::column(input * WIDTH + 1, "v", LogicalType::INT);
    let less = Expression::call("<", vec![column(other), column(own)], LogicalType::BOOLEAN);
    let context = ExpressionContext {
        time_zone: TimeZone::UTC,
    };
    JoinCondition::new(&less, &joined_schema(own), &schema("v"), &context).unwrap()
}

fn spec(inputs: &[JoinSide], levels: &[Level]) -> MultiJoinSpec {
    let of_level = |(level, own): (&Level, usize)| MultiJoinLevel {
        is_left: level.is_left,
        joined_to: level.joined_to.clone(),
        condition: level.less_than.map(|other| condition(own, other)),
    };
    MultiJoinSpec {
        inputs: inputs.to_vec(),
        levels: levels.iter().zip(1..).map(of_level).collect(),
        output: joined_schema(inputs.len()),
    }
}

fn inner(joined_to: usize) -> Level {
    Level {
        is_left: false,
        joined_to: vec![joined_to],
        less_than: None,
    }
}

fn left(joined_to: usize) -> Level {
    Level {
        is_left: true,
        ..inner(joined_to)
    }
}

/// Three inputs, of which equal rows are counted.
fn checked(levels: [Level; 2], stream: &str, expected: &str) {
    let inputs = [(); 3].map(|()| side(RowIdentity::WholeRow));
    let make = || MultiJoinOperator::new(spec(&inputs, &levels)).unwrap();
    check(
        make,
        &[&schema("v"), &schema("v"), &schema("v")],
        stream,
        expected,
    );
}

#[test]
fn an_inner_chain_forwards_kinds() {
    checked(
        [inner(0), inner(0)],
        "
            +I 1, 5, 0
            right +I 1, 6, 0
            right +I null, 6, 0         // NULL equals nothing
            input2 +I 1, 7, 0
            input2 -U 1, 7, 0
            input2 +U 1, 8, 0
            -D 1, 5, 0
        ",
        "
            +I 1, 5, 0, 1, 6, 0, 1, 7, 0
            -U 1, 5, 0, 1, 6, 0, 1, 7, 0
            +U 1, 5, 0, 1, 6, 0, 1, 8, 0
            -D 1, 5, 0, 1, 6, 0, 1, 8, 0
        ",
    );
}

#[test]
fn a_left_join_in_the_middle_pads_what_follows_it() {
    checked(
        [left(0), inner(0)],
        "
            +I 1, 5, 0
            input2 +I 1, 7, 0
            right +I 1, 6, 0
            right +I 1, 9, 0
            right -D 1, 6, 0
            right -D 1, 9, 0
        ",
        "
            +I 1, 5, 0, null, null, null, 1, 7, 0
            -D 1, 5, 0, null, null, null, 1, 7, 0
            +I 1, 5, 0, 1, 6, 0, 1, 7, 0
            +I 1, 5, 0, 1, 9, 0, 1, 7, 0
            -D 1, 5, 0, 1, 6, 0, 1, 7, 0
            -D 1, 5, 0, 1, 9, 0, 1, 7, 0
            +I 1, 5, 0, null, null, null, 1, 7, 0
        ",
    );
}

#[test]
fn a_row_of_nulls_has_no_key_to_join_to() {
    checked(
        [left(0), left(1)],
        "
            input2 +I 1, 7, 0
            +I 1, 5, 0
            right +I 1, 6, 0
        ",
        "
            +I 1, 5, 0, null, null, null, null, null, null
            -D 1, 5, 0, null, null, null, null, null, null
            +I 1, 5, 0, 1, 6, 0, 1, 7, 0
        ",
    );
}

/// What the chain gives, by nested loops.
fn expected(tables: &[Table], levels: &[Level]) -> Vec<Row> {
    let mut rows: Vec<Row> = tables[0].rows.clone();
    for (level, table) in levels.iter().zip(&tables[1..]) {
        let mut next = Vec::new();
        for row in rows {
            let matches = |own: &&Row| {
                let key = own[0];
                let mut joined = level.joined_to.iter();
                joined.all(|other| key.is_some() && row[other * WIDTH] == key)
                    && level.less_than.is_none_or(|other| {
                        let (less, more) = (row[other * WIDTH + 1], own[1]);
                        less.is_some() && more.is_some() && less < more
                    })
            };
            let found: Vec<&Row> = table.rows.iter().filter(matches).collect();
            next.extend(
                found
                    .iter()
                    .map(|own| [row.clone(), (*own).clone()].concat()),
            );
            if found.is_empty() && level.is_left {
                next.push([row.clone(), vec![None; WIDTH]].concat());
            }
        }
        rows = next;
    }
    rows.sort();
    rows
}

/// The binary joins that a chain stands for.
struct Binary(Vec<JoinOperator>);

impl Binary {
    fn new(inputs: &[JoinSide], levels: &[Level]) -> Self {
        let of_level = |(level, own): (&Level, usize)| {
            let before = JoinSide {
                schema: joined_schema(own),
                keys: level.joined_to.iter().map(|other| other * WIDTH).collect(),
                ..match own {
                    1 => inputs[0].clone(),
                    _ => side(RowIdentity::WholeRow),
                }
            };
            let own_side = JoinSide {
                keys: vec![0; level.joined_to.len()],
                ..inputs[own].clone()
            };
            JoinOperator::new(JoinSpec {
                kind: match level.is_left {
                    true => JoinKind::Left,
                    false => JoinKind::Inner,
                },
                null_safe: vec![false; level.joined_to.len()],
                condition: level.less_than.map(|other| condition(own, other)),
                left: before,
                right: own_side,
                output: joined_schema(own + 1),
                mini_batch_rows: None,
            })
            .unwrap()
        };
        Binary(levels.iter().zip(1..).map(of_level).collect())
    }

    fn take(&mut self, input: usize, rows: ChangelogBatch) -> Vec<(RowKind, Row)> {
        let mut ctx = Context::new(Subtask::SINGLE, Default::default());
        let mut out = Output::new(false).with_limit(1 << 20);
        let (mut level, mut side) = (input.saturating_sub(1), input.min(1));
        let mut rows = rows;
        loop {
            let operator = &mut self.0[level];
            let flow = operator.process_batch(&mut ctx, InputIndex(side), rows, &mut out);
            let changes = drain(operator, &mut ctx, &mut out, flow.unwrap());
            level += 1;
            if level == self.0.len() || changes.is_empty() {
                return changes;
            }
            rows = batch(&joined_schema(level + 1), &text(&changes));
            side = 0;
        }
    }
}

fn scenario(rng: &mut SmallRng) -> (Vec<JoinSide>, Vec<Level>) {
    let count = rng.random_range(2..5);
    let kinds = sides("v");
    let inputs: Vec<JoinSide> = (0..count)
        .map(|_| kinds[rng.random_range(0..kinds.len())].clone())
        .collect();
    let level = |own: usize, rng: &mut SmallRng| {
        let mut joined_to: Vec<usize> = (0..own).filter(|_| rng.random_bool(0.4)).collect();
        if joined_to.is_empty() {
            joined_to.push(rng.random_range(0..own));
        }
        let other = rng.random_range(0..own);
        let may_be_read = !inputs[other].updates_by_key && rng.random_bool(0.4);
        Level {
            is_left: rng.random_bool(0.5),
            joined_to,
            less_than: may_be_read.then_some(other),
        }
    };
    let levels = (1..count).map(|own| level(own, rng)).collect();
    (inputs, levels)
}

fn compare(seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let (inputs, levels) = scenario(&mut rng);
    let by_key = inputs.iter().any(|side| side.updates_by_key);
    let table = |side: &JoinSide| Table {
        side: side.clone(),
        rows: Vec::new(),
        updates: !by_key,
    };
    let mut tables: Vec<Table> = inputs.iter().map(table).collect();
    let make = || MultiJoinOperator::new(spec(&inputs, &levels)).unwrap();
    let mut operator = make();
    let mut binary = Binary::new(&inputs, &levels);
    let mut ctx = Context::new(Subtask::SINGLE, Default::default());
    let mut out = Output::new(false).with_limit([0, 1 << 20][(seed % 2) as usize]);
    let empty = || Result {
        rows: BTreeMap::new(),
        by_key,
    };
    let (mut result, mut result_of_binary) = (empty(), empty());
    for _ in 0..12 {
        let input = rng.random_range(0..inputs.len());
        let mut changes = Vec::new();
        for _ in 0..rng.random_range(1..6) {
            changes.extend(tables[input].change(&mut rng));
        }
        let rows = batch(&inputs[input].schema, &text(&changes));
        let flow = operator.process_batch(&mut ctx, InputIndex(input), rows.clone(), &mut out);
        let given = drain(&mut operator, &mut ctx, &mut out, flow.unwrap());
        let key = |row: &Row| -> Row {
            let parts = row.chunks(WIDTH).zip(&tables);
            parts
                .flat_map(|(part, table)| table.key(&part.to_vec()))
                .collect()
        };
        for (kind, row) in given {
            result.take(kind, row, &key);
        }
        let context = format!(
            "seed {seed}, {levels:?}, input {input} after\n{}",
            text(&changes)
        );
        assert_eq!(result.sorted(), expected(&tables, &levels), "{context}");
        if !by_key {
            for (kind, row) in binary.take(input, rows) {
                result_of_binary.take(kind, row, &key);
            }
            assert_eq!(result.sorted(), result_of_binary.sorted(), "{context}");
        }
        if rng.random_bool(0.2) {
            let snapshot = operator.snapshot_state(&mut ctx, CheckpointId(1)).unwrap();
            operator = make();
            operator.restore_state(&mut ctx, snapshot).unwrap();
        }
    }
}

#[test]
fn chains_agree_with_nested_loops_and_with_binary_joins() {
    (0..1500).for_each(compare);
}

#[test]
fn keys_come_and_go() {
    use crate::operators::keyed_state::conformance::{Conformance, RandomRows};
    let shapes = [
        vec![inner(0), inner(0)],
        vec![left(0), inner(1)],
        vec![left(0), left(0)],
        vec![
            Level {
                less_than: Some(0),
                ..left(0)
            },
            left(1),
        ],
    ];
    let mut seed = 0;
    for levels in shapes {
        for side in [RowIdentity::WholeRow, RowIdentity::UniqueKey(vec![0, 2])].map(side) {
            let inputs = [side.clone(), side.clone(), side.clone()];
            let rows = || -> RandomRows {
                let table = |side: &JoinSide| Table {
                    side: side.clone(),
                    rows: Vec::new(),
                    updates: true,
                };
                let mut tables = inputs.each_ref().map(table);
                Box::new(move |rng, input, _| text(&tables[input].change(rng)))
            };
            let schema = schema("v");
            let suite = Conformance {
                name: &format!("multi-join {levels:?} of {:?}", side.identity),
                inputs: &[&schema, &schema, &schema],
                rows: &rows,
                output_key: &|cells| cells[0].to_string(),
                watermarks: false,
                clock: false,
                bundles: false,
            };
            suite.check_seeds(seed..seed + 8, || {
                MultiJoinOperator::new(spec(&inputs, &levels)).unwrap()
            });
            seed += 8;
        }
    }
}
