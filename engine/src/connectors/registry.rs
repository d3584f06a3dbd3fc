//! The connectors that come with Volley.

use std::sync::Arc;

use super::{
    BlackholeFactory, ConnectorRegistry, DatagenFactory, FilesystemFactory, NexmarkFactory,
    PrintFactory, SavepointFactory,
};

/// All connectors of this build.
pub fn standard_registry() -> ConnectorRegistry {
    let mut registry = ConnectorRegistry::default();
    registry.register(Arc::new(BlackholeFactory));
    registry.register(Arc::new(DatagenFactory));
    registry.register(Arc::new(FilesystemFactory));
    registry.register(Arc::new(NexmarkFactory));
    registry.register(Arc::new(PrintFactory));
    registry.register(Arc::new(SavepointFactory));
    registry
}
