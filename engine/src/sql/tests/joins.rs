//! Joins, USING, and semi and anti joins from IN and EXISTS.

use crate::sql::test_session::*;

#[test]
fn joins_have_their_kinds() {
    for (join, kind) in [
        ("JOIN", "Inner"),
        ("INNER JOIN", "Inner"),
        ("LEFT JOIN", "Left"),
        ("RIGHT OUTER JOIN", "Right"),
        ("FULL JOIN", "Full"),
    ] {
        assert_eq!(
            plan(&format!(
                "SELECT auction, name FROM bid {join} person ON bidder = id"
            )),
            format!(
                "Project $0 AS auction, $7 AS name\n  Join {kind} ($1 = $6)\n    Scan bid\n    Scan person"
            )
        );
    }
    let crossed =
        "Project $0 AS auction, $7 AS name\n  Join Inner TRUE\n    Scan bid\n    Scan person";
    assert_eq!(
        plan("SELECT auction, name FROM bid CROSS JOIN person"),
        crossed
    );
    assert_eq!(plan("SELECT auction, name FROM bid, person"), crossed);
}

#[test]
fn a_regular_join_loses_time_attributes_and_pads() {
    assert_eq!(
        schema("SELECT ts, id FROM bid LEFT JOIN person ON bidder = id"),
        "ts TIMESTAMP(3), id BIGINT"
    );
    refused(
        "SELECT * FROM TUMBLE(TABLE (SELECT ts FROM bid JOIN person ON bidder = id), DESCRIPTOR(ts), INTERVAL '1' DAY)",
        "DESCRIPTOR",
        &["plain TIMESTAMP(3)"],
    );
}

#[test]
fn using_merges_columns() {
    let from = "FROM (SELECT auction AS id, price FROM bid) AS b";
    assert_eq!(
        schema(&format!("SELECT * {from} JOIN person USING (id)")),
        "id BIGINT, price DECIMAL(10, 2), name STRING, born TIMESTAMP_LTZ(3)"
    );
    assert_eq!(
        plan(&format!("SELECT id {from} FULL JOIN person USING (id)"))
            .lines()
            .next(),
        Some("Project COALESCE($0, $2) AS id")
    );
    assert_eq!(
        plan(&format!(
            "SELECT id, b.id AS other {from} RIGHT JOIN person USING (id)"
        ))
        .lines()
        .next(),
        Some("Project $2 AS id, $0 AS other")
    );
    refused(
        &format!("SELECT * {from} JOIN person USING (nam)"),
        "nam)",
        &["\"nam\" of USING is not on the left side"],
    );
}

#[test]
fn names_in_joins_must_be_clear() {
    refused(
        "SELECT id FROM person AS a JOIN person AS b ON a.id = b.id",
        "id FROM",
        &[
            "column \"id\" is ambiguous: it is in a and in b",
            "write a.id",
        ],
    );
    refused(
        "SELECT * FROM person JOIN person ON TRUE",
        "person ON",
        &["stands twice in FROM"],
    );
    refused(
        "SELECT * FROM bid JOIN person",
        "person",
        &["has no condition"],
    );
    refused(
        "SELECT * FROM bid NATURAL JOIN person",
        "person",
        &["NATURAL JOIN"],
    );
    refused(
        "SELECT * FROM bid JOIN person ON bidder",
        "bidder",
        &["the condition of ON is BIGINT"],
    );
}

const WINDOWED: &str = "SELECT auction AS num, window_start, window_end, window_time FROM TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '5' MINUTE)";

#[test]
fn a_window_join_keeps_time_attributes() {
    let on = "l.num = r.num AND l.window_start = r.window_start AND l.window_end = r.window_end";
    assert_eq!(
        schema(&format!(
            "SELECT l.window_time FROM ({WINDOWED}) l JOIN ({WINDOWED}) r ON {on}"
        )),
        "window_time TIMESTAMP(3) NOT NULL *rowtime*"
    );
    assert_eq!(
        schema(&format!(
            "SELECT l.window_time FROM ({WINDOWED}) l JOIN ({WINDOWED}) r ON l.num = r.num"
        )),
        "window_time TIMESTAMP(3) NOT NULL"
    );
}

#[test]
fn in_and_exists_are_semi_and_anti_joins() {
    let first = |sql: String| {
        let text = plan(&sql);
        text.lines()
            .find(|line| line.contains("Join"))
            .unwrap()
            .trim()
            .to_string()
    };
    let bounds = "l.window_start = r.window_start AND l.window_end = r.window_end";
    let outer = format!("SELECT * FROM ({WINDOWED}) l WHERE");
    assert_eq!(
        first(format!(
            "{outer} l.num IN (SELECT num FROM ({WINDOWED}) r WHERE {bounds})"
        )),
        "Join Semi ((($0 = $4) AND ($1 = $5)) AND ($2 = $6))"
    );
    assert_eq!(
        first(format!(
            "{outer} EXISTS (SELECT * FROM ({WINDOWED}) r WHERE l.num = r.num AND {bounds})"
        )),
        "Join Semi ((($0 = $4) AND ($1 = $5)) AND ($2 = $6))"
    );
    assert_eq!(
        first(format!(
            "{outer} NOT EXISTS (SELECT * FROM ({WINDOWED}) r WHERE l.num = r.num AND {bounds})"
        )),
        "Join Anti ((($0 = $4) AND ($1 = $5)) AND ($2 = $6))"
    );
    assert_eq!(
        first(format!(
            "{outer} l.num NOT IN (SELECT num FROM ({WINDOWED}) r WHERE {bounds})"
        )),
        "Join Anti ((((($0 = $4) OR IS NULL($0)) OR IS NULL($4)) AND ($1 = $5)) AND ($2 = $6))"
    );
    assert_eq!(
        schema(&format!(
            "{outer} EXISTS (SELECT * FROM ({WINDOWED}) r WHERE l.num = r.num AND {bounds})"
        )),
        "num BIGINT, window_start TIMESTAMP(3) NOT NULL, window_end TIMESTAMP(3) NOT NULL, window_time TIMESTAMP(3) NOT NULL *rowtime*"
    );
}

