//! Top-N and deduplication.

use super::*;

fn ranked(bound: &dyn Fn(Expression) -> Expression) -> LogicalPlan {
    let numbered = numbered(
        counted(scan(table("t"))),
        &["window_start", "window_end"],
        &[("total", true)],
    );
    filter(numbered, |s| bound(column(s, "rn")))
}

#[test]
fn a_bound_on_the_number_makes_a_top_n_of_windows() {
    let query = columns(
        ranked(&|rn| call("<=", rn, number(3))),
        &["k", "total", "rn"],
    );
    check(&explained(query), "
        Calc(select=[k, total, rn])
        +- WindowRank(window=[TUMBLE(win_start=[window_start], win_end=[window_end], size=[10 s])], rankType=[ROW_NUMBER], rankRange=[rankStart=1, rankEnd=3], partitionBy=[], orderBy=[total DESC], select=[k, total, window_start, window_end, rn])
           +- Exchange(distribution=[single])
              +- WindowAggregate(groupBy=[k], window=[TUMBLE(time_col=[ts], size=[10 s])], select=[k, SUM(v) AS total, start('w$) AS window_start, end('w$) AS window_end])
                 +- Exchange(distribution=[hash[k]])
                    +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
                       +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, v, ts])
    ");
}

#[test]
fn without_the_number_in_the_output_the_rank_is_not_given() {
    let query = columns(ranked(&|rn| call("<", rn, number(3))), &["k"]);
    let text = explained(query);
    assert!(
        text.contains("rankRange=[rankStart=1, rankEnd=2]"),
        "{text}"
    );
    assert!(
        text.contains("select=[k, total, window_start, window_end])"),
        "{text}"
    );
}

#[test]
fn bounds_may_be_written_in_many_ways() {
    let range = |bound: &dyn Fn(Expression) -> Expression| {
        let text = explained(columns(ranked(bound), &["k"]));
        let start = text.find("rankRange=[").unwrap() + "rankRange=[".len();
        text[start..].split(']').next().unwrap().to_string()
    };
    assert_eq!(
        range(&|rn| call("=", rn, number(1))),
        "rankStart=1, rankEnd=1"
    );
    assert_eq!(
        range(&|rn| call(">=", number(4), rn)),
        "rankStart=1, rankEnd=4"
    );
    assert_eq!(
        range(&|rn| and(vec![
            call(">", rn.clone(), number(1)),
            call("<=", rn, number(3))
        ])),
        "rankStart=2, rankEnd=3"
    );
    let between = |rn: Expression| {
        Expression::call(
            "BETWEEN",
            vec![rn, number(2), number(5)],
            LogicalType::BOOLEAN,
        )
    };
    assert_eq!(range(&between), "rankStart=2, rankEnd=5");
    let three = Expression::literal(Literal::Integer(3), LogicalType::not_null(TypeRoot::Int));
    let cast = Expression::cast(three, LogicalType::BIGINT);
    assert_eq!(
        range(&|rn| call("<=", rn, cast.clone())),
        "rankStart=1, rankEnd=3"
    );
}

#[test]
fn other_parts_of_the_filter_stay_above() {
    let query = ranked(&|rn| {
        let odd = call("<>", rn.clone(), number(2));
        and(vec![call("<=", rn, number(3)), odd])
    });
    let text = explained(columns(query, &["k"]));
    assert!(
        text.starts_with("Calc(select=[k], where=[(rn <> 2)])\n"),
        "{text}"
    );
}

#[test]
fn one_row_by_event_time_is_a_deduplication() {
    for (descending, keep) in [(true, "LastRow"), (false, "FirstRow")] {
        let numbered = numbered(
            tumbled(scan(table("t"))),
            &["window_start", "window_end", "k"],
            &[("ts", descending)],
        );
        let query = columns(
            filter(numbered, |s| call("=", column(s, "rn"), number(1))),
            &["k", "v"],
        );
        check(&explained(query), &"
            Calc(select=[k, v])
            +- WindowDeduplicate(window=[TUMBLE(win_start=[window_start], win_end=[window_end], size=[10 s])], keep=[KEEP], partitionKeys=[k], orderKey=[ts], order=[ROWTIME])
               +- Exchange(distribution=[hash[k]])
                  +- Calc(select=[k, v, ts, window_start, window_end])
                     +- WindowTableFunction(window=[TUMBLE(time_col=[ts], size=[10 s])])
                        +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
                           +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, v, ts])
        ".replace("KEEP", keep));
    }
}

#[test]
fn a_row_number_without_a_bound_is_refused() {
    let updating = numbered(scan(table("t")), &["k"], &[("v", true)]);
    let error = refused(updating);
    assert!(
        error.contains("without an upper bound") && error.contains("WHERE rn <= 10"),
        "{error}"
    );
    let error = refused(ranked(&|rn| call(">", rn, number(3))));
    assert!(error.contains("has no upper bound"), "{error}");
}

#[test]
fn without_a_window_one_row_by_event_time_is_a_deduplication() {
    for (descending, keep, inserts) in [(true, "LastRow", "false"), (false, "FirstRow", "true")] {
        let numbered = numbered(scan(table("t")), &["k"], &[("ts", descending)]);
        let query = columns(
            filter(numbered, |s| call("=", column(s, "rn"), number(1))),
            &["k", "v"],
        );
        check(&explained(query), &"
            Calc(select=[k, v])
            +- Deduplicate(keep=[KEEP], key=[k], order=[ROWTIME], outputInsertOnly=[INSERTS])
               +- Exchange(distribution=[hash[k]])
                  +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
                     +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, v, ts])
        ".replace("KEEP", keep).replace("INSERTS", inserts));
    }
}

#[test]
fn with_its_number_or_by_another_column_it_is_a_top_n() {
    let text = |order: &str, output: &[&str]| {
        let numbered = numbered(scan(table("t")), &["k"], &[(order, true)]);
        let first = filter(numbered, |s| call("=", column(s, "rn"), number(1)));
        explained(columns(first, output))
    };
    assert!(
        text("ts", &["k", "rn"]).contains(
            "Rank(strategy=[AppendFastStrategy], rankType=[ROW_NUMBER], rankRange=[rankStart=1, rankEnd=1], \
             partitionBy=[k], orderBy=[ts DESC], select=[k, ts, rn])"
        ),
        "{}",
        text("ts", &["k", "rn"])
    );
    assert!(
        text("v", &["k"]).contains("orderBy=[v DESC], select=[k, v])"),
        "{}",
        text("v", &["k"])
    );
}

#[test]
fn the_last_rank_may_be_a_column() {
    let numbered = numbered(scan(table("t")), &["k"], &[("v", true)]);
    let query = filter(numbered, |s| call("<=", column(s, "rn"), column(s, "w")));
    let text = explained(columns(query, &["k"]));
    assert!(text.contains("rankRange=[rankEnd=w]"), "{text}");
}
