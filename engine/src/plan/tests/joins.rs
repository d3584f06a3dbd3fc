//! Window joins and regular ones.

use super::*;

fn on_window(left: &Schema, right: &Schema) -> Vec<Expression> {
    vec![
        equal(left, right, "window_start"),
        equal(left, right, "window_end"),
    ]
}

#[test]
fn equal_windows_make_a_window_join() {
    let query = joined(
        JoinKind::Inner,
        counted(scan(table("l"))),
        counted(scan(table("r"))),
        |l, r| {
            let mut parts = on_window(l, r);
            parts.push(equal(l, r, "k"));
            parts.push(call(">", column(l, "n"), of_right(column(r, "n"))));
            and(parts)
        },
    );
    let LogicalPlan::Join(join) = &query else {
        unreachable!()
    };
    assert_eq!(join.schema().len(), 10);
    check(&explained(columns(query, &["k", "n"])), "
        Calc(select=[k, n])
        +- WindowJoin(leftWindow=[TUMBLE(win_start=[window_start], win_end=[window_end], size=[10 s])], rightWindow=[TUMBLE(win_start=[window_start], win_end=[window_end], size=[10 s])], joinType=[InnerJoin], where=[(k = k) AND (n > n)], select=[k, n, window_start, window_end, k, n, window_start, window_end])
           :- WindowAggregate(groupBy=[k], window=[TUMBLE(time_col=[ts], size=[10 s])], select=[k, COUNT(*) AS n, start('w$) AS window_start, end('w$) AS window_end])
           :  +- Exchange(distribution=[hash[k]])
           :     +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
           :        +- TableSourceScan(table=[[default_catalog, default_database, l]], fields=[k, ts])
           +- WindowAggregate(groupBy=[k], window=[TUMBLE(time_col=[ts], size=[10 s])], select=[k, COUNT(*) AS n, start('w$) AS window_start, end('w$) AS window_end])
              +- Exchange(distribution=[hash[k]])
                 +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
                    +- TableSourceScan(table=[[default_catalog, default_database, r]], fields=[k, ts])
    ");
}

#[test]
fn a_comma_join_takes_its_condition_from_where() {
    let sides = joined(
        JoinKind::Inner,
        tumbled(scan(table("l"))),
        tumbled(scan(table("r"))),
        |_, _| Expression::always_true(),
    );
    let left_width = 7;
    let query = filter(sides, |s| {
        let right = |name: &str| {
            let index = left_width + tumbled(scan(table("r"))).schema().index_of(name).unwrap();
            Expression::column(index, name, s.fields[index].logical_type.clone())
        };
        and(vec![
            call("=", column(s, "window_start"), right("window_start")),
            call("=", column(s, "window_end"), right("window_end")),
            call(">", right("v"), number(7)),
        ])
    });
    check(&explained(columns(query, &["k"])), "
        Calc(select=[k])
        +- WindowJoin(leftWindow=[TUMBLE(win_start=[window_start], win_end=[window_end], size=[10 s])], rightWindow=[TUMBLE(win_start=[window_start], win_end=[window_end], size=[10 s])], joinType=[InnerJoin], where=[true], select=[k, window_start, window_end, window_start, window_end])
           :- Exchange(distribution=[single])
           :  +- Calc(select=[k, window_start, window_end])
           :     +- WindowTableFunction(window=[TUMBLE(time_col=[ts], size=[10 s])])
           :        +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
           :           +- TableSourceScan(table=[[default_catalog, default_database, l]], fields=[k, ts])
           +- Exchange(distribution=[single])
              +- Calc(select=[window_start, window_end])
                 +- WindowTableFunction(window=[TUMBLE(time_col=[ts], size=[10 s])])
                    +- Calc(select=[ts], where=[(v > 7)])
                       +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
                          +- TableSourceScan(table=[[default_catalog, default_database, r]], fields=[v, ts])
    ");
}

#[test]
fn a_left_join_keeps_what_speaks_about_the_left_side() {
    let query = joined(
        JoinKind::Left,
        tumbled(scan(table("l"))),
        tumbled(scan(table("r"))),
        |l, r| {
            let mut parts = on_window(l, r);
            parts.push(call(">", column(l, "v"), number(1)));
            parts.push(call(">", of_right(column(r, "v")), number(2)));
            and(parts)
        },
    );
    let text = explained(columns(query, &["k"]));
    assert!(
        text.contains("joinType=[LeftOuterJoin], where=[(v > 1)]"),
        "{text}"
    );
    assert!(
        text.contains("Calc(select=[ts], where=[(v > 2)])"),
        "{text}"
    );
}

#[test]
fn without_equal_windows_a_join_is_regular() {
    let plain = joined(
        JoinKind::Full,
        scan(table("l")),
        scan(table("r")),
        |l, r| equal(l, r, "k"),
    );
    let text = explained(columns(plain, &["k"]));
    assert!(
        text.contains("Join(joinType=[FullOuterJoin], where=[(k = k)], select=[k, k], leftInputSpec=[NoUniqueKey], rightInputSpec=[NoUniqueKey])"),
        "{text}"
    );
    let half = joined(
        JoinKind::Inner,
        tumbled(scan(table("l"))),
        tumbled(scan(table("r"))),
        |l, r| equal(l, r, "window_start"),
    );
    let text = explained(columns(half, &["k"]));
    assert!(
        text.contains("Exchange(distribution=[hash[window_start]])"),
        "{text}"
    );
    assert!(
        text.contains("Join(joinType=[InnerJoin], where=[(window_start = window_start)]"),
        "{text}"
    );
}

#[test]
fn different_windows_are_refused_with_place() {
    let minute = window(WindowKind::Tumble {
        size_ms: 60 * SECOND,
    });
    let other = windowed(scan(table("r")), minute, "ts");
    let mixed = joined(JoinKind::Inner, tumbled(scan(table("l"))), other, |l, r| {
        and(on_window(l, r))
    });
    let error = refused(mixed);
    assert!(
        error.contains("TUMBLE(size=[10 s])") && error.contains("TUMBLE(size=[1 min])"),
        "{error}"
    );
}
