//! Rows without an event time: operators of time drop and count them.

use arrow::array::Array;
use arrow::compute;

use super::Context;
use super::context::count;
use crate::error::Result;
use crate::stream::ChangelogBatch;

/// The rows whose time column has a value; the others are counted. A watermark behind the last kept row follows the batch anyway.
pub(super) fn without_null_times(
    ctx: &Context,
    batch: ChangelogBatch,
    time_column: usize,
) -> Result<ChangelogBatch> {
    let times = batch.rows.column(time_column);
    if times.null_count() == 0 {
        return Ok(batch);
    }
    let counter = &ctx.metrics().null_row_time_records_dropped;
    count(counter, times.null_count());
    let (batch, _) = batch.filter(&compute::is_not_null(times)?)?;
    Ok(batch)
}
