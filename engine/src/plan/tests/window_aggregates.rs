//! Window functions and aggregations.

use super::*;

const PARALLEL: &[(&str, &str)] = &[("parallelism.default", "2")];

#[test]
fn the_window_function_is_fused_in_one_phase() {
    let query = columns(counted(scan(table("t"))), &["window_start", "k", "n"]);
    check(&explained(query), "
        Calc(select=[window_start, k, n])
        +- WindowAggregate(groupBy=[k], window=[TUMBLE(time_col=[ts], size=[10 s])], select=[k, COUNT(*) AS n, start('w$) AS window_start, end('w$) AS window_end])
           +- Exchange(distribution=[hash[k]])
              +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
                 +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, ts])
    ");
}

#[test]
fn two_phases_fold_before_the_exchange() {
    let text = explained_with(counted(scan(table("t"))), PARALLEL);
    check(&text, "
        Calc(select=[k, window_start, window_end, n, total])
        +- GlobalWindowAggregate(groupBy=[k], window=[TUMBLE(slice_end=[$slice_end], size=[10 s])], select=[k, COUNT(count$n) AS n, SUM(sum$total) AS total, start('w$) AS window_start, end('w$) AS window_end])
           +- Exchange(distribution=[hash[k]])
              +- LocalWindowAggregate(groupBy=[k], window=[TUMBLE(time_col=[ts], size=[10 s])], select=[k, COUNT(*) AS count$n, SUM(v) AS sum$total, slice_end('w$) AS $slice_end])
                 +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
                    +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, v, ts])
    ");
}

#[test]
fn the_strategy_decides_the_phases_and_the_state_keeps_its_name() {
    let uid = |options: &[(&str, &str)]| {
        let plan = planned(Statement::Select(counted(scan(table("t")))), options).unwrap();
        let node = plan
            .nodes
            .iter()
            .find(|node| node.uid.starts_with("window-aggregate-"))
            .unwrap();
        (node.kind.name(), node.uid.clone())
    };
    let strategy = "table.optimizer.agg-phase-strategy";
    let (one, single) = uid(&[]);
    let (two, parallel) = uid(&[(strategy, "TWO_PHASE")]);
    assert_eq!((one, two), ("WindowAggregate", "GlobalWindowAggregate"));
    assert_eq!(single, parallel);
    assert_eq!(uid(&[(strategy, "ONE_PHASE"), PARALLEL[0]]), (one, single));
}

#[test]
fn without_keys_all_rows_meet_in_one_subtask() {
    let query = LogicalPlan::Aggregate(aggregated(
        tumbled(scan(table("t"))),
        &["window_start", "window_end"],
        &[("MAX", Some("v"), "m")],
    ));
    let plan = planned(Statement::Select(query), PARALLEL).unwrap();
    let named = |name: &str| {
        plan.nodes
            .iter()
            .find(|node| node.kind.name() == name)
            .unwrap()
    };
    assert_eq!(named("LocalWindowAggregate").parallelism, 2);
    assert_eq!(named("Exchange").parallelism, 1);
    assert_eq!(named("GlobalWindowAggregate").parallelism, 1);
}

#[test]
fn a_distinct_aggregate_has_one_phase() {
    let mut aggregate = aggregated(
        tumbled(scan(table("t"))),
        &["k", "window_start", "window_end"],
        &[("COUNT", Some("v"), "n")],
    );
    aggregate.aggregates[0].distinct = true;
    let text = explained_with(LogicalPlan::Aggregate(aggregate), PARALLEL);
    assert!(
        text.contains("WindowAggregate(groupBy=[k]") && text.contains("COUNT(DISTINCT v) AS n"),
        "{text}"
    );
    assert!(!text.contains("Local"), "{text}");
}

#[test]
fn filters_and_expressions_over_the_rows_go_below() {
    let rows = filter(tumbled(scan(table("t"))), |s| {
        call(">", column(s, "v"), number(1))
    });
    let rows = select(
        rows,
        &[
            ("g", &|s| call("+", column(s, "v"), column(s, "w"))),
            ("s", &|s| column(s, "window_start")),
            ("e", &|s| column(s, "window_end")),
        ],
    );
    let query = LogicalPlan::Aggregate(aggregated(rows, &["s", "e", "g"], &[("COUNT", None, "n")]));
    check(&explained(query), "
        Calc(select=[window_start AS s, window_end AS e, g, n])
        +- WindowAggregate(groupBy=[g], window=[TUMBLE(time_col=[ts], size=[10 s])], select=[g, COUNT(*) AS n, start('w$) AS window_start, end('w$) AS window_end])
           +- Exchange(distribution=[hash[g]])
              +- Calc(select=[ts, (v + w) AS g], where=[(v > 1)])
                 +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
                    +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[v, w, ts])
    ");
}

#[test]
fn a_filter_on_the_window_keeps_the_function_and_attaches_its_windows() {
    let rows = filter(tumbled(scan(table("t"))), |s| {
        and(vec![
            call(">", column(s, "v"), number(1)),
            call("<>", column(s, "window_start"), column(s, "ts")),
        ])
    });
    let query = LogicalPlan::Aggregate(aggregated(
        rows,
        &["k", "window_start", "window_end"],
        &[("COUNT", None, "n")],
    ));
    check(&explained(query), "
        Calc(select=[k, window_start, window_end, n])
        +- WindowAggregate(groupBy=[k], window=[TUMBLE(win_start=[window_start], win_end=[window_end], size=[10 s])], select=[k, COUNT(*) AS n, start('w$) AS window_start, end('w$) AS window_end])
           +- Exchange(distribution=[hash[k]])
              +- Calc(select=[k, window_start, window_end], where=[(window_start <> ts)])
                 +- WindowTableFunction(window=[TUMBLE(time_col=[ts], size=[10 s])])
                    +- Calc(select=[k, ts], where=[(v > 1)])
                       +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
                          +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, v, ts])
    ");
}

#[test]
fn a_cascade_through_window_time_fuses_the_second_function_too() {
    let first = LogicalPlan::Aggregate(aggregated(
        tumbled(scan(table("t"))),
        &["k", "window_start", "window_end", "window_time"],
        &[("COUNT", None, "n")],
    ));
    let renamed = select(
        first,
        &[
            ("n", &|s| column(s, "n")),
            ("rowtime", &|s| column(s, "window_time")),
        ],
    );
    let minute = window(WindowKind::Tumble {
        size_ms: 60 * SECOND,
    });
    let second = windowed(renamed, minute, "rowtime");
    let query = LogicalPlan::Aggregate(aggregated(
        second,
        &["window_start", "window_end"],
        &[("SUM", Some("n"), "n")],
    ));
    check(&explained(query), "
        Calc(select=[window_start, window_end, n])
        +- WindowAggregate(window=[TUMBLE(time_col=[window_time], size=[1 min])], select=[SUM(n) AS n, start('w$) AS window_start, end('w$) AS window_end])
           +- Exchange(distribution=[single])
              +- Calc(select=[n, window_time])
                 +- WindowAggregate(groupBy=[k], window=[TUMBLE(time_col=[ts], size=[10 s])], select=[k, COUNT(*) AS n, start('w$) AS window_start, end('w$) AS window_end, rowtime('w$) AS window_time])
                    +- Exchange(distribution=[hash[k]])
                       +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
                          +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, ts])
    ");
}

#[test]
fn a_second_aggregation_of_the_same_windows_takes_them_attached() {
    let query = LogicalPlan::Aggregate(aggregated(
        counted(scan(table("t"))),
        &["window_start", "window_end"],
        &[("MAX", Some("n"), "most")],
    ));
    check(&explained(query), "
        Calc(select=[window_start, window_end, most])
        +- WindowAggregate(window=[TUMBLE(win_start=[window_start], win_end=[window_end], size=[10 s])], select=[MAX(n) AS most, start('w$) AS window_start, end('w$) AS window_end])
           +- Exchange(distribution=[single])
              +- Calc(select=[n, window_start, window_end])
                 +- WindowAggregate(groupBy=[k], window=[TUMBLE(time_col=[ts], size=[10 s])], select=[k, COUNT(*) AS n, start('w$) AS window_start, end('w$) AS window_end])
                    +- Exchange(distribution=[hash[k]])
                       +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
                          +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, ts])
    ");
}

#[test]
fn an_aggregation_by_the_same_key_needs_no_second_exchange() {
    let query = LogicalPlan::Aggregate(aggregated(
        counted(scan(table("t"))),
        &["window_start", "window_end", "k"],
        &[("MAX", Some("n"), "most")],
    ));
    let text = explained_with(query, &[]);
    assert_eq!(text.matches("Exchange").count(), 1, "{text}");
}

#[test]
fn the_function_alone_is_a_node() {
    let hop = window(WindowKind::Hop {
        slide_ms: 5 * SECOND,
        size_ms: 10 * SECOND,
    });
    check(
        &explained(columns(
            windowed(scan(table("t")), hop, "ts"),
            &["v", "window_end"],
        )),
        "
        Calc(select=[v, window_end])
        +- WindowTableFunction(window=[HOP(time_col=[ts], size=[10 s], slide=[5 s])])
           +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
              +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[v, ts])
    ",
    );
}

fn sessions(input: LogicalPlan) -> LogicalPlan {
    let LogicalPlan::WindowTableFunction(mut function) = windowed(
        input,
        window(WindowKind::Session {
            gap_ms: 10 * SECOND,
        }),
        "ts",
    ) else {
        unreachable!()
    };
    function.partition_by = vec![0];
    LogicalPlan::WindowTableFunction(function)
}

#[test]
fn sessions_fuse_by_their_partition_and_stand_alone_behind_a_filter() {
    let keys = ["k", "window_start", "window_end"];
    let fused = LogicalPlan::Aggregate(aggregated(
        sessions(scan(table("t"))),
        &keys,
        &[("COUNT", None, "n")],
    ));
    check(&explained(fused), "
        Calc(select=[k, window_start, window_end, n])
        +- WindowAggregate(groupBy=[k], window=[SESSION(time_col=[ts], gap=[10 s])], select=[k, COUNT(*) AS n, start('w$) AS window_start, end('w$) AS window_end])
           +- Exchange(distribution=[hash[k]])
              +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
                 +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, ts])
    ");
    let filtered = filter(sessions(scan(table("t"))), |s| {
        call(">", column(s, "v"), number(1))
    });
    let alone = LogicalPlan::Aggregate(aggregated(filtered, &keys, &[("COUNT", None, "n")]));
    check(&explained(alone), "
        Calc(select=[k, window_start, window_end, n])
        +- WindowAggregate(groupBy=[k], window=[SESSION(win_start=[window_start], win_end=[window_end], gap=[10 s])], select=[k, COUNT(*) AS n, start('w$) AS window_start, end('w$) AS window_end])
           +- Calc(select=[k, window_start, window_end], where=[(v > 1)])
              +- WindowTableFunction(window=[SESSION(time_col=[ts], partition keys=[k], gap=[10 s])])
                 +- Exchange(distribution=[hash[k]])
                    +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
                       +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, v, ts])
    ");
}

