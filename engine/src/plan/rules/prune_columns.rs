//! Which columns of each node somebody reads: the union over all its consumers.

use std::collections::BTreeSet;

use crate::plan::logical::{Aggregate, Join, JoinKind, LogicalPlan, Over};
use crate::plan::logical_graph::{LogicalGraph, LogicalNode};
use crate::types::{Schema, TypeRoot};

type Columns = BTreeSet<usize>;

/// For each node of the graph the columns that are read, never none: a batch without columns would lose its length.
pub(crate) fn required_columns(graph: &LogicalGraph) -> Vec<Vec<usize>> {
    let mut required = vec![Columns::new(); graph.nodes.len()];
    for root in &graph.roots {
        required[*root] = (0..graph.nodes[*root].schema.len()).collect();
    }
    for id in (0..graph.nodes.len()).rev() {
        let node = &graph.nodes[id];
        if required[id].is_empty() {
            required[id].extend(stand_in(node));
        }
        for (input, columns) in node
            .inputs
            .iter()
            .zip(asked_of_inputs(graph, id, &required[id]))
        {
            required[*input].extend(columns);
        }
    }
    required
        .into_iter()
        .map(|columns| columns.into_iter().collect())
        .collect()
}

/// The column that is kept where nobody asks for one: one that is read anyway, or the narrowest.
fn stand_in(node: &LogicalNode) -> Option<usize> {
    let read = match node.plan {
        LogicalPlan::Scan(scan) => scan
            .table
            .watermark
            .as_ref()
            .map(|watermark| watermark.column),
        LogicalPlan::Filter(filter) => filter.condition.columns().first().copied(),
        LogicalPlan::WindowTableFunction(function) => Some(function.time_column),
        LogicalPlan::RowNumber(number) => number.order_by.first().map(|key| key.column),
        LogicalPlan::Over(over) => over.order_by.first().map(|key| key.column),
        LogicalPlan::Sort(sort) => sort.order_by.first().map(|key| key.column),
        _ => None,
    };
    read.or_else(|| narrowest(&node.schema))
}

fn narrowest(schema: &Schema) -> Option<usize> {
    let width = |root: &TypeRoot| match root {
        TypeRoot::Boolean | TypeRoot::TinyInt => 1,
        TypeRoot::SmallInt => 2,
        TypeRoot::Int | TypeRoot::Float | TypeRoot::Date | TypeRoot::Time(_) => 4,
        TypeRoot::Decimal { .. } => 16,
        root if root.is_string() || root.is_binary() => 100,
        TypeRoot::Array(_) | TypeRoot::Map(..) | TypeRoot::Multiset(_) | TypeRoot::Row(_) => 1000,
        _ => 8,
    };
    (0..schema.len()).min_by_key(|column| width(&schema.fields[*column].logical_type.root))
}

fn asked_of_inputs(graph: &LogicalGraph, id: usize, required: &Columns) -> Vec<Columns> {
    let node = &graph.nodes[id];
    let width = |input: usize| graph.nodes[node.inputs[input]].schema.len();
    let passed = |width: usize| {
        required
            .iter()
            .copied()
            .filter(move |column| *column < width)
    };
    match node.plan {
        LogicalPlan::Scan(_) | LogicalPlan::Values(_) => vec![],
        LogicalPlan::Project(project) => vec![
            required
                .iter()
                .flat_map(|column| project.expressions[*column].columns())
                .collect(),
        ],
        LogicalPlan::Filter(filter) => {
            vec![passed(width(0)).chain(filter.condition.columns()).collect()]
        }
        LogicalPlan::Unnest(unnest) => {
            vec![
                passed(width(0))
                    .chain(unnest.collection.columns())
                    .collect(),
            ]
        }
        LogicalPlan::Union(union) => vec![required.clone(); union.inputs.len()],
        LogicalPlan::WindowTableFunction(function) => vec![
            passed(width(0))
                .chain([function.time_column])
                .chain(function.partition_by.iter().copied())
                .collect(),
        ],
        LogicalPlan::Aggregate(aggregate) => vec![asked_by_aggregate(aggregate, required)],
        LogicalPlan::RowNumber(number) => vec![
            passed(width(0))
                .chain(number.partition_by.iter().copied())
                .chain(number.order_by.iter().map(|key| key.column))
                .collect(),
        ],
        LogicalPlan::Match(found) => vec![
            found
                .partition_by
                .iter()
                .copied()
                .chain(found.order_by.iter().map(|key| key.column))
                .chain(
                    found
                        .navigations
                        .iter()
                        .flat_map(|(navigation, _)| navigation.columns()),
                )
                .collect(),
        ],
        LogicalPlan::Over(over) => vec![asked_by_over(over, required, width(0))],
        LogicalPlan::Sort(sort) => vec![
            required
                .iter()
                .copied()
                .chain(sort.order_by.iter().map(|key| key.column))
                .collect(),
        ],
        // Rows are compared as a whole.
        LogicalPlan::SetOperation(_) => vec![(0..width(0)).collect(), (0..width(1)).collect()],
        LogicalPlan::Join(join) => {
            let required: Vec<usize> = required.iter().copied().collect();
            asked_by_join(join, &required, width(0)).into()
        }
    }
}

fn asked_by_aggregate(aggregate: &Aggregate, required: &Columns) -> Columns {
    let first = aggregate.grouping.len();
    let calls = aggregate
        .aggregates
        .iter()
        .enumerate()
        .filter(|(index, _)| required.contains(&(first + index)));
    aggregate
        .grouping
        .iter()
        .copied()
        .chain(calls.flat_map(|(_, call)| call.arguments.iter().copied().chain(call.filter)))
        .chain(
            aggregate
                .legacy_window
                .iter()
                .map(|legacy| legacy.time_column),
        )
        .collect()
}

fn asked_by_over(over: &Over, required: &Columns, width: usize) -> Columns {
    let calls = over
        .calls
        .iter()
        .enumerate()
        .filter(|(index, _)| required.contains(&(width + index)));
    required
        .iter()
        .copied()
        .filter(|column| *column < width)
        .chain(over.partition_by.iter().copied())
        .chain(over.order_by.iter().map(|key| key.column))
        .chain(calls.flat_map(|(_, call)| call.arguments.iter().copied().chain(call.filter)))
        .collect()
}

/// Which columns of the left and of the right input a join reads or passes on.
pub(super) fn asked_by_join(join: &Join, required: &[usize], left_width: usize) -> [Columns; 2] {
    let one_sided = matches!(join.kind, JoinKind::Semi | JoinKind::Anti);
    let read: Columns = required
        .iter()
        .copied()
        .filter(|column| !one_sided || *column < left_width)
        .chain(join.condition.columns())
        .chain(join.as_of)
        .chain(join.version_time().map(|column| left_width + column))
        .collect();
    let left = read.iter().copied().filter(|column| *column < left_width);
    let right = read
        .iter()
        .filter(|column| **column >= left_width)
        .map(|column| column - left_width);
    [left.collect(), right.collect()]
}
