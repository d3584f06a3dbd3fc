//! The `blackhole` connector: a sink that takes every row and keeps none.

use std::sync::Arc;

use super::{Committable, ConnectorFactory, Sink, SinkWriter, TableDescriptor};
use crate::config::{OptionSpec, OptionType};
use crate::error::Result;
use crate::operators::Subtask;
use crate::stream::{ChangelogBatch, CheckpointId};
use crate::types::ChangelogMode;

/// `'connector' = 'blackhole'`.
pub struct BlackholeFactory;

const OPTIONS: &[OptionSpec] = &[OptionSpec::new(
    "connector",
    OptionType::Text,
    None,
    "`blackhole`.",
)];

impl ConnectorFactory for BlackholeFactory {
    fn identifier(&self) -> &'static str {
        "blackhole"
    }

    fn options(&self, _descriptor: &TableDescriptor) -> Vec<OptionSpec> {
        OPTIONS.to_vec()
    }

    fn sink_changelog_mode(&self, _descriptor: &TableDescriptor) -> Result<ChangelogMode> {
        Ok(ChangelogMode::UPSERT)
    }

    fn create_sink(&self, _descriptor: &TableDescriptor) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(BlackholeSink))
    }
}

struct BlackholeSink;

impl Sink for BlackholeSink {
    fn writer(&self, _subtask: Subtask) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(BlackholeWriter))
    }

    fn commit(&self, _committables: &[Committable]) -> Result<()> {
        Ok(())
    }
}

struct BlackholeWriter;

impl SinkWriter for BlackholeWriter {
    fn write(&mut self, _batch: &ChangelogBatch) -> Result<()> {
        Ok(())
    }

    fn prepare_commit(&mut self, _checkpoint: CheckpointId) -> Result<Vec<Committable>> {
        Ok(Vec::new())
    }
}
