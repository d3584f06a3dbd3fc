//! A join as of processing time becomes a lookup join: for each left row the table is asked for the rows of its key.
//!
//! The right side must be a table whose connector can be asked, with at most filters and projections over it. Equalities of its
//! columns with left columns or with constants are the key, whatever else is said is checked on the rows found.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::plan::exec_node::{ExecNodeKind, NodeId};
use crate::plan::logical::{Join, JoinKind, LogicalPlan, LookupHint, LookupOutputMode, TableSpec};
use crate::plan::logical_graph::LogicalId;
use crate::plan::nodes::{AsyncLookup, LookupJoinNode, LookupKey, LookupValue};
use crate::plan::physical::Planner;
use crate::plan::relation::{Packed, Pending, Relation, column_of};
use crate::plan::row_logic::{
    bare_column, conjunction, conjuncts, is_movable, reindex, substitute,
};

use super::join_conditions::Conditions;

impl Planner<'_> {
    /// A lookup join.
    pub(super) fn lookup_join(&mut self, id: LogicalId, join: &Join) -> Result<Relation> {
        let left_width = self.schema(self.graph.nodes[id].inputs[0]).len();
        let table = LookedUp::of(&join.right).ok_or_else(|| not_a_table(join))?;
        let question = Question::of(join, &table, left_width);
        if question.keys.is_empty() {
            return Err(without_key(join, &table));
        }
        let required = self.required(id).to_vec();
        let shown = self.shown(join, &table, &required, left_width)?;
        let (left, key_columns) = self.asking(id, &question, &required)?;
        let layout = Layout {
            left_width,
            node_width: self.builder.node(left.node).schema.len(),
            left,
            projection: question.table_columns(&shown, left_width),
        };
        let node = self.lookup_node(join, &table, &question, key_columns, &layout)?;
        let output = self.builder.node(node).schema.clone();
        let column = |column: usize| match column.checked_sub(left_width) {
            None => column_of(&output, layout.at(column)),
            Some(right) => substitute(&table.columns[right], &|physical| {
                column_of(&output, layout.at(left_width + physical))
            }),
        };
        let width = self.schema(id).len();
        let columns = (0..width).map(|at| required.contains(&at).then(|| column(at)));
        Ok(Relation {
            base: node,
            columns: columns.collect(),
            schema: self.schema(id).clone(),
            condition: None,
            pending: Pending::Nothing,
        })
    }

    /// The left input with the values that the table is asked for as columns, and where these are.
    fn asking(
        &mut self,
        id: LogicalId,
        question: &Question,
        required: &[usize],
    ) -> Result<(Packed, Vec<usize>)> {
        let left_id = self.graph.nodes[id].inputs[0];
        let left_width = self.schema(left_id).len();
        let mut read: BTreeSet<usize> = required.iter().copied().collect();
        read.extend(question.columns());
        read.retain(|column| *column < left_width);
        if read.is_empty() {
            read.extend(self.required(left_id).first());
        }
        let left = self.input(id, 0)?.only(&read).decided(&mut self.builder)?;
        let values = question.keys.iter().filter_map(|key| match &key.value {
            KeyValue::Left(value) => Some(value),
            KeyValue::Constant(_) => None,
        });
        self.side(left, values)
    }

    fn lookup_node(
        &mut self,
        join: &Join,
        table: &LookedUp,
        question: &Question,
        key_columns: Vec<usize>,
        layout: &Layout,
    ) -> Result<NodeId> {
        let mut descriptor = table.spec.descriptor.clone();
        descriptor.projection = layout.projection.clone();
        let mut key_columns = key_columns.into_iter();
        let keys: Vec<LookupKey> = question
            .keys
            .iter()
            .map(|key| LookupKey {
                column: key.column,
                value: match &key.value {
                    KeyValue::Constant(value) => LookupValue::Constant(value.clone()),
                    KeyValue::Left(_) => {
                        LookupValue::Column(key_columns.next().expect("a column for each value"))
                    }
                },
            })
            .collect();
        // Mistakes in the options show now.
        let asked: Vec<usize> = keys.iter().map(|key| key.column).collect();
        let source = self
            .connectors
            .for_table(&descriptor, join.position.0)?
            .create_lookup(&descriptor, &asked)
            .map_err(|error| error.at(join.position.0))?;
        let hint = join.lookup_hint.as_deref();
        let wanted = hint.and_then(|hint| hint.is_async);
        let asynchronous = source.async_support().is_taken(wanted);
        let asynchronous = asynchronous.then(|| self.asynchronous(hint));
        let retry = hint.and_then(|hint| hint.retry);
        let retry = retry.filter(|_| !source.is_remembered_whole());
        let mut schema = self.builder.node(layout.left.node).schema.clone();
        for mut field in descriptor.projected().fields {
            field.logical_type.nullable |= join.kind == JoinKind::Left;
            schema.fields.push(field);
        }
        let others = question.others.iter();
        let kind = ExecNodeKind::LookupJoin(LookupJoinNode {
            kind: join.kind,
            keys,
            condition: conjunction(others.map(|part| reindex(part, &|column| layout.at(column)))),
            table: descriptor,
            asynchronous,
            retry,
        });
        Ok(self.builder.add(kind, vec![layout.left.node], schema))
    }

    /// How rows wait side by side: as the hint says, else as the session's options do.
    fn asynchronous(&self, hint: Option<&LookupHint>) -> AsyncLookup {
        let capacity = self
            .config
            .integer("table.exec.async-lookup.buffer-capacity");
        let timeout = self.config.duration("table.exec.async-lookup.timeout");
        let mode = match self.config.get("table.exec.async-lookup.output-mode") {
            Some("ALLOW_UNORDERED") => LookupOutputMode::AllowUnordered,
            _ => LookupOutputMode::Ordered,
        };
        AsyncLookup {
            output_mode: hint.and_then(|hint| hint.output_mode).unwrap_or(mode),
            key_ordered: self
                .config
                .boolean("table.exec.async-lookup.key-ordered-enabled"),
            timeout_ms: hint
                .and_then(|hint| hint.timeout_ms)
                .unwrap_or(timeout.as_millis() as u64),
            capacity: hint
                .and_then(|hint| hint.capacity)
                .unwrap_or(capacity.max(1) as usize),
        }
    }

    /// The right columns that are read, over the table's physical ones. What is computed would not be NULL beside a row that
    /// found nothing.
    fn shown(
        &self,
        join: &Join,
        table: &LookedUp,
        required: &[usize],
        left_width: usize,
    ) -> Result<Vec<Expression>> {
        let read = required.iter().filter(|column| **column >= left_width);
        read.map(|column| {
            let shown = &table.columns[column - left_width];
            if join.kind == JoinKind::Left && bare_column(shown).is_none() {
                let name = &join.right.schema().fields[column - left_width].name;
                return Err(Error::unsupported(format!(
                    "reading the computed column \"{name}\" of the right side of a LEFT lookup join"
                ))
                .at(join.position.0)
                .hint("compute it in the SELECT around the join"));
            }
            Ok(shown.clone())
        })
        .collect()
    }
}

