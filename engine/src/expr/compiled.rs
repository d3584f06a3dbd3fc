//! A compiled expression: evaluates batches, and names the row when it cannot.
//!
//! When a kernel fails, the batch is halved until one row is left that fails alone: the error shows that row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, new_empty_array};
use arrow::compute::prep_null_mask_filter;
use datafusion_physical_expr::PhysicalExpr;

use super::cast::format_value;
use super::physical::to_value;
use super::values::expand;
use super::{Expression, ExpressionContext, RowContext, hidden};
use crate::error::{Error, ErrorKind, Result};
use crate::functions::HiddenInput;
use crate::types::LogicalType;

/// An expression as kernels. From [`super::compile`].
#[derive(Debug, Clone)]
pub struct CompiledExpression {
    physical: Arc<dyn PhysicalExpr>,
    shared: Vec<Arc<dyn PhysicalExpr>>,
    expression: Expression,
    context: ExpressionContext,
    reads_time: bool,
}

impl CompiledExpression {
    /// `shared` are the parts of which the values become hidden columns.
    pub(super) fn new(
        physical: Arc<dyn PhysicalExpr>,
        shared: Vec<Arc<dyn PhysicalExpr>>,
        expression: Expression,
        context: ExpressionContext,
    ) -> Self {
        let reads_time = hidden::reads_time(&expression);
        CompiledExpression {
            physical,
            shared,
            expression,
            context,
            reads_time,
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
        hidden::reads(&self.expression, HiddenInput::Watermark)
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
        if !self.reads_time && self.shared.is_empty() {
            return self.evaluate_rows(rows);
        }
        let mut hidden = Vec::with_capacity(self.shared.len() + 2);
        for part in &self.shared {
            hidden.push(run(part, rows)?);
        }
        if self.reads_time {
            hidden.extend(hidden::time_columns(rows.num_rows(), context));
        }
        self.evaluate_rows(&hidden::append(rows, hidden)?)
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
        match run(&self.physical, rows) {
            Err(error) if error.kind() == ErrorKind::Data => Err(self.name_row(rows, error)),
            other => other,
        }
    }

    fn name_row(&self, rows: &RecordBatch, mut error: Error) -> Error {
        let (mut offset, mut length) = (0, rows.num_rows());
        while length > 1 {
            let half = length / 2;
            match run(&self.physical, &rows.slice(offset, half)) {
                Err(first) => (error, length) = (first, half),
                Ok(_) => (offset, length) = (offset + half, length - half),
            }
        }
        let row = rows.slice(offset, length);
        if let Err(own) = run(&self.physical, &row) {
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
                let zone = &self.context.time_zone;
                let value = format_value(row.column(*index), logical_type, 0, zone);
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

fn run(physical: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<ArrayRef> {
    expand(&to_value(physical.evaluate(rows)?)?, rows.num_rows())
}
