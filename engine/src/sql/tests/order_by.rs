//! ORDER BY, OFFSET, LIMIT and FETCH.

use crate::sql::test_session::*;

#[test]
fn names_and_numbers_are_columns_of_the_result() {
    assert_eq!(
        plan("SELECT auction AS a, price FROM bid ORDER BY a DESC, 2 LIMIT 3"),
        "Sort $0 desc nulls last, $1 asc nulls first offset 0 fetch Some(3)\n  \
         Project $0 AS a, $2 AS price\n    Scan bid"
    );
}

#[test]
fn other_expressions_become_columns_that_go_again() {
    assert_eq!(
        plan("SELECT auction FROM bid ORDER BY price NULLS LAST LIMIT 3"),
        "Project $0 AS auction\n  Sort $1 asc nulls last offset 0 fetch Some(3)\n    \
         Project $0 AS auction, $2 AS $s1\n      Scan bid"
    );
}

#[test]
fn an_expression_of_the_result_is_not_computed_twice() {
    assert_eq!(
        plan("SELECT auction + 1 AS x FROM bid ORDER BY auction + 1 LIMIT 1"),
        "Project $0 AS x\n  Sort $0 asc nulls first offset 0 fetch Some(1)\n    \
         Project ($0 + 1) AS x, ($0 + 1) AS $s1\n      Scan bid"
    );
}

#[test]
fn limits_are_written_in_several_ways() {
    let limits = |end: &str| {
        let text = plan(&format!("SELECT * FROM bid {end}"));
        text.lines().next().unwrap().to_string()
    };
    assert_eq!(limits("LIMIT 5"), "Sort  offset 0 fetch Some(5)");
    assert_eq!(limits("LIMIT 5 OFFSET 2"), "Sort  offset 2 fetch Some(5)");
    assert_eq!(
        limits("OFFSET 2 ROWS FETCH FIRST 5 ROWS ONLY"),
        "Sort  offset 2 fetch Some(5)"
    );
    assert_eq!(
        limits("FETCH NEXT ROW ONLY"),
        "Sort  offset 0 fetch Some(1)"
    );
}

#[test]
fn inside_a_query_order_matters_with_a_limit_only() {
    assert_eq!(
        plan("SELECT * FROM (SELECT * FROM bid ORDER BY ts)"),
        "Scan bid"
    );
    assert_eq!(
        plan("SELECT * FROM (SELECT * FROM bid ORDER BY ts LIMIT 1)")
            .lines()
            .count(),
        2
    );
}

#[test]
fn what_cannot_be_ordered_by_is_refused() {
    let refuses = |sql: &str, words: &str| {
        let error = error(sql).to_string();
        assert!(error.contains(words), "{error}");
    };
    refuses(
        "SELECT auction FROM bid ORDER BY 2 LIMIT 1",
        "the columns 1 to 1",
    );
    refuses(
        "SELECT auction FROM bid ORDER BY nothing LIMIT 1",
        "there is no column \"nothing\"",
    );
    refuses(
        "SELECT DISTINCT auction FROM bid ORDER BY price LIMIT 1",
        "must name its columns",
    );
    refuses("SELECT * FROM bid LIMIT auction", "is no number of rows");
    refuses("SELECT * FROM bid LIMIT 1 FETCH FIRST 2 ROWS ONLY", "FETCH");
}
