//! Statement sets: one source, one aggregation, several sinks.

use super::*;

fn explained_set(inserts: Vec<Insert>, options: &[(&str, &str)]) -> String {
    without_heading(&shown(
        &planned(Statement::Inserts(inserts), options).unwrap(),
        false,
    ))
}

#[test]
fn one_source_serves_all_with_the_columns_of_all() {
    let text = explained_set(
        vec![
            insert("a", columns(scan(table("t")), &["k"])),
            insert("b", columns(scan(table("t")), &["v"])),
        ],
        &[],
    );
    check(&text, "
        Sink(table=[default_catalog.default_database.a], fields=[k])
        +- Calc(select=[k])
           +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])(reuse_id=[1])
              +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, v, ts])

        Sink(table=[default_catalog.default_database.b], fields=[v])
        +- Calc(select=[v])
           +- Reused(reference_id=[1])
    ");
}

#[test]
fn a_view_is_computed_once() {
    let view = || {
        columns(
            counted(scan(table("t"))),
            &["window_start", "window_end", "k", "n", "total"],
        )
    };
    let top = filter(
        numbered(view(), &["window_start", "window_end"], &[("n", true)]),
        |s| call("<=", column(s, "rn"), number(3)),
    );
    let text = explained_set(
        vec![
            insert("a", view()),
            insert("b", view()),
            insert("c", columns(top, &["k", "rn"])),
        ],
        &[],
    );
    assert_eq!(text.matches("TableSourceScan(").count(), 1, "{text}");
    assert_eq!(text.matches("WindowAggregate(").count(), 1, "{text}");
    assert_eq!(text.matches("WindowRank(").count(), 1, "{text}");
}

#[test]
fn a_query_shares_with_itself() {
    let most = LogicalPlan::Aggregate(aggregated(
        counted(scan(table("t"))),
        &["window_start", "window_end"],
        &[("MAX", Some("n"), "most")],
    ));
    let query = joined(JoinKind::Inner, counted(scan(table("t"))), most, |l, r| {
        and(vec![
            equal(l, r, "window_start"),
            equal(l, r, "window_end"),
            call(">=", column(l, "n"), of_right(column(r, "most"))),
        ])
    });
    let text = explained(columns(query, &["k", "n"]));
    check(&text, "
        Calc(select=[k, n])
        +- WindowJoin(leftWindow=[TUMBLE(win_start=[window_start], win_end=[window_end], size=[10 s])], rightWindow=[TUMBLE(win_start=[window_start], win_end=[window_end], size=[10 s])], joinType=[InnerJoin], where=[(n >= most)], select=[k, n, window_start, window_end, most, window_start, window_end])
           :- Exchange(distribution=[single])
           :  +- WindowAggregate(groupBy=[k], window=[TUMBLE(time_col=[ts], size=[10 s])], select=[k, COUNT(*) AS n, start('w$) AS window_start, end('w$) AS window_end])(reuse_id=[1])
           :     +- Exchange(distribution=[hash[k]])
           :        +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
           :           +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, ts])
           +- WindowAggregate(window=[TUMBLE(win_start=[window_start], win_end=[window_end], size=[10 s])], select=[MAX(n) AS most, start('w$) AS window_start, end('w$) AS window_end])
              +- Exchange(distribution=[single])
                 +- Calc(select=[n, window_start, window_end])
                    +- Reused(reference_id=[1])
    ");
}

#[test]
fn what_is_dear_is_computed_once_for_all_consumers() {
    let view = || {
        select(
            scan(table("t")),
            &[
                ("r", &|s| {
                    Expression::call("REGEXP_EXTRACT", vec![column(s, "k")], LogicalType::STRING)
                }),
                ("v", &|s| column(s, "v")),
            ],
        )
    };
    let positive = filter(view(), |s| call(">", column(s, "v"), number(0)));
    let text = explained_set(vec![insert("a", view()), insert("b", positive)], &[]);
    assert_eq!(text.matches("REGEXP_EXTRACT").count(), 1, "{text}");
}

#[test]
fn random_numbers_are_not_shared() {
    let view = || {
        select(
            scan(table("t")),
            &[("r", &|_| {
                Expression::call("RAND", vec![], LogicalType::DOUBLE)
            })],
        )
    };
    let text = explained_set(vec![insert("a", view()), insert("b", view())], &[]);
    assert_eq!(text.matches("RAND()").count(), 2, "{text}");
    assert_eq!(text.matches("TableSourceScan(").count(), 1, "{text}");
}

#[test]
fn what_can_fail_in_a_shared_view_stays_behind_each_guard() {
    let view = || {
        let rows = filter(scan(table("t")), |s| call(">", column(s, "v"), number(0)));
        select(
            rows,
            &[
                ("w", &|s| column(s, "w")),
                ("q", &|s| call("/", column(s, "v"), column(s, "w"))),
            ],
        )
    };
    let guarded = |name: &str, value: i64| {
        let rows = filter(view(), |s| call("<>", column(s, "w"), number(value)));
        insert(name, columns(rows, &["q"]))
    };
    check(
        &explained_set(vec![guarded("a", 0), guarded("b", 1)], &[]),
        "
        Sink(table=[default_catalog.default_database.a], fields=[q])
        +- Calc(select=[(v / w) AS q], where=[(w <> 0)])
           +- Calc(select=[v, w], where=[(v > 0)])(reuse_id=[1])
              +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
                 +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[v, w, ts])

        Sink(table=[default_catalog.default_database.b], fields=[q])
        +- Calc(select=[(v / w) AS q], where=[(w <> 1)])
           +- Reused(reference_id=[1])
    ",
    );
}
