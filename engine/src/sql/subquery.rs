//! EXISTS and IN with subqueries in WHERE: semi and anti joins, whose condition takes in the subquery's references to the
//! query around it.

use sqlparser::ast::{BinaryOperator, Expr, Query, Select, SelectItem, SetExpr, UnaryOperator};

use super::binder::{Binder, Environment};
use super::expression::ExpressionBinder;
use super::join::join;
use super::scope::{Relation, Scope, shifted};
use crate::error::{Error, Result};
use crate::expr::Expression;
use crate::functions;
use crate::plan::logical::{Filter, JoinKind, LogicalPlan};
use crate::types::SqlPosition;

/// A condition of WHERE that asks a subquery.
pub(super) struct Quantified<'e> {
    /// `x` of `x IN (…)`.
    value: Option<&'e Expr>,
    subquery: &'e Query,
    negated: bool,
}

/// The conditions which AND joins, in their order.
pub(super) fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    let mut found = Vec::new();
    let mut open = vec![expr];
    while let Some(expr) = open.pop() {
        match expr {
            Expr::BinaryOp {
                left,
                op: BinaryOperator::And,
                right,
            } => open.extend([right.as_ref(), left.as_ref()]),
            Expr::Nested(inner) if is_and(inner) => open.push(inner),
            other => found.push(other),
        }
    }
    found
}

fn is_and(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::BinaryOp {
            op: BinaryOperator::And,
            ..
        }
    )
}

pub(super) fn quantified(expr: &Expr) -> Option<Quantified<'_>> {
    match expr {
        Expr::Nested(inner) => quantified(inner),
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr,
        } => quantified(expr).map(|inner| Quantified {
            negated: !inner.negated,
            ..inner
        }),
        Expr::Exists { subquery, negated } => Some(Quantified {
            value: None,
            subquery,
            negated: *negated,
        }),
        Expr::InSubquery {
            expr,
            subquery,
            negated,
        } => Some(Quantified {
            value: Some(expr),
            subquery,
            negated: *negated,
        }),
        _ => None,
    }
}

impl Binder<'_> {
    /// The rows which WHERE keeps.
    pub(super) fn bind_where(
        &self,
        mut relation: Relation,
        selection: Option<&Expr>,
        environment: &Environment,
    ) -> Result<Relation> {
        let Some(selection) = selection else {
            return Ok(relation);
        };
        let all = conjuncts(selection);
        if all.iter().all(|expr| quantified(expr).is_none()) {
            relation = self.join_scalars(relation, &[selection], environment)?;
            let condition = ExpressionBinder::plain(self, &relation.scope, "WHERE")
                .bind_condition(selection)?;
            return Ok(filtered(relation, Some(condition)));
        }
        // Plain conditions first, in their order: they make the joins smaller.
        let plain: Vec<&Expr> = all
            .iter()
            .copied()
            .filter(|expr| quantified(expr).is_none())
            .collect();
        relation = self.join_scalars(relation, &plain, environment)?;
        let conditions = {
            let mut binder = ExpressionBinder::plain(self, &relation.scope, "WHERE");
            plain
                .iter()
                .map(|expr| binder.bind_condition(expr))
                .collect::<Result<Vec<_>>>()?
        };
        relation = filtered(relation, all_of(conditions, self.place(selection))?);
        for expr in all {
            if let Some(condition) = quantified(expr) {
                relation = self.bind_quantified(relation, &condition, environment)?;
            }
        }
        Ok(relation)
    }

    fn bind_quantified(
        &self,
        left: Relation,
        condition: &Quantified,
        environment: &Environment,
    ) -> Result<Relation> {
        let position = self.position(condition.subquery);
        let inner = self.bind_inner(condition, &left.scope, environment)?;
        let mut conditions = Vec::new();
        if let Some(value) = condition.value {
            let place = self.place(value);
            let value = ExpressionBinder::plain(self, &left.scope, "WHERE").bind(value)?;
            let item = inner
                .item
                .ok_or_else(|| Error::internal("IN has a column to compare with"))?;
            conditions.push(membership(value, item, condition.negated, place)?);
        }
        conditions.extend(inner.correlation);
        let on = all_of(conditions, position.0)?.unwrap_or_else(Expression::always_true);
        let kind = if condition.negated {
            JoinKind::Anti
        } else {
            JoinKind::Semi
        };
        let scope = left.scope.clone();
        Ok(join(left, inner.relation, scope, kind, on, None, position))
    }

    /// The subquery as the right side of a join.
    fn bind_inner(
        &self,
        condition: &Quantified,
        outer: &Scope,
        environment: &Environment,
    ) -> Result<Inner> {
        if let Some((select, item)) = simple(condition.subquery, condition.value.is_some()) {
            return self.bind_simple(select, item, outer, environment);
        }
        let plan = self
            .bind_query(condition.subquery, environment)
            .map_err(|error| {
                error.hint("a subquery with WITH, GROUP BY, DISTINCT or UNION cannot refer to the query around it")
            })?;
        let relation = Relation::new(plan, None);
        self.check_one_column(condition, relation.scope.columns.len())?;
        let item = relation.scope.column(0);
        Ok(Inner {
            item: Some(shifted(item, outer.columns.len() as isize)),
            correlation: vec![],
            relation,
        })
    }

    fn check_one_column(&self, condition: &Quantified, columns: usize) -> Result<()> {
        if condition.value.is_none() || columns == 1 {
            return Ok(());
        }
        Err(Error::user(format!(
            "the subquery of IN has {columns} columns instead of one"
        ))
        .at(self.place(condition.subquery)))
    }

    /// `SELECT item FROM … WHERE …`: conditions on the outer query become the join's.
    fn bind_simple(
        &self,
        select: &Select,
        item: Option<&Expr>,
        outer: &Scope,
        environment: &Environment,
    ) -> Result<Inner> {
        let mut relation = self.bind_from(&select.from, environment)?;
        let shift = outer.columns.len();
        let scope = Scope::correlated(outer, &relation.scope);
        let mut own = Vec::new();
        let mut correlation = Vec::new();
        let mut nested = Vec::new();
        for expr in select.selection.iter().flat_map(conjuncts) {
            if quantified(expr).is_some() {
                nested.push(expr);
                continue;
            }
            let bound = ExpressionBinder::plain(self, &scope, "WHERE").bind_condition(expr)?;
            match bound.columns().first() {
                Some(first) if *first < shift => correlation.push(bound),
                _ => own.push(shifted(bound, -(shift as isize))),
            }
        }
        relation = filtered(relation, all_of(own, self.place(select))?);
        for expr in nested {
            if let Some(condition) = quantified(expr) {
                relation = self.bind_quantified(relation, &condition, environment)?;
            }
        }
        let item = item
            .map(|item| ExpressionBinder::plain(self, &scope, "SELECT").bind(item))
            .transpose()?;
        if item.is_none() {
            self.check_items(select, &scope)?;
        }
        Ok(Inner {
            relation,
            item,
            correlation,
        })
    }
}

