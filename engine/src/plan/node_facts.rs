//! What follows for a node from its inputs: how its rows are dealt to subtasks, its windows, its upsert key.

use super::exec_node::{ExecNode, ExecNodeKind};
use super::logical::JoinKind;
use super::nodes::*;
use super::row_logic::bare_column;
use super::window_properties::WindowProperties;
use crate::types::Schema;
use crate::window::{WindowAggregateSpec, WindowColumn};

/// How the rows of a node are dealt to its subtasks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Nothing is known.
    Any,
    /// By the hash of these columns, in this order.
    Hash(Vec<usize>),
    /// All in one.
    Single,
}

/// Known about a node besides what it holds.
#[derive(Debug, Clone)]
pub(crate) struct NodeFacts {
    pub(crate) placement: Placement,
    pub(crate) window: Option<WindowProperties>,
    pub(crate) upsert_keys: Vec<Vec<usize>>,
}

/// An input with what is known about it.
pub(crate) type Input<'a> = (&'a ExecNode, &'a NodeFacts);

/// The facts of a new node.
pub(crate) fn facts_of(kind: &ExecNodeKind, inputs: &[Input], schema: &Schema) -> NodeFacts {
    NodeFacts {
        placement: placement(kind, inputs),
        window: window(kind, inputs, schema),
        upsert_keys: super::upsert_keys::upsert_keys(kind, inputs),
    }
}

fn placement(kind: &ExecNodeKind, inputs: &[Input]) -> Placement {
    if let ExecNodeKind::Exchange(exchange) = kind {
        return match &exchange.distribution {
            Distribution::Hash(keys) => Placement::Hash(keys.clone()),
            Distribution::Singleton => Placement::Single,
        };
    }
    let Some((_, first)) = inputs.first() else {
        return Placement::Any;
    };
    if inputs
        .iter()
        .all(|(_, facts)| facts.placement == Placement::Single)
    {
        return Placement::Single;
    }
    match (kind, &first.placement) {
        // Rows that wait come back to one subtask for each that there was, whatever their keys are.
        (ExecNodeKind::LookupJoin(join), _) if join.holds_rows() => Placement::Any,
        (ExecNodeKind::Calc(calc), Placement::Hash(keys)) => moved_hash(&calc.projection, keys),
        (ExecNodeKind::Expand(expand), Placement::Hash(keys)) => expanded_hash(expand, keys),
        (ExecNodeKind::Union(_), placement)
            if inputs
                .iter()
                .all(|(_, facts)| facts.placement == *placement) =>
        {
            placement.clone()
        }
        (ExecNodeKind::Union(_), _) => Placement::Any,
        (ExecNodeKind::WindowAggregate(WindowAggregateNode { spec }), Placement::Hash(keys))
        | (
            ExecNodeKind::GroupWindowAggregate(GroupWindowAggregateNode { spec }),
            Placement::Hash(keys),
        ) if *keys == spec.keys => Placement::Hash((0..keys.len()).collect()),
        (ExecNodeKind::GlobalWindowAggregate(_), placement) => placement.clone(),
        (ExecNodeKind::GroupAggregate(aggregate), Placement::Hash(keys))
            if *keys == aggregate.spec.grouping =>
        {
            Placement::Hash((0..keys.len()).collect())
        }
        (ExecNodeKind::GlobalGroupAggregate(_), placement) => placement.clone(),
        (ExecNodeKind::Join(join), _) => joined_hash(join.kind, &join.keys, inputs),
        (ExecNodeKind::MultiJoin(join), _) => Placement::Hash(join.inputs[0].keys.clone()),
        (ExecNodeKind::IntervalJoin(join), _) => joined_hash(join.kind, &join.keys, inputs),
        (ExecNodeKind::WindowJoin(join), _) => joined_hash(join.kind, &join.keys, inputs),
        (
            ExecNodeKind::WatermarkAssigner(_)
            | ExecNodeKind::Correlate(_)
            | ExecNodeKind::WindowTableFunction(_)
            | ExecNodeKind::WindowRank(_)
            | ExecNodeKind::WindowDeduplicate(_)
            | ExecNodeKind::ChangelogNormalize(_)
            | ExecNodeKind::DropUpdateBefore(_)
            | ExecNodeKind::SinkUpsertMaterializer(_)
            | ExecNodeKind::MiniBatchAssigner(_)
            | ExecNodeKind::Deduplicate(_)
            | ExecNodeKind::Rank(_)
            | ExecNodeKind::TemporalSort(_)
            | ExecNodeKind::OverAggregate(_)
            | ExecNodeKind::TemporalJoin(_)
            | ExecNodeKind::LookupJoin(_),
            placement,
        ) => placement.clone(),
        _ => Placement::Any,
    }
}

