//! Calls of functions: evaluates the arguments, all of them for all rows, and runs the kernel over them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion_common::ScalarValue;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

use super::physical::{Evaluation, to_value};
use super::{Arguments, Expression, Kernel, Value};
use crate::error::{Error, Result};
use crate::functions::is_random;
use crate::types::{LogicalType, SqlPosition};

/// A call with its kernel.
pub(super) struct CallEvaluation {
    kernel: Kernel,
    logical_type: LogicalType,
    is_strict: bool,
    /// Each row draws anew, also of constants.
    is_random: bool,
    /// The values of arguments that are constants.
    constants: Vec<Option<Value>>,
    failure: Failure,
}

impl CallEvaluation {
    /// `is_strict`: a NULL argument makes the result NULL.
    pub(super) fn new(
        kernel: Kernel,
        source: &Expression,
        is_strict: bool,
        children: &[Arc<dyn PhysicalExpr>],
    ) -> Result<Self> {
        Ok(CallEvaluation {
            kernel,
            logical_type: source.logical_type().clone(),
            is_strict,
            is_random: matches!(source, Expression::Call { function, .. } if is_random(function)),
            constants: children
                .iter()
                .map(constant)
                .collect::<Result<Vec<Option<Value>>>>()?,
            failure: Failure::of(source),
        })
    }

    fn is_null_anyway(&self, values: &[Value]) -> bool {
        self.is_strict
            && values
                .iter()
                .any(|value| value.is_scalar && value.array.is_null(0))
    }
}

fn constant(child: &Arc<dyn PhysicalExpr>) -> Result<Option<Value>> {
    child
        .downcast_ref::<datafusion_physical_expr::expressions::Literal>()
        .map(|literal| to_value(ColumnarValue::Scalar(literal.value().clone())))
        .transpose()
}

impl Evaluation for CallEvaluation {
    fn evaluate(
        &self,
        rows: &RecordBatch,
        children: &[Arc<dyn PhysicalExpr>],
    ) -> Result<ColumnarValue> {
        let mut values = Vec::with_capacity(children.len());
        for (index, child) in children.iter().enumerate() {
            values.push(match &self.constants[index] {
                Some(constant) => constant.clone(),
                None => to_value(child.evaluate(rows)?)?,
            });
        }
        if self.is_null_anyway(&values) {
            let null = ScalarValue::try_from(&self.logical_type.to_arrow())?;
            return Ok(ColumnarValue::Scalar(null));
        }
        let is_scalar =
            !self.is_random && !values.is_empty() && values.iter().all(|value| value.is_scalar);
        let row_count = if is_scalar { 1 } else { rows.num_rows() };
        let arguments = Arguments::new(&values, row_count, &self.logical_type);
        let result = (self.kernel)(&arguments).map_err(|error| self.failure.explain(error))?;
        debug_assert_eq!(result.len(), row_count, "a kernel returns a value a row");
        self.check_type(&result);
        if is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                &result, 0,
            )?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

impl CallEvaluation {
    fn check_type(&self, result: &ArrayRef) {
        debug_assert_eq!(
            result.data_type(),
            &self.logical_type.to_arrow(),
            "{} returns the array of its type",
            self.failure.text
        );
    }
}

/// Says which expression failed and where it stands.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    text: String,
    position: Option<SqlPosition>,
}

impl Failure {
    pub(super) fn of(source: &Expression) -> Self {
        let position = match source {
            Expression::Call { position, .. } | Expression::Cast { position, .. } => position.0,
            _ => None,
        };
        Failure {
            text: source.to_string(),
            position,
        }
    }

    pub(super) fn explain(&self, error: Error) -> Error {
        error
            .at(self.position)
            .context(format!("while evaluating {}", self.text))
    }
}
