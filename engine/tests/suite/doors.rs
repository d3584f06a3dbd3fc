//! Holds the doors between the rooms: which room may name which, by the paths that begin with `crate::`.

use std::path::{Path, PathBuf};

/// A room and the rooms it may name. Everybody may name `error`, and `planted` where a fault can be planted.
const DOORS: &[(&str, &[&str])] = &[
    ("error", &["types"]),
    ("planted", &[]),
    ("config", &["types"]),
    ("types", &[]),
    ("blobs", &[]),
    ("stream", &["types"]),
    ("expr", &["types", "stream", "functions", "config"]),
    ("functions", &["types", "stream", "expr", "config", "state"]),
    ("window", &["types", "stream", "functions::AggregateCall"]),
    ("state", &["types", "stream"]),
    (
        "formats",
        &["types", "stream", "config", "expr", "functions"],
    ),
    ("watermark", &["types", "stream", "config", "expr", "state"]),
    (
        "connectors",
        &[
            "types",
            "stream",
            "config",
            "formats",
            "blobs",
            "operators::Subtask",
        ],
    ),
    (
        "operators",
        &[
            "types",
            "stream",
            "expr",
            "functions",
            "window",
            "state",
            "watermark",
        ],
    ),
    (
        "sql",
        &[
            "types",
            "expr",
            "functions",
            "window",
            "config",
            "connectors::factory",
            "plan::logical",
        ],
    ),
    (
        "plan",
        &[
            "types",
            "stream",
            "expr",
            "functions",
            "window",
            "config",
            "connectors::factory",
        ],
    ),
    ("blobs", &[]),
    (
        "checkpoint",
        &["types", "stream", "state", "config", "blobs"],
    ),
    (
        "runtime",
        &[
            "types",
            "stream",
            "state",
            "config",
            "watermark",
            "operators",
            "connectors",
            "checkpoint",
            "blobs",
        ],
    ),
    (
        "environment",
        &[
            "types",
            "config",
            "connectors",
            "sql",
            "plan",
            "runtime",
            "checkpoint",
        ],
    ),
];

/// Files that may go through more doors than their room, and why.
const EXCEPTIONS: &[(&str, &[&str], &str)] = &[
    (
        "connectors/print.rs",
        &["expr::ValueFormatter"],
        "shows values as a cast to STRING does",
    ),
    (
        "connectors/savepoint.rs",
        &["checkpoint"],
        "reads what checkpoints wrote",
    ),
    (
        "functions/aggregate.rs",
        &["state"],
        "accumulators are columns of a group table",
    ),
    (
        "operators/values.rs",
        &["connectors"],
        "constant rows are read like a source",
    ),
    ("operators/source.rs", &["connectors"], "drives a reader"),
    ("operators/sink.rs", &["connectors"], "drives a writer"),
    ("operators/lookup_join.rs", &["connectors"], "asks a table"),
    (
        "plan/operator_builder.rs",
        &[
            "operators",
            "connectors",
            "state",
            "watermark",
            "runtime",
            "formats",
        ],
        "makes operators of nodes",
    ),
    (
        "plan/job_graph_builder.rs",
        &["operators", "connectors", "runtime", "state", "checkpoint"],
        "makes the job graph of a plan",
    ),
];

/// Rooms which no door keeps out of anywhere.
const FREE: &[&str] = &["testing", "lib"];

/// What sql and plan may see of connectors, under the names by which the room exports it.
const FACTORY: &[&str] = &["ConnectorFactory", "ConnectorRegistry", "TableDescriptor"];

#[test]
fn rooms_keep_their_doors() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut broken = Vec::new();
    for file in rust_files(&source) {
        let name = file
            .strip_prefix(&source)
            .unwrap()
            .to_str()
            .unwrap()
            .to_string();
        let text = std::fs::read_to_string(&file).unwrap();
        broken.extend(broken_doors(&name, &text));
    }
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn broken_doors(file: &str, text: &str) -> Vec<String> {
    let room = file.split(['/', '.']).next().unwrap();
    let is_test = file.ends_with("tests.rs") || file.contains("/tests/") || file.contains("test_");
    if FREE.contains(&room) || is_test {
        return Vec::new();
    }
    let Some((_, open)) = DOORS.iter().find(|(name, _)| *name == room) else {
        return vec![format!(
            "engine/src/{file}: room `{room}` has no doors yet; say in doors.rs what it may use"
        )];
    };
    let exception = EXCEPTIONS.iter().find(|(name, ..)| is_of(file, name));
    let more = exception.map_or(&[][..], |(_, more, _)| more);
    let mut broken = Vec::new();
    for (line, path) in crate_paths(text) {
        let allowed = |door: &&str| path_starts_with(&path, door);
        let everybody = ["error", "planted"];
        let own = path_starts_with(&path, room)
            || everybody.iter().any(|door| path_starts_with(&path, door));
        let root = matches!(
            path.as_str(),
            "Error" | "Result" | "ErrorKind" | "SessionConfig"
        );
        let factory = matches!(room, "sql" | "plan")
            && FACTORY
                .iter()
                .any(|name| path == format!("connectors::{name}"));
        if !own && !root && !factory && !open.iter().chain(more).any(allowed) {
            broken.push(format!(
                "engine/src/{file}:{line}: `crate::{path}`: {room} may use only {}",
                open.join(", ")
            ));
        }
    }
    broken
}

