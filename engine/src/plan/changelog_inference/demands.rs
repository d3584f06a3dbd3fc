//! The second and third pass: who needs the row before an update, and who needs deletes as full rows.
//!
//! Flink asks from each sink for updates without the rows before, and where some node on the way cannot do without, asks again
//! for both, on all of that sink's way. Here the same is found as the least set of nodes closed under two steps: a node that
//! passes changes on needs what a consumer needs, and it gives what an input gives. So a node that several others read
//! gives the rows before updates to all of them if one needs them.

use crate::plan::exec_node::{ExecNode, ExecNodeKind, ExecPlan, NodeId};
use crate::plan::nodes::*;
use crate::types::RowKind;

/// What each node must give.
#[derive(Debug, Clone)]
pub(crate) struct Demands {
    /// Whether updates come with the rows before them (-U).
    pub(super) update_before: Vec<bool>,
    /// Whether deletes are full rows.
    pub(super) full_deletes: Vec<bool>,
}

/// What a node needs of the changes of one input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    /// Of itself: it takes back what the old row did.
    Always,
    /// What its consumers ask: it passes changes on.
    AsConsumers,
    /// Nothing, and what comes though it was not asked for is no harm.
    Never,
    /// That it does not come.
    Without,
}

/// The demands on the nodes of a plan. `absorbed`: the filters that ChangelogNormalize takes over, which then ask for full rows only.
pub(super) fn demands(plan: &ExecPlan, absorbed: &[NodeId]) -> Demands {
    let must_pass = |node: &ExecNode| {
        updates(node) && !absorbed.contains(&node.id) && must_pass_old_rows(plan, node)
    };
    let mut demands = Demands {
        update_before: plan.nodes.iter().map(must_pass).collect(),
        full_deletes: vec![false; plan.nodes.len()],
    };
    while spread_old_rows(plan, &mut demands.update_before) {}
    for node in plan.nodes.iter().rev() {
        ask_full_deletes(plan, node, absorbed, &mut demands);
    }
    demands
}

/// One round of both steps: what is asked goes down, what is given goes up. Says whether that changed anything.
fn spread_old_rows(plan: &ExecPlan, update_before: &mut [bool]) -> bool {
    let before = update_before.to_vec();
    for node in plan.nodes.iter().rev() {
        ask_inputs(plan, node, update_before);
    }
    for node in plan.nodes.iter().filter(|node| updates(node)) {
        let given = |(position, input): (usize, &NodeId)| {
            update_before[input.0] && asks_old_rows(plan, node, position) == Asks::AsConsumers
        };
        if node.inputs.iter().enumerate().any(given) {
            update_before[node.id.0] = true;
        }
    }
    *before != *update_before
}

fn ask_inputs(plan: &ExecPlan, node: &ExecNode, update_before: &mut [bool]) {
    for (position, input) in node.inputs.iter().enumerate() {
        let asked = match asks_old_rows(plan, node, position) {
            Asks::Always => true,
            Asks::AsConsumers => update_before[node.id.0],
            Asks::Never | Asks::Without => false,
        };
        update_before[input.0] |= asked && updates(plan.node(*input));
    }
}

pub(super) fn updates(node: &ExecNode) -> bool {
    node.changelog_mode.contains(RowKind::UpdateAfter)
}

/// Whether a node that passes changes on would leave stale rows if updates came without the rows before them.
fn must_pass_old_rows(plan: &ExecPlan, node: &ExecNode) -> bool {
    match &node.kind {
        ExecNodeKind::Calc(calc) => !keeps_whole_keys(calc, plan.node(node.inputs[0])),
        ExecNodeKind::Join(join) => {
            let keys = |side: fn(&JoinKey) -> usize| join.keys.iter().map(side).collect();
            let columns: [Vec<usize>; 2] = [keys(|key| key.left), keys(|key| key.right)];
            let inputs = plan.inputs(node);
            inputs
                .into_iter()
                .zip(columns)
                .any(|(input, columns)| updates(input) && !names_rows_within(input, &columns))
        }
        ExecNodeKind::MultiJoin(join) => {
            let mut first = 0;
            let inputs = plan.inputs(node).into_iter().enumerate();
            let mut needs = inputs.map(|(at, input)| {
                let width = input.schema.len();
                let is_read = join.reads_later(at, first, width);
                first += width;
                updates(input) && (is_read || !names_rows_within(input, &join.inputs[at].keys))
            });
            needs.any(|needs| needs)
        }
        _ => false,
    }
}

/// Whether the condition decides alike for all versions of a row: it reads only its key.
pub(super) fn keeps_whole_keys(calc: &CalcNode, input: &ExecNode) -> bool {
    let Some(condition) = &calc.condition else {
        return true;
    };
    names_rows_within(input, &condition.columns())
}

/// Whether some upsert key contains the columns, so that all versions of a row agree in them.
fn names_rows_within(input: &ExecNode, columns: &[usize]) -> bool {
    let within = |key: &Vec<usize>| columns.iter().all(|column| key.contains(column));
    input.upsert_keys.iter().any(within)
}

/// Whether a node needs the rows before the updates of an input.
pub(super) fn asks_old_rows(plan: &ExecPlan, node: &ExecNode, input: usize) -> Asks {
    match &node.kind {
        ExecNodeKind::WindowAggregate(_)
        | ExecNodeKind::GlobalWindowAggregate(_)
        | ExecNodeKind::GroupWindowAggregate(_)
        | ExecNodeKind::GroupAggregate(_)
        | ExecNodeKind::LocalGroupAggregate(_)
        | ExecNodeKind::OverAggregate(_)
        | ExecNodeKind::SinkUpsertMaterializer(_) => Asks::Always,
        ExecNodeKind::Rank(rank) => match rank.strategy {
            RankStrategy::UpdateFast { .. } => Asks::Without,
            _ => Asks::Always,
        },
        ExecNodeKind::TemporalJoin(_) if input == 1 => Asks::Without,
        ExecNodeKind::Sink(sink) if takes_by_key(sink, plan.node(node.inputs[0])) => Asks::Never,
        ExecNodeKind::Sink(_) => Asks::Always,
        _ => Asks::AsConsumers,
    }
}

/// Whether a sink can take the updates and deletes of the query by key: it wants them so, and its rows are named as the query's are.
fn takes_by_key(sink: &SinkNode, input: &ExecNode) -> bool {
    if sink.changelog_mode.contains(RowKind::UpdateBefore) {
        return false;
    }
    let key = sink.primary_key();
    key.is_empty() || input.upsert_keys.contains(&key)
}

fn ask_full_deletes(plan: &ExecPlan, node: &ExecNode, absorbed: &[NodeId], demands: &mut Demands) {
    for (position, input) in node.inputs.iter().enumerate() {
        let input = plan.node(*input);
        let asked = match &node.kind {
            ExecNodeKind::Calc(calc)
                if absorbed.contains(&node.id) || !keeps_whole_keys(calc, input) =>
            {
                true
            }
            ExecNodeKind::Calc(_)
            | ExecNodeKind::Exchange(_)
            | ExecNodeKind::WatermarkAssigner(_)
            | ExecNodeKind::MiniBatchAssigner(_)
            | ExecNodeKind::Union(_) => demands.full_deletes[node.id.0],
            ExecNodeKind::Sink(_) => asks_old_rows(plan, node, position) != Asks::Never,
            _ => true,
        };
        demands.full_deletes[input.id.0] |= asked && !input.changelog_mode.is_insert_only();
    }
}
