//! Joins: INNER, LEFT, RIGHT, FULL and CROSS with ON or USING, and UNNEST on the right side.

use sqlparser::ast::{
    Expr, Ident, Join as AstJoin, JoinConstraint, JoinOperator, TableFactor, Value, ValueWithSpan,
};

use super::binder::{Binder, Environment};
use super::expression::ExpressionBinder;
use super::scope::{MergedColumn, Relation, Scope};
use super::suggestion;
use crate::error::{Error, Result};
use crate::expr::{Expression, Position};
use crate::functions;
use crate::plan::logical::{Join, JoinKind, LogicalPlan};

impl Binder<'_> {
    pub(super) fn bind_join(
        &self,
        left: Relation,
        join: &AstJoin,
        environment: &Environment,
    ) -> Result<Relation> {
        let AstJoin {
            relation,
            global,
            join_operator,
        } = join;
        if *global {
            return Err(self.unsupported("GLOBAL JOIN", relation));
        }
        let (kind, constraint) = match join_operator {
            JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => {
                (JoinKind::Inner, constraint)
            }
            JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => {
                (JoinKind::Left, constraint)
            }
            JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
                (JoinKind::Right, constraint)
            }
            JoinOperator::FullOuter(constraint) => (JoinKind::Full, constraint),
            JoinOperator::CrossJoin(constraint) => {
                if *constraint != JoinConstraint::None {
                    return Err(Error::user("CROSS JOIN takes no condition")
                        .at(self.place(relation))
                        .hint("write JOIN … ON"));
                }
                return match self.as_unnest(relation)? {
                    Some(unnest) => self.bind_unnest(left, &unnest, false),
                    None => self.bind_cross_join(left, relation, environment),
                };
            }
            other => {
                return Err(self.unsupported(format!("{} in FROM", name_of(other)), relation));
            }
        };
        if let Some(unnest) = self.as_unnest(relation)? {
            return self.bind_unnest_join(left, &unnest, kind, constraint);
        }
        let (right, as_of) = self.bind_right(&left, relation, environment)?;
        self.bind_join_of(
            left,
            right,
            kind,
            constraint,
            as_of,
            self.position(relation),
        )
    }

    /// `[LEFT] JOIN UNNEST(…) ON TRUE`.
    fn bind_unnest_join(
        &self,
        left: Relation,
        unnest: &super::unnest::UnnestCall,
        kind: JoinKind,
        constraint: &JoinConstraint,
    ) -> Result<Relation> {
        let on_true = matches!(
            constraint,
            JoinConstraint::On(Expr::Value(ValueWithSpan {
                value: Value::Boolean(true),
                span: _,
            }))
        );
        if !on_true {
            return Err(
                Error::user("a join with UNNEST takes no condition but ON TRUE")
                    .at(unnest.place)
                    .hint("put the condition into WHERE"),
            );
        }
        match kind {
            JoinKind::Inner => self.bind_unnest(left, unnest, false),
            JoinKind::Left => self.bind_unnest(left, unnest, true),
            _ => Err(Error::unsupported("RIGHT and FULL JOIN with UNNEST").at(unnest.place)),
        }
    }

    /// CROSS JOIN, or a comma.
    pub(super) fn bind_cross_join(
        &self,
        left: Relation,
        factor: &TableFactor,
        environment: &Environment,
    ) -> Result<Relation> {
        let (right, as_of) = self.bind_right(&left, factor, environment)?;
        let position = self.position(factor);
        let scope = self.joined_scope(&left.scope, &right.scope, position)?;
        let condition = Expression::always_true();
        Ok(join(
            left,
            right,
            scope,
            JoinKind::Inner,
            condition,
            as_of,
            position,
        ))
    }

    fn bind_join_of(
        &self,
        left: Relation,
        right: Relation,
        kind: JoinKind,
        constraint: &JoinConstraint,
        as_of: Option<usize>,
        position: Position,
    ) -> Result<Relation> {
        let mut scope = self.joined_scope(&left.scope, &right.scope, position)?;
        let condition = match constraint {
            JoinConstraint::On(expr) => {
                ExpressionBinder::plain(self, &scope, "ON").bind_condition(expr)?
            }
            JoinConstraint::Using(names) => {
                let names = names
                    .iter()
                    .map(|name| match &self.name_parts(name)?[..] {
                        [single] => Ok(single.clone()),
                        _ => Err(
                            Error::user(format!("USING takes bare column names, not {name}"))
                                .at(self.place(name)),
                        ),
                    })
                    .collect::<Result<Vec<Ident>>>()?;
                self.bind_using(&left.scope, &right.scope, &mut scope, kind, &names)?
            }
            JoinConstraint::Natural => {
                return Err(Error::unsupported("NATURAL JOIN")
                    .at(position.0)
                    .hint("name the columns: JOIN … USING (a, b)"));
            }
            JoinConstraint::None => {
                return Err(Error::user("the join has no condition")
                    .at(position.0)
                    .hint("write ON condition, USING (columns), or CROSS JOIN"));
            }
        };
        Ok(join(left, right, scope, kind, condition, as_of, position))
    }

    /// Both sides' columns. Two tables of one name cannot be told apart.
    pub(super) fn joined_scope(
        &self,
        left: &Scope,
        right: &Scope,
        position: Position,
    ) -> Result<Scope> {
        if let Some(name) = right.tables().into_iter().find(|name| left.has_table(name)) {
            return Err(
                Error::user(format!("the table name \"{name}\" stands twice in FROM"))
                    .at(position.0)
                    .hint(format!("give one of them an alias: … AS {name}2")),
            );
        }
        Ok(Scope::join(left, right))
    }

    fn bind_using(
        &self,
        left: &Scope,
        right: &Scope,
        scope: &mut Scope,
        kind: JoinKind,
        names: &[Ident],
    ) -> Result<Expression> {
        let mut condition: Option<Expression> = None;
        for name in names {
            let place = self.place(name);
            let find = |side: &Scope, which: &str| {
                let parts = std::slice::from_ref(name);
                side.resolve(parts, place)
                    .map(|(column, _)| column)
                    .map_err(|error| {
                        if error.message().contains("ambiguous") {
                            return error;
                        }
                        let columns = side.columns.iter().map(|column| column.field.name.as_str());
                        Error::user(format!(
                            "column \"{}\" of USING is not on the {which} side",
                            name.value
                        ))
                        .at(place)
                        .hint(suggestion::hint(
                            &name.value,
                            "columns there",
                            columns,
                        ))
                    })
            };
            let shift = left.columns.len() as isize;
            let from_left = find(left, "left")?;
            let from_right = super::scope::shifted(find(right, "right")?, shift);
            let equal =
                functions::bind_scalar("=", vec![from_left.clone(), from_right.clone()], place)?;
            condition = Some(match condition {
                None => equal,
                Some(before) => functions::bind_scalar("AND", vec![before, equal], place)?,
            });
            self.merge(scope, kind, name, from_left, from_right)?;
        }
        Ok(condition.unwrap_or_else(Expression::always_true))
    }

    /// The value of a column of USING: from the side that is always there, or from either.
    fn merge(
        &self,
        scope: &mut Scope,
        kind: JoinKind,
        name: &Ident,
        left: Expression,
        right: Expression,
    ) -> Result<()> {
        let mut columns = left.columns();
        columns.extend(right.columns());
        let expression = match kind {
            JoinKind::Right => right,
            JoinKind::Full => {
                let sides = [left, right].map(with_nullable);
                functions::bind_scalar("COALESCE", sides.to_vec(), self.place(name))?
            }
            _ => left,
        };
        scope
            .merged
            .retain(|merged| !merged.columns.iter().any(|column| columns.contains(column)));
        scope.merged.push(MergedColumn {
            name: name.value.clone(),
            expression,
            columns,
        });
        Ok(())
    }
}

