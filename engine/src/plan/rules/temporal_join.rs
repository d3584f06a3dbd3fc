//! A join with FOR SYSTEM_TIME AS OF an event time becomes a temporal join; as of processing time, a lookup join.
//!
//! The right side must tell when a version begins (an event time) and what it is a version of (a key, which the condition
//! equates in full). Rows are dealt by just that key; other equalities are conditions on a row and its version.

use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::plan::exec_node::ExecNodeKind;
use crate::plan::logical::{Join, JoinKind, LogicalPlan};
use crate::plan::logical_graph::LogicalId;
use crate::plan::nodes::{JoinKey, TemporalJoinNode};
use crate::plan::physical::Planner;
use crate::plan::relation::{Relation, column_of};
use crate::plan::row_logic::{bare_column, conjunction};
use crate::types::{LogicalType, Schema, TimeAttribute};

use super::join::JoinSides;

impl Planner<'_> {
    /// A temporal join in event time, a lookup join in processing time.
    pub(super) fn temporal_join(&mut self, id: LogicalId, join: &Join) -> Result<Relation> {
        let as_of = join.as_of.expect("a temporal join is as of a time");
        if !matches!(join.kind, JoinKind::Inner | JoinKind::Left) {
            return Err(neither_inner_nor_left(join));
        }
        let left = &self.schema(self.graph.nodes[id].inputs[0]).fields[as_of];
        if left.time_attribute == Some(TimeAttribute::Proctime) {
            return self.lookup_join(id, join);
        }
        if let Some(hint) = &join.lookup_hint {
            return Err(
                Error::user("the hint LOOKUP is for joins as of processing time, and this is one as of an event time")
                    .at(hint.position.0)
                    .hint("leave the hint out"),
            );
        }
        let left_type = left.logical_type.clone();
        let version_time = join.version_time().ok_or_else(|| without_row_time(join))?;
        check_clocks(join, &left_type, version_time)?;
        let inputs = self.join_inputs(id, join)?;
        let (keys, residual) = (
            inputs.conditions.equalities.clone(),
            inputs.conditions.residual(),
        );
        let mut sides = self.join_sides(inputs, keys, residual)?;
        let right_key = self.keep_version_key(join, &mut sides)?;
        let mut schema = self.join_schema(join.kind, &sides);
        let left_columns = self.builder.node(sides.left.node).schema.len();
        for field in &mut schema.fields[left_columns..] {
            field.time_attribute = None;
        }
        let kind = ExecNodeKind::TemporalJoin(TemporalJoinNode {
            kind: join.kind,
            keys: sides.keys.clone(),
            condition: sides.condition.clone(),
            left_time: sides.left.at(as_of),
            right_time: sides.right.at(version_time),
            right_key,
        });
        Ok(self.joined(id, kind, sides, schema))
    }

    /// Leaves as keys just those that name a version, and says which right columns these are.
    fn keep_version_key(&self, join: &Join, sides: &mut JoinSides) -> Result<Vec<usize>> {
        let node = self.builder.node(sides.right.node);
        let of_column = |column: &usize| sides.keys.iter().find(|key| key.right == *column);
        let version_key = node
            .upsert_keys
            .iter()
            .find(|key| key.iter().all(|column| of_column(column).is_some()))
            .ok_or_else(|| without_key(join))?;
        let left = &self.builder.node(sides.left.node).schema;
        let mut keys: Vec<JoinKey> = Vec::new();
        let mut conditions = Vec::new();
        for key in &sides.keys {
            let known = keys.iter().any(|known| known.right == key.right);
            if version_key.contains(&key.right) && !known {
                keys.push(*key);
            } else {
                conditions.push(as_condition(key, left, &node.schema));
            }
        }
        let right_key = keys.iter().map(|key| key.right).collect();
        sides.keys = keys;
        sides.condition = conjunction(conditions.into_iter().chain(sides.condition.take()));
        Ok(right_key)
    }
}

