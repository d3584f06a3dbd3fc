//! Which sets of columns name the rows of a node: a later row with the same values replaces or removes the earlier one.
//!
//! A key is lost where rows are dealt by other columns: changes of one key could then overtake each other.

use super::exec_node::ExecNodeKind;
use super::node_facts::{Input, Placement, moved_hash};
use super::nodes::*;
use crate::types::JoinKind;
use crate::window::{WindowAggregateSpec, WindowColumn};

type Keys = Vec<Vec<usize>>;

/// The upsert keys of a node, smallest first.
pub(super) fn upsert_keys(kind: &ExecNodeKind, inputs: &[Input]) -> Keys {
    let mut keys = of_kind(kind, inputs);
    keys.iter_mut().for_each(|key| {
        key.sort_unstable();
        key.dedup();
    });
    keys.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    keys.dedup();
    keys
}

fn of_kind(kind: &ExecNodeKind, inputs: &[Input]) -> Keys {
    let first = || {
        let first = inputs.first();
        first.map_or_else(Vec::new, |(_, facts)| facts.upsert_keys.clone())
    };
    match kind {
        ExecNodeKind::TableSourceScan(scan) => projected_primary_key(scan).into_iter().collect(),
        ExecNodeKind::Calc(calc) => {
            moved_keys(&first(), |key| match moved_hash(&calc.projection, key) {
                Placement::Hash(key) => Some(key),
                _ => None,
            })
        }
        ExecNodeKind::Exchange(exchange) => match &exchange.distribution {
            Distribution::Singleton => first(),
            Distribution::Hash(dealt) => {
                let keeps = |key: &Vec<usize>| dealt.iter().all(|column| key.contains(column));
                first().into_iter().filter(keeps).collect()
            }
        },
        ExecNodeKind::WindowAggregate(WindowAggregateNode { spec })
        | ExecNodeKind::GlobalWindowAggregate(GlobalWindowAggregateNode { spec, .. })
        | ExecNodeKind::GroupWindowAggregate(GroupWindowAggregateNode { spec }) => {
            aggregated_key(spec).into_iter().collect()
        }
        ExecNodeKind::GroupAggregate(GroupAggregateNode { spec })
        | ExecNodeKind::GlobalGroupAggregate(GlobalGroupAggregateNode { spec, .. }) => {
            vec![(0..spec.grouping.len()).collect()]
        }
        ExecNodeKind::WindowRank(rank) => {
            let mut keys = first();
            if rank.output_rank {
                let mut key = rank.partition_by.clone();
                key.extend([rank.window_start, rank.window_end, inputs[0].0.schema.len()]);
                keys.push(key);
            }
            keys
        }
        ExecNodeKind::WindowDeduplicate(deduplicate) => {
            let mut key = deduplicate.partition_by.clone();
            key.extend([deduplicate.window_start, deduplicate.window_end]);
            vec![key]
        }
        ExecNodeKind::Deduplicate(deduplicate) => vec![deduplicate.unique_key.clone()],
        ExecNodeKind::Rank(rank) => ranked_keys(rank, first(), inputs[0].0.schema.len()),
        ExecNodeKind::ChangelogNormalize(normalize) => vec![normalize.key.clone()],
        ExecNodeKind::Join(join) => joined_keys(join.kind, &join.keys, inputs),
        ExecNodeKind::WindowJoin(join) => joined_keys(join.kind, &[], inputs),
        ExecNodeKind::WatermarkAssigner(_)
        | ExecNodeKind::MiniBatchAssigner(_)
        | ExecNodeKind::DropUpdateBefore(_)
        | ExecNodeKind::TemporalSort(_)
        | ExecNodeKind::OverAggregate(_)
        | ExecNodeKind::TemporalJoin(_) => first(),
        _ => vec![],
    }
}

fn moved_keys(keys: &Keys, moved: impl Fn(&[usize]) -> Option<Vec<usize>>) -> Keys {
    keys.iter().filter_map(|key| moved(key)).collect()
}

fn projected_primary_key(scan: &TableSourceScanNode) -> Option<Vec<usize>> {
    let table = &scan.table;
    let key: Option<Vec<usize>> = table
        .primary_key
        .iter()
        .map(|column| table.projection.iter().position(|at| at == column))
        .collect();
    key.filter(|key| !key.is_empty())
}

/// Keys and one bound name a row; without a bound in the output nothing does.
fn aggregated_key(spec: &WindowAggregateSpec) -> Option<Vec<usize>> {
    let bounds = |column: &WindowColumn| *column != WindowColumn::Time;
    let first = spec.keys.len() + spec.aggregates.len();
    let mut key: Vec<usize> = (0..spec.keys.len()).collect();
    let bound = spec.window_columns.iter().filter(|c| bounds(c)).count();
    key.extend(
        (0..spec.window_columns.len())
            .filter_map(|index| bounds(&spec.window_columns[index]).then_some(first + index)),
    );
    (bound > 0).then_some(key)
}

/// A row keeps its own key; a rank names one row of a partition, as does the partition alone where one row stays.
fn ranked_keys(rank: &RankNode, input: Keys, width: usize) -> Keys {
    let mut keys = input;
    if rank.output_rank {
        keys.push(rank.partition_by.iter().copied().chain([width]).collect());
    }
    if let RankRange::Constant { start, end } = rank.range
        && start == end
    {
        keys.push(rank.partition_by.clone());
    }
    keys
}

/// A key of each side together name a pair; one side's alone does where its rows have one partner at most.
fn joined_keys(kind: JoinKind, join_keys: &[JoinKey], inputs: &[Input]) -> Keys {
    let width = inputs[0].0.schema.len();
    let left = &inputs[0].1.upsert_keys;
    if matches!(kind, JoinKind::Semi | JoinKind::Anti) {
        return left.clone();
    }
    let right = &inputs[1].1.upsert_keys;
    let shifted = |key: &Vec<usize>| key.iter().map(|column| width + column).collect::<Vec<_>>();
    let mut keys = Keys::new();
    for key in left {
        keys.extend(
            right
                .iter()
                .map(|other| [key.clone(), shifted(other)].concat()),
        );
    }
    let within =
        |key: &Vec<usize>, dealt: Vec<usize>| key.iter().all(|column| dealt.contains(column));
    let one_left = left
        .iter()
        .any(|key| within(key, join_keys.iter().map(|key| key.left).collect()));
    let one_right = right
        .iter()
        .any(|key| within(key, join_keys.iter().map(|key| key.right).collect()));
    if one_right && !kind.keeps_right() {
        keys.extend(left.iter().cloned());
    }
    if one_left && !kind.keeps_left() {
        keys.extend(right.iter().map(shifted));
    }
    keys
}
