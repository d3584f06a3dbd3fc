//! The pool of jobs: at least one for every operator that there is, with parameters drawn from a seed.
//!
//! `{a|b|c}` stands for one of its alternatives. What an interleaving may change is kept out: rows are late only where one partition of one
//! table decides it, orders are total, and the processing time is in no result (of rows of one key, the first that arrives is
//! the first of their partition).

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::{IndexedMutRandom, IndexedRandom, SliceRandom};

use super::rows::{PoolTable, RowMaker, Times};
use super::workload::{Compared, Workload};
use crate::testing::case::Step;
use Compared::{Append, Final};
use PoolTable::*;

/// One job of the pool.
pub(super) struct Template {
    pub(super) name: &'static str,
    tables: &'static [PoolTable],
    sql: &'static str,
    query: &'static str,
    set: &'static [(&'static str, &'static str)],
    compared: Compared,
    /// Whether rows may be late: then its table has one partition.
    late: bool,
    /// Whether rows in a different order would give another result, so that no table has two partitions.
    ordered: bool,
}

const fn job(
    name: &'static str,
    tables: &'static [PoolTable],
    compared: Compared,
    query: &'static str,
) -> Template {
    Template {
        name,
        tables,
        sql: "",
        query,
        set: &[],
        compared,
        late: false,
        ordered: false,
    }
}

impl Template {
    const fn late(mut self) -> Self {
        self.late = true;
        self
    }

    const fn ordered(mut self) -> Self {
        self.ordered = true;
        self
    }

    const fn sql(mut self, sql: &'static str) -> Self {
        self.sql = sql;
        self
    }

    const fn set(mut self, set: &'static [(&'static str, &'static str)]) -> Self {
        self.set = set;
        self
    }
}

const BY_ID: &str = "CREATE TABLE s (id BIGINT, k STRING, v INT, PRIMARY KEY (id) NOT ENFORCED)";
const BY_K: &str =
    "CREATE TABLE s (k STRING, n BIGINT, total BIGINT, PRIMARY KEY (k) NOT ENFORCED)";
const MULTI_JOIN: &[(&str, &str)] = &[("table.optimizer.multi-join.enabled", "true")];
const BUNDLES: &[(&str, &str)] = &[
    ("table.exec.mini-batch.enabled", "true"),
    ("table.exec.mini-batch.allow-latency", "1 s"),
    ("table.exec.mini-batch.size", "{2|3|7|100}"),
    ("table.optimizer.agg-phase-strategy", "{AUTO|TWO_PHASE}"),
];
const SPLIT_DISTINCT: &[(&str, &str)] = &[
    ("table.exec.mini-batch.enabled", "true"),
    ("table.exec.mini-batch.allow-latency", "1 s"),
    ("table.exec.mini-batch.size", "{3|100}"),
    ("table.optimizer.agg-phase-strategy", "TWO_PHASE"),
    ("table.optimizer.distinct-agg.split.enabled", "true"),
];

