//! A session for tests: a connector that takes anything, and plans as indented text.

use std::sync::Arc;

use super::{Session, StatementResult};
use crate::config::{OptionSpec, OptionType};
use crate::connectors::{ConnectorFactory, ConnectorRegistry, TableDescriptor};
use crate::error::Error;
use crate::expr::{CastMode, Expression};
use crate::plan::logical::{LogicalPlan, Statement};
use crate::types::{Schema, SortKey, TimeAttribute};

/// `'connector' = 'memory'` with the one option `rows`.
struct MemoryConnector;

impl ConnectorFactory for MemoryConnector {
    fn identifier(&self) -> &'static str {
        "memory"
    }

    fn options(&self, _: &TableDescriptor) -> Vec<OptionSpec> {
        vec![
            OptionSpec::new("connector", OptionType::Text, None, "memory"),
            OptionSpec::new("rows", OptionType::Integer, Some("1"), "rows"),
        ]
    }
}

/// A session with the tables that most tests use.
pub(super) fn session() -> Session {
    let mut connectors = ConnectorRegistry::default();
    connectors.register(Arc::new(MemoryConnector));
    let mut session = Session::new(connectors);
    for ddl in [
        "CREATE TABLE bid (auction BIGINT, bidder BIGINT, price DECIMAL(10, 2), ts TIMESTAMP(3), tags ARRAY<STRING>, \
         item ROW<name STRING, size INT NOT NULL>, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('connector' = 'memory')",
        "CREATE TABLE person (id BIGINT, name STRING, born TIMESTAMP_LTZ(3), WATERMARK FOR born AS born, \
         PRIMARY KEY (id) NOT ENFORCED) WITH ('connector' = 'memory')",
        "CREATE TABLE click (user_id INT, pt AS PROCTIME()) WITH ('connector' = 'memory')",
        "CREATE TABLE out1 (a BIGINT, b STRING NOT NULL, c AS a + 1) WITH ('connector' = 'memory')",
    ] {
        session.execute(ddl).unwrap();
    }
    session
}

/// The plan of a statement in the session of [`session`].
pub(super) fn plan(sql: &str) -> String {
    plan_in(&mut session(), sql)
}

/// The plan of a statement.
pub(super) fn plan_in(session: &mut Session, sql: &str) -> String {
    match session.execute(sql) {
        Ok(StatementResult::Job(statement)) => show(&statement),
        Ok(other) => panic!("{sql} is no job: {other:?}"),
        Err(error) => panic!("{error}"),
    }
}

/// The error of a statement in the session of [`session`].
pub(super) fn error(sql: &str) -> Error {
    match session().execute(sql) {
        Err(error) => error,
        Ok(result) => panic!("{sql} is accepted: {result:?}"),
    }
}

/// Checks that a statement is refused at line 1 and the column at which `at` stands, with a text that contains all `words`.
#[track_caller]
pub(super) fn refused(sql: &str, at: &str, words: &[&str]) {
    let error = error(sql);
    let text = error.to_string();
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in:\n{text}");
    }
    let position = error
        .position()
        .unwrap_or_else(|| panic!("no place: {text}"));
    let before = sql.split_once(at).expect("the text stands in the SQL").0;
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap().chars().count() + 1;
    assert_eq!(
        (position.line, position.column),
        (line as u64, column as u64),
        "{text}"
    );
}

/// The schema of a query.
pub(super) fn schema(sql: &str) -> String {
    match session().execute(sql) {
        Ok(StatementResult::Job(Statement::Select(plan))) => show_schema(&plan.schema()),
        Ok(other) => panic!("{sql} is no query: {other:?}"),
        Err(error) => panic!("{error}"),
    }
}

fn show_schema(schema: &Schema) -> String {
    let fields: Vec<String> = schema
        .fields
        .iter()
        .map(|field| {
            let mark = match field.time_attribute {
                None => "",
                Some(TimeAttribute::Rowtime) => " *rowtime*",
                Some(TimeAttribute::Proctime) => " *proctime*",
            };
            format!("{} {}{mark}", field.name, field.logical_type)
        })
        .collect();
    fields.join(", ")
}

fn show(statement: &Statement) -> String {
    let mut lines = Vec::new();
    match statement {
        Statement::Select(plan) => node(plan, 0, &mut lines),
        Statement::Inserts(inserts) => {
            for insert in inserts {
                let conflict = insert.on_conflict.map(|action| action.name());
                let conflict = conflict.map(|action| format!(" ON CONFLICT DO {action}"));
                lines.push(format!(
                    "Insert {}{}",
                    insert.table.descriptor.name,
                    conflict.unwrap_or_default()
                ));
                node(&insert.query, 1, &mut lines);
            }
        }
    }
    lines.join("\n")
}

