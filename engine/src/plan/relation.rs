//! A relation that is not yet a node: expressions over the columns of one that is.
//!
//! Projections and filters only compose expressions; a Calc is made once a consumer needs rows, with exactly the columns
//! it reads. In the same way a window function or a ROW_NUMBER waits here until it is known what becomes of it: a fused
//! window aggregation, a window Top-N, or a node of its own. Its columns are *virtual* till then: they follow the
//! columns of the base.

use std::collections::BTreeSet;

use super::exec_node::{ExecNodeKind, NodeId};
use super::graph_builder::GraphBuilder;
use super::logical::window_columns;
use super::nodes::{CalcNode, WindowTableFunctionNode};
use super::row_logic::{
    bare_column, can_fail, conjunction, conjuncts, is_cheap, is_shareable, reindex, substitute,
};
use super::window_properties::WindowProperties;
use crate::error::{Error, Result};
use crate::expr::{Expression, Position};
use crate::types::{Field, Schema, SortKey, TimeAttribute};
use crate::window::{WindowColumn, WindowKind, WindowSpec};

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Relation {
    /// The node below.
    pub(crate) base: NodeId,
    /// Names and types of the columns.
    pub(crate) schema: Schema,
    /// The columns, over the base's columns and the virtual ones; `None` where nobody reads the column.
    pub(crate) columns: Vec<Option<Expression>>,
    /// Which rows stay.
    pub(crate) condition: Option<Expression>,
    /// What has not been decided.
    pub(crate) pending: Pending,
}

/// An operation whose node is not chosen yet. It works on the rows of the base; of a window function's rows only those
/// count which satisfy the condition (for SESSION, whose windows depend on the rows, a condition comes after it).
#[derive(Debug, Clone)]
pub(crate) enum Pending {
    Nothing,
    Window(PendingWindow),
    Rank(PendingRank),
}

/// A window function; window_start, window_end and window_time are virtual.
#[derive(Debug, Clone)]
pub(crate) struct PendingWindow {
    pub(crate) window: WindowSpec,
    pub(crate) time_column: usize,
    pub(crate) partition_by: Vec<usize>,
}

/// ROW_NUMBER; the number is virtual.
#[derive(Debug, Clone)]
pub(crate) struct PendingRank {
    pub(crate) partition_by: Vec<usize>,
    pub(crate) order_by: Vec<SortKey>,
    pub(crate) name: String,
    pub(crate) position: Position,
}

/// A node that holds the rows of a relation.
pub(crate) struct Packed {
    pub(crate) node: NodeId,
    /// Where each column of the relation is in the node.
    pub(crate) positions: Vec<Option<usize>>,
}

impl Packed {
    /// Where a column is that was asked for.
    pub(crate) fn at(&self, column: usize) -> usize {
        self.positions[column].expect("a column that is read is packed")
    }
}

impl Relation {
    /// All columns of a node.
    pub(crate) fn of_node(builder: &GraphBuilder, base: NodeId) -> Relation {
        let schema = builder.node(base).schema.clone();
        let columns = (0..schema.len())
            .map(|index| Some(column_of(&schema, index)))
            .collect();
        Relation {
            base,
            schema,
            columns,
            condition: None,
            pending: Pending::Nothing,
        }
    }

    /// The expression of a column that is read.
    pub(crate) fn column(&self, index: usize) -> &Expression {
        self.columns[index]
            .as_ref()
            .expect("pruning keeps every column that is read")
    }

    /// The base column that a column shows unchanged.
    pub(crate) fn bare(&self, index: usize) -> Option<usize> {
        self.columns[index].as_ref().and_then(bare_column)
    }

    /// An expression over this relation's columns as one over the base's.
    pub(crate) fn lower(&self, expression: &Expression) -> Expression {
        substitute(expression, &|index| self.column(index).clone())
    }

    /// Only some of the columns, in the given order.
    pub(crate) fn select(&self, columns: &[usize]) -> Relation {
        Relation {
            schema: self.schema.project(columns),
            columns: columns
                .iter()
                .map(|column| Some(self.column(*column).clone()))
                .collect(),
            ..self.clone()
        }
    }

    /// The same columns, of which only some are still read.
    pub(crate) fn only(mut self, read: &BTreeSet<usize>) -> Relation {
        for (index, column) in self.columns.iter_mut().enumerate() {
            if !read.contains(&index) {
                *column = None;
            }
        }
        self
    }

    /// Adds a column and says where.
    pub(crate) fn push(&mut self, expression: Expression, field: Field) -> usize {
        self.columns.push(Some(expression));
        self.schema.fields.push(field);
        self.columns.len() - 1
    }

