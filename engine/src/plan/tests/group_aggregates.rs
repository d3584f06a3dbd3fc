//! Aggregations without windows: phases, mini-batch, distinct aggregates by buckets.

use super::*;
use crate::sql::{Session, StatementResult};

const BID: &str = "CREATE TABLE bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, dateTime TIMESTAMP(3), \
     WATERMARK FOR dateTime AS dateTime - INTERVAL '4' SECOND) WITH ('connector' = 'nowhere')";
const MINI_BATCH: &[(&str, &str)] = &[
    ("table.exec.mini-batch.enabled", "true"),
    ("table.exec.mini-batch.allow-latency", "2 s"),
    ("table.exec.mini-batch.size", "100"),
];
const COUNT_AND_MAX: &str =
    "SELECT channel, COUNT(*) AS n, MAX(price) AS hi FROM bid GROUP BY channel";

fn tree(sql: &str, options: &[(&str, &str)]) -> String {
    let mut session = Session::new(connectors());
    for (key, value) in options {
        session.config.set(key, value).unwrap();
    }
    session.execute(BID).unwrap();
    let StatementResult::Job(statement) = session.execute(sql).unwrap() else {
        panic!("{sql} is no job");
    };
    match plan_statement(&statement, &session.config, &session.connectors, None) {
        Ok(plan) => without_heading(&shown(&plan, false)),
        Err(error) => error.with_sql(sql).to_string(),
    }
}

fn with_mini_batch<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [MINI_BATCH, more].concat()
}

#[test]
fn one_phase_behind_one_exchange() {
    check(&tree(COUNT_AND_MAX, &[]), "
        GroupAggregate(groupBy=[channel], select=[channel, COUNT(*) AS n, MAX(price) AS hi])
        +- Exchange(distribution=[hash[channel]])
           +- Calc(select=[price, channel])
              +- WatermarkAssigner(rowtime=[dateTime], watermark=[(dateTime - 4000:INTERVAL DAY TO SECOND)])
                 +- TableSourceScan(table=[[default_catalog, default_database, bid]], fields=[price, channel, dateTime])
    ");
}

#[test]
fn mini_batch_marks_by_the_clock_and_folds_before_the_exchange() {
    let two = with_mini_batch(&[("table.optimizer.agg-phase-strategy", "TWO_PHASE")]);
    check(&tree(COUNT_AND_MAX, &two), "
        GlobalGroupAggregate(groupBy=[channel], select=[channel, COUNT(*) AS n, MAX(price) AS hi])
        +- Exchange(distribution=[hash[channel]])
           +- LocalGroupAggregate(groupBy=[channel], select=[channel, COUNT(*) AS n, MAX(price) AS hi])
              +- Calc(select=[price, channel])
                 +- MiniBatchAssigner(interval=[2000ms], mode=[ProcTime])
                    +- WatermarkAssigner(rowtime=[dateTime], watermark=[(dateTime - 4000:INTERVAL DAY TO SECOND)])
                       +- TableSourceScan(table=[[default_catalog, default_database, bid]], fields=[price, channel, dateTime])
    ");
    // Automatic: only where rows really move.
    assert!(!tree(COUNT_AND_MAX, MINI_BATCH).contains("LocalGroupAggregate"));
    let parallel = with_mini_batch(&[("parallelism.default", "2")]);
    assert!(tree(COUNT_AND_MAX, &parallel).contains("LocalGroupAggregate"));
}

#[test]
fn below_a_window_bundles_end_by_the_watermark() {
    let sql = "SELECT n, COUNT(*) AS c FROM (SELECT channel, window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE bid, \
               DESCRIPTOR(dateTime), INTERVAL '1' MINUTE)) GROUP BY channel, window_start, window_end) GROUP BY n";
    check(&tree(sql, MINI_BATCH), "
        GroupAggregate(groupBy=[n], select=[n, COUNT(*) AS c])
        +- Exchange(distribution=[hash[n]])
           +- Calc(select=[n])
              +- WindowAggregate(groupBy=[channel], window=[TUMBLE(time_col=[dateTime], size=[1 min])], select=[channel, COUNT(*) AS n, start('w$) AS window_start, end('w$) AS window_end])
                 +- Exchange(distribution=[hash[channel]])
                    +- MiniBatchAssigner(interval=[2000ms], mode=[RowTime])
                       +- WatermarkAssigner(rowtime=[dateTime], watermark=[(dateTime - 4000:INTERVAL DAY TO SECOND)])
                          +- TableSourceScan(table=[[default_catalog, default_database, bid]], fields=[channel, dateTime])
    ");
}

#[test]
fn distinct_aggregates_are_split_by_buckets() {
    let split = with_mini_batch(&[("table.optimizer.distinct-agg.split.enabled", "true")]);
    let sql = "SELECT channel, COUNT(DISTINCT bidder) AS n FROM bid GROUP BY channel";
    check(&tree(sql, &split), "
        GroupAggregate(groupBy=[channel], select=[channel, $SUM0(n) AS n])
        +- Exchange(distribution=[hash[channel]])
           +- GroupAggregate(groupBy=[channel, $bucket], select=[channel, $bucket, COUNT(DISTINCT bidder) AS n])
              +- Exchange(distribution=[hash[channel, $bucket]])
                 +- Calc(select=[bidder, channel, (CAST(HASH_CODE(bidder) AS BIGINT) % CAST(1024 AS BIGINT)) AS $bucket])
                    +- Calc(select=[bidder, channel])
                       +- MiniBatchAssigner(interval=[2000ms], mode=[ProcTime])
                          +- WatermarkAssigner(rowtime=[dateTime], watermark=[(dateTime - 4000:INTERVAL DAY TO SECOND)])
                             +- TableSourceScan(table=[[default_catalog, default_database, bid]], fields=[bidder, channel, dateTime])
    ");
    let average =
        "SELECT channel, COUNT(DISTINCT bidder) AS n, AVG(price) AS a FROM bid GROUP BY channel";
    assert!(!tree(average, &split).contains("$bucket"));
}

#[test]
fn mini_batch_without_its_limits_is_refused() {
    let error = tree(COUNT_AND_MAX, &[("table.exec.mini-batch.enabled", "true")]);
    assert!(
        error.contains("'table.exec.mini-batch.allow-latency' must be > 0"),
        "{error}"
    );
}