fn list(expressions: &[Expression]) -> String {
    let expressions = expressions.iter().map(numbered);
    expressions.collect::<Vec<_>>().join(", ")
}

/// The expression with columns as `$index`, and constants without the casts that binding put around them.
fn numbered(expression: &Expression) -> String {
    let rename = &mut |part| match part {
        Expression::Cast {
            input,
            mode: CastMode::Fail,
            ..
        } if matches!(*input, Expression::Literal { .. }) => *input,
        Expression::Column {
            index,
            logical_type,
            ..
        } => Expression::column(index, format!("${index}"), logical_type),
        other => other,
    };
    expression.clone().transform(rename).to_string()
}

fn order(keys: &[SortKey]) -> String {
    let keys = keys.iter().map(|key| {
        let direction = if key.descending { "desc" } else { "asc" };
        let nulls = if key.nulls_first {
            "nulls first"
        } else {
            "nulls last"
        };
        format!("${} {direction} {nulls}", key.column)
    });
    keys.collect::<Vec<_>>().join(", ")
}

fn node(plan: &LogicalPlan, depth: usize, lines: &mut Vec<String>) {
    let line = match plan {
        LogicalPlan::Scan(scan) => format!("Scan {}", scan.table.descriptor.name),
        LogicalPlan::Values(values) => {
            let rows: Vec<String> = values
                .rows
                .iter()
                .map(|row| format!("({})", list(row)))
                .collect();
            format!("Values {}", rows.join(", "))
        }
        LogicalPlan::Project(project) => {
            let items = project.expressions.iter().zip(project.schema.names());
            let items = items.map(|(expression, name)| match numbered(expression) {
                text if text == name => text,
                text => format!("{text} AS {name}"),
            });
            format!("Project {}", items.collect::<Vec<_>>().join(", "))
        }
        LogicalPlan::Filter(filter) => format!("Filter {}", numbered(&filter.condition)),
        LogicalPlan::Unnest(unnest) => format!(
            "Unnest {}{}{}",
            numbered(&unnest.collection),
            if unnest.outer { " outer" } else { "" },
            if unnest.with_ordinality {
                " ordinality"
            } else {
                ""
            }
        ),
        LogicalPlan::Union(_) => "Union".to_string(),
        LogicalPlan::WindowTableFunction(function) => format!(
            "Window {} offset {} on ${} by {:?} {:?}",
            function.window.kind,
            function.window.offset_ms,
            function.time_column,
            function.partition_by,
            function.window.time
        ),
        LogicalPlan::Aggregate(aggregate) => {
            let calls: Vec<String> = aggregate
                .aggregates
                .iter()
                .map(|call| call.to_string())
                .collect();
            let mut text = format!("Aggregate by {:?}", aggregate.grouping);
            if !aggregate.grouping_sets.is_empty() {
                text += &format!(" sets {:?}", aggregate.grouping_sets);
            }
            if let Some(legacy) = &aggregate.legacy_window {
                text += &format!(" window {} on ${}", legacy.window.kind, legacy.time_column);
            }
            if !calls.is_empty() {
                text += &format!(" calls {}", calls.join(", "));
            }
            text
        }
        LogicalPlan::RowNumber(number) => format!(
            "RowNumber {} by {:?} order {}",
            number.name,
            number.partition_by,
            order(&number.order_by)
        ),
        LogicalPlan::Join(join) => {
            let as_of = join.as_of.map(|column| format!(" as of ${column}"));
            format!(
                "Join {:?} {}{}",
                join.kind,
                numbered(&join.condition),
                as_of.unwrap_or_default()
            )
        }
        LogicalPlan::Match(found) => format!(
            "Match by {:?} order {} {:?}",
            found.partition_by,
            order(&found.order_by),
            found.pattern
        ),
        LogicalPlan::Over(over) => {
            let calls = over.calls.iter().map(|call| call.to_string());
            format!(
                "Over by {:?} order {} {:?} calls {}",
                over.partition_by,
                order(&over.order_by),
                over.frame,
                calls.collect::<Vec<_>>().join(", ")
            )
        }
        LogicalPlan::Sort(sort) => format!(
            "Sort {} offset {} fetch {:?}",
            order(&sort.order_by),
            sort.offset,
            sort.fetch
        ),
        LogicalPlan::SetOperation(operation) => {
            let all = if operation.all { " all" } else { "" };
            format!("{:?}{all}", operation.kind)
        }
    };
    lines.push(format!("{}{line}", "  ".repeat(depth)));
    plan.inputs()
        .into_iter()
        .for_each(|input| node(input, depth + 1, lines));
}
