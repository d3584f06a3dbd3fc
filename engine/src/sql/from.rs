//! FROM: tables, views, WITH queries, subqueries and table functions, with their aliases.

use sqlparser::ast::{
    Ident, Query, TableAlias, TableAliasColumnDef, TableFactor, TableVersion, TableWithJoins,
};

use super::binder::{Binder, Environment};
use super::catalog::{CatalogObject, CatalogTable, CatalogView, local_name};
use super::scope::{Relation, Scope};
use super::suggestion;
use super::values::single_row;
use crate::error::{Error, Result};
use crate::expr::Position;
use crate::plan::logical::{LogicalPlan, Scan, TableSpec};
use std::sync::Arc;

/// How many views may stand inside each other.
const MAX_VIEW_DEPTH: usize = 64;

impl Binder<'_> {
    /// The FROM clause; without one, a single row.
    pub(super) fn bind_from(
        &self,
        from: &[TableWithJoins],
        environment: &Environment,
    ) -> Result<Relation> {
        let Some((first, rest)) = from.split_first() else {
            return Ok(single_row());
        };
        let mut relation = self.bind_table_with_joins(first, None, environment)?;
        for next in rest {
            relation = self.bind_table_with_joins(next, Some(relation), environment)?;
        }
        Ok(relation)
    }

    /// One item of a comma list with its joins. `left` is what stands before it: a comma is a cross join.
    fn bind_table_with_joins(
        &self,
        item: &TableWithJoins,
        left: Option<Relation>,
        environment: &Environment,
    ) -> Result<Relation> {
        let TableWithJoins { relation, joins } = item;
        let mut result = match left {
            None => self.bind_first_factor(relation, environment)?,
            Some(left) => self.bind_comma(left, relation, environment)?,
        };
        for join in joins {
            result = self.bind_join(result, join, environment)?;
        }
        Ok(result)
    }

    fn bind_first_factor(
        &self,
        factor: &TableFactor,
        environment: &Environment,
    ) -> Result<Relation> {
        match self.as_unnest(factor)? {
            Some(unnest) => self.bind_unnest(single_row(), &unnest, false),
            None => self.bind_factor(factor, environment),
        }
    }

    fn bind_comma(
        &self,
        left: Relation,
        factor: &TableFactor,
        environment: &Environment,
    ) -> Result<Relation> {
        match self.as_unnest(factor)? {
            Some(unnest) => self.bind_unnest(left, &unnest, false),
            None => self.bind_cross_join(left, factor, environment),
        }
    }

    /// A factor that does not depend on what stands left of it.
    pub(super) fn bind_factor(
        &self,
        factor: &TableFactor,
        environment: &Environment,
    ) -> Result<Relation> {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                if let Some(version) = version {
                    return Err(self.refuse_version(version, factor));
                }
                let foreign = [
                    ("WITH (…) behind a table", !with_hints.is_empty()),
                    ("WITH ORDINALITY", *with_ordinality),
                    ("PARTITION (…)", !partitions.is_empty()),
                    ("a JSON path behind a table", json_path.is_some()),
                    ("TABLESAMPLE", sample.is_some()),
                    ("an index hint", !index_hints.is_empty()),
                ];
                if let Some((what, _)) = foreign.into_iter().find(|(_, present)| *present) {
                    return Err(self.unsupported(what, factor));
                }
                let parts = self.name_parts(name)?;
                if let Some(args) = args {
                    if args.settings.is_some() {
                        return Err(self.unsupported("SETTINGS", factor));
                    }
                    let relation = self.bind_window_function(&parts, &args.args, environment)?;
                    return self.with_alias(relation, alias.as_ref());
                }
                let plan = self.bind_named_table(&parts, environment)?;
                let qualifier = parts.last().map(|part| part.value.clone());
                self.with_alias(Relation::new(plan, qualifier), alias.as_ref())
            }
            TableFactor::Derived {
                lateral,
                subquery,
                alias,
                sample,
            } => {
                if *lateral {
                    return Err(self.not_yet("LATERAL (subquery)", factor));
                }
                if sample.is_some() {
                    return Err(self.unsupported("TABLESAMPLE", factor));
                }
                self.bind_derived(subquery, alias.as_ref(), environment)
            }
            TableFactor::TableFunction { expr, alias } => {
                let relation = self.bind_table_function(expr, environment)?;
                self.with_alias(relation, alias.as_ref())
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => {
                if alias.is_some() {
                    return Err(self.unsupported("a name for a join in parentheses", factor));
                }
                self.bind_table_with_joins(table_with_joins, None, environment)
            }
            TableFactor::Function {
                lateral: _, name, ..
            } => Err(self
                .not_yet(format!("the table function {name}"), factor)
                .hint("CROSS JOIN UNNEST(array) is")),
            TableFactor::UNNEST { .. } => Err(self.unsupported("UNNEST at this place", factor)),
            TableFactor::Pivot { .. } => Err(self.unsupported("PIVOT", factor)),
            TableFactor::Unpivot { .. } => Err(self.unsupported("UNPIVOT", factor)),
            TableFactor::MatchRecognize { alias, .. } => {
                let relation = self.bind_match_recognize(factor, environment)?;
                self.with_alias(relation, alias.as_ref())
            }
            TableFactor::JsonTable { .. }
            | TableFactor::OpenJsonTable { .. }
            | TableFactor::XmlTable { .. }
            | TableFactor::SemanticView { .. } => {
                Err(self.unsupported(format!("{factor} in FROM"), factor))
            }
        }
    }

    fn refuse_version(&self, version: &TableVersion, factor: &TableFactor) -> Error {
        match version {
            TableVersion::ForSystemTimeAsOf(_) => {
                Error::user("FOR SYSTEM_TIME AS OF stands only behind the right table of a join")
                    .at(self.place(factor))
                    .hint("FROM l JOIN r FOR SYSTEM_TIME AS OF l.ts ON l.k = r.k")
            }
            other => self.unsupported(format!("the table version {other}"), factor),
        }
    }

    fn bind_derived(
        &self,
        subquery: &Query,
        alias: Option<&TableAlias>,
        environment: &Environment,
    ) -> Result<Relation> {
        let plan = self.bind_query(subquery, environment)?;
        let single = plan.schema().len() == 1;
        let mut relation = Relation::new(plan, None);
        if let (Some(alias), true, true) = (alias, single, is_values(subquery)) {
            // VALUES of one column AS t: the column is named t too.
            relation.scope.columns[0].field.name = self.name(&alias.name)?;
        }
        self.with_alias(relation, alias)
    }

    /// The relation under an alias, `AS t` or `AS t (a, b)`.
    pub(super) fn with_alias(
        &self,
        mut relation: Relation,
        alias: Option<&TableAlias>,
    ) -> Result<Relation> {
        let Some(alias) = alias else {
            return Ok(relation);
        };
        let name = self.name(&alias.name)?;
        let columns = self.alias_columns(alias)?;
        self.apply_names(&mut relation.scope, 0, &name, &columns, &alias.name)?;
        Ok(relation)
    }

    /// Gives the columns from `start` on a table name and, where there are any, column names.
    pub(super) fn apply_names(
        &self,
        scope: &mut Scope,
        start: usize,
        table: &str,
        columns: &[Ident],
        at: &Ident,
    ) -> Result<()> {
        let renamed = &mut scope.columns[start..];
        if !columns.is_empty() && columns.len() != renamed.len() {
            return Err(Error::user(format!(
                "the alias \"{table}\" names {} columns, but there are {}",
                columns.len(),
                renamed.len()
            ))
            .at(self.place(at))
            .hint(format!(
                "columns: {}",
                renamed
                    .iter()
                    .map(|column| column.field.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            )));
        }
        for (index, column) in renamed.iter_mut().enumerate() {
            column.qualifier = Some(table.to_string());
            if let Some(name) = columns.get(index) {
                column.field.name = self.name(name)?;
            }
        }
        Ok(())
    }

    /// The column names of an alias.
    pub(super) fn alias_columns(&self, alias: &TableAlias) -> Result<Vec<Ident>> {
        let TableAlias {
            explicit: _, // AS may be left out.
            name: _,
            columns,
            at,
        } = alias;
        if let Some(at) = at {
            return Err(self.unsupported("AT behind an alias", at));
        }
        columns
            .iter()
            .map(|TableAliasColumnDef { name, data_type }| match data_type {
                None => Ok(name.clone()),
                Some(_) => Err(self.unsupported("a type in the columns of an alias", name)),
            })
            .collect()
    }

    /// A table, view or WITH query by its name.
    pub(super) fn bind_named_table(
        &self,
        name: &[Ident],
        environment: &Environment,
    ) -> Result<LogicalPlan> {
        name.iter()
            .try_for_each(|part| self.name(part).map(|_| ()))?;
        if let [single] = name
            && let Some(plan) = environment.find(&single.value)
        {
            self.refuse_options(name, "a WITH query")?;
            return Ok(plan.clone());
        }
        let key = self.local_name(name)?;
        match self.catalog.find(&key) {
            Some(CatalogObject::Table(table)) => Ok(LogicalPlan::Scan(Scan {
                table: Arc::new(self.table_spec(table, name)?),
                position: Position(self.place_of_name(name)),
            })),
            Some(CatalogObject::View(view)) => {
                self.refuse_options(name, "a view")?;
                self.bind_view(view, name)
            }
            None => {
                let names = self.catalog.all_names().chain(environment.names());
                Err(Error::user(format!("there is no table or view \"{key}\""))
                    .at(self.place_of_name(name))
                    .hint(suggestion::hint(&key, "tables and views", names)))
            }
        }
    }

    fn local_name(&self, name: &[Ident]) -> Result<String> {
        match local_name(name) {
            Err(_) if self.view_depth > 0 => Err(Error::user(format!(
                "there is no table or view {}",
                name.iter()
                    .map(|part| part.value.as_str())
                    .collect::<Vec<_>>()
                    .join(".")
            ))),
            result => result,
        }
    }

    /// A table with the hints behind its name merged into its options, which are checked.
    pub(super) fn table_spec(&self, table: &CatalogTable, name: &[Ident]) -> Result<TableSpec> {
        let last = name.last().expect("a name has a part");
        let mut options = table.options.clone();
        options.extend(self.hints.options_after(last, &self.used_hints));
        let spec = table.spec(options, self.config.time_zone());
        self.connectors
            .for_table(&spec.descriptor, self.place_of_name(name))?;
        Ok(spec)
    }

    fn refuse_options(&self, name: &[Ident], what: &str) -> Result<()> {
        let last = name.last().expect("a name has a part");
        if self.hints.options_after(last, &self.used_hints).is_empty() {
            return Ok(());
        }
        Err(Error::user(format!(
            "\"{}\" is {what}: the hint OPTIONS is for tables",
            last.value
        ))
        .at(self.place_of_name(name)))
    }

    fn bind_view(&self, view: &CatalogView, name: &[Ident]) -> Result<LogicalPlan> {
        let around = |error: Error| {
            error
                .at(self.place_of_name(name))
                .context(format!("while reading the view \"{}\"", view.name))
        };
        if self.view_depth >= MAX_VIEW_DEPTH {
            return Err(around(Error::user(format!(
                "view \"{}\" refers to itself, or views are nested too deeply",
                view.name
            ))));
        }
        let inner = self.inside_view(&view.hints);
        let plan = inner
            .bind_query(&view.query, &Environment::default())
            .map_err(around)?;
        if plan.schema().len() != view.columns.len() {
            return Err(around(
                Error::user(format!(
                    "view \"{}\" was created with {} columns, but its query now has {}",
                    view.name,
                    view.columns.len(),
                    plan.schema().len()
                ))
                .hint("create the view anew"),
            ));
        }
        let names: Vec<Ident> = view
            .columns
            .iter()
            .map(|name| Ident::with_quote('`', name))
            .collect();
        inner.rename(plan, &names, &view.name, &names[0])
    }
}

fn is_values(query: &Query) -> bool {
    matches!(query.body.as_ref(), sqlparser::ast::SetExpr::Values(_))
}
