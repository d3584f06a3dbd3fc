//! What holds for every expression: laziness, errors that name the row, agreement of batches and single rows.

use std::sync::Arc;

use arrow::array::*;

use super::testing::*;
use super::*;
use crate::error::ErrorKind;
use crate::functions::{bind_scalar, can_fail};
use crate::stream::{WatermarkStep, WatermarkSteps};
use crate::types::{EventTime, ProcessingTime, SqlPosition, TypeRoot};

fn ints(values: &[Option<i32>]) -> (TypeRoot, ArrayRef) {
    (TypeRoot::Int, Arc::new(Int32Array::from(values.to_vec())))
}

fn a() -> Expression {
    column(0, TypeRoot::Int)
}

fn b() -> Expression {
    column(1, TypeRoot::Int)
}

/// `a / b > 2`
fn quotient_is_above_two() -> Expression {
    call(">", &[call("/", &[a(), b()]), int(2)])
}

fn in_cuts(expression: &Expression, rows: &RecordBatch, size: usize) -> Vec<Option<String>> {
    let mut values = Vec::new();
    let mut offset = 0;
    while offset < rows.num_rows() {
        let length = size.min(rows.num_rows() - offset);
        let part = rows.slice(offset, length);
        values.extend(evaluate(expression, &part, &ExpressionContext::default()).unwrap());
        offset += length;
    }
    values
}

#[test]
fn a_guarded_division_never_fails_at_any_batch_size() {
    let rows = batch(&[
        ints(&[Some(8), Some(8), Some(1), Some(9), None]),
        ints(&[Some(0), Some(2), Some(0), Some(3), Some(1)]),
    ]);
    let guarded = call(
        "AND",
        &[call("<>", &[b(), int(0)]), quotient_is_above_two()],
    );
    assert!(can_fail(&guarded));
    let expected = ["FALSE", "TRUE", "FALSE", "TRUE", "NULL"];
    for size in 1..=5 {
        let values = in_cuts(&guarded, &rows, size);
        let texts: Vec<&str> = values
            .iter()
            .map(|v| v.as_deref().unwrap_or("NULL"))
            .collect();
        assert_eq!(texts, expected, "batches of {size}");
    }
}

/// Every share of rows that the left side leaves open, NULLs on both sides, against a loop a row.
#[test]
fn laziness_holds_for_every_selectivity() {
    let guard = [Some(true), Some(false), None];
    for rows in [1, 2, 7, 64, 65] {
        for open in 0..=rows {
            let guards: BooleanArray = (0..rows)
                .map(|row| {
                    if row < open {
                        guard[(row % 2) * 2]
                    } else {
                        guard[1]
                    }
                })
                .collect();
            let divisors: Vec<Option<i32>> = (0..rows)
                .map(|row| (row < open).then_some(1 + row as i32 % 3).or(Some(0)))
                .map(|divisor| divisor.filter(|divisor| *divisor != 2))
                .collect();
            let rows = batch(&[
                ints(&vec![Some(6); rows]),
                ints(&divisors),
                (TypeRoot::Boolean, Arc::new(guards.clone())),
            ]);
            let right = quotient_is_above_two();
            let and = call("AND", &[column(2, TypeRoot::Boolean), right.clone()]);
            let or = call(
                "OR",
                &[call("NOT", &[column(2, TypeRoot::Boolean)]), right.clone()],
            );
            let case = call(
                "CASE",
                &[
                    column(2, TypeRoot::Boolean),
                    call("/", &[a(), b()]),
                    int(-1),
                ],
            );
            for expression in [and, or, case] {
                let whole = in_cuts(&expression, &rows, rows.num_rows());
                assert_eq!(
                    in_cuts(&expression, &rows, 1),
                    whole,
                    "{expression}, {open} open"
                );
            }
        }
    }
}

#[test]
fn coalesce_and_if_evaluate_only_what_they_need() {
    let rows = batch(&[
        ints(&[Some(1), None, Some(3), None]),
        ints(&[Some(0), Some(2), Some(0), Some(4)]),
    ]);
    let fallback = call("/", &[int(100), b()]);
    let coalesce = call("COALESCE", &[a(), fallback.clone()]);
    let expected = vec![
        Some("1".to_string()),
        Some("50".into()),
        Some("3".into()),
        Some("25".into()),
    ];
    for size in 1..=4 {
        assert_eq!(in_cuts(&coalesce, &rows, size), expected);
    }
    let unless_zero = call("IF", &[call("=", &[b(), int(0)]), int(0), fallback]);
    assert_eq!(
        in_cuts(&unless_zero, &rows, 3),
        [
            Some("0".into()),
            Some("50".into()),
            Some("0".into()),
            Some("25".to_string())
        ]
    );
}

