//! Exec nodes to a job graph: which nodes run as one chain, and how chains are connected.
//!
//! A node joins the chain of its input when it is its only consumer, has no other input, and the same parallelism;
//! exchanges become edges. A scan with the computed columns and the watermark behind it is one source.

mod state_backend;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::exec_node::{ExecNode, ExecNodeKind, ExecPlan, NodeId};
use super::explain::{describe, explain};
use super::logical::ExplainDetails;
use super::node_uid::{lineages, read_columns};
use super::nodes::Distribution;
use super::operator_builder::OperatorBuilder;
use crate::checkpoint::{OperatorFacts, PlanFacts};
use crate::config::SessionConfig;
use crate::connectors::{ConnectorRegistry, Sink};
use crate::error::Result;
use crate::operators::{InputIndex, MOST_CHANGES};
use crate::runtime::{
    COPIED_BYTES, ChainNode, DEFAULT_NAME, Edge, EdgeKind, JobGraph, Partitioning, Vertex,
    VertexHead, VertexId,
};

/// The job graph of a plan. The rows of a bare SELECT go to `select_sink`.
pub fn build_graph(
    plan: &ExecPlan,
    config: &SessionConfig,
    connectors: &ConnectorRegistry,
    select_sink: Option<Arc<dyn Sink>>,
) -> Result<JobGraph> {
    let operators = OperatorBuilder::new(plan, config, connectors, select_sink)?;
    let mut builder = GraphBuilder {
        plan,
        consumers: plan.consumers(),
        operators,
        vertices: Vec::new(),
        edges: Vec::new(),
        vertex_of: BTreeMap::new(),
    };
    for node in plan
        .nodes
        .iter()
        .filter(|node| Some(node.id) != plan.late_rows_sink)
    {
        builder.add(node)?;
    }
    builder.add_late_rows_sink()?;
    let name = config
        .get("pipeline.name")
        .unwrap_or(DEFAULT_NAME)
        .to_string();
    let backend = state_backend::state_backend(config)?;
    Ok(JobGraph {
        vertices: builder.vertices,
        edges: builder.edges,
        max_parallelism: config.max_parallelism(),
        incremental: config.boolean("execution.checkpointing.incremental")
            || backend.name() != "hashmap",
        copied_bytes: COPIED_BYTES,
        most_changes: MOST_CHANGES,
        facts: plan_facts(plan, config, &name),
        name,
        allow_dropped_state: config.boolean("execution.state-recovery.ignore-unclaimed-state"),
        backend,
    })
}

/// What a savepoint tells of the job; the SQL text is known elsewhere.
fn plan_facts(plan: &ExecPlan, config: &SessionConfig, job: &str) -> PlanFacts {
    let lineages = lineages(plan);
    let operators = plan.nodes.iter().map(|node| OperatorFacts {
        uid: node.uid.clone(),
        name: node.kind.name().to_string(),
        description: describe(plan, node),
        columns: read_columns(plan, &lineages, node),
    });
    PlanFacts {
        job: job.to_string(),
        sql: String::new(),
        plan: explain(plan, config, ExplainDetails::default()),
        operators: operators.collect(),
    }
}

struct GraphBuilder<'a> {
    plan: &'a ExecPlan,
    consumers: Vec<Vec<(NodeId, usize)>>,
    operators: OperatorBuilder<'a>,
    vertices: Vec<Vertex>,
    edges: Vec<Edge>,
    /// The vertex whose results are those of the node; an exchange has that of its input.
    vertex_of: BTreeMap<NodeId, VertexId>,
}

