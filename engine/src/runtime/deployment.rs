//! From a job graph to tasks: operators are made, splits dealt, channels laid, state restored.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::channel::{Parker, Receiver, Sender, channel};
use super::channel_state::{ChannelOrigin, Reader};
use super::checks::checked;
use super::exchange::{OutputEdge, Router};
use super::expected_operators::expected_operators;
use super::gate::InputGate;
use super::graph::{Edge, EdgeKind, JobGraph, Partitioning, Vertex, VertexHead, VertexId};
use super::metrics::JobMetrics;
use super::task::{Head, Slot, SourceHead, Task};
use crate::checkpoint::upgrade::{MigratingReader, plan_upgrade};
use crate::checkpoint::{KeySpan, OperatorFacts, SnapshotReader};
use crate::error::Result;
use crate::operators::{Context, Subtask, TierOptions, tiered};
use crate::state::MemoryShare;

/// The tasks of a job with what ties them together.
pub(crate) struct Deployment {
    pub(crate) tasks: Vec<Task>,
    /// By task the keys that its operators own.
    pub(crate) spans: Vec<KeySpan>,
    pub(crate) metrics: JobMetrics,
    pub(super) threads: Vec<Vec<usize>>,
    pub(super) parkers: Vec<Arc<Parker>>,
}

/// Makes the tasks of a graph and the channels between them.
pub(crate) fn deploy(
    graph: &JobGraph,
    queue_bytes: usize,
    threads: usize,
    snapshot: Option<&dyn SnapshotReader>,
) -> Result<Deployment> {
    let expected = match snapshot {
        Some(_) => expected_operators(graph)?,
        None => Vec::new(),
    };
    let upgrade = match snapshot {
        Some(snapshot) => Some(plan_upgrade(snapshot, &expected)?),
        None => None,
    };
    if let Some(upgrade) = &upgrade {
        upgrade.refuse_losses(graph.allow_dropped_state)?;
    }
    let migrating = snapshot
        .zip(upgrade.as_ref())
        .map(|(snapshot, upgrade)| MigratingReader::new(snapshot, upgrade, &expected));
    let snapshot = migrating
        .as_ref()
        .map(|reader| reader as &dyn SnapshotReader);
    let parkers: Vec<Arc<Parker>> = (0..threads).map(|_| Arc::new(Parker::default())).collect();
    let mut wiring = Wiring::new(graph, queue_bytes, &parkers);
    let mut metrics = JobMetrics::default();
    let (mut tasks, mut by_thread) = (Vec::new(), vec![Vec::new(); threads]);
    let mut spans = Vec::new();
    for (number, vertex) in graph.vertices.iter().enumerate() {
        let counters: Vec<_> = vertex
            .chain
            .iter()
            .map(|node| metrics.operator(&node.name))
            .collect();
        let splits = initial_splits(vertex, snapshot)?;
        for index in 0..vertex.parallelism {
            let subtask = Subtask {
                index,
                parallelism: vertex.parallelism,
                max_parallelism: graph.max_parallelism,
            };
            let head = match &vertex.head {
                VertexHead::Source(source) => {
                    let mut operator = (source.build)(subtask)?;
                    let mine = splits
                        .iter()
                        .skip(index)
                        .step_by(vertex.parallelism)
                        .cloned()
                        .collect();
                    if starts_afresh(&source.uid, snapshot) {
                        operator.add_splits(mine)?;
                    }
                    let own = metrics.source();
                    let ctx = Context::new(subtask, metrics.operator(&source.name));
                    Head::Source(Box::new(SourceHead::new(
                        source.uid.clone(),
                        operator,
                        ctx,
                        own,
                    )))
                }
                VertexHead::Inputs => Head::Gate(InputGate::new(
                    wiring.take_receivers(VertexId(number), index),
                )),
            };
            let mut slots = Vec::new();
            for (node, counters) in vertex.chain.iter().zip(&counters) {
                let options = tiers(graph, &node.uid, subtask)?;
                let operator = checked(&node.name, tiered((node.build)(subtask)?, options));
                slots.push(Slot::new(
                    node.uid.clone(),
                    Reader {
                        operator: node.name.clone(),
                        inputs: node.reads.clone(),
                    },
                    operator,
                    Context::new(subtask, counters.clone()),
                    node.keeps_late_rows,
                ));
            }
            let (router, late) = (
                wiring.router(VertexId(number), index, EdgeKind::Results),
                wiring.router(VertexId(number), index, EdgeKind::LateRows),
            );
            by_thread[index % threads].push(tasks.len());
            spans.push(KeySpan::of_key_groups(
                subtask.key_groups(),
                graph.max_parallelism,
            ));
            tasks.push(Task::new(tasks.len(), head, slots, router, late));
        }
    }
    if let Some(snapshot) = snapshot {
        tasks
            .iter_mut()
            .try_for_each(|task| task.restore(snapshot))?;
        tasks.iter_mut().try_for_each(Task::on_restored)?;
    }
    Ok(Deployment {
        tasks,
        spans,
        metrics,
        threads: by_thread,
        parkers,
    })
}