    /// Adds a column of the base and says where.
    pub(crate) fn push_base(&mut self, builder: &GraphBuilder, column: usize) -> usize {
        let schema = &builder.node(self.base).schema;
        self.push(column_of(schema, column), schema.fields[column].clone())
    }

    /// Keeps only rows that also satisfy a condition over the base's columns.
    pub(crate) fn and(&mut self, condition: Expression) {
        self.condition = conjunction(self.condition.take().into_iter().chain([condition]));
    }

    /// The rows as a node: the base itself, or a Calc over it. Equal columns are one.
    pub(crate) fn pack(self, builder: &mut GraphBuilder) -> Result<Packed> {
        let relation = self.decided(builder)?;
        let base = builder.node(relation.base).schema.clone();
        let mut wanted: Vec<(Expression, Field)> = Vec::new();
        for (expression, field) in relation.columns.iter().zip(&relation.schema.fields) {
            if let Some(expression) = expression
                && !wanted.iter().any(|(known, _)| known == expression)
            {
                let field = match bare_column(expression) {
                    Some(column) => base.fields[column].clone(),
                    None => field.clone(),
                };
                wanted.push((expression.clone(), field));
            }
        }
        wanted.sort_by_key(|(expression, _)| bare_column(expression).unwrap_or(usize::MAX));
        let is_base = relation.condition.is_none()
            && wanted.len() == base.len()
            && wanted
                .iter()
                .enumerate()
                .all(|(at, (expression, _))| bare_column(expression) == Some(at));
        let positions = relation
            .columns
            .iter()
            .map(|column| {
                let column = column.as_ref()?;
                wanted.iter().position(|(known, _)| known == column)
            })
            .collect();
        let node = if is_base {
            relation.base
        } else {
            calc(builder, relation.base, wanted, relation.condition)
        };
        Ok(Packed { node, positions })
    }

    /// The rows as a node with exactly these columns in this order. All columns must be read.
    pub(crate) fn pack_exactly(self, builder: &mut GraphBuilder) -> Result<NodeId> {
        let relation = self.decided(builder)?;
        let width = builder.node(relation.base).schema.len();
        let identity = relation.condition.is_none()
            && relation.columns.len() == width
            && (0..width).all(|column| relation.bare(column) == Some(column));
        if identity {
            return Ok(relation.base);
        }
        let wanted = (0..relation.columns.len())
            .map(|column| {
                (
                    relation.column(column).clone(),
                    relation.schema.fields[column].clone(),
                )
            })
            .collect();
        Ok(calc(builder, relation.base, wanted, relation.condition))
    }

    /// The same relation whose columns are bare columns of its base, so that using one twice computes nothing twice. A
    /// window function stays pending over what could be computed below it; a ROW_NUMBER is left as it is.
    pub(crate) fn settle(self, builder: &mut GraphBuilder) -> Result<Relation> {
        match &self.pending {
            Pending::Rank(_) => Ok(self),
            Pending::Window(window) if self.computes_below(builder, window) => {
                let window = window.clone();
                self.settle_below(builder, window)
            }
            _ => self.settle_here(builder),
        }
    }

    fn settle_here(self, builder: &mut GraphBuilder) -> Result<Relation> {
        let schema = self.schema.clone();
        let packed = self.pack(builder)?;
        let base = &builder.node(packed.node).schema;
        let columns = packed
            .positions
            .iter()
            .map(|position| position.map(|position| column_of(base, position)))
            .collect();
        Ok(Relation {
            base: packed.node,
            schema,
            columns,
            condition: None,
            pending: Pending::Nothing,
        })
    }

    /// Whether nothing but bare columns and, of aligned windows, no condition reads the virtual columns.
    fn computes_below(&self, builder: &GraphBuilder, window: &PendingWindow) -> bool {
        let width = builder.node(self.base).schema.len();
        let aligned = !matches!(window.window.kind, WindowKind::Session { .. });
        let reads = |expression: &Expression| expression.columns().iter().any(|c| *c >= width);
        self.columns
            .iter()
            .flatten()
            .all(|expression| bare_column(expression).is_some() || !reads(expression))
            && self
                .condition
                .as_ref()
                .is_none_or(|condition| aligned && !reads(condition))
    }

