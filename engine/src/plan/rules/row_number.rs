//! ROW_NUMBER waits for conditions that bound it; which ranks they leave is read here. What it becomes is chosen by
//! whether the rows are partitioned by a window.

use crate::error::{Error, Result};
use crate::expr::{Expression, Literal};
use crate::plan::exec_node::{ExecNodeKind, NodeId};
use crate::plan::logical::RowNumber;
use crate::plan::logical_graph::LogicalId;
use crate::plan::nodes::RankRange;
use crate::plan::physical::Planner;
use crate::plan::relation::{Pending, PendingRank, Relation, column_of};
use crate::plan::row_logic::{conjuncts, reindex, substitute};
use crate::types::{Field, LogicalType, SortKey, TypeRoot};

impl Planner<'_> {
    /// A ROW_NUMBER waits for its bound.
    pub(crate) fn row_number(&mut self, id: LogicalId, number: &RowNumber) -> Result<Relation> {
        let input = self.input(id, 0)?.decided(&mut self.builder)?;
        let read = |input: &Relation| {
            let keys: Option<Vec<usize>> = number
                .partition_by
                .iter()
                .map(|column| input.bare(*column))
                .collect();
            let order: Option<Vec<SortKey>> = number
                .order_by
                .iter()
                .map(|key| {
                    let column = input.bare(key.column)?;
                    Some(SortKey { column, ..*key })
                })
                .collect();
            Some((keys?, order?))
        };
        let input = if input.condition.is_some() || read(&input).is_none() {
            input.settle(&mut self.builder)?
        } else {
            input
        };
        let (partition_by, order_by) = read(&input).expect("settled columns are bare");
        let width = self.builder.node(input.base).schema.len();
        let mut relation = Relation {
            pending: Pending::Rank(PendingRank {
                partition_by,
                order_by,
                name: number.name.clone(),
                position: number.position,
            }),
            ..input
        };
        let rank_type = LogicalType::not_null(TypeRoot::BigInt);
        relation.push(
            Expression::column(width, &number.name, rank_type.clone()),
            Field::new(&number.name, rank_type),
        );
        Ok(relation)
    }

    /// No row has a number in an empty range.
    fn no_rows(&self, mut relation: Relation, number: usize) -> Relation {
        let base = &self.builder.node(relation.base).schema;
        let bigint = LogicalType::not_null(TypeRoot::BigInt);
        let column = |index: usize| match index == number {
            true => Expression::literal(Literal::Integer(0), bigint.clone()),
            false => column_of(base, index),
        };
        for expression in relation.columns.iter_mut().flatten() {
            *expression = substitute(expression, &column);
        }
        let never = LogicalType::not_null(TypeRoot::Boolean);
        relation.condition = Some(Expression::literal(Literal::Boolean(false), never));
        relation.pending = Pending::Nothing;
        relation
    }

    /// A filter over a ROW_NUMBER: the parts that bound the number choose the ranks, the others stay.
    pub(crate) fn filter_ranked(
        &mut self,
        mut relation: Relation,
        rank: PendingRank,
        condition: Expression,
    ) -> Result<Relation> {
        let number = self.builder.node(relation.base).schema.len();
        let mut bounds = RankBounds::default();
        for part in conjuncts(&condition) {
            if !bounds.narrow(&part, number) {
                relation.and(part);
            }
        }
        if bounds.end.is_some_and(|end| end < bounds.start) {
            return Ok(self.no_rows(relation, number));
        }
        let Some(range) = bounds.range(&rank)? else {
            return Ok(relation);
        };
        if let RankRange::Constant { .. } = range {
            let columns = std::mem::take(&mut bounds.columns).into_iter();
            columns.for_each(|(_, part)| relation.and(part));
        }
        match self.rank_window(&relation, &rank) {
            Some(window) => self.window_rank(relation, rank, window, range),
            None => self.rank(relation, rank, range),
        }
    }
}

