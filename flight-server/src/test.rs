//! `volley test`: the cases of test files, each run in many ways.

use std::io::Write;
use std::path::PathBuf;

use volley::testing::{TestOptions, run_files};

/// What `volley test` is told.
#[derive(clap::Args)]
pub(crate) struct TestArguments {
    /// Test files (YAML).
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// `all`, `one`, or names of ways separated by commas: base, size1, random, parallel3, kill, rocksdb, mixed.
    #[arg(long, default_value = "all")]
    ways: String,
    /// Only cases whose name contains this text.
    #[arg(long)]
    filter: Option<String>,
    /// Writes a JUnit report to this file.
    #[arg(long)]
    junit: Option<PathBuf>,
    /// The seed of random batch cuts and task orders.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the cases and gives the exit code: 0 when all pass, 1 when one fails, 2 when a file is wrong.
pub(crate) fn test(arguments: &TestArguments) -> u8 {
    let mut options = TestOptions::default();
    options.filter.clone_from(&arguments.filter);
    options.junit.clone_from(&arguments.junit);
    options.seed = arguments.seed;
    let outcome = options
        .set_ways(&arguments.ways)
        .and_then(|()| run_files(&arguments.files, &options));
    match outcome {
        Ok(report) => {
            let _ = writeln!(std::io::stdout(), "{report}");
            let none = report.passed() + report.failed() + report.skipped() == 0;
            if none {
                let _ = writeln!(
                    std::io::stderr(),
                    "no case was run: the files hold none, or --filter matches none"
                );
                return 2;
            }
            u8::from(report.failed() > 0)
        }
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            error.kind().exit_code() as u8
        }
    }
}