/// See the module.
pub(super) const TEMPLATES: &[Template] = &[
    job("calc", &[Events], Append, "SELECT id, k, v * 2 + 1 AS w, UPPER(k) AS name FROM e WHERE v > {2|7} OR v IS NULL"),
    job("calc over changes", &[Retracted], Final, "SELECT id, v FROM r WHERE v > {2|4}"),
    job("union", &[Events, OtherEvents], Append, "SELECT id, k, v FROM e UNION ALL SELECT id, k, -v FROM f"),
    job("union of changes", &[Retracted, Upserted], Final, "SELECT k, v FROM r UNION ALL SELECT k, v FROM u"),
    job("union distinct", &[Events, Retracted], Final, "SELECT k FROM e {UNION|INTERSECT|EXCEPT} SELECT k FROM r"),
    job("values", &[Events], Final, "SELECT e.id, x.w FROM e JOIN (VALUES ('a', 1), ('b', 2), ('z', 3)) AS x (k, w) ON e.k = x.k"),
    job("grouping sets", &[Events], Final, "SELECT k, g, COUNT(*) AS n, SUM(v) AS s FROM e GROUP BY {CUBE (k, g)|ROLLUP (k, g)|GROUPING SETS ((k), (g), ())}"),
    job("unnest", &[Arrays], Append, "SELECT id, x FROM a {CROSS JOIN UNNEST(xs) AS t (x)|LEFT JOIN UNNEST(xs) AS t (x) ON TRUE}"),
    job("tumble", &[Events], Append, "SELECT window_start, k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m, COUNT(DISTINCT g) AS d FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '{3|10}' SECOND)) GROUP BY window_start, window_end, k").late(),
    job("tumble without late rows", &[Events], Append, "SELECT window_start, g, COUNT(*) AS n, MIN(v) AS m, AVG(v) AS a FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '{3|10}' SECOND)) GROUP BY window_start, window_end, g"),
    job("tumble in one phase", &[Events], Append, "SELECT window_start, k, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '{3|10}' SECOND)) GROUP BY window_start, window_end, k").late().set(&[("table.optimizer.agg-phase-strategy", "ONE_PHASE")]),
    job("tumble of everything", &[Events], Append, "SELECT window_start, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '{3|10}' SECOND)) GROUP BY window_start, window_end").late(),
    job("tumble of changes", &[Versions], Final, "SELECT window_start, k, COUNT(*) AS n, SUM(rate) AS s FROM TABLE(TUMBLE(TABLE c, DESCRIPTOR(ts), INTERVAL '100' SECOND)) GROUP BY window_start, window_end, k").ordered(),
    job("hop", &[Events], Append, "SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS s FROM TABLE(HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '{2|5}' SECOND, INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k").late(),
    job("cumulate", &[Events], Append, "SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS s FROM TABLE(CUMULATE(TABLE e, DESCRIPTOR(ts), INTERVAL '{2|5}' SECOND, INTERVAL '20' SECOND)) GROUP BY window_start, window_end, k").late(),
    job("session", &[Events], Append, "SELECT window_start, window_end, k, COUNT(*) AS n, SUM(v) AS s FROM TABLE(SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '{2|5}' SECOND)) GROUP BY window_start, window_end, k").late(),
    job("group by tumble", &[Events], Append, "SELECT TUMBLE_START(ts, INTERVAL '10' SECOND) AS s, k, COUNT(*) AS n FROM e GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k").late(),
    job("group by session", &[Events], Append, "SELECT SESSION_START(ts, INTERVAL '3' SECOND) AS s, k, COUNT(*) AS n FROM e GROUP BY SESSION(ts, INTERVAL '3' SECOND), k").late(),
    job("window columns", &[Events], Append, "SELECT id, window_start FROM TABLE({HOP(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)|TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND)|SESSION(TABLE e PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECOND)})"),
    job("windows of windows", &[Events], Append, "SELECT window_start, SUM(n) AS n, COUNT(*) AS m FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(wt), INTERVAL '20' SECOND)) GROUP BY window_start, window_end").late().sql("CREATE VIEW w AS SELECT k, window_time AS wt, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end, window_time, k"),
    job("late rows", &[Events], Append, "INSERT INTO s SELECT k, COUNT(*) FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k").late().sql("CREATE TABLE s (k STRING, n BIGINT); CREATE TABLE late (operator STRING, window_end TIMESTAMP(3), watermark TIMESTAMP(3), `row` STRING)").set(&[("volley.late-rows.sink", "late")]),
    job("window join", &[Events, OtherEvents], Append, "SELECT l.id, r.id AS other FROM lw AS l {JOIN|LEFT JOIN|RIGHT JOIN|FULL JOIN} rw AS r ON l.k = r.k AND l.window_start = r.window_start AND l.window_end = r.window_end").sql("CREATE VIEW lw AS SELECT * FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)); CREATE VIEW rw AS SELECT * FROM TABLE(TUMBLE(TABLE f, DESCRIPTOR(ts), INTERVAL '10' SECOND))"),
    job("window semi join", &[Events, OtherEvents], Append, "SELECT lw.id FROM lw WHERE {EXISTS|NOT EXISTS} (SELECT * FROM rw WHERE rw.k = lw.k AND rw.window_start = lw.window_start AND rw.window_end = lw.window_end)").sql("CREATE VIEW lw AS SELECT * FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)); CREATE VIEW rw AS SELECT * FROM TABLE(TUMBLE(TABLE f, DESCRIPTOR(ts), INTERVAL '10' SECOND))"),
    job("window rank", &[Events], Append, "SELECT window_start, id, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end{|, k} ORDER BY v DESC, id) AS rn FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE rn <= {1|2}").late(),
    job("window rank of aggregates", &[Events], Append, "SELECT window_start, k, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, k) AS rn FROM (SELECT window_start, window_end, k, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k)) WHERE rn <= 2"),
    job("window deduplicate", &[Events], Append, "SELECT window_start, k, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY ts {ASC|DESC}) AS rn FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND))) WHERE rn = 1").late(),
    job("group aggregate", &[Events], Final, "SELECT k, COUNT(*) AS n, SUM(v) AS s, MIN(v) AS lo, MAX(v) AS hi, AVG(v) AS a FROM e GROUP BY k"),
    job("group aggregate of changes", &[Retracted], Final, "SELECT k, COUNT(*) AS n, SUM(v) AS s, MIN(v) AS lo, MAX(v) AS hi, COUNT(DISTINCT v) AS d FROM r GROUP BY k{| HAVING COUNT(*) > 1}"),
    job("group aggregate of everything", &[Upserted], Final, "SELECT COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m FROM u"),
    job("group aggregate in bundles", &[Events], Final, "SELECT k, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS m, COUNT(DISTINCT g) AS d FROM e GROUP BY k").set(BUNDLES),
    job("group aggregate of changes in bundles", &[Retracted], Final, "SELECT k, COUNT(*) AS n, SUM(v) AS s, COUNT(DISTINCT v) AS d FROM r GROUP BY k").set(BUNDLES),
    job("split distinct", &[Events], Final, "SELECT g, COUNT(DISTINCT v) AS d, COUNT(*) AS n FROM e GROUP BY g").set(SPLIT_DISTINCT),
    job("running totals by key", &[Events], Final, "INSERT INTO s SELECT COALESCE(k, '-'), COUNT(*), CAST(SUM(v) AS BIGINT) FROM e GROUP BY COALESCE(k, '-')").sql(BY_K),
    job("aggregate of an aggregate", &[Retracted], Final, "SELECT n, COUNT(*) AS keys FROM (SELECT k, COUNT(*) AS n FROM r GROUP BY k) GROUP BY n"),
    job("distinct", &[Events], Final, "SELECT DISTINCT k, g FROM e"),
    job("deduplicate by event time", &[Events], Final, "SELECT id, k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts {ASC|DESC}) AS rn FROM e) WHERE rn = 1"),
    job("deduplicate by arrival", &[Arrivals], Final, "SELECT id, k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt {ASC|DESC}) AS rn FROM q) WHERE rn = 1").ordered(),
    job("deduplicate in bundles", &[Arrivals], Final, "SELECT id, k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt {ASC|DESC}) AS rn FROM q) WHERE rn = 1").ordered().set(BUNDLES),
    job("rank", &[Events], Final, "SELECT k, id, v{|, rn} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v {|DESC}, id) AS rn FROM e) WHERE rn <= {1|3}"),
    job("rank of changes", &[Retracted], Final, "SELECT k, id, v{|, rn} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, id) AS rn FROM r) WHERE rn <= {1|2}"),
    job("rank of totals", &[Events], Final, "SELECT k, n{|, rn} FROM (SELECT k, n, ROW_NUMBER() OVER (ORDER BY n DESC, k) AS rn FROM (SELECT k, COUNT(*) AS n FROM e GROUP BY k)) WHERE rn <= 3"),
    job("sort and limit", &[Events], Final, "SELECT id, v FROM e ORDER BY v DESC, id LIMIT {2|5}"),
    job("limit", &[Arrivals], Final, "SELECT id FROM q LIMIT {2|5}").ordered(),
    job("temporal sort", &[Events], Append, "SELECT id, ts FROM e ORDER BY ts").late(),
    job("over rows", &[Events], Append, "SELECT id, k, SUM(v) OVER w AS s, COUNT(*) OVER w AS n FROM e WINDOW w AS (PARTITION BY k ORDER BY ts ROWS BETWEEN {2|UNBOUNDED} PRECEDING AND CURRENT ROW)").late(),
    job("over range", &[Events], Append, "SELECT id, k, SUM(v) OVER w AS s, MAX(v) OVER w AS m FROM e WINDOW w AS (PARTITION BY k ORDER BY ts RANGE BETWEEN {INTERVAL '7' SECOND|UNBOUNDED} PRECEDING AND CURRENT ROW)").late(),
    job("over with lag", &[Events], Append, "SELECT id, LAG(v) OVER (PARTITION BY k ORDER BY ts) AS l FROM e").late(),
    job("over arrivals", &[Arrivals], Append, "SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY pt ROWS BETWEEN {2|UNBOUNDED} PRECEDING AND CURRENT ROW) AS s FROM q").ordered(),
    job("join", &[Events, Retracted], Final, "SELECT e.id, r.v FROM e {JOIN|LEFT JOIN|RIGHT JOIN|FULL JOIN} r ON e.k = r.k{| AND r.v > 3}"),
    job("join by key", &[RetractedByKey, Upserted], Final, "SELECT rk.id, rk.v, u.v AS other FROM rk {JOIN|LEFT JOIN|FULL JOIN} u ON rk.id = u.id"),
    job("join in bundles", &[Events, Retracted], Final, "SELECT e.id, r.v FROM e {JOIN|LEFT JOIN|FULL JOIN} r ON e.k = r.k").set(BUNDLES),
    job("semi join", &[Events, Retracted], Final, "SELECT id FROM e WHERE {k IN (SELECT k FROM r)|NOT EXISTS (SELECT 1 FROM r WHERE r.k = e.k)}"),
    job("multi join", &[Events, Retracted, Upserted], Final, "SELECT e.id, r.v, u.v AS other FROM e {JOIN|LEFT JOIN} r ON e.k = r.k {JOIN|LEFT JOIN} u ON e.k = u.k").set(MULTI_JOIN),
    job("interval join", &[Events, OtherEvents], Append, "SELECT e.id, f.id AS other FROM e {JOIN|LEFT JOIN|RIGHT JOIN|FULL JOIN} f ON e.k = f.k AND f.ts BETWEEN e.ts - INTERVAL '{0|4}' SECOND AND e.ts + INTERVAL '{2|6}' SECOND"),
    job("temporal join", &[Events, Versions], Append, "SELECT e.id, c.rate FROM e {JOIN|LEFT JOIN} c FOR SYSTEM_TIME AS OF e.ts ON e.k = c.k"),
    job("lookup join", &[Arrivals, Dimension], Append, "SELECT q.id, d.name FROM q {JOIN|LEFT JOIN} d FOR SYSTEM_TIME AS OF q.pt ON q.k = d.k"),
    job("asynchronous lookup join", &[Arrivals, Dimension], Append, "SELECT /*+ LOOKUP('table'='d', 'async'='true', 'output-mode'='{ORDERED|ALLOW_UNORDERED}') */ q.id, d.name FROM q {JOIN|LEFT JOIN} d FOR SYSTEM_TIME AS OF q.pt ON q.k = d.k"),
    job("match", &[Events], Append, "SELECT * FROM e MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES FIRST(A.id) AS f, LAST(A.id) AS l, B.id AS b {|AFTER MATCH SKIP PAST LAST ROW }PATTERN ({A B|A+ B|A B* C}) DEFINE A AS A.v > 5, B AS B.v < 15)"
        ).late(),
    job("changelog normalize", &[Upserted], Final, "SELECT id, k, v FROM u{| WHERE v > 3}"),
    job("changelog normalize in bundles", &[Upserted], Final, "SELECT k, COUNT(*) AS n FROM u GROUP BY k").set(BUNDLES),
    job("sink upsert materializer", &[Events, RetractedByKey], Final, "INSERT INTO s SELECT e.id, rk.k, rk.v FROM e LEFT JOIN rk ON e.g = rk.id").sql(BY_ID),
    job("drop update before", &[RetractedByKey], Final, "INSERT INTO s SELECT id, k, v FROM rk").sql(BY_ID),
    job("two sinks", &[Events], Final, "").sql("CREATE TABLE one (k STRING, n BIGINT); CREATE TABLE two (id BIGINT, v INT); EXECUTE STATEMENT SET BEGIN INSERT INTO one SELECT k, COUNT(*) FROM e GROUP BY k; INSERT INTO two SELECT id, v FROM e WHERE v > 3; END"),
    job("files", &[Events], Append, "INSERT INTO s SELECT window_start, k, COUNT(*) FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(ts), INTERVAL '10' SECOND)) GROUP BY window_start, window_end, k").late().sql("CREATE TABLE s (t TIMESTAMP(3), k STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '{directory}', 'format' = 'json')"),
    job("files of totals", &[Events], Append, "INSERT INTO s SELECT id, SUM(v) OVER (PARTITION BY k ORDER BY ts) FROM e").late().sql("CREATE TABLE s (id BIGINT, total INT) WITH ('connector' = 'filesystem', 'path' = '{directory}', 'format' = 'csv')"),
];

