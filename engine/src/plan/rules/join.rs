//! Which join a join is: a temporal or lookup join by FOR SYSTEM_TIME AS OF, a window join by its equal windows, an interval join by its
//! bounds on time, else a regular one. And what all of them need: inputs with their keys, dealt by them.

use crate::error::Result;
use crate::expr::Expression;
use crate::plan::exec_node::{ExecNodeKind, NodeId};
use crate::plan::logical::{Join, JoinKind};
use crate::plan::logical_graph::LogicalId;
use crate::plan::nodes::JoinKey;
use crate::plan::physical::Planner;
use crate::plan::relation::{Packed, Pending, Relation, column_of};
use crate::plan::row_logic::reindex;
use crate::types::{Field, Schema};

use super::join_conditions::{Conditions, Equality};
use super::prune_columns::asked_by_join;

/// The inputs of a join before its kind is known.
pub(super) struct JoinInputs {
    pub(super) left: Relation,
    pub(super) right: Relation,
    pub(super) conditions: Conditions,
}

/// The inputs of a join as nodes that carry the keys.
pub(super) struct JoinSides {
    pub(super) left: Packed,
    pub(super) right: Packed,
    /// The equalities, by column of the nodes.
    pub(super) keys: Vec<JoinKey>,
    /// What else a pair must satisfy, over the columns of the left node, then the right one's.
    pub(super) condition: Option<Expression>,
    /// Number of columns of the logical left input.
    pub(super) left_width: usize,
    /// Number of columns of the left node.
    node_width: usize,
}

impl JoinSides {
    /// Where a logical column of the pair is among the columns of the left node, then the right one's.
    pub(super) fn at(&self, column: usize) -> usize {
        if column < self.left_width {
            self.left.at(column)
        } else {
            self.node_width + self.right.at(column - self.left_width)
        }
    }
}

impl Planner<'_> {
    /// A join of any kind.
    pub(crate) fn join(&mut self, id: LogicalId, join: &Join) -> Result<Relation> {
        if join.as_of.is_some() {
            return self.temporal_join(id, join);
        }
        let inputs = self.join_inputs(id, join)?;
        if let Some(window) = self.joined_window(join, &inputs)? {
            return self.window_join(id, join, inputs, window);
        }
        if let Some(bounds) = self.time_bounds(id, join) {
            return self.interval_join(id, join, inputs, bounds);
        }
        self.regular_join(id, join, inputs)
    }

    /// Both inputs with the columns that are read, and the condition taken apart.
    pub(super) fn join_inputs(&mut self, id: LogicalId, join: &Join) -> Result<JoinInputs> {
        let required = self.required(id).to_vec();
        let left_width = self.schema(self.graph.nodes[id].inputs[0]).len();
        let mut read = asked_by_join(join, &required, left_width);
        for (side, columns) in read.iter_mut().enumerate() {
            if columns.is_empty() {
                let input = self.graph.nodes[id].inputs[side];
                columns.extend(self.required(input).first());
            }
        }
        let [read_left, read_right] = read;
        let left = self.input(id, 0)?.only(&read_left);
        let right = self.input(id, 1)?.only(&read_right);
        let left = left.decided(&mut self.builder)?;
        let right = right.decided(&mut self.builder)?;
        Ok(JoinInputs {
            conditions: Conditions::of(&join.condition, left_width),
            left,
            right,
        })
    }

    /// The inputs as nodes that carry `keys`; `residual` is over the logical columns.
    pub(super) fn join_sides(
        &mut self,
        inputs: JoinInputs,
        keys: Vec<Equality>,
        residual: Option<Expression>,
    ) -> Result<JoinSides> {
        let (left, left_keys) = self.side(inputs.left, keys.iter().map(|key| &key.left))?;
        let (right, right_keys) = self.side(inputs.right, keys.iter().map(|key| &key.right))?;
        let columns = left_keys.iter().zip(&right_keys);
        let keys = keys.iter().zip(columns).map(|(key, columns)| JoinKey {
            left: *columns.0,
            right: *columns.1,
            null_safe: key.null_safe,
        });
        let mut sides = JoinSides {
            keys: keys.collect(),
            condition: None,
            left_width: inputs.conditions.left_width,
            node_width: self.builder.node(left.node).schema.len(),
            left,
            right,
        };
        sides.condition = residual.map(|part| reindex(&part, &|column| sides.at(column)));
        Ok(sides)
    }

    /// One side with its keys as last columns; says where they are.
    pub(super) fn side<'e>(
        &mut self,
        mut relation: Relation,
        keys: impl Iterator<Item = &'e Expression>,
    ) -> Result<(Packed, Vec<usize>)> {
        let first = relation.columns.len();
        for key in keys {
            let lowered = relation.lower(key);
            let field = Field::new(key.to_string(), key.logical_type().clone());
            relation.push(lowered, field);
        }
        let last = relation.columns.len();
        let packed = relation.pack(&mut self.builder)?;
        let keys = (first..last).map(|column| packed.at(column)).collect();
        Ok((packed, keys))
    }

    /// A join node over both sides, dealt by their keys, as the relation of a logical join.
    pub(super) fn joined(
        &mut self,
        id: LogicalId,
        kind: ExecNodeKind,
        sides: JoinSides,
        schema: Schema,
    ) -> Relation {
        let required = self.required(id).to_vec();
        let (left, right) = self.dealt(&sides.left, &sides.right, &sides.keys);
        let output = schema.clone();
        let node = self.builder.add(kind, vec![left, right], schema);
        let column = |column: usize| {
            let read = required.contains(&column);
            read.then(|| column_of(&output, sides.at(column)))
        };
        Relation {
            base: node,
            columns: (0..self.schema(id).len()).map(column).collect(),
            schema: self.schema(id).clone(),
            condition: None,
            pending: Pending::Nothing,
        }
    }

    fn dealt(&mut self, left: &Packed, right: &Packed, keys: &[JoinKey]) -> (NodeId, NodeId) {
        let left_keys: Vec<usize> = keys.iter().map(|key| key.left).collect();
        let right_keys: Vec<usize> = keys.iter().map(|key| key.right).collect();
        (
            self.builder.distribute(left.node, &left_keys),
            self.builder.distribute(right.node, &right_keys),
        )
    }

    /// The columns of both sides; those of a side that may be padded are nullable.
    pub(super) fn join_schema(&self, kind: JoinKind, sides: &JoinSides) -> Schema {
        let padded = |node: NodeId, pad: bool| {
            let mut schema = self.builder.node(node).schema.clone();
            for field in &mut schema.fields {
                field.logical_type.nullable |= pad;
            }
            schema
        };
        let pads_left = matches!(kind, JoinKind::Right | JoinKind::Full);
        let left = padded(sides.left.node, pads_left);
        match kind {
            JoinKind::Semi | JoinKind::Anti => left,
            _ => left.join(&padded(
                sides.right.node,
                matches!(kind, JoinKind::Left | JoinKind::Full),
            )),
        }
    }
}