#[test]
fn a_failure_names_the_first_row_the_expression_and_its_place() {
    let divisors: Vec<Option<i32>> = (0..1000)
        .map(|row| Some(if row >= 613 { 0 } else { 1 }))
        .collect();
    let dividends: Vec<Option<i32>> = (0..1000).map(Some).collect();
    let rows = batch(&[
        ints(&dividends),
        ints(&divisors),
        ints(&vec![Some(7); 1000]),
    ]);
    let position = SqlPosition { line: 3, column: 9 };
    let quotient = bind_scalar("/", vec![a(), b()], Some(position)).unwrap();
    let expression = call("+", &[quotient, int(1)]);
    let error = evaluate(&expression, &rows, &ExpressionContext::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    assert_eq!(error.position(), Some(position));
    let text = error.to_string();
    for part in ["division by zero", "(a / b)", "a = 613, b = 0, c = 7"] {
        assert!(text.contains(part), "{part} is in: {text}");
    }
}

#[test]
fn a_failing_constant_fails_only_where_it_is_needed() {
    let broken = call("/", &[int(1), int(0)]);
    let rows = batch(&[ints(&[Some(1), Some(2)])]);
    let guarded = call("CASE", &[call(">", &[a(), int(5)]), broken.clone(), a()]);
    assert_eq!(
        in_cuts(&guarded, &rows, 2),
        [Some("1".into()), Some("2".to_string())]
    );
    assert!(evaluate(&broken, &rows, &ExpressionContext::default()).is_err());
    assert_eq!(
        evaluate(&broken, &rows.slice(0, 0), &ExpressionContext::default()).unwrap(),
        Vec::<Option<String>>::new()
    );
}

#[test]
fn three_valued_logic() {
    let truth = |value: &str| match value {
        "T" => boolean(true),
        "F" => boolean(false),
        _ => null(TypeRoot::Boolean),
    };
    for (left, right, and, or) in [
        ("T", "T", "TRUE", "TRUE"),
        ("T", "F", "FALSE", "TRUE"),
        ("T", "U", "NULL", "TRUE"),
        ("F", "F", "FALSE", "FALSE"),
        ("F", "U", "FALSE", "NULL"),
        ("U", "U", "NULL", "NULL"),
    ] {
        for (left, right) in [(left, right), (right, left)] {
            let sides = [truth(left), truth(right)];
            check(&[(call("AND", &sides), and), (call("OR", &sides), or)]);
        }
    }
}

#[test]
fn masks_take_null_for_false() {
    let rows = batch(&[ints(&[Some(1), None, Some(3)])]);
    let compiled = compile(&call("<>", &[a(), int(1)]), &ExpressionContext::default()).unwrap();
    let mask = compiled.evaluate_mask(&rows, &RowContext::START).unwrap();
    assert_eq!(mask, BooleanArray::from(vec![false, false, true]));
}

#[test]
fn the_watermark_before_each_row_is_seen() {
    let times = TimestampMillisecondArray::from(vec![1_000, 5_000, 3_000]);
    let rows = batch(&[(TypeRoot::Timestamp(3), Arc::new(times))]);
    let expression = call("CURRENT_WATERMARK", &[column(0, TypeRoot::Timestamp(3))]);
    let compiled = compile(&expression, &ExpressionContext::default()).unwrap();
    assert!(compiled.reads_watermark());
    let steps = WatermarkSteps::new([WatermarkStep {
        row: 1,
        watermark: EventTime(1_000),
    }]);
    let context = RowContext {
        processing_time: ProcessingTime(0),
        watermark: EventTime::MIN,
        steps: &steps,
    };
    let values = compiled.evaluate(&rows, &context).unwrap();
    assert_eq!(
        values.as_primitive::<arrow::datatypes::TimestampMillisecondType>(),
        &TimestampMillisecondArray::from(vec![None, Some(1_000), Some(1_000)])
    );
    // Inside a lazily evaluated side, too: the hidden columns are filtered along.
    let late = call("<=", &[column(0, TypeRoot::Timestamp(3)), expression]);
    let failing = call(
        ">",
        &[
            call("/", &[int(1), cast(late.clone(), TypeRoot::Int)]),
            int(0),
        ],
    );
    let guarded = call("AND", &[late, failing]);
    let compiled = compile(&guarded, &ExpressionContext::default()).unwrap();
    let mask = compiled.evaluate_mask(&rows, &context).unwrap();
    assert_eq!(mask.true_count(), 0, "no row is at or before the watermark");
}

#[test]
fn the_clock_is_read_in_the_session_zone() {
    let now = RowContext {
        processing_time: ProcessingTime(1_704_067_200_000),
        ..RowContext::START
    };
    let rows = batch(&[ints(&[Some(1)])]);
    for (name, expected) in [
        ("CURRENT_DATE", "2023-12-31"),
        ("LOCALTIMESTAMP", "2023-12-31 16:00:00.000"),
        ("NOW", "2023-12-31 16:00:00.000"),
        ("LOCALTIME", "16:00:00"),
    ] {
        let context = context("America/Los_Angeles");
        let expression = call(name, &[]);
        let compiled = compile(&expression, &context).unwrap();
        let value = compiled.evaluate(&rows, &now).unwrap();
        let text = format_value(&value, expression.logical_type(), 0, &context.time_zone);
        assert_eq!(text.as_deref(), Some(expected), "{name}");
    }
}

/// Many expressions over many rows: whole batches, every cut and every order give each row the same value.
#[test]
fn batches_and_single_rows_agree() {
    let numbers = [
        Some(0),
        Some(-7),
        None,
        Some(3),
        Some(i32::MAX),
        Some(12),
        Some(1),
        Some(-1),
    ];
    let texts = [
        "",
        "abc",
        "a_b",
        "😀x",
        " trim ",
        "12",
        "-3.5",
        "2024-01-02",
    ];
    let strings = StringArray::from_iter(
        texts
            .iter()
            .enumerate()
            .map(|(i, t)| (i != 4).then_some(*t)),
    );
    let times = TimestampMillisecondArray::from(vec![
        Some(-1),
        Some(0),
        None,
        Some(1_710_064_800_000),
        Some(-86_400_001),
        Some(5),
        Some(253_402_300_799_999),
        Some(7),
    ]);
    let rows = batch(&[
        ints(&numbers),
        (TypeRoot::STRING, Arc::new(strings)),
        (TypeRoot::Timestamp(3), Arc::new(times)),
    ]);
    let (s, t) = (
        column(1, TypeRoot::STRING),
        column(2, TypeRoot::Timestamp(3)),
    );
    let cast_text = |root| cast(a(), root);
    let expressions = [
        call("+", &[a(), int(1)]),
        call("*", &[a(), a()]),
        call("/", &[int(10), call("NULLIF", &[a(), int(0)])]),
        call(
            "CASE",
            &[
                call(">", &[a(), int(1)]),
                s.clone(),
                call("IS NULL", &[a()]),
                text("none"),
                call("UPPER", &[s.clone()]),
            ],
        ),
        call("CASE", &[call(">", &[a(), int(1)]), int(1), int(0)]),
        call("IN", &[a(), int(3), int(12), null(TypeRoot::Null)]),
        call("IN", &[s.clone(), text("abc"), text("12")]),
        call("BETWEEN SYMMETRIC", &[a(), int(5), int(-5)]),
        call("IS DISTINCT FROM", &[a(), int(3)]),
        call(
            "||",
            &[
                call("||", &[s.clone(), text("-")]),
                cast_text(TypeRoot::STRING),
            ],
        ),
        call("SUBSTRING", &[s.clone(), a(), int(2)]),
        call("CHAR_LENGTH", &[s.clone()]),
        call("LIKE", &[s.clone(), text("a%")]),
        call("LIKE", &[s.clone(), s.clone()]),
        call("SPLIT_INDEX", &[s.clone(), text("_"), a()]),
        call("REGEXP_EXTRACT", &[s.clone(), text("([0-9]+)"), int(1)]),
        call("REGEXP_REPLACE", &[s.clone(), s.clone(), text("!")]),
        call("TO_TIMESTAMP", &[s.clone()]),
        call("=", &[t.clone(), s.clone()]),
        call("DATE_FORMAT", &[t.clone(), text("yyyy/MM/dd HH")]),
        call("EXTRACT", &[text("YEAR"), t.clone()]),
        call("FLOOR", &[t.clone(), text("HOUR")]),
        call("+", &[t.clone(), months(1)]),
        call(
            "TIMESTAMPDIFF",
            &[text("MONTH"), t.clone(), timestamp("2024-01-31 00:00:00")],
        ),
        call("ROW", &[a(), s.clone()]),
        call("ITEM", &[call("ARRAY", &[a(), int(2), a()]), int(3)]),
        call("ITEM", &[call("MAP", &[text("k"), a()]), text("k")]),
        call("GREATEST", &[a(), int(2)]),
        call("CONCAT_WS", &[text(","), s.clone(), s.clone()]),
        try_cast(s.clone(), TypeRoot::Int),
        try_cast(
            s.clone(),
            TypeRoot::Decimal {
                precision: 4,
                scale: 1,
            },
        ),
        cast_text(TypeRoot::Double),
        call("JSON_VALUE", &[s, text("$")]),
    ];
    let order = [5_u32, 0, 7, 2, 1, 6, 3, 4];
    for expression in &expressions {
        let whole = in_cuts(expression, &rows, 8);
        for size in [1, 3] {
            assert_eq!(
                in_cuts(expression, &rows, size),
                whole,
                "{expression} in batches of {size}"
            );
        }
        let shuffled = in_cuts(expression, &pick(&rows, &order), 8);
        for (index, row) in order.iter().enumerate() {
            assert_eq!(
                shuffled[index], whole[*row as usize],
                "{expression}, row {row}"
            );
        }
    }
}
