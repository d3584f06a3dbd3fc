//! The kinds of rows that a node gives when its inputs give theirs.

use crate::plan::exec_node::ExecNodeKind;
use crate::plan::nodes::*;
use crate::types::{ChangelogMode, JoinKind, RowKind};

/// The kinds that a node gives when its inputs give `inputs`. Where it updates it could give the rows before, too; whether it does
/// is for the second pass to say.
pub(crate) fn produced_mode(kind: &ExecNodeKind, inputs: &[ChangelogMode]) -> ChangelogMode {
    match kind {
        ExecNodeKind::TableSourceScan(scan) => scan.changelog_mode,
        ExecNodeKind::Calc(_)
        | ExecNodeKind::WatermarkAssigner(_)
        | ExecNodeKind::MiniBatchAssigner(_)
        | ExecNodeKind::Expand(_)
        | ExecNodeKind::Correlate(_)
        | ExecNodeKind::Union(_)
        | ExecNodeKind::Exchange(_)
        | ExecNodeKind::LookupJoin(_)
        | ExecNodeKind::LocalGroupAggregate(_)
        | ExecNodeKind::WindowTableFunction(_)
        | ExecNodeKind::Sink(_) => all_of(inputs),
        ExecNodeKind::TemporalJoin(_) => inputs[0],
        ExecNodeKind::ChangelogNormalize(_) => ChangelogMode::RETRACT,
        ExecNodeKind::DropUpdateBefore(_) => inputs[0].without(RowKind::UpdateBefore),
        ExecNodeKind::SinkUpsertMaterializer(_) => ChangelogMode::UPSERT,
        ExecNodeKind::GroupAggregate(node) => group_mode(&node.spec, inputs[0]),
        ExecNodeKind::GlobalGroupAggregate(node) => group_mode(&node.spec, inputs[0]),
        ExecNodeKind::Deduplicate(deduplicate) => match deduplicate.emission {
            DeduplicateEmission::Final => ChangelogMode::INSERT_ONLY,
            DeduplicateEmission::Updating => ChangelogMode::RETRACT,
        },
        ExecNodeKind::Rank(rank) => match rank.form {
            RankForm::Limit if inputs[0].is_insert_only() => ChangelogMode::INSERT_ONLY,
            _ => ChangelogMode::RETRACT,
        },
        ExecNodeKind::OverAggregate(over) if !over.is_time_ordered => ChangelogMode::RETRACT,
        ExecNodeKind::Join(join) => match join.kind {
            JoinKind::Inner | JoinKind::Semi => all_of(inputs),
            _ => ChangelogMode::RETRACT,
        },
        ExecNodeKind::MultiJoin(join) => match join.is_inner() {
            true => all_of(inputs),
            false => ChangelogMode::RETRACT,
        },
        ExecNodeKind::Values(_)
        | ExecNodeKind::OverAggregate(_)
        | ExecNodeKind::Match(_)
        | ExecNodeKind::TemporalSort(_)
        | ExecNodeKind::IntervalJoin(_)
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

fn all_of(inputs: &[ChangelogMode]) -> ChangelogMode {
    let modes = inputs.iter().copied();
    modes
        .reduce(ChangelogMode::union)
        .unwrap_or(ChangelogMode::INSERT_ONLY)
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
