//! Which changes of a query leave the names of state alone.

use super::*;
use crate::sql::{Session, StatementResult};

const TABLES: &[&str] = &[
    "CREATE TABLE t (k STRING, j INT, v BIGINT, w DOUBLE, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) \
     WITH ('connector' = 'nowhere')",
    "CREATE TABLE u (k STRING, x BIGINT, y STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'nowhere')",
    "CREATE TABLE a (k STRING, n BIGINT) WITH ('connector' = 'nowhere', 'changelog-mode' = 'retract')",
    "CREATE TABLE b (k STRING, n BIGINT) WITH ('connector' = 'nowhere', 'changelog-mode' = 'retract')",
];

fn plan_of(sql: &str, options: &[(&str, &str)]) -> ExecPlan {
    let mut session = Session::new(connectors());
    for (key, value) in options {
        session.config.set(key, value).unwrap();
    }
    for ddl in TABLES {
        session.execute(ddl).unwrap();
    }
    let StatementResult::Job(statement) = session.execute(sql).unwrap() else {
        panic!("{sql} is no job");
    };
    plan_statement(&statement, &session.config, &session.connectors, None).unwrap()
}

/// The uids of a kind of node, in order.
fn uids_with(sql: &str, word: &str, options: &[(&str, &str)]) -> Vec<String> {
    let plan = plan_of(sql, options);
    let uids = plan.nodes.iter().map(|node| node.uid.clone());
    let uids: Vec<String> = uids
        .filter(|uid| uid.starts_with(&format!("{word}-")))
        .collect();
    assert!(!uids.is_empty(), "{sql} has a {word}");
    uids
}

fn uids(sql: &str, word: &str) -> Vec<String> {
    uids_with(sql, word, &[])
}

fn check_kept(word: &str, before: &str, after: &[&str]) {
    for after in after {
        assert_eq!(uids(before, word), uids(after, word), "{before}\n{after}");
    }
}

fn check_changed(word: &str, before: &str, after: &[&str]) {
    let before = uids(before, word);
    for after in after {
        assert!(
            uids(after, word).iter().all(|uid| !before.contains(uid)),
            "{after}"
        );
    }
}

const SUMS: &str = "SELECT k, SUM(v) FROM t GROUP BY k";

#[test]
fn a_group_aggregation_keeps_its_name_when_aggregates_or_columns_come_and_go() {
    check_kept(
        "group-aggregate",
        SUMS,
        &[
            "SELECT k, SUM(v), COUNT(*), MAX(w) FROM t GROUP BY k",
            "SELECT k, COUNT(DISTINCT j) FROM t GROUP BY k",
            "SELECT k AS other, SUM(v) + 1 AS total FROM t GROUP BY k",
            "SELECT key, SUM(v * 2) FROM (SELECT v, k AS key, ts FROM t) GROUP BY key",
            "SELECT * FROM (SELECT k, SUM(v) AS s FROM t GROUP BY k) WHERE s > 10",
            "SELECT k, SUM(v) FILTER (WHERE j > 1) FROM t GROUP BY k",
        ],
    );
}

#[test]
fn a_group_aggregation_of_other_rows_or_keys_is_another_one() {
    check_changed(
        "group-aggregate",
        SUMS,
        &[
            "SELECT k, SUM(v) FROM t WHERE j > 1 GROUP BY k",
            "SELECT j, SUM(v) FROM t GROUP BY j",
            "SELECT k, j, SUM(v) FROM t GROUP BY k, j",
            "SELECT UPPER(k), SUM(v) FROM t GROUP BY UPPER(k)",
            "SELECT k, SUM(x) FROM u GROUP BY k",
            "SELECT SUM(v) FROM t",
        ],
    );
}

#[test]
fn how_a_plan_runs_is_no_part_of_the_names() {
    let one = uids(SUMS, "group-aggregate");
    let mini_batch = [
        ("table.exec.mini-batch.enabled", "true"),
        ("table.exec.mini-batch.size", "100"),
        ("table.exec.mini-batch.allow-latency", "1 s"),
    ];
    for options in [
        &mini_batch[..],
        &[("parallelism.default", "4")],
        &[("table.exec.state.ttl", "1 h")],
    ] {
        assert_eq!(
            uids_with(SUMS, "group-aggregate", options),
            one,
            "{options:?}"
        );
    }
    let two_phases = [
        &mini_batch[..],
        &[
            ("parallelism.default", "4"),
            ("table.optimizer.agg-phase-strategy", "TWO_PHASE"),
        ],
    ]
    .concat();
    assert_eq!(uids_with(SUMS, "group-aggregate", &two_phases), one);
}

