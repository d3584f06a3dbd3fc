//! A compiled expression: evaluates batches, and names the row when it cannot.
//!
//! Time is no column of the input. Where an expression reads the clock or the watermark, two hidden columns follow the
//! batch's own: the processing time and the watermark before each row.
//!
//! When a kernel fails, the batch is halved until one row is left that fails alone: the error shows that row.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions,
    TimestampMillisecondArray, new_empty_array,
};
use arrow::compute::prep_null_mask_filter;
use arrow::datatypes::{Field, Schema};
use datafusion_physical_expr::PhysicalExpr;

use super::cast::format_value;
use super::physical::to_value;
use super::values::expand;
use super::{Expression, ExpressionContext, RowContext};
use crate::error::{Error, ErrorKind, Result};
use crate::functions::{HiddenInput, hidden_input};
use crate::types::{LogicalType, TypeRoot};

/// How many hidden columns follow the batch's own.
pub(super) const HIDDEN_COLUMNS: usize = 2;

/// An expression as kernels. From [`super::compile`].
#[derive(Debug, Clone)]
pub struct CompiledExpression {
    physical: Arc<dyn PhysicalExpr>,
    expression: Expression,
    context: ExpressionContext,
    reads_hidden: bool,
}

impl CompiledExpression {
    pub(super) fn new(
        physical: Arc<dyn PhysicalExpr>,
        expression: Expression,
        context: ExpressionContext,
    ) -> Self {
        let reads_hidden = reads_hidden(&expression);
        CompiledExpression {
            physical,
            expression,
            context,
            reads_hidden,
        }
    }

    /// What was compiled.
    pub fn expression(&self) -> &Expression {
        &self.expression
    }

    /// The type of the values.
    pub fn logical_type(&self) -> &LogicalType {
        self.expression.logical_type()
    }

    /// Whether the value depends on the watermark before each row, so that all watermark steps must be kept.
    pub fn reads_watermark(&self) -> bool {
        reads(&self.expression, HiddenInput::Watermark)
    }

    /// The column that it is, where it is nothing more than a column.
    pub fn as_column(&self) -> Option<usize> {
        match &self.expression {
            Expression::Column { index, .. } => Some(*index),
            _ => None,
        }
    }

    /// One value a row of `rows`, as an array of exactly `logical_type().to_arrow()`. Fails with a data error that names the
    /// first failing row and the expression.
    pub fn evaluate(&self, rows: &RecordBatch, context: &RowContext) -> Result<ArrayRef> {
        if let Some(column) = self.as_column() {
            return Ok(rows.column(column).clone());
        }
        if rows.num_rows() == 0 {
            return Ok(new_empty_array(&self.logical_type().to_arrow()));
        }
        if !self.reads_hidden {
            return self.evaluate_rows(rows);
        }
        self.evaluate_rows(&with_hidden_columns(rows, context)?)
    }

    /// The rows for which a BOOLEAN expression is TRUE: NULL counts as false, and there is no NULL in the result.
    pub fn evaluate_mask(&self, rows: &RecordBatch, context: &RowContext) -> Result<BooleanArray> {
        let values = self.evaluate(rows, context)?;
        let mask = values.as_boolean_opt().ok_or_else(|| {
            Error::internal(format!("{} is used as a condition", self.expression))
        })?;
        Ok(match mask.nulls() {
            None => mask.clone(),
            Some(_) => prep_null_mask_filter(mask),
        })
    }

    fn evaluate_rows(&self, rows: &RecordBatch) -> Result<ArrayRef> {
        match self.run(rows) {
            Err(error) if error.kind() == ErrorKind::Data => Err(self.name_row(rows, error)),
            other => other,
        }
    }

    fn run(&self, rows: &RecordBatch) -> Result<ArrayRef> {
        expand(&to_value(self.physical.evaluate(rows)?)?, rows.num_rows())
    }

    fn name_row(&self, rows: &RecordBatch, mut error: Error) -> Error {
        let (mut offset, mut length) = (0, rows.num_rows());
        while length > 1 {
            let half = length / 2;
            match self.run(&rows.slice(offset, half)) {
                Err(first) => (error, length) = (first, half),
                Ok(_) => (offset, length) = (offset + half, length - half),
            }
        }
        let row = rows.slice(offset, length);
        if let Err(own) = self.run(&row) {
            error = own;
        }
        error.context(format!("for the row {}", self.describe(&row)))
    }

    fn describe(&self, row: &RecordBatch) -> String {
        let mut seen = Vec::new();
        let mut parts = Vec::new();
        self.expression.walk(&mut |part| {
            if let Expression::Column {
                index,
                name,
                logical_type,
            } = part
                && !seen.contains(index)
            {
                seen.push(*index);
                let value =
                    format_value(row.column(*index), logical_type, 0, &self.context.time_zone);
                parts.push(match value {
                    None => format!("{name} = NULL"),
                    Some(text) if logical_type.root.is_string() => format!("{name} = '{text}'"),
                    Some(text) => format!("{name} = {text}"),
                });
            }
        });
        match parts.is_empty() {
            true => "without columns".to_string(),
            false => parts.join(", "),
        }
    }
}

/// Whether an expression reads the clock or the watermark.
pub(super) fn reads_hidden(expression: &Expression) -> bool {
    reads(expression, HiddenInput::ProcessingTime) || reads(expression, HiddenInput::Watermark)
}

fn reads(expression: &Expression, input: HiddenInput) -> bool {
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

fn with_hidden_columns(rows: &RecordBatch, context: &RowContext) -> Result<RecordBatch> {
    let count = rows.num_rows();
    let now = TimestampMillisecondArray::from_value(context.processing_time.millis(), count)
        .with_data_type(TypeRoot::TimestampLtz(3).to_arrow());
    let watermarks = context.steps.expand(context.watermark, count);
    let watermarks = Int64Array::from_iter_values(watermarks.iter().map(|time| time.millis()));
    let mut columns = rows.columns().to_vec();
    let mut fields: Vec<Arc<Field>> = rows.schema_ref().fields().iter().cloned().collect();
    for (name, column) in [
        ("$processing_time", Arc::new(now) as ArrayRef),
        ("$watermark", Arc::new(watermarks)),
    ] {
        fields.push(Arc::new(Field::new(name, column.data_type().clone(), true)));
        columns.push(column);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    Ok(RecordBatch::try_new_with_options(
        Arc::new(Schema::new(fields)),
        columns,
        &options,
    )?)
}
