//! Keeps the rows where a condition is TRUE and computes columns from them, in one pass.
//!
//! Only the columns that the projection reads are filtered, and a column that goes through as it is is never copied
//! where every row stays.

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;

use super::{Context, Flow, InputIndex, Operator, Output};
use crate::error::{Error, Result};
use crate::expr::{CompiledExpression, Expression, ExpressionContext, RowContext, compile};
use crate::stream::{ChangelogBatch, WatermarkSteps};
use crate::types::{EventTime, ProcessingTime, Schema};

/// What a calc does: condition and columns, compiled.
pub struct CalcSpec {
    condition: Option<CompiledExpression>,
    /// The input columns that the projection reads; `None`: all, in their order.
    read: Option<Vec<usize>>,
    columns: Vec<CalcColumn>,
    schema: SchemaRef,
    /// The projection as it was given, for messages.
    projection: Vec<Expression>,
    context: ExpressionContext,
}

/// What time it is before a batch.
#[derive(Clone, Copy)]
struct Now {
    watermark: EventTime,
    processing_time: ProcessingTime,
}

impl Now {
    fn context(self, steps: &WatermarkSteps) -> RowContext<'_> {
        RowContext {
            processing_time: self.processing_time,
            watermark: self.watermark,
            steps,
        }
    }
}

/// Where an output column comes from.
enum CalcColumn {
    /// It is a read column, as it is.
    Read(usize),
    /// It is computed from the read columns.
    Computed(CompiledExpression),
}

impl CalcSpec {
    /// Compiles `condition` (BOOLEAN; `None` keeps every row) and `projection`, both over `input`. `output` names the columns of
    /// the projection, one each.
    pub fn new(
        condition: Option<&Expression>,
        projection: &[Expression],
        input: &Schema,
        output: &Schema,
        context: &ExpressionContext,
    ) -> Result<CalcSpec> {
        assert_eq!(
            projection.len(),
            output.len(),
            "a calc has a name for every column"
        );
        let read = columns_read(projection);
        let place = |index: usize| {
            read.binary_search(&index)
                .expect("a column that is read is among those read")
        };
        let columns = projection
            .iter()
            .map(|expression| calc_column(expression, &place, context))
            .collect::<Result<_>>()?;
        let all_in_order = read.len() == input.len();
        Ok(CalcSpec {
            condition: condition
                .map(|condition| compile(condition, context))
                .transpose()?,
            read: (!all_in_order).then_some(read),
            columns,
            schema: output.to_arrow(),
            projection: projection.to_vec(),
            context: *context,
        })
    }

    /// The Arrow schema of the result.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows that the condition keeps, with the columns of the projection. `watermark` is the one before the batch. Steps
    /// behind the last kept row go: a watermark at least as high follows every batch with steps.
    pub fn evaluate(
        &self,
        batch: ChangelogBatch,
        watermark: EventTime,
        processing_time: ProcessingTime,
    ) -> Result<ChangelogBatch> {
        let now = Now {
            watermark,
            processing_time,
        };
        let mask = match &self.condition {
            None => None,
            Some(condition) => {
                Some(condition.evaluate_mask(&batch.rows, &now.context(&batch.steps))?)
            }
        };
        let read = match &self.read {
            None => batch.clone(),
            Some(columns) => batch.clone().with_rows(batch.rows.project(columns)?),
        };
        let kept = match &mask {
            None => read,
            Some(mask) => read.filter(mask)?.0,
        };
        if kept.num_rows() == 0 {
            return Ok(kept.with_rows(RecordBatch::new_empty(self.schema.clone())));
        }
        match self.project(&kept.rows, &now.context(&kept.steps)) {
            Ok(rows) => Ok(kept.with_rows(rows)),
            Err(error) => Err(self
                .fail_with_whole_rows(&batch, mask, now)
                .unwrap_or(error)),
        }
    }

    /// The error of the projection once more, over all columns of the input, so that it can name those that are not read.
    fn fail_with_whole_rows(
        &self,
        batch: &ChangelogBatch,
        mask: Option<BooleanArray>,
        now: Now,
    ) -> Option<Error> {
        self.read.as_ref()?;
        let kept = match &mask {
            None => batch.clone(),
            Some(mask) => batch.filter(mask).ok()?.0,
        };
        let context = now.context(&kept.steps);
        self.projection.iter().find_map(|expression| {
            let compiled = compile(expression, &self.context).ok()?;
            compiled.evaluate(&kept.rows, &context).err()
        })
    }

    fn project(&self, rows: &RecordBatch, context: &RowContext) -> Result<RecordBatch> {
        let columns = self
            .columns
            .iter()
            .map(|column| match column {
                CalcColumn::Read(index) => Ok(rows.column(*index).clone()),
                CalcColumn::Computed(expression) => expression.evaluate(rows, context),
            })
            .collect::<Result<_>>()?;
        batch_of(&self.schema, columns, rows.num_rows())
    }
}

/// A batch of these columns, of which there may be none.
pub(super) fn batch_of(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let schema = schema.clone();
    Ok(RecordBatch::try_new_with_options(
        schema, columns, &options,
    )?)
}

/// The columns that any of the expressions reads, sorted.
fn columns_read(expressions: &[Expression]) -> Vec<usize> {
    let mut columns: Vec<usize> = expressions.iter().flat_map(Expression::columns).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

fn calc_column(
    expression: &Expression,
    place: &dyn Fn(usize) -> usize,
    context: &ExpressionContext,
) -> Result<CalcColumn> {
    if let Expression::Column { index, .. } = expression {
        return Ok(CalcColumn::Read(place(*index)));
    }
    let over_read = expression.clone().transform(&mut |part| match part {
        Expression::Column {
            index,
            name,
            logical_type,
        } => Expression::Column {
            index: place(index),
            name,
            logical_type,
        },
        other => other,
    });
    Ok(CalcColumn::Computed(compile(&over_read, context)?))
}

/// Filters and projects. Takes and gives any kinds of rows; no state.
pub struct CalcOperator {
    spec: CalcSpec,
}

impl CalcOperator {
    /// A calc as `spec` says.
    pub fn new(spec: CalcSpec) -> Self {
        CalcOperator { spec }
    }
}

impl Operator for CalcOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        out.emit(
            self.spec
                .evaluate(batch, ctx.watermark(), ctx.processing_time())?,
        );
        Ok(Flow::Done)
    }
}

#[cfg(test)]
mod tests;
