use super::*;
use crate::operators::test_bench::check;
use crate::types::{Field, LogicalType, TimeZone, TypeRoot};

const CONTEXT: ExpressionContext = ExpressionContext {
    time_zone: TimeZone::UTC,
};

fn input() -> Schema {
    Schema::new(vec![
        Field::new("a", LogicalType::INT),
        Field::new("b", LogicalType::STRING),
        Field::new("ts", LogicalType::nullable(TypeRoot::Timestamp(3))),
    ])
}

fn column(name: &str) -> Expression {
    let schema = input();
    let index = schema.index_of(name).unwrap();
    Expression::column(index, name, schema.fields[index].logical_type.clone())
}

fn integer(value: i64) -> Expression {
    Expression::literal(
        crate::expr::Literal::Integer(value),
        LogicalType::INT.with_nullable(false),
    )
}

fn bigger_than(expression: Expression, value: i64) -> Expression {
    Expression::call(">", vec![expression, integer(value)], LogicalType::BOOLEAN)
}

fn calc(condition: Option<Expression>, projection: Vec<Expression>) -> CalcOperator {
    let fields = projection
        .iter()
        .enumerate()
        .map(|(index, e)| Field::new(format!("c{index}"), e.logical_type().clone()));
    let output = Schema::new(fields.collect());
    let spec = CalcSpec::new(condition.as_ref(), &projection, &input(), &output, &CONTEXT);
    CalcOperator::new(spec.unwrap())
}

#[test]
fn rows_are_kept_where_the_condition_is_true_and_columns_are_computed() {
    let add = Expression::call("+", vec![column("a"), integer(1)], LogicalType::INT);
    check(
        || {
            calc(
                Some(bigger_than(column("a"), 1)),
                vec![column("ts"), add.clone()],
            )
        },
        &[&input()],
        "
            +I 1, x, 10
            +I 2, x, 20
            -- watermark 15
            +I null, x, 30      // NULL is not TRUE
            -U 3, x, 40
            +U 4, x, 41
            -- watermark 35
            +I 0, y, 99
            -- end
        ",
        "
            +I 20, 3
            -- watermark 15
            -U 40, 4
            +U 41, 5
            -- watermark end
        ",
    );
}

#[test]
fn the_watermark_before_each_kept_row_is_read() {
    let watermark = Expression::call(
        "CURRENT_WATERMARK",
        vec![column("ts")],
        LogicalType::nullable(TypeRoot::Timestamp(3)),
    );
    check(
        || {
            calc(
                Some(bigger_than(column("a"), 0)),
                vec![column("a"), watermark.clone()],
            )
        },
        &[&input()],
        "
            +I 1, x, 10
            -- watermark 5
            +I 0, x, 10
            -- watermark 7
            +I 2, x, 10
            +I 3, x, 10
            -- watermark 9
        ",
        "
            +I 1, null
            -- watermark 7
            +I 2, 7
            +I 3, 7
            -- watermark 9
        ",
    );
}

#[test]
fn a_projection_may_have_no_column() {
    let calc = calc(Some(bigger_than(column("a"), 1)), vec![]);
    let batch = crate::operators::test_bench::batch(&input(), "+I 1, x, 1\n+I 2, y, 2");
    let kept = calc
        .spec
        .evaluate(batch, EventTime::MIN, ProcessingTime(0))
        .unwrap();
    assert_eq!((kept.num_rows(), kept.rows.num_columns()), (1, 0));
}

#[test]
fn a_column_that_goes_through_is_not_copied() {
    let calc = calc(None, vec![column("b")]);
    let batch = crate::operators::test_bench::batch(&input(), "+I 1, x, 1");
    let before = batch.rows.column(1).clone();
    let after = calc
        .spec
        .evaluate(batch, EventTime::MIN, ProcessingTime(0))
        .unwrap();
    assert!(std::ptr::eq(
        before.to_data().buffers()[0].as_ptr(),
        after.rows.column(0).to_data().buffers()[0].as_ptr()
    ));
}

#[test]
fn an_error_is_that_of_a_kept_row() {
    let literal = |value| integer(value);
    let quotient = Expression::call("/", vec![literal(10), column("a")], LogicalType::INT);
    let calc = calc(Some(bigger_than(column("a"), -1)), vec![quotient]);
    let batch =
        crate::operators::test_bench::batch(&input(), "+I -1, x, 1\n+I 5, y, 2\n+I 0, z, 3");
    let error = calc
        .spec
        .evaluate(batch, EventTime::MIN, ProcessingTime(0))
        .unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), crate::ErrorKind::Data);
    assert!(text.contains("a = 0"), "{text}");
}
