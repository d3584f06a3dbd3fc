//! SELECT: FROM, WHERE, grouping, HAVING, row numbers, the items, and DISTINCT, each a node on the one before.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Distinct, Expr, FunctionArguments, GroupByExpr, Ident, OrderByExpr, Query, Select,
    SelectFlavor, SelectItem, SelectItemQualifiedWildcardKind, Visit, Visitor,
    WildcardAdditionalOptions,
};

use super::binder::{Binder, Environment};
use super::expression::ExpressionBinder;
use super::grouping::Grouping;
use super::legacy_window;
use super::order_by::{OrderItem, SortedPlan, first_columns, sort_column, sort_key};
use super::over::{OverCalls, check_named_windows};
use super::projection::{columns_of, project};
use super::scope::{Relation, Scope};
use super::state_ttl;
use super::suggestion;
use crate::error::{Error, Result};
use crate::expr::{Expression, Position};
use crate::functions;
use crate::plan::logical::{Aggregate, Filter, LogicalPlan, window_bounds};
use crate::types::{Field, SqlPosition};

/// One column of the result.
enum Item<'e> {
    /// An expression, with its alias.
    Expr(&'e Expr, Option<String>),
    /// A column of `*`.
    Column(String, Expression, Option<SqlPosition>),
}

impl Item<'_> {
    /// The name of the column, which is the item at `index`.
    fn name(&self, index: usize) -> String {
        match self {
            Item::Expr(expr, alias) => alias
                .clone()
                .or_else(|| natural_name(expr))
                .unwrap_or_else(|| format!("EXPR${index}")),
            Item::Column(name, ..) => name.clone(),
        }
    }
}

