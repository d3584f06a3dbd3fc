//! The job graph: chains of operators (vertices) and the edges between them, before they become tasks.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use crate::checkpoint::PlanFacts;
use crate::connectors::SplitState;
use crate::error::Result;
use crate::operators::{InputIndex, Operator, SourceOperator, Subtask};
use crate::state::StateBackend;

/// Index of a vertex in its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VertexId(pub usize);

/// What is copied of keys at once: a pause of one or two milliseconds.
pub const COPIED_BYTES: usize = 4 << 20;

/// The name of a job without `pipeline.name`.
pub const DEFAULT_NAME: &str = "volley-job";

/// A job before it is deployed. Vertices are in topological order: edges go from lower to higher ids.
pub struct JobGraph {
    /// The name of the job.
    pub name: String,
    /// The chains.
    pub vertices: Vec<Vertex>,
    /// The connections.
    pub edges: Vec<Edge>,
    /// `pipeline.max-parallelism`.
    pub max_parallelism: u16,
    /// Where keyed state lies that does not fit into memory: `state.backend.type`.
    pub backend: Arc<dyn StateBackend>,
    /// `execution.checkpointing.incremental`, or a backend that needs it: operators that can tell what changed snapshot that alone.
    pub incremental: bool,
    /// About how many bytes of keys an operator that can copies for a snapshot between two batches: [`COPIED_BYTES`], or fewer in tests.
    pub copied_bytes: usize,
    /// How much an operator tells of changes until it tells all anew: [`crate::operators::MOST_CHANGES`], or less in tests.
    pub most_changes: u64,
    /// What a savepoint tells of the job.
    pub facts: PlanFacts,
    /// `execution.state-recovery.ignore-unclaimed-state`: a restore may lose state that no operator takes up.
    pub allow_dropped_state: bool,
}

/// A chain of operators that run as one task in each subtask.
pub struct Vertex {
    /// How many subtasks.
    pub parallelism: usize,
    /// What feeds the chain.
    pub head: VertexHead,
    /// The operators, first to last. May be empty only behind a source.
    pub chain: Vec<ChainNode>,
}

/// What feeds a chain.
pub enum VertexHead {
    /// A source.
    Source(SourceNode),
    /// The edges that end here.
    Inputs,
}

/// Makes a source operator for a subtask, without splits.
pub(super) type SourceBuilder = Box<dyn Fn(Subtask) -> Result<SourceOperator> + Send + Sync>;

/// Makes an operator for a subtask.
pub(super) type OperatorBuilder = Box<dyn Fn(Subtask) -> Result<Box<dyn Operator>> + Send + Sync>;

/// A source at the head of a chain.
pub struct SourceNode {
    /// The stable id under which its state is saved.
    pub uid: String,
    /// For people: the kind and the table.
    pub name: String,
    /// Whether its input ends.
    pub is_bounded: bool,
    /// Its splits at a fresh start.
    pub splits: Arc<dyn Fn() -> Result<Vec<SplitState>> + Send + Sync>,
    /// Makes the operator.
    pub build: SourceBuilder,
}

/// One operator of a chain.
pub struct ChainNode {
    /// The stable id under which its state is saved.
    pub uid: String,
    /// For people: Flink's name for the operator.
    pub name: String,
    /// What each of its inputs gives it, as a digest; empty where that is always the same. Rows that were on their way to it at a
    /// checkpoint are of use only to an operator that reads the same.
    pub reads: Vec<String>,
    /// Whether its late rows go to the late-rows table.
    pub keeps_late_rows: bool,
    /// The tables whose columns it asks for ([`Operator::state_schema`]), where making it reaches out to the world, so that it is not made only
    /// to ask; `None`: it is asked.
    pub state_schema: Option<Vec<(String, SchemaRef)>>,
    /// Makes the operator.
    pub build: OperatorBuilder,
}

/// A connection between two chains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// From the end of this chain.
    pub from: VertexId,
    /// To the head of this one.
    pub to: VertexId,
    /// As which input.
    pub input: InputIndex,
    /// How rows are dealt.
    pub partitioning: Partitioning,
    /// What flows.
    pub kind: EdgeKind,
}

/// How the rows of an edge are dealt to subtasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Partitioning {
    /// To the subtask of the same index.
    Forward,
    /// By key group of these columns.
    Hash(Vec<usize>),
    /// All to the first subtask.
    Singleton,
    /// Batches in turn.
    Rebalance,
}

/// What an edge carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeKind {
    /// The chain's results.
    Results,
    /// The late rows of the chain's operators, in the layout of the late-rows table.
    LateRows,
}

impl JobGraph {
    /// Whether every source ends.
    pub fn is_bounded(&self) -> bool {
        self.vertices
            .iter()
            .all(|vertex| !matches!(&vertex.head, VertexHead::Source(source) if !source.is_bounded))
    }
}
