use super::*;
use crate::functions::{AfterMatch, PatternStep};
use crate::operators::test_bench::{Way, run};
use crate::types::{Field, LogicalType, TypeRoot};

fn input() -> Schema {
    Schema::new(vec![
        Field::new("k", LogicalType::STRING),
        Field::new("v", LogicalType::INT),
        Field::new("ts", LogicalType::nullable(TypeRoot::Timestamp(3))),
    ])
}

fn step(variable: &str, least: u32, most: Option<u32>, greedy: bool) -> PatternStep {
    PatternStep {
        variable: variable.to_string(),
        least,
        most,
        greedy,
    }
}

fn column(index: usize) -> Expression {
    Expression::column(index, "n", LogicalType::INT)
}

fn compared(sign: &str, left: usize, right: usize) -> Option<Expression> {
    let arguments = vec![column(left), column(right)];
    Some(Expression::call(sign, arguments, LogicalType::BOOLEAN))
}

/// `A B+ C`: B falls below the row before it, C rises above the last of B; the first of A, the last of B, C.
fn falling(after_match: AfterMatch, within_ms: Option<i64>) -> MatchSpec {
    let last = |variable: Option<usize>, offset| Navigation::Last {
        variable,
        column: 1,
        offset,
    };
    let navigations = vec![
        last(None, 0),
        last(None, 1),
        last(Some(0), 0),
        last(Some(1), 0),
        last(Some(2), 0),
    ];
    let mut output = vec![input().fields[0].clone()];
    output.extend(["a", "b", "c"].map(|name| Field::new(name, LogicalType::INT)));
    MatchSpec {
        input: input(),
        output: Schema::new(output),
        partition_by: vec![0],
        time_column: Some(2),
        then_by: vec![],
        pattern: MatchPattern {
            steps: vec![
                step("A", 1, Some(1), false),
                step("B", 1, None, true),
                step("C", 1, Some(1), false),
            ],
            after_match,
            within_ms,
        },
        navigations: navigations
            .into_iter()
            .map(|navigation| (navigation, DataType::Int32))
            .collect(),
        conditions: vec![None, compared("<", 0, 1), compared(">", 0, 1)],
        measures: vec![column(2), column(3), column(4)],
        context: ExpressionContext {
            time_zone: crate::types::TimeZone::UTC,
        },
    }
}

const STREAM: &str = "
    +I x, 9, 1
    +I x, 7, 3
    +I y, 5, 2
    +I x, 8, 2      // between them
    -- watermark 3
    +I x, 1, 3      // late
    +I x, 8, 5
    +I y, 4, 6
    +I x, 3, 7
    +I x, 6, 8
    +I y, 6, 9
    -- watermark 20
";

/// Watermarks between rows that do not need them may be left out: rows and late rows alone are compared.
fn check_rows(spec: MatchSpec, expected: &[&str]) {
    for way in Way::ALL {
        let make = || MatchOperator::new(spec.clone()).unwrap();
        let lines = run(&make, &[&input()], STREAM, way);
        let rows = lines.iter().filter(|line| !line.starts_with("--"));
        assert_eq!(rows.collect::<Vec<_>>(), expected, "{way:?}");
    }
}

#[test]
fn every_row_may_begin_a_match() {
    check_rows(
        falling(AfterMatch::ToNextRow, None),
        &[
            "+I x, 9, 7, 8",
            "+I x, 8, 7, 8",
            "+I x, 8, 3, 6",
            "+I y, 5, 4, 6",
            "late x, 1, 3",
        ],
    );
}

#[test]
fn matches_may_be_kept_apart_and_short() {
    let expected = ["+I x, 9, 7, 8", "late x, 1, 3"];
    check_rows(falling(AfterMatch::PastLastRow, Some(7)), &expected);
}

#[test]
fn all_ways_agree_on_random_rows() {
    let mut state = 7u64;
    let mut below = |bound: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) % bound
    };
    for after_match in [
        AfterMatch::ToNextRow,
        AfterMatch::PastLastRow,
        AfterMatch::ToLast(1),
    ] {
        let mut stream = String::new();
        for now in 0..120 {
            let (key, value, time) = (below(3), below(9), now + 10 - below(4));
            stream += &format!("+I k{key}, {value}, {time}\n");
            if below(3) == 0 && now > 4 {
                stream += &format!("-- watermark {}\n", now + 4);
            }
        }
        stream += "-- watermark 1000\n";
        let spec = falling(after_match, Some(9));
        let make = || MatchOperator::new(spec.clone()).unwrap();
        let rows = |way| {
            let lines = run(&make, &[&input()], &stream, way);
            let rows = lines.into_iter().filter(|line| !line.starts_with("--"));
            rows.collect::<Vec<_>>()
        };
        let expected = rows(Way::SizeOne);
        assert!(expected.len() > 5, "{expected:?}");
        for way in Way::ALL {
            assert_eq!(rows(way), expected, "{way:?} {after_match:?}\n{stream}");
        }
    }
}

#[test]
fn keys_come_and_go() {
    use crate::operators::keyed_state::conformance::{Conformance, RandomRows, first_cell};
    use rand::Rng;
    let rows = || -> RandomRows {
        Box::new(|rng, _, time| {
            let key = ["a", "b", "c", "d", "null"][rng.random_range(0..5)];
            let value = rng.random_range(0..9);
            let time = time + rng.random_range(-20..20);
            format!("+I {key}, {value}, {time}")
        })
    };
    let skips = [
        AfterMatch::PastLastRow,
        AfterMatch::ToNextRow,
        AfterMatch::ToLast(1),
    ];
    for (seed, after_match) in (0..).zip(skips) {
        for (number, within_ms) in (0..).zip([None, Some(15), Some(60)]) {
            for event_time in [true, false] {
                let spec = MatchSpec {
                    time_column: event_time.then_some(2),
                    ..falling(after_match, within_ms)
                };
                let suite = Conformance {
                    name: &format!(
                        "{after_match:?} within {within_ms:?}, event time: {event_time}"
                    ),
                    inputs: &[&input()],
                    rows: &rows,
                    output_key: &first_cell,
                    watermarks: event_time,
                    clock: !event_time,
                    bundles: false,
                };
                let first = 100 * seed + 10 * number;
                let make = || MatchOperator::new(spec.clone()).unwrap();
                suite.check_seeds(first..first + 6, make);
            }
        }
    }
}
