//! Whether rows are equal, column by column for a whole batch. NULL equals NULL.

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, make_comparator};
use arrow::buffer::BooleanBuffer;
use arrow::compute::SortOptions;
use arrow::compute::kernels::cmp::not_distinct;
use arrow::datatypes::DataType;

use crate::error::Result;

/// A bit for each pair of rows at the same place of both batches, which have the same columns.
pub(super) fn equal_rows(left: &RecordBatch, right: &RecordBatch) -> Result<BooleanBuffer> {
    assert_eq!(
        left.num_rows(),
        right.num_rows(),
        "rows are compared in pairs"
    );
    let mut equal = BooleanBuffer::new_set(left.num_rows());
    for (left, right) in std::iter::zip(left.columns(), right.columns()) {
        if equal.count_set_bits() == 0 {
            break;
        }
        equal = &equal & equal_values(left, right)?.values();
    }
    Ok(equal)
}

fn equal_values(left: &ArrayRef, right: &ArrayRef) -> Result<BooleanArray> {
    if !is_nested(left.data_type()) {
        return Ok(not_distinct(left, right)?);
    }
    let compare = make_comparator(left, right, SortOptions::default())?;
    let equal = |row: usize| Some(compare(row, row).is_eq());
    Ok((0..left.len()).map(equal).collect())
}

fn is_nested(data_type: &DataType) -> bool {
    data_type.is_nested() || matches!(data_type, DataType::Interval(_) | DataType::Null)
}
