//! Subqueries as values: each is joined to the rows around it, which then have its value in a hidden column.
//!
//! A subquery by itself gives one row at most and is joined without a condition. One that refers to the query around it must be an
//! aggregate whose references are equalities: it is grouped by its side of them and joined on them, and a row without a group
//! sees what the aggregate of no rows is.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, Visit, Visitor,
};

use super::binder::{Binder, Environment};
use super::expression::ExpressionBinder;
use super::join::join;
use super::scope::{Relation, Scope, shifted};
use super::select::has_aggregate;
use super::subquery::{all_of, conjuncts, quantified};
use crate::error::{Error, Result};
use crate::expr::{Expression, Literal};
use crate::functions;
use crate::plan::logical::{JoinKind, LogicalPlan};
use crate::types::{LogicalType, TypeRoot};

impl ExpressionBinder<'_> {
    /// The column of a subquery that has been joined.
    pub(super) fn bind_scalar_subquery(&self, query: &Query) -> Result<Expression> {
        if self.grouping.is_some() {
            return Err(self
                .binder
                .not_yet("a subquery as a value in a query with GROUP BY", query)
                .hint(
                    "put the grouped query into FROM and the subquery into the query around it",
                ));
        }
        self.scope.scalar(query).ok_or_else(|| {
            self.binder
                .not_yet(format!("a subquery as a value in {}", self.clause), query)
                .hint("it may stand in SELECT and WHERE; elsewhere join with the subquery in FROM")
        })
    }
}

impl Binder<'_> {
    /// The rows with the values of the subqueries in `exprs` in hidden columns.
    pub(super) fn join_scalars(
        &self,
        mut relation: Relation,
        exprs: &[&Expr],
        environment: &Environment,
    ) -> Result<Relation> {
        let mut found = Subqueries::default();
        for expr in exprs {
            let _: ControlFlow<()> = expr.visit(&mut found);
        }
        for query in found.queries {
            if relation.scope.scalar(&query).is_none() {
                relation = self.join_scalar(relation, query, environment)?;
            }
        }
        Ok(relation)
    }

    fn join_scalar(
        &self,
        left: Relation,
        query: Query,
        environment: &Environment,
    ) -> Result<Relation> {
        let position = self.position(&query);
        let columns = left.scope.columns.len();
        let correlated = match aggregate_select(&query) {
            Some(select) => self.decorrelated(select, &left.scope, environment)?,
            None => None,
        };
        let Decorrelated {
            right,
            keys,
            of_no_rows,
        } = match correlated {
            Some(correlated) => correlated,
            None => self.uncorrelated(&query, environment)?,
        };
        let value_at = keys.len();
        let mut conditions = Vec::new();
        for (key, outer) in keys.into_iter().enumerate() {
            let own = shifted(right.scope.column(key), columns as isize);
            conditions.push(functions::bind_scalar("=", vec![outer, own], position.0)?);
        }
        let on = all_of(conditions, position.0)?.unwrap_or_else(Expression::always_true);
        let mut scope = Scope::join(&left.scope, &right.scope);
        let hidden = scope.columns.iter_mut().skip(columns);
        hidden.for_each(|column| column.hidden = true);
        let mut relation = join_left(left, right, scope, on, position);
        let mut value = relation.scope.column(columns + value_at);
        if let Some(literal) = of_no_rows {
            value = functions::bind_scalar("COALESCE", vec![value, literal], position.0)?;
        }
        relation.scope.scalars.push((query, value));
        Ok(relation)
    }

    fn uncorrelated(&self, query: &Query, environment: &Environment) -> Result<Decorrelated> {
        let plan = self.bind_query(query, environment).map_err(|error| {
            error.hint("a subquery as a value may refer to the query around it only in equalities of its WHERE, and only if it is an aggregate without GROUP BY")
        })?;
        let columns = plan.schema().len();
        if columns != 1 {
            return Err(Error::user(format!(
                "a subquery as a value has {columns} columns instead of one"
            ))
            .at(self.place(query)));
        }
        if !is_single_row(&plan) {
            return Err(self
                .not_yet("a subquery as a value that may have several rows", query)
                .hint("aggregate it: MAX(x), or COUNT(*)"));
        }
        Ok(Decorrelated {
            right: Relation::new(plan, None),
            keys: vec![],
            of_no_rows: None,
        })
    }

    /// An aggregate that refers to the query around it, grouped by what its references equal; `None` where it has none.
    fn decorrelated(
        &self,
        select: &Select,
        outer: &Scope,
        environment: &Environment,
    ) -> Result<Option<Decorrelated>> {
        let inner = self.bind_from(&select.from, environment)?;
        let scope = Scope::correlated(outer, &inner.scope);
        let shift = outer.columns.len();
        let refers = |expr: &Expr| -> Result<(bool, bool)> {
            let bound = ExpressionBinder::plain(self, &scope, "WHERE").bind(expr)?;
            let columns = bound.columns();
            Ok((
                columns.iter().any(|column| *column < shift),
                columns.iter().any(|column| *column >= shift),
            ))
        };
        let (mut own, mut keys, mut groups) = (Vec::new(), Vec::new(), Vec::new());
        for expr in select.selection.iter().flat_map(conjuncts) {
            if quantified(expr).is_some() || has_subquery(expr) || !refers(expr)?.0 {
                own.push(expr.clone());
                continue;
            }
            let Some((a, b)) = sides(expr) else {
                return Err(self.not_an_equality(expr));
            };
            let (of_outer, of_inner) = match (refers(a)?, refers(b)?) {
                ((true, false), (false, true)) => (a, b),
                ((false, true), (true, false)) => (b, a),
                _ => return Err(self.not_an_equality(expr)),
            };
            keys.push(ExpressionBinder::plain(self, outer, "WHERE").bind(of_outer)?);
            groups.push(of_inner.clone());
        }
        if keys.is_empty() {
            return Ok(None);
        }
        let of_no_rows = self.of_no_rows(select)?;
        let grouped = grouped(select, own, groups);
        let plan = self.bind_select(&grouped, environment)?;
        Ok(Some(Decorrelated {
            right: Relation::new(plan, None),
            keys,
            of_no_rows,
        }))
    }

    fn not_an_equality(&self, expr: &Expr) -> Error {
        self.not_yet(
            "a reference of an aggregate subquery to the query around it that is no equality",
            expr,
        )
        .hint("write it as inner column = outer column, or join with the subquery in FROM")
    }

    /// What the aggregate of no rows is where that is not NULL: a COUNT is 0.
    fn of_no_rows(&self, select: &Select) -> Result<Option<Expression>> {
        let Some(item) = select.projection.first().and_then(item_value) else {
            return Ok(None);
        };
        if !calls_count(item) {
            return Ok(None);
        }
        match item {
            Expr::Function(_) => Ok(Some(Expression::literal(
                Literal::Integer(0),
                LogicalType::not_null(TypeRoot::BigInt),
            ))),
            _ => Err(self
                .not_yet(
                    "an expression over COUNT in a subquery that refers to the query around it",
                    item,
                )
                .hint("let the subquery give COUNT alone and compute around it")),
        }
    }
}

