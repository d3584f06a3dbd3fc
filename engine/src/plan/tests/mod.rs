//! Plans as text: logical plans made by hand, and the trees that come out.

mod calcs;
mod changelog;
mod fields;
mod group_aggregates;
mod joins;
mod late_rows;
mod ranks;
mod shape;
mod sharing;
mod sources;
mod sql;
mod uids;
mod window_aggregates;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::logical::*;
use super::*;
use crate::config::{OptionSpec, OptionType, SessionConfig};
use crate::connectors::factory::{ConnectorFactory, ConnectorRegistry, TableDescriptor};
use crate::connectors::{Committable, Sink, SinkWriter, Source, SourceReader, SplitState};
use crate::error::{Error, Result};
use crate::expr::{Expression, Literal, Position};
use crate::functions::AggregateCall;
use crate::operators::Subtask;
use crate::types::{
    ChangelogMode, Field, LogicalType, Schema, SortKey, SqlPosition, TimeAttribute, TypeRoot,
};
use crate::window::{WindowKind, WindowSpec, WindowTime};

/// Tables of a connector that reads and writes nothing.
struct Nowhere {
    name: &'static str,
    single: bool,
}

struct NoSink {
    single: bool,
}

impl Sink for NoSink {
    fn writer(&self, _: Subtask) -> Result<Box<dyn SinkWriter>> {
        Err(Error::unsupported("writing nowhere"))
    }
    fn commit(&self, _: &[Committable]) -> Result<()> {
        Ok(())
    }
    fn is_single(&self) -> bool {
        self.single
    }
}

struct NoSource;

impl Source for NoSource {
    fn is_bounded(&self) -> bool {
        true
    }
    fn splits(&self) -> Result<Vec<SplitState>> {
        Ok(vec![])
    }
    fn reader(&self) -> Result<Box<dyn SourceReader>> {
        Err(Error::unsupported("reading from nowhere"))
    }
}

impl ConnectorFactory for Nowhere {
    fn identifier(&self) -> &'static str {
        self.name
    }
    fn options(&self, _: &TableDescriptor) -> Vec<OptionSpec> {
        vec![
            OptionSpec::new("connector", OptionType::Text, None, "The connector."),
            OptionSpec::new("refused", OptionType::Text, None, "Why it is no table."),
            OptionSpec::new("changelog-mode", OptionType::Text, None, "The mode."),
            OptionSpec::new("scan.watermark.*", OptionType::Text, None, "Watermarks."),
        ]
    }
    fn source_changelog_mode(&self, descriptor: &TableDescriptor) -> Result<ChangelogMode> {
        Ok(mode(descriptor))
    }
    fn sink_changelog_mode(&self, descriptor: &TableDescriptor) -> Result<ChangelogMode> {
        Ok(mode(descriptor))
    }
    fn projects_fields(&self, _: &TableDescriptor) -> bool {
        self.name == "by-name"
    }
    fn create_source(&self, descriptor: &TableDescriptor) -> Result<Arc<dyn Source>> {
        match descriptor.option("refused") {
            Some(reason) => Err(Error::user(reason)),
            None => Ok(Arc::new(NoSource)),
        }
    }
    fn create_sink(&self, _: &TableDescriptor) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(NoSink {
            single: self.single,
        }))
    }
}

fn mode(descriptor: &TableDescriptor) -> ChangelogMode {
    match descriptor.option("changelog-mode") {
        Some("retract") => ChangelogMode::RETRACT,
        Some("upsert") => ChangelogMode::UPSERT,
        _ => ChangelogMode::INSERT_ONLY,
    }
}

fn connectors() -> ConnectorRegistry {
    let mut registry = ConnectorRegistry::default();
    for (name, single) in [("nowhere", false), ("terminal", true), ("by-name", false)] {
        registry.register(Arc::new(Nowhere { name, single }));
    }
    registry
}

/// `t (k STRING, v BIGINT, w BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - …)`.
fn table(name: &str) -> TableSpec {
    let physical = Schema::new(vec![
        Field::new("k", LogicalType::STRING),
        Field::new("v", LogicalType::BIGINT),
        Field::new("w", LogicalType::BIGINT),
        Field::new("ts", LogicalType::nullable(TypeRoot::Timestamp(3))),
    ]);
    let mut columns: Vec<ColumnSpec> = physical
        .fields
        .iter()
        .map(|field| ColumnSpec {
            field: field.clone(),
            computed: None,
        })
        .collect();
    columns[3].field.time_attribute = Some(TimeAttribute::Rowtime);
    let time = column(&physical, "ts");
    let delay = Expression::literal(
        Literal::Integer(5000),
        LogicalType::not_null(TypeRoot::IntervalDayTime),
    );
    TableSpec {
        descriptor: TableDescriptor {
            name: name.to_string(),
            projection: (0..physical.len()).collect(),
            physical,
            primary_key: vec![],
            options: BTreeMap::from([("connector".to_string(), "nowhere".to_string())]),
            time_zone: "UTC".to_string(),
        },
        columns,
        watermark: Some(WatermarkSpec {
            column: 3,
            expression: Expression::call(
                "-",
                vec![time.clone(), delay],
                time.logical_type().clone(),
            ),
        }),
    }
}

