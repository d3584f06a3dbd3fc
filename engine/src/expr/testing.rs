//! For tests: short names for literals, and the value of an expression, asked for in every way that must agree.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::compute::{concat, take};

use super::{CastMode, Expression, ExpressionContext, Literal, RowContext, compile, format_value};
use crate::error::Result;
use crate::functions::{bind_cast, bind_scalar};
use crate::types::{Field, LogicalType, Schema, TimeZone, TypeRoot};

fn literal(value: Literal, root: TypeRoot) -> Expression {
    Expression::literal(value, LogicalType::not_null(root))
}

pub(crate) fn int(value: i64) -> Expression {
    literal(Literal::Integer(value), TypeRoot::Int)
}

pub(crate) fn bigint(value: i64) -> Expression {
    literal(Literal::Integer(value), TypeRoot::BigInt)
}

pub(crate) fn double(value: f64) -> Expression {
    literal(Literal::double(value), TypeRoot::Double)
}

pub(crate) fn boolean(value: bool) -> Expression {
    literal(Literal::Boolean(value), TypeRoot::Boolean)
}

pub(crate) fn text(value: &str) -> Expression {
    let length = value.chars().count() as u32;
    literal(Literal::String(value.to_string()), TypeRoot::Char(length))
}

/// A DECIMAL of the digits that are written: `1.50` is a DECIMAL(3, 2).
pub(crate) fn decimal(written: &str) -> Expression {
    let digits: String = written.chars().filter(|c| *c != '.').collect();
    let scale = written
        .split_once('.')
        .map_or(0, |(_, fraction)| fraction.len()) as u8;
    let precision = digits.trim_start_matches('-').len() as u8;
    literal(
        Literal::Decimal(digits),
        TypeRoot::Decimal { precision, scale },
    )
}

pub(crate) fn null(root: TypeRoot) -> Expression {
    Expression::literal(Literal::Null, LogicalType::nullable(root))
}

pub(crate) fn millis(value: i64) -> Expression {
    literal(Literal::Integer(value), TypeRoot::IntervalDayTime)
}

pub(crate) fn months(value: i64) -> Expression {
    literal(Literal::Integer(value), TypeRoot::IntervalYearMonth)
}

/// A constant of another type, by a CAST of its text.
pub(crate) fn of(root: TypeRoot, written: &str) -> Expression {
    cast(text(written), root)
}

pub(crate) fn timestamp(written: &str) -> Expression {
    of(TypeRoot::Timestamp(3), written)
}

pub(crate) fn instant(written: &str) -> Expression {
    of(TypeRoot::TimestampLtz(3), written)
}

pub(crate) fn date(written: &str) -> Expression {
    of(TypeRoot::Date, written)
}

pub(crate) fn cast(input: Expression, root: TypeRoot) -> Expression {
    bind_cast(input, LogicalType::nullable(root), CastMode::Fail, None).unwrap()
}

pub(crate) fn try_cast(input: Expression, root: TypeRoot) -> Expression {
    bind_cast(input, LogicalType::nullable(root), CastMode::Null, None).unwrap()
}

pub(crate) fn call(name: &str, arguments: &[Expression]) -> Expression {
    bind_scalar(name, arguments.to_vec(), None).unwrap()
}

pub(crate) fn context(zone: &str) -> ExpressionContext {
    ExpressionContext {
        time_zone: TimeZone::parse(zone).unwrap(),
    }
}

/// A batch of columns `a`, `b`, ….
pub(crate) fn batch(columns: &[(TypeRoot, ArrayRef)]) -> RecordBatch {
    let fields = columns
        .iter()
        .enumerate()
        .map(|(index, (root, _))| Field::new(name(index), LogicalType::nullable(root.clone())));
    let schema = Schema::new(fields.collect()).to_arrow();
    let rows = columns.first().map_or(1, |(_, column)| column.len());
    let arrays = columns.iter().map(|(_, column)| column.clone()).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema, arrays, &options).unwrap()
}

pub(crate) fn name(index: usize) -> String {
    ((b'a' + index as u8) as char).to_string()
}

/// The column `index` of a [`batch`].
pub(crate) fn column(index: usize, root: TypeRoot) -> Expression {
    Expression::column(index, name(index), LogicalType::nullable(root))
}

/// Evaluates an expression and writes the values, NULL as `None`.
pub(crate) fn evaluate(
    expression: &Expression,
    rows: &RecordBatch,
    context: &ExpressionContext,
) -> Result<Vec<Option<String>>> {
    let compiled = compile(expression, context)?;
    let values = compiled.evaluate(rows, &RowContext::START)?;
    assert_eq!(values.len(), rows.num_rows(), "{expression}");
    assert_eq!(
        values.data_type(),
        &expression.logical_type().to_arrow(),
        "{expression}"
    );
    let texts = (0..values.len())
        .map(|row| format_value(&values, expression.logical_type(), row, &context.time_zone));
    Ok(texts.collect())
}

