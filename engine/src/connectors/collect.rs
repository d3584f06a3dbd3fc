//! Hands the rows of a bare SELECT to the caller, batch by batch, as they come.

use std::sync::Arc;

use super::sink::{Committable, Sink, SinkWriter};
use crate::error::Result;
use crate::operators::Subtask;
use crate::stream::{ChangelogBatch, CheckpointId};

/// What receives the rows.
pub type Collector = Arc<dyn Fn(&ChangelogBatch) -> Result<()> + Send + Sync>;

/// A sink without a table: nothing is held back, nothing can be taken back.
pub struct CollectSink(pub Collector);

impl Sink for CollectSink {
    fn writer(&self, _: Subtask) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(CollectWriter(self.0.clone())))
    }

    fn commit(&self, _: &[Committable]) -> Result<()> {
        Ok(())
    }

    fn is_single(&self) -> bool {
        true
    }
}

struct CollectWriter(Collector);

impl SinkWriter for CollectWriter {
    fn write(&mut self, batch: &ChangelogBatch) -> Result<()> {
        (self.0)(batch)
    }

    fn prepare_commit(&mut self, _: CheckpointId) -> Result<Vec<Committable>> {
        Ok(Vec::new())
    }
}
