//! Window functions in FROM, and what is refused of them.

use crate::sql::test_session::*;

const TUMBLE: &str = "Window TUMBLE(size=[10 min]) offset 0 on $3 by [] EventTimestamp\n  Scan bid";

#[test]
fn all_forms_of_tumble_are_one() {
    for sql in [
        "SELECT * FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' MINUTE))",
        "SELECT * FROM TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' MINUTES)",
        "SELECT * FROM tumble(TABLE default_database.bid, descriptor(`ts`), INTERVAL '10' MINUTE)",
        "SELECT * FROM TUMBLE(DATA => TABLE bid, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' MINUTE)",
        "SELECT * FROM TABLE(TUMBLE(DATA => TABLE bid, SIZE => INTERVAL '10' MINUTE, TIMECOL => DESCRIPTOR(ts)))",
        "SELECT * FROM TUMBLE((SELECT * FROM bid), DESCRIPTOR(ts), INTERVAL '10' MINUTE)",
        "SELECT * FROM TUMBLE(TABLE (SELECT * FROM bid), DESCRIPTOR(ts), INTERVAL '10' MINUTE)",
        "WITH b AS (SELECT * FROM bid) SELECT * FROM TUMBLE(TABLE b, DESCRIPTOR(ts), INTERVAL '10' MINUTE)",
    ] {
        assert_eq!(plan(sql), TUMBLE, "{sql}");
    }
}

#[test]
fn windows_have_their_lengths() {
    let window = |call: &str| {
        let text = plan(&format!("SELECT * FROM {call}"));
        text.lines().next().unwrap().to_string()
    };
    assert_eq!(
        window("TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '-8' HOUR)"),
        "Window TUMBLE(size=[1 d]) offset -28800000 on $3 by [] EventTimestamp"
    );
    assert_eq!(
        window(
            "TUMBLE(DATA => TABLE bid, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '1' DAY, `OFFSET` => INTERVAL '1' HOUR)"
        ),
        "Window TUMBLE(size=[1 d]) offset 3600000 on $3 by [] EventTimestamp"
    );
    assert_eq!(
        window("HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)"),
        "Window HOP(size=[10 s], slide=[5 s]) offset 0 on $3 by [] EventTimestamp"
    );
    assert_eq!(
        window(
            "HOP(DATA => TABLE bid, TIMECOL => DESCRIPTOR(ts), SIZE => INTERVAL '10' SECOND, SLIDE => INTERVAL '5' SECOND)"
        ),
        "Window HOP(size=[10 s], slide=[5 s]) offset 0 on $3 by [] EventTimestamp"
    );
    assert_eq!(
        window("CUMULATE(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' MINUTE, INTERVAL '10' MINUTE)"),
        "Window CUMULATE(max_size=[10 min], step=[2 min]) offset 0 on $3 by [] EventTimestamp"
    );
    assert_eq!(
        window(
            "SESSION(TABLE bid PARTITION BY (auction, bidder), DESCRIPTOR(ts), INTERVAL '5' MINUTE)"
        ),
        "Window SESSION(gap=[5 min]) offset 0 on $3 by [0, 1] EventTimestamp"
    );
    assert_eq!(
        window("SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(ts), INTERVAL '5' MINUTE)"),
        "Window SESSION(gap=[5 min]) offset 0 on $3 by [1] EventTimestamp"
    );
    assert_eq!(
        window("SESSION(DATA => TABLE bid, TIMECOL => DESCRIPTOR(ts), GAP => INTERVAL '5' MINUTE)"),
        "Window SESSION(gap=[5 min]) offset 0 on $3 by [] EventTimestamp"
    );
}

#[test]
fn the_clock_follows_the_column_and_the_session_zone() {
    let mut session = session();
    session
        .execute("SET 'table.local-time-zone' = 'Asia/Singapore'")
        .unwrap();
    let mut clock = |table: &str, column: &str| {
        let sql =
            format!("SELECT * FROM TUMBLE(TABLE {table}, DESCRIPTOR({column}), INTERVAL '1' DAY)");
        let text = plan_in(&mut session, &sql);
        text.lines()
            .next()
            .unwrap()
            .split_once("[] ")
            .unwrap()
            .1
            .to_string()
    };
    assert_eq!(clock("bid", "ts"), "EventTimestamp");
    assert_eq!(
        clock("person", "born"),
        "EventInstant { time_zone: \"Asia/Singapore\" }"
    );
    assert_eq!(
        clock("click", "pt"),
        "Processing { time_zone: \"Asia/Singapore\" }"
    );
}

#[test]
fn window_time_takes_over_from_the_time_column() {
    assert_eq!(
        schema(
            "SELECT ts, window_start, window_end, window_time FROM TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
        ),
        "ts TIMESTAMP(3), window_start TIMESTAMP(3) NOT NULL, window_end TIMESTAMP(3) NOT NULL, \
         window_time TIMESTAMP(3) NOT NULL *rowtime*"
    );
}

