//! UNION ALL: the rows of all inputs as they come.

use super::{Context, Flow, InputIndex, Operator, Output};
use crate::error::Result;
use crate::stream::ChangelogBatch;

/// Passes rows of any number of inputs on; their columns have equal types. Event time is the minimum over the inputs, which
/// the runtime keeps. No state.
pub struct UnionOperator {
    schema: arrow::datatypes::SchemaRef,
}

impl UnionOperator {
    /// A union whose rows get the names of `schema`.
    pub fn new(schema: &crate::types::Schema) -> Self {
        UnionOperator {
            schema: schema.to_arrow(),
        }
    }
}

impl Operator for UnionOperator {
    fn process_batch(
        &mut self,
        _ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        let rows = super::calc::batch_of(
            &self.schema,
            batch.rows.columns().to_vec(),
            batch.num_rows(),
        )?;
        out.emit(batch.with_rows(rows));
        Ok(Flow::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::test_bench::check;
    use crate::types::{Field, LogicalType, Schema};

    #[test]
    fn rows_of_both_inputs_come_as_they_are() {
        let left = Schema::new(vec![Field::new("a", LogicalType::INT)]);
        let right = Schema::new(vec![Field::new("b", LogicalType::INT)]);
        check(
            || UnionOperator::new(&left),
            &[&left, &right],
            "
                +I 1
                right -U 2
                -- watermark 5
                right +U 3
                +I 4
            ",
            "
                +I 1
                -U 2
                -- watermark 5
                +U 3
                +I 4
            ",
        );
    }
}
