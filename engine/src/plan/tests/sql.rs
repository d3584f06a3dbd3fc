//! From SQL to the tree: what the binder really makes of the queries that matter most.

use super::*;
use crate::sql::{Session, StatementResult};

const TABLES: &[&str] = &[
    "CREATE TABLE bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, dateTime TIMESTAMP(3), \
     WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND) WITH ('connector' = 'nowhere')",
    "CREATE TABLE person (id BIGINT, name STRING, dateTime TIMESTAMP(3), WATERMARK FOR dateTime AS dateTime) \
     WITH ('connector' = 'nowhere')",
    "CREATE TABLE auction (id BIGINT, seller BIGINT, dateTime TIMESTAMP(3), WATERMARK FOR dateTime AS dateTime) \
     WITH ('connector' = 'nowhere')",
    "CREATE TABLE click (user_id INT, pt AS PROCTIME()) WITH ('connector' = 'nowhere')",
    "CREATE TABLE hours (h TIMESTAMP(3), airport STRING, n BIGINT, mean DOUBLE) WITH ('connector' = 'terminal')",
    "CREATE TABLE worst (h TIMESTAMP(3), airport STRING, mean DOUBLE) WITH ('connector' = 'nowhere')",
    "CREATE TABLE tagged (k STRING, tags ARRAY<STRING>) WITH ('connector' = 'nowhere')",
    "CREATE VIEW hourly AS SELECT window_start, window_end, channel AS airport, COUNT(*) AS n, \
     AVG(CAST(price AS DOUBLE)) AS mean FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), INTERVAL '1' HOUR)) \
     GROUP BY channel, window_start, window_end",
];

/// The tree of a statement, or what is said against it.
fn tree(sql: &str) -> String {
    tree_with(sql, "1")
}

fn tree_with(sql: &str, parallelism: &str) -> String {
    let mut session = Session::new(connectors());
    session
        .config
        .set("parallelism.default", parallelism)
        .unwrap();
    for ddl in TABLES {
        session.execute(ddl).unwrap();
    }
    let StatementResult::Job(statement) = session.execute(sql).unwrap() else {
        panic!("{sql} is no job");
    };
    match plan_statement(&statement, &session.config, &session.connectors, None) {
        Ok(plan) => without_heading(&shown(&plan, false)),
        Err(error) => error.with_sql(sql).to_string(),
    }
}

