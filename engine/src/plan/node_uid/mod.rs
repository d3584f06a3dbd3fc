//! Names the state of nodes so that a later planning of the same query, or of one that differs elsewhere, finds it again.
//!
//! A uid is a word for the kind and a hash over what the *state* of the node speaks about: which rows come in and how they are keyed
//! ([`lineage`]). What only says how the node runs is left out (exchanges, parallelism, the local phase of an aggregation, mini-batch), and
//! so is what can change without making the state another one: which columns are carried along, under which names, and
//! which aggregates are kept. Sources and sinks are named after their tables. `docs/architecture/state-and-upgrades.md` lists it.

mod lineage;

use std::collections::{BTreeMap, BTreeSet};

use xxhash_rust::xxh3::xxh3_64;

use super::exec_node::{ExecNode, ExecNodeKind, ExecPlan};
use super::explain::describe;

pub(crate) use lineage::{Lineage, folded_input, lineages};

/// Gives every node its uid.
pub(crate) fn assign_uids(plan: &mut ExecPlan) {
    let mut uids: Vec<String> = Vec::with_capacity(plan.nodes.len());
    for (node, lineage) in plan.nodes.iter().zip(lineages(plan)) {
        let base = format!("{}-{}", word(&node.kind), lineage.state);
        uids.push(distinct(base, &uids));
    }
    for (node, uid) in plan.nodes.iter_mut().zip(uids) {
        node.uid = uid;
    }
}

/// What a node gives, exchanges looked through, as a digest: which rows, of which kinds, what each column holds and of which type. It
/// is stricter than a uid: rows on their way into an operator have the columns that it read then, not those that it asks for.
pub(crate) fn given(plan: &ExecPlan, lineages: &[Lineage], node: &ExecNode) -> String {
    let node = behind_exchange(plan, node);
    let lineage = &lineages[node.id.0];
    let text = format!(
        "{} {:?} {:?} {:?} {}",
        lineage.rows,
        lineage.columns,
        node.schema,
        node.changelog_mode,
        describe(plan, node)
    );
    format!("{:016x}", xxh3_64(text.as_bytes()))
}

/// What the columns hold that come into a node, by their names.
pub(crate) fn read_columns(
    plan: &ExecPlan,
    lineages: &[Lineage],
    node: &ExecNode,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut columns: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for input in &node.inputs {
        let input = behind_exchange(plan, plan.node(*input));
        let texts = &lineages[input.id.0].columns;
        for (name, text) in input.schema.names().zip(texts) {
            columns
                .entry(name.to_string())
                .or_default()
                .insert(text.clone());
        }
    }
    columns
}

fn behind_exchange<'a>(plan: &'a ExecPlan, node: &'a ExecNode) -> &'a ExecNode {
    match (&node.kind, &node.inputs[..]) {
        (ExecNodeKind::Exchange(_), [input]) => behind_exchange(plan, plan.node(*input)),
        _ => node,
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

/// Equal nodes that are not shared (two INSERTs into one table, a table read with different options, random numbers) are told apart by
/// their order in the statements.
fn distinct(base: String, taken: &[String]) -> String {
    let mut uid = base.clone();
    let mut number = 2;
    while taken.contains(&uid) {
        uid = format!("{base}-{number}");
        number += 1;
    }
    uid
}