fn with_nullable(expression: Expression) -> Expression {
    match expression {
        Expression::Column {
            index,
            name,
            logical_type,
        } => Expression::column(index, name, logical_type.with_nullable(true)),
        other => other,
    }
}

/// The plan of a join; `scope` has the columns of both sides. A window join keeps the time attributes of both sides, one with
/// FOR SYSTEM_TIME AS OF those of the left side, any other none.
pub(super) fn join(
    left: Relation,
    right: Relation,
    mut scope: Scope,
    kind: JoinKind,
    condition: Expression,
    as_of: Option<usize>,
    position: Position,
) -> Relation {
    let keeping_time = if is_window_join(&left.plan, &right.plan, &condition) {
        usize::MAX
    } else {
        as_of.map_or(0, |_| left.scope.columns.len())
    };
    let plan = LogicalPlan::Join(Join {
        left: Box::new(left.plan),
        right: Box::new(right.plan),
        kind,
        condition,
        as_of,
        state_ttl_ms: [None; 2],
        position,
    });
    let schema = plan.schema();
    scope.columns.truncate(schema.len());
    let columns = scope.columns.iter_mut().zip(&schema.fields);
    for (index, (column, field)) in columns.enumerate() {
        column.field.logical_type = field.logical_type.clone();
        if index >= keeping_time {
            column.field.time_attribute = None;
        }
    }
    Relation { plan, scope }
}

