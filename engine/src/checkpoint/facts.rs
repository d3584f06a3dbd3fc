//! What is known about saved state without reading it: who wrote it, and what its tables are.

use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};

use crate::state::TableScope;

/// The job that writes state: what a savepoint tells people, and what a restore compares with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFacts {
    /// `pipeline.name`.
    pub job: String,
    /// The statement that the job runs.
    pub sql: String,
    /// EXPLAIN of it.
    pub plan: String,
    /// The operators, sources first.
    pub operators: Vec<OperatorFacts>,
}

/// One operator of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorFacts {
    /// The stable id of its state.
    pub uid: String,
    /// Flink's name of the operator.
    pub name: String,
    /// The same with what it computes, as EXPLAIN shows it.
    pub description: String,
}

impl PlanFacts {
    /// An operator by its id.
    pub fn operator(&self, uid: &str) -> Option<&OperatorFacts> {
        self.operators.iter().find(|operator| operator.uid == uid)
    }
}

/// One table of saved state.
#[derive(Debug, Clone)]
pub struct TableFacts {
    /// Its name within the operator.
    pub name: String,
    /// How its rows are dealt.
    pub scope: TableScope,
    /// Its columns; `None` where nothing was written.
    pub schema: Option<SchemaRef>,
    /// How many rows it has.
    pub rows: u64,
    /// How many bytes it takes where it is kept.
    pub bytes: u64,
}

impl TableFacts {
    /// Whether the runtime wrote it for itself (where time stood), rather than the operator.
    pub fn is_note(&self) -> bool {
        self.name.starts_with('$')
    }
}
