//! SELECT: items, names, expressions, WHERE, UNION ALL, VALUES and WITH.

use crate::sql::test_session::*;

#[test]
fn items_keep_their_names_and_others_are_numbered() {
    assert_eq!(
        schema("SELECT auction, b.price AS p, auction + 1, item.name, tags[1] FROM bid AS b"),
        "auction BIGINT, p DECIMAL(10, 2), EXPR$2 BIGINT, name STRING, EXPR$4 STRING"
    );
}

#[test]
fn a_bare_column_keeps_its_time_attribute_and_a_computed_one_does_not() {
    assert_eq!(
        schema("SELECT ts, CAST(ts AS TIMESTAMP(3)) AS c, ts AS t2 FROM bid"),
        "ts TIMESTAMP(3) *rowtime*, c TIMESTAMP(3), t2 TIMESTAMP(3) *rowtime*"
    );
    assert_eq!(
        schema("SELECT pt, PROCTIME() AS p2 FROM click"),
        "pt TIMESTAMP_LTZ(3) NOT NULL *proctime*, p2 TIMESTAMP_LTZ(3) NOT NULL *proctime*"
    );
}

#[test]
fn where_filters_below_the_projection() {
    assert_eq!(
        plan("SELECT price FROM bid WHERE auction = 1 AND bidder <> 2"),
        "Project $2 AS price\n  Filter (($0 = 1) AND ($1 <> 2))\n    Scan bid"
    );
}

#[test]
fn star_needs_no_projection() {
    assert_eq!(plan("SELECT * FROM bid"), "Scan bid");
    assert_eq!(plan("SELECT b.* FROM bid b"), "Scan bid");
}

#[test]
fn select_without_from_reads_one_row() {
    assert_eq!(
        plan("SELECT 1 AS one, 'it''s' AS s"),
        "Project 1 AS one, 'it''s' AS s\n  Values (0)"
    );
    assert_eq!(
        schema(
            "SELECT 1, 'ab', 1.5, 1e0, TRUE, NULL, DATE '2024-01-31', TIMESTAMP '2024-01-31 00:00:00.5', INTERVAL '1' DAY"
        ),
        "EXPR$0 INT NOT NULL, EXPR$1 CHAR(2) NOT NULL, EXPR$2 DECIMAL(2, 1) NOT NULL, EXPR$3 DOUBLE NOT NULL, \
         EXPR$4 BOOLEAN NOT NULL, EXPR$5 NULL, EXPR$6 DATE NOT NULL, EXPR$7 TIMESTAMP(1) NOT NULL, \
         EXPR$8 INTERVAL DAY TO SECOND NOT NULL"
    );
}

#[test]
fn columns_of_one_name_can_be_told_apart_in_a_result() {
    assert_eq!(
        schema("SELECT auction, auction, auction FROM bid"),
        "auction BIGINT, auction0 BIGINT, auction1 BIGINT"
    );
}

#[test]
fn row_fields_are_nullable_where_the_row_is() {
    assert_eq!(schema("SELECT bid.item.size FROM bid"), "size INT");
    assert_eq!(
        plan("SELECT default_catalog.default_database.bid.item.name FROM bid"),
        "Project $5.name AS name\n  Scan bid"
    );
}

#[test]
fn intervals_have_all_forms_of_flink() {
    assert_eq!(
        plan(
            "SELECT INTERVAL '5' SECOND, INTERVAL '0.001' SECOND, INTERVAL '10' MINUTES, INTERVAL '1 02:03:04' DAY TO SECOND, \
             INTERVAL '1-2' YEAR TO MONTH, INTERVAL '1' MONTH, INTERVAL -'2' HOUR"
        ),
        "Project 5000:INTERVAL DAY TO SECOND AS EXPR$0, 1:INTERVAL DAY TO SECOND AS EXPR$1, \
         600000:INTERVAL DAY TO SECOND AS EXPR$2, 93784000:INTERVAL DAY TO SECOND AS EXPR$3, \
         14:INTERVAL YEAR TO MONTH AS EXPR$4, 1:INTERVAL YEAR TO MONTH AS EXPR$5, \
         -7200000:INTERVAL DAY TO SECOND AS EXPR$6\n  Values (0)"
    );
    refused(
        "SELECT INTERVAL 'x' SECOND",
        "'x'",
        &["'x' is no INTERVAL of SECOND", "INTERVAL '5' SECOND"],
    );
    refused("SELECT INTERVAL '5'", "'5'", &["needs a unit"]);
}