fn as_condition(key: &JoinKey, left: &Schema, right: &Schema) -> Expression {
    let first = column_of(left, key.left);
    let field = &right.fields[key.right];
    let second = Expression::column(
        left.len() + key.right,
        &field.name,
        field.logical_type.clone(),
    );
    let nullable = first.logical_type().nullable || second.logical_type().nullable;
    let (function, nullable) = match key.null_safe {
        true => ("IS NOT DISTINCT FROM", false),
        false => ("=", nullable),
    };
    let logical_type = LogicalType::BOOLEAN.with_nullable(nullable);
    Expression::call(function, vec![first, second], logical_type)
}

/// Both times must be of one clock: wall clock, or instants.
fn check_clocks(join: &Join, left: &LogicalType, version_time: usize) -> Result<()> {
    let right = &join.right.schema().fields[version_time];
    if left.root == right.logical_type.root {
        return Ok(());
    }
    Err(Error::user(format!(
        "a temporal join compares times of one type, but the left time is {} and \"{}\" on the right is {}",
        left.root, right.name, right.logical_type.root
    ))
    .at(join.position.0)
    .hint("declare both event times TIMESTAMP(3), or both TIMESTAMP_LTZ(3)"))
}

fn neither_inner_nor_left(join: &Join) -> Error {
    Error::user(format!(
        "a join with FOR SYSTEM_TIME AS OF is INNER or LEFT, not {}",
        format!("{:?}", join.kind).to_uppercase()
    ))
    .at(join.position.0)
    .hint("the rows of the left side ask for versions of the right one, so only they can be kept")
}

fn without_row_time(join: &Join) -> Error {
    Error::user(
        "Temporal Table Join requires row time attribute in versioned table, but no row time attribute can be found.",
    )
    .at(join.position.0)
    .hint(
        "give the right table a WATERMARK, whose column says when a version begins; or look it up at the moment: FOR SYSTEM_TIME \
         AS OF a column that is PROCTIME()",
    )
}

fn without_key(join: &Join) -> Error {
    let Some(key) = version_key(&join.right).filter(|key| !key.is_empty()) else {
        return Error::user(
            "Temporal Table Join requires primary key in versioned table, but no primary key can be found.",
        )
        .at(join.position.0)
        .hint(
            "declare PRIMARY KEY (…) NOT ENFORCED, or join a view that keeps the last row of each key: SELECT … FROM (SELECT *, \
             ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS rn FROM t) WHERE rn = 1",
        );
    };
    let schema = join.right.schema();
    let names: Vec<&str> = key
        .iter()
        .map(|column| schema.fields[*column].name.as_str())
        .collect();
    Error::user(format!(
        "Temporal table's primary key [{}] must be included in the equivalence condition of temporal join.",
        names.join(", ")
    ))
    .at(join.position.0)
    .hint(format!(
        "add to ON: {}",
        names
            .iter()
            .map(|name| format!("l.{name} = r.{name}"))
            .collect::<Vec<_>>()
            .join(" AND ")
    ))
}

/// The columns that name a version, as far as the query's text says.
fn version_key(plan: &LogicalPlan) -> Option<Vec<usize>> {
    match plan {
        LogicalPlan::Scan(scan) => {
            let table = &scan.table;
            let name = |column: &usize| &table.descriptor.physical.fields[*column].name;
            let column = |key: &usize| {
                let mut columns = table.columns.iter();
                columns.position(|column| column.field.name == *name(key))
            };
            table.descriptor.primary_key.iter().map(column).collect()
        }
        LogicalPlan::Project(project) => {
            let column = |key: usize| {
                let mut columns = project.expressions.iter();
                columns.position(|expression| bare_column(expression) == Some(key))
            };
            let key = version_key(&project.input)?;
            key.into_iter().map(column).collect()
        }
        LogicalPlan::Filter(filter) => version_key(&filter.input),
        LogicalPlan::RowNumber(number) => Some(number.partition_by.clone()),
        LogicalPlan::Aggregate(aggregate) => Some((0..aggregate.grouping.len()).collect()),
        _ => None,
    }
}