/// A subquery ready to be joined.
struct Decorrelated {
    /// Its keys, then its value.
    right: Relation,
    /// What the keys equal, over the outer columns.
    keys: Vec<Expression>,
    /// The value where no row is found, if that is not NULL.
    of_no_rows: Option<Expression>,
}

fn join_left(
    left: Relation,
    right: Relation,
    scope: Scope,
    on: Expression,
    position: crate::expr::Position,
) -> Relation {
    join(left, right, scope, JoinKind::Left, on, None, position)
}

/// The subqueries that stand for values, those inside other subqueries aside.
#[derive(Default)]
struct Subqueries {
    queries: Vec<Query>,
    depth: usize,
}

impl Visitor for Subqueries {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let (Expr::Subquery(query), 0) = (expr, self.depth) {
            self.queries.push(query.as_ref().clone());
        }
        ControlFlow::Continue(())
    }
}

fn has_subquery(expr: &Expr) -> bool {
    let mut found = Subqueries::default();
    let _: ControlFlow<()> = expr.visit(&mut found);
    !found.queries.is_empty()
}

/// The SELECT of a subquery that aggregates all rows it keeps: one item, no GROUP BY, nothing behind it.
fn aggregate_select(query: &Query) -> Option<&Select> {
    let plain_end = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none();
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let without_group = matches!(&select.group_by, GroupByExpr::Expressions(exprs, modifiers)
        if exprs.is_empty() && modifiers.is_empty());
    let [item] = &select.projection[..] else {
        return None;
    };
    let aggregates = item_value(item).is_some_and(has_aggregate);
    let plain = plain_end && without_group && select.having.is_none() && select.distinct.is_none();
    (plain && aggregates).then_some(select)
}

fn item_value(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ } => Some(expr),
        _ => None,
    }
}

/// The same SELECT with other conditions, grouped by `groups`, which come first.
fn grouped(select: &Select, own: Vec<Expr>, groups: Vec<Expr>) -> Select {
    let mut result = select.clone();
    let named = |(index, expr): (usize, &Expr)| SelectItem::ExprWithAlias {
        expr: expr.clone(),
        alias: Ident::with_quote('`', format!("$key{index}")),
    };
    let keys = groups.iter().enumerate().map(named);
    result.projection = keys.chain(select.projection.iter().cloned()).collect();
    result.selection = own.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    });
    result.group_by = GroupByExpr::Expressions(groups, vec![]);
    result
}

/// The sides of an equality.
fn sides(expr: &Expr) -> Option<(&Expr, &Expr)> {
    match expr {
        Expr::Nested(inner) => sides(inner),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Eq,
            right,
        } => Some((left, right)),
        _ => None,
    }
}

fn calls_count(expr: &Expr) -> bool {
    struct Counts(bool);
    impl Visitor for Counts {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::Function(function) = expr {
                let name = function.name.to_string().to_uppercase();
                self.0 |= matches!(name.as_str(), "COUNT" | "REGR_COUNT" | "SUM0");
            }
            ControlFlow::Continue(())
        }
    }
    let mut counts = Counts(false);
    let _: ControlFlow<()> = expr.visit(&mut counts);
    counts.0
}

/// Whether a query has one row at most at any time.
fn is_single_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.grouping.is_empty() && aggregate.legacy_window.is_none()
        }
        LogicalPlan::Values(values) => values.rows.len() <= 1,
        LogicalPlan::Sort(sort) => {
            sort.fetch.is_some_and(|rows| rows <= 1) || is_single_row(&sort.input)
        }
        LogicalPlan::Project(project) => is_single_row(&project.input),
        LogicalPlan::Filter(filter) => is_single_row(&filter.input),
        _ => false,
    }
}
