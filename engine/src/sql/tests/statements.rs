//! SET, SHOW, DESCRIBE, EXPLAIN, USE, and statements that are refused.

use arrow::util::pretty::pretty_format_batches;

use crate::sql::test_session::*;
use crate::sql::{Session, StatementResult};

fn rows(session: &mut Session, sql: &str) -> String {
    match session.execute(sql) {
        Ok(StatementResult::Rows { schema, rows }) => {
            assert_eq!(schema.to_arrow(), rows.schema());
            pretty_format_batches(&[rows]).unwrap().to_string()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn set_changes_options_and_lists_them() {
    let mut session = session();
    session.execute("SET 'parallelism.default' = '3';").unwrap();
    assert_eq!(session.config.parallelism(), 3);
    let listed = rows(&mut session, "SET");
    assert!(listed.contains("| parallelism.default | 3"), "{listed}");
    session.execute("RESET 'parallelism.default'").unwrap();
    assert_eq!(session.config.parallelism(), 1);
    session.execute("RESET").unwrap();
    refused(
        "SET 'paralelism.default' = '3'",
        "'paralelism",
        &["did you mean 'parallelism.default'?"],
    );
    refused(
        "SET 'parallelism.default' = 'x'",
        "'parallelism",
        &["a whole number"],
    );
    refused(
        "SET parallelism.default = 3",
        "parallelism",
        &["SET 'key' = 'value'"],
    );
    refused("RESET 'nope'", "'nope'", &["no option 'nope'"]);
}

#[test]
fn the_catalog_can_be_listed() {
    let mut session = session();
    session.execute("CREATE VIEW v AS SELECT 1 AS one").unwrap();
    let tables = rows(&mut session, "SHOW TABLES");
    assert!(
        tables.contains("| bid ") && tables.contains("| v "),
        "{tables}"
    );
    let views = rows(&mut session, "SHOW VIEWS");
    assert!(!views.contains("bid") && views.contains("| v "), "{views}");
    let created = rows(&mut session, "SHOW CREATE VIEW v");
    assert!(created.contains("AS SELECT 1 AS one"), "{created}");
}

#[test]
fn describe_shows_attributes_keys_and_expressions() {
    let text = rows(&mut session(), "DESCRIBE bid");
    assert!(
        text.contains("TIMESTAMP(3) *ROWTIME*") && text.contains("ts - INTERVAL '5' SECOND"),
        "{text}"
    );
    let text = rows(&mut session(), "DESC person");
    assert!(text.contains("PRI(id)") && text.contains("false"), "{text}");
    let text = rows(&mut session(), "DESCRIBE click");
    assert!(
        text.contains("AS PROCTIME()") && text.contains("*PROCTIME*"),
        "{text}"
    );
}

#[test]
fn show_create_table_can_be_executed() {
    let mut first = session();
    first
        .execute("CREATE TABLE `a b` (`k` STRING, v DECIMAL(10, 2) NOT NULL, d AS CAST(v AS INT), ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (`k`) NOT ENFORCED) WITH ('connector' = 'memory', 'rows' = '1')")
        .unwrap();
    let Ok(StatementResult::Rows { rows, .. }) = first.execute("SHOW CREATE TABLE `a b`") else {
        panic!()
    };
    let text = arrow::util::display::array_value_to_string(rows.column(0), 0).unwrap();
    let mut second = session();
    second
        .execute(&text)
        .unwrap_or_else(|error| panic!("{text}\n{error}"));
    let table = |session: &Session| session.catalog.table("a b").unwrap().clone();
    let (first, second) = (table(&first), table(&second));
    assert_eq!(first.columns, second.columns);
    assert_eq!(first.watermark, second.watermark);
    assert_eq!(
        (first.primary_key, first.options),
        (second.primary_key, second.options)
    );
}

#[test]
fn explain_takes_jobs() {
    let explained = |sql: &str| match session().execute(sql) {
        Ok(StatementResult::Explain { details, .. }) => details.changelog_mode,
        other => panic!("{other:?}"),
    };
    assert!(explained("EXPLAIN CHANGELOG_MODE SELECT * FROM bid"));
    assert!(!explained(
        "EXPLAIN PLAN FOR INSERT INTO out1 SELECT 1, 'a'"
    ));
    assert!(!explained("EXPLAIN SELECT * FROM bid"));
    assert!(explained(
        "EXPLAIN CHANGELOG_MODE STATEMENT SET BEGIN INSERT INTO out1 SELECT 1, 'a'; END"
    ));
    assert!(!explained(
        "EXPLAIN EXECUTE STATEMENT SET BEGIN INSERT INTO out1 SELECT 1, 'a'; END"
    ));
    refused(
        "EXPLAIN ESTIMATED_COST SELECT 1",
        "ESTIMATED_COST",
        &["EXPLAIN ESTIMATED_COST is not supported"],
    );
    refused("EXPLAIN SHOW TABLES", "SHOW", &["EXPLAIN is for"]);
}

#[test]
fn only_the_default_database_is_there() {
    for sql in [
        "USE CATALOG default_catalog",
        "USE default_database",
        "USE default_catalog.default_database",
    ] {
        session().execute(sql).unwrap();
    }
    refused("USE CATALOG mine", "mine", &["no catalog \"mine\""]);
    refused("USE mine", "mine", &["no database \"mine\""]);
}

#[test]
fn other_statements_are_refused_by_name() {
    for (sql, name) in [
        ("ALTER TABLE bid RENAME TO x", "ALTER TABLE"),
        ("CREATE FUNCTION f AS 'x'", "CREATE FUNCTION"),
        ("CREATE CATALOG c WITH ('a' = 'b')", "CREATE CATALOG"),
        ("DELETE FROM bid", "DELETE FROM"),
        ("UPDATE bid SET auction = 1", "UPDATE BID"),
        ("SHOW CATALOGS", "SHOW CATALOGS"),
        ("COMPILE PLAN 'x' FOR SELECT 1", "COMPILE PLAN"),
        ("ANALYZE TABLE bid", "ANALYZE TABLE"),
        ("EXECUTE PLAN 'x'", "EXECUTE"),
        ("?", "?"),
    ] {
        let refusal = error(sql);
        assert!(refusal.to_string().contains(name), "{refusal}");
        assert_eq!(
            refusal.position().map(|place| place.column),
            Some(1),
            "{refusal}"
        );
    }
    assert!(error("").to_string().contains("there is no statement"));
    refused(
        "SELECT 1 SELECT 2",
        "SELECT 2",
        &["expected the end of the statement"],
    );
}

#[test]
fn late_rows_need_their_table() {
    let mut session = session();
    assert!(session.late_rows_table().unwrap().is_none());
    session
        .execute("SET 'volley.late-rows.sink' = 'late'")
        .unwrap();
    assert!(
        session
            .late_rows_table()
            .unwrap_err()
            .to_string()
            .contains("names a table \"late\"")
    );
    session
        .execute("CREATE TABLE late (operator STRING, window_end TIMESTAMP(3), watermark TIMESTAMP(3), `row` STRING) WITH ('connector' = 'memory')")
        .unwrap();
    assert_eq!(
        session.late_rows_table().unwrap().unwrap().descriptor.name,
        "late"
    );
    session
        .execute("SET 'volley.late-rows.sink' = 'bid'")
        .unwrap();
    assert!(
        session
            .late_rows_table()
            .unwrap_err()
            .to_string()
            .contains("has other columns")
    );
}
