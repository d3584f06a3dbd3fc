//! Hidden columns: what an expression reads that is no column of its input.
//!
//! They follow the batch's own columns: first the values of sub-expressions that occur more than once, then the processing
//! time and the watermark before each row, where the expression reads them. An expression knows nothing of the width of its
//! input, so hidden columns are counted from the end: the last one has the index `usize::MAX`, the one before it
//! `usize::MAX - 1`, and so on.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, TimestampMillisecondArray,
};
use arrow::datatypes::{Field, Schema};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

use super::physical::{EngineExpr, Evaluation};
use super::{Expression, RowContext};
use crate::error::Result;
use crate::functions::{HiddenInput, hidden_input};
use crate::types::{LogicalType, TypeRoot};

/// No input has so many columns: indices above are hidden ones.
const FIRST_HIDDEN: usize = usize::MAX - 10_000;

/// How many columns the clock and the watermark are.
const TIME_COLUMNS: usize = 2;

/// The place of a hidden column from the end of the batch, 1 for the last.
pub(super) fn from_end(index: usize) -> Option<usize> {
    (index > FIRST_HIDDEN).then(|| usize::MAX - index + 1)
}

/// Whether an index of an expression is the column `column` of a batch of `columns` columns.
pub(super) fn is_column(index: usize, column: usize, columns: usize) -> bool {
    match from_end(index) {
        None => index == column,
        Some(from_end) => column + from_end == columns,
    }
}

/// Whether a call in the expression reads the given input.
pub(super) fn reads(expression: &Expression, input: HiddenInput) -> bool {
    let mut found = false;
    expression.walk(&mut |part| {
        if let Expression::Call {
            function,
            arguments,
            ..
        } = part
        {
            found |= hidden_input(function, arguments.len()) == Some(input);
        }
    });
    found
}

/// Whether the expression reads the clock or the watermark.
pub(super) fn reads_time(expression: &Expression) -> bool {
    reads(expression, HiddenInput::ProcessingTime) || reads(expression, HiddenInput::Watermark)
}

/// The expression with the clock or the watermark as one more argument of each call that reads it.
pub(super) fn with_time_arguments(expression: &Expression) -> Expression {
    if !reads_time(expression) {
        return expression.clone();
    }
    expression.clone().transform(&mut |part| match part {
        Expression::Call {
            function,
            mut arguments,
            logical_type,
            position,
        } => {
            if let Some(input) = hidden_input(&function, arguments.len()) {
                arguments.push(time_column(input));
            }
            Expression::Call {
                function,
                arguments,
                logical_type,
                position,
            }
        }
        other => other,
    })
}

fn time_column(input: HiddenInput) -> Expression {
    match input {
        HiddenInput::ProcessingTime => {
            let root = LogicalType::not_null(TypeRoot::TimestampLtz(3));
            Expression::column(usize::MAX - 1, "$processing_time", root)
        }
        HiddenInput::Watermark => {
            let root = LogicalType::not_null(TypeRoot::BigInt);
            Expression::column(usize::MAX, "$watermark", root)
        }
    }
}

/// The column of the shared sub-expression `number` of `count`.
pub(super) fn shared_column(
    number: usize,
    count: usize,
    reads_time: bool,
    of: &Expression,
) -> Expression {
    let behind = count - 1 - number + if reads_time { TIME_COLUMNS } else { 0 };
    Expression::column(
        usize::MAX - behind,
        of.to_string(),
        of.logical_type().clone(),
    )
}

/// Appends columns to a batch.
pub(super) fn append(rows: &RecordBatch, hidden: Vec<ArrayRef>) -> Result<RecordBatch> {
    let mut columns = rows.columns().to_vec();
    let mut fields: Vec<Arc<Field>> = rows.schema_ref().fields().iter().cloned().collect();
    for column in hidden {
        fields.push(Arc::new(Field::new("", column.data_type().clone(), true)));
        columns.push(column);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        Arc::new(Schema::new(fields)),
        columns,
        &options,
    )?)
}

/// The columns of the clock and the watermark.
pub(super) fn time_columns(rows: usize, context: &RowContext) -> Vec<ArrayRef> {
    let now = TimestampMillisecondArray::from_value(context.processing_time.millis(), rows)
        .with_data_type(TypeRoot::TimestampLtz(3).to_arrow());
    let watermarks = context.steps.expand(context.watermark, rows);
    let watermarks = Int64Array::from_iter_values(watermarks.iter().map(|time| time.millis()));
    vec![Arc::new(now), Arc::new(watermarks)]
}

/// Reads a hidden column.
struct HiddenColumnEvaluation {
    from_end: usize,
}

impl Evaluation for HiddenColumnEvaluation {
    fn evaluate(&self, rows: &RecordBatch, _: &[Arc<dyn PhysicalExpr>]) -> Result<ColumnarValue> {
        let column = rows.column(rows.num_columns() - self.from_end);
        debug_assert_eq!(column.len(), rows.num_rows());
        Ok(ColumnarValue::Array(column.clone()))
    }
}

/// The node that reads a hidden column.
pub(super) fn compile(column: &Expression, from_end: usize) -> Arc<dyn PhysicalExpr> {
    EngineExpr::create(column, vec![], HiddenColumnEvaluation { from_end })
}
