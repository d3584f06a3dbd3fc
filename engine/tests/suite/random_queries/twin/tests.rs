//! The twin by hand: what a person says of small tables.

use volley::connectors::standard_registry;
use volley::plan::logical::Statement;
use volley::sql::{Session, StatementResult};
use volley::testing::cell::{Value, order_rows, row_text};
use volley::testing::{TestBench, TestConnector};

use super::{Row, Tables, Unclear, evaluate};

/// `l`: (1, a), (1, a), (2, b), (NULL, c); `r`: (1, x), (3, y), (NULL, z).
fn answer(sql: &str) -> Result<Vec<String>, Unclear> {
    let mut connectors = standard_registry();
    let bench = std::sync::Arc::new(TestBench::new(&[]));
    connectors.register(std::sync::Arc::new(TestConnector::new(bench, true)));
    let mut session = Session::new(connectors);
    for table in ["l", "r"] {
        let ddl = format!("CREATE TABLE {table} (k INT, s STRING) WITH ('connector' = 'test')");
        session.execute(&ddl).unwrap();
    }
    let StatementResult::Job(Statement::Select(plan)) = session.execute(sql).unwrap() else {
        panic!("{sql} is no query");
    };
    let row = |k: Option<i64>, s: &str| -> Row {
        vec![
            k.map_or(Value::Null, Value::Integer),
            Value::Text(s.to_string()),
        ]
    };
    let tables = Tables::from([
        (
            "l".to_string(),
            vec![
                row(Some(1), "a"),
                row(Some(1), "a"),
                row(Some(2), "b"),
                row(None, "c"),
            ],
        ),
        (
            "r".to_string(),
            vec![row(Some(1), "x"), row(Some(3), "y"), row(None, "z")],
        ),
    ]);
    let mut rows = evaluate(&plan, &tables)?;
    rows.sort_by(|a, b| order_rows(a, b));
    Ok(rows.iter().map(|row| row_text(row)).collect())
}

#[track_caller]
fn check(sql: &str, rows: &[&str]) {
    assert_eq!(answer(sql).unwrap(), rows, "{sql}");
}

#[test]
fn joins_pair_pad_and_leave_out() {
    let on = "l.s, r.s FROM l";
    check(
        &format!("SELECT {on} JOIN r ON l.k = r.k"),
        &["a, x", "a, x"],
    );
    check(
        &format!("SELECT {on} LEFT JOIN r ON l.k = r.k"),
        &["a, x", "a, x", "b, null", "c, null"],
    );
    check(
        &format!("SELECT {on} FULL JOIN r ON l.k IS NOT DISTINCT FROM r.k"),
        &["null, y", "a, x", "a, x", "b, null", "c, z"],
    );
    check("SELECT s FROM l WHERE k IN (SELECT k FROM r)", &["a", "a"]);
    check("SELECT s FROM l WHERE k NOT IN (SELECT k FROM r)", &[]);
    check(
        "SELECT s FROM l WHERE k NOT IN (SELECT k FROM r WHERE k > 1)",
        &["a", "a", "b"],
    );
    check(
        "SELECT s FROM l WHERE NOT EXISTS (SELECT * FROM r WHERE r.k = l.k)",
        &["b", "c"],
    );
}

#[test]
fn groups_are_of_equal_rows_and_nulls() {
    check(
        "SELECT k, COUNT(*), MAX(s) FROM l GROUP BY k",
        &["null, 1, c", "1, 2, a", "2, 1, b"],
    );
    check(
        "SELECT COUNT(DISTINCT k), SUM(k), AVG(k) FROM l",
        &["2, 4, 1"],
    );
    check("SELECT COUNT(*) FROM l WHERE k > 5", &[]);
    check(
        "SELECT k, GROUPING(k), COUNT(k) FROM r GROUP BY ROLLUP (k)",
        &["null, 0, 0", "null, 1, 2", "1, 0, 1", "3, 0, 1"],
    );
}

#[test]
fn set_operations_count() {
    check(
        "SELECT k FROM l UNION SELECT k FROM r",
        &["null", "1", "2", "3"],
    );
    check(
        "SELECT s FROM l INTERSECT ALL SELECT s FROM l",
        &["a", "a", "b", "c"],
    );
    check("SELECT k FROM l EXCEPT ALL SELECT k FROM r", &["1", "2"]);
    check("SELECT k FROM l EXCEPT SELECT k FROM r", &["2"]);
}

#[test]
fn orders_cut_where_they_are_clear() {
    check(
        "SELECT * FROM l ORDER BY k DESC, s LIMIT 2",
        &["1, a", "2, b"],
    );
    check("SELECT * FROM l ORDER BY k LIMIT 1 OFFSET 1", &["1, a"]);
    assert_eq!(
        answer("SELECT s FROM r ORDER BY s = 'x' LIMIT 1"),
        Err(Unclear::Ties)
    );
    let numbered = "SELECT s, n FROM (SELECT s, ROW_NUMBER() OVER (PARTITION BY k ORDER BY s) AS n FROM l) WHERE n <= 2";
    check(numbered, &["a, 1", "a, 2", "b, 1", "c, 1"]);
}
