//! The plans of `testdata/explain`: each script ends with an EXPLAIN, whose text is in the file beside it.
//!
//! With `VOLLEY_WRITE_PLANS` in the environment the files are written instead of compared.

use std::fs;
use std::path::{Path, PathBuf};

use volley::environment::{ExecutionResult, TableEnvironment};
use volley::sql::split_script;

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/explain");
    let mut scripts: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .collect();
    scripts.sort();
    scripts
}

/// What the last statement of a script explains, or why it cannot.
fn explained(script: &str) -> String {
    let mut environment = TableEnvironment::default();
    let mut text = String::new();
    for statement in split_script(script).unwrap() {
        match environment.execute(&statement.text) {
            Ok(ExecutionResult::Explained(plan)) => text = plan,
            Ok(_) => {}
            Err(error) => return format!("{error}\n"),
        }
    }
    text
}

#[test]
fn plans_are_what_the_files_say() {
    let mut differing = Vec::new();
    for script in scripts() {
        let actual = explained(&fs::read_to_string(&script).unwrap());
        let file = script.with_extension("txt");
        if std::env::var_os("VOLLEY_WRITE_PLANS").is_some() {
            fs::write(&file, actual).unwrap();
            continue;
        }
        let expected = fs::read_to_string(&file).unwrap_or_default();
        if actual != expected {
            let name = file.file_name().unwrap().to_string_lossy().to_string();
            differing.push(format!(
                "--- {name}, as it is ---\n{actual}--- as it should be ---\n{expected}"
            ));
        }
    }
    assert!(
        differing.is_empty(),
        "{}\n(VOLLEY_WRITE_PLANS=1 writes the files anew)",
        differing.join("\n")
    );
}
