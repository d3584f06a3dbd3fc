//! What a query may end with: ORDER BY, OFFSET, LIMIT and FETCH.
//!
//! ORDER BY names a column of the result by its name or number, or is an expression over what FROM gives (for UNION and the
//! like: over the result); then its value becomes a column behind those of the result, which goes again when the rows are sorted.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Fetch, LimitClause, Offset, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query,
    SetExpr, Value, visit_expressions_mut,
};

use super::binder::{Binder, Environment};
use super::expression::ExpressionBinder;
use super::projection::{columns_of, project};
use super::scope::Scope;
use crate::error::{Error, Result};
use crate::expr::Position;
use crate::plan::logical::{LogicalPlan, Sort};
use crate::types::{Schema, SortKey};

/// Whether the order of a query's rows is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueryPlace {
    /// A statement's own query: its rows go out in order.
    Statement,
    /// Inside another one, where ORDER BY matters with LIMIT only.
    Inside,
}

/// What an item of ORDER BY orders by.
pub(super) enum OrderItem {
    /// A column of the result.
    Column(usize),
    /// A value of its own.
    Expression(Box<Expr>),
}

/// A plan with the values of ORDER BY behind its columns, the sort keys, and how many columns it has without those.
pub(super) type SortedPlan = (LogicalPlan, Vec<SortKey>, usize);

/// OFFSET and LIMIT.
#[derive(Debug, Clone, Copy, Default)]
struct Limits {
    offset: u64,
    fetch: Option<u64>,
}