/// Where columns are in the node: the left ones, then the table's projected ones.
struct Layout {
    left: Packed,
    left_width: usize,
    /// Number of columns of the left node.
    node_width: usize,
    /// Physical columns, sorted.
    projection: Vec<usize>,
}

impl Layout {
    /// Where a left column is, or behind them a physical column of the table.
    fn at(&self, column: usize) -> usize {
        match column.checked_sub(self.left_width) {
            None => self.left.at(column),
            Some(physical) => {
                let place = self.projection.binary_search(&physical);
                self.node_width + place.expect("a column that is read is projected")
            }
        }
    }
}

/// A table under filters and projections.
struct LookedUp<'a> {
    spec: &'a TableSpec,
    /// The columns over the physical ones.
    columns: Vec<Expression>,
    /// What the filters ask, over the physical columns.
    conditions: Vec<Expression>,
}

impl<'a> LookedUp<'a> {
    fn of(plan: &'a LogicalPlan) -> Option<Self> {
        match plan {
            LogicalPlan::Scan(scan) => {
                let spec = &*scan.table;
                let physical = &spec.descriptor.physical;
                let mut next = 0;
                let columns = spec.columns.iter().map(|column| match &column.computed {
                    Some(expression) => expression.clone(),
                    None => {
                        next += 1;
                        column_of(physical, next - 1)
                    }
                });
                Some(LookedUp {
                    columns: columns.collect(),
                    spec,
                    conditions: vec![],
                })
            }
            LogicalPlan::Project(project) => {
                let input = Self::of(&project.input)?;
                let expressions = project.expressions.iter();
                let columns = expressions.map(|expression| input.lower(expression));
                Some(LookedUp {
                    columns: columns.collect(),
                    ..input
                })
            }
            LogicalPlan::Filter(filter) => {
                let mut input = Self::of(&filter.input)?;
                let condition = input.lower(&filter.condition);
                input.conditions.extend(conjuncts(&condition));
                Some(input)
            }
            _ => None,
        }
    }