impl Binder<'_> {
    /// EXISTS does not look at the items of its subquery, but they must be right.
    fn check_items(&self, select: &Select, scope: &Scope) -> Result<()> {
        for item in &select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ } =
                item
            {
                ExpressionBinder::plain(self, scope, "SELECT").bind(expr)?;
            }
        }
        Ok(())
    }
}

/// A bound subquery. Expressions are over the outer columns, then its own.
struct Inner {
    relation: Relation,
    item: Option<Expression>,
    correlation: Vec<Expression>,
}

/// The SELECT of a subquery that only filters, and for IN its single item.
fn simple(query: &Query, needs_item: bool) -> Option<(&Select, Option<&Expr>)> {
    let plain_end = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
        && query.for_clause.is_none()
        && query.settings.is_none()
        && query.format_clause.is_none()
        && query.pipe_operators.is_empty();
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    if !plain_end || !super::select::is_plain_select(select) {
        return None;
    }
    match (&select.projection[..], needs_item) {
        (_, false) => Some((select, None)),
        ([SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ }], true) => {
            Some((select, Some(expr)))
        }
        _ => None,
    }
}

/// `x = item`, and for NOT IN also where either is NULL: then `x <> item` is not TRUE.
fn membership(
    value: Expression,
    item: Expression,
    negated: bool,
    place: Option<SqlPosition>,
) -> Result<Expression> {
    let sides = [value, item];
    let mut condition = functions::bind_scalar("=", sides.to_vec(), place)?;
    if negated {
        for side in sides {
            if side.logical_type().nullable {
                let is_null = functions::bind_scalar("IS NULL", vec![side], place)?;
                condition = functions::bind_scalar("OR", vec![condition, is_null], place)?;
            }
        }
    }
    Ok(condition)
}

/// The conditions joined by AND; `None` where there is none.
pub(super) fn all_of(
    conditions: Vec<Expression>,
    place: Option<SqlPosition>,
) -> Result<Option<Expression>> {
    let mut result: Option<Expression> = None;
    for condition in conditions {
        result = Some(match result {
            None => condition,
            Some(before) => functions::bind_scalar("AND", vec![before, condition], place)?,
        });
    }
    Ok(result)
}

fn filtered(relation: Relation, condition: Option<Expression>) -> Relation {
    let Some(condition) = condition else {
        return relation;
    };
    Relation {
        plan: LogicalPlan::Filter(Filter {
            input: Box::new(relation.plan),
            condition,
        }),
        scope: relation.scope,
    }
}
