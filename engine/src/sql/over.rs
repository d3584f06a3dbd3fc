//! `ROW_NUMBER() OVER (PARTITION BY … ORDER BY …)`: collected while expressions are bound, planned below the projection.

use sqlparser::ast::{OrderByExpr, OrderByOptions, WindowSpec, WindowType};

use super::expression::ExpressionBinder;
use super::function_call::Call;
use super::projection::{columns_of, project};
use crate::error::{Error, Result};
use crate::expr::{Expression, Position};
use crate::plan::logical::{LogicalPlan, RowNumber};
use crate::types::{Field, LogicalType, Schema, SortKey, TypeRoot};

/// Columns of row numbers are referred to from here on until [`OverCalls::resolve`].
pub(super) const NUMBERS: usize = 4 << 40;

/// The calls with OVER of one SELECT.
#[derive(Debug, Default)]
pub(super) struct OverCalls {
    calls: Vec<OverCall>,
    /// The name for the next number, where a SELECT item is nothing but one.
    pub(super) next_name: Option<String>,
    /// How many columns stand before the first number, once planned.
    base: usize,
}

#[derive(Debug, PartialEq)]
struct OverCall {
    partition_by: Vec<Expression>,
    order_by: Vec<Order>,
    name: String,
    position: Position,
}

#[derive(Debug, Clone, PartialEq)]
struct Order {
    expression: Expression,
    descending: bool,
    nulls_first: bool,
}

impl ExpressionBinder<'_> {
    pub(super) fn bind_over(&mut self, call: &Call, over: &WindowType) -> Result<Expression> {
        if call.name != "ROW_NUMBER" {
            return Err(
                Error::user(format!("{} with OVER is not supported yet", call.name)).at(call.place),
            );
        }
        if !call.arguments.is_empty() || call.distinct || call.filter.is_some() {
            return Err(Error::user("ROW_NUMBER takes no arguments").at(call.place));
        }
        let WindowType::WindowSpec(spec) = over else {
            return Err(
                Error::user("a named window (OVER name) is not supported yet").at(call.place),
            );
        };
        let Some(calls) = self.over.take() else {
            return Err(Error::user(format!(
                "ROW_NUMBER() OVER is not allowed in {}",
                self.clause
            ))
            .at(call.place)
            .hint("compute it in a subquery: SELECT … FROM (SELECT *, ROW_NUMBER() OVER (…) AS rn FROM t) WHERE rn <= 3"));
        };
        let bound = self.bind_over_spec(spec, call);
        let result = bound.map(|(partition_by, order_by)| {
            calls.add(partition_by, order_by, Position(call.place))
        });
        self.over = Some(calls);
        result
    }

    fn bind_over_spec(
        &mut self,
        spec: &WindowSpec,
        call: &Call,
    ) -> Result<(Vec<Expression>, Vec<Order>)> {
        let WindowSpec {
            window_name,
            partition_by,
            order_by,
            window_frame,
        } = spec;
        if window_name.is_some() {
            return Err(Error::user("a named window is not supported yet").at(call.place));
        }
        if window_frame.is_some() {
            return Err(Error::user("ROW_NUMBER takes no ROWS or RANGE").at(call.place));
        }
        if order_by.is_empty() {
            return Err(Error::user("ROW_NUMBER needs ORDER BY")
                .at(call.place)
                .hint("as in ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts)"));
        }
        let partition_by = partition_by
            .iter()
            .map(|expr| self.bind(expr))
            .collect::<Result<_>>()?;
        let order_by = order_by
            .iter()
            .map(|order| self.bind_order(order))
            .collect::<Result<_>>()?;
        Ok((partition_by, order_by))
    }

    fn bind_order(&mut self, order: &OrderByExpr) -> Result<Order> {
        let OrderByExpr {
            expr,
            options: OrderByOptions { asc, nulls_first },
            with_fill,
        } = order;
        if with_fill.is_some() {
            return Err(self.binder.unsupported("WITH FILL", expr));
        }
        let descending = *asc == Some(false);
        Ok(Order {
            expression: self.bind(expr)?,
            descending,
            // NULL is the smallest value.
            nulls_first: nulls_first.unwrap_or(!descending),
        })
    }
}

impl OverCalls {
    fn add(
        &mut self,
        partition_by: Vec<Expression>,
        order_by: Vec<Order>,
        position: Position,
    ) -> Expression {
        let name = self.next_name.take();
        let same = |call: &OverCall| call.partition_by == partition_by && call.order_by == order_by;
        let index = match self.calls.iter().position(same) {
            Some(index) => index,
            None => {
                let index = self.calls.len();
                self.calls.push(OverCall {
                    partition_by,
                    order_by,
                    name: name.unwrap_or_else(|| format!("w{index}$o0")),
                    position,
                });
                index
            }
        };
        Expression::column(
            NUMBERS + index,
            &self.calls[index].name,
            LogicalType::not_null(TypeRoot::BigInt),
        )
    }

    /// Changes the expressions of all calls.
    pub(super) fn rewrite(&mut self, rewrite: impl Fn(Expression) -> Expression) {
        for call in &mut self.calls {
            call.partition_by = std::mem::take(&mut call.partition_by)
                .into_iter()
                .map(&rewrite)
                .collect();
            for order in &mut call.order_by {
                order.expression = rewrite(order.expression.clone());
            }
        }
    }

    /// Numbers the rows of `input`, whose columns have the given `fields`: the plan, and its columns' fields.
    pub(super) fn plan(
        &mut self,
        input: LogicalPlan,
        fields: Vec<Field>,
    ) -> (LogicalPlan, Vec<Field>) {
        if self.calls.is_empty() {
            return (input, fields);
        }
        let mut items = columns_of(&Schema::new(fields.clone()));
        let keys: Vec<(Vec<usize>, Vec<SortKey>)> = self
            .calls
            .iter()
            .map(|call| call.keys(&mut items))
            .collect();
        self.base = items.len();
        let mut plan = project(input, &fields, items);
        for (call, (partition_by, order_by)) in self.calls.iter().zip(keys) {
            plan = LogicalPlan::RowNumber(RowNumber {
                input: Box::new(plan),
                partition_by,
                order_by,
                name: call.name.clone(),
                position: call.position,
            });
        }
        let fields = plan.schema().fields;
        (plan, fields)
    }

    /// The same expression over the columns of the plan with the numbers.
    pub(super) fn resolve(&self, expression: Expression) -> Expression {
        expression.transform(&mut |part| match part {
            Expression::Column {
                index,
                name,
                logical_type,
            } if index >= NUMBERS => Expression::Column {
                index: index - NUMBERS + self.base,
                name,
                logical_type,
            },
            other => other,
        })
    }
}

impl OverCall {
    fn keys(&self, items: &mut Vec<(String, Expression)>) -> (Vec<usize>, Vec<SortKey>) {
        let partition_by = self
            .partition_by
            .iter()
            .map(|expression| column_for(expression, items))
            .collect();
        let order_by = self
            .order_by
            .iter()
            .map(|order| SortKey {
                column: column_for(&order.expression, items),
                descending: order.descending,
                nulls_first: order.nulls_first,
            })
            .collect();
        (partition_by, order_by)
    }
}

/// The column which holds the expression; added where there is none.
fn column_for(expression: &Expression, items: &mut Vec<(String, Expression)>) -> usize {
    if let Some(index) = items.iter().position(|(_, item)| item == expression) {
        return index;
    }
    items.push((format!("$o{}", items.len()), expression.clone()));
    items.len() - 1
}
