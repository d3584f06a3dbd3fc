//! Which fields of ROW columns are read.

use super::*;
use crate::plan::nodes::TableSourceScanNode;
use crate::sql::{Session, StatementResult};

const COLUMNS: &str = "k STRING, r ROW<a BIGINT, b STRING, c ROW<x BIGINT NOT NULL, y STRING> NOT NULL, tags ARRAY<STRING>>";

/// The plan of a statement over a table `t` of the columns above and `more`, and a sink `s` of two BIGINTs.
fn plan_of(sql: &str, more: &str, options: &str) -> Result<ExecPlan> {
    let mut session = Session::new(connectors());
    session.config.set("parallelism.default", "1").unwrap();
    for ddl in [
        &format!("CREATE TABLE t ({COLUMNS}{more}) WITH ({options})"),
        "CREATE TABLE s (a BIGINT, b BIGINT) WITH ('connector' = 'nowhere')",
    ] {
        session.execute(ddl).unwrap();
    }
    let StatementResult::Job(statement) = session.execute(sql).unwrap() else {
        panic!("{sql} is no job");
    };
    plan_statement(&statement, &session.config, &session.connectors, None)
}

const BY_NAME: &str = "'connector' = 'by-name'";

fn tree(sql: &str) -> String {
    without_heading(&shown(&plan_of(sql, "", BY_NAME).unwrap(), false))
}

/// The only scan of a plan.
fn scan_of(plan: &ExecPlan) -> &TableSourceScanNode {
    let mut scans = plan.nodes.iter().filter_map(|node| match &node.kind {
        ExecNodeKind::TableSourceScan(scan) => Some(scan),
        _ => None,
    });
    let scan = scans.next().unwrap();
    assert!(scans.next().is_none(), "one scan");
    scan
}

/// The type of `r` that the connector is asked for.
fn asked(sql: &str) -> String {
    let plan = plan_of(sql, "", BY_NAME).unwrap();
    scan_of(&plan).table.physical.fields[1]
        .logical_type
        .to_string()
}

/// How often a plan takes which field of what type.
fn accesses(plan: &ExecPlan) -> Vec<(String, usize, String)> {
    let mut accesses = Vec::new();
    for expression in plan.nodes.iter().flat_map(|node| node.kind.expressions()) {
        expression.walk(&mut |part| {
            if let Expression::FieldAccess {
                field,
                logical_type,
                ..
            } = part
            {
                accesses.push((part.to_string(), *field, logical_type.to_string()));
            }
        });
    }
    accesses
}

#[test]
fn only_the_field_that_is_read_is_asked_for() {
    let sql = "SELECT r.b FROM t WHERE k = 'a'";
    check(
        &tree(sql),
        "
        Calc(select=[r.b AS b], where=[(k = 'a')])
        +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, r.b])
    ",
    );
    assert_eq!(asked(sql), "ROW<`b` STRING>");
    assert_eq!(
        accesses(&plan_of(sql, "", BY_NAME).unwrap()),
        [("r.b".to_string(), 0, "STRING".to_string())]
    );
}

#[test]
fn fields_of_fields_are_left_out_too_and_nullability_stays() {
    let sql = "SELECT r.c.x, r.a FROM t";
    check(
        &tree(sql),
        "
        Calc(select=[r.c.x AS x, r.a AS a])
        +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[r.a, r.c.x])
    ",
    );
    assert_eq!(
        asked(sql),
        "ROW<`a` BIGINT, `c` ROW<`x` BIGINT NOT NULL> NOT NULL>"
    );
    // The column may be NULL, and then its fields are.
    assert_eq!(
        accesses(&plan_of(sql, "", BY_NAME).unwrap()),
        [
            ("r.c.x".to_string(), 0, "BIGINT".to_string()),
            ("r.c".to_string(), 1, "ROW<`x` BIGINT NOT NULL>".to_string()),
            ("r.a".to_string(), 0, "BIGINT".to_string()),
        ]
    );
}

#[test]
fn users_of_a_shared_scan_get_the_fields_of_all() {
    let sql = "SELECT r.a FROM t UNION ALL SELECT r.c.x FROM t WHERE r.b = 'b'";
    check(
        &tree(sql),
        "
        Union(all=[true], union=[a])
        :- Calc(select=[r.a AS a])
        :  +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[r.a, r.b, r.c.x])(reuse_id=[1])
        +- Calc(select=[r.c.x AS x], where=[(r.b = 'b')])
           +- Reused(reference_id=[1])
    ",
    );
}

