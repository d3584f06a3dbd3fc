//! Which sets of columns name the rows of a node: a later row with the same values replaces or removes the earlier one.
//!
//! A key is lost where rows are dealt by other columns: changes of one key could then overtake each other.

use super::exec_node::ExecNodeKind;
use super::node_facts::Input;
use super::nodes::*;
use super::row_logic::bare_column;
use crate::expr::Expression;
use crate::types::JoinKind;
use crate::window::{WindowAggregateSpec, WindowColumn};

type Keys = Vec<Vec<usize>>;

/// More keys of one node are of no use.
const MOST_KEYS: usize = 128;

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
        ExecNodeKind::Calc(calc) => projected_keys(&calc.projection, &first()),
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
        ExecNodeKind::MultiJoin(join) => multi_joined_keys(join, inputs),
        ExecNodeKind::IntervalJoin(join) => joined_keys(join.kind, &join.keys, inputs),
        ExecNodeKind::WindowJoin(join) => joined_keys(join.kind, &[], inputs),
        ExecNodeKind::TemporalJoin(join) => joined_keys(join.kind, &join.keys, inputs),
        ExecNodeKind::LookupJoin(join) => looked_up_keys(join, first(), inputs[0].0.schema.len()),
        ExecNodeKind::SinkUpsertMaterializer(node) => vec![node.primary_key.clone()],
        ExecNodeKind::WatermarkAssigner(_)
        | ExecNodeKind::MiniBatchAssigner(_)
        | ExecNodeKind::DropUpdateBefore(_)
        | ExecNodeKind::TemporalSort(_)
        | ExecNodeKind::OverAggregate(_) => first(),
        _ => vec![],
    }
}

/// The keys of which every column goes through a projection, at each of the places where it comes out.
fn projected_keys(projection: &[Expression], keys: &Keys) -> Keys {
    let places = |column: usize| {
        (0..projection.len()).filter(move |at| bare_column(&projection[*at]) == Some(column))
    };
    let moved = |key: &Vec<usize>| {
        key.iter().fold(vec![vec![]], |moved: Keys, column| {
            let with_place = |key: Vec<usize>| {
                places(*column).map(move |place| [key.clone(), vec![place]].concat())
            };
            moved
                .into_iter()
                .flat_map(with_place)
                .take(MOST_KEYS)
                .collect()
        })
    };
    keys.iter().flat_map(moved).collect()
}

/// A left row has one partner at most where the table's primary key is looked up; else a key of the table belongs to the name of a pair.
fn looked_up_keys(join: &LookupJoinNode, left: Keys, width: usize) -> Keys {
    let table = &join.table;
    let is_looked_up = |column: &usize| join.keys.iter().any(|key| key.column == *column);
    if table.primary_key.is_empty() {
        return vec![];
    }
    if table.primary_key.iter().all(is_looked_up) {
        return left;
    }
    let right: Option<Vec<usize>> = table
        .primary_key
        .iter()
        .map(|column| table.projection.iter().position(|at| at == column))
        .map(|place| Some(width + place?))
        .collect();
    let pair = |key: Vec<usize>| Some([key, right.clone()?].concat());
    left.into_iter().filter_map(pair).collect()
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

/// The partition where one row of it stays; with the rank, partition and rank: another row takes the place without a word about the
/// one that leaves. Else a row keeps its own key.
fn ranked_keys(rank: &RankNode, input: Keys, width: usize) -> Keys {
    match rank.range {
        RankRange::Constant { start, end } if start == end => vec![rank.partition_by.clone()],
        _ if rank.output_rank => {
            vec![rank.partition_by.iter().copied().chain([width]).collect()]
        }
        // Behind an offset rows take the places of others, and for a moment one may have two.
        RankRange::Constant { start, .. } if start > 1 => Keys::new(),
        _ => input,
    }
}

/// A key of each side together name a pair; one side's alone does where its rows have one partner at most.
fn joined_keys(kind: JoinKind, join_keys: &[JoinKey], inputs: &[Input]) -> Keys {
    let left = &inputs[0].1.upsert_keys;
    if matches!(kind, JoinKind::Semi | JoinKind::Anti) {
        return left.clone();
    }
    let joined = |side: fn(&JoinKey) -> usize| join_keys.iter().map(side).collect::<Vec<_>>();
    pair_keys(
        kind,
        (left, &joined(|key| key.left)),
        (&inputs[1].1.upsert_keys, &joined(|key| key.right)),
        inputs[0].0.schema.len(),
    )
}

/// Those of the chain of joins.
fn multi_joined_keys(join: &MultiJoinNode, inputs: &[Input]) -> Keys {
    let mut keys = inputs[0].1.upsert_keys.clone();
    let mut offsets = vec![0];
    for (level, own) in join.levels.iter().zip(1..) {
        let width = offsets[own - 1] + inputs[own - 1].0.schema.len();
        offsets.push(width);
        let joined = level.joined_to.iter().flat_map(|other| {
            let keys = join.inputs[*other].keys.iter();
            keys.map(|key| offsets[*other] + key)
        });
        let joined: Vec<usize> = joined.collect();
        let right = (&inputs[own].1.upsert_keys, &join.inputs[own].keys[..]);
        keys = pair_keys(level.kind, (&keys, &joined), right, width);
        keys.truncate(MOST_KEYS);
    }
    keys
}

/// The keys of pairs, given those of either side with its columns that equal the other's, and the width of the left one.
fn pair_keys(
    kind: JoinKind,
    (left, left_joined): (&Keys, &[usize]),
    (right, right_joined): (&Keys, &[usize]),
    width: usize,
) -> Keys {
    let shifted = |key: &Vec<usize>| key.iter().map(|column| width + column).collect::<Vec<_>>();
    let mut keys = Keys::new();
    for key in left {
        let others = right.iter();
        keys.extend(others.map(|other| [key.clone(), shifted(other)].concat()));
    }
    let is_single = |keys: &Keys, joined: &[usize]| {
        let within = |key: &Vec<usize>| key.iter().all(|column| joined.contains(column));
        keys.iter().any(within)
    };
    if is_single(right, right_joined) && !kind.keeps_right() {
        keys.extend(left.iter().cloned());
    }
    if is_single(left, left_joined) && !kind.keeps_left() {
        keys.extend(right.iter().map(shifted));
    }
    keys
}
