//! The edges of the world: where rows come from and where they go.
//!
//! Doors: `connectors` use `types`, `stream`, `formats`, `blobs`, `expr` (how values print) and `config`. `sql` and `plan` see only `factory`; of the
//! operators only `source.rs`, `lookup_join.rs` and `sink.rs` see this room, through the traits. `savepoint` reads what `checkpoint` wrote. Deliberately absent: watermarks (see
//! `watermark`), retries of whole jobs (see `runtime`).

mod blackhole;
pub mod collect;
mod datagen;
mod draw;
pub mod factory;
pub mod filesystem;
pub mod lookup;
pub mod nexmark;
mod options;
mod pace;
mod print;
mod registry;
mod savepoint;
pub mod sink;
pub mod source;

pub use blackhole::BlackholeFactory;
pub use datagen::DatagenFactory;
pub use factory::{ConnectorFactory, ConnectorRegistry, TableDescriptor};
pub use filesystem::FilesystemFactory;
pub use lookup::{
    AsyncLookupFunction, LookupFunction, LookupHandle, LookupRequest, LookupRows, LookupSource,
};
pub use nexmark::NexmarkFactory;
pub use print::PrintFactory;
pub use registry::standard_registry;
pub use savepoint::SavepointFactory;
pub use sink::{Committable, Sink, SinkWriter};
pub use source::{Source, SourcePoll, SourceReader, SplitState};
