//! Damaged and huge statements are refused, never a panic or an exhausted stack.

use sqlparser::tokenizer::{Token, Tokenizer};

use crate::sql::dialect::FlinkDialect;
use crate::sql::split_script;
use crate::sql::test_session::*;

const STATEMENTS: [&str; 14] = [
    "CREATE TABLE t (a INT NOT NULL, b AS a + 1, r ROW<x ARRAY<INT>, y MAP<STRING, INT>>, ts TIMESTAMP(3), \
     WATERMARK FOR ts AS ts - INTERVAL '5' SECOND, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'memory')",
    "CREATE TEMPORARY VIEW IF NOT EXISTS v (a, b) AS SELECT auction, ts FROM bid /*+ OPTIONS('rows' = '1') */ AS x",
    "INSERT INTO out1 (b, a) SELECT name, id FROM person WHERE id IN (1, 2) AND name LIKE 'a%' ESCAPE '!'",
    "EXECUTE STATEMENT SET BEGIN INSERT INTO out1 VALUES (1, 'a'); INSERT INTO out1 VALUES (2, 'b'); END",
    "SELECT window_start, COUNT(DISTINCT auction) FILTER (WHERE price > 1.5) FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), \
     INTERVAL '1' MINUTE, INTERVAL '5' MINUTES)) GROUP BY window_start, window_end HAVING COUNT(*) > 1",
    "SELECT * FROM SESSION(DATA => TABLE bid PARTITION BY (auction, bidder), TIMECOL => DESCRIPTOR(ts), GAP => INTERVAL '1' DAY)",
    "SELECT auction, SUM(price), GROUPING(bidder) FROM bid GROUP BY GROUPING SETS ((auction, bidder), (auction), ())",
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC NULLS LAST) AS rn FROM bid) WHERE rn <= 3",
    "SELECT b.auction, t.tag FROM bid AS b LEFT JOIN UNNEST(b.tags) WITH ORDINALITY AS t (tag, n) ON TRUE, person",
    "SELECT * FROM bid AS l WHERE NOT EXISTS (SELECT 1 FROM person AS r WHERE l.auction = r.id) AND l.auction NOT IN (SELECT id FROM person)",
    "WITH a (x) AS (SELECT 1), b AS (SELECT x FROM a) SELECT x FROM a UNION ALL SELECT x FROM b",
    "SELECT TUMBLE_START(ts, INTERVAL '1' HOUR), MAX(price) FROM bid GROUP BY TUMBLE(ts, INTERVAL '1' HOUR)",
    "SELECT CASE item.size WHEN 1 THEN tags[1] ELSE CAST(price AS STRING) END, EXTRACT(DAY FROM ts), ARRAY[1, 2], MAP['a', 1], \
     (1, 2), TIMESTAMP '2024-01-01 00:00:00', TRIM(BOTH 'x' FROM 'xax'), FLOOR(ts TO HOUR) FROM bid",
    "SELECT id FROM person AS a JOIN person AS b USING (id) FULL JOIN (SELECT id FROM person) AS c ON a.id = c.id",
];

/// Every statement without each of its tokens, with each twice, and cut off behind each.
#[test]
fn damaged_statements_do_not_panic() {
    let mut session = session();
    let mut refused = 0;
    for sql in STATEMENTS {
        let tokens = Tokenizer::new(&FlinkDialect, sql).tokenize().unwrap();
        for index in
            (0..tokens.len()).filter(|index| !matches!(tokens[*index], Token::Whitespace(_)))
        {
            let text = |part: &[Token]| part.iter().map(Token::to_string).collect::<String>();
            let (before, here, after) = (
                text(&tokens[..index]),
                tokens[index].to_string(),
                text(&tokens[index + 1..]),
            );
            for damaged in [
                format!("{before}{after}"),
                format!("{before}{here} {here}{after}"),
                format!("{before}{here}"),
                format!("{before})({after}"),
            ] {
                if let Ok(statements) = split_script(&damaged) {
                    refused += statements
                        .iter()
                        .filter(|statement| session.clone().execute(&statement.text).is_err())
                        .count();
                }
            }
        }
        session.execute(sql).ok();
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn long_chains_are_bound_or_refused() {
    let chain = |length: usize, link: &str| {
        format!(
            "SELECT auction FROM bid WHERE auction = 0{}",
            link.repeat(length)
        )
    };
    plan(&chain(900, " OR auction = 1"));
    plan(&chain(900, " AND auction = 1"));
    plan(&format!("SELECT auction{} FROM bid", " + 1".repeat(300)));
    for length in [301, 1_000, 1_001, 100_000] {
        let refusal = error(&format!("SELECT auction{} FROM bid", " + 1".repeat(length)));
        assert!(
            refusal.to_string().contains("operators in a row"),
            "{refusal}"
        );
    }
    let list: Vec<String> = (0..20_000).map(|number| number.to_string()).collect();
    plan(&format!(
        "SELECT auction FROM bid WHERE auction IN ({})",
        list.join(", ")
    ));
}

#[test]
fn deep_nesting_is_bound_or_refused() {
    let nested = |depth: usize| format!("SELECT {}1{}", "(".repeat(depth), ")".repeat(depth));
    plan(&nested(40));
    let refusal = error(&nested(5_000)).to_string();
    assert!(refusal.contains("nested too deeply"), "{refusal}");
    let queries = |depth: usize| {
        format!(
            "{}SELECT 1 AS x{}",
            "SELECT x FROM (".repeat(depth),
            ")".repeat(depth)
        )
    };
    plan(&queries(15));
    error(&queries(500));
    let types = format!(
        "CREATE TABLE t (a {}INT{})",
        "ARRAY<".repeat(500),
        ">".repeat(500)
    );
    error(&types);
}