/// The same with an option.
fn with_option(mut table: TableSpec, key: &str, value: &str) -> TableSpec {
    table
        .descriptor
        .options
        .insert(key.to_string(), value.to_string());
    table
}

/// A sink whose physical columns are those of a query.
fn sink(name: &str, query: &LogicalPlan) -> TableSpec {
    let mut table = table(name);
    table.descriptor.physical = Schema::new(
        query
            .schema()
            .fields
            .into_iter()
            .map(|field| Field::new(field.name, field.logical_type))
            .collect(),
    );
    table.descriptor.projection = (0..table.descriptor.physical.len()).collect();
    table.columns = vec![];
    table.watermark = None;
    table
}

fn at(line: u64, column: u64) -> Position {
    Position(Some(SqlPosition { line, column }))
}

fn scan(table: TableSpec) -> LogicalPlan {
    LogicalPlan::Scan(Scan {
        table: Arc::new(table),
        position: at(1, 1),
    })
}

fn column(schema: &Schema, name: &str) -> Expression {
    let index = schema
        .index_of(name)
        .unwrap_or_else(|| panic!("no column {name}"));
    Expression::column(index, name, schema.fields[index].logical_type.clone())
}

fn number(value: i64) -> Expression {
    Expression::literal(
        Literal::Integer(value),
        LogicalType::not_null(TypeRoot::BigInt),
    )
}

fn call(function: &str, left: Expression, right: Expression) -> Expression {
    let logical_type = match function {
        "+" | "-" | "*" | "/" => left.logical_type().clone(),
        _ => LogicalType::BOOLEAN,
    };
    Expression::call(function, vec![left, right], logical_type)
}

/// A name and what makes its expression.
type Column<'a> = (&'a str, &'a dyn Fn(&Schema) -> Expression);

/// SELECT expressions; a bare column keeps its time attribute.
fn select(input: LogicalPlan, columns: &[Column]) -> LogicalPlan {
    let below = input.schema();
    let expressions: Vec<Expression> = columns.iter().map(|(_, make)| make(&below)).collect();
    let fields = columns
        .iter()
        .zip(&expressions)
        .map(|((name, _), expression)| {
            let attribute = match expression {
                Expression::Column { index, .. } => below.fields[*index].time_attribute,
                _ => None,
            };
            Field::new(*name, expression.logical_type().clone()).with_time_attribute(attribute)
        });
    LogicalPlan::Project(Project {
        schema: Schema::new(fields.collect()),
        input: Box::new(input),
        expressions,
    })
}

/// SELECT of bare columns by name.
fn columns(input: LogicalPlan, names: &[&str]) -> LogicalPlan {
    let below = input.schema();
    let expressions: Vec<Expression> = names.iter().map(|name| column(&below, name)).collect();
    let fields = names
        .iter()
        .map(|name| below.fields[below.index_of(name).unwrap()].clone());
    LogicalPlan::Project(Project {
        schema: Schema::new(fields.collect()),
        input: Box::new(input),
        expressions,
    })
}

fn filter(input: LogicalPlan, condition: impl Fn(&Schema) -> Expression) -> LogicalPlan {
    let condition = condition(&input.schema());
    LogicalPlan::Filter(Filter {
        input: Box::new(input),
        condition,
    })
}

const SECOND: i64 = 1000;

fn window(kind: WindowKind) -> WindowSpec {
    WindowSpec {
        kind,
        offset_ms: 0,
        time: WindowTime::EventTimestamp,
    }
}

fn tumble_10s() -> WindowSpec {
    window(WindowKind::Tumble {
        size_ms: 10 * SECOND,
    })
}

fn windowed(input: LogicalPlan, window: WindowSpec, time: &str) -> LogicalPlan {
    let time_column = input.schema().index_of(time).unwrap();
    LogicalPlan::WindowTableFunction(WindowTableFunction {
        input: Box::new(input),
        window,
        time_column,
        partition_by: vec![],
        position: at(1, 20),
    })
}

fn tumbled(input: LogicalPlan) -> LogicalPlan {
    windowed(input, tumble_10s(), "ts")
}

fn aggregate_call(
    schema: &Schema,
    function: &str,
    argument: Option<&str>,
    name: &str,
) -> AggregateCall {
    let arguments: Vec<usize> = argument
        .map(|name| schema.index_of(name).unwrap())
        .into_iter()
        .collect();
    AggregateCall {
        function: function.to_string(),
        argument_types: arguments
            .iter()
            .map(|column| schema.fields[*column].logical_type.clone())
            .collect(),
        arguments,
        distinct: false,
        filter: None,
        logical_type: LogicalType::BIGINT,
        name: name.to_string(),
    }
}