#[test]
fn case_cast_and_operators_are_bound() {
    assert_eq!(
        plan(
            "SELECT CASE WHEN auction > 1 THEN 'a' ELSE 'bc' END AS x, TRY_CAST('1' AS INT) AS y FROM bid"
        ),
        "Project CASE(($0 > 1), 'a', 'bc') AS x, TRY_CAST('1' AS INT) AS y\n  Scan bid"
    );
    assert_eq!(
        plan("SELECT auction FROM bid WHERE auction NOT IN (1, 2) AND auction BETWEEN 1 AND 3 AND NOT (bidder IS NULL)")
            .lines()
            .count(),
        3
    );
    assert_eq!(
        schema("SELECT CAST(NULL AS ROW<a INT NOT NULL, b ARRAY<MAP<STRING, INT>>>) AS r"),
        "r ROW<`a` INT NOT NULL, `b` ARRAY<MAP<STRING, INT>>>"
    );
}

#[test]
fn values_have_common_types() {
    assert_eq!(
        schema("SELECT * FROM (VALUES (1, 'a'), (3000000000, NULL)) AS v (n, s)"),
        "n BIGINT NOT NULL, s CHAR(1)"
    );
    assert_eq!(
        schema("SELECT t FROM (VALUES (1), (2)) AS t"),
        "t INT NOT NULL"
    );
    refused(
        "SELECT * FROM (VALUES (1), (TRUE)) AS v (n)",
        "TRUE",
        &["column 1 of VALUES is INT NOT NULL in the first row and BOOLEAN"],
    );
    refused(
        "VALUES (1, 2), (3)",
        "3",
        &["row 2 of VALUES has 1 columns, the first has 2"],
    );
}

#[test]
fn union_all_casts_to_common_types_and_keeps_shared_time_attributes() {
    assert_eq!(
        schema("SELECT auction, ts FROM bid UNION ALL SELECT bidder, ts FROM bid"),
        "auction BIGINT, ts TIMESTAMP(3) *rowtime*"
    );
    assert_eq!(
        schema("SELECT 1 AS a UNION ALL SELECT auction FROM bid UNION ALL SELECT 2"),
        "a BIGINT"
    );
    assert_eq!(
        plan("SELECT 1 AS a UNION ALL SELECT auction FROM bid")
            .lines()
            .next(),
        Some("Union")
    );
    refused(
        "SELECT 1 UNION ALL SELECT 1, 2",
        "SELECT 1, 2",
        &["have 1 and 2 columns"],
    );
    let once = plan("SELECT auction FROM bid UNION SELECT bidder FROM bid");
    assert!(once.starts_with("Aggregate by [0]\n  Union"), "{once}");
}

#[test]
fn with_queries_see_those_before_them() {
    assert_eq!(
        plan(
            "WITH a AS (SELECT auction AS x FROM bid), b (y) AS (SELECT x FROM a) SELECT y FROM b WHERE y > 1"
        ),
        "Filter ($0 > 1)\n  Project $0 AS y\n    Project $0 AS x\n      Scan bid"
    );
    refused(
        "WITH a AS (SELECT 1 AS x) SELECT * FROM aa",
        "aa",
        &["there is no table or view \"aa\"", "did you mean 'a'?"],
    );
}