impl Binder<'_> {
    /// The body of a query, sorted and limited as its end says.
    pub(super) fn bind_sorted(
        &self,
        query: &Query,
        environment: &Environment,
        place: QueryPlace,
    ) -> Result<LogicalPlan> {
        let order = self.order_items(query.order_by.as_ref())?;
        let sorted = self.bind_sorted_body(query.body.as_ref(), environment, order)?;
        self.sort_and_limit(query, sorted, place)
    }

    fn bind_sorted_body(
        &self,
        body: &SetExpr,
        environment: &Environment,
        order: &[OrderByExpr],
    ) -> Result<SortedPlan> {
        match body {
            SetExpr::Select(select) => self.bind_sorted_select(select, environment, order),
            body => {
                let plan = self.bind_body(body, environment)?;
                self.with_sort_columns(plan, order)
            }
        }
    }

    fn sort_and_limit(
        &self,
        query: &Query,
        (plan, order_by, visible): SortedPlan,
        place: QueryPlace,
    ) -> Result<LogicalPlan> {
        let limits = self.limits(query)?;
        let is_limited = limits.fetch.is_some() || limits.offset > 0;
        let is_sorted = is_limited || (place == QueryPlace::Statement && !order_by.is_empty());
        let plan = if is_sorted {
            LogicalPlan::Sort(Sort {
                input: Box::new(plan),
                order_by,
                offset: limits.offset,
                fetch: limits.fetch,
                position: self.end_position(query),
            })
        } else {
            plan
        };
        Ok(first_columns(plan, visible))
    }

    fn end_position(&self, query: &Query) -> Position {
        match (&query.order_by, &query.limit_clause) {
            (Some(order_by), _) => self.position(order_by),
            (None, Some(limit)) => self.position(limit),
            (None, None) => self.position(query),
        }
    }

    fn order_items<'q>(&self, order_by: Option<&'q OrderBy>) -> Result<&'q [OrderByExpr]> {
        let Some(order_by) = order_by else {
            return Ok(&[]);
        };
        let OrderBy { kind, interpolate } = order_by;
        if interpolate.is_some() {
            return Err(self.unsupported("INTERPOLATE", order_by));
        }
        match kind {
            OrderByKind::Expressions(items) => Ok(items),
            OrderByKind::All(_) => Err(self.unsupported("ORDER BY ALL", order_by)),
        }
    }

    fn limits(&self, query: &Query) -> Result<Limits> {
        let mut limits = Limits::default();
        match &query.limit_clause {
            None => {}
            Some(LimitClause::LimitOffset {
                limit,
                offset,
                limit_by,
            }) => {
                if let Some(by) = limit_by.first() {
                    return Err(self.unsupported("LIMIT … BY", by));
                }
                let limit = limit.as_ref().map(|limit| self.row_count(limit));
                limits.fetch = limit.transpose()?;
                if let Some(Offset { value, rows: _ }) = offset {
                    limits.offset = self.row_count(value)?;
                }
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                limits.offset = self.row_count(offset)?;
                limits.fetch = Some(self.row_count(limit)?);
            }
        }
        if let Some(fetch) = &query.fetch {
            if limits.fetch.is_some() {
                return Err(
                    Error::user("LIMIT and FETCH say the same: leave one of them out")
                        .at(self.place(query)),
                );
            }
            limits.fetch = Some(self.fetched(fetch, query)?);
        }
        Ok(limits)
    }

    fn fetched(&self, fetch: &Fetch, query: &Query) -> Result<u64> {
        let Fetch {
            with_ties,
            percent,
            quantity,
        } = fetch;
        if *with_ties {
            return Err(self.unsupported("FETCH … WITH TIES", query));
        }
        if *percent {
            return Err(self.unsupported("FETCH … PERCENT", query));
        }
        quantity
            .as_ref()
            .map_or(Ok(1), |quantity| self.row_count(quantity))
    }

    fn row_count(&self, expr: &Expr) -> Result<u64> {
        whole_number(expr).ok_or_else(|| {
            Error::user(format!("{expr} is no number of rows"))
                .at(self.place(expr))
                .hint("OFFSET, LIMIT and FETCH take a whole number")
        })
    }

    /// What an item orders by, given the names of the result's columns, and the expressions which aliases stand for.
    pub(super) fn order_item(
        &self,
        order: &OrderByExpr,
        names: &[&str],
        aliases: &[(&str, &Expr)],
    ) -> Result<OrderItem> {
        let OrderByExpr {
            expr,
            options: _,
            with_fill,
        } = order;
        if with_fill.is_some() {
            return Err(self.unsupported("WITH FILL", expr));
        }
        if let Some(number) = whole_number(expr) {
            let column = usize::try_from(number)
                .ok()
                .and_then(|number| number.checked_sub(1));
            return column
                .filter(|column| *column < names.len())
                .map(OrderItem::Column)
                .ok_or_else(|| {
                    Error::user(format!(
                        "ORDER BY {number}: the query has the columns 1 to {}",
                        names.len()
                    ))
                    .at(self.place(expr))
                });
        }
        if let Expr::Identifier(ident) = expr {
            let name = self.name(ident)?;
            if let Some(column) = names.iter().position(|column| *column == name) {
                return Ok(OrderItem::Column(column));
            }
        }
        let mut expr = Box::new(expr.clone());
        let _ = visit_expressions_mut(expr.as_mut(), |part| {
            if let Expr::Identifier(ident) = part
                && let Some((_, meant)) = aliases.iter().find(|(alias, _)| *alias == ident.value)
            {
                *part = Expr::Nested(Box::new((*meant).clone()));
            }
            ControlFlow::<()>::Continue(())
        });
        Ok(OrderItem::Expression(expr))
    }

    /// The plan with the values of ORDER BY behind its columns, the sort keys, and how many columns the plan had.
    fn with_sort_columns(&self, plan: LogicalPlan, order: &[OrderByExpr]) -> Result<SortedPlan> {
        if order.is_empty() {
            let visible = plan.schema().len();
            return Ok((plan, vec![], visible));
        }
        let schema = plan.schema();
        let scope = Scope::of(&schema, None);
        let names: Vec<&str> = schema.names().collect();
        let mut items = columns_of(&schema);
        let mut keys = Vec::new();
        for order in order {
            let column = match self.order_item(order, &names, &[])? {
                OrderItem::Column(column) => column,
                OrderItem::Expression(expr) => {
                    let mut binder = ExpressionBinder::plain(self, &scope, "ORDER BY");
                    items.push((sort_column(items.len()), binder.bind(&expr)?));
                    items.len() - 1
                }
            };
            keys.push(sort_key(order, column));
        }
        let plan = project(plan, &schema.fields, items);
        Ok((plan, keys, schema.len()))
    }
}

/// The name of a column that is there to sort by.
pub(super) fn sort_column(index: usize) -> String {
    format!("$s{index}")
}

/// The key of an item which orders by this column; NULL is the smallest value.
pub(super) fn sort_key(order: &OrderByExpr, column: usize) -> SortKey {
    let OrderByOptions { asc, nulls_first } = order.options;
    let descending = asc == Some(false);
    SortKey {
        column,
        descending,
        nulls_first: nulls_first.unwrap_or(!descending),
    }
}

fn whole_number(expr: &Expr) -> Option<u64> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.to_string().parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// The plan without the columns behind the first ones.
pub(super) fn first_columns(plan: LogicalPlan, count: usize) -> LogicalPlan {
    let schema = plan.schema();
    if schema.len() == count {
        return plan;
    }
    let kept = Schema::new(schema.fields[..count].to_vec());
    project(plan, &schema.fields, columns_of(&kept))
}
