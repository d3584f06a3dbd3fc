//! Calls with OVER become an OverAggregate; so does a ROW_NUMBER in the order of time that nothing bounds.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::expr::{Expression, Position};
use crate::functions::AggregateCall;
use crate::plan::exec_node::{ExecNodeKind, NodeId};
use crate::plan::graph_builder::GraphBuilder;
use crate::plan::logical::{Over, OverFrame};
use crate::plan::logical_graph::LogicalId;
use crate::plan::nodes::OverAggregateNode;
use crate::plan::physical::Planner;
use crate::plan::relation::{Pending, PendingRank, Relation, column_of};
use crate::plan::row_logic::reindex;
use crate::types::{Field, LogicalType, SortKey, TimeAttribute, TypeRoot};

impl Planner<'_> {
    /// Aggregates over the rows before each row.
    pub(crate) fn over(&mut self, id: LogicalId, over: &Over) -> Result<Relation> {
        let time = self.time_order(id, over)?;
        let width = self.schema(self.graph.nodes[id].inputs[0]).len();
        let required = self.required(id).to_vec();
        let calls: Vec<&AggregateCall> = over
            .calls
            .iter()
            .enumerate()
            .filter(|(index, _)| required.contains(&(width + index)))
            .map(|(_, call)| call)
            .collect();
        let read: BTreeSet<usize> = required
            .iter()
            .copied()
            .filter(|column| *column < width)
            .chain(over.partition_by.iter().copied())
            .chain(over.order_by.iter().map(|key| key.column))
            .chain(calls.iter().flat_map(|call| columns_of_call(call)))
            .collect();
        let packed = self.input(id, 0)?.only(&read).pack(&mut self.builder)?;
        let node = OverAggregateNode {
            partition_by: over
                .partition_by
                .iter()
                .map(|column| packed.at(*column))
                .collect(),
            order_by: over
                .order_by
                .iter()
                .map(|key| SortKey {
                    column: packed.at(key.column),
                    ..*key
                })
                .collect(),
            frame: over.frame,
            calls: calls
                .iter()
                .map(|call| AggregateCall {
                    arguments: call
                        .arguments
                        .iter()
                        .map(|column| packed.at(*column))
                        .collect(),
                    filter: call.filter.map(|column| packed.at(column)),
                    ..(*call).clone()
                })
                .collect(),
            is_time_ordered: true,
            is_event_time: time == TimeAttribute::Rowtime,
        };
        let base = add_over(&mut self.builder, packed.node, node);
        let schema = &self.builder.node(base).schema;
        let first_result = schema.len() - calls.len();
        let mut columns: Vec<Option<Expression>> = packed
            .positions
            .iter()
            .map(|position| position.map(|position| column_of(schema, position)))
            .collect();
        let mut next = first_result;
        for index in 0..over.calls.len() {
            columns.push(required.contains(&(width + index)).then(|| {
                next += 1;
                column_of(schema, next - 1)
            }));
        }
        Ok(Relation {
            base,
            schema: self.schema(id).clone(),
            columns,
            condition: None,
            pending: Pending::Nothing,
        })
    }

    /// The clock of the order, which must be that of one ascending time attribute.
    fn time_order(&self, id: LogicalId, over: &Over) -> Result<TimeAttribute> {
        let refuse = |message: &str| Err(Error::user(message).at(over.position.0));
        let [key] = &over.order_by[..] else {
            return refuse("The window can only be ordered by a single time column.");
        };
        if key.descending {
            return refuse("The window can only be ordered in ASCENDING mode.");
        }
        let input = self.schema(self.graph.nodes[id].inputs[0]);
        let field = &input.fields[key.column];
        match (field.time_attribute, over.frame) {
            (Some(time), _) => Ok(time),
            (None, OverFrame::Rows(Some(_)) | OverFrame::Range(Some(_))) => {
                refuse("Non-time attribute sort is not supported for bounded OVER window.")
            }
            (None, _) => Err(no_time_attribute(&field.name, over.position)),
        }
    }
}