impl Template {
    /// A workload with parameters and rows from a seed.
    pub(super) fn workload(&self, random: &mut SmallRng) -> Workload {
        let directory = self
            .sql
            .contains("{directory}")
            .then(|| fresh_directory(random));
        let path = directory.as_ref().map(|path| path.display().to_string());
        let sql = self
            .sql
            .replace("{directory}", path.as_deref().unwrap_or_default());
        let mut set: Vec<(String, String)> = self
            .set
            .iter()
            .map(|(key, value)| (key.to_string(), filled(value, random)))
            .collect();
        let is_updating = self.compared == Final && self.set.is_empty();
        if is_updating && random.random_bool(0.25) {
            let bundles = BUNDLES.iter();
            set.extend(bundles.map(|(key, value)| (key.to_string(), filled(value, random))));
        }
        let holds_back = set.iter().any(|(key, _)| key.contains("mini-batch"));
        let partitions = match self.late || self.ordered || random.random_bool(0.5) {
            true => 1,
            false => 2,
        };
        let (steps, preloaded) = self.steps(random, partitions);
        Workload {
            name: self.name.to_string(),
            tables: self.ddl(partitions),
            sql: filled(&sql, random),
            query: filled(self.query, random),
            set,
            steps,
            preloaded,
            compared: self.compared,
            late: self.late,
            most_parallel: 4,
            compared_at_rest: !holds_back && directory.is_none(),
            directory,
        }
    }

