//! Queries: WITH, set operations and what a query may end with.

use sqlparser::ast::{Cte, Ident, Query, SetExpr, SetOperator, SetQuantifier, Table, With};

use super::binder::{Binder, Environment};
use super::order_by::QueryPlace;
use super::projection::{columns_of, project};
use super::select::distinct;
use crate::error::{Error, Result};
use crate::plan::logical::{LogicalPlan, SetOperationKind};
use crate::types::Schema;

impl Binder<'_> {
    /// A query as a plan; its schema names the columns.
    pub(super) fn bind_query(
        &self,
        query: &Query,
        environment: &Environment,
    ) -> Result<LogicalPlan> {
        self.bind_query_at(query, environment, QueryPlace::Inside)
    }

    /// The query of a statement: its rows go out in the order that it asks for.
    pub(super) fn bind_statement_query(&self, query: &Query) -> Result<LogicalPlan> {
        self.bind_query_at(query, &Environment::default(), QueryPlace::Statement)
    }

    fn bind_query_at(
        &self,
        query: &Query,
        environment: &Environment,
        place: QueryPlace,
    ) -> Result<LogicalPlan> {
        self.refuse_foreign_ends(query)?;
        match &query.with {
            Some(with) => {
                let environment = self.bind_with(with, environment)?;
                self.bind_sorted(query, &environment, place)
            }
            None => self.bind_sorted(query, environment, place),
        }
    }

    fn refuse_foreign_ends(&self, query: &Query) -> Result<()> {
        let Query {
            with: _,
            body: _,
            order_by: _,
            limit_clause: _,
            fetch: _,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        let foreign = [
            ("FOR UPDATE and FOR SHARE", !locks.is_empty()),
            ("FOR …", for_clause.is_some()),
            ("SETTINGS", settings.is_some()),
            ("FORMAT", format_clause.is_some()),
            ("the pipe |>", !pipe_operators.is_empty()),
        ];
        match foreign.into_iter().find(|(_, present)| *present) {
            Some((what, _)) => Err(self.unsupported(what, query)),
            None => Ok(()),
        }
    }

    /// Each WITH query sees those before it.
    fn bind_with(&self, with: &With, environment: &Environment) -> Result<Environment> {
        let With {
            with_token,
            recursive,
            cte_tables,
        } = with;
        if *recursive {
            return Err(Error::unsupported("WITH RECURSIVE").at(self
                .view_depth
                .eq(&0)
                .then(|| super::position::of_span(with_token.0.span))
                .flatten()));
        }
        let mut result = environment.clone();
        for cte in cte_tables {
            let Cte {
                alias,
                query,
                from,
                materialized,
                closing_paren_token: _,
            } = cte;
            if let Some(from) = from {
                return Err(self.unsupported("FROM behind a WITH query", from));
            }
            if materialized.is_some() {
                return Err(self.unsupported("MATERIALIZED", &alias.name));
            }
            let name = self.name(&alias.name)?;
            let plan = self.bind_query(query, &result)?;
            let columns = self.alias_columns(alias)?;
            let plan = self.rename(plan, &columns, &name, &alias.name)?;
            result = result.with(name, plan);
        }
        Ok(result)
    }

    /// The plan with other column names; as it is where there are none.
    pub(super) fn rename(
        &self,
        plan: LogicalPlan,
        names: &[Ident],
        what: &str,
        at: &Ident,
    ) -> Result<LogicalPlan> {
        if names.is_empty() {
            return Ok(plan);
        }
        let schema = plan.schema();
        if names.len() != schema.len() {
            return Err(Error::user(format!(
                "\"{what}\" names {} columns, but its query has {}",
                names.len(),
                schema.len()
            ))
            .at(self.place(at))
            .hint(format!("the query's columns: {}", names_of(&schema))));
        }
        let items = columns_of(&schema)
            .into_iter()
            .zip(names)
            .map(|((_, column), name)| Ok((self.name(name)?, column)))
            .collect::<Result<Vec<_>>>()?;
        Ok(project(plan, &schema.fields, items))
    }

    pub(super) fn bind_body(
        &self,
        body: &SetExpr,
        environment: &Environment,
    ) -> Result<LogicalPlan> {
        match body {
            SetExpr::Select(select) => self.bind_select(select, environment),
            SetExpr::Query(query) => self.bind_query(query, environment),
            SetExpr::Values(values) => self.bind_values(values),
            SetExpr::SetOperation {
                left,
                op,
                set_quantifier,
                right,
            } => {
                use SetQuantifier::{All, Distinct, None};
                let kind = match op {
                    SetOperator::Intersect => SetOperationKind::Intersect,
                    SetOperator::Except | SetOperator::Minus => SetOperationKind::Except,
                    SetOperator::Union => {
                        let all = self.bind_union(left, right, environment)?;
                        return match set_quantifier {
                            All => Ok(all),
                            None | Distinct => {
                                Ok(distinct(all, Option::None, self.position(right.as_ref())))
                            }
                            quantifier => {
                                Err(self.not_yet(format!("{op} {quantifier}"), right.as_ref()))
                            }
                        };
                    }
                };
                self.bind_set_operation(kind, *set_quantifier, left, right, environment)
            }
            SetExpr::Table(table) => {
                let Table {
                    table_name,
                    schema_name,
                } = table.as_ref();
                let name: Vec<Ident> = schema_name
                    .iter()
                    .chain(table_name)
                    .map(|part| Ident::new(part.as_str()))
                    .collect();
                self.bind_named_table(&name, environment)
            }
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Err(self.unsupported("a change of a table inside a query", body))
            }
        }
    }
}

/// `a, b, c`.
pub(super) fn names_of(schema: &Schema) -> String {
    schema.names().collect::<Vec<_>>().join(", ")
}
