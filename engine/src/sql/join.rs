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

/// The plan of a join; `scope` has the columns of both sides, which keep their time attributes where the join keeps time.
pub(super) fn join(
    left: Relation,
    right: Relation,
    mut scope: Scope,
    kind: JoinKind,
    condition: Expression,
    as_of: Option<usize>,
    position: Position,
) -> Relation {
    let plan = LogicalPlan::Join(Join {
        left: Box::new(left.plan),
        right: Box::new(right.plan),
        kind,
        condition,
        as_of,
        state_ttl_ms: [None; 2],
        lookup_hint: None,
        multi_join: false,
        position,
    });
    let schema = plan.schema();
    scope.columns.truncate(schema.len());
    for (column, field) in scope.columns.iter_mut().zip(&schema.fields) {
        column.field.logical_type = field.logical_type.clone();
        column.field.time_attribute = field.time_attribute;
    }
    Relation { plan, scope }
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
