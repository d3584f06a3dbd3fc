//! From the statements of a case to a session and one bound job.
//!
//! Tables without a connector get the test connector. All INSERTs of a case run as one job, and a SELECT runs as an INSERT
//! into a test table that takes every kind of row.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::case::{TestCase, Variant, mistake};
use super::test_connector::{IDENTIFIER, TestBench, TestConnector, sink_mode};
use crate::connectors::{TableDescriptor, standard_registry};
use crate::error::Result;
use crate::plan::logical::{ColumnSpec, Insert, LogicalPlan, Statement, TableSpec};
use crate::sql::{ScriptStatement, Session, StatementResult, split_script};
use crate::types::{Field, RowKind, Schema, SqlPosition};

/// The name of the sink of a SELECT; no table of SQL can have it.
pub(super) const SELECT: &str = "*select*";

/// A case whose statements have run and whose job is bound.
pub(super) struct PreparedCase {
    pub(super) session: Session,
    /// INSERTs only.
    pub(super) statement: Statement,
    /// The text under test, for messages.
    pub(super) sql: String,
    /// The sinks of the job, in order.
    pub(super) sinks: Vec<SinkTable>,
}

/// A table that a job writes to.
#[derive(Debug, Clone)]
pub(super) struct SinkTable {
    pub(super) name: String,
    pub(super) schema: Schema,
    /// The columns by which upserts are applied; empty where the sink takes rows before updates.
    pub(super) key: Vec<usize>,
}

impl SinkTable {
    fn of(descriptor: &TableDescriptor) -> Self {
        let takes_pairs = sink_mode(descriptor).contains(RowKind::UpdateBefore);
        SinkTable {
            name: descriptor.name.clone(),
            schema: descriptor.physical.clone(),
            key: match takes_pairs {
                true => Vec::new(),
                false => descriptor.primary_key.clone(),
            },
        }
    }
}

/// Runs the statements of a case in a new session. `options` come over those of the case.
pub(super) fn prepare(
    case: &TestCase,
    variant: &Variant,
    options: &[(String, String)],
    bench: &Arc<TestBench>,
) -> Result<PreparedCase> {
    let mut connectors = standard_registry();
    connectors.register(Arc::new(TestConnector::new(
        bench.clone(),
        case.end_of_input,
    )));
    let mut script = Script {
        session: Session::new(connectors),
        inserts: Vec::new(),
        declared: BTreeSet::new(),
    };
    for (key, value) in case.set.iter().chain(&variant.set).chain(options) {
        script.session.config.set(key, value)?;
    }
    for table in &case.tables {
        script.run(table)?;
    }
    script.declared = script.session.catalog.table_names().into_iter().collect();
    script.run(case.sql.as_deref().unwrap_or_default())?;
    if let Some(file) = &case.sql_file {
        script.run_file(file)?;
    }
    script.run(case.query.as_deref().unwrap_or_default())?;
    if script.inserts.is_empty() {
        return Err(mistake("it has neither a SELECT nor an INSERT"));
    }
    script.check_fed_tables(bench)?;
    let tables = script
        .inserts
        .iter()
        .map(|insert| SinkTable::of(&insert.table.descriptor));
    let mut sinks: Vec<SinkTable> = Vec::new();
    for table in tables {
        if sinks.iter().all(|other| other.name != table.name) {
            sinks.push(table);
        }
    }
    Ok(PreparedCase {
        session: script.session,
        statement: Statement::Inserts(script.inserts),
        sql: case.query.clone().unwrap_or_default(),
        sinks,
    })
}

/// The job of one statement in a session.
pub(super) fn bind_query(session: &mut Session, query: &str) -> Result<Statement> {
    match session.execute(query)? {
        StatementResult::Job(statement) => Ok(Statement::Inserts(inserts(statement, session))),
        _ => Err(mistake("a query is a SELECT or an INSERT")),
    }
}

impl PreparedCase {
    /// A sink of the job, or the late-rows table.
    pub(super) fn sink(&self, name: &str) -> Option<SinkTable> {
        let written = self.sinks.iter().find(|sink| sink.name == name).cloned();
        written.or_else(|| {
            let table = self.session.catalog.table(name)?;
            Some(SinkTable {
                name: name.to_string(),
                schema: table.physical(),
                key: Vec::new(),
            })
        })
    }
}

/// The statements of a case under way.
struct Script {
    session: Session,
    inserts: Vec<Insert>,
    /// The tables of the case itself, which a job file's own declarations do not replace.
    declared: BTreeSet<String>,
}

impl Script {
    fn run(&mut self, text: &str) -> Result<()> {
        split_script(text)?
            .iter()
            .try_for_each(|statement| self.run_statement(statement))
    }