    fn settle_below(self, builder: &mut GraphBuilder, window: PendingWindow) -> Result<Relation> {
        let width = builder.node(self.base).schema.len();
        let mut below = Relation {
            pending: Pending::Nothing,
            ..self.clone()
        };
        for column in &mut below.columns {
            if column
                .as_ref()
                .and_then(bare_column)
                .is_some_and(|c| c >= width)
            {
                *column = None;
            }
        }
        let time = below.push_base(builder, window.time_column);
        let partition: Vec<usize> = window
            .partition_by
            .iter()
            .map(|column| below.push_base(builder, *column))
            .collect();
        let below = below.settle_here(builder)?;
        let settled = |column: usize| below.bare(column).expect("settled columns are bare");
        let new_width = builder.node(below.base).schema.len();
        let columns = self.columns.iter().enumerate().map(|(index, column)| {
            let column = column.as_ref()?;
            match bare_column(column) {
                Some(at) if at >= width => Some(reindex(column, &|at| at - width + new_width)),
                _ => below.columns[index].clone(),
            }
        });
        Ok(Relation {
            base: below.base,
            schema: self.schema,
            columns: columns.collect(),
            condition: None,
            pending: Pending::Window(PendingWindow {
                window: window.window,
                time_column: settled(time),
                partition_by: partition.into_iter().map(settled).collect(),
            }),
        })
    }

    /// Settles where an expression that is not cheap, or draws a random number, would be evaluated more than once; `uses`
    /// counts how often a column is read. What can fail is rather evaluated twice: computed by itself it would also be
    /// computed for rows that a filter above it keeps away.
    pub(crate) fn settle_for(
        self,
        builder: &mut GraphBuilder,
        uses: &dyn Fn(usize) -> usize,
    ) -> Result<Relation> {
        let once = |expression: &Expression| {
            !is_shareable(expression) || (!is_cheap(expression) && !can_fail(expression))
        };
        let repeats = self
            .columns
            .iter()
            .enumerate()
            .any(|(index, column)| column.as_ref().is_some_and(once) && uses(index) > 1);
        if repeats {
            self.settle_total(builder)
        } else {
            Ok(self)
        }
    }

    /// Settles what cannot fail. Expressions that can are left as they are, over base columns that are carried along, so
    /// that filters above still keep rows from them.
    pub(crate) fn settle_total(self, builder: &mut GraphBuilder) -> Result<Relation> {
        let fails = |expression: &Expression| can_fail(expression) && is_shareable(expression);
        let mut total = self.clone();
        let mut carried: Vec<(usize, usize)> = Vec::new();
        for column in &self.columns {
            for part in column
                .iter()
                .filter(|part| fails(part))
                .flat_map(read_columns)
            {
                let read = bare_column(&part).expect("a column of the base");
                if !carried.iter().any(|(known, _)| *known == read) {
                    let field = Field::new(part.to_string(), part.logical_type().clone());
                    carried.push((read, total.push(part, field)));
                }
            }
        }
        if carried.is_empty() || matches!(self.pending, Pending::Rank(_)) {
            return self.settle(builder);
        }
        for column in &mut total.columns {
            if column.as_ref().is_some_and(fails) {
                *column = None;
            }
        }
        let settled = total.settle(builder)?;
        let moved = |read: usize| {
            let carried = carried.iter().find(|(known, _)| *known == read);
            let (_, at) = carried.expect("what failing parts read is carried");
            settled.bare(*at).expect("settled columns are bare")
        };
        let columns = self.columns.iter().zip(&settled.columns);
        let columns = columns.map(|(old, new)| match old {
            Some(old) if fails(old) => Some(reindex(old, &moved)),
            _ => new.clone(),
        });
        Ok(Relation {
            columns: columns.collect(),
            schema: self.schema,
            ..settled.clone()
        })
    }

    /// Nothing pending any more: a window function becomes a node of its own.
    pub(crate) fn decided(self, builder: &mut GraphBuilder) -> Result<Relation> {
        match self.pending.clone() {
            Pending::Nothing => Ok(self),
            Pending::Window(window) => self.evaluate_window(builder, window),
            Pending::Rank(rank) if rank.is_time_ordered(builder, self.base) => {
                self.evaluate_row_number(builder, rank)
            }
            Pending::Rank(rank) => Err(unbounded_rank(&rank)),
        }
    }

