//! A session: options, catalog and connectors, and the execution of one statement after the other.

use arrow::array::RecordBatch;
use sqlparser::ast::Query;

use super::binder::{Binder, Environment};
use super::catalog::{CATALOG, Catalog, CatalogObject, DATABASE, local_name, place};
use super::describe::{self, Cells, Listing};
use super::hints::{Hints, UsedHints};
use super::parser::{Parsed, parse_statement};
use super::projection::{columns_of, project};
use super::statement::{CreateTable, CreateView, Insert, Name, ObjectKind, Statement};
use super::suggestion;
use crate::config::SessionConfig;
use crate::connectors::ConnectorRegistry;
use crate::error::{Error, Result};
use crate::plan::logical::{self, ExplainDetails, LogicalPlan};
use crate::types::{Schema, SqlPosition};

/// What SQL statements change and read.
#[derive(Clone)]
pub struct Session {
    /// The options that SET changes.
    pub config: SessionConfig,
    /// Tables and views.
    pub catalog: Catalog,
    /// The connectors that tables may name.
    pub connectors: ConnectorRegistry,
}

/// What a statement leaves for the caller.
#[derive(Debug, Clone)]
pub enum StatementResult {
    /// Nothing: the session has changed.
    Done,
    /// Rows to show: SHOW, DESCRIBE, SET without arguments.
    Rows {
        /// The columns.
        schema: Schema,
        /// The rows.
        rows: RecordBatch,
    },
    /// A job to run: INSERT INTO, a statement set, or a query.
    Job(logical::Statement),
    /// A plan to show.
    Explain {
        /// The statement behind EXPLAIN.
        statement: logical::Statement,
        /// What it shows beside the plan.
        details: ExplainDetails,
    },
    /// What a restore would do, to show.
    ExplainUpgrade {
        /// The statement behind EXPLAIN UPGRADE.
        statement: logical::Statement,
        /// What would be restored; `None`: what `execution.state-recovery.path` names.
        path: Option<String>,
    },
}

impl From<Listing> for StatementResult {
    fn from(Listing { schema, rows }: Listing) -> Self {
        StatementResult::Rows { schema, rows }
    }
}

impl Session {
    /// A session with default options and an empty catalog.
    pub fn new(connectors: ConnectorRegistry) -> Self {
        Session {
            config: SessionConfig::default(),
            catalog: Catalog::default(),
            connectors,
        }
    }

    /// Parses and binds one statement, and runs it where it only changes or shows the session. Errors name the place in
    /// `statement` and show its line.
    pub fn execute(&mut self, statement: &str) -> Result<StatementResult> {
        self.execute_statement(statement)
            .map_err(|error| error.with_sql(statement))
    }

    fn execute_statement(&mut self, text: &str) -> Result<StatementResult> {
        let Parsed { statement, hints } = parse_statement(text)?;
        match statement {
            Statement::CreateTable(create) => self.create_table(&create, &hints),
            Statement::CreateView(create) => self.create_view(&create, &hints),
            Statement::Drop(drop) => {
                self.catalog
                    .drop(drop.kind, &drop.name, drop.temporary, drop.if_exists)?;
                Ok(StatementResult::Done)
            }
            Statement::Set(None) => self.list_options(),
            Statement::Set(Some((key, value, place))) => self.set(&key, &value, place),
            Statement::Reset(key) => self.reset(key),
            Statement::Use(is_catalog, name) => use_database(is_catalog, &name),
            Statement::ShowTables => {
                // As in Flink, views are among the tables.
                let mut names = self.catalog.table_names();
                names.extend(self.catalog.view_names());
                names.sort();
                Ok(describe::names("table name", names)?.into())
            }
            Statement::ShowViews => {
                Ok(describe::names("view name", self.catalog.view_names())?.into())
            }
            Statement::ShowCreate(kind, name) => self.show_create(kind, &name),
            Statement::Describe(name) => self.describe(&name, &hints),
            Statement::Inserts(inserts) => self
                .bind_inserts(&inserts, &hints)
                .map(StatementResult::Job),
            Statement::Query(query) => self.bind_select(&query, &hints).map(StatementResult::Job),
            Statement::Explain(details, inner) => {
                let statement = self.explained(*inner, &hints)?;
                Ok(StatementResult::Explain { statement, details })
            }
            Statement::ExplainUpgrade(path, inner) => {
                let statement = self.explained(*inner, &hints)?;
                Ok(StatementResult::ExplainUpgrade { statement, path })
            }
        }
    }

    fn binder<'a>(&'a self, hints: &'a Hints) -> Binder<'a> {
        Binder {
            catalog: &self.catalog,
            config: &self.config,
            connectors: &self.connectors,
            hints,
            used_hints: UsedHints::default(),
            view_depth: 0,
        }
    }

    /// Binds with the statement's hints, every one of which must have been used then.
    fn bind<T>(&self, hints: &Hints, bind: impl FnOnce(&Binder) -> Result<T>) -> Result<T> {
        let binder = self.binder(hints);
        let bound = bind(&binder)?;
        hints.check_all_used(&binder.used_hints)?;
        Ok(bound)
    }

    fn create_table(&mut self, create: &CreateTable, hints: &Hints) -> Result<StatementResult> {
        let table = self.bind(hints, |binder| binder.bind_create_table(create))?;
        self.catalog.create(
            &create.name,
            CatalogObject::Table(table),
            create.temporary,
            create.if_not_exists,
        )?;
        Ok(StatementResult::Done)
    }

