//! A compiled expression: evaluates batches, and names the row when it cannot.
//!
//! When a kernel fails, the batch is halved until one row is left that fails alone: the error shows that row.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, new_empty_array};
use arrow::compute::prep_null_mask_filter;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion_physical_expr::PhysicalExpr;

use super::cast::format_value;
use super::physical::to_value;
use super::values::expand;
use super::{Expression, ExpressionContext, RowContext, hidden};
use crate::error::{Error, ErrorKind, Result};
use crate::functions::HiddenInput;
use crate::types::{LogicalType, TypeRoot};

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

    /// The values of the row: first of the columns that are read, then of the others.
    fn describe(&self, row: &RecordBatch) -> String {
        let mut columns: Vec<(usize, LogicalType)> = Vec::new();
        self.expression.walk(&mut |part| {
            if let Expression::Column {
                index,
                logical_type,
                ..
            } = part
                && columns.iter().all(|(known, _)| known != index)
            {
                columns.push((*index, logical_type.clone()));
            }
        });
        for (index, field) in row.schema_ref().fields().iter().enumerate() {
            let is_hidden = field.name().is_empty();
            if !is_hidden
                && columns.iter().all(|(known, _)| *known != index)
                && let Some(root) = root_of(field.data_type())
            {
                columns.push((index, LogicalType::nullable(root)));
            }
        }
        columns.truncate(MAX_SHOWN_COLUMNS);
        let values: Vec<String> = columns
            .iter()
            .map(|(index, logical_type)| self.describe_value(row, *index, logical_type))
            .collect();
        match values.is_empty() {
            true => "without columns".to_string(),
            false => values.join(", "),
        }
    }

    fn describe_value(
        &self,
        row: &RecordBatch,
        index: usize,
        logical_type: &LogicalType,
    ) -> String {
        let name = row.schema_ref().field(index).name();
        let zone = &self.context.time_zone;
        let Some(mut text) = format_value(row.column(index), logical_type, 0, zone) else {
            return format!("{name} = NULL");
        };
        if let Some((end, _)) = text.char_indices().nth(MAX_SHOWN_CHARACTERS) {
            text.truncate(end);
            text.push('…');
        }
        if logical_type.root.is_string() {
            return format!("{name} = '{text}'");
        }
        format!("{name} = {text}")
    }
}

/// The most columns and characters of a value that an error shows.
const MAX_SHOWN_COLUMNS: usize = 20;
const MAX_SHOWN_CHARACTERS: usize = 100;

/// A SQL type of the layout of a column, for showing its values; `None` for types that are not shown.
fn root_of(data_type: &DataType) -> Option<TypeRoot> {
    let precision = |unit: &TimeUnit| match unit {
        TimeUnit::Nanosecond => 9,
        TimeUnit::Microsecond => 6,
        TimeUnit::Second | TimeUnit::Millisecond => 3,
    };
    Some(match data_type {
        DataType::Boolean => TypeRoot::Boolean,
        DataType::Int8 => TypeRoot::TinyInt,
        DataType::Int16 => TypeRoot::SmallInt,
        DataType::Int32 => TypeRoot::Int,
        DataType::Int64 => TypeRoot::BigInt,
        DataType::Float32 => TypeRoot::Float,
        DataType::Float64 => TypeRoot::Double,
        DataType::Decimal128(precision, scale) => TypeRoot::Decimal {
            precision: *precision,
            scale: *scale as u8,
        },
        DataType::Utf8 => TypeRoot::STRING,
        DataType::Date32 => TypeRoot::Date,
        DataType::Time32(_) => TypeRoot::Time(3),
        DataType::Timestamp(unit, None) => TypeRoot::Timestamp(precision(unit)),
        DataType::Timestamp(unit, Some(_)) => TypeRoot::TimestampLtz(precision(unit)),
        _ => return None,
    })
}

fn run(physical: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<ArrayRef> {
    expand(&to_value(physical.evaluate(rows)?)?, rows.num_rows())
}
