//! Leaves out the rows before updates, where nobody needs them.

use arrow::array::BooleanArray;

use super::{Context, Flow, InputIndex, Operator, Output};
use crate::error::Result;
use crate::stream::ChangelogBatch;
use crate::types::RowKind;

/// Lets `+I`, `+U` and `-D` pass, and watermark steps with them. Stateless.
pub struct DropUpdateBeforeOperator;

impl Operator for DropUpdateBeforeOperator {
    fn process_batch(
        &mut self,
        _ctx: &mut Context,
        _input: InputIndex,
        batch: ChangelogBatch,
        out: &mut Output,
    ) -> Result<Flow> {
        out.emit(without_update_before(batch)?);
        Ok(Flow::Done)
    }
}

/// The rows of other kinds. Steps behind the last of them go: a watermark at least as high follows every batch with steps.
pub(super) fn without_update_before(batch: ChangelogBatch) -> Result<ChangelogBatch> {
    let Some(kinds) = batch.kinds.bytes() else {
        return Ok(batch);
    };
    let keep = |kind: &u8| *kind != RowKind::UpdateBefore as u8;
    let mask: BooleanArray = kinds.iter().map(|kind| Some(keep(kind))).collect();
    Ok(batch.filter(&mask)?.0)
}

#[cfg(test)]
mod tests {
    use crate::operators::test_bench::check;
    use crate::types::{Field, LogicalType, Schema};

    use super::DropUpdateBeforeOperator;

    #[test]
    fn everything_else_passes() {
        let schema = Schema::new(vec![
            Field::new("k", LogicalType::STRING),
            Field::new("v", LogicalType::INT),
        ]);
        check(
            || DropUpdateBeforeOperator,
            &[&schema],
            "
            +I a, 1
            -- watermark 5
            -U a, 1
            +U a, 2
            -D a, 2
            -- watermark 10
            -U b, 1
            ",
            "
            +I a, 1
            -- watermark 5
            +U a, 2
            -D a, 2
            -- watermark 10
            ",
        );
    }
}