/// The value of a constant expression, and the error where it fails. It is asked for with constants and with columns in
/// their place, whose other rows are NULL; both must agree.
pub(crate) fn value_in(expression: &Expression, zone: &str) -> Result<Option<String>> {
    let context = context(zone);
    let constant = evaluate(expression, &batch(&[]), &context).map(|mut values| values.remove(0));
    let mut columns = Vec::new();
    let spread = to_columns(expression.clone(), &mut columns, &context);
    let rows = batch(&columns);
    if compile(&spread, &context).is_ok() && !columns.is_empty() {
        match (&constant, evaluate(&spread, &rows, &context)) {
            (Ok(constant), Ok(values)) => {
                assert_eq!(&values[0], constant, "{expression} of columns");
                assert_eq!(
                    &values[2], constant,
                    "{expression} of columns behind a NULL"
                );
                #[allow(
                    clippy::needless_range_loop,
                    reason = "the row is also cut out of the batch"
                )]
                for row in 0..rows.num_rows() {
                    let alone = evaluate(&spread, &rows.slice(row, 1), &context).unwrap();
                    assert_eq!(alone[0], values[row], "{expression}, row {row} alone");
                }
            }
            (Err(_), Err(_)) => {}
            (constant, columns) => panic!("{expression}: {constant:?}, of columns {columns:?}"),
        }
    }
    constant
}

/// The value of an expression of constants only, in UTC.
pub(crate) fn constant(expression: &Expression) -> Option<String> {
    let values = evaluate(expression, &batch(&[]), &context("UTC"));
    values.unwrap().remove(0)
}

/// [`value_in`] UTC; panics where the expression fails.
pub(crate) fn value(expression: &Expression) -> Option<String> {
    value_in(expression, "UTC").unwrap()
}

/// Checks values: each expression with what it must give, `NULL` for NULL.
pub(crate) fn check(cases: &[(Expression, &str)]) {
    for (expression, expected) in cases {
        let actual = value(expression).unwrap_or_else(|| "NULL".to_string());
        assert_eq!(&actual, expected, "{expression}");
    }
}

/// The arguments of functions that may be columns; those not named must stay constants.
const COLUMN_ARGUMENTS: &[(&str, &[usize])] = &[
    ("EXTRACT", &[1]),
    ("TIMESTAMPDIFF", &[1, 2]),
    ("TRIM", &[1, 2]),
    ("FLOOR", &[0]),
    ("CEIL", &[0]),
    ("ROUND", &[0]),
    ("TRUNCATE", &[0]),
    ("TO_TIMESTAMP_LTZ", &[0]),
    ("JSON_VALUE", &[0]),
];

fn to_columns(
    expression: Expression,
    columns: &mut Vec<(TypeRoot, ArrayRef)>,
    context: &ExpressionContext,
) -> Expression {
    match expression {
        Expression::Literal { .. } => {
            let root = expression.logical_type().root.clone();
            let one = compile(&expression, context)
                .and_then(|compiled| compiled.evaluate(&batch(&[]), &RowContext::START))
                .unwrap();
            let null = new_null_array(one.data_type(), 1);
            let three = concat(&[&*one, &*null, &*one]).unwrap();
            columns.push((root.clone(), three));
            column(columns.len() - 1, root)
        }
        Expression::Call {
            function,
            arguments,
            logical_type,
            position,
        } => {
            let allowed = COLUMN_ARGUMENTS.iter().find(|(name, _)| *name == function);
            let arguments: Vec<Expression> = arguments
                .into_iter()
                .enumerate()
                .map(|(index, argument)| match allowed {
                    Some((_, allowed)) if !allowed.contains(&index) => argument,
                    _ => to_columns(argument, columns, context),
                })
                .collect();
            // Bound again, because columns may be NULL.
            bind_scalar(&function, arguments.clone(), position.0).unwrap_or(Expression::Call {
                function,
                arguments,
                logical_type,
                position,
            })
        }
        Expression::Cast {
            input,
            logical_type,
            mode,
            position,
        } => Expression::Cast {
            input: Box::new(to_columns(*input, columns, context)),
            logical_type: logical_type.with_nullable(true),
            mode,
            position,
        },
        other => other,
    }
}

/// Rows in another order or number, by their indices.
pub(crate) fn pick(rows: &RecordBatch, indices: &[u32]) -> RecordBatch {
    let indices = arrow::array::UInt32Array::from(indices.to_vec());
    let columns: Vec<ArrayRef> = rows
        .columns()
        .iter()
        .map(|column| take(column, &indices, None).unwrap())
        .collect();
    RecordBatch::try_new(Arc::clone(rows.schema_ref()), columns).unwrap()
}
