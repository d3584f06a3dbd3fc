//! Statements and the plans they become, and statements that are refused.

use super::test_session::*;

#[test]
fn explore() {
    for sql in [
        "SELECT auction, price FROM bid WHERE price > 10",
        "SELECT window_start, window_end, COUNT(*) AS n, SUM(price) FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) GROUP BY window_start, window_end",
        "INSERT INTO out1 SELECT auction, 'x' FROM bid",
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rn FROM bid) WHERE rn <= 3",
        "SELECT 1, 'a'",
        "SELECT b.auction, t.tag FROM bid AS b CROSS JOIN UNNEST(b.tags) AS t (tag)",
        "SELECT HOP_START(ts, INTERVAL '10' SECOND, INTERVAL '5' SECOND) AS ws, COUNT(*) AS n FROM bid GROUP BY HOP(ts, INTERVAL '10' SECOND, INTERVAL '5' SECOND)",
        "SELECT item.name, bid.item.size, tags[1] FROM bid",
    ] {
        println!("{sql}\n{}\n", plan(sql));
    }
}