/// Whether a file is the named one or lies in the folder of the same name.
fn is_of(file: &str, name: &str) -> bool {
    file == name || file.starts_with(&format!("{}/", name.trim_end_matches(".rs")))
}

fn path_starts_with(path: &str, door: &str) -> bool {
    path.strip_prefix(door)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The paths behind `crate::` with their lines, groups taken apart; comments and what follows `#[cfg(test)]` left out.
fn crate_paths(text: &str) -> Vec<(usize, String)> {
    let code: String = text
        .split("#[cfg(test)]\nmod ")
        .next()
        .unwrap()
        .lines()
        .map(|line| line.split("//").next().unwrap())
        .collect::<Vec<_>>()
        .join("\n");
    let mut paths = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let is_word = code[..at]
            .chars()
            .next_back()
            .is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$');
        if is_word {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + "crate::".len()..];
        expand(rest, "", &mut |path| paths.push((line, path)));
    }
    paths
}

/// Calls `found` with each path that the beginning of `text` stands for: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn expand<'t>(text: &'t str, prefix: &str, found: &mut dyn FnMut(String)) -> &'t str {
    let mut rest = text.trim_start();
    if let Some(group) = rest.strip_prefix('{') {
        rest = group;
        loop {
            rest = expand(rest, prefix, found).trim_start();
            if let Some(behind) = rest.strip_prefix('}') {
                return behind;
            }
            match rest.strip_prefix(',') {
                Some(next) if next.trim_start().starts_with('}') => {
                    return &next.trim_start()[1..];
                }
                Some(next) => rest = next,
                None => return rest,
            }
        }
    }
    let end = rest
        .find(|c: char| !c.is_alphanumeric() && c != '_' && c != '*')
        .unwrap_or(rest.len());
    let path = match prefix {
        "" => rest[..end].to_string(),
        prefix => format!("{prefix}::{}", &rest[..end]),
    };
    rest = &rest[end..];
    match rest.strip_prefix("::") {
        Some(next) => expand(next, &path, found),
        None => {
            found(path);
            match rest.trim_start().strip_prefix("as ") {
                Some(renamed) => renamed
                    .trim_start()
                    .trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'),
                None => rest,
            }
        }
    }
}

#[test]
fn paths_are_found_in_groups() {
    let text = "use crate::types::{A, B as C};\nuse crate::{expr::X, plan::{self, y::Z}};\n// crate::sql\nfn f() { crate::state::g() }\n#[cfg(test)]\nmod tests { use crate::runtime; }";
    let paths = crate_paths(text);
    let expected = [
        (1, "types::A"),
        (1, "types::B"),
        (2, "expr::X"),
        (2, "plan::self"),
        (2, "plan::y::Z"),
        (4, "state::g"),
    ];
    let expected: Vec<(usize, String)> = expected
        .map(|(line, path)| (line, path.to_string()))
        .to_vec();
    assert_eq!(paths, expected);
}

#[test]
fn a_broken_door_is_named() {
    let broken = broken_doors(
        "state/memory.rs",
        "//! x\nuse crate::types::A;\nuse crate::operators::B;",
    );
    assert_eq!(broken.len(), 1);
    for part in [
        "engine/src/state/memory.rs:3",
        "`crate::operators::B`",
        "types, stream",
    ] {
        assert!(
            broken[0].contains(part),
            "{part} is missing in: {}",
            broken[0]
        );
    }
    assert!(broken_doors("attic/x.rs", "")[0].contains("no doors"));
    assert!(broken_doors("operators/sink.rs", "use crate::connectors::Sink;").is_empty());
    assert_eq!(
        broken_doors("operators/calc.rs", "use crate::connectors::Sink;").len(),
        1
    );
}
