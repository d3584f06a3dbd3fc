//! What is read of a table.

use super::*;

#[test]
fn computed_columns_stand_between_the_scan_and_the_watermark() {
    let mut spec = table("t");
    let physical = spec.descriptor.physical.clone();
    let double = call("*", column(&physical, "v"), number(2));
    spec.columns.insert(
        1,
        ColumnSpec {
            field: Field::new("d", LogicalType::BIGINT),
            computed: Some(double),
        },
    );
    let schema = spec.schema();
    let watermark = spec.watermark.as_mut().unwrap();
    watermark.column = 4;
    watermark.expression = column(&schema, "ts");
    let query = columns(scan(spec), &["d", "ts"]);
    check(
        &explained(query),
        "
        Calc(select=[d, ts])
        +- WatermarkAssigner(rowtime=[ts], watermark=[ts])
           +- Calc(select=[ts, (v * 2) AS d])
              +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[v, ts])
    ",
    );
}

#[test]
fn a_count_without_columns_still_reads_one() {
    let mut spec = table("t");
    spec.watermark = None;
    let query = select(scan(spec), &[("one", &|_| number(1))]);
    check(
        &explained(query),
        "
        Calc(select=[1 AS one])
        +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[v])
    ",
    );
}

#[test]
fn the_assigner_knows_its_options_and_who_reads_the_watermark() {
    let spec = with_option(table("t"), "scan.watermark.idle-timeout", "3 s");
    let query = select(
        scan(spec),
        &[("w", &|s| {
            Expression::call(
                "CURRENT_WATERMARK",
                vec![column(s, "ts")],
                LogicalType::nullable(TypeRoot::Timestamp(3)),
            )
        })],
    );
    let plan = planned(
        Statement::Select(query),
        &[("table.exec.source.idle-timeout", "7 s")],
    )
    .unwrap();
    let assigner = plan
        .nodes
        .iter()
        .find_map(|node| match &node.kind {
            ExecNodeKind::WatermarkAssigner(assigner) => Some(assigner),
            _ => None,
        })
        .unwrap();
    assert!(assigner.keeps_all_steps);
    assert_eq!(assigner.session_idle_timeout_ms, 7000);
    assert_eq!(assigner.options["scan.watermark.idle-timeout"], "3 s");
    assert_eq!(assigner.options.len(), 1);
}

#[test]
fn an_unknown_connector_is_refused_at_the_tables_place() {
    let error = refused(scan(with_option(table("t"), "connector", "kafkaesque")));
    assert!(
        error.contains("line 1, column 1")
            && error.contains("kafkaesque")
            && error.contains("nowhere"),
        "{error}"
    );
}
