//! The first pass: whether every node takes the kinds of rows that can come.

use crate::error::{Error, Result};
use crate::expr::Position;
use crate::plan::exec_node::{ExecNode, ExecNodeKind, ExecPlan, NodeId};
use crate::plan::explain::describe;
use crate::types::RowKind;
use crate::window::WindowKind;

/// Refuses a plan in which a node would get rows of a kind that it does not take.
pub(super) fn check_kinds(plan: &ExecPlan, positions: &[Position]) -> Result<()> {
    plan.nodes.iter().try_for_each(|node| {
        let mut inputs = node.inputs.iter().map(|input| plan.node(*input));
        inputs
            .try_for_each(|input| check_taken(plan, node, input))
            .map_err(|error| error.at(place(plan, node.id, positions)))
    })
}

/// Where the SQL text names the table of a sink.
fn place(plan: &ExecPlan, id: NodeId, positions: &[Position]) -> Option<crate::types::SqlPosition> {
    let root = plan.roots.iter().position(|root| *root == id)?;
    positions.get(root)?.0
}

fn check_taken(plan: &ExecPlan, node: &ExecNode, input: &ExecNode) -> Result<()> {
    let refused: Vec<RowKind> = RowKind::ALL
        .into_iter()
        .filter(|kind| input.changelog_mode.contains(*kind) && !takes(node, *kind))
        .collect();
    let updates = refused.contains(&RowKind::UpdateAfter);
    let changes = match (updates, refused.contains(&RowKind::Delete)) {
        (false, false) => return Ok(()),
        (true, true) => "update and delete changes",
        (false, true) => "delete changes",
        (true, false) => "update changes",
    };
    let producer = first_producer(plan, input);
    Err(Error::user(format!(
        "{} doesn't support consuming {changes} which is produced by node {}",
        name(node),
        describe(plan, producer)
    ))
    .hint(mend(node, refused == [RowKind::Delete])))
}

/// The rows before updates are no kind of their own here: a sink that does not take them can do without.
fn takes(node: &ExecNode, kind: RowKind) -> bool {
    match (&node.kind, kind) {
        (_, RowKind::Insert) => true,
        (ExecNodeKind::Sink(sink), RowKind::UpdateBefore) => {
            sink.changelog_mode.contains(RowKind::UpdateAfter)
        }
        (ExecNodeKind::Sink(sink), kind) => sink.changelog_mode.contains(kind),
        (kind, _) => !takes_only_inserts(kind),
    }
}

fn takes_only_inserts(kind: &ExecNodeKind) -> bool {
    match kind {
        ExecNodeKind::LocalWindowAggregate(_)
        | ExecNodeKind::WindowRank(_)
        | ExecNodeKind::WindowDeduplicate(_)
        | ExecNodeKind::WindowJoin(_)
        | ExecNodeKind::IntervalJoin(_)
        | ExecNodeKind::TemporalSort(_)
        | ExecNodeKind::Match(_)
        | ExecNodeKind::Deduplicate(_) => true,
        ExecNodeKind::OverAggregate(over) => over.is_time_ordered,
        // A session that loses a row would have to be split again.
        ExecNodeKind::WindowTableFunction(function) => {
            matches!(function.window.kind, WindowKind::Session { .. })
        }
        _ => false,
    }
}

fn name(node: &ExecNode) -> String {
    match &node.kind {
        ExecNodeKind::Sink(sink) => sink.display_name(),
        kind => kind.name().to_string(),
    }
}

fn mend(node: &ExecNode, only_deletes: bool) -> &'static str {
    match &node.kind {
        ExecNodeKind::Sink(_) if only_deletes => {
            "write to a table that takes deletes, or keep the query from taking rows back"
        }
        ExecNodeKind::Sink(_) => {
            "write to a table that takes updates, or make the query append-only (aggregate by window)"
        }
        ExecNodeKind::OverAggregate(_) => {
            "aggregate the updating table by window first, or read it from an append-only source"
        }
        ExecNodeKind::IntervalJoin(_) => {
            "join with a regular join (cast the time attributes to TIMESTAMP), or read both sides from append-only sources"
        }
        ExecNodeKind::TemporalSort(_) => {
            "sort with a LIMIT, or aggregate the updating table by window first"
        }
        _ => "aggregate the updating table by window first, or read it from an append-only source",
    }
}

/// The node behind exchanges and calcs that began to give what is refused.
fn first_producer<'a>(plan: &'a ExecPlan, node: &'a ExecNode) -> &'a ExecNode {
    match node.kind {
        ExecNodeKind::Exchange(_)
        | ExecNodeKind::Calc(_)
        | ExecNodeKind::WatermarkAssigner(_)
        | ExecNodeKind::MiniBatchAssigner(_) => first_producer(plan, plan.node(node.inputs[0])),
        _ => node,
    }
}
