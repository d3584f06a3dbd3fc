//! `row.field`: the field's array, NULL where the row is.

use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch, make_array};
use arrow::buffer::NullBuffer;
use datafusion_common::ScalarValue;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;

use super::physical::{Evaluation, to_value};
use crate::error::{Error, Result};

/// Takes the field at an index out of a ROW.
pub(super) struct FieldAccessEvaluation {
    pub(super) field: usize,
}

impl Evaluation for FieldAccessEvaluation {
    fn evaluate(
        &self,
        rows: &RecordBatch,
        children: &[Arc<dyn PhysicalExpr>],
    ) -> Result<ColumnarValue> {
        let value = to_value(children[0].evaluate(rows)?)?;
        let row = value
            .array
            .as_struct_opt()
            .ok_or_else(|| Error::internal("a field is taken from a ROW"))?;
        let field = row.column(self.field);
        let nulls = NullBuffer::union(row.nulls(), field.nulls());
        let data = field.to_data().into_builder().nulls(nulls);
        let result = make_array(data.build()?);
        if value.is_scalar {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                &result, 0,
            )?));
        }
        Ok(ColumnarValue::Array(result))
    }
}