#[test]
fn subqueries_filter_their_own_rows() {
    assert_eq!(
        plan(
            "SELECT auction FROM bid WHERE auction > 1 AND bidder IN (SELECT id FROM person WHERE name IS NULL)"
        ),
        "Project $0 AS auction\n  Join Semi ($1 = $6)\n    Filter ($0 > 1)\n      Scan bid\n    Filter IS NULL($1)\n      Scan person"
    );
    assert_eq!(
        plan("SELECT auction FROM bid WHERE bidder NOT IN (SELECT id FROM person GROUP BY id)"),
        "Project $0 AS auction\n  Join Anti (($1 = $6) OR IS NULL($1))\n    Scan bid\n    Aggregate by [0]\n      Project $0 AS id\n        Scan person"
    );
    refused(
        "SELECT auction FROM bid WHERE bidder IN (SELECT id, name FROM person)",
        "SELECT id",
        &["has 2 columns"],
    );
    refused(
        "SELECT auction FROM bid WHERE EXISTS (SELECT nope FROM person)",
        "nope",
        &["no column \"nope\""],
    );
}

#[test]
fn lookup_hints_say_where_they_are_wrong() {
    let refused_hint = |options: &str, words: &[&str]| {
        let sql = format!(
            "SELECT /*+ LOOKUP({options}) */ b.auction FROM bid b JOIN person ON b.bidder = person.id"
        );
        refused(&sql, "/*+", words);
    };
    refused_hint("'table' = 'x'", &["names \"x\"", "tables: b, person"]);
    refused_hint("'table' = 'person'", &["not looked up", "FOR SYSTEM_TIME"]);
    refused_hint("'async' = 'true'", &["which table"]);
    refused_hint(
        "'table' = 'b', 'timout' = '1 s'",
        &["no option 'timout'", "'timeout'"],
    );
    refused_hint(
        "'table' = 'b', 'async' = 'yes'",
        &["'yes'", "true or false"],
    );
    refused_hint("'table' = 'b', 'timeout' = 'long'", &["a duration"]);
    refused_hint("'table' = 'b', 'max-attempts' = '3'", &["retry-predicate"]);
    refused(
        "SELECT * FROM bid /*+ LOOKUP('table' = 'bid') */",
        "/*+",
        &["LOOKUP does not follow SELECT"],
    );
}

/// The times of the sides of the joins of a query, from the outermost one on, left inputs first.
fn times_of(sql: &str) -> Vec<[Option<u64>; 2]> {
    use crate::plan::logical::{LogicalPlan, Statement};
    use crate::sql::StatementResult;

    fn collect(plan: &LogicalPlan, times: &mut Vec<[Option<u64>; 2]>) {
        match plan {
            LogicalPlan::Project(project) => collect(&project.input, times),
            LogicalPlan::Join(join) => {
                times.push(join.state_ttl_ms);
                collect(&join.left, times);
                collect(&join.right, times);
            }
            _ => {}
        }
    }
    let Ok(StatementResult::Job(Statement::Select(plan))) = session().execute(sql) else {
        panic!("{sql} is no query");
    };
    let mut times = Vec::new();
    collect(&plan, &mut times);
    times
}

#[test]
fn state_ttl_goes_to_the_side_that_is_the_table() {
    assert_eq!(
        times_of(
            "SELECT /*+ STATE_TTL('b' = '1 d', 'person' = '2 h') */ b.auction FROM bid b JOIN person ON b.bidder = person.id"
        ),
        [[Some(86_400_000), Some(7_200_000)]]
    );
    assert_eq!(
        times_of(
            "SELECT /*+ STATE_TTL('b' = '1 d', 'p' = '2 h'), STATE_TTL('q' = '3 s') */ b.auction FROM bid b \
             JOIN person p ON b.bidder = p.id JOIN person q ON b.auction = q.id"
        ),
        [[None, Some(3_000)], [Some(86_400_000), Some(7_200_000)]]
    );
    refused(
        "SELECT /*+ STATE_TTL('bid' = '1 d') */ b.auction FROM bid b",
        "/*+",
        &["STATE_TTL names \"bid\"", "tables: b"],
    );
    refused(
        "SELECT /*+ STATE_TTL('bid' = 'long') */ auction FROM bid",
        "/*+",
        &["'long' is no duration"],
    );
}
