//! GROUP BY, HAVING, grouping sets, DISTINCT, legacy group windows and row numbers.

use crate::sql::test_session::*;

#[test]
fn arguments_are_computed_below_and_expressions_above() {
    assert_eq!(
        plan(
            "SELECT bidder, SUM(auction + 1) * 2 AS s FROM bid GROUP BY bidder HAVING COUNT(*) > 1"
        ),
        "Project $0 AS bidder, ($1 * 2) AS s\n  Filter ($2 > 1)\n    Aggregate by [0] calls SUM($1) AS $f1, COUNT(*) AS $f2\n      \
         Project $1 AS bidder, ($0 + 1) AS $f1\n        Scan bid"
    );
}

#[test]
fn grouping_expressions_are_found_in_items() {
    assert_eq!(
        plan("SELECT auction % 10 + 1, COUNT(*) FROM bid GROUP BY auction % 10"),
        "Project ($0 + 1) AS EXPR$0, $1 AS EXPR$1\n  Aggregate by [0] calls COUNT(*) AS EXPR$1\n    Project ($0 % 10) AS $f0\n      Scan bid"
    );
    assert_eq!(
        plan("SELECT item.name, COUNT(*) AS n FROM bid b GROUP BY b.item.name")
            .lines()
            .count(),
        4
    );
}

#[test]
fn equal_aggregates_are_computed_once() {
    assert_eq!(
        plan(
            "SELECT COUNT(*) AS a, COUNT(*) + 1 AS b, COUNT(DISTINCT auction, bidder) AS c FROM bid"
        ),
        "Project $0 AS a, ($0 + 1) AS b, $1 AS c\n  Aggregate by [] calls COUNT(*) AS a, COUNT(DISTINCT $0, $1) AS c\n    \
         Project $0 AS auction, $1 AS bidder\n      Scan bid"
    );
}

#[test]
fn filter_is_a_column_below() {
    assert_eq!(
        plan("SELECT COUNT(*) FILTER (WHERE auction > 5) AS n FROM bid"),
        "Aggregate by [] calls COUNT(*) FILTER $0 AS n\n  Project ($0 > 5) AS $f0\n    Scan bid"
    );
}

#[test]
fn grouping_sets_expand_and_tell_their_bits() {
    assert_eq!(
        plan(
            "SELECT auction, bidder, COUNT(*) AS n, GROUPING(bidder) AS g FROM bid GROUP BY ROLLUP (auction, bidder)"
        ),
        "Project $0 AS auction, $1 AS bidder, $2 AS n, (($3 / 1) % 2) AS g\n  \
         Aggregate by [0, 1] sets [[0, 1], [0], []] calls COUNT(*) AS n\n    Project $0 AS auction, $1 AS bidder\n      Scan bid"
    );
    let sets = |group_by: &str| {
        let text = plan(&format!(
            "SELECT COUNT(*) AS n FROM bid GROUP BY {group_by}"
        ));
        let line = text
            .lines()
            .find(|line| line.contains("Aggregate"))
            .unwrap()
            .to_string();
        line.split_once(" sets ")
            .unwrap()
            .1
            .split_once(" calls")
            .unwrap()
            .0
            .to_string()
    };
    assert_eq!(
        sets("GROUPING SETS ((auction, bidder), (auction), ())"),
        "[[0, 1], [0], []]"
    );
    assert_eq!(sets("CUBE (auction, bidder)"), "[[0, 1], [0], [1], []]");
    assert_eq!(
        sets("ts, GROUPING SETS ((auction), (bidder))"),
        "[[0, 1], [0, 2]]"
    );
    assert_eq!(
        schema(
            "SELECT id, GROUPING_ID(id, name) AS g FROM person GROUP BY GROUPING SETS ((id), (name))"
        ),
        "id BIGINT, g BIGINT NOT NULL"
    );
}

#[test]
fn columns_outside_group_by_are_refused() {
    refused(
        "SELECT bidder, price FROM bid GROUP BY bidder",
        "price",
        &[
            "column \"price\" must appear in GROUP BY",
            "add price to GROUP BY",
        ],
    );
    refused(
        "SELECT COUNT(*), auction FROM bid",
        "auction",
        &["must appear in GROUP BY"],
    );
    refused(
        "SELECT * FROM bid GROUP BY bidder",
        "*",
        &["must appear in GROUP BY"],
    );
    refused(
        "SELECT bidder FROM bid GROUP BY bidder HAVING price > 1",
        "price",
        &["must appear in GROUP BY"],
    );
    refused(
        "SELECT auction FROM bid WHERE COUNT(*) > 1",
        "COUNT",
        &["not allowed in WHERE", "HAVING"],
    );
    refused(
        "SELECT SUM(COUNT(*)) FROM bid",
        "COUNT",
        &["not allowed in an aggregate function"],
    );
    refused(
        "SELECT COUNT(*) FROM bid GROUP BY 1",
        "1",
        &["groups by a constant"],
    );
}