/// The input of a ranking, narrowed to what is read.
pub(super) struct RankInput {
    pub(super) node: NodeId,
    /// The number of columns that the relation's base has: the number is the one behind them.
    number: usize,
    /// The base's columns that are read, sorted, and where each is in the node.
    read: Vec<(usize, usize)>,
    /// Whether the number is read too.
    pub(super) output_rank: bool,
}

impl RankInput {
    /// Where a column of the base is.
    pub(super) fn at(&self, column: usize) -> usize {
        let read = self
            .read
            .binary_search_by_key(&column, |(column, _)| *column);
        self.read[read.expect("a column that is read")].1
    }

    /// The same for columns, each once.
    pub(super) fn all(&self, columns: &[usize]) -> Vec<usize> {
        let mut all: Vec<usize> = Vec::new();
        for column in columns.iter().map(|column| self.at(*column)) {
            if !all.contains(&column) {
                all.push(column);
            }
        }
        all
    }

    /// The same for the keys of an order.
    pub(super) fn order(&self, order: &[SortKey]) -> Vec<SortKey> {
        let order = order.iter();
        order
            .map(|key| SortKey {
                column: self.at(key.column),
                ..*key
            })
            .collect()
    }
}

impl Planner<'_> {
    /// The rows below a ranking with what the relation, and `also` the ranking, read of them.
    pub(super) fn rank_input(&mut self, relation: &Relation, also: &[usize]) -> Result<RankInput> {
        let base = self.builder.node(relation.base).schema.clone();
        let number = base.len();
        let mut read: Vec<usize> = relation
            .columns
            .iter()
            .flatten()
            .chain(&relation.condition)
            .flat_map(Expression::columns)
            .collect();
        let output_rank = read.contains(&number);
        read.retain(|column| *column != number);
        read.extend_from_slice(also);
        read.sort_unstable();
        read.dedup();
        if read.is_empty() {
            read.push(0);
        }
        let input = Relation {
            base: relation.base,
            schema: base.project(&read),
            columns: read
                .iter()
                .map(|column| Some(column_of(&base, *column)))
                .collect(),
            condition: None,
            pending: Pending::Nothing,
        };
        let packed = input.pack(&mut self.builder)?;
        let read = read.into_iter().enumerate();
        Ok(RankInput {
            node: packed.node,
            number,
            read: read.map(|(at, column)| (column, packed.at(at))).collect(),
            output_rank,
        })
    }

    /// The relation over the node of its ranking, whose last column is the number if that is read.
    pub(super) fn over_rank(
        &mut self,
        relation: Relation,
        rank: &PendingRank,
        input: &RankInput,
        kind: ExecNodeKind,
        below: NodeId,
    ) -> Relation {
        let mut schema = self.builder.node(below).schema.clone();
        let width = schema.len();
        if input.output_rank {
            let rank_type = LogicalType::not_null(TypeRoot::BigInt);
            schema.fields.push(Field::new(&rank.name, rank_type));
        }
        let node = self.builder.add(kind, vec![below], schema);
        let position = |column: usize| {
            if column == input.number {
                width
            } else {
                input.at(column)
            }
        };
        let moved = |expression: &Expression| reindex(expression, &position);
        Relation {
            base: node,
            columns: relation
                .columns
                .iter()
                .map(|column| column.as_ref().map(moved))
                .collect(),
            condition: relation.condition.as_ref().map(moved),
            schema: relation.schema,
            pending: Pending::Nothing,
        }
    }
}

/// The ranks that conditions leave.
struct RankBounds {
    start: i64,
    end: Option<i64>,
    /// Columns that the number is at most, and the conditions that say so.
    columns: Vec<(usize, Expression)>,
}

impl Default for RankBounds {
    fn default() -> Self {
        RankBounds {
            start: 1,
            end: None,
            columns: Vec::new(),
        }
    }
}

