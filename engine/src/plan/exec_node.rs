//! How a query runs: a graph of nodes with Flink's names, from which operators are built.
//!
//! The graph is a list in topological order. Equal sub-plans are one node with several consumers.

use serde::{Deserialize, Serialize};

use super::nodes::*;
use crate::types::{ChangelogMode, Schema};

/// Index of a node in [`ExecPlan::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub usize);

/// The plan of one job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct ExecPlan {
    /// Inputs before consumers; the id of a node is its index.
    pub nodes: Vec<ExecNode>,
    /// The sinks, in the order of the statements.
    pub roots: Vec<NodeId>,
    /// The sink of late rows ([`ExecNodeKind::LateRowsSink`]), where one is set. It has no inputs in the plan (late rows
    /// are a side output of every window node) and is none of the roots.
    pub late_rows_sink: Option<NodeId>,
}

/// One node of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ExecNode {
    /// Its index.
    pub id: NodeId,
    /// What it does.
    pub kind: ExecNodeKind,
    /// Where its rows come from; a join has the left, then the right input.
    pub inputs: Vec<NodeId>,
    /// Its columns. A local window aggregation names its keys only: the accumulator columns behind them belong to the
    /// operators, which derive the physical schema from the spec; the exchange behind it likewise.
    pub schema: Schema,
    /// The kinds of rows that it gives.
    pub changelog_mode: ChangelogMode,
    /// Number of its subtasks. Nodes of different parallelism have an exchange between them, whose own parallelism is
    /// that of its consumers.
    pub parallelism: usize,
    /// Sets of columns that each name a row: a later row with the same values replaces or removes the earlier one, or there is
    /// none. Smallest first; empty: nothing names a row.
    pub upsert_keys: Vec<Vec<usize>>,
    /// The name of its state, the same for every planning of the same query: a word for the kind and a hash of what it
    /// computes from what. Neither parallelism, nor exchanges, nor whether an aggregation has one phase or two take part
    /// (a global aggregation goes on where a one-phase one stopped).
    pub uid: String,
}

#[allow(
    clippy::large_enum_variant,
    reason = "a plan has tens of nodes, and boxes would hide the fields from patterns"
)]
/// The kinds of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ExecNodeKind {
    /// Reads a table.
    TableSourceScan(TableSourceScanNode),
    /// Gives constant rows.
    Values(ValuesNode),
    /// Filters and computes columns.
    Calc(CalcNode),
    /// Tells event time from a column.
    WatermarkAssigner(WatermarkAssignerNode),
    /// Gives several rows for each one, for GROUPING SETS.
    Expand(ExpandNode),
    /// UNNEST.
    Correlate(CorrelateNode),
    /// UNION ALL.
    Union(UnionNode),
    /// Deals rows to other subtasks.
    Exchange(ExchangeNode),
    /// Adds window columns to rows.
    WindowTableFunction(WindowTableFunctionNode),
    /// Aggregates by window, in one phase.
    WindowAggregate(WindowAggregateNode),
    /// Folds rows before the exchange.
    LocalWindowAggregate(LocalWindowAggregateNode),
    /// Merges what was folded before the exchange.
    GlobalWindowAggregate(GlobalWindowAggregateNode),
    /// `GROUP BY TUMBLE(ts, …)` and friends.
    GroupWindowAggregate(GroupWindowAggregateNode),
    /// Top-N of each window.
    WindowRank(WindowRankNode),
    /// The first or last row of each window and key.
    WindowDeduplicate(WindowDeduplicateNode),
    /// Joins rows of the same window.
    WindowJoin(WindowJoinNode),
    /// Restores the rows before updates of an upsert stream.
    ChangelogNormalize(ChangelogNormalizeNode),
    /// Leaves out the rows before updates.
    DropUpdateBefore(DropUpdateBeforeNode),
    /// Marks where mini-batch bundles end.
    MiniBatchAssigner(MiniBatchAssignerNode),
    /// Aggregates by key, in one phase.
    GroupAggregate(GroupAggregateNode),
    /// Folds the rows of a bundle before the exchange.
    LocalGroupAggregate(LocalGroupAggregateNode),
    /// Merges what was folded before the exchange.
    GlobalGroupAggregate(GlobalGroupAggregateNode),
    /// The first or the last row of each key by a time attribute.
    Deduplicate(DeduplicateNode),
    /// Top-N, ORDER BY with LIMIT, and LIMIT.
    Rank(RankNode),
    /// Rows in the order of event time.
    TemporalSort(TemporalSortNode),
    /// Aggregates over the rows before each row.
    OverAggregate(OverAggregateNode),
    /// MATCH_RECOGNIZE.
    Match(MatchNode),
    /// Joins two changelogs.
    Join(JoinNode),
    /// Joins any number of changelogs on one key.
    MultiJoin(MultiJoinNode),
    /// Joins rows whose times lie within bounds of each other.
    IntervalJoin(IntervalJoinNode),
    /// Joins each row with the version valid at its event time.
    TemporalJoin(TemporalJoinNode),
    /// Joins each row with what an external table holds.
    LookupJoin(LookupJoinNode),
    /// Writes to a table or hands rows to the caller.
    Sink(SinkNode),
    /// Decides which of several rows of one primary key a sink sees.
    SinkUpsertMaterializer(SinkUpsertMaterializerNode),
    /// Writes late rows of all window operators.
    LateRowsSink(LateRowsSinkNode),
}