#[test]
fn grouping_sets_expand_the_rows_and_keep_arguments_whole() {
    let mut aggregate = aggregated(
        tumbled(scan(table("t"))),
        &["window_start", "window_end", "k", "v"],
        &[("SUM", Some("v"), "total")],
    );
    aggregate.grouping_sets = vec![vec![0, 1, 2, 3], vec![0, 1, 2], vec![0, 1]];
    check(&explained(LogicalPlan::Aggregate(aggregate)), "
        Calc(select=[window_start, window_end, k, v, total, $e])
        +- WindowAggregate(groupBy=[k, v, $e], window=[TUMBLE(time_col=[ts], size=[10 s])], select=[k, v, $e, SUM(v_0) AS total, start('w$) AS window_start, end('w$) AS window_end])
           +- Exchange(distribution=[hash[k, v, $e]])
              +- Expand(projects=[{k, v, ts, v AS v_0, 0 AS $e}, {k, NULL AS v, ts, v AS v_0, 1 AS $e}, {NULL AS k, NULL AS v, ts, v AS v_0, 3 AS $e}])
                 +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
                    +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, v, ts])
    ");
}

#[test]
fn the_legacy_windows_have_a_node_of_their_own() {
    let mut aggregate = aggregated(scan(table("t")), &["k"], &[("COUNT", None, "n")]);
    aggregate.legacy_window = Some(LegacyWindow {
        window: tumble_10s(),
        time_column: 3,
    });
    let query = columns(LogicalPlan::Aggregate(aggregate), &["k", "window_end", "n"]);
    check(&explained(query), "
        Calc(select=[k, window_end, n])
        +- GroupWindowAggregate(groupBy=[k], window=[TUMBLE(time_col=[ts], size=[10 s])], select=[k, COUNT(*) AS n, start('w$) AS window_start, end('w$) AS window_end, rowtime('w$) AS window_time])
           +- Exchange(distribution=[hash[k]])
              +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
                 +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, ts])
    ");
}

#[test]
fn a_group_by_without_both_bounds_is_an_updating_one() {
    let aggregate = aggregated(
        tumbled(scan(table("t"))),
        &["k", "window_start"],
        &[("COUNT", None, "n")],
    );
    let query = columns(
        LogicalPlan::Aggregate(aggregate),
        &["k", "window_start", "n"],
    );
    check(&explained(query), "
        GroupAggregate(groupBy=[k, window_start], select=[k, window_start, COUNT(*) AS n])
        +- Exchange(distribution=[hash[k, window_start]])
           +- Calc(select=[k, window_start])
              +- WindowTableFunction(window=[TUMBLE(time_col=[ts], size=[10 s])])
                 +- WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000:INTERVAL DAY TO SECOND)])
                    +- TableSourceScan(table=[[default_catalog, default_database, t]], fields=[k, ts])
    ");
}