#[test]
fn a_window_aggregate_groups_by_the_window() {
    assert_eq!(
        plan(
            "SELECT window_start, window_end, COUNT(*) AS n, SUM(price) FROM TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' MINUTE) \
             GROUP BY window_start, window_end"
        ),
        "Aggregate by [0, 1] calls COUNT(*) AS n, SUM($2) AS EXPR$3\n  Project $6 AS window_start, $7 AS window_end, $2 AS price\n    \
         Window TUMBLE(size=[10 min]) offset 0 on $3 by [] EventTimestamp\n      Scan bid"
    );
}

#[test]
fn windows_cascade_through_window_time() {
    let inner = "SELECT window_time AS rt, COUNT(*) AS n FROM TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' MINUTE) \
                 GROUP BY window_start, window_end, window_time";
    assert_eq!(
        schema(inner),
        "rt TIMESTAMP(3) NOT NULL *rowtime*, n BIGINT NOT NULL"
    );
    let outer = plan(&format!(
        "SELECT window_start, SUM(n) FROM TUMBLE(TABLE ({inner}), DESCRIPTOR(rt), INTERVAL '1' HOUR) GROUP BY window_start, window_end"
    ));
    assert_eq!(outer.matches("Window TUMBLE").count(), 2, "{outer}");
}

#[test]
fn sizes_that_do_not_divide_are_refused() {
    refused(
        "SELECT * FROM HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '15' MINUTE, INTERVAL '20' MINUTE)",
        "'15'",
        &[
            "HOP",
            "integral multiple of slide",
            "size 20 min",
            "slide 15 min",
        ],
    );
    refused(
        "SELECT * FROM CUMULATE(TABLE bid, DESCRIPTOR(ts), INTERVAL '4' SECOND, INTERVAL '10' SECOND)",
        "'4'",
        &[
            "CUMULATE",
            "integral multiple of step",
            "size 10 s",
            "step 4 s",
        ],
    );
    refused(
        "SELECT * FROM TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '0' SECOND)",
        "'0'",
        &["the size of TUMBLE must be positive"],
    );
    refused(
        "SELECT * FROM SESSION(TABLE bid, DESCRIPTOR(ts), INTERVAL '-1' SECOND)",
        "'-1'",
        &["the gap of SESSION must be positive"],
    );
    refused(
        "SELECT * FROM TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' MONTH)",
        "'1'",
        &["days to seconds"],
    );
}

#[test]
fn the_time_column_must_be_a_time_attribute() {
    refused(
        "SELECT * FROM TUMBLE(TABLE bid, DESCRIPTOR(auction), INTERVAL '1' MINUTE)",
        "DESCRIPTOR",
        &[
            "column \"auction\" is a plain BIGINT",
            "time attributes here: \"ts\"",
        ],
    );
    refused(
        "SELECT * FROM TUMBLE(TABLE (SELECT * FROM TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' MINUTE)), DESCRIPTOR(ts), INTERVAL '5' MINUTE)",
        "DESCRIPTOR(ts), INTERVAL '5'",
        &["column \"ts\" is a plain TIMESTAMP(3)", "window_time"],
    );
    refused(
        "SELECT * FROM TUMBLE(TABLE (SELECT ts + INTERVAL '1' SECOND AS x FROM bid), DESCRIPTOR(x), INTERVAL '5' MINUTE)",
        "DESCRIPTOR",
        &["WATERMARK FOR x"],
    );
}

#[test]
fn wrong_calls_show_how_it_is_written() {
    refused(
        "SELECT * FROM TUMBLE(TABLE bid, DESCRIPTOR(ts))",
        "TUMBLE",
        &[
            "lacks its SIZE",
            "TUMBLE(TABLE t, DESCRIPTOR(ts), size [, offset])",
        ],
    );
    refused(
        "SELECT * FROM TUMBLE(bid, DESCRIPTOR(ts), INTERVAL '1' DAY)",
        "bid",
        &["written TABLE name"],
    );
    refused(
        "SELECT * FROM TUMBLE(TABLE bid, ts, INTERVAL '1' DAY)",
        "ts",
        &["DESCRIPTOR"],
    );
    refused(
        "SELECT * FROM TUMBLE(TABLE bid, DESCRIPTOR(tss), INTERVAL '1' DAY)",
        "tss",
        &["no column \"tss\""],
    );
    refused(
        "SELECT * FROM TUMBLE(DATA => TABLE bid, TIMECOL => DESCRIPTOR(ts), GAP => INTERVAL '1' DAY)",
        "GAP",
        &["no argument GAP", "SIZE"],
    );
    refused(
        "SELECT * FROM TUMBLE(TABLE bid PARTITION BY auction, DESCRIPTOR(ts), INTERVAL '1' DAY)",
        "TUMBLE",
        &["PARTITION BY is for SESSION"],
    );
    refused(
        "SELECT * FROM TUMBL(TABLE bid, DESCRIPTOR(ts), INTERVAL '1' DAY)",
        "TUMBL",
        &["the table function TUMBL"],
    );
    refused(
        "SELECT TUMBLE(ts, INTERVAL '1' DAY) FROM bid",
        "TUMBLE",
        &["windows are made in FROM"],
    );
}