impl Binder<'_> {
    pub(super) fn bind_select(
        &self,
        select: &Select,
        environment: &Environment,
    ) -> Result<LogicalPlan> {
        Ok(self.bind_sorted_select(select, environment, &[])?.0)
    }

    /// The same with the values of ORDER BY behind the columns, the sort keys, and how many columns there are without those.
    pub(super) fn bind_sorted_select(
        &self,
        select: &Select,
        environment: &Environment,
        order: &[OrderByExpr],
    ) -> Result<SortedPlan> {
        let (relation, state_ttl) = self.bind_rows(select, environment)?;
        self.bind_result(select, relation, order, state_ttl)
    }

    /// What FROM and WHERE give, and how long groups of it are remembered. Views nest here, so this keeps little on the stack.
    fn bind_rows(
        &self,
        select: &Select,
        environment: &Environment,
    ) -> Result<(Relation, Option<u64>)> {
        self.refuse_foreign_clauses(select)?;
        let mut relation = self.bind_from(&select.from, environment)?;
        let select_at = select.select_token.0.span.start;
        let state_ttl = self.hints.state_ttl_after(select_at, &self.used_hints)?;
        self.apply_state_ttl(&mut relation.plan, &relation.scope, &state_ttl)?;
        self.apply_lookup_hints(&mut relation.plan, &relation.scope, select_at)?;
        let multi_join = self.hints.multi_join_after(select_at, &self.used_hints);
        self.apply_multi_join(&mut relation.plan, &relation.scope, &multi_join)?;
        let ttl_of_groups = state_ttl::of_aggregate(&relation.scope, &state_ttl);
        let relation = self.bind_where(relation, select.selection.as_ref(), environment)?;
        let values: Vec<&Expr> = select.projection.iter().filter_map(value_of).collect();
        let relation = self.join_scalars(relation, &values, environment)?;
        Ok((relation, ttl_of_groups))
    }

    fn bind_result(
        &self,
        select: &Select,
        relation: Relation,
        order: &[OrderByExpr],
        ttl_of_groups: Option<u64>,
    ) -> Result<SortedPlan> {
        let mut items = self.expand_items(&select.projection, &relation.scope)?;
        let visible = items.len();
        let order_items = self.order_items_of(order, &items)?;
        let mut keys = Vec::new();
        for (order, item) in order.iter().zip(&order_items) {
            let column = match item {
                OrderItem::Column(column) => *column,
                OrderItem::Expression(expr) => {
                    items.push(Item::Expr(expr, Some(sort_column(items.len()))));
                    items.len() - 1
                }
            };
            keys.push(sort_key(order, column));
        }
        let plan = if is_grouped(select) {
            self.bind_grouped(select, relation, &items, ttl_of_groups)?
        } else {
            self.bind_ungrouped(select, relation, &items)?
        };
        keys.iter_mut()
            .for_each(|key| key.column = same_visible(&plan, key.column, visible));
        match &select.distinct {
            None | Some(Distinct::All) => Ok((plan, keys, visible)),
            Some(Distinct::Distinct) => {
                if keys.iter().any(|key| key.column >= visible) {
                    return Err(
                        Error::user("ORDER BY of SELECT DISTINCT must name its columns")
                            .at(self.place(select)),
                    );
                }
                let plan = first_columns(plan, visible);
                Ok((
                    distinct(plan, ttl_of_groups, self.position(select)),
                    keys,
                    visible,
                ))
            }
            Some(Distinct::On(_)) => Err(self.unsupported("DISTINCT ON", select)),
        }
    }

    fn order_items_of(&self, order: &[OrderByExpr], items: &[Item]) -> Result<Vec<OrderItem>> {
        let names: Vec<String> = (0..items.len())
            .map(|index| items[index].name(index))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let aliases: Vec<(&str, &Expr)> = items
            .iter()
            .filter_map(|item| match item {
                Item::Expr(expr, Some(alias)) => Some((alias.as_str(), *expr)),
                _ => None,
            })
            .collect();
        let order = order.iter();
        order
            .map(|order| self.order_item(order, &names, &aliases))
            .collect()
    }

    /// Every clause is named here, so that none is ignored.
    fn refuse_foreign_clauses(&self, select: &Select) -> Result<()> {
        let Select {
            select_token: _,
            optimizer_hints,
            distinct: _,
            select_modifiers,
            top,
            top_before_distinct: _, // Only with TOP.
            projection: _,
            exclude,
            into,
            from: _,
            lateral_views,
            prewhere,
            selection: _,
            connect_by,
            group_by: _,
            cluster_by,
            distribute_by,
            sort_by,
            having: _,
            named_window,
            window_before_qualify: _, // Only with QUALIFY.
            qualify,
            value_table_mode,
            flavor,
        } = select;
        check_named_windows(self, named_window)?;
        let foreign = [
            ("a hint", !optimizer_hints.is_empty()),
            ("a modifier of SELECT", select_modifiers.is_some()),
            ("TOP", top.is_some()),
            ("EXCLUDE", exclude.is_some()),
            ("SELECT INTO", into.is_some()),
            ("LATERAL VIEW", !lateral_views.is_empty()),
            ("PREWHERE", prewhere.is_some()),
            ("CONNECT BY", !connect_by.is_empty()),
            ("CLUSTER BY", !cluster_by.is_empty()),
            ("DISTRIBUTE BY", !distribute_by.is_empty()),
            ("SORT BY", !sort_by.is_empty()),
            ("QUALIFY", qualify.is_some()),
            ("SELECT AS VALUE", value_table_mode.is_some()),
            ("FROM before SELECT", *flavor != SelectFlavor::Standard),
        ];
        match foreign.into_iter().find(|(_, present)| *present) {
            Some((what, _)) => Err(self.unsupported(what, select)),
            None => Ok(()),
        }
    }

    fn expand_items<'e>(
        &self,
        projection: &'e [SelectItem],
        scope: &Scope,
    ) -> Result<Vec<Item<'e>>> {
        let mut items = Vec::with_capacity(projection.len());
        for item in projection {
            match item {
                SelectItem::UnnamedExpr(expr) => items.push(Item::Expr(expr, None)),
                SelectItem::ExprWithAlias { expr, alias } => {
                    items.push(Item::Expr(expr, Some(self.name(alias)?)))
                }
                SelectItem::ExprWithAliases { expr, .. } => {
                    return Err(self.unsupported("several aliases of one item", expr));
                }
                SelectItem::Wildcard(options) => {
                    self.refuse_wildcard_options(options)?;
                    items.extend(self.expand_wildcard(scope, None, options)?);
                }
                SelectItem::QualifiedWildcard(kind, options) => {
                    self.refuse_wildcard_options(options)?;
                    let SelectItemQualifiedWildcardKind::ObjectName(name) = kind else {
                        return Err(self.unsupported("the fields of an expression by .*", item));
                    };
                    let parts = self.name_parts(name)?;
                    items.extend(self.expand_wildcard(scope, parts.last(), options)?);
                }
            }
        }
        Ok(items)
    }

    fn refuse_wildcard_options(&self, options: &WildcardAdditionalOptions) -> Result<()> {
        let WildcardAdditionalOptions {
            wildcard_token: _,
            opt_ilike,
            opt_exclude,
            opt_except,
            opt_replace,
            opt_rename,
            opt_alias,
        } = options;
        let plain = opt_ilike.is_none()
            && opt_exclude.is_none()
            && opt_except.is_none()
            && opt_replace.is_none()
            && opt_rename.is_none()
            && opt_alias.is_none();
        if plain {
            return Ok(());
        }
        Err(self.unsupported(format!("{options} behind *"), options))
    }

    fn expand_wildcard<'e>(
        &self,
        scope: &Scope,
        table: Option<&Ident>,
        options: &WildcardAdditionalOptions,
    ) -> Result<Vec<Item<'e>>> {
        let place = match table {
            Some(table) => self.place(table),
            None => self.place(options),
        };
        let columns = scope.wildcard(table.map(|table| table.value.as_str()));
        if columns.is_empty() {
            return Err(match table {
                Some(table) => Error::user(format!("there is no table \"{}\" here", table.value))
                    .hint(suggestion::hint(&table.value, "tables", scope.tables())),
                None => Error::user("SELECT * needs a FROM clause"),
            }
            .at(place));
        }
        Ok(columns
            .into_iter()
            .map(|(name, column)| Item::Column(name, column, place))
            .collect())
    }

    fn bind_ungrouped(
        &self,
        select: &Select,
        relation: Relation,
        items: &[Item],
    ) -> Result<LogicalPlan> {
        let mut over = OverCalls::new(&select.named_window);
        let mut binder = ExpressionBinder {
            over: Some(&mut over),
            ..ExpressionBinder::plain(self, &relation.scope, "SELECT")
        };
        let bound = bind_items(&mut binder, items)?;
        let fields = fields_of(&relation.scope);
        let (plan, fields) = over.plan(relation.plan, fields);
        let bound = bound
            .into_iter()
            .map(|(name, item)| (name, over.resolve(item)))
            .collect();
        Ok(project(plan, &fields, bound))
    }

    fn bind_grouped(
        &self,
        select: &Select,
        relation: Relation,
        items: &[Item],
        state_ttl_ms: Option<u64>,
    ) -> Result<LogicalPlan> {
        let mut grouping = self.bind_group_by(&select.group_by, &relation.scope)?;
        grouping.state_ttl_ms = state_ttl_ms;
        if grouping.position.0.is_none() {
            grouping.position = self.position(select);
        }
        let mut over = OverCalls::new(&select.named_window);
        let bound = bind_items(
            &mut ExpressionBinder {
                grouping: Some(&mut grouping),
                over: Some(&mut over),
                ..ExpressionBinder::plain(self, &relation.scope, "SELECT")
            },
            items,
        )?;
        let having = match &select.having {
            None => None,
            Some(having) => Some(
                ExpressionBinder {
                    grouping: Some(&mut grouping),
                    ..ExpressionBinder::plain(self, &relation.scope, "HAVING")
                }
                .bind_condition(having)?,
            ),
        };
        let resolved: Vec<(String, Expression)> = bound
            .into_iter()
            .map(|(name, item)| (name, grouping.resolve(item)))
            .collect();
        let having = having.map(|having| grouping.resolve(having));
        over.rewrite(|expression| grouping.resolve(expression));
        let (plan, fields) = grouped_plan(grouping, relation, having);
        let (plan, fields) = over.plan(plan, fields);
        let resolved = resolved
            .into_iter()
            .map(|(name, item)| (name, over.resolve(item)))
            .collect();
        Ok(project(plan, &fields, resolved))
    }
}

