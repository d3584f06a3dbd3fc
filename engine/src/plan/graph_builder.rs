//! Makes the graph of exec nodes: equal nodes over equal inputs are one node.

use hashbrown::HashMap;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use super::changelog_inference::produced_mode;
use super::exec_node::{ExecNode, ExecNodeKind, ExecPlan, NodeId};
use super::node_facts::{Input, NodeFacts, Placement, facts_of};
use super::nodes::*;
use super::row_logic::is_shareable;
use crate::types::Schema;

/// A plan in the making.
pub(crate) struct GraphBuilder {
    nodes: Vec<ExecNode>,
    facts: Vec<NodeFacts>,
    known: HashMap<(ExecNodeKind, Vec<NodeId>, Schema), NodeId, Xxh3DefaultBuilder>,
    parallelism: usize,
}

impl GraphBuilder {
    /// An empty plan whose nodes run at `parallelism`.
    pub(crate) fn new(parallelism: usize) -> Self {
        GraphBuilder {
            nodes: Vec::new(),
            facts: Vec::new(),
            known: HashMap::default(),
            parallelism,
        }
    }

    /// A node: a new one, or the one that is equal already.
    pub(crate) fn add(
        &mut self,
        kind: ExecNodeKind,
        inputs: Vec<NodeId>,
        schema: Schema,
    ) -> NodeId {
        let key = (kind, inputs, schema);
        if let Some(id) = self.known.get(&key) {
            return *id;
        }
        let id = self.push(key.0.clone(), key.1.clone(), key.2.clone());
        if key.0.expressions().into_iter().all(is_shareable)
            && !matches!(key.0, ExecNodeKind::Sink(_))
        {
            self.known.insert(key, id);
        }
        id
    }

    fn push(&mut self, kind: ExecNodeKind, inputs: Vec<NodeId>, schema: Schema) -> NodeId {
        let id = NodeId(self.nodes.len());
        let known: Vec<Input> = inputs
            .iter()
            .map(|input| (&self.nodes[input.0], &self.facts[input.0]))
            .collect();
        let modes: Vec<_> = known.iter().map(|(node, _)| node.changelog_mode).collect();
        let facts = facts_of(&kind, &known, &schema);
        let parallelism = match &kind {
            ExecNodeKind::Exchange(exchange) => match exchange.distribution {
                Distribution::Singleton => 1,
                Distribution::Hash(_) => self.parallelism,
            },
            _ => known
                .iter()
                .map(|(node, _)| node.parallelism)
                .max()
                .unwrap_or(self.parallelism),
        };
        self.nodes.push(ExecNode {
            id,
            changelog_mode: produced_mode(&kind, &modes),
            upsert_keys: facts.upsert_keys.clone(),
            kind,
            inputs,
            schema,
            parallelism,
            uid: String::new(),
        });
        self.facts.push(facts);
        id
    }

    /// A node of the plan.
    pub(crate) fn node(&self, id: NodeId) -> &ExecNode {
        &self.nodes[id.0]
    }

    /// Has a node run at another parallelism than its input; the rows are dealt one by one then.
    pub(crate) fn set_parallelism(&mut self, id: NodeId, parallelism: usize) {
        self.nodes[id.0].parallelism = parallelism;
    }

    /// What is known about a node.
    pub(crate) fn facts(&self, id: NodeId) -> &NodeFacts {
        &self.facts[id.0]
    }

    /// Whether equal values of `keys` meet in one subtask, placed by the hash of exactly these columns (the key groups of
    /// state depend on it), or all rows do where there are no keys.
    pub(crate) fn is_distributed(&self, node: NodeId, keys: &[usize]) -> bool {
        match (&self.facts(node).placement, keys) {
            (Placement::Single, []) => true,
            (Placement::Hash(hashed), keys) => !keys.is_empty() && hashed == keys,
            _ => false,
        }
    }

    /// The rows of a node dealt by `keys`, or all to one subtask where there are none.
    pub(crate) fn distribute(&mut self, node: NodeId, keys: &[usize]) -> NodeId {
        if self.is_distributed(node, keys) {
            return node;
        }
        let distribution = if keys.is_empty() {
            Distribution::Singleton
        } else {
            Distribution::Hash(keys.to_vec())
        };
        self.exchange(node, distribution)
    }

    /// The rows of a node in one subtask, for consumers that do not care which.
    pub(crate) fn gather(&mut self, node: NodeId) -> NodeId {
        if self.node(node).parallelism == 1 {
            return node;
        }
        self.exchange(node, Distribution::Singleton)
    }

    fn exchange(&mut self, node: NodeId, distribution: Distribution) -> NodeId {
        let schema = self.node(node).schema.clone();
        let kind = ExecNodeKind::Exchange(ExchangeNode { distribution });
        self.add(kind, vec![node], schema)
    }

    /// The plan of what the roots need, numbered anew.
    pub(crate) fn finish(self, roots: Vec<NodeId>, late_rows_sink: Option<NodeId>) -> ExecPlan {
        let mut needed = vec![false; self.nodes.len()];
        roots
            .iter()
            .chain(&late_rows_sink)
            .for_each(|root| needed[root.0] = true);
        for node in self.nodes.iter().rev() {
            if needed[node.id.0] {
                node.inputs.iter().for_each(|input| needed[input.0] = true);
            }
        }
        let mut new_ids = vec![NodeId(0); self.nodes.len()];
        let mut nodes = Vec::new();
        for mut node in self.nodes {
            if needed[node.id.0] {
                new_ids[node.id.0] = NodeId(nodes.len());
                node.id = NodeId(nodes.len());
                node.inputs
                    .iter_mut()
                    .for_each(|input| *input = new_ids[input.0]);
                nodes.push(node);
            }
        }
        let renumbered = |id: NodeId| new_ids[id.0];
        ExecPlan {
            nodes,
            roots: roots.into_iter().map(renumbered).collect(),
            late_rows_sink: late_rows_sink.map(renumbered),
        }
    }
}