#[test]
fn distinct_groups_by_all_columns() {
    assert_eq!(
        plan("SELECT DISTINCT auction, bidder FROM bid"),
        "Aggregate by [0, 1]\n  Project $0 AS auction, $1 AS bidder\n    Scan bid"
    );
    assert_eq!(schema("SELECT DISTINCT ts FROM bid"), "ts TIMESTAMP(3)");
    refused(
        "SELECT UPPER(DISTINCT name) FROM person",
        "UPPER",
        &["DISTINCT is for aggregate functions"],
    );
}

#[test]
fn only_windows_keep_time_attributes_when_grouped() {
    assert_eq!(
        schema("SELECT ts, COUNT(*) AS n FROM bid GROUP BY ts"),
        "ts TIMESTAMP(3), n BIGINT NOT NULL"
    );
    assert_eq!(
        schema(
            "SELECT window_time, COUNT(*) AS n FROM TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' MINUTE) \
             GROUP BY window_start, window_end, window_time"
        ),
        "window_time TIMESTAMP(3) NOT NULL *rowtime*, n BIGINT NOT NULL"
    );
    assert_eq!(
        schema(
            "SELECT window_time, COUNT(*) AS n FROM TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' MINUTE) \
             GROUP BY window_start, window_time"
        ),
        "window_time TIMESTAMP(3) NOT NULL, n BIGINT NOT NULL"
    );
}

#[test]
fn legacy_group_windows_have_properties() {
    assert_eq!(
        plan(
            "SELECT HOP_START(ts, INTERVAL '10' SECOND, INTERVAL '5' SECOND) AS ws, COUNT(*) AS n FROM bid \
             GROUP BY HOP(ts, INTERVAL '10' SECOND, INTERVAL '5' SECOND)"
        ),
        "Project $1 AS ws, $0 AS n\n  Aggregate by [] window HOP(size=[5 s], slide=[10 s]) on $0 calls COUNT(*) AS n\n    \
         Project $3 AS ts\n      Scan bid"
    );
    assert_eq!(
        schema(
            "SELECT auction, TUMBLE_END(ts, INTERVAL '1' HOUR) AS e, TUMBLE_ROWTIME(ts, INTERVAL '1' HOUR) AS r FROM bid \
             GROUP BY TUMBLE(ts, INTERVAL '1' HOUR), auction"
        ),
        "auction BIGINT, e TIMESTAMP(3) NOT NULL, r TIMESTAMP(3) NOT NULL *rowtime*"
    );
    plan(
        "SELECT SESSION_START(pt, INTERVAL '1' MINUTE), SESSION_PROCTIME(pt, INTERVAL '1' MINUTE) FROM click GROUP BY SESSION(pt, INTERVAL '1' MINUTE)",
    );
    refused(
        "SELECT TUMBLE_START(ts, INTERVAL '2' HOUR) FROM bid GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)",
        "TUMBLE_START",
        &["differ from those of the group window"],
    );
    refused(
        "SELECT TUMBLE_START(ts, INTERVAL '2' HOUR) FROM bid GROUP BY ts",
        "TUMBLE_START",
        &["GROUP BY TUMBLE(…)"],
    );
    refused(
        "SELECT COUNT(*) FROM bid GROUP BY TUMBLE(auction, INTERVAL '1' HOUR)",
        "auction",
        &["time attribute", "\"ts\""],
    );
    refused(
        "SELECT COUNT(*) FROM bid GROUP BY TUMBLE(ts)",
        "TUMBLE",
        &["TUMBLE(time column, size)"],
    );
}

#[test]
fn row_number_is_planned_below_the_items() {
    assert_eq!(
        plan(
            "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, bidder) AS rn FROM bid) WHERE rn <= 3"
        ),
        "Filter ($6 <= 3)\n  RowNumber rn by [0] order $2 desc nulls last, $1 asc nulls first\n    Scan bid"
    );
    assert_eq!(
        plan(
            "SELECT bidder, ROW_NUMBER() OVER (ORDER BY COUNT(*) DESC) AS rn, COUNT(*) AS n FROM bid GROUP BY bidder"
        ),
        "Project $0 AS bidder, $2 AS rn, $1 AS n\n  RowNumber rn by [] order $1 desc nulls last\n    \
         Aggregate by [0] calls COUNT(*) AS $f1\n      Project $1 AS bidder\n        Scan bid"
    );
    assert_eq!(
        plan("SELECT ROW_NUMBER() OVER (PARTITION BY auction % 7 ORDER BY ts) AS rn FROM bid"),
        "Project $7 AS rn\n  RowNumber rn by [6] order $3 asc nulls first\n    \
         Project $0 AS auction, $1 AS bidder, $2 AS price, $3 AS ts, $4 AS tags, $5 AS item, ($0 % 7) AS $o6\n      Scan bid"
    );
    refused(
        "SELECT auction FROM bid WHERE ROW_NUMBER() OVER (ORDER BY ts) = 1",
        "ROW_NUMBER",
        &["not allowed in WHERE", "subquery"],
    );
    refused(
        "SELECT ROW_NUMBER() OVER (PARTITION BY auction) FROM bid",
        "ROW_NUMBER",
        &["needs ORDER BY"],
    );
}
