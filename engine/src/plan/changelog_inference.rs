//! Which kinds of rows flow on each edge: Flink's passes over a table of what each kind of node takes, gives and asks.
//!
//! First, from the sources on, the kinds that can come and whether every consumer takes them. Second, from the sinks
//! back, who needs the row before an update (-U); a shared node gives it to all consumers if one needs it. Third, who
//! needs deletes as full rows rather than by key. A source that cannot give what is asked is refused.

use super::exec_node::{ExecNode, ExecNodeKind, ExecPlan};
use super::explain::describe;
use super::nodes::*;
use crate::error::{Error, Result};
use crate::types::{ChangelogMode, JoinKind, RowKind};

/// What kinds a node takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    InsertOnly,
    AllKinds,
}

/// Whether a node must see the row before an update, and deletes as full rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// Of itself: it takes back what the old row did.
    OldRows,
    /// What its consumers ask.
    WhatConsumersAsk,
    /// Nothing.
    Nothing,
}

/// The kinds that a node gives when its inputs give `inputs`.
pub(crate) fn produced_mode(kind: &ExecNodeKind, inputs: &[ChangelogMode]) -> ChangelogMode {
    match kind {
        ExecNodeKind::TableSourceScan(scan) => scan.changelog_mode,
        ExecNodeKind::Calc(_)
        | ExecNodeKind::WatermarkAssigner(_)
        | ExecNodeKind::Expand(_)
        | ExecNodeKind::Correlate(_)
        | ExecNodeKind::Union(_)
        | ExecNodeKind::Exchange(_)
        | ExecNodeKind::WindowTableFunction(_)
        | ExecNodeKind::Sink(_) => inputs
            .iter()
            .copied()
            .reduce(ChangelogMode::union)
            .unwrap_or(ChangelogMode::INSERT_ONLY),
        ExecNodeKind::ChangelogNormalize(_) => ChangelogMode::RETRACT,
        ExecNodeKind::DropUpdateBefore(_) => inputs[0].without(RowKind::UpdateBefore),
        ExecNodeKind::MiniBatchAssigner(_) | ExecNodeKind::TemporalSort(_) => inputs[0],
        ExecNodeKind::GroupAggregate(node) => group_mode(&node.spec, inputs[0]),
        ExecNodeKind::GlobalGroupAggregate(node) => group_mode(&node.spec, inputs[0]),
        ExecNodeKind::LocalGroupAggregate(_) => inputs[0],
        ExecNodeKind::Deduplicate(deduplicate) => match deduplicate.emission {
            DeduplicateEmission::Final => ChangelogMode::INSERT_ONLY,
            DeduplicateEmission::Updating => ChangelogMode::RETRACT,
        },
        ExecNodeKind::Rank(rank) => match rank.form {
            RankForm::Limit if inputs[0].is_insert_only() => ChangelogMode::INSERT_ONLY,
            _ => ChangelogMode::RETRACT,
        },
        ExecNodeKind::OverAggregate(over) if !over.is_time_ordered => ChangelogMode::RETRACT,
        ExecNodeKind::OverAggregate(_)
        | ExecNodeKind::IntervalJoin(_)
        | ExecNodeKind::TemporalJoin(_) => inputs[0],
        ExecNodeKind::LookupJoin(_) => inputs[0],
        ExecNodeKind::Join(join) => match join.kind {
            JoinKind::Inner | JoinKind::Semi => inputs[0].union(inputs[1]),
            _ => ChangelogMode::of(&[RowKind::Insert, RowKind::Delete])
                .union(inputs[0])
                .union(inputs[1]),
        },
        ExecNodeKind::Values(_)
        | ExecNodeKind::WindowAggregate(_)
        | ExecNodeKind::LocalWindowAggregate(_)
        | ExecNodeKind::GlobalWindowAggregate(_)
        | ExecNodeKind::GroupWindowAggregate(_)
        | ExecNodeKind::WindowRank(_)
        | ExecNodeKind::WindowDeduplicate(_)
        | ExecNodeKind::WindowJoin(_)
        | ExecNodeKind::LateRowsSink(_) => ChangelogMode::INSERT_ONLY,
    }
}

/// A group appears, changes, and goes if rows are taken back. Without aggregates it never changes.
fn group_mode(spec: &GroupAggregateSpec, input: ChangelogMode) -> ChangelogMode {
    let kinds: &[RowKind] = match (spec.aggregates.is_empty(), input.is_insert_only()) {
        (true, true) => &[RowKind::Insert],
        (true, false) => &[RowKind::Insert, RowKind::Delete],
        (false, true) => &[RowKind::Insert, RowKind::UpdateBefore, RowKind::UpdateAfter],
        (false, false) => &RowKind::ALL,
    };
    ChangelogMode::of(kinds)
}

fn takes(kind: &ExecNodeKind) -> Takes {
    match kind {
        ExecNodeKind::LocalWindowAggregate(_)
        | ExecNodeKind::WindowRank(_)
        | ExecNodeKind::WindowDeduplicate(_)
        | ExecNodeKind::WindowJoin(_)
        | ExecNodeKind::TemporalSort(_)
        | ExecNodeKind::IntervalJoin(_) => Takes::InsertOnly,
        // A session that loses a row would have to be split again.
        ExecNodeKind::WindowTableFunction(function)
            if matches!(
                function.window.kind,
                crate::window::WindowKind::Session { .. }
            ) =>
        {
            Takes::InsertOnly
        }
        _ => Takes::AllKinds,
    }
}