#[test]
fn another_insert_leaves_the_names_alone() {
    let first = "INSERT INTO a SELECT k, SUM(v) FROM t GROUP BY k";
    let second = "INSERT INTO b SELECT k, COUNT(*) FROM u WHERE x > 3 GROUP BY k";
    let set = |inserts: &[&str]| format!("EXECUTE STATEMENT SET BEGIN {}; END", inserts.join("; "));
    for word in ["group-aggregate", "source", "sink"] {
        let alone = uids(first, word);
        for both in [set(&[first, second]), set(&[second, first])] {
            let both = uids(&both, word);
            assert!(
                alone.iter().all(|uid| both.contains(uid)),
                "{word}: {alone:?} {both:?}"
            );
            assert_eq!(both.len(), 2, "{word}");
        }
    }
}

#[test]
fn sources_and_sinks_are_named_after_their_tables() {
    for word in ["source", "sink"] {
        check_kept(
            word,
            "INSERT INTO a SELECT k, SUM(v) FROM t GROUP BY k",
            &[
                "INSERT INTO a SELECT k, v FROM t",
                "INSERT INTO a SELECT UPPER(k), MAX(j) FROM t WHERE w > 1 GROUP BY UPPER(k)",
            ],
        );
    }
    check_changed(
        "sink",
        "INSERT INTO a SELECT k, v FROM t",
        &["INSERT INTO b SELECT k, v FROM t"],
    );
    check_changed(
        "source",
        "INSERT INTO a SELECT k, v FROM t",
        &["INSERT INTO a SELECT k, x FROM u"],
    );
}

#[test]
fn what_is_equal_and_not_shared_is_told_apart_in_the_order_of_the_statements() {
    let twice = "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT k, v FROM t; INSERT INTO a SELECT k, v + 1 FROM t; END";
    let sinks = uids(twice, "sink");
    assert_eq!(sinks[1], format!("{}-2", sinks[0]));
    assert_eq!(uids(twice, "sink"), sinks);
    let random = "SELECT k, COUNT(*) FROM (SELECT k, v + RAND() AS r FROM t UNION ALL SELECT k, v + RAND() FROM t) GROUP BY k";
    let plan = plan_of(random, &[]);
    let mut all: Vec<&str> = plan.nodes.iter().map(|node| node.uid.as_str()).collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
    assert_eq!(plan_of(random, &[]), plan);
}

#[test]
fn windows_keep_their_names_when_aggregates_change_and_not_when_windows_do() {
    let windowed = |select: &str, size: &str, keys: &str| {
        format!(
            "SELECT {select} FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '{size}' SECOND)) GROUP BY {keys}window_start, window_end"
        )
    };
    let before = windowed("k, window_start, SUM(v)", "10", "k, ");
    let after = windowed("k, window_end, COUNT(DISTINCT j), MAX(w)", "10", "k, ");
    check_kept("window-aggregate", &before, &[&after]);
    let longer = windowed("k, window_start, SUM(v)", "20", "k, ");
    let of_all = windowed("window_start, SUM(v)", "10", "");
    check_changed("window-aggregate", &before, &[&longer, &of_all]);
}

#[test]
fn joins_keep_their_names_when_columns_are_added() {
    let join =
        |select: &str, more: &str| format!("SELECT {select} FROM t JOIN u ON t.k = u.k {more}");
    let before = join("t.v, u.x", "");
    check_kept(
        "join",
        &before,
        &[
            &join("t.v, u.x, u.y, t.w", ""),
            &join("u.x AS a, t.v AS b", ""),
        ],
    );
    let filtered =
        "SELECT t.v, u.x FROM t JOIN (SELECT * FROM u WHERE x > 1) u ON t.k = u.k".to_string();
    let left = "SELECT t.v, u.x FROM t LEFT JOIN u ON t.k = u.k".to_string();
    check_changed(
        "join",
        &before,
        &[&filtered, &left, &join("t.v, u.x", "AND t.v > u.x")],
    );
}

