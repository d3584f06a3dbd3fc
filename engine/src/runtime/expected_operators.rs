//! The operators of a job as a restore asks for them: under which ids, and with which columns in their tables.

use crate::checkpoint::SnapshotReader;
use crate::checkpoint::upgrade::{ExpectedOperator, UpgradeReport, plan_upgrade};
use crate::error::Result;
use crate::operators::Subtask;

use super::graph::{ChainNode, JobGraph, VertexHead};

/// Operators that keep nothing over a barrier.
const STATELESS: [&str; 8] = [
    "Calc",
    "Expand",
    "Correlate",
    "Union",
    "DropUpdateBefore",
    "MiniBatchAssigner",
    "LocalWindowAggregate",
    "LocalGroupAggregate",
];

/// Every operator of a graph.
pub fn expected_operators(graph: &JobGraph) -> Result<Vec<ExpectedOperator>> {
    let mut expected = Vec::new();
    for vertex in &graph.vertices {
        if let VertexHead::Source(source) = &vertex.head {
            expected.push(ExpectedOperator {
                uid: source.uid.clone(),
                name: source.name.clone(),
                is_stateful: true,
                tables: Default::default(),
                columns: Default::default(),
            });
        }
        let subtask = Subtask {
            index: 0,
            parallelism: vertex.parallelism,
            max_parallelism: graph.max_parallelism,
        };
        for node in &vertex.chain {
            expected.push(expected_operator(graph, node, subtask)?);
        }
    }
    Ok(expected)
}

fn expected_operator(
    graph: &JobGraph,
    node: &ChainNode,
    subtask: Subtask,
) -> Result<ExpectedOperator> {
    let name = node.name.as_str();
    let is_stateful = !STATELESS.contains(&name);
    let tables = match &node.state_schema {
        _ if !is_stateful => Vec::new(),
        Some(tables) => tables.clone(),
        None => (node.build)(subtask)?.state_schema(),
    };
    let facts = graph.facts.operator(&node.uid);
    Ok(ExpectedOperator {
        uid: node.uid.clone(),
        name: facts.map_or_else(|| name.to_string(), |facts| facts.description.clone()),
        is_stateful,
        tables: tables.into_iter().collect(),
        columns: facts.map_or_else(Default::default, |facts| facts.columns.clone()),
    })
}

/// What restoring a snapshot into a graph would do. Nothing is restored.
pub fn explain_upgrade(graph: &JobGraph, snapshot: &dyn SnapshotReader) -> Result<UpgradeReport> {
    plan_upgrade(snapshot, &expected_operators(graph)?)
}
