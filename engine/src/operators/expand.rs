//! Gives each row once for every grouping set, with NULL in the columns that the set leaves out.
//!
//! The result of a batch is one batch: the projections of row 0, then those of row 1, as a row-at-a-time engine would
//! give them, so that watermark steps keep their place. Columns that every projection takes as they are cost one gather.

use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute;
use arrow::datatypes::SchemaRef;

use super::calc::batch_of;
use super::{Context, Flow, InputIndex, Operator, Output};
use crate::error::Result;
use crate::expr::{CompiledExpression, Expression, ExpressionContext, RowContext, compile};
use crate::stream::{ChangelogBatch, WatermarkSteps};
use crate::types::Schema;

/// Multiplies rows by projections of equal width. Takes any kinds of rows; no state.
pub struct ExpandOperator {
    columns: Vec<ExpandColumn>,
    projections: usize,
    schema: SchemaRef,
}

/// How one output column comes about.
enum ExpandColumn {
    /// The same input column in every projection.
    Same(usize),
    /// An expression for each projection.
    Each(Vec<CompiledExpression>),
}

impl ExpandOperator {
    /// `projections` are over the input, each as wide as `output`; at least one.
    pub fn new(
        projections: &[Vec<Expression>],
        output: &Schema,
        context: &ExpressionContext,
    ) -> Result<Self> {
        let columns = (0..output.len())
            .map(|column| {
                let each: Vec<&Expression> = projections.iter().map(|p| &p[column]).collect();
                match each[..] {
                    [Expression::Column { index, .. }, ref rest @ ..]
                        if rest.iter().all(|other| *other == each[0]) =>
                    {
                        Ok(ExpandColumn::Same(*index))
                    }
                    _ => each
                        .into_iter()
                        .map(|expression| compile(expression, context))
                        .collect::<Result<_>>()
                        .map(ExpandColumn::Each),
                }
            })
            .collect::<Result<_>>()?;
        Ok(ExpandOperator {
            columns,
            projections: projections.len(),
            schema: output.to_arrow(),
        })
    }

    fn column(
        &self,
        column: &ExpandColumn,
        batch: &ChangelogBatch,
        rows: &UInt32Array,
        context: &RowContext,
    ) -> Result<ArrayRef> {
        match column {
            ExpandColumn::Same(index) => Ok(compute::take(batch.rows.column(*index), rows, None)?),
            ExpandColumn::Each(expressions) => {
                let values = expressions
                    .iter()
                    .map(|expression| expression.evaluate(&batch.rows, context))
                    .collect::<Result<Vec<_>>>()?;
                let values: Vec<&dyn Array> = values.iter().map(|values| values.as_ref()).collect();
                let places: Vec<(usize, usize)> = (0..batch.num_rows())
                    .flat_map(|row| (0..expressions.len()).map(move |set| (set, row)))
                    .collect();
                Ok(compute::interleave(&values, &places)?)
            }
        }
    }
}

impl Operator for ExpandOperator {
    fn process_batch(
        &mut self,
        ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        let sets = self.projections;
        let rows: UInt32Array = (0..batch.num_rows() as u32)
            .flat_map(|row| std::iter::repeat_n(row, sets))
            .collect();
        let context = RowContext {
            processing_time: ctx.processing_time(),
            watermark: ctx.watermark(),
            steps: &WatermarkSteps::NONE,
        };
        let columns = self
            .columns
            .iter()
            .map(|column| self.column(column, &batch, &rows, &context))
            .collect::<Result<_>>()?;
        let (steps, _) = batch.steps.reindex(|row| row * sets, rows.len());
        out.emit(ChangelogBatch {
            rows: batch_of(&self.schema, columns, rows.len())?,
            kinds: batch.kinds.take(&rows),
            steps,
            hashes: None,
        });
        Ok(Flow::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Literal;
    use crate::operators::test_bench::check;
    use crate::types::{Field, LogicalType, TimeZone};

    #[test]
    fn each_row_comes_once_for_every_grouping_set() {
        let schema = Schema::new(vec![
            Field::new("k", LogicalType::STRING),
            Field::new("v", LogicalType::INT),
        ]);
        let output = Schema::new(vec![
            schema.fields[0].clone(),
            schema.fields[1].clone(),
            Field::new("$e", LogicalType::BIGINT),
        ]);
        let column = |index: usize| {
            let field: &Field = &schema.fields[index];
            Expression::column(index, &field.name, field.logical_type.clone())
        };
        let set = |id: i64| Expression::literal(Literal::Integer(id), LogicalType::BIGINT);
        let null = Expression::literal(Literal::Null, LogicalType::STRING);
        let projections = vec![
            vec![column(0), column(1), set(0)],
            vec![null, column(1), set(1)],
        ];
        let context = ExpressionContext {
            time_zone: TimeZone::UTC,
        };
        check(
            || ExpandOperator::new(&projections, &output, &context).unwrap(),
            &[&schema],
            "
                +I a, 1
                -- watermark 10
                -D b, 2
                -- watermark 20
            ",
            "
                +I a, 1, 0
                +I null, 1, 1
                -- watermark 10
                -D b, 2, 0
                -D null, 2, 1
                -- watermark 20
            ",
        );
    }
}
