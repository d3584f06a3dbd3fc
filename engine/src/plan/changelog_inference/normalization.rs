//! What is mended behind sources: which give updates by key or changes twice, and which filters go along.

use super::demands::{Demands, keeps_whole_keys, updates};
use crate::config::SessionConfig;
use crate::error::{Error, Result};
use crate::functions::is_deterministic;
use crate::plan::exec_node::{ExecNode, ExecNodeKind, ExecPlan, NodeId};
use crate::plan::nodes::TableSourceScanNode;
use crate::types::RowKind;

/// A source of updates.
#[derive(Debug, Clone)]
pub(super) struct UpdatingSource {
    /// The last node of what runs as the source: the scan, its computed columns, its watermark.
    pub(super) end: NodeId,
    /// The columns of the primary key there; empty where none is declared.
    key: Vec<usize>,
    gives_old_rows: bool,
    repeats_changes: bool,
}

/// What is put in behind a node.
#[derive(Debug, Clone)]
pub(super) enum Mend {
    /// DropUpdateBefore.
    DropUpdateBefore,
    /// ChangelogNormalize, over a hash exchange.
    Normalize {
        key: Vec<usize>,
        /// The filter whose condition is taken over.
        filter: Option<NodeId>,
        drop_update_before: bool,
    },
}

/// The sources that update, checked for a primary key where one is needed.
pub(super) fn updating_sources(
    plan: &ExecPlan,
    config: &SessionConfig,
) -> Result<Vec<UpdatingSource>> {
    let duplicates = config
        .get("table.exec.source.cdc-events-duplicate")
        .is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let consumers = plan.consumers();
    let mut sources = Vec::new();
    for node in &plan.nodes {
        let ExecNodeKind::TableSourceScan(scan) = &node.kind else {
            continue;
        };
        if node.changelog_mode.is_insert_only() {
            continue;
        }
        let gives_old_rows = node.changelog_mode.contains(RowKind::UpdateBefore) || !updates(node);
        if scan.table.primary_key.is_empty() && (duplicates || !gives_old_rows) {
            return Err(without_primary_key(scan, gives_old_rows));
        }
        let end = end_of_source(plan, &consumers, node);
        sources.push(UpdatingSource {
            end: end.id,
            key: primary_key_at(scan, end),
            gives_old_rows,
            repeats_changes: duplicates,
        });
    }
    Ok(sources)
}

fn without_primary_key(scan: &TableSourceScanNode, gives_old_rows: bool) -> Error {
    let table = &scan.table.name;
    let error = if gives_old_rows {
        Error::user(format!(
            "'table.exec.source.cdc-events-duplicate' is on, so table \"{table}\" (changelog mode [{}]) needs a PRIMARY KEY to \
             tell repeated changes",
            scan.changelog_mode
        ))
    } else {
        Error::user(format!(
            "table \"{table}\" gives updates by key (changelog mode [{}]), but declares no PRIMARY KEY",
            scan.changelog_mode
        ))
    };
    error.hint(format!(
        "add PRIMARY KEY (…) NOT ENFORCED to CREATE TABLE {table}"
    ))
}

/// The last of the nodes that run as one with a scan.
fn end_of_source<'a>(
    plan: &'a ExecPlan,
    consumers: &[Vec<(NodeId, usize)>],
    scan: &'a ExecNode,
) -> &'a ExecNode {
    let only_consumer = |node: &ExecNode| match consumers[node.id.0][..] {
        [(next, 0)] => Some(plan.node(next)),
        _ => None,
    };
    let is_assigner = |node: &&ExecNode| matches!(node.kind, ExecNodeKind::WatermarkAssigner(_));
    match only_consumer(scan) {
        Some(next) if is_assigner(&next) => next,
        Some(next) => match &next.kind {
            ExecNodeKind::Calc(calc) if calc.condition.is_none() => {
                only_consumer(next).filter(is_assigner).unwrap_or(scan)
            }
            _ => scan,
        },
        None => scan,
    }
}

/// The primary key of the table in the order of its declaration, by the columns of the source's last node; empty where it is not whole.
fn primary_key_at(scan: &TableSourceScanNode, end: &ExecNode) -> Vec<usize> {
    let columns = scan.table.primary_key.iter().map(|column| {
        let name = &scan.table.physical.fields[*column].name;
        end.schema.index_of(name)
    });
    let key: Vec<usize> = columns.flatten().collect();
    let mut sorted = key.clone();
    sorted.sort_unstable();
    if end.upsert_keys.contains(&sorted) {
        key
    } else {
        end.upsert_key().unwrap_or_default().to_vec()
    }
}

/// The filters right behind sources that give updates by key: the node that restores the old rows can apply them, and then
/// nobody need see the old rows of what they drop.
pub(super) fn filters_to_absorb(plan: &ExecPlan, sources: &[UpdatingSource]) -> Vec<NodeId> {
    let consumers = plan.consumers();
    let filter_behind = |source: &UpdatingSource| {
        let [(next, 0)] = consumers[source.end.0][..] else {
            return None;
        };
        let node = plan.node(next);
        let ExecNodeKind::Calc(calc) = &node.kind else {
            return None;
        };
        let absorbs = calc.condition.as_ref().is_some_and(is_deterministic)
            && !keeps_whole_keys(calc, plan.node(source.end));
        absorbs.then_some(next)
    };
    sources
        .iter()
        .filter(|source| !source.gives_old_rows && !source.key.is_empty())
        .filter_map(filter_behind)
        .collect()
}

/// What is put in behind which nodes.
pub(super) fn mends(
    plan: &ExecPlan,
    sources: &[UpdatingSource],
    absorbed: &[NodeId],
    demands: &Demands,
) -> Vec<(NodeId, Mend)> {
    let consumers = plan.consumers();
    let filter = |end: NodeId| {
        let mut behind = consumers[end.0].iter().map(|(consumer, _)| *consumer);
        behind.find(|consumer| absorbed.contains(consumer))
    };
    let mend = |source: &UpdatingSource| {
        let end = source.end.0;
        let asked = demands.update_before[end] || demands.full_deletes[end];
        if asked && (!source.gives_old_rows || source.repeats_changes) {
            return Some(Mend::Normalize {
                key: source.key.clone(),
                filter: filter(source.end),
                drop_update_before: source.gives_old_rows && updates(plan.node(source.end)),
            });
        }
        let drops =
            source.gives_old_rows && updates(plan.node(source.end)) && !demands.update_before[end];
        drops.then_some(Mend::DropUpdateBefore)
    };
    sources
        .iter()
        .filter_map(|source| Some((source.end, mend(source)?)))
        .collect()
}
