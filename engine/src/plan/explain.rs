//! EXPLAIN: the plan as a tree, in Flink's form.
//!
//! A node that several others read is shown in full at its first place, marked `(reuse_id=[1])`; at the others stands
//! `Reused(reference_id=[1])`.

use std::collections::BTreeMap;

use super::exec_node::{ExecNode, ExecNodeKind, ExecPlan, NodeId};
use super::explain_state::explain_state;
use super::logical::ExplainDetails;
use super::nodes::{Attributes, Scope, SinkTarget};
use crate::config::SessionConfig;

/// The text of EXPLAIN: the heading, then a tree for each sink, then the details.
pub fn explain(plan: &ExecPlan, config: &SessionConfig, details: ExplainDetails) -> String {
    let mut tree = Tree {
        plan,
        changelog_mode: details.changelog_mode,
        consumers: plan.consumers().iter().map(Vec::len).collect(),
        reused: BTreeMap::new(),
        text: String::from("== Optimized Execution Plan ==\n"),
    };
    for (index, root) in plan.roots.iter().enumerate() {
        if index > 0 {
            tree.text.push('\n');
        }
        tree.write(tree.shown(*root), "", "");
    }
    if details.state {
        tree.text.push_str(&explain_state(plan, config));
    }
    tree.text
}

struct Tree<'a> {
    plan: &'a ExecPlan,
    changelog_mode: bool,
    consumers: Vec<usize>,
    reused: BTreeMap<NodeId, usize>,
    text: String,
}

impl Tree<'_> {
    /// Where the tree of a root begins. The caller of a bare SELECT is no part of the query, nor is the way to it.
    fn shown(&self, root: NodeId) -> NodeId {
        let node = self.plan.node(root);
        let ExecNodeKind::Sink(sink) = &node.kind else {
            return root;
        };
        if sink.target != SinkTarget::Collect {
            return root;
        }
        let input = self.plan.node(node.inputs[0]);
        let gathers = matches!(input.kind, ExecNodeKind::Exchange(_));
        if gathers && input.parallelism == 1 && self.plan.node(input.inputs[0]).parallelism > 1 {
            input.inputs[0]
        } else {
            input.id
        }
    }

    /// What a sink remembers by primary key is shown at the sink, and so is the exchange to it.
    fn shown_input(&self, id: NodeId) -> NodeId {
        let node = self.plan.node(id);
        let ExecNodeKind::SinkUpsertMaterializer(_) = &node.kind else {
            return id;
        };
        let input = self.plan.node(node.inputs[0]);
        match &input.kind {
            ExecNodeKind::Exchange(_) => input.inputs[0],
            _ => input.id,
        }
    }

    /// Writes a node at its place: `first` stands before its own line, `rest` before those of its inputs.
    fn write(&mut self, id: NodeId, first: &str, rest: &str) {
        if let Some(reference) = self.reused.get(&id) {
            self.text
                .push_str(&format!("{first}Reused(reference_id=[{reference}])\n"));
            return;
        }
        let node = self.plan.node(id);
        let mut line = self.line(node);
        if self.consumers[id.0] > 1 {
            let reference = self.reused.len() + 1;
            self.reused.insert(id, reference);
            line.push_str(&format!("(reuse_id=[{reference}])"));
        }
        self.text.push_str(&format!("{first}{line}\n"));
        let last = node.inputs.len().saturating_sub(1);
        for (position, input) in node.inputs.iter().enumerate() {
            let (branch, below) = if position == last {
                ("+- ", "   ")
            } else {
                (":- ", ":  ")
            };
            self.write(
                self.shown_input(*input),
                &format!("{rest}{branch}"),
                &format!("{rest}{below}"),
            );
        }
    }

    fn line(&self, node: &ExecNode) -> String {
        let mut attributes = attributes(self.plan, node);
        if self.changelog_mode {
            let mode = match &node.kind {
                ExecNodeKind::Sink(_) => "NONE".to_string(),
                _ => node.changelog_mode.to_string(),
            };
            attributes.push(("changelogMode", mode));
        }
        written(node.kind.name(), attributes)
    }
}

