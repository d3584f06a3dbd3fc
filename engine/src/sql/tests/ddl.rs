//! CREATE TABLE and CREATE VIEW, DROP, and what is refused of them.

use crate::sql::test_session::*;
use crate::sql::{Session, StatementResult};
use crate::types::TimeAttribute;

fn create(sql: &str) -> Session {
    let mut session = session();
    session
        .execute(sql)
        .unwrap_or_else(|error| panic!("{error}"));
    session
}

/// `name type, …` of a table's columns.
fn columns(session: &Session, table: &str) -> String {
    let table = session.catalog.table(table).unwrap();
    let fields = table.columns.iter().map(|column| {
        let mark = match column.field.time_attribute {
            None => "",
            Some(TimeAttribute::Rowtime) => " *rowtime*",
            Some(TimeAttribute::Proctime) => " *proctime*",
        };
        format!("{} {}{mark}", column.field.name, column.field.logical_type)
    });
    fields.collect::<Vec<_>>().join(", ")
}

#[test]
fn all_types_are_read() {
    let session = create(
        "CREATE TABLE t (a BOOLEAN, b TINYINT, c SMALLINT, d INT NOT NULL, e BIGINT NULL, f FLOAT, g DOUBLE PRECISION, h DECIMAL, \
         i NUMERIC(5), j DEC(38, 38), k CHAR, l CHAR(3), m VARCHAR(7), n STRING, o BINARY(2), p VARBINARY, q BYTES, r DATE, \
         s TIME, t TIME(3) WITHOUT TIME ZONE, u TIMESTAMP, v TIMESTAMP(3) WITHOUT TIME ZONE, w TIMESTAMP_LTZ(9), \
         x TIMESTAMP(0) WITH LOCAL TIME ZONE, y INTERVAL DAY TO SECOND(3), z INTERVAL YEAR TO MONTH, aa ARRAY<ARRAY<INT>>, \
         bb MAP<STRING, ROW<a INT NOT NULL, `b c` STRING 'comment'>>, cc MULTISET<INT NOT NULL> NOT NULL, dd ROW(a INT), ee INT ARRAY)",
    );
    assert_eq!(
        columns(&session, "t"),
        "a BOOLEAN, b TINYINT, c SMALLINT, d INT NOT NULL, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(10, 0), i DECIMAL(5, 0), \
         j DECIMAL(38, 38), k CHAR(1), l CHAR(3), m VARCHAR(7), n STRING, o BINARY(2), p VARBINARY(1), q BYTES, r DATE, s TIME(0), \
         t TIME(3), u TIMESTAMP(6), v TIMESTAMP(3), w TIMESTAMP_LTZ(9), x TIMESTAMP_LTZ(0), y INTERVAL DAY TO SECOND, \
         z INTERVAL YEAR TO MONTH, aa ARRAY<ARRAY<INT>>, bb MAP<STRING, ROW<`a` INT NOT NULL, `b c` STRING>>, \
         cc MULTISET<INT NOT NULL> NOT NULL, dd ROW<`a` INT>, ee ARRAY<INT>"
    );
}

#[test]
fn computed_columns_watermark_and_key() {
    let session = create(
        "CREATE TABLE IF NOT EXISTS `t 1` (k STRING COMMENT 'the key', v INT, epoch BIGINT, w AS v + 1, x AS w * 2, \
         ts AS TO_TIMESTAMP_LTZ(epoch, 3), pt AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '0.001' SECOND, \
         CONSTRAINT pk PRIMARY KEY (epoch, k) NOT ENFORCED) COMMENT 'a table' WITH ('connector' = 'memory')",
    );
    assert_eq!(
        columns(&session, "t 1"),
        "k STRING NOT NULL, v INT, epoch BIGINT NOT NULL, w INT, x INT, ts TIMESTAMP_LTZ(3) *rowtime*, \
         pt TIMESTAMP_LTZ(3) NOT NULL *proctime*"
    );
    let table = session.catalog.table("t 1").unwrap();
    assert_eq!(table.primary_key, [2, 0]);
    assert_eq!(
        table.columns[4].computed.as_ref().unwrap().to_string(),
        "((v + 1) * 2)"
    );
    let watermark = table.watermark.as_ref().unwrap();
    assert_eq!(watermark.column, 5);
    assert_eq!(
        watermark.expression.logical_type().to_string(),
        "TIMESTAMP_LTZ(3)"
    );
    assert_eq!(table.physical().len(), 3);
}