#[test]
fn a_row_that_is_read_whole_keeps_all_fields() {
    let whole = asked("SELECT * FROM t");
    assert!(whole.contains("`tags`"), "{whole}");
    let windowed = "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end";
    for sql in [
        "SELECT r, r.a FROM t",
        "SELECT r.a FROM t WHERE r IS NULL",
        "SELECT r.a FROM t UNION ALL SELECT a FROM (SELECT r, k, 1 AS a FROM t) WHERE r IS NOT NULL",
        &format!("SELECT COUNT(r.a), COUNT(r) {windowed}"),
        &format!("SELECT COUNT(r.a), r {windowed}, r"),
    ] {
        let plan = plan_of(sql, TIMES, BY_NAME).unwrap();
        let r = &scan_of(&plan).table.physical.fields[1];
        assert_eq!(r.logical_type.to_string(), whole, "{sql}");
    }
    assert_eq!(
        asked("SELECT r.c FROM t"),
        "ROW<`c` ROW<`x` BIGINT NOT NULL, `y` STRING> NOT NULL>"
    );
}

#[test]
fn collections_are_unnested_from_narrowed_rows() {
    let sql = "SELECT r.a, tag FROM t CROSS JOIN UNNEST(r.tags) AS u(tag)";
    let plan = plan_of(sql, "", BY_NAME).unwrap();
    assert_eq!(
        scan_of(&plan).table.physical.fields[1]
            .logical_type
            .to_string(),
        "ROW<`a` BIGINT, `tags` ARRAY<STRING>>"
    );
    let correlate = plan
        .nodes
        .iter()
        .find(|node| matches!(node.kind, ExecNodeKind::Correlate(_)))
        .unwrap();
    let input = plan.node(correlate.inputs[0]);
    assert_eq!(
        &correlate.schema.fields[..input.schema.len()],
        &input.schema.fields[..]
    );
}

const TIMES: &str = ", e ROW<id BIGINT, at TIMESTAMP(3), note STRING>, ts AS e.at, \
                     WATERMARK FOR ts AS ts - INTERVAL '1' SECOND";

#[test]
fn computed_columns_and_windows_read_fields() {
    let sql = "SELECT e.note, r.a, window_start FROM (SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '10' SECOND)))";
    let plan = plan_of(sql, TIMES, BY_NAME).unwrap();
    check(
        &without_heading(&shown(&plan, false)),
        "
        Calc(select=[e.note AS note, r.a AS a, window_start])
        +- WindowTableFunction(window=[TUMBLE(time_col=[ts], size=[10 s])])
           +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 1000:INTERVAL DAY TO SECOND)])
              +- Calc(select=[r, e, e.at AS ts])
                 +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[r.a, e.at, e.note])
    ",
    );
    // Every node on the way has the narrowed types.
    for node in &plan.nodes[..4] {
        let e = node.schema.index_of("e").unwrap();
        assert_eq!(
            node.schema.fields[e].logical_type.to_string(),
            "ROW<`at` TIMESTAMP(3), `note` STRING>",
            "{}",
            node.kind.name()
        );
    }
}

#[test]
fn which_fields_of_rows_are_held_is_no_part_of_the_uid() {
    let uids = |field: &str| -> Vec<String> {
        let sql = format!(
            "SELECT e.{field} FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '10' SECOND))"
        );
        let plan = plan_of(&sql, TIMES, BY_NAME).unwrap();
        let holder = |node: &&ExecNode| matches!(node.kind, ExecNodeKind::WindowTableFunction(_));
        plan.nodes
            .iter()
            .filter(holder)
            .map(|node| node.uid.clone())
            .collect()
    };
    assert_eq!(uids("id").len(), 1);
    // The rows of a state are brought into the form that is asked for, or refused with their types.
    assert_eq!(uids("id"), uids("note"));
}

#[test]
fn a_connector_that_reads_fields_by_position_gets_all_of_them() {
    let plan = plan_of("SELECT r.b FROM t", "", "'connector' = 'nowhere'").unwrap();
    let text = shown(&plan, false);
    assert!(text.contains("fields=[r])"), "{text}");
    assert!(scan_of(&plan).narrowed.is_empty());
    assert_eq!(accesses(&plan)[0].1, 1);
}

#[test]
fn the_connector_sees_the_table_as_declared() {
    let options = format!("{BY_NAME}, 'refused' = 'there is no field a'");
    let error = plan_of("SELECT r.b FROM t", "", &options).unwrap_err();
    assert!(error.to_string().contains("there is no field a"), "{error}");
}
