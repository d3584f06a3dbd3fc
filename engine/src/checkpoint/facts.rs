//! What is known about saved state without reading it: who wrote it, and what its tables are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::AddAssign;

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

/// By the name of a column what it holds, told in terms of tables (`UPPER(name)`); several texts where several inputs have a column of the name.
pub type ColumnTexts = BTreeMap<String, BTreeSet<String>>;

/// One operator of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorFacts {
    /// The stable id of its state.
    pub uid: String,
    /// Flink's name of the operator.
    pub name: String,
    /// The same with what it computes, as EXPLAIN shows it.
    pub description: String,
    /// The columns that it reads; empty where they are not known.
    #[serde(default, skip_serializing_if = "ColumnTexts::is_empty")]
    pub columns: ColumnTexts,
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
    pub rows: RowCount,
    /// How many bytes it takes in the files (or the memory) where it is kept, with what later segments of a checkpoint replace.
    pub bytes: u64,
}

/// How many rows there are, or how many there are at most: which of them count can take reading them all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowCount {
    /// The number.
    pub rows: u64,
    /// Whether there may be fewer.
    pub at_most: bool,
}

impl RowCount {
    /// So many and no fewer.
    pub fn exactly(rows: u64) -> Self {
        RowCount {
            rows,
            at_most: false,
        }
    }

    /// Whether there is certainly none.
    pub fn is_none(&self) -> bool {
        self.rows == 0
    }
}

impl AddAssign for RowCount {
    fn add_assign(&mut self, other: Self) {
        self.rows += other.rows;
        self.at_most |= other.at_most;
    }
}

/// `1 row`, `at most 152 rows`.
impl fmt::Display for RowCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_most = if self.at_most { "at most " } else { "" };
        let plural = if self.rows == 1 { "" } else { "s" };
        write!(f, "{at_most}{} row{plural}", self.rows)
    }
}

impl TableFacts {
    /// Whether the runtime wrote it for itself (where time stood), rather than the operator.
    pub fn is_note(&self) -> bool {
        self.name.starts_with('$')
    }
}
