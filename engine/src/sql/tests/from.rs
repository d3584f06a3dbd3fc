//! FROM: aliases, hints, views, UNNEST.

use crate::plan::logical::{LogicalPlan, Statement};
use crate::sql::StatementResult;
use crate::sql::test_session::*;

#[test]
fn aliases_rename_tables_and_columns() {
    assert_eq!(
        schema("SELECT p.n, m FROM person AS p (n, m, t)"),
        "n BIGINT NOT NULL, m STRING"
    );
    refused(
        "SELECT person.id FROM person AS p",
        "person.id",
        &["no table or column \"person\""],
    );
    refused(
        "SELECT * FROM person AS p (a)",
        "p (a)",
        &["names 1 columns, but there are 3"],
    );
}

#[test]
fn options_hints_are_merged_and_checked() {
    let result = session()
        .execute("SELECT * FROM bid /*+ OPTIONS('rows' = '7') */ AS b")
        .unwrap();
    let StatementResult::Job(Statement::Select(LogicalPlan::Scan(scan))) = result else {
        panic!("{result:?}");
    };
    assert_eq!(scan.table.descriptor.option("rows"), Some("7"));
    assert_eq!(scan.table.descriptor.option("connector"), Some("memory"));
    refused(
        "SELECT * FROM bid /*+ OPTIONS('row' = '7') */",
        "bid",
        &["has no option 'row'", "did you mean 'rows'?"],
    );
}

#[test]
fn other_hints_are_refused() {
    refused(
        "SELECT /*+ BROADCAST(b) */ * FROM bid b",
        "/*+",
        &["the hint BROADCAST is not supported"],
    );
    refused(
        "SELECT * FROM bid /*+ STATE_TTL('bid' = '1d') */",
        "/*+",
        &["STATE_TTL"],
    );
    refused(
        "SELECT * FROM bid /*+ OPTION('a' = 'b') */",
        "/*+",
        &["no hint OPTION", "OPTIONS("],
    );
    refused(
        "SELECT * FROM bid AS b /*+ OPTIONS('rows' = '7') */",
        "/*+",
        &["does not follow a table"],
    );
    refused(
        "SELECT auction /*+ OPTIONS('rows' = '7') */ FROM bid",
        "/*+",
        &["does not follow a table"],
    );
    refused(
        "SELECT * FROM bid /*+ OPTIONS(rows = 7) */",
        "/*+",
        &["pairs of strings"],
    );
}

#[test]
fn hints_work_in_window_functions_and_views() {
    let mut session = session();
    session
        .execute("CREATE VIEW v AS SELECT auction FROM bid /*+ OPTIONS('rows' = '7') */")
        .unwrap();
    let text = format!("{:?}", session.execute("SELECT * FROM v").unwrap());
    assert!(text.contains("\"rows\": \"7\""), "{text}");
    let sql = "SELECT * FROM TUMBLE(TABLE bid /*+ OPTIONS('rows' = '7') */, DESCRIPTOR(ts), INTERVAL '1' MINUTE)";
    let text = format!("{:?}", session.execute(sql).unwrap());
    assert!(text.contains("\"rows\": \"7\""), "{text}");
    let refusal = session
        .execute("SELECT * FROM v /*+ OPTIONS('rows' = '7') */")
        .unwrap_err();
    assert!(refusal.to_string().contains("is a view"), "{refusal}");
}

#[test]
fn views_are_bound_where_they_are_used() {
    let mut session = session();
    session
        .execute("CREATE VIEW v (a, t) AS SELECT auction, ts FROM bid WHERE auction > 1")
        .unwrap();
    assert_eq!(
        plan_in(&mut session, "SELECT * FROM v WHERE a < 9"),
        "Filter ($0 < 9)\n  Project $0 AS a, $1 AS t\n    Project $0 AS auction, $3 AS ts\n      Filter ($0 > 1)\n        Scan bid"
    );
    plan_in(
        &mut session,
        "SELECT COUNT(*) FROM TUMBLE(TABLE v, DESCRIPTOR(t), INTERVAL '1' MINUTE) GROUP BY window_start, window_end",
    );
    session.execute("DROP TABLE bid").unwrap();
    let refusal = session.execute("SELECT *\nFROM v").unwrap_err();
    assert!(
        refusal.to_string().contains("while reading the view \"v\""),
        "{refusal}"
    );
    assert_eq!(
        refusal.position().map(|place| (place.line, place.column)),
        Some((2, 6))
    );
}

#[test]
fn a_view_cannot_refer_to_itself() {
    let mut session = session();
    session
        .execute("CREATE VIEW v AS SELECT auction FROM bid")
        .unwrap();
    session
        .execute("CREATE TEMPORARY VIEW v AS SELECT auction FROM v")
        .unwrap();
    let refusal = session.execute("SELECT * FROM v").unwrap_err();
    assert!(
        refusal.to_string().contains("refers to itself"),
        "{refusal}"
    );
}

#[test]
fn unnest_reads_columns_to_its_left() {
    let expected = "Project $0 AS auction, $6 AS tag\n  Unnest $4\n    Scan bid";
    for sql in [
        "SELECT auction, tag FROM bid AS b CROSS JOIN UNNEST(b.tags) AS t (tag)",
        "SELECT auction, tag FROM bid, UNNEST(tags) AS t (tag)",
        "SELECT auction, tag FROM bid JOIN UNNEST(tags) AS t (tag) ON TRUE",
        "SELECT auction, t.tag FROM bid CROSS JOIN UNNEST(bid.tags) AS t (tag)",
    ] {
        assert_eq!(plan(sql), expected, "{sql}");
    }
    assert_eq!(
        plan("SELECT auction, t FROM bid LEFT JOIN UNNEST(tags) AS t ON TRUE"),
        "Project $0 AS auction, $6 AS t\n  Unnest $4 outer\n    Scan bid"
    );
    assert_eq!(
        schema("SELECT tag, n FROM bid CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, n)"),
        "tag STRING, n INT NOT NULL"
    );
    assert_eq!(
        schema("SELECT * FROM UNNEST(ARRAY[ROW(1, 'a')]) AS t (n, s)"),
        "n INT NOT NULL, s CHAR(1) NOT NULL"
    );
    assert_eq!(
        schema("SELECT * FROM UNNEST(MAP['a', 1]) AS t (k, v)"),
        "k CHAR(1) NOT NULL, v INT NOT NULL"
    );
    refused(
        "SELECT * FROM bid, UNNEST(auction) AS t (x)",
        "auction",
        &["ARRAY, MAP or MULTISET, not BIGINT"],
    );
    refused(
        "SELECT * FROM bid LEFT JOIN UNNEST(tags) AS t (x) ON t.x = 'a'",
        "UNNEST",
        &["no condition but ON TRUE"],
    );
}