impl RankBounds {
    /// The ranks, if there is an upper bound: the constant one, or else a column.
    fn range(&self, rank: &PendingRank) -> Result<Option<RankRange>> {
        let Some(end) = self.end else {
            return match self.columns[..] {
                _ if self.start > 1 => Err(without_end(rank)),
                [] => Ok(None),
                [(end_column, _)] => Ok(Some(RankRange::Variable { end_column })),
                _ => Err(several_ends(rank)),
            };
        };
        let (start, end) = (self.start as u64, end as u64);
        Ok(Some(RankRange::Constant { start, end }))
    }

    /// Takes a comparison of the number with a constant or a column; says whether it was one.
    fn narrow(&mut self, part: &Expression, number: usize) -> bool {
        let Expression::Call {
            function,
            arguments,
            ..
        } = part
        else {
            return false;
        };
        let is_number = |argument: &Expression| plain(argument) == Plain::Column(number);
        let constants: Vec<Option<i64>> = arguments
            .iter()
            .map(|argument| match plain(argument) {
                Plain::Integer(value) => Some(value),
                _ => None,
            })
            .collect();
        let columns: Vec<Option<usize>> = arguments
            .iter()
            .map(|argument| match plain(argument) {
                Plain::Column(column) if column != number => Some(column),
                _ => None,
            })
            .collect();
        match (function.as_str(), &arguments[..], &columns[..]) {
            ("<=", [value, _], [_, Some(end)]) if is_number(value) => {
                self.columns.push((*end, part.clone()));
                return true;
            }
            (">=", [_, value], [Some(end), _]) if is_number(value) => {
                self.columns.push((*end, part.clone()));
                return true;
            }
            _ => {}
        }
        match (function.as_str(), &arguments[..], &constants[..]) {
            ("BETWEEN", [value, ..], [_, Some(low), Some(high)]) if is_number(value) => {
                self.at_least(*low);
                self.at_most(*high);
                true
            }
            (sign, [value, _], [_, Some(bound)]) if is_number(value) => self.compare(sign, *bound),
            (sign, [_, value], [Some(bound), _]) if is_number(value) => {
                self.compare(mirrored(sign), *bound)
            }
            _ => false,
        }
    }

    fn compare(&mut self, sign: &str, bound: i64) -> bool {
        match sign {
            "<=" => self.at_most(bound),
            "<" => self.at_most(bound.saturating_sub(1)),
            ">=" => self.at_least(bound),
            ">" => self.at_least(bound.saturating_add(1)),
            "=" => {
                self.at_least(bound);
                self.at_most(bound);
            }
            _ => return false,
        }
        true
    }

    fn at_least(&mut self, bound: i64) {
        self.start = self.start.max(bound);
    }

    fn at_most(&mut self, bound: i64) {
        self.end = Some(self.end.map_or(bound, |end| end.min(bound)));
    }
}

fn mirrored(sign: &str) -> &str {
    match sign {
        "<" => ">",
        "<=" => ">=",
        ">" => "<",
        ">=" => "<=",
        other => other,
    }
}

#[derive(PartialEq)]
enum Plain {
    Column(usize),
    Integer(i64),
    Other,
}

/// A column or a whole number, seen through casts between whole numbers.
fn plain(expression: &Expression) -> Plain {
    match expression {
        Expression::Column { index, .. } => Plain::Column(*index),
        Expression::Literal {
            value: Literal::Integer(value),
            logical_type,
        } if logical_type.root.is_integer() => Plain::Integer(*value),
        Expression::Cast {
            input,
            logical_type,
            ..
        } if logical_type.root.is_integer() && input.logical_type().root.is_integer() => {
            plain(input)
        }
        _ => Plain::Other,
    }
}

fn without_end(rank: &PendingRank) -> Error {
    Error::user(format!(
        "the condition on {} has no upper bound: only Top-N is supported, so the last rank must be given",
        rank.name
    ))
    .at(rank.position.0)
    .hint(format!("add AND {} <= 10", rank.name))
}

fn several_ends(rank: &PendingRank) -> Error {
    Error::user(format!(
        "the condition on {} has several columns as upper bounds",
        rank.name
    ))
    .at(rank.position.0)
    .hint(format!("leave one of them: AND {} <= n", rank.name))
}
