//! Names the state of nodes so that a later planning of the same query finds it again.
//!
//! A uid is a word for the kind and a hash over what the node computes and the uids of what it computes from. What only
//! says how it runs is left out: exchanges, parallelism, the local phase of an aggregation.

use xxhash_rust::xxh3::xxh3_64;

use super::exec_node::{ExecNode, ExecNodeKind, ExecPlan, NodeId};
use super::explain::attributes;

/// Gives every node its uid.
pub(crate) fn assign_uids(plan: &mut ExecPlan) {
    let mut uids: Vec<String> = Vec::with_capacity(plan.nodes.len());
    for node in &plan.nodes {
        let digest = digest(plan, node, &uids);
        let base = format!("{}-{:016x}", word(&node.kind), xxh3_64(digest.as_bytes()));
        uids.push(distinct(base, &uids));
    }
    for (node, uid) in plan.nodes.iter_mut().zip(uids) {
        node.uid = uid;
    }
}

fn digest(plan: &ExecPlan, node: &ExecNode, uids: &[String]) -> String {
    let attributes = match &node.kind {
        ExecNodeKind::GlobalWindowAggregate(aggregate) => aggregate.as_one_phase(),
        ExecNodeKind::GlobalGroupAggregate(aggregate) => aggregate.as_one_phase(),
        _ => attributes(plan, node),
    };
    let mut digest = String::from(word(&node.kind));
    for (name, value) in attributes {
        digest.push_str(&format!("\u{1f}{name}={value}"));
    }
    for input in &node.inputs {
        let input = computing(plan, &node.kind, *input);
        digest.push_str(&format!("\u{1e}{}", uids[input.0]));
    }
    digest
}

/// The node that computes what an input gives: exchanges only move it, a local aggregation belongs to the global one.
fn computing(plan: &ExecPlan, consumer: &ExecNodeKind, input: NodeId) -> NodeId {
    let node = plan.node(input);
    match (&node.kind, consumer) {
        (ExecNodeKind::Exchange(_), _) => computing(plan, consumer, node.inputs[0]),
        (ExecNodeKind::LocalWindowAggregate(_), ExecNodeKind::GlobalWindowAggregate(_))
        | (ExecNodeKind::LocalGroupAggregate(_), ExecNodeKind::GlobalGroupAggregate(_))
        | (ExecNodeKind::MiniBatchAssigner(_), _) => computing(plan, consumer, node.inputs[0]),
        _ => input,
    }
}

fn word(kind: &ExecNodeKind) -> &'static str {
    match kind {
        ExecNodeKind::TableSourceScan(_) => "source",
        ExecNodeKind::Values(_) => "values",
        ExecNodeKind::Calc(_) => "calc",
        ExecNodeKind::WatermarkAssigner(_) => "watermark-assigner",
        ExecNodeKind::Expand(_) => "expand",
        ExecNodeKind::Correlate(_) => "correlate",
        ExecNodeKind::Union(_) => "union",
        ExecNodeKind::Exchange(_) => "exchange",
        ExecNodeKind::WindowTableFunction(_) => "window-table-function",
        ExecNodeKind::LocalWindowAggregate(_) => "local-window-aggregate",
        ExecNodeKind::WindowAggregate(_) | ExecNodeKind::GlobalWindowAggregate(_) => {
            "window-aggregate"
        }
        ExecNodeKind::GroupWindowAggregate(_) => "group-window-aggregate",
        ExecNodeKind::WindowRank(_) => "window-rank",
        ExecNodeKind::WindowDeduplicate(_) => "window-deduplicate",
        ExecNodeKind::WindowJoin(_) => "window-join",
        ExecNodeKind::ChangelogNormalize(_) => "changelog-normalize",
        ExecNodeKind::DropUpdateBefore(_) => "drop-update-before",
        ExecNodeKind::MiniBatchAssigner(_) => "mini-batch-assigner",
        ExecNodeKind::GroupAggregate(_) => "group-aggregate",
        ExecNodeKind::LocalGroupAggregate(_) => "local-group-aggregate",
        ExecNodeKind::GlobalGroupAggregate(_) => "group-aggregate",
        ExecNodeKind::Deduplicate(_) => "deduplicate",
        ExecNodeKind::Rank(_) => "rank",
        ExecNodeKind::TemporalSort(_) => "temporal-sort",
        ExecNodeKind::OverAggregate(_) => "over-aggregate",
        ExecNodeKind::Match(_) => "match",
        ExecNodeKind::Join(_) => "join",
        ExecNodeKind::MultiJoin(_) => "multi-join",
        ExecNodeKind::IntervalJoin(_) => "interval-join",
        ExecNodeKind::TemporalJoin(_) => "temporal-join",
        ExecNodeKind::LookupJoin(_) => "lookup-join",
        ExecNodeKind::Sink(_) => "sink",
        ExecNodeKind::SinkUpsertMaterializer(_) => "sink-upsert-materializer",
        ExecNodeKind::LateRowsSink(_) => "late-rows-sink",
    }
}

/// Equal nodes that are not shared (two INSERTs of the same rows, random numbers) are told apart by their order.
fn distinct(base: String, taken: &[String]) -> String {
    let mut uid = base.clone();
    let mut number = 2;
    while taken.contains(&uid) {
        uid = format!("{base}-{number}");
        number += 1;
    }
    uid
}
