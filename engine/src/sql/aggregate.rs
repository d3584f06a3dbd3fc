//! GROUP BY with its sets, and calls of aggregate functions.

use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, GroupByExpr};

use super::binder::Binder;
use super::expression::ExpressionBinder;
use super::function_call::Call;
use super::grouping::{AggregateRequest, Grouping};
use super::legacy_window;
use super::scope::Scope;
use crate::error::{Error, Result};
use crate::expr::{CastMode, Expression, Literal, Position};
use crate::functions;
use crate::types::{Field, LogicalType, TypeRoot};

/// The most grouping sets that one GROUP BY may expand to.
const MAX_SETS: usize = 4096;

impl ExpressionBinder<'_> {
    /// Collects an aggregate and answers with the column of its result.
    pub(super) fn bind_aggregate(&mut self, call: &Call) -> Result<Expression> {
        if self.grouping.is_none() {
            return Err(Error::user(format!(
                "the aggregate function {} is not allowed in {}",
                call.name, self.clause
            ))
            .at(call.place)
            .hint("conditions on aggregates go to HAVING, or to WHERE around a subquery"));
        }
        let mut inner = ExpressionBinder::plain(self.binder, self.scope, "an aggregate function");
        let arguments = inner.bind_aggregate_arguments(call)?;
        let filter = call
            .filter
            .map(|filter| inner.bind_condition(filter))
            .transpose()?;
        let types: Vec<LogicalType> = arguments
            .iter()
            .map(|argument| argument.logical_type().clone())
            .collect();
        let bound = functions::bind_aggregate(&call.name, &types, call.distinct, call.place)?;
        let arguments = arguments
            .into_iter()
            .zip(&bound.argument_types)
            .map(|(argument, target)| cast_argument(argument, target, call))
            .collect::<Result<Vec<_>>>()?;
        let request = AggregateRequest {
            function: bound.function,
            arguments,
            distinct: call.distinct,
            filter,
            logical_type: bound.logical_type,
        };
        let grouping = self.grouping.as_deref_mut().expect("checked above");
        Ok(grouping.aggregate(request))
    }

    pub(super) fn bind_aggregate_arguments(&mut self, call: &Call) -> Result<Vec<Expression>> {
        let star = matches!(
            call.arguments,
            [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]
        );
        if star && call.name == "COUNT" {
            if call.distinct {
                return Err(Error::user("COUNT(DISTINCT *) does not exist")
                    .at(call.place)
                    .hint("name the columns: COUNT(DISTINCT a, b)"));
            }
            return Ok(vec![]);
        }
        if call.arguments.is_empty() {
            return Err(Error::user(format!("{} needs an argument", call.name)).at(call.place));
        }
        self.bind_arguments(call)
    }
}

pub(super) fn cast_argument(
    argument: Expression,
    target: &LogicalType,
    call: &Call,
) -> Result<Expression> {
    if argument.logical_type().root == target.root {
        return Ok(argument);
    }
    functions::bind_cast(argument, target.clone(), CastMode::Fail, call.place)
}

/// `GROUPING(a)` and `GROUPING_ID(a, b)`: the bits of the arguments out of `$e`.
pub(super) fn bind_grouping_id(binder: &mut ExpressionBinder, call: &Call) -> Result<Expression> {
    let Some(grouping) = binder.grouping.as_deref() else {
        return Err(
            Error::user(format!("{} is not allowed in {}", call.name, binder.clause))
                .at(call.place)
                .hint("it belongs to a query with GROUP BY"),
        );
    };
    if call.arguments.is_empty() || call.distinct || call.filter.is_some() {
        return Err(Error::user(format!("{} takes grouping columns", call.name)).at(call.place));
    }
    let mut result: Option<Expression> = None;
    for argument in call.arguments {
        let expr = binder.plain_argument(call, argument)?;
        let input =
            ExpressionBinder::plain(binder.binder, binder.scope, binder.clause).bind(expr)?;
        let position = grouping.position_of(&input).ok_or_else(|| {
            Error::user(format!(
                "the argument {input} of {} is not in GROUP BY",
                call.name
            ))
            .at(binder.place(expr))
        })?;
        let bit = grouping_bit(grouping, position, call)?;
        result = Some(match result {
            None => bit,
            Some(bits) => {
                let doubled = functions::bind_scalar("*", vec![bits, bigint(2)], call.place)?;
                functions::bind_scalar("+", vec![doubled, bit], call.place)?
            }
        });
    }
    Ok(result.expect("there is an argument"))
}

/// 1 where the grouping column is aggregated away, else 0.
fn grouping_bit(grouping: &Grouping, position: usize, call: &Call) -> Result<Expression> {
    if !grouping.has_several_sets() {
        return Ok(bigint(0));
    }
    let weight = 1i64 << (grouping.len() - 1 - position);
    let shifted = functions::bind_scalar(
        "/",
        vec![grouping.grouping_id(), bigint(weight)],
        call.place,
    )?;
    functions::bind_scalar("%", vec![shifted, bigint(2)], call.place)
}

fn bigint(value: i64) -> Expression {
    Expression::literal(
        Literal::Integer(value),
        LogicalType::not_null(TypeRoot::BigInt),
    )
}

