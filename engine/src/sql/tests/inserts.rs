//! INSERT INTO: by position, with column lists, and statement sets.

use crate::sql::test_session::*;

#[test]
fn columns_go_by_position_and_are_cast() {
    assert_eq!(
        plan("INSERT INTO out1 SELECT auction, name FROM bid JOIN person ON auction = id")
            .lines()
            .next(),
        Some("Insert out1")
    );
    assert_eq!(
        plan("INSERT INTO out1 SELECT user_id, 'x' FROM click"),
        "Insert out1\n  Project CAST($0 AS BIGINT) AS a, CAST($1 AS STRING) AS b\n    Project $0 AS user_id, 'x' AS EXPR$1\n      Scan click"
    );
    let values = plan("INSERT INTO out1 VALUES (1, 'a'), (2, 'b')");
    assert!(values.starts_with("Insert out1"), "{values}");
}

#[test]
fn missing_columns_are_null() {
    let partial = plan("INSERT INTO out1 (b) SELECT name FROM person");
    assert!(
        partial.contains("NULL AS a") && partial.contains("$0 AS b"),
        "{partial}"
    );
    refused(
        "INSERT INTO out1 (a) SELECT id FROM person",
        "a) SELECT",
        &["column \"b\" of \"out1\" is NOT NULL"],
    );
    refused(
        "INSERT INTO out1 (a, c) SELECT 1, 2",
        "c)",
        &["column \"c\" is computed"],
    );
    refused(
        "INSERT INTO out1 (a, d) SELECT 1, 2",
        "d)",
        &["no column \"d\" in \"out1\""],
    );
    refused(
        "INSERT INTO out1 (a, a) SELECT 1, 2",
        "a) SELECT",
        &["stands twice"],
    );
}

#[test]
fn what_does_not_fit_shows_both_schemas() {
    refused(
        "INSERT INTO out1 SELECT id FROM person",
        "out1",
        &[
            "gives 1 columns, but \"out1\" takes 2",
            "query: [id BIGINT NOT NULL]; sink: [a BIGINT, b STRING NOT NULL]",
        ],
    );
    refused(
        "INSERT INTO out1 SELECT tags, 'x' FROM bid",
        "out1",
        &[
            "column 1 of the query (\"tags\", ARRAY<STRING>)",
            "column \"a\" (BIGINT)",
            "CAST(tags AS BIGINT)",
        ],
    );
    refused(
        "INSERT INTO nowhere SELECT 1",
        "nowhere",
        &["no table \"nowhere\""],
    );
    refused(
        "INSERT OVERWRITE out1 SELECT 1",
        "OVERWRITE",
        &["INSERT OVERWRITE is not supported"],
    );
}

#[test]
fn statement_sets_are_one_job() {
    let inserts = "INSERT INTO out1 SELECT 1, 'a'; INSERT INTO out1 SELECT 2, 'b';";
    for set in [
        format!("EXECUTE STATEMENT SET BEGIN {inserts} END"),
        format!("BEGIN STATEMENT SET; {inserts} END;"),
    ] {
        assert_eq!(plan(&set).matches("Insert out1").count(), 2, "{set}");
    }
    refused(
        "EXECUTE STATEMENT SET BEGIN SELECT 1; END",
        "SELECT",
        &["expected INSERT INTO or END"],
    );
    refused(
        "EXECUTE STATEMENT SET BEGIN\nINSERT INTO out1 SELECT 1; END",
        "out1",
        &["gives 1 columns"],
    );
}

#[test]
fn what_happens_to_rows_of_one_primary_key_is_said_behind_the_query() {
    for action in ["NOTHING", "ERROR", "DEDUPLICATE"] {
        let inserted = plan(&format!(
            "INSERT INTO out1 SELECT auction, name FROM bid JOIN person ON auction = id ON CONFLICT DO {action}"
        ));
        let first = inserted.lines().next();
        let expected = format!("Insert out1 ON CONFLICT DO {action}");
        assert_eq!(first, Some(expected.as_str()));
    }
    let values = plan("INSERT INTO out1 VALUES (1, 'a') on conflict do nothing");
    assert!(values.starts_with("Insert out1 ON CONFLICT DO NOTHING"));
    refused(
        "INSERT INTO out1 SELECT id, name FROM person ON CONFLICT DO UPDATE",
        "UPDATE",
        &["ON CONFLICT DO UPDATE is not known", "DO DEDUPLICATE"],
    );
    refused(
        "INSERT INTO out1 ON CONFLICT DO NOTHING SELECT id, name FROM person",
        "ON CONFLICT",
        &["ON CONFLICT stands behind the query"],
    );
}