#[test]
fn unknown_names_list_what_is_there() {
    refused(
        "SELECT auctoin FROM bid",
        "auctoin",
        &[
            "there is no column \"auctoin\"",
            "did you mean 'auction'?",
            "bidder",
        ],
    );
    refused(
        "SELECT x.auction FROM bid AS b",
        "x.auction",
        &["no table or column \"x\""],
    );
    refused(
        "SELECT b.auctio FROM bid AS b",
        "b.auctio",
        &["no column \"auctio\" in \"b\"", "did you mean 'auction'?"],
    );
    refused(
        "SELECT item.nam FROM bid",
        "nam",
        &["no field \"nam\"", "did you mean 'name'?"],
    );
    refused(
        "SELECT *\nFROM bids",
        "bids",
        &[
            "no table or view \"bids\"",
            "did you mean 'bid'?",
            "2 | FROM bids",
            "  |      ^",
        ],
    );
    refused(
        "SELECT auction FROM bid WHERE pric > 1",
        "pric",
        &["did you mean 'price'?"],
    );
}

#[test]
fn what_is_not_supported_is_named_with_its_place() {
    for (sql, at, what) in [
        (
            "SELECT (SELECT bidder FROM bid) FROM bid",
            "SELECT bidder",
            "a subquery as a value that may have several rows",
        ),
        (
            "SELECT * FROM bid FOR SYSTEM_TIME AS OF bid.ts",
            "bid",
            "FOR SYSTEM_TIME AS OF",
        ),
        (
            "SELECT * FROM bid MATCH_RECOGNIZE (PATTERN (A | B) DEFINE A AS TRUE)",
            "bid",
            "branching patterns",
        ),
        (
            "SELECT * FROM bid, LATERAL TABLE(f(auction)) AS t (x)",
            "TABLE(f",
            "",
        ),
        (
            "SELECT * FROM bid TABLESAMPLE BERNOULLI (10)",
            "bid",
            "TABLESAMPLE",
        ),
        (
            "SELECT NTILE(2) OVER (ORDER BY ts) FROM bid",
            "NTILE",
            "NTILE Function is not supported in stream mode",
        ),
        ("SELECT auction::INT FROM bid", "auction", "::"),
        (
            "SELECT auction FROM bid QUALIFY auction > 1",
            "SELECT",
            "QUALIFY",
        ),
        ("SELECT my.f(1)", "my", "the function my.f"),
        (
            "SELECT ts AT TIME ZONE 'UTC' FROM bid",
            "ts",
            "AT TIME ZONE",
        ),
        (
            "SELECT auction FROM bid WHERE auction IN (SELECT id FROM person) OR TRUE",
            "auction IN",
            "IN (SELECT",
        ),
    ] {
        refused(sql, at, &[what]);
    }
}

#[test]
fn names_and_strings_are_not_mixed_up() {
    let refusal = error("SELECT auction AS 'a' FROM bid").to_string();
    assert!(refusal.contains("back-ticks"), "{refusal}");
    let refusal = error("SELECT \"auction\" FROM bid").to_string();
    assert!(refusal.contains("back-ticks"), "{refusal}");
    assert_eq!(
        schema("SELECT `auction` AS `a``b` FROM `bid`"),
        "a`b BIGINT"
    );
}

#[test]
fn syntax_errors_have_a_place_inside_subqueries_too() {
    let refusal = error("SELECT auction FROM bid WHERE");
    assert!(
        refusal
            .to_string()
            .contains("expected an expression, but the statement ends"),
        "{refusal}"
    );
    assert_eq!(refusal.position().map(|place| place.column), Some(30));
    refused(
        "SELECT auction FROM bid WHERE auction = * 2",
        "*",
        &["expected an expression, found *"],
    );
    refused(
        "SELECT * FROM (SELECT auction FROM bid WHERE auction = ) AS t",
        ") AS t",
        &["syntax error: expected an expression, found )"],
    );
    refused("SELECT CAST(1 AS FOO)", "FOO", &["there is no type FOO"]);
    refused(
        "SELECT * FROM (SELECT CAST(1 AS FOO) FROM bid) AS t",
        "FOO",
        &["there is no type FOO"],
    );
}
