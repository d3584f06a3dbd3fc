//! What a savepoint consists of: one JSON file, written last, that names every other file.

use serde::{Deserialize, Serialize};

use crate::checkpoint::{Damage, PlanFacts, Verified};
use crate::error::{Error, Result};
use crate::state::TableScope;
use crate::stream::{CheckpointId, KeyGroupRange};

/// The name of the manifest in the directory of a savepoint.
pub const SAVEPOINT_FILE: &str = "savepoint.json";
/// The version of the layout that this build writes and reads.
pub(super) const VERSION: u32 = 1;

/// See the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavepointManifest {
    /// The version of this layout: 1.
    pub version: u32,
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
    /// Reads the text of a manifest, which is at `location`. Errors: another build wrote it.
    pub(super) fn parse(text: &[u8], location: &str) -> Result<Verified<Self>> {
        let damaged = |error| Damage::of_savepoint(format!("{location} is damaged: {error}"));
        let version: Version = match serde_json::from_slice(text) {
            Ok(version) => version,
            Err(error) => return Ok(Err(damaged(error))),
        };
        if version.version != VERSION {
            return Err(Error::user(format!(
                "{location} has layout version {}; this build reads version {VERSION}",
                version.version
            )));
        }
        Ok(serde_json::from_slice(text).map_err(damaged))
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
            });
        PlanFacts {
            job,
            sql,
            plan,
            operators: operators.collect(),
        }
    }
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}