    fn ddl(&self, partitions: usize) -> Vec<String> {
        let tables = self.tables.iter();
        tables.map(|table| table.ddl(partitions)).collect()
    }

    fn steps(&self, random: &mut SmallRng, partitions: usize) -> (Vec<Step>, usize) {
        let times = match self.late {
            true => Times::Late,
            false => Times::Disorder,
        };
        let mut makers: Vec<RowMaker> = Vec::new();
        let mut steps = Vec::new();
        for table in self.tables {
            let of_table = match table.may_have_partitions() {
                true => partitions,
                false => 1,
            };
            let mut maker = RowMaker::new(*table, of_table, times);
            if *table == Dimension {
                (1..8).for_each(|tick| steps.extend(maker.change(random, tick)));
            } else {
                makers.push(maker);
            }
        }
        let preloaded = steps.len();
        let mut tick = 10;
        for _ in 0..random.random_range(2..=14) {
            let Some(maker) = makers.choose_mut(random) else {
                break;
            };
            for _ in 0..random.random_range(1..=5) {
                tick += random.random_range(1..=3);
                steps.extend(maker.change(random, tick));
            }
            if maker.partitions > 1 && random.random_bool(0.1) {
                maker.partitions = 1;
                steps.push(Step::Idle {
                    table: maker.table.name().to_string(),
                    partition: 1,
                });
            }
        }
        (steps, preloaded)
    }
}

