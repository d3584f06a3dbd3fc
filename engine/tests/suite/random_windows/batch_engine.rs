//! DataFusion's hash aggregation over the rows that counted, where its types agree with Flink's.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use arrow::array::{ArrayRef, RecordBatch};
use datafusion_common::Result;
use datafusion_expr::AggregateUDF;
use datafusion_functions_aggregate::average::avg_udaf;
use datafusion_functions_aggregate::count::count_udaf;
use datafusion_functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion_functions_aggregate::sum::sum_udaf;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::aggregate::AggregateExprBuilder;
use datafusion_physical_expr::expressions::{Column, lit};
use datafusion_physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion_physical_plan::collect;
use datafusion_physical_plan::test::TestMemoryExec;
use volley::testing::cell::{Value, build_array, value_at};
use volley::testing::twin::{TwinAggregate, TwinFunction};
use volley::types::{Field, LogicalType, Schema, TypeRoot};

use super::query::{Aggregate, Query, frames};
use super::scenario::{Scenario, Setting};

type Rows = Vec<Vec<Value>>;

/// The twin's rows and DataFusion's for the aggregates on whose types both agree; `None` where there is none.
pub(super) fn aggregate(scenario: &Scenario) -> Option<(Rows, Rows)> {
    let Query::Aggregate(aggregate) = &scenario.query else {
        return None;
    };
    let agreeing: Vec<usize> = (0..aggregate.calls.len())
        .filter(|call| agrees(&aggregate.calls[*call], &scenario.setting))
        .collect();
    if agreeing.is_empty() || !aggregate.sets.is_empty() {
        return None;
    }
    let keys = 2 + aggregate.key.len();
    let kept = |row: &Vec<Value>| {
        let mut cells = row[..keys].to_vec();
        cells.extend(agreeing.iter().map(|call| row[keys + call].clone()));
        cells
    };
    let expected: Rows = scenario.expected.iter().map(kept).collect();
    let actual = run(scenario, aggregate, &agreeing).expect("DataFusion aggregates");
    Some((expected, actual))
}

fn agrees(call: &TwinAggregate, setting: &Setting) -> bool {
    let root = call
        .column
        .map(|column| &setting.columns[column].logical_type.root);
    match call.function {
        TwinFunction::Count => true,
        TwinFunction::Min | TwinFunction::Max => !call.distinct,
        TwinFunction::Sum { .. } => {
            matches!(
                root,
                Some(TypeRoot::BigInt | TypeRoot::Double | TypeRoot::Decimal { .. })
            ) && !call.distinct
        }
        TwinFunction::Avg { .. } => matches!(root, Some(TypeRoot::Double)) && !call.distinct,
    }
}

/// The rows that counted, once a window: window_start, window_end, then the columns of the table.
fn input(scenario: &Scenario) -> (Schema, RecordBatch) {
    let mut rows: Vec<Vec<Value>> = Vec::new();
    for frame in &frames(&scenario.query, &scenario.setting, &scenario.rows).frames {
        for row in &frame.rows {
            let window = [frame.window.start, frame.window.end].map(Value::timestamp_millis);
            rows.push([window.to_vec(), scenario.rows[*row].cells.clone()].concat());
        }
    }
    let bound = LogicalType::nullable(TypeRoot::Timestamp(3));
    let mut fields = vec![
        Field::new("window_start", bound.clone()),
        Field::new("window_end", bound),
    ];
    let columns = &scenario.setting.columns;
    fields.extend(
        columns
            .iter()
            .map(|column| Field::new(&column.name, column.logical_type.clone())),
    );
    let schema = Schema::new(fields);
    let arrays = (0..schema.len())
        .map(|column| {
            let values: Vec<&Value> = rows.iter().map(|row| &row[column]).collect();
            build_array(&values, &schema.fields[column].logical_type).unwrap()
        })
        .collect::<Vec<ArrayRef>>();
    let batch = RecordBatch::try_new(schema.to_arrow(), arrays).unwrap();
    (schema, batch)
}

fn run(scenario: &Scenario, aggregate: &Aggregate, calls: &[usize]) -> Result<Rows> {
    let (schema, batch) = input(scenario);
    let arrow_schema = batch.schema();
    let column = |index: usize| -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new(&schema.fields[index].name, index))
    };
    let mut group: Vec<usize> = vec![0, 1];
    group.extend(aggregate.key.iter().map(|key| key + 2));
    let keys = group
        .iter()
        .map(|index| (column(*index), schema.fields[*index].name.clone()));
    let (mut functions, mut filters) = (Vec::new(), Vec::new());
    for index in calls {
        let call = &aggregate.calls[*index];
        let argument = call
            .column
            .map_or_else(|| lit(1i64), |index| column(index + 2));
        let function = AggregateExprBuilder::new(udaf(call.function), vec![argument])
            .schema(arrow_schema.clone())
            .alias(format!("a{index}"))
            .with_distinct(call.distinct)
            .build()?;
        functions.push(Arc::new(function));
        filters.push(call.filter.map(|index| column(index + 2)));
    }
    let source = TestMemoryExec::try_new_exec(&[vec![batch]], arrow_schema.clone(), None)?;
    let grouping = PhysicalGroupBy::new_single(keys.collect());
    let plan = AggregateExec::try_new(
        AggregateMode::Single,
        grouping,
        functions,
        filters,
        source,
        arrow_schema,
    )?;
    let batches = wait(collect(Arc::new(plan), Default::default()))?;
    let types = result_types(scenario, aggregate, calls, &group, &schema);
    let rows = batches.iter().flat_map(|batch| {
        let types = &types;
        (0..batch.num_rows()).map(move |row| {
            let cells = types.iter().enumerate();
            cells
                .map(|(index, logical_type)| value_at(batch.column(index), row, logical_type))
                .collect()
        })
    });
    Ok(rows.collect())
}

fn udaf(function: TwinFunction) -> Arc<AggregateUDF> {
    match function {
        TwinFunction::Count => count_udaf(),
        TwinFunction::Sum { .. } => sum_udaf(),
        TwinFunction::Avg { .. } => avg_udaf(),
        TwinFunction::Min => min_udaf(),
        TwinFunction::Max => max_udaf(),
    }
}

fn result_types(
    scenario: &Scenario,
    aggregate: &Aggregate,
    calls: &[usize],
    group: &[usize],
    schema: &Schema,
) -> Vec<LogicalType> {
    let keys = group
        .iter()
        .map(|index| schema.fields[*index].logical_type.clone());
    let results = calls.iter().map(|index| {
        let call = &aggregate.calls[*index];
        match (call.function, call.column) {
            (TwinFunction::Count, _) | (_, None) => LogicalType::BIGINT,
            (_, Some(column)) => scenario.setting.columns[column].logical_type.clone(),
        }
    });
    keys.chain(results).collect()
}

/// Runs a future that never waits for anything outside.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}