impl Binder<'_> {
    /// GROUP BY over the columns of a scope. Without a clause: one group of all rows.
    pub(super) fn bind_group_by(&self, group_by: &GroupByExpr, scope: &Scope) -> Result<Grouping> {
        let (items, modifiers) = match group_by {
            GroupByExpr::All(_) => return Err(Error::unsupported("GROUP BY ALL")),
            GroupByExpr::Expressions(items, modifiers) => (items, modifiers),
        };
        if let Some(modifier) = modifiers.first() {
            let error = Error::unsupported(format!("GROUP BY … {modifier}"));
            return Err(match items.first() {
                Some(item) => error.at(self.place(item)),
                None => error,
            });
        }
        let fields: Vec<Field> = scope
            .columns
            .iter()
            .map(|column| column.field.clone())
            .collect();
        let mut sets = GroupingSets::new(self, scope);
        for item in items {
            sets.add(item)?;
        }
        let position = match items.first() {
            Some(item) => self.position(item),
            None => Position(None),
        };
        if sets.legacy.is_some() && sets.sets.len() > 1 {
            return Err(
                Error::unsupported("GROUPING SETS together with a legacy group window")
                    .at(position.0),
            );
        }
        Ok(Grouping::new(
            sets.expressions,
            sets.sets,
            sets.legacy,
            &fields,
            position,
        ))
    }
}

/// Collects the items of GROUP BY; each item multiplies the sets so far.
struct GroupingSets<'a> {
    binder: &'a Binder<'a>,
    scope: &'a Scope,
    expressions: Vec<Expression>,
    sets: Vec<Vec<usize>>,
    legacy: Option<super::grouping::LegacyGroup>,
}

impl<'a> GroupingSets<'a> {
    fn new(binder: &'a Binder<'a>, scope: &'a Scope) -> Self {
        GroupingSets {
            binder,
            scope,
            expressions: vec![],
            sets: vec![vec![]],
            legacy: None,
        }
    }

    fn add(&mut self, item: &Expr) -> Result<()> {
        match item {
            Expr::Nested(inner) => return self.add(inner),
            Expr::Function(function) if legacy_window::is_group_window(function) => {
                if self.legacy.is_some() {
                    return Err(
                        Error::user("GROUP BY has two group windows").at(self.binder.place(item))
                    );
                }
                self.legacy = Some(legacy_window::bind_group_window(
                    self.binder,
                    self.scope,
                    function,
                )?);
                return Ok(());
            }
            _ => {}
        }
        let alternatives = match item {
            Expr::GroupingSets(sets) => self.bind_sets(sets)?,
            Expr::Rollup(columns) => rollup(&self.bind_sets(columns)?),
            Expr::Cube(columns) => {
                if columns.len() > 12 {
                    return Err(
                        Error::user("CUBE of more than 12 columns has too many sets")
                            .at(self.binder.place(item)),
                    );
                }
                cube(&self.bind_sets(columns)?)
            }
            Expr::Tuple(parts) => vec![self.bind_set(parts)?],
            single => vec![vec![self.bind_one(single)?]],
        };
        if alternatives.len() * self.sets.len() > MAX_SETS {
            return Err(
                Error::user(format!("GROUP BY has more than {MAX_SETS} grouping sets"))
                    .at(self.binder.place(item)),
            );
        }
        self.sets = self
            .sets
            .iter()
            .flat_map(|set| alternatives.iter().map(|more| union(set, more)))
            .collect();
        Ok(())
    }

    fn bind_sets(&mut self, sets: &[Vec<Expr>]) -> Result<Vec<Vec<usize>>> {
        sets.iter().map(|set| self.bind_set(set)).collect()
    }

    fn bind_set(&mut self, set: &[Expr]) -> Result<Vec<usize>> {
        set.iter().map(|expr| self.bind_one(expr)).collect()
    }

    fn bind_one(&mut self, expr: &Expr) -> Result<usize> {
        let mut binder = ExpressionBinder::plain(self.binder, self.scope, "GROUP BY");
        let bound = binder.bind(expr)?;
        if matches!(bound, Expression::Literal { .. }) {
            return Err(
                Error::user(format!("GROUP BY {bound} groups by a constant"))
                    .at(self.binder.place(expr))
                    .hint(
                        "the position of a column in SELECT cannot be used here: write the column",
                    ),
            );
        }
        if let Some(index) = self.expressions.iter().position(|other| *other == bound) {
            return Ok(index);
        }
        self.expressions.push(bound);
        Ok(self.expressions.len() - 1)
    }
}

fn union(left: &[usize], right: &[usize]) -> Vec<usize> {
    let mut all: Vec<usize> = left.iter().chain(right).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// (a, b): {a, b}, {a}, {}.
fn rollup(columns: &[Vec<usize>]) -> Vec<Vec<usize>> {
    (0..=columns.len())
        .rev()
        .map(|length| columns[..length].concat())
        .collect()
}

/// (a, b): {a, b}, {a}, {b}, {}.
fn cube(columns: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let all = 1usize << columns.len();
    (0..all)
        .map(|left_out| {
            let kept = columns
                .iter()
                .enumerate()
                .filter(|(index, _)| left_out >> (columns.len() - 1 - index) & 1 == 0);
            kept.flat_map(|(_, set)| set.clone()).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rollup_and_cube_expand_to_sets() {
        let columns = [vec![0], vec![1]];
        assert_eq!(rollup(&columns), [vec![0, 1], vec![0], vec![]]);
        assert_eq!(cube(&columns), [vec![0, 1], vec![0], vec![1], vec![]]);
        assert_eq!(union(&[2, 0], &[0, 1]), [0, 1, 2]);
    }
}
