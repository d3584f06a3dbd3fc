//! The rows of a mini-batch bundle that wait for its end.
//!
//! A bundle ends after exactly as many rows as it should have, whatever the batches are, and where the watermark advances.

use arrow::datatypes::SchemaRef;

use super::Bundle;
use crate::error::Result;
use crate::stream::{ChangelogBatch, WatermarkSteps, concat_batches};
use crate::types::EventTime;

/// Rows of the bundle that is open.
pub(super) struct RowBundle {
    schema: SchemaRef,
    bundle: Bundle,
    parts: Vec<ChangelogBatch>,
}

/// What comes of the rows of a batch, in order.
#[derive(Debug)]
pub(super) enum BundleEvent {
    /// The rows of a bundle that has ended, without watermark steps.
    Ended(ChangelogBatch),
    /// The watermark had advanced before the next rows.
    Watermark(EventTime),
}

impl RowBundle {
    /// Bundles of `size` rows.
    pub(super) fn new(schema: SchemaRef, size: usize) -> Self {
        RowBundle {
            schema,
            bundle: Bundle::new(size),
            parts: Vec::new(),
        }
    }

    /// Takes the rows of a batch, before which the watermark was `before`.
    pub(super) fn add(
        &mut self,
        batch: ChangelogBatch,
        before: EventTime,
    ) -> Result<Vec<BundleEvent>> {
        let mut events = Vec::new();
        let mut watermark = before;
        for slice in batch.by_steps(before) {
            if slice.watermark > watermark {
                watermark = slice.watermark;
                events.extend(self.take()?.map(BundleEvent::Ended));
                events.push(BundleEvent::Watermark(watermark));
            }
            for part in self.bundle.parts(slice.length) {
                let mut rows = batch.slice(slice.offset + part.offset, part.length);
                rows.steps = WatermarkSteps::NONE;
                self.parts.push(rows);
                if part.ends {
                    events.extend(self.take()?.map(BundleEvent::Ended));
                }
            }
        }
        Ok(events)
    }

    /// Ends the bundle, if it has rows.
    pub(super) fn take(&mut self) -> Result<Option<ChangelogBatch>> {
        if self.parts.is_empty() {
            return Ok(None);
        }
        let rows = concat_batches(&self.schema, &self.parts)?;
        self.parts.clear();
        self.bundle.close();
        Ok(Some(rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::test_bench::batch;
    use crate::stream::WatermarkStep;
    use crate::types::{Field, LogicalType, Schema};

    #[test]
    fn bundles_end_by_size_and_by_watermark() {
        let schema = Schema::new(vec![Field::new("k", LogicalType::INT)]);
        let mut bundle = RowBundle::new(schema.to_arrow(), 2);
        let mut rows = batch(&schema, "+I 1\n+I 2\n+I 3\n+I 4\n+I 5\n+I 6");
        rows.steps = WatermarkSteps::new([WatermarkStep {
            row: 3,
            watermark: EventTime(7),
        }]);
        let lengths: Vec<i64> = bundle
            .add(rows, EventTime(0))
            .unwrap()
            .iter()
            .map(|event| match event {
                BundleEvent::Ended(rows) => rows.num_rows() as i64,
                BundleEvent::Watermark(watermark) => -watermark.millis(),
            })
            .collect();
        assert_eq!(lengths, [2, 1, -7, 2]);
        assert_eq!(bundle.take().unwrap().unwrap().num_rows(), 1);
        assert!(bundle.take().unwrap().is_none());
    }
}