/// The tiers of the keyed state of an operator instance.
fn tiers(graph: &JobGraph, uid: &str, subtask: Subtask) -> Result<TierOptions> {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let uid: String = uid.chars().map(plain).collect();
    let name = format!("{uid}-{}", subtask.index);
    let backend = &graph.backend;
    Ok(TierOptions {
        store: backend.unit_store(&name)?,
        memory: backend.memory_budget().map(MemoryShare::new),
        incremental: graph.incremental,
        most_changes: graph.most_changes,
        copied_bytes: graph.copied_bytes,
        backend: backend.clone(),
        name,
    })
}

fn initial_splits(
    vertex: &Vertex,
    snapshot: Option<&dyn SnapshotReader>,
) -> Result<Vec<crate::connectors::SplitState>> {
    match &vertex.head {
        VertexHead::Source(source) if starts_afresh(&source.uid, snapshot) => (source.splits)(),
        _ => Ok(Vec::new()),
    }
}

/// Whether a source reads from its beginning: nothing of it was saved.
fn starts_afresh(uid: &str, snapshot: Option<&dyn SnapshotReader>) -> bool {
    snapshot.is_none_or(|snapshot| !snapshot.operators().iter().any(|saved| saved == uid))
}

/// What a checkpoint tells of the operators, by stable id.
pub(super) fn operator_facts(graph: &JobGraph) -> BTreeMap<String, OperatorFacts> {
    let mut operators = BTreeMap::new();
    let mut add = |uid: &String, name: &String| {
        let known = graph.facts.operator(uid).cloned();
        let facts = OperatorFacts {
            name: name.clone(),
            ..known.unwrap_or_default()
        };
        operators.insert(uid.clone(), facts);
    };
    for vertex in &graph.vertices {
        if let VertexHead::Source(source) = &vertex.head {
            add(&source.uid, &source.name);
        }
        vertex
            .chain
            .iter()
            .for_each(|node| add(&node.uid, &node.name));
    }
    operators
}

/// The channels of all edges, before tasks take their ends.
struct Wiring<'a> {
    graph: &'a JobGraph,
    queue_bytes: usize,
    parkers: &'a [Arc<Parker>],
    /// By edge, then by receiving subtask: the receivers, one a sending subtask.
    receivers: Vec<Vec<Vec<Receiver>>>,
    /// By edge, then by sending subtask: the senders.
    senders: Vec<Vec<Vec<Arc<Sender>>>>,
}

impl<'a> Wiring<'a> {
    fn new(graph: &'a JobGraph, queue_bytes: usize, parkers: &'a [Arc<Parker>]) -> Self {
        let mut wiring = Wiring {
            graph,
            queue_bytes,
            parkers,
            receivers: Vec::new(),
            senders: Vec::new(),
        };
        graph.edges.iter().for_each(|edge| wiring.connect(edge));
        wiring
    }

    fn connect(&mut self, edge: &Edge) {
        let (from, to) = (
            self.graph.vertices[edge.from.0].parallelism,
            self.graph.vertices[edge.to.0].parallelism,
        );
        let mut receivers: Vec<Vec<_>> = (0..to).map(|_| Vec::new()).collect();
        let mut senders = Vec::new();
        for sender in 0..from {
            let targets: Vec<usize> = match edge.partitioning {
                Partitioning::Forward => vec![sender],
                Partitioning::Singleton => vec![0],
                Partitioning::Hash(_) | Partitioning::Rebalance => (0..to).collect(),
            };
            let mut mine = Vec::new();
            for target in targets {
                let threads = self.parkers.len();
                let (near, far) = channel(
                    self.queue_bytes,
                    self.parkers[sender % threads].clone(),
                    self.parkers[target % threads].clone(),
                );
                mine.push(Arc::new(near));
                receivers[target].push(far);
            }
            senders.push(mine);
        }
        self.receivers.push(receivers);
        self.senders.push(senders);
    }

    fn take_receivers(
        &mut self,
        vertex: VertexId,
        subtask: usize,
    ) -> Vec<(Receiver, ChannelOrigin)> {
        let edges = self.graph.edges.iter().enumerate();
        let into: Vec<(usize, &Edge)> = edges.filter(|(_, edge)| edge.to == vertex).collect();
        let mut taken = Vec::new();
        for (place, (number, edge)) in into.iter().enumerate() {
            let receivers = std::mem::take(&mut self.receivers[*number][subtask]);
            let is_forward = edge.partitioning == Partitioning::Forward;
            taken.extend(receivers.into_iter().enumerate().map(|(sender, receiver)| {
                let origin = ChannelOrigin {
                    edge: place,
                    edges: into.len(),
                    sender: if is_forward { subtask } else { sender },
                    senders: self.graph.vertices[edge.from.0].parallelism,
                    input: edge.input.0,
                    hashed: match &edge.partitioning {
                        Partitioning::Hash(columns) => Some(columns.clone()),
                        _ => None,
                    },
                    is_overtakable: !is_forward,
                };
                (receiver, origin)
            }));
        }
        taken
    }

    fn router(&self, vertex: VertexId, subtask: usize, kind: EdgeKind) -> Router {
        let edges = self
            .graph
            .edges
            .iter()
            .enumerate()
            .filter(|(_, edge)| edge.from == vertex && edge.kind == kind);
        Router::new(
            edges
                .map(|(number, edge)| {
                    OutputEdge::new(
                        edge.partitioning.clone(),
                        self.graph.max_parallelism,
                        self.senders[number][subtask].clone(),
                    )
                })
                .collect(),
        )
    }
}
