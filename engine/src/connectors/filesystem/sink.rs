//! Writes a table of files in two phases: parts are ended at a barrier, and become visible when their checkpoint is complete.
//!
//! All of it but the bytes of the format and the place of the parts, which is a local directory or an object store.

use std::sync::Arc;

use super::FilesystemTable;
use super::part_file::PartFile;
use super::part_store::{PartNames, PartStore, PreparedPart};
use crate::connectors::{Committable, Sink, SinkWriter};
use crate::error::{Error, Result};
use crate::formats::format::only_inserts;
use crate::operators::Subtask;
use crate::stream::{ChangelogBatch, CheckpointId};

/// A table of files that is written.
pub(super) struct FilesystemSink {
    table: Arc<FilesystemTable>,
    store: Arc<dyn PartStore>,
}

impl FilesystemSink {
    pub(super) fn new(table: Arc<FilesystemTable>, store: Arc<dyn PartStore>) -> Self {
        FilesystemSink { table, store }
    }

    fn parts(&self, committables: &[Committable]) -> Result<Vec<PreparedPart>> {
        let part = |committable: &Committable| {
            serde_json::from_value(committable.note.clone()).map_err(|error| {
                Error::external(format!(
                    "what a checkpoint says about a part of the table cannot be read ({}): {error}",
                    committable.note
                ))
            })
        };
        committables.iter().map(part).collect()
    }
}

impl Sink for FilesystemSink {
    fn writer(&self, subtask: Subtask) -> Result<Box<dyn SinkWriter>> {
        self.store
            .make_ready()
            .map_err(|error| self.table.about(error))?;
        Ok(Box::new(FilesystemWriter {
            names: PartNames::new(subtask.index, self.table.format.identifier()),
            table: self.table.clone(),
            store: self.store.clone(),
            open: None,
            prepared: Vec::new(),
        }))
    }

    fn commit(&self, committables: &[Committable]) -> Result<()> {
        self.parts(committables)
            .and_then(|parts| self.store.commit(&parts))
            .map_err(|error| self.table.about(error))
    }

    fn take_back(&self, committables: &[Committable]) -> Result<usize> {
        self.parts(committables)
            .and_then(|parts| self.store.take_back(&parts))
            .map_err(|error| self.table.about(error))
    }

    fn committed_after(&self, committables: &[Committable]) -> Result<Vec<String>> {
        self.parts(committables)
            .and_then(|parts| self.store.visible_after(&parts))
            .map_err(|error| self.table.about(error))
    }

    fn parallelism(&self) -> Option<usize> {
        self.table.sink_parallelism
    }
}

/// Writes the parts of one subtask.
struct FilesystemWriter {
    table: Arc<FilesystemTable>,
    store: Arc<dyn PartStore>,
    names: PartNames,
    open: Option<PartFile>,
    /// Parts that grew to their full size since the last barrier.
    prepared: Vec<PreparedPart>,
}

impl FilesystemWriter {
    fn open_part(&mut self) -> Result<&mut PartFile> {
        match &mut self.open {
            Some(part) => Ok(part),
            none => {
                let output = self.store.create(&mut self.names)?;
                Ok(none.insert(PartFile::new(output, &self.table)?))
            }
        }
    }

    fn end_part(&mut self) -> Result<()> {
        if let Some(part) = self.open.take() {
            self.prepared.push(part.prepare()?);
        }
        Ok(())
    }

    fn write_rows(&mut self, batch: &ChangelogBatch) -> Result<()> {
        let full_bytes = self.table.rolling_bytes;
        let part = self.open_part()?;
        part.write(&batch.rows, &batch.kinds)?;
        if part.bytes() >= full_bytes {
            self.end_part()?;
        }
        Ok(())
    }

    fn prepare(&mut self) -> Result<Vec<Committable>> {
        self.end_part()?;
        if !self.prepared.is_empty() {
            self.store.sync()?;
        }
        let note = |part: &PreparedPart| {
            serde_json::to_value(part)
                .map(Committable::new)
                .map_err(|error| {
                    Error::unsupported(format!("a path that is not UTF-8 ({part:?}): {error}"))
                })
        };
        std::mem::take(&mut self.prepared)
            .iter()
            .map(note)
            .collect()
    }
}

impl SinkWriter for FilesystemWriter {
    fn write(&mut self, batch: &ChangelogBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let format = self.table.format.identifier();
        only_inserts(&batch.kinds, format, &self.table.context.table)?;
        self.write_rows(batch)
            .map_err(|error| self.table.about(error))
    }

    fn prepare_commit(&mut self, _checkpoint: CheckpointId) -> Result<Vec<Committable>> {
        self.prepare().map_err(|error| self.table.about(error))
    }

    fn discard_uncommitted(&mut self) -> Result<()> {
        self.store
            .discard_leftovers()
            .map_err(|error| self.table.about(error))
    }
}