/// GROUP BY `keys` with `(function, argument, name)` aggregates.
fn aggregated(
    input: LogicalPlan,
    keys: &[&str],
    calls: &[(&str, Option<&str>, &str)],
) -> Aggregate {
    let schema = input.schema();
    Aggregate {
        grouping: keys
            .iter()
            .map(|name| {
                schema
                    .index_of(name)
                    .unwrap_or_else(|| panic!("no column {name}"))
            })
            .collect(),
        grouping_sets: vec![],
        aggregates: calls
            .iter()
            .map(|(function, argument, name)| aggregate_call(&schema, function, *argument, name))
            .collect(),
        legacy_window: None,
        state_ttl_ms: None,
        position: at(3, 7),
        input: Box::new(input),
    }
}

/// Counts rows and sums `v` by `k` in windows of 10 seconds.
fn counted(input: LogicalPlan) -> LogicalPlan {
    LogicalPlan::Aggregate(aggregated(
        tumbled(input),
        &["k", "window_start", "window_end"],
        &[("COUNT", None, "n"), ("SUM", Some("v"), "total")],
    ))
}

fn numbered(input: LogicalPlan, partition: &[&str], order: &[(&str, bool)]) -> LogicalPlan {
    let schema = input.schema();
    LogicalPlan::RowNumber(RowNumber {
        partition_by: partition
            .iter()
            .map(|name| schema.index_of(name).unwrap())
            .collect(),
        order_by: order
            .iter()
            .map(|(name, descending)| SortKey {
                column: schema.index_of(name).unwrap(),
                descending: *descending,
                nulls_first: !descending,
            })
            .collect(),
        name: "rn".to_string(),
        position: at(2, 9),
        input: Box::new(input),
    })
}

fn joined(
    kind: JoinKind,
    left: LogicalPlan,
    right: LogicalPlan,
    condition: impl Fn(&Schema, &Schema) -> Expression,
) -> LogicalPlan {
    let (left_schema, mut right_schema) = (left.schema(), right.schema());
    let width = left_schema.len();
    // Column expressions of the right side count from the joined row.
    for field in &mut right_schema.fields {
        field.time_attribute = None;
    }
    let condition = condition(&left_schema, &right_schema);
    LogicalPlan::Join(Join {
        left: Box::new(left),
        right: Box::new(right),
        kind,
        condition: shift_right(condition, width),
        as_of: None,
        state_ttl_ms: [None; 2],
        multi_join: false,
        lookup_hint: None,
        position: at(4, 3),
    })
}

/// Marks a column of the right side while a join condition is written.
fn of_right(expression: Expression) -> Expression {
    expression.transform(&mut |part| match part {
        Expression::Column {
            index,
            name,
            logical_type,
        } => Expression::column(index + 1000, name, logical_type),
        other => other,
    })
}

fn shift_right(condition: Expression, width: usize) -> Expression {
    condition.transform(&mut |part| match part {
        Expression::Column {
            index,
            name,
            logical_type,
        } if index >= 1000 => Expression::column(index - 1000 + width, name, logical_type),
        other => other,
    })
}

fn equal(left: &Schema, right: &Schema, name: &str) -> Expression {
    call("=", column(left, name), of_right(column(right, name)))
}

fn and(parts: Vec<Expression>) -> Expression {
    parts
        .into_iter()
        .reduce(|left, right| call("AND", left, right))
        .unwrap()
}

fn config(options: &[(&str, &str)]) -> SessionConfig {
    let mut config = SessionConfig::default();
    for (key, value) in options {
        config.set(key, value).unwrap();
    }
    config
}

fn planned(statement: Statement, options: &[(&str, &str)]) -> Result<ExecPlan> {
    plan_statement(&statement, &config(options), &connectors(), None)
}

fn insert(name: &str, query: LogicalPlan) -> Insert {
    Insert {
        table: Arc::new(sink(name, &query)),
        query,
        on_conflict: None,
        position: at(1, 13),
    }
}

/// EXPLAIN of a plan.
fn shown(plan: &ExecPlan, changelog_mode: bool) -> String {
    let details = ExplainDetails {
        changelog_mode,
        state: false,
    };
    explain(plan, &config(&[]), details)
}

/// EXPLAIN of a bare SELECT, without the heading.
fn explained(query: LogicalPlan) -> String {
    explained_with(query, &[])
}

fn explained_with(query: LogicalPlan, options: &[(&str, &str)]) -> String {
    without_heading(&shown(
        &planned(Statement::Select(query), options).unwrap(),
        false,
    ))
}

fn without_heading(text: &str) -> String {
    text.strip_prefix("== Optimized Execution Plan ==\n")
        .unwrap()
        .to_string()
}

fn refused(query: LogicalPlan) -> String {
    planned(Statement::Select(query), &[])
        .map(|plan| shown(&plan, false))
        .unwrap_err()
        .to_string()
}

/// Compares with a tree that is indented in the source.
fn check(actual: &str, expected: &str) {
    let lines: Vec<&str> = expected.trim_matches('\n').lines().collect();
    let indent = lines
        .iter()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start().len())
        .min()
        .unwrap_or(0);
    let expected: Vec<&str> = lines
        .iter()
        .map(|line| line.get(indent..).unwrap_or(""))
        .collect();
    let expected = expected.join("\n");
    assert_eq!(
        actual.trim_end(),
        expected.trim_end(),
        "\n--- actual ---\n{actual}\n--- expected ---\n{expected}\n"
    );
}
