//! The connector `filesystem` with a gate: its readers give a few rows, and more when the gate opens, so that a checkpoint can be taken in between.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use volley::Result;
use volley::config::OptionSpec;
use volley::connectors::source::PollRequest;
use volley::connectors::{
    ConnectorFactory, FilesystemFactory, LookupSource, Sink, Source, SourcePoll, SourceReader,
    SplitState, TableDescriptor,
};

/// How many rows every reader may have given.
#[derive(Clone, Default)]
pub(super) struct Gate(Arc<AtomicUsize>);

impl Gate {
    pub(super) fn open(&self, rows: usize) {
        self.0.store(rows, Ordering::SeqCst);
    }
}

/// See the module.
pub(super) struct GatedFiles(pub(super) Gate);

impl ConnectorFactory for GatedFiles {
    fn identifier(&self) -> &'static str {
        FilesystemFactory.identifier()
    }

    fn options(&self, descriptor: &TableDescriptor) -> Vec<OptionSpec> {
        FilesystemFactory.options(descriptor)
    }

    fn projects_fields(&self, descriptor: &TableDescriptor) -> bool {
        FilesystemFactory.projects_fields(descriptor)
    }

    fn create_source(&self, descriptor: &TableDescriptor) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(GatedSource {
            source: FilesystemFactory.create_source(descriptor)?,
            gate: self.0.clone(),
        }))
    }

    fn create_lookup(
        &self,
        descriptor: &TableDescriptor,
        keys: &[usize],
    ) -> Result<Arc<dyn LookupSource>> {
        FilesystemFactory.create_lookup(descriptor, keys)
    }

    fn create_sink(&self, descriptor: &TableDescriptor) -> Result<Arc<dyn Sink>> {
        FilesystemFactory.create_sink(descriptor)
    }
}

struct GatedSource {
    source: Arc<dyn Source>,
    gate: Gate,
}

impl Source for GatedSource {
    fn is_bounded(&self) -> bool {
        self.source.is_bounded()
    }

    fn splits(&self) -> Result<Vec<SplitState>> {
        self.source.splits()
    }

    fn reader(&self) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(GatedReader {
            reader: self.source.reader()?,
            gate: self.gate.clone(),
            given: 0,
        }))
    }
}

struct GatedReader {
    reader: Box<dyn SourceReader>,
    gate: Gate,
    given: usize,
}

impl SourceReader for GatedReader {
    fn add_splits(&mut self, splits: Vec<SplitState>) -> Result<()> {
        self.reader.add_splits(splits)
    }

    fn poll(&mut self, request: &PollRequest) -> Result<SourcePoll> {
        let left = self.gate.0.load(Ordering::SeqCst) - self.given;
        if left == 0 {
            return Ok(SourcePoll::Pending { until: None });
        }
        let polled = self.reader.poll(&PollRequest {
            max_rows: request.max_rows.min(left),
            ..*request
        })?;
        if let SourcePoll::Rows { rows, .. } = &polled {
            self.given += rows.num_rows();
        }
        Ok(polled)
    }

    fn prefer_split(&mut self, id: &str) {
        self.reader.prefer_split(id);
    }

    fn snapshot(&self) -> Result<Vec<SplitState>> {
        self.reader.snapshot()
    }
}
