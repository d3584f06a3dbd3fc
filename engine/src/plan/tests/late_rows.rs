//! The sink of late rows.

use super::*;

fn late(physical: Schema) -> Arc<TableSpec> {
    let mut table = table("late");
    table.descriptor.physical = physical;
    Arc::new(table)
}

#[test]
fn the_sink_stands_beside_the_plan() {
    let statement = Statement::Select(counted(scan(table("t"))));
    let plan = plan_statement(
        &statement,
        &config(&[]),
        &connectors(),
        Some(late(late_rows_schema())),
    )
    .unwrap();
    let sink = plan.node(plan.late_rows_sink.unwrap());
    assert_eq!(sink.kind.name(), "LateRowsSink");
    assert!(sink.inputs.is_empty() && !plan.roots.contains(&sink.id));
}

#[test]
fn a_table_of_other_columns_is_refused() {
    let statement = Statement::Select(counted(scan(table("t"))));
    let other = late(table("late").descriptor.physical);
    let error = plan_statement(&statement, &config(&[]), &connectors(), Some(other))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(
            "(operator STRING, window_end TIMESTAMP(3), watermark TIMESTAMP(3), row STRING)"
        ),
        "{error}"
    );
}
