//! `volley state` and the connector `savepoint`, on a savepoint of a small job.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]

use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt64Array};
use volley::blobs::open_blobs;
use volley::checkpoint::{
    CheckpointCoordinator, CheckpointStorage, JobSnapshot, KeySpan, OperatorFacts, PlanFacts,
    StartedFrom, StorageOptions, savepoint,
};
use volley::state::{KEY_HASH_COLUMN, StateSnapshot};
use volley::stream::CheckpointId;

const UID: &str = "group-aggregate-00112233";

/// State of sums by key.
fn sums_by_key(sums: &[(&str, i64)]) -> StateSnapshot {
    let hash = |key: &str| {
        key.bytes().fold(7u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    };
    let hashes = UInt64Array::from_iter_values(sums.iter().map(|(key, _)| hash(key)));
    let keys = StringArray::from_iter_values(sums.iter().map(|(key, _)| key));
    let totals = Int64Array::from_iter_values(sums.iter().map(|(_, sum)| *sum));
    let rows = RecordBatch::try_from_iter([
        (KEY_HASH_COLUMN, Arc::new(hashes) as ArrayRef),
        ("k", Arc::new(keys) as ArrayRef),
        ("SUM(v).sum", Arc::new(totals) as ArrayRef),
    ]);
    let mut state = StateSnapshot::default();
    state.insert_keyed("groups", vec![rows.unwrap()]);
    state
}

/// A savepoint of sums by key.
fn saved(directory: &tempfile::TempDir, checkpoint: u64, sums: &[(&str, i64)]) -> String {
    let state = sums_by_key(sums);
    let snapshot = JobSnapshot {
        checkpoint: CheckpointId(checkpoint),
        operators: BTreeMap::from([(UID.to_string(), state)]),
    };
    let facts = PlanFacts {
        job: "sums".to_string(),
        sql: "INSERT INTO s SELECT k, SUM(v) FROM t GROUP BY k".to_string(),
        plan: String::new(),
        operators: vec![OperatorFacts {
            uid: UID.to_string(),
            name: "GroupAggregate".to_string(),
            description: "GroupAggregate(groupBy=[k])".to_string(),
            ..OperatorFacts::default()
        }],
    };
    savepoint::write(&snapshot, 128, &facts, directory.path().to_str().unwrap()).unwrap()
}

fn volley(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_volley"));
    command.args(arguments).output().unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = volley(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_operators_of_a_savepoint_are_listed_and_shown() {
    let directory = tempfile::tempdir().unwrap();
    let path = saved(&directory, 4, &[("a", 1), ("b", 20)]);
    let listed = printed(&["state", "ls", &path]);
    for part in [
        "checkpoint 4 of the job 'sums'",
        "INSERT INTO s",
        "GroupAggregate(groupBy=[k]) [group-aggregate-",
        "groups",
        "2 rows",
    ] {
        assert!(listed.contains(part), "{part}\n{listed}");
    }
    let shown = printed(&[
        "state",
        "show",
        &path,
        "GroupAggregate.groups",
        "--format",
        "json",
    ]);
    let mut lines: Vec<&str> = shown.lines().collect();
    lines.sort_unstable_by_key(|line| line.len());
    assert_eq!(lines.len(), 2);
    assert!(
        lines
            .iter()
            .any(|line| line.ends_with("\"k\": \"b\", \"SUM(v).sum\": 20}")),
        "{shown}"
    );
    let csv = printed(&[
        "state",
        "show",
        &path,
        "group-aggregate",
        "--format",
        "csv",
        "--limit",
        "1",
    ]);
    assert_eq!(csv.lines().next(), Some("key_hash,k,SUM(v).sum"));
    assert_eq!(csv.lines().count(), 2);
    let table = printed(&["state", "show", &path]);
    assert!(
        table.contains("SUM(v).sum") && table.contains("20"),
        "{table}"
    );
}

#[test]
fn the_ddl_reads_the_table_with_sql() {
    let directory = tempfile::tempdir().unwrap();
    let path = saved(&directory, 4, &[("a", 1), ("b", 20), ("c", 300)]);
    let ddl = printed(&["state", "show", &path, "GroupAggregate.groups", "--ddl"]);
    assert!(ddl.contains("`key_hash` DECIMAL(20, 0)"), "{ddl}");
    let script = directory.path().join("read.sql");
    std::fs::write(
        &script,
        format!("{ddl}\nSELECT k, `SUM(v).sum` + 1 AS more FROM `groups` WHERE k <> 'a';"),
    )
    .unwrap();
    let rows = printed(&["run", script.to_str().unwrap()]);
    assert!(
        rows.contains("21") && rows.contains("301") && !rows.contains(" a "),
        "{rows}"
    );
}

/// The rows of the savepoint whose state is declared as `columns`, or what is said instead.
fn read_as(path: &str, columns: &str) -> Result<String, String> {
    let script = format!("{path}-read.sql");
    let sql = format!(
        "CREATE TABLE t ({columns}) WITH ('connector' = 'savepoint', 'path' = '{path}', 'operator' = '{UID}');\nSELECT * FROM t;"
    );
    std::fs::write(&script, sql).unwrap();
    let output = volley(&["run", &script]);
    match output.status.code() {
        Some(0) => Ok(String::from_utf8(output.stdout).unwrap()),
        code => {
            assert_eq!(code, Some(2), "the declaration is to blame");
            Err(String::from_utf8(output.stderr).unwrap())
        }
    }
}

#[test]
fn values_of_state_that_do_not_fit_the_declared_type_end_the_job() {
    let directory = tempfile::tempdir().unwrap();
    let path = saved(&directory, 4, &[("7", 1), ("b", 406)]);
    for wide in [
        "SMALLINT",
        "INT",
        "BIGINT",
        "DECIMAL(3, 0)",
        "DOUBLE",
        "STRING",
    ] {
        let rows = read_as(&path, &format!("`SUM(v).sum` {wide}")).unwrap();
        assert!(rows.contains("406"), "{wide}: {rows}");
    }
    for narrow in ["TINYINT", "DECIMAL(2, 0)"] {
        let error = read_as(&path, &format!("`SUM(v).sum` {narrow}")).unwrap_err();
        let said = format!(
            "column \"SUM(v).sum\" of table \"t\", BIGINT in the state, is declared as {narrow}: the value 406 does not fit"
        );
        assert!(error.contains(&said), "{error}");
        assert!(
            error.contains(
                "declare it as it is in the state, or with a wider type: `SUM(v).sum` BIGINT"
            ),
            "{error}"
        );
    }
    let error = read_as(&path, "k ROW<a INT>").unwrap_err();
    assert!(error.contains("STRING cannot become ROW<"), "{error}");
    let error = read_as(&path, "k INT").unwrap_err();
    assert!(
        error.contains("STRING in the state, is declared as INT: the value b does not fit"),
        "{error}"
    );
}

/// A directory of incremental checkpoints, of which the second replaces the rows of a key.
fn checkpoints(directory: &tempfile::TempDir) -> String {
    let path = directory
        .path()
        .join("checkpoints")
        .to_str()
        .unwrap()
        .to_string();
    let blobs = open_blobs(&path).unwrap();
    let options = StorageOptions {
        job: "sums".to_string(),
        run: "run".to_string(),
        max_parallelism: 128,
        retained: 1,
        incremental: true,
        operators: BTreeMap::new(),
        owned_from: CheckpointId(0),
        writer: "w".to_string(),
    };
    let mut storage = CheckpointStorage::open(&*blobs, options, StartedFrom::Nothing).unwrap();
    let mut coordinator = CheckpointCoordinator::new(&[KeySpan::ALL], CheckpointId(0));
    for (gone, sums) in [
        (None, &[("a", 1), ("b", 2)][..]),
        (Some(vec![]), &[("b", 3)]),
    ] {
        let mut state = sums_by_key(sums);
        state.gone = gone;
        let id = coordinator.trigger().unwrap();
        let contents = coordinator.acknowledge(0, id, vec![(UID.to_string(), state)]);
        storage.write(&*blobs, &contents.unwrap()).unwrap();
    }
    path
}

#[test]
fn rows_that_a_later_checkpoint_replaced_are_not_listed() {
    let directory = tempfile::tempdir().unwrap();
    let path = checkpoints(&directory);
    let listed = printed(&["state", "ls", &path]);
    let groups = listed.lines().find(|line| line.contains("groups")).unwrap();
    assert!(
        groups.contains(" 2 rows ") && groups.ends_with(" bytes of files"),
        "{listed}"
    );
    let shown = printed(&["state", "show", &path, "--format", "csv"]);
    assert_eq!(shown.lines().count(), 3, "{shown}");
}

#[test]
fn whatever_opens_a_savepoint_tells_that_its_manifest_is_damaged() {
    let directory = tempfile::tempdir().unwrap();
    let whole = saved(&directory, 3, &[("a", 1), ("b", 20)]);
    let path = saved(&directory, 4, &[("a", 1), ("b", 20)]);
    let manifest = format!("{path}/savepoint.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    let altered = text.replacen("\"first\": 4", "\"first\": 5", 1);
    assert_ne!(text, altered);
    std::fs::write(&manifest, altered).unwrap();
    let told = |arguments: &[&str]| {
        let output = volley(arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{arguments:?}: {errors}");
        assert!(
            errors.contains("savepoint.json is damaged: it does not have the checksum"),
            "{errors}"
        );
    };
    told(&["state", "ls", &path]);
    told(&["state", "show", &path]);
    told(&["state", "diff", &path, &whole]);
    told(&["state", "diff", &whole, &path]);
    let run = |sql: &str| {
        let script = directory.path().join("script.sql");
        std::fs::write(&script, sql).unwrap();
        told(&["run", script.to_str().unwrap()]);
    };
    run(&format!(
        "CREATE TABLE t (k STRING) WITH ('connector' = 'savepoint', 'path' = '{path}', 'operator' = '{UID}'); SELECT * FROM t;"
    ));
    let tables = "CREATE TABLE g (v INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1'); \
                  CREATE TABLE o (v INT, n BIGINT) WITH ('connector' = 'blackhole');";
    let insert = "INSERT INTO o SELECT v, COUNT(*) FROM g GROUP BY v;";
    run(&format!("{tables} EXPLAIN UPGRADE FROM '{path}' {insert}"));
    let dir = directory.path().join("ck");
    run(&format!(
        "SET 'execution.checkpointing.dir' = '{}'; SET 'execution.state-recovery.path' = '{path}'; {tables} {insert}",
        dir.display()
    ));
}

#[test]
fn differences_are_told_key_by_key() {
    let directory = tempfile::tempdir().unwrap();
    let first = saved(&directory, 1, &[("a", 1), ("b", 2), ("c", 3)]);
    let second = saved(&directory, 2, &[("b", 2), ("c", 4), ("d", 5), ("e", 6)]);
    let shown = printed(&["state", "diff", &first, &second]);
    for part in [
        "groups: 1 keys are the same",
        "1 only in the first",
        "2 only in the second",
        "1 changed",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert_eq!(
        printed(&["state", "diff", &first, &first]),
        "no difference\n"
    );
}

#[test]
fn mistakes_list_what_there_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = saved(&directory, 1, &[("a", 1)]);
    let refused = |arguments: &[&str]| {
        let output = volley(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let operator = refused(&["state", "show", &path, "Join"]);
    assert!(
        operator.contains("no operator 'Join'") && operator.contains(UID),
        "{operator}"
    );
    let table = refused(&["state", "show", &path, "GroupAggregate.rows"]);
    assert!(
        table.contains("no table 'rows'") && table.contains("groups"),
        "{table}"
    );
    let nothing = refused(&["state", "ls", directory.path().to_str().unwrap()]);
    assert!(nothing.contains("no complete checkpoint"), "{nothing}");
}
