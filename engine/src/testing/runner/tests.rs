//! What the runner passes, what it fails, and what it says then.

use std::path::Path;

use super::super::case::parse_cases;
use super::*;

const TABLE: &str = "tables: [\"CREATE TABLE t (k STRING, n INT)\"]";

/// The outcome of a case with table `t (k STRING, n INT)` in one way.
fn outcome(body: &str, way: Way) -> CaseStatus {
    let text = format!("- name: it\n  {TABLE}\n{body}");
    let cases = parse_cases(Path::new("x.yaml"), &text).unwrap();
    let options = TestOptions {
        ways: vec![way],
        ..TestOptions::default()
    };
    run_case(&cases[0], &options).remove(0).status
}

fn failure(body: &str) -> String {
    match outcome(body, Way::Base) {
        CaseStatus::Failed(message) => message,
        other => panic!("the case came to {other:?}"),
    }
}

#[test]
fn a_right_case_passes_in_every_way_that_there_is() {
    let body = "  steps:\n  - {t: [+I, a, 1]}\n  - {t: [+I, b, 2]}\n  - {output: {rows: [[+I, a, 2], [+I, b, 3]]}}\n  \
                query: SELECT k, n + 1 AS m FROM t\n  expect: {mode: append, columns: [k, m], rows: [[b, 3], [a, 2]]}\n";
    for way in Way::ALL {
        match outcome(body, way) {
            CaseStatus::Passed => assert!(way.unavailable().is_none()),
            CaseStatus::Skipped(_) => assert!(way.unavailable().is_some()),
            CaseStatus::Failed(message) => panic!("{}: {message}", way.name()),
        }
    }
}

#[test]
fn a_wrong_result_shows_both_sides() {
    let body = "  steps:\n  - {t: [+I, a, 1]}\n  query: SELECT k, n FROM t\n  expect: {mode: append, rows: [[a, 2]]}\n";
    let message = failure(body);
    assert!(
        message.contains("! a, 2") && message.contains("| a, 1"),
        "{message}"
    );
    let metrics = "  steps:\n  - {t: [+I, a, 1]}\n  query: SELECT k FROM t\n  expect: {mode: append, rows: [[a]], metrics: {numLateRecordsDropped: 1}}\n";
    assert!(failure(metrics).contains("numLateRecordsDropped is 0, expected 1"));
    let output = "  steps:\n  - {t: [+I, a, 1]}\n  - {output: {rows: []}}\n  query: SELECT k FROM t\n  expect: {mode: append, rows: [[a]]}\n";
    assert!(failure(output).contains("the output at step 2"));
}

#[test]
fn what_is_refused_fails_unless_it_was_expected() {
    let refused = "  query: SELECT missing FROM t\n  expect: {mode: append, rows: []}\n";
    assert!(failure(refused).contains("it failed when planning"));
    let expected = "  query: SELECT missing FROM t\n  expect: {mode: error, phase: plan, contains: [MISSING]}\n";
    assert_eq!(outcome(expected, Way::Base), CaseStatus::Passed);
    let other_word = "  query: SELECT missing FROM t\n  expect: {mode: error, phase: plan, contains: [elephant]}\n";
    assert!(failure(other_word).contains("lacks elephant"));
    let other_phase = "  query: SELECT missing FROM t\n  expect: {mode: error, phase: runtime}\n";
    assert!(failure(other_phase).contains("came when planning, expected at run time"));
    let none = "  query: SELECT k FROM t\n  expect: {mode: error, phase: plan}\n";
    assert!(failure(none).contains("ran to its end"));
    let at_run_time = "  steps:\n  - {t: [+I, a, 0]}\n  query: SELECT 1 / n FROM t\n  expect: {mode: error, phase: runtime, contains: [zero]}\n";
    assert_eq!(outcome(at_run_time, Way::Size1), CaseStatus::Passed);
}