/// The first column of the result with the same expression, if there is one.
fn same_visible(plan: &LogicalPlan, column: usize, visible: usize) -> usize {
    let LogicalPlan::Project(project) = plan else {
        return column;
    };
    let expression = &project.expressions[column];
    let same = project.expressions[..visible]
        .iter()
        .position(|shown| shown == expression);
    same.unwrap_or(column)
}

fn bind_items(binder: &mut ExpressionBinder, items: &[Item]) -> Result<Vec<(String, Expression)>> {
    items
        .iter()
        .enumerate()
        .map(|(index, item)| match item {
            Item::Expr(expr, _) => {
                let name = item.name(index);
                suggest_name(binder, expr, &name);
                Ok((name, binder.bind(expr)?))
            }
            Item::Column(name, column, place) => {
                Ok((name.clone(), bind_wildcard_column(binder, column, *place)?))
            }
        })
        .collect()
}

/// An item that is nothing but an aggregate or a row number names the column which that makes.
fn suggest_name(binder: &mut ExpressionBinder, expr: &Expr, name: &str) {
    let (is_aggregate, is_over) = match expr {
        Expr::Function(function) => {
            let called = function.name.to_string().to_uppercase();
            let is_over = function.over.is_some();
            (!is_over && functions::is_aggregate(&called), is_over)
        }
        _ => (false, false),
    };
    if let Some(grouping) = binder.grouping.as_deref_mut() {
        grouping.next_name = is_aggregate.then(|| name.to_string());
    }
    if let Some(over) = binder.over.as_deref_mut() {
        over.next_name = is_over.then(|| name.to_string());
    }
}

