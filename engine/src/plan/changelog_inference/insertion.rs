//! Puts the nodes that mend changelogs into a plan, and says for all nodes what they then give.

use super::demands::{Asks, Demands, asks_old_rows};
use super::normalization::Mend;
use super::produced_mode;
use crate::expr::Expression;
use crate::plan::exec_node::{ExecNode, ExecNodeKind, ExecPlan, NodeId};
use crate::plan::nodes::*;
use crate::plan::row_logic::bare_column;
use crate::types::{ChangelogMode, JoinKind, RowKind};

/// The plan with the mends behind their nodes, numbered anew, and with final changelog modes.
pub(super) fn insert(plan: ExecPlan, mends: Vec<(NodeId, Mend)>, demands: &Demands) -> ExecPlan {
    let mut mended = Mended {
        old: &plan,
        demands,
        nodes: Vec::with_capacity(plan.nodes.len()),
        place: vec![NodeId(0); plan.nodes.len()],
        filters: Vec::new(),
    };
    for node in &plan.nodes {
        mended.push_old(node);
        let behind = mends.iter().find(|(end, _)| *end == node.id);
        if let Some((_, mend)) = behind {
            mended.mend(node, mend);
        }
    }
    let at = |id: &NodeId| mended.place[id.0];
    ExecPlan {
        roots: plan.roots.iter().map(at).collect(),
        late_rows_sink: plan.late_rows_sink.as_ref().map(at),
        nodes: mended.nodes,
    }
}

struct Mended<'a> {
    old: &'a ExecPlan,
    demands: &'a Demands,
    nodes: Vec<ExecNode>,
    /// For each node of the old plan, which one now gives its rows.
    place: Vec<NodeId>,
    /// The filters whose conditions have been taken over.
    filters: Vec<NodeId>,
}

impl Mended<'_> {
    fn push_old(&mut self, node: &ExecNode) {
        let inputs: Vec<NodeId> = (0..node.inputs.len())
            .map(|position| self.input(node, position))
            .collect();
        let mut node = node.clone();
        if let ExecNodeKind::Calc(calc) = &mut node.kind
            && self.filters.contains(&node.id)
        {
            calc.condition = None;
            let below = &self.nodes[inputs[0].0];
            if is_identity(&calc.projection) && below.schema == node.schema {
                self.place[node.id.0] = inputs[0];
                return;
            }
        }
        if let ExecNodeKind::Exchange(exchange) = &node.kind
            && self.is_dealt_so(inputs[0], exchange)
        {
            self.place[node.id.0] = inputs[0];
            return;
        }
        let old_id = node.id;
        node.inputs = inputs;
        let update_before = self.demands.update_before[old_id.0];
        self.place[old_id.0] = self.push(node, update_before);
    }

    /// The input of a node in the new plan, with the rows before updates left out where it cannot have them.
    fn input(&mut self, node: &ExecNode, position: usize) -> NodeId {
        let old = node.inputs[position];
        let input = self.place[old.0];
        let comes = self.nodes[input.0]
            .changelog_mode
            .contains(RowKind::UpdateBefore);
        if comes && asks_old_rows(self.old, node, position) == Asks::Without {
            return self.drop_update_before(input);
        }
        input
    }

    /// Whether a mended source gives its rows as this exchange behind it would deal them.
    fn is_dealt_so(&self, input: NodeId, exchange: &ExchangeNode) -> bool {
        let node = &self.nodes[input.0];
        match (&node.kind, &exchange.distribution) {
            (ExecNodeKind::ChangelogNormalize(normalize), Distribution::Hash(keys)) => {
                normalize.key == *keys
            }
            _ => false,
        }
    }

    fn mend(&mut self, end: &ExecNode, mend: &Mend) {
        let at = self.place[end.id.0];
        let at = match mend {
            Mend::DropUpdateBefore => self.drop_update_before(at),
            Mend::Normalize {
                key,
                filter,
                drop_update_before,
            } => {
                let at = if *drop_update_before {
                    self.drop_update_before(at)
                } else {
                    at
                };
                self.normalize(at, key, *filter, self.demands.update_before[end.id.0])
            }
        };
        self.place[end.id.0] = at;
    }

    fn drop_update_before(&mut self, input: NodeId) -> NodeId {
        let kind = ExecNodeKind::DropUpdateBefore(DropUpdateBeforeNode {});
        self.push_over(kind, input, false)
    }

    fn normalize(
        &mut self,
        input: NodeId,
        key: &[usize],
        filter: Option<NodeId>,
        update_before: bool,
    ) -> NodeId {
        let exchange = ExecNodeKind::Exchange(ExchangeNode {
            distribution: Distribution::Hash(key.to_vec()),
        });
        let exchange = self.push_over(exchange, input, false);
        let condition = filter.and_then(|filter| match &self.old.node(filter).kind {
            ExecNodeKind::Calc(calc) => calc.condition.clone(),
            _ => None,
        });
        self.filters.extend(filter);
        let normalize = ExecNodeKind::ChangelogNormalize(ChangelogNormalizeNode {
            key: key.to_vec(),
            condition,
        });
        let id = self.push_over(normalize, exchange, update_before);
        let mut key = key.to_vec();
        key.sort_unstable();
        self.nodes[id.0].upsert_keys = vec![key];
        id
    }

    /// A new node over one input, with its columns and its parallelism.
    fn push_over(&mut self, kind: ExecNodeKind, input: NodeId, update_before: bool) -> NodeId {
        let below = &self.nodes[input.0];
        let node = ExecNode {
            kind,
            inputs: vec![input],
            ..below.clone()
        };
        self.push(node, update_before)
    }

    fn push(&mut self, mut node: ExecNode, update_before: bool) -> NodeId {
        let id = NodeId(self.nodes.len());
        node.id = id;
        let inputs: Vec<ChangelogMode> = node
            .inputs
            .iter()
            .map(|input| self.nodes[input.0].changelog_mode)
            .collect();
        let mode = produced_mode(&node.kind, &inputs);
        node.changelog_mode = if update_before || gives_what_comes(&node.kind) {
            mode
        } else {
            mode.without(RowKind::UpdateBefore)
        };
        self.nodes.push(node);
        id
    }
}

/// Whether a node gives updates as they come, rather than by its own choice.
fn gives_what_comes(kind: &ExecNodeKind) -> bool {
    match kind {
        ExecNodeKind::Join(join) => matches!(join.kind, JoinKind::Inner | JoinKind::Semi),
        ExecNodeKind::MultiJoin(join) => join.is_inner(),
        ExecNodeKind::ChangelogNormalize(_)
        | ExecNodeKind::GroupAggregate(_)
        | ExecNodeKind::GlobalGroupAggregate(_)
        | ExecNodeKind::Deduplicate(_)
        | ExecNodeKind::Rank(_)
        | ExecNodeKind::OverAggregate(_) => false,
        _ => true,
    }
}

/// Whether a projection gives all columns as they are.
fn is_identity(projection: &[Expression]) -> bool {
    projection
        .iter()
        .enumerate()
        .all(|(at, expression)| bare_column(expression) == Some(at))
}