pub(super) fn moved_hash(projection: &[crate::expr::Expression], keys: &[usize]) -> Placement {
    let moved: Option<Vec<usize>> = keys
        .iter()
        .map(|key| {
            projection
                .iter()
                .position(|expression| bare_column(expression) == Some(*key))
        })
        .collect();
    moved.map_or(Placement::Any, Placement::Hash)
}

fn expanded_hash(expand: &ExpandNode, keys: &[usize]) -> Placement {
    let placements: Vec<Placement> = expand
        .projections
        .iter()
        .map(|projection| moved_hash(projection, keys))
        .collect();
    match placements.first() {
        Some(first) if placements.iter().all(|placement| placement == first) => first.clone(),
        _ => Placement::Any,
    }
}

fn joined_hash(kind: JoinKind, keys: &[JoinKey], inputs: &[Input]) -> Placement {
    let left_width = inputs[0].0.schema.len();
    match kind {
        _ if keys.is_empty() => Placement::Any,
        JoinKind::Full => Placement::Any,
        JoinKind::Right => Placement::Hash(keys.iter().map(|key| left_width + key.right).collect()),
        _ => Placement::Hash(keys.iter().map(|key| key.left).collect()),
    }
}

fn window(kind: &ExecNodeKind, inputs: &[Input], schema: &Schema) -> Option<WindowProperties> {
    let first = || inputs.first().and_then(|(_, facts)| facts.window.clone());
    match kind {
        ExecNodeKind::Calc(calc) => first().map(|window| {
            window.map(&|column| {
                (0..calc.projection.len())
                    .filter(|at| bare_column(&calc.projection[*at]) == Some(column))
                    .collect()
            })
        }),
        ExecNodeKind::Union(_) => {
            let mut windows = inputs.iter().map(|(_, facts)| facts.window.clone());
            let first = windows.next()??;
            windows.try_fold(first, |all, next| all.intersection(&next?))
        }
        ExecNodeKind::WindowTableFunction(function) => {
            let width = schema.len() - 3;
            Some(WindowProperties {
                window: function.window.clone(),
                starts: vec![width],
                ends: vec![width + 1],
                times: vec![width + 2],
                time_columns: vec![function.time_column, width + 2],
            })
        }
        ExecNodeKind::WindowAggregate(WindowAggregateNode { spec })
        | ExecNodeKind::GlobalWindowAggregate(GlobalWindowAggregateNode { spec, .. })
        | ExecNodeKind::GroupWindowAggregate(GroupWindowAggregateNode { spec }) => {
            Some(aggregated_window(spec))
        }
        ExecNodeKind::WindowJoin(join) => joined_window(join, inputs),
        ExecNodeKind::Expand(_)
        | ExecNodeKind::LocalWindowAggregate(_)
        | ExecNodeKind::GroupAggregate(_)
        | ExecNodeKind::LocalGroupAggregate(_)
        | ExecNodeKind::GlobalGroupAggregate(_)
        | ExecNodeKind::Join(_)
        | ExecNodeKind::MultiJoin(_)
        | ExecNodeKind::IntervalJoin(_)
        | ExecNodeKind::TemporalJoin(_)
        | ExecNodeKind::LookupJoin(_)
        | ExecNodeKind::Sink(_) => None,
        _ => first(),
    }
}

fn aggregated_window(spec: &WindowAggregateSpec) -> WindowProperties {
    let first = spec.keys.len() + spec.aggregates.len();
    let at = |wanted: WindowColumn| {
        (0..spec.window_columns.len())
            .filter(|index| spec.window_columns[*index] == wanted)
            .map(|index| first + index)
            .collect::<Vec<_>>()
    };
    WindowProperties {
        window: spec.window.clone(),
        starts: at(WindowColumn::Start),
        ends: at(WindowColumn::End),
        times: at(WindowColumn::Time),
        time_columns: at(WindowColumn::Time),
    }
}

fn joined_window(join: &WindowJoinNode, inputs: &[Input]) -> Option<WindowProperties> {
    let left = || inputs[0].1.window.clone();
    let right = || {
        let width = inputs[0].0.schema.len();
        let window = inputs[1].1.window.as_ref()?;
        Some(window.map(&|column| vec![width + column]))
    };
    match join.kind {
        JoinKind::Inner => Some(left()?.union(&right()?)),
        JoinKind::Left | JoinKind::Semi | JoinKind::Anti => left(),
        JoinKind::Right => right(),
        JoinKind::Full => None,
    }
}