fn bind_wildcard_column(
    binder: &ExpressionBinder,
    column: &Expression,
    place: Option<SqlPosition>,
) -> Result<Expression> {
    let Some(grouping) = binder.grouping.as_deref() else {
        return Ok(column.clone());
    };
    grouping.column_of(column).ok_or_else(|| {
        Error::user(format!(
            "column \"{column}\" of * must appear in GROUP BY or inside an aggregate function"
        ))
        .at(place)
    })
}

fn value_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ } => Some(expr),
        _ => None,
    }
}

/// The name of an item without an alias: that of its column.
fn natural_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(ident.value.clone()),
        Expr::CompoundIdentifier(parts) => parts.last().map(|part| part.value.clone()),
        Expr::Nested(inner) => natural_name(inner),
        _ => None,
    }
}

fn fields_of(scope: &Scope) -> Vec<Field> {
    scope
        .columns
        .iter()
        .map(|column| column.field.clone())
        .collect()
}

/// The aggregate and HAVING on it, with the fields of the columns: only windows keep time attributes.
fn grouped_plan(
    grouping: Grouping,
    relation: Relation,
    having: Option<Expression>,
) -> (LogicalPlan, Vec<Field>) {
    let is_legacy = grouping.legacy.is_some();
    let plan = grouping.into_plan(relation.plan, &fields_of(&relation.scope));
    let mut fields = plan.schema().fields;
    if window_bounds(&plan).is_none() {
        let window_columns = if is_legacy { 3 } else { 0 };
        let plain = fields.len() - window_columns;
        for field in &mut fields[..plain] {
            field.time_attribute = None;
        }
    }
    let plan = match having {
        None => plan,
        Some(condition) => LogicalPlan::Filter(Filter {
            input: Box::new(plan),
            condition,
        }),
    };
    (plan, fields)
}

/// Each row once: a group of all columns.
pub(super) fn distinct(
    plan: LogicalPlan,
    state_ttl_ms: Option<u64>,
    position: Position,
) -> LogicalPlan {
    let schema = plan.schema();
    let windowed = window_bounds(&plan).is_some();
    let plan = LogicalPlan::Aggregate(Aggregate {
        input: Box::new(plan),
        grouping: (0..schema.len()).collect(),
        grouping_sets: vec![],
        aggregates: vec![],
        legacy_window: None,
        state_ttl_ms,
        position,
    });
    if windowed {
        return plan;
    }
    let plain: Vec<Field> = schema
        .fields
        .iter()
        .map(|field| field.clone().with_time_attribute(None))
        .collect();
    project(plan, &plain, columns_of(&schema))
}

/// Whether the rows are grouped: by GROUP BY, HAVING, or an aggregate in SELECT.
fn is_grouped(select: &Select) -> bool {
    has_group_by(&select.group_by)
        || select.having.is_some()
        || select.projection.iter().any(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, alias: _ } => {
                has_aggregate(expr)
            }
            _ => false,
        })
}

fn has_group_by(group_by: &GroupByExpr) -> bool {
    match group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(items, modifiers) => !items.is_empty() || !modifiers.is_empty(),
    }
}

/// Whether an aggregate is called without OVER, or a property of a group window is asked for; subqueries aside.
pub(super) fn has_aggregate(expr: &Expr) -> bool {
    struct Aggregates {
        subqueries: usize,
    }
    impl Visitor for Aggregates {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.subqueries += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.subqueries -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, part: &Expr) -> ControlFlow<()> {
            if let Expr::Function(function) = part
                && self.subqueries == 0
                && function.over.is_none()
                && !matches!(function.args, FunctionArguments::None)
            {
                let name = function.name.to_string().to_uppercase();
                if functions::is_aggregate(&name) || legacy_window::is_auxiliary(&name) {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        }
    }
    expr.visit(&mut Aggregates { subqueries: 0 }).is_break()
}

/// Whether a SELECT only reads, filters and computes.
pub(super) fn is_plain_select(select: &Select) -> bool {
    !is_grouped(select)
        && select.distinct.is_none()
        && select.named_window.is_empty()
        && select.qualify.is_none()
        && select.top.is_none()
        && select.into.is_none()
        && select.lateral_views.is_empty()
        && select.connect_by.is_empty()
        && select.prewhere.is_none()
        && select.cluster_by.is_empty()
        && select.distribute_by.is_empty()
        && select.sort_by.is_empty()
        && select.exclude.is_none()
        && select.optimizer_hints.is_empty()
        && select.select_modifiers.is_none()
        && select.value_table_mode.is_none()
        && select.flavor == SelectFlavor::Standard
        && !select.from.is_empty()
}