#[test]
fn an_inline_key_is_a_key() {
    let session = create("CREATE TABLE t (a INT, b INT PRIMARY KEY NOT ENFORCED COMMENT 'x')");
    assert_eq!(session.catalog.table("t").unwrap().primary_key, [1]);
    assert_eq!(columns(&session, "t"), "a INT, b INT NOT NULL");
}

#[test]
fn wrong_tables_are_refused() {
    for (sql, at, words) in [
        (
            "CREATE TABLE t (a INT, a STRING)",
            "a STRING",
            "the column \"a\" stands twice",
        ),
        ("CREATE TABLE t (a INTT)", "INTT", "there is no type INTT"),
        (
            "CREATE TABLE t (a DECIMAL(39, 0))",
            "DECIMAL",
            "between 1 and 38",
        ),
        (
            "CREATE TABLE t (a TIMESTAMP(10))",
            "TIMESTAMP",
            "between 0 and 9",
        ),
        (
            "CREATE TABLE t (a TIMESTAMP(3) WITH TIME ZONE)",
            "TIMESTAMP",
            "TIMESTAMP_LTZ",
        ),
        (
            "CREATE TABLE t (a INT METADATA)",
            "METADATA",
            "a METADATA column is not supported",
        ),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a))", ")\u{0}", ""),
        (
            "CREATE TABLE t (a INT, PRIMARY KEY (b) NOT ENFORCED)",
            "b)",
            "a column \"b\" that the table does not have",
        ),
        (
            "CREATE TABLE t (a INT, b AS a, PRIMARY KEY (b) NOT ENFORCED)",
            "b) NOT",
            "computed column",
        ),
        (
            "CREATE TABLE t (a INT, UNIQUE (a))",
            "UNIQUE",
            "UNIQUE is not supported",
        ),
        (
            "CREATE TABLE t (a INT, WATERMARK FOR b AS b)",
            "b AS",
            "a column \"b\" that the table does not have",
        ),
        (
            "CREATE TABLE t (a INT, WATERMARK FOR a AS a)",
            "a AS",
            "the event time \"a\" is INT",
        ),
        (
            "CREATE TABLE t (a BIGINT, WATERMARK FOR a AS a)",
            "a AS",
            "TO_TIMESTAMP_LTZ",
        ),
        (
            "CREATE TABLE t (a TIMESTAMP, WATERMARK FOR a AS a)",
            "a AS",
            "p up to 3",
        ),
        (
            "CREATE TABLE t (r ROW<ts TIMESTAMP(3)>, WATERMARK FOR r.ts AS r.ts)",
            "r.ts",
            "not a field of a ROW",
        ),
        (
            "CREATE TABLE t (i INT, p AS PROCTIME(), WATERMARK FOR p AS p)",
            "p AS p",
            "processing time",
        ),
        (
            "CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS 1)",
            "1)",
            "the watermark is INT NOT NULL",
        ),
        (
            "CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS tz)",
            "tz",
            "no column \"tz\"",
        ),
        (
            "CREATE TABLE t (ts TIMESTAMP(3), WATERMARK FOR ts AS ts, WATERMARK FOR ts AS ts)",
            "ts AS ts)",
            "one WATERMARK",
        ),
        (
            "CREATE TABLE t (b AS a + 1, a INT, c AS d, d AS 1)",
            "d, d",
            "declared before it",
        ),
        (
            "CREATE TABLE t (a INT) PARTITIONED BY (a)",
            "PARTITIONED",
            "PARTITIONED BY",
        ),
        (
            "CREATE TABLE t (a INT) WITH (connector = 'x')",
            "connector",
            "in single quotes",
        ),
        (
            "CREATE TABLE t (a INT) WITH ('a' = 'x', 'a' = 'y')",
            "'a' = 'y'",
            "stands twice",
        ),
        (
            "CREATE TABLE t (a INT) LIKE bid",
            "LIKE",
            "LIKE of CREATE TABLE",
        ),
        ("CREATE TABLE t AS SELECT 1", "AS", "CREATE TABLE … AS"),
        ("CREATE OR REPLACE TABLE t (a INT)", "CREATE", "CREATE OR"),
        (
            "CREATE TABLE bid (a INT)",
            "bid",
            "there is already a table \"bid\"",
        ),
        (
            "CREATE TABLE other.t (a INT)",
            "other",
            "no database \"other\"",
        ),
        ("CREATE TABLE t (a AS 1)", "t", "no column that is stored"),
        (
            "CREATE TABLE t (a INT, b AS COUNT(a))",
            "COUNT",
            "not allowed in a computed column",
        ),
        (
            "CREATE TABLE t (a INT) AND",
            "AND",
            "expected the end of the statement",
        ),
    ] {
        if !at.contains('\u{0}') {
            refused(sql, at, &[words]);
        }
    }
    let refusal = error("CREATE TABLE t (a INT, PRIMARY KEY (a))").to_string();
    assert!(refusal.contains("NOT ENFORCED"), "{refusal}");
}

