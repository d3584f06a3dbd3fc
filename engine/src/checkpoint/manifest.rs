//! What a checkpoint on disk consists of: one JSON file, written last, that names every other file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::state::TableScope;
use crate::stream::CheckpointId;

/// The manifest of a checkpoint; `manifest.json` in its directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of this layout: 1.
    pub version: u32,
    /// Which checkpoint.
    pub checkpoint: CheckpointId,
    /// The job's name.
    pub job: String,
    /// `pipeline.max-parallelism`: the number of key groups, which a restore must keep.
    pub max_parallelism: u16,
    /// Tables by operator id and name.
    pub operators: BTreeMap<String, BTreeMap<String, ManifestTable>>,
}

/// One table of state: an Arrow IPC file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestTable {
    /// Its path within the checkpoint's directory; `None` for a table without a batch.
    pub file: Option<String>,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// xxh3-64 of the file, in hexadecimal.
    pub checksum: String,
    /// How its rows are dealt.
    pub scope: TableScope,
}