    fn evaluate_window(
        self,
        builder: &mut GraphBuilder,
        window: PendingWindow,
    ) -> Result<Relation> {
        let base = builder.node(self.base).schema.clone();
        let width = base.len();
        let (below, above) = self.split_condition(width, &window);
        let mut read: Vec<usize> = self
            .columns
            .iter()
            .flatten()
            .chain(&above)
            .flat_map(Expression::columns)
            .filter(|column| *column < width)
            .chain([window.time_column])
            .chain(window.partition_by.iter().copied())
            .collect();
        read.sort_unstable();
        read.dedup();
        let input = Relation {
            base: self.base,
            schema: base.project(&read),
            columns: read.iter().map(|c| Some(column_of(&base, *c))).collect(),
            condition: below,
            pending: Pending::Nothing,
        };
        let packed = input.pack(builder)?;
        let moved = |column: usize| {
            let at = read.binary_search(&column).expect("a column that is read");
            packed.at(at)
        };
        let node = window_function(
            builder,
            packed.node,
            WindowTableFunctionNode {
                window: window.window.clone(),
                time_column: moved(window.time_column),
                partition_by: window.partition_by.iter().map(|c| moved(*c)).collect(),
            },
        );
        let new_width = builder.node(packed.node).schema.len();
        let position = |column: usize| {
            if column >= width {
                column - width + new_width
            } else {
                moved(column)
            }
        };
        Ok(Relation {
            base: node,
            schema: self.schema,
            columns: self
                .columns
                .iter()
                .map(|column| column.as_ref().map(|column| reindex(column, &position)))
                .collect(),
            condition: above.map(|condition| reindex(&condition, &position)),
            pending: Pending::Nothing,
        })
    }

    /// The condition in a part for the rows before the window function and a part for those behind it. A part that can
    /// fail goes before it only if everything in front of it does.
    fn split_condition(
        &self,
        width: usize,
        window: &PendingWindow,
    ) -> (Option<Expression>, Option<Expression>) {
        let Some(condition) = &self.condition else {
            return (None, None);
        };
        if matches!(window.window.kind, WindowKind::Session { .. }) {
            return (None, Some(condition.clone()));
        }
        let (mut below, mut above) = (Vec::new(), Vec::new());
        for part in conjuncts(condition) {
            let on_rows = part.columns().iter().all(|column| *column < width);
            if on_rows && (above.is_empty() || !can_fail(&part)) {
                below.push(part);
            } else {
                above.push(part);
            }
        }
        (conjunction(below), conjunction(above))
    }

    /// The windows whose bounds the base's columns carry, virtual columns included.
    pub(crate) fn window_properties(&self, builder: &GraphBuilder) -> Option<WindowProperties> {
        match &self.pending {
            Pending::Window(window) => {
                let width = builder.node(self.base).schema.len();
                Some(WindowProperties {
                    window: window.window.clone(),
                    starts: vec![width],
                    ends: vec![width + 1],
                    times: vec![width + 2],
                    time_columns: vec![window.time_column, width + 2],
                })
            }
            _ => builder.facts(self.base).window.clone(),
        }
    }

    /// Which window column a column shows unchanged.
    pub(crate) fn window_column(
        &self,
        builder: &GraphBuilder,
        column: usize,
    ) -> Option<WindowColumn> {
        self.window_properties(builder)?.of(self.bare(column)?)
    }
}

/// The columns that an expression reads, as expressions.
fn read_columns(expression: &Expression) -> Vec<Expression> {
    let mut columns = Vec::new();
    expression.walk(&mut |part| {
        if matches!(part, Expression::Column { .. }) {
            columns.push(part.clone());
        }
    });
    columns
}

/// A column of a schema as an expression.
pub(crate) fn column_of(schema: &Schema, index: usize) -> Expression {
    let field = &schema.fields[index];
    Expression::column(index, &field.name, field.logical_type.clone())
}

fn calc(
    builder: &mut GraphBuilder,
    input: NodeId,
    columns: Vec<(Expression, Field)>,
    condition: Option<Expression>,
) -> NodeId {
    let (projection, fields) = columns.into_iter().unzip();
    let kind = ExecNodeKind::Calc(CalcNode {
        projection,
        condition,
    });
    builder.add(kind, vec![input], Schema::new(fields))
}

fn window_function(
    builder: &mut GraphBuilder,
    input: NodeId,
    function: WindowTableFunctionNode,
) -> NodeId {
    let input = match function.window.kind {
        WindowKind::Session { .. } => builder.distribute(input, &function.partition_by),
        _ => input,
    };
    let mut schema = builder.node(input).schema.clone();
    let time = &mut schema.fields[function.time_column];
    time.time_attribute = None;
    let attribute = if function.window.time.is_event_time() {
        TimeAttribute::Rowtime
    } else {
        TimeAttribute::Proctime
    };
    let time = time.logical_type.root.clone();
    schema.fields.extend(window_columns(time, attribute));
    builder.add(
        ExecNodeKind::WindowTableFunction(function),
        vec![input],
        schema,
    )
}

fn unbounded_rank(rank: &PendingRank) -> Error {
    Error::user(format!(
        "ROW_NUMBER() AS {} without an upper bound is not supported: only Top-N queries are",
        rank.name
    ))
    .at(rank.position.0)
    .hint(format!(
        "keep the first rows of each partition in the query around it: WHERE {} <= 10",
        rank.name
    ))
}
