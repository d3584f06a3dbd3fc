//! COUNT: how many rows count.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::Int64Type;

use super::accumulator::{Accumulator, AggregateRows, clear};
use crate::error::Result;
use crate::state::{Groups, keep_at};

/// COUNT(x), COUNT(*) FILTER …: the mask says which rows count.
#[derive(Default)]
pub(super) struct CountAccumulator {
    counts: Vec<i64>,
}

impl Accumulator for CountAccumulator {
    fn grow(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
    }

    fn accumulate(&mut self, rows: &AggregateRows) -> Result<()> {
        let counts = self.counts.as_mut_slice();
        rows.for_each_weighted(|_, group, weight| counts[group] += weight);
        Ok(())
    }

    fn accumulate_running(&mut self, rows: &AggregateRows) -> Result<ArrayRef> {
        let counts = rows.running(
            &mut self.counts,
            |count, _, weight| *count += weight,
            |count| *count,
        );
        Ok(Arc::new(Int64Array::from(counts)))
    }

    fn reset(&mut self, groups: &[u32]) {
        clear(&mut self.counts, groups);
    }

    fn keep(&mut self, groups: &[u32]) {
        keep_at(&mut self.counts, groups);
    }

    fn merge(&mut self, ids: &[u32], partials: &[ArrayRef]) -> Result<()> {
        let more = partials[0].as_primitive::<Int64Type>().values();
        for (id, more) in ids.iter().zip(more) {
            self.counts[*id as usize] += more;
        }
        Ok(())
    }

    fn partials(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(groups)?])
    }

    fn evaluate(&self, groups: &Groups) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(groups.gather(&self.counts))))
    }

    fn size_bytes(&self) -> usize {
        self.counts.capacity() * size_of::<i64>()
    }
}
