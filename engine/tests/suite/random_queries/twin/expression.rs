//! Scalar expressions: the engine's, one row at a time.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use volley::expr::{CompiledExpression, Expression, ExpressionContext, RowContext, compile};
use volley::testing::cell::{Value, build_array, value_at};
use volley::types::{Field, Schema};

/// An expression over the rows of one schema.
pub(super) struct Evaluator {
    compiled: CompiledExpression,
    schema: Schema,
}

impl Evaluator {
    pub(super) fn new(expression: &Expression, schema: &Schema) -> Self {
        let nullable =
            |field: &Field| Field::new(&field.name, field.logical_type.with_nullable(true));
        Evaluator {
            compiled: compile(expression, &ExpressionContext::default())
                .expect("a bound expression compiles"),
            schema: Schema::new(schema.fields.iter().map(nullable).collect()),
        }
    }

    pub(super) fn all(expressions: &[Expression], schema: &Schema) -> Vec<Self> {
        let new = |expression| Evaluator::new(expression, schema);
        expressions.iter().map(new).collect()
    }

    pub(super) fn value(&self, row: &[Value]) -> Value {
        if let Some(column) = self.compiled.as_column() {
            return row[column].clone();
        }
        let array = self
            .compiled
            .evaluate(&self.batch(&[row]), &RowContext::START)
            .expect("the expressions of random queries cannot fail");
        value_at(array.as_ref(), 0, self.compiled.logical_type())
    }

    pub(super) fn is_true(&self, row: &[Value]) -> bool {
        self.value(row) == Value::Boolean(true)
    }

    /// For which of the rows it is TRUE. For the pairs of a join, of which there are many.
    pub(super) fn are_true(&self, rows: &[&[Value]]) -> Vec<bool> {
        if rows.is_empty() {
            return Vec::new();
        }
        let mask = self
            .compiled
            .evaluate_mask(&self.batch(rows), &RowContext::START)
            .expect("the expressions of random queries cannot fail");
        (0..rows.len()).map(|row| mask.value(row)).collect()
    }

    fn batch(&self, rows: &[&[Value]]) -> RecordBatch {
        let read = self.compiled.expression().columns();
        let column = |(index, field): (usize, &Field)| -> ArrayRef {
            let values: Vec<&Value> = match read.contains(&index) {
                true => rows.iter().map(|row| &row[index]).collect(),
                false => vec![&Value::Null; rows.len()],
            };
            build_array(&values, &field.logical_type).expect("a value of the column's type")
        };
        let arrays = self.schema.fields.iter().enumerate().map(column).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(self.schema.to_arrow(), arrays, &options)
            .expect("columns of one length")
    }
}