impl GraphBuilder<'_> {
    fn add(&mut self, node: &ExecNode) -> Result<()> {
        match &node.kind {
            ExecNodeKind::Exchange(_) => {
                let input = self.vertex_of[&node.inputs[0]];
                self.vertex_of.insert(node.id, input);
                Ok(())
            }
            ExecNodeKind::TableSourceScan(_) | ExecNodeKind::Values(_) => self.add_source(node),
            _ if self.is_fused(node) => {
                let source = self.vertex_of[&node.inputs[0]];
                self.vertex_of.insert(node.id, source);
                Ok(())
            }
            _ => self.add_operator(node),
        }
    }

    fn add_source(&mut self, node: &ExecNode) -> Result<()> {
        let fused = self.fused_behind(node);
        let source = self.operators.source(node, &fused)?;
        self.push_vertex(node, VertexHead::Source(source));
        Ok(())
    }

    fn push_vertex(&mut self, node: &ExecNode, head: VertexHead) -> VertexId {
        let vertex = VertexId(self.vertices.len());
        self.vertices.push(Vertex {
            parallelism: node.parallelism,
            head,
            chain: Vec::new(),
        });
        self.vertex_of.insert(node.id, vertex);
        vertex
    }

    fn add_operator(&mut self, node: &ExecNode) -> Result<()> {
        let chain_node = ChainNode {
            uid: node.uid.clone(),
            name: node.kind.name().to_string(),
            reads: self.operators.reads(node),
            keeps_late_rows: self.plan.late_rows_sink.is_some(),
            state_schema: self.operators.outside_state_schema(node),
            build: self.operators.operator(node)?,
        };
        let vertex = match self.chained_to(node) {
            Some(vertex) => {
                self.vertex_of.insert(node.id, vertex);
                vertex
            }
            None => self.push_vertex(node, VertexHead::Inputs),
        };
        if matches!(self.vertices[vertex.0].head, VertexHead::Inputs)
            && self.vertices[vertex.0].chain.is_empty()
        {
            self.connect(node, vertex);
        }
        self.vertices[vertex.0].chain.push(chain_node);
        Ok(())
    }

    /// The chain that the node joins, if it may.
    fn chained_to(&self, node: &ExecNode) -> Option<VertexId> {
        let [input] = &node.inputs[..] else {
            return None;
        };
        let input = self.plan.node(*input);
        let alone = self.consumers[input.id.0].len() == 1;
        let is_exchange = matches!(input.kind, ExecNodeKind::Exchange(_));
        (alone && !is_exchange && input.parallelism == node.parallelism)
            .then(|| self.vertex_of[&input.id])
    }

    fn connect(&mut self, node: &ExecNode, to: VertexId) {
        for (index, input) in node.inputs.iter().enumerate() {
            let input = self.plan.node(*input);
            let partitioning = match &input.kind {
                ExecNodeKind::Exchange(exchange) => match &exchange.distribution {
                    Distribution::Hash(columns) => Partitioning::Hash(columns.clone()),
                    Distribution::Singleton => Partitioning::Singleton,
                },
                _ if input.parallelism == node.parallelism => Partitioning::Forward,
                _ => Partitioning::Rebalance,
            };
            let from = self.vertex_of[&input.id];
            self.edges.push(Edge {
                from,
                to,
                input: InputIndex(index),
                partitioning,
                kind: EdgeKind::Results,
            });
        }
    }

    /// The late rows of all chains with a window operator meet in one sink.
    fn add_late_rows_sink(&mut self) -> Result<()> {
        let Some(sink) = self.plan.late_rows_sink else {
            return Ok(());
        };
        let is_windowed = |vertex: &Vertex| vertex.chain.iter().any(gives_late_rows);
        let windowed: Vec<VertexId> = self
            .vertices
            .iter()
            .enumerate()
            .filter(|(_, vertex)| is_windowed(vertex))
            .map(|(number, _)| VertexId(number))
            .collect();
        if windowed.is_empty() {
            return Ok(());
        }
        self.add_operator(self.plan.node(sink))?;
        let to = self.vertex_of[&sink];
        self.vertices[to.0].parallelism = 1;
        let edge = |from| Edge {
            from,
            to,
            input: InputIndex::FIRST,
            partitioning: Partitioning::Singleton,
            kind: EdgeKind::LateRows,
        };
        self.edges.extend(windowed.into_iter().map(edge));
        Ok(())
    }

    /// The computed columns and the watermark right behind a scan, as far as nobody else reads between them.
    fn fused_behind(&self, scan: &ExecNode) -> Vec<NodeId> {
        let mut fused: Vec<NodeId> = Vec::new();
        let mut last = scan.id;
        while let [(next, 0)] = self.consumers[last.0][..] {
            let node = self.plan.node(next);
            let calcs = fused
                .iter()
                .any(|id| matches!(self.plan.node(*id).kind, ExecNodeKind::Calc(_)));
            match &node.kind {
                ExecNodeKind::Calc(calc)
                    if calc.condition.is_none() && !calcs && self.leads_to_assigner(node) =>
                {
                    fused.push(next)
                }
                ExecNodeKind::WatermarkAssigner(_) => {
                    fused.push(next);
                    break;
                }
                _ => break,
            }
            last = next;
        }
        fused
    }

    fn leads_to_assigner(&self, calc: &ExecNode) -> bool {
        matches!(self.consumers[calc.id.0][..], [(next, 0)] if matches!(self.plan.node(next).kind, ExecNodeKind::WatermarkAssigner(_)))
    }

    fn is_fused(&self, node: &ExecNode) -> bool {
        let mut at = node;
        while let [input] = at.inputs[..] {
            at = self.plan.node(input);
            if let ExecNodeKind::TableSourceScan(_) = at.kind {
                return self.fused_behind(at).contains(&node.id);
            }
        }
        false
    }
}

/// Whether the operator can tell late rows: that of a window, and those that wait for the watermark.
fn gives_late_rows(node: &ChainNode) -> bool {
    node.name.contains("Window") || matches!(node.name.as_str(), "Deduplicate" | "TemporalSort")
}