    fn run_file(&mut self, file: &Path) -> Result<()> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| mistake(format!("cannot read {}: {error}", file.display())))?;
        for statement in split_script(&text)? {
            let replaced =
                created_table(&statement.text).is_some_and(|name| self.declared.contains(&name));
            if !replaced {
                self.run_statement(&statement)
                    .map_err(|error| error.context(format!("in {}", file.display())))?;
            }
        }
        Ok(())
    }

    fn run_statement(&mut self, statement: &ScriptStatement) -> Result<()> {
        let result = self
            .session
            .execute(&statement.text)
            .map_err(|error| error.shifted(statement.start))?;
        self.give_test_connectors();
        match result {
            StatementResult::Job(job) => self.inserts.extend(inserts(job, &self.session)),
            StatementResult::Done => {}
            StatementResult::Rows { .. }
            | StatementResult::Explain { .. }
            | StatementResult::ExplainUpgrade { .. } => {
                return Err(mistake(
                    "SHOW, DESCRIBE and EXPLAIN have no rows to compare",
                ));
            }
        }
        Ok(())
    }

    fn give_test_connectors(&mut self) {
        for name in self.session.catalog.table_names() {
            if let Some(table) = self.session.catalog.table_mut(&name) {
                let connector = table.options.entry("connector".to_string());
                connector.or_insert_with(|| IDENTIFIER.to_string());
            }
        }
    }

    fn check_fed_tables(&self, bench: &TestBench) -> Result<()> {
        for name in bench.fed_tables() {
            let table = self.session.catalog.table(&name).ok_or_else(|| {
                mistake(format!(
                    "its steps feed table {name}, which no statement creates"
                ))
            })?;
            if table
                .options
                .get("connector")
                .is_some_and(|connector| connector != IDENTIFIER)
            {
                return Err(mistake(format!(
                    "its steps feed table {name}, which has a connector"
                )));
            }
        }
        Ok(())
    }
}

/// The name behind CREATE [TEMPORARY] TABLE [IF NOT EXISTS].
fn created_table(statement: &str) -> Option<String> {
    let mut words = statement
        .split(|c: char| c.is_whitespace() || c == '(')
        .filter(|word| !word.is_empty());
    let mut next = |expected: &[&str]| -> Option<String> {
        let word = words.next()?;
        let known = expected
            .iter()
            .any(|expected| word.eq_ignore_ascii_case(expected));
        (expected.is_empty() || known).then(|| word.to_string())
    };
    next(&["CREATE"])?;
    let table = next(&["TABLE", "TEMPORARY"])?;
    if table.eq_ignore_ascii_case("TEMPORARY") {
        next(&["TABLE"])?;
    }
    let name = next(&[])?;
    let name = match name.eq_ignore_ascii_case("IF") {
        true => {
            next(&["NOT"])?;
            next(&["EXISTS"])?;
            next(&[])?
        }
        false => name,
    };
    Some(name.trim_matches('`').to_string())
}

fn inserts(statement: Statement, session: &Session) -> Vec<Insert> {
    match statement {
        Statement::Inserts(inserts) => inserts,
        Statement::Select(query) => vec![select_as_insert(query, session.config.time_zone())],
    }
}

/// The same rows as an INSERT into a table that takes all kinds of rows.
fn select_as_insert(query: LogicalPlan, time_zone: &str) -> Insert {
    let fields = query.schema().fields.into_iter().map(|field| Field {
        time_attribute: None,
        ..field
    });
    let physical = Schema::new(fields.collect());
    let columns = physical.fields.iter().map(|field| ColumnSpec {
        field: field.clone(),
        computed: None,
    });
    let options = [("connector", IDENTIFIER), ("changelog-mode", "retract")];
    let table = TableSpec {
        columns: columns.collect(),
        descriptor: TableDescriptor {
            name: SELECT.to_string(),
            projection: (0..physical.len()).collect(),
            physical,
            primary_key: Vec::new(),
            options: BTreeMap::from(
                options.map(|(key, value)| (key.to_string(), value.to_string())),
            ),
            time_zone: time_zone.to_string(),
        },
        watermark: None,
    };
    Insert {
        table: Arc::new(table),
        query,
        on_conflict: None,
        position: crate::expr::Position(Some(SqlPosition::START)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_created_tables_are_found() {
        let name = |sql| created_table(sql).unwrap_or_default();
        assert_eq!(name("CREATE TABLE flights(a INT)"), "flights");
        assert_eq!(
            name("create temporary table\n if not exists `x` (a INT)"),
            "x"
        );
        assert_eq!(name("CREATE VIEW v AS SELECT 1"), "");
        assert_eq!(name("SELECT 1"), "");
    }
}