fn asks(kind: &ExecNodeKind, input: &ExecNode) -> Asks {
    match kind {
        ExecNodeKind::WindowAggregate(_)
        | ExecNodeKind::GlobalWindowAggregate(_)
        | ExecNodeKind::GroupWindowAggregate(_)
        | ExecNodeKind::GroupAggregate(_)
        | ExecNodeKind::LocalGroupAggregate(_)
        | ExecNodeKind::Rank(_)
        | ExecNodeKind::OverAggregate(_) => Asks::OldRows,
        ExecNodeKind::Calc(calc) if !keeps_whole_keys(calc, input) => Asks::OldRows,
        ExecNodeKind::Sink(sink) if sink_takes_old_rows(sink) => Asks::OldRows,
        ExecNodeKind::Sink(_) => Asks::Nothing,
        _ => Asks::WhatConsumersAsk,
    }
}

/// Whether the condition decides alike for all versions of a row: it reads only its key.
fn keeps_whole_keys(calc: &CalcNode, input: &ExecNode) -> bool {
    let Some(condition) = &calc.condition else {
        return true;
    };
    let columns = condition.columns();
    let within = |key: &Vec<usize>| columns.iter().all(|column| key.contains(column));
    input.upsert_keys.iter().any(within)
}

fn sink_takes_old_rows(sink: &SinkNode) -> bool {
    sink.changelog_mode.contains(RowKind::UpdateBefore)
}

/// Checks the modes of a plan, whose nodes know the kinds that can come.
pub(crate) fn infer_changelog_modes(plan: &ExecPlan) -> Result<()> {
    for node in &plan.nodes {
        node.inputs
            .iter()
            .try_for_each(|input| check_taken(plan, node, plan.node(*input)))?;
    }
    check_old_rows(plan)
}

fn check_taken(plan: &ExecPlan, node: &ExecNode, input: &ExecNode) -> Result<()> {
    let mode = input.changelog_mode;
    let refused: Vec<RowKind> = RowKind::ALL
        .into_iter()
        .filter(|kind| mode.contains(*kind) && !taken(node, *kind))
        .collect();
    if refused.is_empty() {
        return Ok(());
    }
    if refused == [RowKind::UpdateBefore] {
        return Err(Error::unsupported(format!(
            "{} takes updates by key: leaving out the rows before them (DropUpdateBefore)",
            consumer_name(node)
        ))
        .hint("write to a sink that takes retractions"));
    }
    let updates = refused
        .iter()
        .any(|kind| matches!(kind, RowKind::UpdateBefore | RowKind::UpdateAfter));
    let changes = match (updates, refused.contains(&RowKind::Delete)) {
        (true, true) => "update and delete changes",
        (false, true) => "delete changes",
        _ => "update changes",
    };
    let producer = first_producer(plan, input);
    Err(Error::user(format!(
        "{} doesn't support consuming {changes} which is produced by node {}",
        consumer_name(node),
        describe(plan, producer)
    ))
    .hint(mend(node)))
}

fn taken(node: &ExecNode, kind: RowKind) -> bool {
    match &node.kind {
        ExecNodeKind::Sink(sink) => sink.changelog_mode.contains(kind),
        kind_of_node => kind == RowKind::Insert || takes(kind_of_node) == Takes::AllKinds,
    }
}

fn consumer_name(node: &ExecNode) -> String {
    match &node.kind {
        ExecNodeKind::Sink(sink) => sink.display_name(),
        kind => kind.name().to_string(),
    }
}

fn mend(node: &ExecNode) -> &'static str {
    match &node.kind {
        ExecNodeKind::Sink(_) => {
            "write to a table that takes updates, or make the query append-only (aggregate by window)"
        }
        _ => "aggregate the updating table by window first, or read it from an append-only source",
    }
}

/// The node behind exchanges and calcs that began to give what is refused.
fn first_producer<'a>(plan: &'a ExecPlan, node: &'a ExecNode) -> &'a ExecNode {
    match node.kind {
        ExecNodeKind::Exchange(_) | ExecNodeKind::Calc(_) | ExecNodeKind::WatermarkAssigner(_) => {
            first_producer(plan, plan.node(node.inputs[0]))
        }
        _ => node,
    }
}

fn check_old_rows(plan: &ExecPlan) -> Result<()> {
    let mut asked_by: Vec<Option<&ExecNode>> = vec![None; plan.nodes.len()];
    for node in plan.nodes.iter().rev() {
        for input in node.inputs.iter().map(|id| plan.node(*id)) {
            if input.changelog_mode.is_insert_only() {
                continue;
            }
            let asking = match asks(&node.kind, input) {
                Asks::OldRows => Some(node),
                Asks::WhatConsumersAsk => asked_by[node.id.0],
                Asks::Nothing => None,
            };
            asked_by[input.id.0] = asked_by[input.id.0].or(asking);
        }
    }
    let mut sources = plan.nodes.iter().filter(|node| node.inputs.is_empty());
    sources.try_for_each(|source| match asked_by[source.id.0] {
        Some(asking) if gives_updates_by_key(source) => Err(without_old_rows(source, asking)),
        _ => Ok(()),
    })
}

/// An upsert source: no -U, and its deletes may name the key only.
fn gives_updates_by_key(source: &ExecNode) -> bool {
    source.changelog_mode.contains(RowKind::UpdateAfter)
        && !source.changelog_mode.contains(RowKind::UpdateBefore)
}

fn without_old_rows(source: &ExecNode, asking: &ExecNode) -> Error {
    let table = match &source.kind {
        ExecNodeKind::TableSourceScan(scan) => &scan.table.name,
        _ => &source.uid,
    };
    Error::unsupported(format!(
        "table \"{table}\" gives updates by key without the row before (changelog mode [{}]), which {} needs; restoring those \
         rows (ChangelogNormalize)",
        source.changelog_mode,
        consumer_name(asking),
    ))
    .hint("read the table from a source that gives retractions, or write to a sink that takes upserts")
}