    fn create_view(&mut self, create: &CreateView, hints: &Hints) -> Result<StatementResult> {
        let view = self.bind(hints, |binder| binder.bind_create_view(create, hints))?;
        self.catalog.create(
            &create.name,
            CatalogObject::View(view),
            create.temporary,
            create.if_not_exists,
        )?;
        Ok(StatementResult::Done)
    }

    fn set(
        &mut self,
        key: &str,
        value: &str,
        place: Option<SqlPosition>,
    ) -> Result<StatementResult> {
        self.config
            .set(key, value)
            .map_err(|error| error.at(place))?;
        Ok(StatementResult::Done)
    }

    fn reset(&mut self, key: Option<(String, Option<SqlPosition>)>) -> Result<StatementResult> {
        match key {
            None => self.config = SessionConfig::default(),
            Some((key, place)) => {
                let known = || {
                    crate::config::SESSION_OPTIONS
                        .iter()
                        .map(|option| option.key)
                };
                if !known().any(|option| option == key) {
                    return Err(Error::user(format!("the session has no option '{key}'"))
                        .at(place)
                        .hint(suggestion::hint(&key, "options", known())));
                }
                self.config.reset(&key);
            }
        }
        Ok(StatementResult::Done)
    }

    fn list_options(&self) -> Result<StatementResult> {
        let options: Vec<(&str, &str)> = self.config.explicit().collect();
        let text = |cells: Vec<&str>| {
            Cells::Text(
                cells
                    .into_iter()
                    .map(|cell| Some(cell.to_string()))
                    .collect(),
            )
        };
        let (keys, values) = options.into_iter().unzip();
        let listing = describe::listing(vec![("key", text(keys)), ("value", text(values))])?;
        Ok(listing.into())
    }

    fn object(&self, name: &Name) -> Result<&CatalogObject> {
        let key = local_name(name)?;
        self.catalog.find(&key).ok_or_else(|| {
            Error::user(format!("there is no table or view \"{key}\""))
                .at(place(name))
                .hint(suggestion::hint(
                    &key,
                    "tables and views",
                    self.catalog.all_names(),
                ))
        })
    }

    fn show_create(&self, kind: ObjectKind, name: &Name) -> Result<StatementResult> {
        let text = match (self.object(name)?, kind) {
            (CatalogObject::Table(table), ObjectKind::Table) => describe::create_table(table),
            (CatalogObject::View(view), ObjectKind::View) => describe::create_view(view),
            (object, kind) => {
                let found = object.kind().word();
                return Err(
                    Error::user(format!("it is a {found}, not a {}", kind.word()))
                        .at(place(name))
                        .hint(format!("SHOW CREATE {}", found.to_uppercase())),
                );
            }
        };
        Ok(describe::names("result", vec![text])?.into())
    }

    fn describe(&self, name: &Name, hints: &Hints) -> Result<StatementResult> {
        let listing = match self.object(name)? {
            CatalogObject::Table(table) => describe::describe(&table.schema(), Some(table))?,
            CatalogObject::View(_) => {
                let plan = self.bind(hints, |binder| {
                    binder.bind_named_table(name, &Environment::default())
                })?;
                describe::describe(&plan.schema(), None)?
            }
        };
        Ok(listing.into())
    }

    fn bind_inserts(&self, inserts: &[Insert], hints: &Hints) -> Result<logical::Statement> {
        self.bind(hints, |binder| {
            inserts
                .iter()
                .map(|insert| binder.bind_insert(insert))
                .collect::<Result<Vec<_>>>()
        })
        .map(logical::Statement::Inserts)
    }

    fn bind_select(&self, query: &Query, hints: &Hints) -> Result<logical::Statement> {
        self.bind(hints, |binder| binder.bind_statement_query(query))
            .map(|plan| logical::Statement::Select(with_unique_names(plan)))
    }

    fn explained(&self, statement: Statement, hints: &Hints) -> Result<logical::Statement> {
        match statement {
            Statement::Inserts(inserts) => self.bind_inserts(&inserts, hints),
            Statement::Query(query) => self.bind_select(&query, hints),
            _ => Err(Error::internal("the parser lets only jobs be explained")),
        }
    }
}

fn use_database(is_catalog: bool, name: &Name) -> Result<StatementResult> {
    let parts: Vec<&str> = name.iter().map(|part| part.value.as_str()).collect();
    let known = match (is_catalog, &parts[..]) {
        (true, [catalog]) => *catalog == CATALOG,
        (false, [database]) => *database == DATABASE,
        (false, [catalog, database]) => *catalog == CATALOG && *database == DATABASE,
        _ => false,
    };
    if known {
        return Ok(StatementResult::Done);
    }
    let what = if is_catalog { "catalog" } else { "database" };
    Err(
        Error::user(format!("there is no {what} \"{}\"", parts.join(".")))
            .at(place(name))
            .hint(format!("the only one is {CATALOG}.{DATABASE}")),
    )
}

/// A result whose columns can be told apart: a second `id` becomes `id0`, as in Flink.
fn with_unique_names(plan: LogicalPlan) -> LogicalPlan {
    let schema = plan.schema();
    let mut names: Vec<String> = Vec::with_capacity(schema.len());
    for name in schema.names() {
        let mut candidates =
            std::iter::once(name.to_string()).chain((0..).map(|number| format!("{name}{number}")));
        let unique = candidates
            .find(|candidate| !names.contains(candidate))
            .expect("numbers do not end");
        names.push(unique);
    }
    let columns = columns_of(&schema).into_iter().zip(names);
    let items = columns.map(|((_, column), name)| (name, column)).collect();
    project(plan, &schema.fields, items)
}
