//! Puts a MiniBatchAssigner behind each source or its watermark, where mini-batch is on.
//!
//! Seen from the sinks, bundles end by the clock (ProcTime) unless some node on the way reads event time: then they end by the
//! watermark (RowTime), which an assigner can only thin behind a watermark. Below a legacy group window there are none.

use crate::config::SessionConfig;
use crate::expr::Expression;
use crate::plan::exec_node::{ExecNode, ExecNodeKind, ExecPlan, NodeId};
use crate::plan::nodes::MiniBatchAssignerNode;

/// How the consumers of a node want bundles to end; the greatest wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Unasked,
    ByClock,
    ByWatermark,
    Off,
}

/// See the file.
pub(crate) fn insert_mini_batch_assigners(plan: ExecPlan, config: &SessionConfig) -> ExecPlan {
    if !config.boolean("table.exec.mini-batch.enabled") {
        return plan;
    }
    let latency = config.duration("table.exec.mini-batch.allow-latency");
    let interval_ms = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
    let assigners = assigners(&plan, &modes(&plan), interval_ms);
    rebuilt(plan, assigners)
}

/// What the consumers of each node want.
fn modes(plan: &ExecPlan) -> Vec<Mode> {
    let mut modes = vec![Mode::Unasked; plan.nodes.len()];
    for root in plan.roots.iter().chain(&plan.late_rows_sink) {
        modes[root.0] = Mode::ByClock;
    }
    for node in plan.nodes.iter().rev() {
        let wanted = match &node.kind {
            ExecNodeKind::WatermarkAssigner(_) => Mode::Unasked,
            ExecNodeKind::GroupWindowAggregate(_) => Mode::Off,
            _ if reads_event_time(node) => modes[node.id.0].max(Mode::ByWatermark),
            _ => modes[node.id.0],
        };
        for input in &node.inputs {
            modes[input.0] = modes[input.0].max(wanted);
        }
    }
    modes
}

fn reads_event_time(node: &ExecNode) -> bool {
    let is_event_time = match &node.kind {
        ExecNodeKind::WindowTableFunction(function) => function.window.time.is_event_time(),
        ExecNodeKind::WindowAggregate(aggregate) => aggregate.spec.window.time.is_event_time(),
        ExecNodeKind::LocalWindowAggregate(_) | ExecNodeKind::GlobalWindowAggregate(_) => true,
        ExecNodeKind::WindowRank(rank) => rank.window.time.is_event_time(),
        ExecNodeKind::WindowDeduplicate(deduplicate) => deduplicate.window.time.is_event_time(),
        ExecNodeKind::WindowJoin(join) => join.window.time.is_event_time(),
        ExecNodeKind::Deduplicate(deduplicate) => deduplicate.order_column.is_some(),
        ExecNodeKind::OverAggregate(over) => over.is_event_time,
        ExecNodeKind::IntervalJoin(join) => join.is_event_time,
        ExecNodeKind::TemporalJoin(_) | ExecNodeKind::TemporalSort(_) => true,
        _ => false,
    };
    let reads_watermark = |expression: &&Expression| expression.calls("CURRENT_WATERMARK");
    is_event_time || node.kind.expressions().iter().any(reads_watermark)
}

/// The assigner behind each node, if there is to be one.
fn assigners(
    plan: &ExecPlan,
    modes: &[Mode],
    interval_ms: u64,
) -> Vec<Option<MiniBatchAssignerNode>> {
    let assigner = |node: &ExecNode| {
        let is_event_time = match (&node.kind, modes[node.id.0]) {
            (ExecNodeKind::WatermarkAssigner(_), Mode::ByWatermark) => true,
            (
                ExecNodeKind::WatermarkAssigner(_)
                | ExecNodeKind::TableSourceScan(_)
                | ExecNodeKind::Values(_),
                Mode::ByClock,
            ) => false,
            _ => return None,
        };
        Some(MiniBatchAssignerNode {
            interval_ms,
            is_event_time,
        })
    };
    plan.nodes.iter().map(assigner).collect()
}

/// The plan with the assigners in it, numbered anew.
fn rebuilt(plan: ExecPlan, assigners: Vec<Option<MiniBatchAssignerNode>>) -> ExecPlan {
    let mut nodes: Vec<ExecNode> = Vec::with_capacity(plan.nodes.len());
    let mut own: Vec<NodeId> = Vec::new();
    let mut read: Vec<NodeId> = Vec::new();
    for (mut node, assigner) in plan.nodes.into_iter().zip(assigners) {
        node.id = NodeId(nodes.len());
        node.inputs
            .iter_mut()
            .for_each(|input| *input = read[input.0]);
        own.push(node.id);
        let assigned = assigner.map(|assigner| ExecNode {
            id: NodeId(nodes.len() + 1),
            kind: ExecNodeKind::MiniBatchAssigner(assigner),
            inputs: vec![node.id],
            ..node.clone()
        });
        nodes.push(node);
        nodes.extend(assigned);
        read.push(NodeId(nodes.len() - 1));
    }
    let moved = |id: NodeId| own[id.0];
    ExecPlan {
        nodes,
        roots: plan.roots.into_iter().map(moved).collect(),
        late_rows_sink: plan.late_rows_sink.map(moved),
    }
}