/// A node as EXPLAIN shows it: `Calc(select=[a, b])`.
pub(crate) fn describe(plan: &ExecPlan, node: &ExecNode) -> String {
    written(node.kind.name(), attributes(plan, node))
}

fn written(name: &str, attributes: Attributes) -> String {
    let attributes: Vec<String> = attributes
        .into_iter()
        .map(|(name, value)| format!("{name}=[{value}]"))
        .collect();
    if attributes.is_empty() {
        return name.to_string();
    }
    format!("{name}({})", attributes.join(", "))
}

pub(crate) fn attributes(plan: &ExecPlan, node: &ExecNode) -> Attributes {
    let scope = Scope {
        node,
        inputs: plan.inputs(node),
    };
    match &node.kind {
        ExecNodeKind::TableSourceScan(scan) => scan.attributes(&scope),
        ExecNodeKind::Values(values) => values.attributes(&scope),
        ExecNodeKind::Calc(calc) => calc.attributes(&scope),
        ExecNodeKind::WatermarkAssigner(assigner) => assigner.attributes(&scope),
        ExecNodeKind::Expand(expand) => expand.attributes(&scope),
        ExecNodeKind::Correlate(correlate) => correlate.attributes(&scope),
        ExecNodeKind::Union(union) => union.attributes(&scope),
        ExecNodeKind::Exchange(exchange) => exchange.attributes(&scope),
        ExecNodeKind::WindowTableFunction(function) => function.attributes(&scope),
        ExecNodeKind::WindowAggregate(aggregate) => aggregate.attributes(&scope),
        ExecNodeKind::LocalWindowAggregate(aggregate) => aggregate.attributes(&scope),
        ExecNodeKind::GlobalWindowAggregate(aggregate) => aggregate.attributes(&scope),
        ExecNodeKind::GroupWindowAggregate(aggregate) => aggregate.attributes(&scope),
        ExecNodeKind::WindowRank(rank) => rank.attributes(&scope),
        ExecNodeKind::WindowDeduplicate(deduplicate) => deduplicate.attributes(&scope),
        ExecNodeKind::WindowJoin(join) => join.attributes(&scope),
        ExecNodeKind::ChangelogNormalize(node) => node.attributes(&scope),
        ExecNodeKind::DropUpdateBefore(node) => node.attributes(&scope),
        ExecNodeKind::MiniBatchAssigner(node) => node.attributes(&scope),
        ExecNodeKind::GroupAggregate(node) => node.attributes(&scope),
        ExecNodeKind::LocalGroupAggregate(node) => node.attributes(&scope),
        ExecNodeKind::GlobalGroupAggregate(node) => node.attributes(&scope),
        ExecNodeKind::Deduplicate(node) => node.attributes(&scope),
        ExecNodeKind::Rank(node) => node.attributes(&scope),
        ExecNodeKind::TemporalSort(node) => node.attributes(&scope),
        ExecNodeKind::OverAggregate(node) => node.attributes(&scope),
        ExecNodeKind::Match(node) => node.attributes(&scope),
        ExecNodeKind::Join(node) => node.attributes(&scope),
        ExecNodeKind::MultiJoin(node) => node.attributes(&scope),
        ExecNodeKind::IntervalJoin(node) => node.attributes(&scope),
        ExecNodeKind::TemporalJoin(node) => node.attributes(&scope),
        ExecNodeKind::LookupJoin(node) => node.attributes(&scope),
        ExecNodeKind::Sink(sink) => sink.attributes(&scope),
        ExecNodeKind::SinkUpsertMaterializer(node) => node.attributes(&scope),
        ExecNodeKind::LateRowsSink(sink) => sink.attributes(&scope),
    }
}