fn no_time_attribute(name: &str, position: Position) -> Error {
    Error::unsupported(format!(
        "OVER windows' ordering in stream mode must be defined on a time attribute. \"{name}\" is none: an OVER in another \
         order"
    ))
    .at(position.0)
    .hint("order by the column of WATERMARK FOR, or by one that is AS PROCTIME()")
}

fn columns_of_call(call: &AggregateCall) -> impl Iterator<Item = usize> + '_ {
    call.arguments.iter().copied().chain(call.filter)
}

/// The node over rows dealt by its keys: their columns, then the results.
fn add_over(builder: &mut GraphBuilder, input: NodeId, node: OverAggregateNode) -> NodeId {
    let input = builder.distribute(input, &node.partition_by);
    let mut schema = builder.node(input).schema.clone();
    let results = node.calls.iter();
    schema
        .fields
        .extend(results.map(|call| Field::new(&call.name, call.logical_type.clone())));
    builder.add(ExecNodeKind::OverAggregate(node), vec![input], schema)
}

impl PendingRank {
    /// Whether it numbers rows in the order of time, so that a number never changes.
    pub(crate) fn is_time_ordered(&self, builder: &GraphBuilder, base: NodeId) -> bool {
        let fields = &builder.node(base).schema.fields;
        matches!(&self.order_by[..], [key] if !key.descending && fields[key.column].time_attribute.is_some())
    }
}

impl Relation {
    /// A ROW_NUMBER in the order of time as a node of its own.
    pub(crate) fn evaluate_row_number(
        self,
        builder: &mut GraphBuilder,
        rank: PendingRank,
    ) -> Result<Relation> {
        let base = builder.node(self.base).schema.clone();
        let number = base.len();
        let mut read: Vec<usize> = self
            .columns
            .iter()
            .flatten()
            .chain(&self.condition)
            .flat_map(Expression::columns)
            .filter(|column| *column < number)
            .chain(rank.partition_by.iter().copied())
            .chain(rank.order_by.iter().map(|key| key.column))
            .collect();
        read.sort_unstable();
        read.dedup();
        let input = Relation {
            base: self.base,
            schema: base.project(&read),
            columns: read
                .iter()
                .map(|column| Some(column_of(&base, *column)))
                .collect(),
            condition: None,
            pending: Pending::Nothing,
        };
        let packed = input.pack(builder)?;
        let at = |column: usize| {
            let at = read.binary_search(&column);
            packed.at(at.expect("a column that is read"))
        };
        let time = rank.order_by[0].column;
        let node = row_number_node(&rank, &at, base.fields[time].time_attribute);
        let node = add_over(builder, packed.node, node);
        let width = builder.node(node).schema.len() - 1;
        let position = |column: usize| if column == number { width } else { at(column) };
        let moved = |part: &Expression| reindex(part, &position);
        Ok(Relation {
            base: node,
            columns: self
                .columns
                .iter()
                .map(|column| column.as_ref().map(moved))
                .collect(),
            condition: self.condition.as_ref().map(moved),
            schema: self.schema,
            pending: Pending::Nothing,
        })
    }
}

fn row_number_node(
    rank: &PendingRank,
    at: &dyn Fn(usize) -> usize,
    time: Option<TimeAttribute>,
) -> OverAggregateNode {
    OverAggregateNode {
        partition_by: rank.partition_by.iter().map(|column| at(*column)).collect(),
        order_by: rank
            .order_by
            .iter()
            .map(|key| SortKey {
                column: at(key.column),
                ..*key
            })
            .collect(),
        frame: OverFrame::Rows(None),
        calls: vec![AggregateCall {
            function: "ROW_NUMBER".to_string(),
            arguments: vec![],
            argument_types: vec![],
            distinct: false,
            filter: None,
            logical_type: LogicalType::not_null(TypeRoot::BigInt),
            name: rank.name.clone(),
        }],
        is_time_ordered: true,
        is_event_time: time == Some(TimeAttribute::Rowtime),
    }
}