#[test]
fn a_mistake_of_the_case_never_passes() {
    let error = "expect: {mode: error, phase: plan, contains: [case]}\n";
    for body in [
        format!("  steps:\n  - {{u: [+I, 1]}}\n  query: SELECT k FROM t\n  {error}"),
        format!("  steps:\n  - {{t: [+I, a]}}\n  query: SELECT k FROM t\n  {error}"),
        format!("  steps:\n  - {{t: [+I, a, b]}}\n  query: SELECT k FROM t\n  {error}"),
        format!("  steps:\n  - {{t: [-D, a, 1]}}\n  query: SELECT k FROM t\n  {error}"),
        format!("  steps:\n  - {{t: {{raw: x}}}}\n  query: SELECT k FROM t\n  {error}"),
        format!("  {error}"),
    ] {
        assert!(failure(&body).contains("the case is wrong"), "{body}");
    }
}

#[test]
fn a_job_file_is_tested_with_the_tables_of_the_case() {
    let folder = tempfile::tempdir().unwrap();
    let job = "CREATE TABLE t (k STRING) WITH ('connector' = 'filesystem', 'path' = '/nowhere', 'format' = 'json');\n\
               CREATE TABLE out (k STRING, n INT) WITH ('connector' = 'print');\n\
               INSERT INTO out SELECT k, n FROM t WHERE n > 1;";
    std::fs::write(folder.path().join("job.sql"), job).unwrap();
    let text = "- name: job\n  tables:\n  - CREATE TABLE t (k STRING, n INT)\n  - CREATE TABLE out (k STRING, n INT)\n  \
                sql_file: job.sql\n  steps:\n  - {t: [+I, a, 1]}\n  - {t: [+I, b, 2]}\n  expect: {mode: append, rows: [[b, 2]]}\n";
    std::fs::write(folder.path().join("x.yaml"), text).unwrap();
    let options = TestOptions {
        junit: Some(folder.path().join("junit.xml")),
        ..TestOptions::default()
    };
    let report = run_files(&[folder.path().join("x.yaml")], &options).unwrap();
    let available = Way::ALL.iter().filter(|way| way.unavailable().is_none());
    let passed = available.count();
    assert_eq!((report.passed(), report.failed()), (passed, 0), "{report}");
    assert!(
        std::fs::read_to_string(folder.path().join("junit.xml"))
            .unwrap()
            .contains("tests=\"7\"")
    );
    let other = TestOptions {
        filter: Some("nothing".into()),
        ..TestOptions::default()
    };
    assert!(
        run_files(&[folder.path().join("x.yaml")], &other)
            .unwrap()
            .outcomes
            .is_empty()
    );
}

/// A count over `t`, of which two rows come before and one behind a restore with `query`.
fn restored_with(query: &str, way: Way) -> CaseStatus {
    let body = format!(
        "  steps:\n  - {{t: [+I, a, 1]}}\n  - {{t: [+I, a, 2]}}\n  - checkpoint\n  \
         - {{restore_with_query: {{query: \"{query}\"}}}}\n  - {{t: [+I, a, 4]}}\n  \
         query: SELECT k, COUNT(*) AS c FROM t GROUP BY k\n  expect: {{mode: final, rows: [[a, 3]]}}\n"
    );
    outcome(&body, way)
}

#[test]
fn a_query_that_computes_the_same_takes_up_the_state() {
    for way in [Way::Base, Way::Size1, Way::Random, Way::Parallel3] {
        let same = "select  k, count(*) as c from t group by k";
        assert_eq!(
            restored_with(same, way),
            CaseStatus::Passed,
            "{}",
            way.name()
        );
    }
}

#[test]
fn a_restore_with_what_is_no_query_fails_the_case() {
    for (query, message) in [
        ("SHOW TABLES", "a query is a SELECT or an INSERT"),
        ("SELECT missing FROM t", "missing"),
    ] {
        match restored_with(query, Way::Base) {
            CaseStatus::Failed(text) => assert!(text.contains(message), "{text}"),
            other => panic!("{query}: {other:?}"),
        }
    }
}