    fn lower(&self, expression: &Expression) -> Expression {
        substitute(expression, &|column| self.columns[column].clone())
    }
}

/// What the table is asked, over the left columns, then its physical ones.
struct Question {
    keys: Vec<Key>,
    /// What the rows found must satisfy.
    others: Vec<Expression>,
}

struct Key {
    /// A physical column.
    column: usize,
    value: KeyValue,
}

enum KeyValue {
    Left(Expression),
    Constant(Expression),
}

impl Question {
    fn of(join: &Join, table: &LookedUp, left_width: usize) -> Question {
        let shifted =
            |expression: &Expression| reindex(expression, &|physical| left_width + physical);
        let columns: Vec<Expression> = table.columns.iter().map(shifted).collect();
        let left = join.left.schema();
        let condition = substitute(
            &join.condition,
            &|column| match column.checked_sub(left_width) {
                None => column_of(&left, column),
                Some(right) => columns[right].clone(),
            },
        );
        let parts = conjuncts(&condition);
        let of_table = table.conditions.iter().map(shifted);
        let mut question = Question {
            keys: Vec::new(),
            others: Vec::new(),
        };
        for part in parts.into_iter().chain(of_table) {
            match key_of(&part, left_width) {
                Some(key) => question.keys.push(key),
                None => question.others.push(part),
            }
        }
        question
    }

    /// The columns that it reads.
    fn columns(&self) -> impl Iterator<Item = usize> + '_ {
        let of_keys = self.keys.iter().flat_map(|key| match &key.value {
            KeyValue::Left(value) => value.columns(),
            KeyValue::Constant(_) => vec![],
        });
        of_keys.chain(self.others.iter().flat_map(Expression::columns))
    }

    /// The physical columns that come out: those of the conditions and those shown.
    fn table_columns(&self, shown: &[Expression], left_width: usize) -> Vec<usize> {
        let checked = self.others.iter().flat_map(Expression::columns);
        let checked = checked.filter_map(|column| column.checked_sub(left_width));
        let shown = shown.iter().flat_map(Expression::columns);
        let columns: BTreeSet<usize> = checked.chain(shown).collect();
        columns.into_iter().collect()
    }
}

/// `physical column = value`.
fn key_of(part: &Expression, left_width: usize) -> Option<Key> {
    if let [equality] = &Conditions::of(part, left_width).equalities[..] {
        let column = bare_column(&equality.right).filter(|_| !equality.null_safe)?;
        return Some(Key {
            column,
            value: KeyValue::Left(equality.left.clone()),
        });
    }
    let Expression::Call {
        function,
        arguments,
        ..
    } = part
    else {
        return None;
    };
    let ("=", [first, second]) = (function.as_str(), &arguments[..]) else {
        return None;
    };
    let constant = |value: &Expression| value.columns().is_empty() && is_movable(value);
    let pairs = [(first, second), (second, first)];
    pairs.into_iter().find_map(|(column, value)| {
        Some(Key {
            column: bare_column(column)?.checked_sub(left_width)?,
            value: KeyValue::Constant(constant(value).then(|| value.clone())?),
        })
    })
}

fn not_a_table(join: &Join) -> Error {
    Error::unsupported(
        "a join FOR SYSTEM_TIME AS OF processing time with anything but a table that can be looked up",
    )
    .at(join.position.0)
    .hint("look up a table of a connector that can be asked, such as 'filesystem'; or join as of an event time")
}

fn without_key(join: &Join, table: &LookedUp) -> Error {
    Error::user(format!(
        "a lookup join requires an equality condition on fields of the table \"{}\"",
        table.spec.descriptor.name
    ))
    .at(join.position.0)
    .hint("compare a bare column of the table with a left column or a constant of its type: ON l.k = d.k")
}
