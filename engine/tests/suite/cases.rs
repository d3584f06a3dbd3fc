//! Runs `testdata/cases/*.yaml` in every way.

use std::path::{Path, PathBuf};

use volley::testing::{TestOptions, run_files};

fn run(names: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/cases");
    let files: Vec<PathBuf> = names
        .iter()
        .map(|name| folder.join(format!("{name}.yaml")))
        .collect();
    let report = run_files(&files, &TestOptions::default()).unwrap();
    assert!(report.passed() > 0, "no case ran");
    assert_eq!(report.failed(), 0, "\n{report}");
}

#[test]
fn cases_of_windows() {
    run(&["window", "watermark", "window-more"]);
}

#[test]
fn cases_of_window_joins_and_ranks() {
    run(&["window-join", "window-rank"]);
}

#[test]
fn cases_of_multi_joins() {
    run(&["multi_join"]);
}

#[test]
fn cases_of_traps_and_walk_throughs() {
    run(&["traps", "walk-through"]);
}

#[test]
fn cases_of_expressions() {
    run(&["expression", "lazy", "sql", "errors"]);
}

#[test]
fn cases_of_formats() {
    run(&["json", "csv"]);
}

#[test]
fn cases_of_checkpoints() {
    run(&["runtime", "upgrade"]);
}

#[test]
fn cases_of_aggregation() {
    run(&["group_aggregate"]);
}

#[test]
fn cases_of_over_and_patterns() {
    run(&["over", "match_recognize"]);
}

#[test]
fn cases_of_ranks_and_order() {
    run(&["deduplicate", "rank", "sort_limit"]);
}

#[test]
fn cases_of_joins_and_sets() {
    run(&["join", "set-operation", "subquery"]);
}

#[test]
fn cases_of_joins_in_time() {
    run(&["temporal_join", "interval_join", "lookup_join"]);
}

#[test]
fn cases_of_changelogs_and_sinks() {
    run(&["changelog", "sink", "found"]);
}

/// A file that no test names would never run.
#[test]
fn every_file_of_cases_is_run() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/cases");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let name = name.strip_suffix(".yaml").expect("only YAML files");
        assert!(
            include_str!("cases.rs").contains(&format!("\"{name}\"")),
            "no test runs {name}.yaml"
        );
    }
}
