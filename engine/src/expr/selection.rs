//! Evaluates an expression on some rows of a batch only, and puts the results back at their rows.
//!
//! This is how a right side that can fail is kept from rows which the left side has decided, whatever share of the rows
//! that is. Only the columns that the expression reads are filtered; the others become columns of NULLs that cost nothing.

use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef, BooleanArray, NullArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{FilterBuilder, interleave};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion_physical_expr::PhysicalExpr;

use super::physical::to_value;
use super::values::expand;
use super::{Expression, hidden};
use crate::error::Result;
use crate::functions::can_fail;

/// What [`Selection::evaluate`] needs to know of an expression.
pub(super) struct Selection {
    columns: Vec<usize>,
    schema: OnceLock<SchemaRef>,
}

impl Selection {
    pub(super) fn of(expression: &Expression) -> Self {
        Selection {
            columns: expression.columns(),
            schema: OnceLock::new(),
        }
    }

    fn reads(&self, column: usize, columns: usize) -> bool {
        self.columns
            .iter()
            .any(|index| hidden::is_column(*index, column, columns))
    }

    /// The values of `expression` at the rows that are set in `selected`, in their order.
    pub(super) fn evaluate(
        &self,
        expression: &Arc<dyn PhysicalExpr>,
        rows: &RecordBatch,
        selected: &BooleanBuffer,
    ) -> Result<ArrayRef> {
        let count = selected.count_set_bits();
        if count == 0 {
            return Ok(arrow::array::new_empty_array(
                &expression.data_type(rows.schema_ref())?,
            ));
        }
        if count == rows.num_rows() {
            return expand(&to_value(expression.evaluate(rows)?)?, count);
        }
        let chosen = self.filter(rows, selected, count)?;
        expand(&to_value(expression.evaluate(&chosen)?)?, count)
    }

    fn filter(
        &self,
        rows: &RecordBatch,
        selected: &BooleanBuffer,
        count: usize,
    ) -> Result<RecordBatch> {
        let mask = BooleanArray::new(selected.clone(), None);
        let mut builder = FilterBuilder::new(&mask);
        if self.columns.len() > 1 {
            builder = builder.optimize();
        }
        let predicate = builder.build();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(rows.num_columns());
        for (index, column) in rows.columns().iter().enumerate() {
            columns.push(if self.reads(index, rows.num_columns()) {
                predicate.filter(column)?
            } else {
                Arc::new(NullArray::new(count))
            });
        }
        let schema = self.schema.get_or_init(|| self.narrow(rows.schema_ref()));
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(RecordBatch::try_new_with_options(
            schema.clone(),
            columns,
            &options,
        )?)
    }

    fn narrow(&self, schema: &SchemaRef) -> SchemaRef {
        let columns = schema.fields().len();
        let fields = schema.fields().iter().enumerate().map(|(index, field)| {
            if self.reads(index, columns) {
                field.as_ref().clone().with_nullable(true)
            } else {
                Field::new(field.name(), DataType::Null, true)
            }
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

/// Whether an expression is evaluated only on the rows that need it: where it can fail it must be, where it costs much more
/// than choosing rows it should be.
pub(super) fn is_better_lazy(expression: &Expression) -> bool {
    const COSTLY: [&str; 5] = [
        "REGEXP",
        "REGEXP_EXTRACT",
        "REGEXP_REPLACE",
        "SIMILAR TO",
        "JSON_VALUE",
    ];
    can_fail(expression) || COSTLY.iter().any(|name| expression.calls(name))
}

/// Puts parts together: row `r` of the result is the next value of part `source[r]`.
pub(super) fn merge(parts: &[ArrayRef], source: &[u32]) -> Result<ArrayRef> {
    let mut next = vec![0usize; parts.len()];
    let indices: Vec<(usize, usize)> = source
        .iter()
        .map(|part| {
            let part = *part as usize;
            let row = next[part];
            next[part] += 1;
            (part, row)
        })
        .collect();
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    Ok(interleave(&parts, &indices)?)
}
