//! What a savepoint consists of: one JSON file, written last, that names every other file.
//!
//! The file carries its own checksum (see `sealed`). Version 1, which earlier builds wrote, had none; what it says of a file is compared
//! with the file.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::unsealed::contradiction;
use crate::checkpoint::sealed::{
    ManifestFault, NO_CHECKSUM, has_checksum, json, opened, parsed, sealed, version_of,
};
use crate::checkpoint::{ColumnTexts, Damage, PlanFacts, Verified};
use crate::error::{Error, Result};
use crate::state::TableScope;
use crate::stream::{CheckpointId, KeyGroupRange};

/// The name of the manifest in the directory of a savepoint.
pub const SAVEPOINT_FILE: &str = "savepoint.json";
/// The version of the layout that this build writes.
const VERSION: u64 = 2;
/// The version without a checksum, which is read, too.
const UNSEALED_VERSION: u64 = 1;
/// The fields that its file has.
const UNSEALED_FIELDS: [&str; 7] = [
    "version",
    "checkpoint",
    "max_parallelism",
    "job",
    "sql",
    "plan",
    "operators",
];

/// See the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavepointManifest {
    /// Of this file; empty in version 1.
    #[serde(default)]
    checksum: String,
    /// The version of this layout: 2, or 1.
    pub version: u64,
    /// The checkpoint that the state is of.
    pub checkpoint: CheckpointId,
    /// `pipeline.max-parallelism` of the job that wrote it: the number of key groups by which the files are laid out.
    pub max_parallelism: u16,
    /// The job: its name, its SQL, its plan. The list of operators in it is empty: they stand below.
    #[serde(flatten)]
    pub facts: SavepointFacts,
    /// The operators with state.
    pub operators: Vec<SavepointOperator>,
}

/// The job that wrote a savepoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavepointFacts {
    /// `pipeline.name`.
    pub job: String,
    /// The statement.
    pub sql: String,
    /// EXPLAIN of it.
    pub plan: String,
}

/// One operator with state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavepointOperator {
    /// The stable id.
    pub uid: String,
    /// Flink's name.
    pub name: String,
    /// The same with what it computes.
    pub description: String,
    /// What the columns that it reads hold, by their names.
    #[serde(default, skip_serializing_if = "ColumnTexts::is_empty")]
    pub columns: ColumnTexts,
    /// Its tables.
    pub tables: Vec<SavepointTable>,
}

/// One table: a Parquet file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavepointTable {
    /// Its name within the operator.
    pub name: String,
    /// How its rows are dealt.
    pub scope: TableScope,
    /// The path of the file within the savepoint; `None` where the table has no rows.
    pub file: Option<String>,
    /// How many rows it has.
    pub rows: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// xxh3-64 of the file, in hexadecimal.
    pub checksum: String,
    /// The key groups of each row group of the file, in order; empty for tables that are not keyed.
    #[serde(default)]
    pub key_groups: Vec<KeyGroupRange>,
}

impl SavepointManifest {
    pub(super) fn new(
        checkpoint: CheckpointId,
        max_parallelism: u16,
        facts: SavepointFacts,
        operators: Vec<SavepointOperator>,
    ) -> Self {
        SavepointManifest {
            checksum: NO_CHECKSUM.to_string(),
            version: VERSION,
            checkpoint,
            max_parallelism,
            facts,
            operators,
        }
    }

    /// The text of the file, with its checksum.
    pub(super) fn to_json(&self) -> Result<Vec<u8>> {
        sealed(self)
    }

    /// Reads the text of a manifest, which is at `location`. Errors: another build wrote it.
    pub(super) fn parse(text: &[u8], location: &str) -> Result<Verified<Self>> {
        match Self::from_json(text) {
            Ok(manifest) => Ok(Ok(manifest)),
            Err(ManifestFault::Damaged(what)) => Ok(Err(Damage::of_savepoint(format!(
                "{location} is damaged: it {what}"
            )))),
            Err(ManifestFault::OtherVersion(version)) => Err(Error::user(format!(
                "{location} has layout version {version}; this build reads versions {UNSEALED_VERSION} and {VERSION}"
            ))
            .hint("restore it with a version of Volley that is not older than the one that wrote it")),
        }
    }

    fn from_json(text: &[u8]) -> Result<Self, ManifestFault> {
        let value = json(text)?;
        match version_of(&value)? {
            UNSEALED_VERSION if !has_checksum(&value) => unsealed(value),
            _ => opened(text, VERSION),
        }
    }

    /// Whether nothing but its files says that it is what was written.
    pub(super) fn is_unsealed(&self) -> bool {
        self.version == UNSEALED_VERSION
    }

    /// An operator by its id.
    pub fn operator(&self, uid: &str) -> Option<&SavepointOperator> {
        self.operators.iter().find(|operator| operator.uid == uid)
    }

    /// The job that wrote it.
    pub fn plan_facts(&self) -> PlanFacts {
        let SavepointFacts { job, sql, plan } = self.facts.clone();
        let operators = self
            .operators
            .iter()
            .map(|operator| crate::checkpoint::OperatorFacts {
                uid: operator.uid.clone(),
                name: operator.name.clone(),
                description: operator.description.clone(),
                columns: operator.columns.clone(),
            });
        PlanFacts {
            job,
            sql,
            plan,
            operators: operators.collect(),
        }
    }
}

/// A manifest of version 1. A field that it does not have is the checksum of a later version whose name and version are damaged.
fn unsealed(value: Value) -> Result<SavepointManifest, ManifestFault> {
    let fields = value
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys());
    for field in fields {
        if !UNSEALED_FIELDS.contains(&field.as_str()) {
            let what = format!("has the field '{field}', which version {UNSEALED_VERSION} lacks");
            return Err(ManifestFault::Damaged(what));
        }
    }
    let manifest = parsed(value)?;
    match contradiction(&manifest) {
        Some(what) => Err(ManifestFault::Damaged(what)),
        None => Ok(manifest),
    }
}
