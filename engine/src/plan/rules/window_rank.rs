//! ROW_NUMBER with a bound becomes a Top-N of windows, or a deduplication where one row stays by event time.

use crate::error::{Error, Result};
use crate::expr::{Expression, Literal};
use crate::plan::exec_node::ExecNodeKind;
use crate::plan::logical::RowNumber;
use crate::plan::logical_graph::LogicalId;
use crate::plan::nodes::{KeepRow, WindowDeduplicateNode, WindowRankNode};
use crate::plan::physical::Planner;
use crate::plan::relation::{Pending, PendingRank, Relation, column_of};
use crate::plan::row_logic::{conjuncts, reindex};
use crate::plan::window_properties::WindowProperties;
use crate::types::{Field, LogicalType, SortKey, TypeRoot};
use crate::window::WindowColumn;

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

    /// A filter over a ROW_NUMBER: the parts that bound the number choose the ranks, the others stay.
    pub(crate) fn filter_ranked(
        &mut self,
        mut relation: Relation,
        rank: PendingRank,
        condition: Expression,
    ) -> Result<Relation> {
        let number = self.builder.node(relation.base).schema.len();
        let mut range = RankRange::default();
        for part in conjuncts(&condition) {
            if !range.narrow(&part, number) {
                relation.and(part);
            }
        }
        let Some(rank_end) = range.end else {
            if range.start > 1 {
                return Err(without_end(&rank));
            }
            return Ok(relation);
        };
        if rank_end < range.start {
            return Err(Error::user(format!(
                "the condition on {} is never true: no row has a number from {} to {rank_end}",
                rank.name, range.start
            ))
            .at(rank.position.0)
            .hint("the first row has the number 1"));
        }
        self.window_rank(relation, rank, range.start as u64, rank_end as u64)
    }

    fn window_rank(
        &mut self,
        relation: Relation,
        rank: PendingRank,
        rank_start: u64,
        rank_end: u64,
    ) -> Result<Relation> {
        let base = self.builder.node(relation.base).schema.clone();
        let number = base.len();
        let windows = self.builder.facts(relation.base).window.clone();
        let window = windows
            .and_then(|window| RankWindow::of(window, &rank.partition_by))
            .ok_or_else(|| without_window(&rank))?;
        let read = |part: &Expression| part.columns().contains(&number);
        let output_rank =
            relation.columns.iter().flatten().any(read) || relation.condition.iter().any(read);
        let mut needed: Vec<usize> = relation
            .columns
            .iter()
            .flatten()
            .chain(&relation.condition)
            .flat_map(Expression::columns)
            .filter(|column| *column < number)
            .chain(rank.partition_by.iter().copied())
            .chain(rank.order_by.iter().map(|key| key.column))
            .collect();
        needed.sort_unstable();
        needed.dedup();
        let input = Relation {
            base: relation.base,
            schema: base.project(&needed),
            columns: needed
                .iter()
                .map(|column| Some(column_of(&base, *column)))
                .collect(),
            condition: None,
            pending: Pending::Nothing,
        };
        let packed = input.pack(&mut self.builder)?;
        let at = |column: usize| {
            packed.at(needed
                .binary_search(&column)
                .expect("a column that is read"))
        };
        let partition_by: Vec<usize> = window.others.iter().map(|column| at(*column)).collect();
        let below = self.builder.distribute(packed.node, &partition_by);
        let mut schema = self.builder.node(below).schema.clone();
        let width = schema.len();
        let deduplicates = rank_start == 1 && rank_end == 1 && !output_rank;
        let by_time = window.properties.time_columns.clone();
        let kind = match &rank.order_by[..] {
            [key] if deduplicates && by_time.contains(&key.column) => {
                ExecNodeKind::WindowDeduplicate(WindowDeduplicateNode {
                    window: window.properties.window,
                    window_start: at(window.start),
                    window_end: at(window.end),
                    partition_by,
                    order_column: at(key.column),
                    keep: if key.descending {
                        KeepRow::Last
                    } else {
                        KeepRow::First
                    },
                })
            }
            order => ExecNodeKind::WindowRank(WindowRankNode {
                window: window.properties.window,
                window_start: at(window.start),
                window_end: at(window.end),
                partition_by,
                order_by: order
                    .iter()
                    .map(|key| SortKey {
                        column: at(key.column),
                        ..*key
                    })
                    .collect(),
                rank_start,
                rank_end,
                output_rank,
            }),
        };
        if output_rank {
            schema.fields.push(Field::new(
                &rank.name,
                LogicalType::not_null(TypeRoot::BigInt),
            ));
        }
        let node = self.builder.add(kind, vec![below], schema);
        let position = |column: usize| if column == number { width } else { at(column) };
        Ok(Relation {
            base: node,
            columns: relation
                .columns
                .iter()
                .map(|column| column.as_ref().map(|column| reindex(column, &position)))
                .collect(),
            condition: relation
                .condition
                .map(|condition| reindex(&condition, &position)),
            schema: relation.schema,
            pending: Pending::Nothing,
        })
    }
}

/// The window of a partition, and what else it is partitioned by.
struct RankWindow {
    properties: WindowProperties,
    start: usize,
    end: usize,
    others: Vec<usize>,
}

impl RankWindow {
    /// `None` where the partition lacks a bound.
    fn of(properties: WindowProperties, partition_by: &[usize]) -> Option<RankWindow> {
        let bound = |wanted: WindowColumn| {
            partition_by
                .iter()
                .copied()
                .find(|column| properties.of(*column) == Some(wanted))
        };
        let (start, end) = (bound(WindowColumn::Start)?, bound(WindowColumn::End)?);
        let mut others: Vec<usize> = Vec::new();
        for column in partition_by {
            if properties.of(*column).is_none() && !others.contains(column) {
                others.push(*column);
            }
        }
        Some(RankWindow {
            properties,
            start,
            end,
            others,
        })
    }
}

/// The ranks that conditions leave.
struct RankRange {
    start: i64,
    end: Option<i64>,
}

impl Default for RankRange {
    fn default() -> Self {
        RankRange {
            start: 1,
            end: None,
        }
    }
}

impl RankRange {
    /// Takes a comparison of the number with a constant; says whether it was one.
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

fn without_window(rank: &PendingRank) -> Error {
    Error::user("Top-N without a window (an updating Top-N) is not supported yet")
        .at(rank.position.0)
        .hint(
            "partition by the window: ROW_NUMBER() OVER (PARTITION BY window_start, window_end, … ORDER BY …) over the \
             rows of a window function or a window aggregation",
        )
}