impl ExecPlan {
    /// A node.
    pub fn node(&self, id: NodeId) -> &ExecNode {
        &self.nodes[id.0]
    }

    /// The inputs of a node.
    pub fn inputs(&self, node: &ExecNode) -> Vec<&ExecNode> {
        node.inputs.iter().map(|id| self.node(*id)).collect()
    }

    /// For each node, who reads it: the consumer and which of its inputs.
    pub fn consumers(&self) -> Vec<Vec<(NodeId, usize)>> {
        let mut consumers = vec![Vec::new(); self.nodes.len()];
        for node in &self.nodes {
            for (position, input) in node.inputs.iter().enumerate() {
                consumers[input.0].push((node.id, position));
            }
        }
        consumers
    }
}

impl ExecNode {
    /// The smallest set of columns that names a row.
    pub fn upsert_key(&self) -> Option<&[usize]> {
        self.upsert_keys.first().map(Vec::as_slice)
    }
}

impl ExecNodeKind {
    /// Flink's name of the node.
    pub fn name(&self) -> &'static str {
        match self {
            ExecNodeKind::TableSourceScan(_) => "TableSourceScan",
            ExecNodeKind::Values(_) => "Values",
            ExecNodeKind::Calc(_) => "Calc",
            ExecNodeKind::WatermarkAssigner(_) => "WatermarkAssigner",
            ExecNodeKind::Expand(_) => "Expand",
            ExecNodeKind::Correlate(_) => "Correlate",
            ExecNodeKind::Union(_) => "Union",
            ExecNodeKind::Exchange(_) => "Exchange",
            ExecNodeKind::WindowTableFunction(_) => "WindowTableFunction",
            ExecNodeKind::WindowAggregate(_) => "WindowAggregate",
            ExecNodeKind::LocalWindowAggregate(_) => "LocalWindowAggregate",
            ExecNodeKind::GlobalWindowAggregate(_) => "GlobalWindowAggregate",
            ExecNodeKind::GroupWindowAggregate(_) => "GroupWindowAggregate",
            ExecNodeKind::WindowRank(_) => "WindowRank",
            ExecNodeKind::WindowDeduplicate(_) => "WindowDeduplicate",
            ExecNodeKind::WindowJoin(_) => "WindowJoin",
            ExecNodeKind::ChangelogNormalize(_) => "ChangelogNormalize",
            ExecNodeKind::DropUpdateBefore(_) => "DropUpdateBefore",
            ExecNodeKind::MiniBatchAssigner(_) => "MiniBatchAssigner",
            ExecNodeKind::GroupAggregate(_) => "GroupAggregate",
            ExecNodeKind::LocalGroupAggregate(_) => "LocalGroupAggregate",
            ExecNodeKind::GlobalGroupAggregate(_) => "GlobalGroupAggregate",
            ExecNodeKind::Deduplicate(_) => "Deduplicate",
            ExecNodeKind::Rank(rank) => rank.form.name(),
            ExecNodeKind::TemporalSort(_) => "TemporalSort",
            ExecNodeKind::OverAggregate(_) => "OverAggregate",
            ExecNodeKind::Match(_) => "Match",
            ExecNodeKind::Join(_) => "Join",
            ExecNodeKind::MultiJoin(_) => "MultiJoin",
            ExecNodeKind::IntervalJoin(_) => "IntervalJoin",
            ExecNodeKind::TemporalJoin(_) => "TemporalJoin",
            ExecNodeKind::LookupJoin(_) => "LookupJoin",
            ExecNodeKind::Sink(_) => "Sink",
            ExecNodeKind::SinkUpsertMaterializer(_) => "SinkUpsertMaterializer",
            ExecNodeKind::LateRowsSink(_) => "LateRowsSink",
        }
    }

    /// Every expression that the node evaluates.
    pub fn expressions(&self) -> Vec<&crate::expr::Expression> {
        match self {
            ExecNodeKind::Values(values) => values.rows.iter().flatten().collect(),
            ExecNodeKind::Calc(calc) => calc.projection.iter().chain(&calc.condition).collect(),
            ExecNodeKind::WatermarkAssigner(assigner) => vec![&assigner.expression],
            ExecNodeKind::Expand(expand) => expand.projections.iter().flatten().collect(),
            ExecNodeKind::Correlate(correlate) => vec![&correlate.collection],
            ExecNodeKind::WindowJoin(join) => join.condition.iter().collect(),
            ExecNodeKind::Match(found) => found.measures.iter().collect(),
            ExecNodeKind::ChangelogNormalize(normalize) => normalize.condition.iter().collect(),
            ExecNodeKind::Join(join) => join.condition.iter().collect(),
            ExecNodeKind::MultiJoin(join) => {
                let levels = join.levels.iter();
                levels
                    .filter_map(|level| level.condition.as_ref())
                    .collect()
            }
            ExecNodeKind::IntervalJoin(join) => join.condition.iter().collect(),
            ExecNodeKind::TemporalJoin(join) => join.condition.iter().collect(),
            ExecNodeKind::LookupJoin(join) => join.condition.iter().collect(),
            _ => vec![],
        }
    }
}