/// Whether both sides are windowed and the condition asks for equal window_start and window_end.
pub(super) fn is_window_join(
    left: &LogicalPlan,
    right: &LogicalPlan,
    condition: &Expression,
) -> bool {
    let (Some(left_bounds), Some(right_bounds)) = (window_bounds(left), window_bounds(right))
    else {
        return false;
    };
    let shift = left.schema().len();
    let equal = |left: usize, right: usize| equates(condition, left, right + shift);
    equal(left_bounds.0, right_bounds.0) && equal(left_bounds.1, right_bounds.1)
}

/// Whether two columns are equal wherever the condition holds.
fn equates(condition: &Expression, left: usize, right: usize) -> bool {
    let Expression::Call {
        function,
        arguments,
        ..
    } = condition
    else {
        return false;
    };
    match function.as_str() {
        "AND" => arguments
            .iter()
            .any(|argument| equates(argument, left, right)),
        "=" => {
            let columns: Vec<usize> = arguments
                .iter()
                .filter_map(|argument| match argument {
                    Expression::Column { index, .. } => Some(*index),
                    _ => None,
                })
                .collect();
            columns == [left, right] || columns == [right, left]
        }
        _ => false,
    }
}

/// The columns which are window_start and window_end of a window function below.
pub(super) fn window_bounds(plan: &LogicalPlan) -> Option<(usize, usize)> {
    match plan {
        LogicalPlan::Match(_) => None,
        LogicalPlan::WindowTableFunction(function) => {
            let columns = function.input.schema().len();
            Some((columns, columns + 1))
        }
        LogicalPlan::Filter(filter) => window_bounds(&filter.input),
        LogicalPlan::Unnest(unnest) => window_bounds(&unnest.input),
        LogicalPlan::RowNumber(number) => window_bounds(&number.input),
        LogicalPlan::Project(project) => {
            let bounds = window_bounds(&project.input)?;
            let place_of = |wanted: usize| {
                project.expressions.iter().position(|expression| {
                    matches!(expression, Expression::Column { index, .. } if *index == wanted)
                })
            };
            Some((place_of(bounds.0)?, place_of(bounds.1)?))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let bounds = window_bounds(&aggregate.input)?;
            let place_of = |wanted: usize| {
                aggregate
                    .grouping
                    .iter()
                    .position(|column| *column == wanted)
            };
            Some((place_of(bounds.0)?, place_of(bounds.1)?))
        }
        LogicalPlan::Join(join) => is_window_join(&join.left, &join.right, &join.condition)
            .then(|| window_bounds(&join.left))?,
        LogicalPlan::Over(over) => window_bounds(&over.input),
        LogicalPlan::Sort(sort) => window_bounds(&sort.input),
        LogicalPlan::Scan(_)
        | LogicalPlan::Values(_)
        | LogicalPlan::Union(_)
        | LogicalPlan::SetOperation(_) => None,
    }
}

fn name_of(operator: &JoinOperator) -> &'static str {
    match operator {
        JoinOperator::Semi(_) | JoinOperator::LeftSemi(_) | JoinOperator::RightSemi(_) => {
            "SEMI JOIN (write WHERE EXISTS or IN)"
        }
        JoinOperator::Anti(_) | JoinOperator::LeftAnti(_) | JoinOperator::RightAnti(_) => {
            "ANTI JOIN (write WHERE NOT EXISTS)"
        }
        JoinOperator::CrossApply | JoinOperator::OuterApply => "APPLY",
        JoinOperator::AsOf { .. } => "ASOF JOIN",
        JoinOperator::StraightJoin(_) => "STRAIGHT_JOIN",
        JoinOperator::ArrayJoin | JoinOperator::LeftArrayJoin | JoinOperator::InnerArrayJoin => {
            "ARRAY JOIN"
        }
        _ => "this join",
    }
}