#[test]
fn options_are_checked_where_the_table_is_used() {
    let mut session = create("CREATE TABLE t (a INT) WITH ('connector' = 'memori')");
    let refusal = session.execute("SELECT * FROM t").unwrap_err().to_string();
    assert!(
        refusal.contains("no connector 'memori'") && refusal.contains("line 1, column 15"),
        "{refusal}"
    );
    let mut session = create("CREATE TABLE t (a INT)");
    let refusal = session
        .execute("INSERT INTO t SELECT 1")
        .unwrap_err()
        .to_string();
    assert!(
        refusal.contains("lacks the option 'connector'"),
        "{refusal}"
    );
    session
        .catalog
        .table_mut("t")
        .unwrap()
        .options
        .insert("connector".into(), "memory".into());
    session.execute("INSERT INTO t SELECT 1").unwrap();
}

#[test]
fn temporary_objects_hide_permanent_ones() {
    let mut session = create("CREATE TEMPORARY TABLE bid (x INT) WITH ('connector' = 'memory')");
    assert_eq!(columns(&session, "bid"), "x INT");
    let refusal = session.execute("DROP TABLE bid").unwrap_err().to_string();
    assert!(refusal.contains("hides the permanent one"), "{refusal}");
    session.execute("DROP TEMPORARY TABLE bid").unwrap();
    assert!(columns(&session, "bid").starts_with("auction"));
}

#[test]
fn drop_names_what_it_does_not_find() {
    refused(
        "DROP TABLE bit",
        "bit",
        &["no table \"bit\"", "did you mean 'bid'?"],
    );
    refused(
        "DROP VIEW bid",
        "bid",
        &["is a table, not a view", "DROP TABLE bid"],
    );
    refused("DROP DATABASE x", "DATABASE", &["DROP DATABASE"]);
    session().execute("DROP TABLE IF EXISTS bit").unwrap();
}

#[test]
fn views_check_their_columns() {
    refused(
        "CREATE VIEW v (a) AS SELECT auction, bidder FROM bid",
        "v (a)",
        &["names 1 columns, but its query has 2"],
    );
    refused(
        "CREATE VIEW v AS SELECT auction, auction FROM bid",
        "v AS",
        &["two columns \"auction\""],
    );
    refused(
        "CREATE VIEW v AS SELECT nope FROM bid",
        "nope",
        &["no column \"nope\""],
    );
    let mut session =
        create("CREATE VIEW IF NOT EXISTS v (a, b) COMMENT 'x' AS SELECT auction, ts FROM bid");
    session
        .execute("CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS one")
        .unwrap();
    assert!(matches!(
        session.execute("SELECT a, b FROM v"),
        Ok(StatementResult::Job(_))
    ));
}