/// One of the alternatives of each `{a|b}`.
fn filled(text: &str, random: &mut SmallRng) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('{') {
        let (choices, after) = behind.split_once('}').unwrap_or((behind, ""));
        let choices: Vec<&str> = choices.split('|').collect();
        result.push_str(before);
        result.push_str(choices.choose(random).unwrap_or(&""));
        rest = after;
    }
    result + rest
}

/// A directory that is not there yet.
fn fresh_directory(random: &mut SmallRng) -> std::path::PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let mut letters: Vec<u8> = (b'a'..=b'h').collect();
    letters.shuffle(random);
    let letters = String::from_utf8_lossy(&letters).to_string();
    std::env::temp_dir().join(format!(
        "volley-simulation-{}-{number}-{letters}",
        std::process::id()
    ))
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn one_alternative_is_taken() {
        let mut random = SmallRng::seed_from_u64(1);
        let text = filled("a {b|c} d{|e}", &mut random);
        assert!(
            ["a b d", "a c d", "a b de", "a c de"].contains(&&text[..]),
            "{text}"
        );
        assert_eq!(filled("INTERVAL '{5}' x", &mut random), "INTERVAL '5' x");
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<&str> =
            TEMPLATES.iter().map(|template| template.name).collect();
        assert_eq!(names.len(), TEMPLATES.len());
    }
}