#[test]
fn hot_items_share_the_counts_and_join_by_window() {
    let counts = "SELECT auction, COUNT(*) AS num, window_start AS s, window_end AS e FROM TABLE(HOP(TABLE bid, \
                  DESCRIPTOR(dateTime), INTERVAL '2' SECOND, INTERVAL '10' SECOND)) GROUP BY auction, window_start, window_end";
    let sql = format!(
        "SELECT b.auction, b.num FROM ({counts}) b JOIN (SELECT MAX(c.num) AS maxn, c.s, c.e FROM ({counts}) c GROUP BY c.s, c.e) m \
         ON b.s = m.s AND b.e = m.e AND b.num >= m.maxn"
    );
    check(&tree(&sql), "
        Calc(select=[auction, num])
        +- WindowJoin(leftWindow=[HOP(win_start=[window_start], win_end=[window_end], size=[10 s], slide=[2 s])], rightWindow=[HOP(win_start=[window_start], win_end=[window_end], size=[10 s], slide=[2 s])], joinType=[InnerJoin], where=[(num >= maxn)], select=[auction, num, window_start, window_end, maxn, window_start, window_end])
           :- Exchange(distribution=[single])
           :  +- WindowAggregate(groupBy=[auction], window=[HOP(time_col=[dateTime], size=[10 s], slide=[2 s])], select=[auction, COUNT(*) AS num, start('w$) AS window_start, end('w$) AS window_end])(reuse_id=[1])
           :     +- Exchange(distribution=[hash[auction]])
           :        +- WatermarkAssigner(rowtime=[dateTime], watermark=[(dateTime - 4000:INTERVAL DAY TO SECOND)])
           :           +- TableSourceScan(table=[[default_catalog, default_database, bid]], fields=[auction, dateTime])
           +- WindowAggregate(window=[HOP(win_start=[window_start], win_end=[window_end], size=[10 s], slide=[2 s])], select=[MAX(num) AS maxn, start('w$) AS window_start, end('w$) AS window_end])
              +- Exchange(distribution=[single])
                 +- Calc(select=[num, window_start, window_end])
                    +- Reused(reference_id=[1])
    ");
}

#[test]
fn new_users_join_two_windowed_streams() {
    let sql = "SELECT p.id, p.name, p.s FROM (SELECT id, name, window_start AS s, window_end AS e FROM TABLE(TUMBLE(TABLE person, \
               DESCRIPTOR(dateTime), INTERVAL '10' SECOND)) GROUP BY id, name, window_start, window_end) p JOIN (SELECT seller, \
               window_start AS s, window_end AS e FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(dateTime), INTERVAL '10' SECOND)) \
               GROUP BY seller, window_start, window_end) a ON p.id = a.seller AND p.s = a.s AND p.e = a.e";
    check(&tree(sql), "
        Calc(select=[id, name, window_start AS s])
        +- WindowJoin(leftWindow=[TUMBLE(win_start=[window_start], win_end=[window_end], size=[10 s])], rightWindow=[TUMBLE(win_start=[window_start], win_end=[window_end], size=[10 s])], joinType=[InnerJoin], where=[(id = seller)], select=[id, name, window_start, window_end, seller, window_start, window_end])
           :- Exchange(distribution=[hash[id]])
           :  +- WindowAggregate(groupBy=[id, name], window=[TUMBLE(time_col=[dateTime], size=[10 s])], select=[id, name, start('w$) AS window_start, end('w$) AS window_end])
           :     +- Exchange(distribution=[hash[id, name]])
           :        +- WatermarkAssigner(rowtime=[dateTime], watermark=[dateTime])
           :           +- TableSourceScan(table=[[default_catalog, default_database, person]], fields=[id, name, dateTime])
           +- WindowAggregate(groupBy=[seller], window=[TUMBLE(time_col=[dateTime], size=[10 s])], select=[seller, start('w$) AS window_start, end('w$) AS window_end])
              +- Exchange(distribution=[hash[seller]])
                 +- WatermarkAssigner(rowtime=[dateTime], watermark=[dateTime])
                    +- TableSourceScan(table=[[default_catalog, default_database, auction]], fields=[seller, dateTime])
    ");
}

#[test]
fn a_statement_set_over_a_view_computes_it_once() {
    let sql = "EXECUTE STATEMENT SET BEGIN \
               INSERT INTO hours SELECT window_start, airport, n, mean FROM hourly; \
               INSERT INTO worst SELECT window_start, airport, mean FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, \
               window_end ORDER BY mean DESC, airport) AS r FROM hourly WHERE n >= 10) WHERE r <= 3; END";
    check(&tree_with(sql, "2"), "
        Sink(table=[default_catalog.default_database.hours], fields=[h, airport, n, mean])
        +- Exchange(distribution=[single])
           +- Calc(select=[window_start AS h, channel AS airport, n, mean])
              +- GlobalWindowAggregate(groupBy=[channel], window=[TUMBLE(slice_end=[$slice_end], size=[1 h])], select=[channel, COUNT(count$n) AS n, AVG(avg$mean) AS mean, start('w$) AS window_start, end('w$) AS window_end])(reuse_id=[1])
                 +- Exchange(distribution=[hash[channel]])
                    +- LocalWindowAggregate(groupBy=[channel], window=[TUMBLE(time_col=[dateTime], size=[1 h])], select=[channel, COUNT(*) AS count$n, AVG($f3) AS avg$mean, slice_end('w$) AS $slice_end])
                       +- Calc(select=[channel, dateTime, CAST(price AS DOUBLE) AS $f3])
                          +- WatermarkAssigner(rowtime=[dateTime], watermark=[(dateTime - 4000:INTERVAL DAY TO SECOND)])
                             +- TableSourceScan(table=[[default_catalog, default_database, bid]], fields=[price, channel, dateTime])

        Sink(table=[default_catalog.default_database.worst], fields=[h, airport, mean])
        +- Calc(select=[window_start AS h, channel AS airport, mean])
           +- WindowRank(window=[TUMBLE(win_start=[window_start], win_end=[window_end], size=[1 h])], rankType=[ROW_NUMBER], rankRange=[rankStart=1, rankEnd=3], partitionBy=[], orderBy=[mean DESC, channel ASC], select=[channel, mean, window_start, window_end])
              +- Exchange(distribution=[single])
                 +- Calc(select=[channel, mean, window_start, window_end], where=[(n >= 10)])
                    +- Reused(reference_id=[1])
    ");
}

#[test]
fn rollup_expands() {
    let sql = "SELECT auction, bidder, COUNT(*) AS n, window_end FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(dateTime), \
               INTERVAL '10' SECOND)) GROUP BY window_start, window_end, ROLLUP(auction, bidder)";
    check(&tree(sql), "
        Calc(select=[auction, bidder, n, window_end])
        +- WindowAggregate(groupBy=[auction, bidder, $e], window=[TUMBLE(time_col=[dateTime], size=[10 s])], select=[auction, bidder, $e, COUNT(*) AS n, start('w$) AS window_start, end('w$) AS window_end])
           +- Exchange(distribution=[hash[auction, bidder, $e]])
              +- Expand(projects=[{auction, bidder, dateTime, 0 AS $e}, {auction, NULL AS bidder, dateTime, 1 AS $e}, {NULL AS auction, NULL AS bidder, dateTime, 3 AS $e}])
                 +- WatermarkAssigner(rowtime=[dateTime], watermark=[(dateTime - 4000:INTERVAL DAY TO SECOND)])
                    +- TableSourceScan(table=[[default_catalog, default_database, bid]], fields=[auction, bidder, dateTime])
    ");
}

#[test]
fn processing_time_windows_read_the_clock_where_they_are() {
    let sql = "SELECT user_id, COUNT(*) AS n, window_start, window_end FROM TABLE(TUMBLE(TABLE click, DESCRIPTOR(pt), \
               INTERVAL '10' SECOND)) GROUP BY user_id, window_start, window_end";
    let text = tree_with(sql, "2");
    assert!(
        text.contains("WindowAggregate(groupBy=[user_id], window=[TUMBLE(time_col=[pt]"),
        "{text}"
    );
    assert!(!text.contains("Local"), "{text}");
}

#[test]
fn the_legacy_form_and_a_filtered_distinct_count_are_understood() {
    let legacy = "SELECT auction, TUMBLE_START(dateTime, INTERVAL '10' SECOND) AS s, COUNT(*) AS n FROM bid \
                  GROUP BY auction, TUMBLE(dateTime, INTERVAL '10' SECOND)";
    assert!(tree(legacy).contains("GroupWindowAggregate(groupBy=[auction]"));
    let distinct = "SELECT window_start, COUNT(DISTINCT bidder) FILTER (WHERE price > 10) AS n FROM TABLE(TUMBLE(TABLE bid, \
                    DESCRIPTOR(dateTime), INTERVAL '10' SECOND)) GROUP BY window_start, window_end HAVING COUNT(*) > 3";
    check(&tree(distinct), "
        Calc(select=[window_start, n], where=[($f3 > 3)])
        +- WindowAggregate(window=[TUMBLE(time_col=[dateTime], size=[10 s])], select=[COUNT(DISTINCT bidder) FILTER $f3 AS n, COUNT(*) AS $f3, start('w$) AS window_start, end('w$) AS window_end])
           +- Exchange(distribution=[single])
              +- Calc(select=[bidder, dateTime, (price > 10) AS $f3])
                 +- WatermarkAssigner(rowtime=[dateTime], watermark=[(dateTime - 4000:INTERVAL DAY TO SECOND)])
                    +- TableSourceScan(table=[[default_catalog, default_database, bid]], fields=[bidder, price, dateTime])
    ");
}

#[test]
fn in_by_window_is_a_semi_join() {
    let sql = "SELECT id FROM (SELECT * FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(dateTime), INTERVAL '10' SECOND))) l \
               WHERE l.id IN (SELECT seller FROM (SELECT * FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(dateTime), \
               INTERVAL '10' SECOND))) r WHERE l.window_start = r.window_start AND l.window_end = r.window_end)";
    let text = tree(sql);
    assert!(
        text.contains(
            "joinType=[LeftSemiJoin], where=[(id = seller)], select=[id, window_start, window_end]"
        ),
        "{text}"
    );
}

#[test]
fn a_collection_is_unnested_only_for_rows_that_stay() {
    let sql = "SELECT k, x FROM tagged CROSS JOIN UNNEST(tags) AS u(x) WHERE k = 'a' AND x <> 'b'";
    check(
        &tree(sql),
        "
        Calc(select=[k, x], where=[(x <> 'b')])
        +- Correlate(invocation=[$UNNEST_ROWS$1(tags)], select=[k, tags, x], joinType=[INNER])
           +- Calc(select=[k, tags], where=[(k = 'a')])
              +- TableSourceScan(table=[[default_catalog, default_database, tagged]], fields=[k, tags])
    ",
    );
}

#[test]
fn refusals_show_their_place() {
    let text = tree(
        "SELECT channel, COUNT(*) AS n FROM bid\nGROUP BY GROUPING SETS ((channel), (channel))",
    );
    assert!(text.contains("the same grouping set twice"), "{text}");
    assert!(text.contains("2 | GROUP BY GROUPING SETS"), "{text}");
}

#[test]
fn a_set_operation_is_a_join_in_which_nulls_are_equal() {
    let text = tree("SELECT id FROM person EXCEPT SELECT seller FROM auction");
    assert!(
        text.contains("Join(joinType=[LeftAntiJoin], where=[(id IS NOT DISTINCT FROM seller)]"),
        "{text}"
    );
    assert!(text.contains("GroupAggregate(groupBy=[id]"), "{text}");
    let text = tree("SELECT id FROM person INTERSECT ALL SELECT seller FROM auction");
    assert!(text.contains("Union("), "{text}");
    assert!(text.contains("Correlate("), "{text}");
}

#[test]
fn a_scalar_subquery_is_joined_by_what_it_refers_to() {
    let text =
        tree("SELECT id, (SELECT MAX(id) FROM auction WHERE seller = p.id) AS bid FROM person p");
    assert!(
        text.contains("Join(joinType=[LeftOuterJoin], where=[(id = seller)]"),
        "{text}"
    );
    assert!(text.contains("GroupAggregate(groupBy=[seller]"), "{text}");
    assert!(
        text.contains("rightInputSpec=[JoinKeyContainsUniqueKey]"),
        "{text}"
    );
}