#[test]
fn ranks_and_deduplication_are_named_by_keys_and_order() {
    let first = |columns: &str, order: &str| {
        format!(
            "SELECT {columns} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS n FROM t) WHERE n = 1"
        )
    };
    check_kept(
        "deduplicate",
        &first("k, v", "ts ASC"),
        &[&first("k, v, w", "ts ASC")],
    );
    check_changed(
        "deduplicate",
        &first("k, v", "ts ASC"),
        &[&first("k, v", "ts DESC")],
    );
    let top = |columns: &str, n: usize| {
        format!(
            "SELECT {columns} FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS n FROM t) WHERE n <= {n}"
        )
    };
    check_kept("rank", &top("k, v", 3), &[&top("k, v, w", 3)]);
    check_changed("rank", &top("k, v", 3), &[&top("k, v", 5)]);
}

/// State on disk is found by these names: they change with a new layout of checkpoints only.
#[test]
fn the_names_are_these() {
    let named = |sql: &str, word: &str| uids(sql, word).join(" ");
    let names = [
        named(SUMS, "group-aggregate"),
        named(SUMS, "source"),
        named("INSERT INTO a SELECT k, v FROM t", "sink"),
        named("SELECT t.v, u.x FROM t JOIN u ON t.k = u.k", "join"),
    ];
    assert_eq!(names, GOLDEN_NAMES);
}

const GOLDEN_NAMES: [&str; 4] = [
    "group-aggregate-9edee25ab8188258",
    "source-ed5efddc66118fb4",
    "sink-66bcf7c1a3edfaa6",
    "join-9173e5174bca8c48",
];

#[test]
fn states_of_aggregates_are_named_by_what_they_compute_in_terms_of_tables() {
    let plan = plan_of(
        "SELECT key, SUM(d), COUNT(DISTINCT j) FILTER (WHERE v > 3) FROM (SELECT UPPER(k) AS key, v * 2 AS d, j, v FROM t) GROUP BY key",
        &[],
    );
    let lineages = crate::plan::node_uid::lineages(&plan);
    let is_group = |node: &&ExecNode| matches!(node.kind, ExecNodeKind::GroupAggregate(_));
    let group = plan.nodes.iter().find(is_group).unwrap();
    let columns = &lineages[group.id.0].columns;
    assert_eq!(columns[0], "UPPER(k)");
    assert_eq!(columns[1], "SUM((v * 2))");
    assert!(
        columns[2].starts_with("COUNT(DISTINCT j) FILTER "),
        "{}",
        columns[2]
    );
    assert!(columns[2].contains("(v > 3)"), "{}", columns[2]);
}

/// Rows on their way are read with the columns that they were written with, so any change of these is another input, also where the state
/// of the operator can be taken up.
#[test]
fn what_an_operator_reads_is_told_apart_by_rows_columns_and_their_meaning() {
    let reads = |sql: &str, parallelism: &str| {
        let plan = plan_of(sql, &[("parallelism.default", parallelism)]);
        let lineages = crate::plan::node_uid::lineages(&plan);
        let is_join = |node: &&ExecNode| matches!(node.kind, ExecNodeKind::Join(_));
        let join = plan.nodes.iter().find(is_join).unwrap();
        let given =
            |input: &NodeId| crate::plan::node_uid::given(&plan, &lineages, plan.node(*input));
        join.inputs.iter().map(given).collect::<Vec<String>>()
    };
    let before = "SELECT a.k, b.n FROM a JOIN b ON a.k = b.k";
    assert_eq!(reads(before, "2"), reads(before, "3"));
    let old = reads(before, "2");
    for (after, is_same) in [
        ("SELECT a.k, b.k FROM a JOIN b ON a.k = b.k", [true, false]),
        (
            "SELECT a.k, b.n FROM a JOIN (SELECT k, n + 1 AS n FROM b) AS b ON a.k = b.k",
            [true, false],
        ),
        (
            "SELECT a.k, b.n FROM (SELECT * FROM a WHERE n > 3) AS a JOIN b ON a.k = b.k",
            [false, true],
        ),
    ] {
        let new = reads(after, "2");
        let same: Vec<bool> = old.iter().zip(&new).map(|(old, new)| old == new).collect();
        assert_eq!(same, is_same, "{after}");
    }
}
