//! The edges of the world: where rows come from and where they go.
//!
//! Doors: `connectors` use `types`, `stream`, `formats` and `config`. `sql` and `plan` see only `factory`; of the
//! operators only `source.rs` and `sink.rs` see this room, through the traits. Deliberately absent: watermarks (see
//! `watermark`), retries of whole jobs (see `runtime`).

pub mod factory;
pub mod filesystem;
pub mod sink;
pub mod source;

pub use factory::{ConnectorFactory, ConnectorRegistry, TableDescriptor};
pub use filesystem::FilesystemFactory;
pub use sink::{Committable, Sink, SinkWriter};
pub use source::{Source, SourcePoll, SourceReader, SplitState};
