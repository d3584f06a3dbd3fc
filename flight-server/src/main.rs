//! The `volley` binary: runs SQL scripts, and tests them.

mod display;
mod progress;
mod run;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Flink SQL on Apache Arrow.
#[derive(Parser)]
#[command(name = "volley", version, about, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 success, 1 a test case failed, 2 a mistake in SQL or options, 3 bad data, 4 something outside \
(a file, a network) failed, 5 out of resources, 70 a fault of Volley, 130 stopped by Ctrl-C.";

#[derive(Subcommand)]
enum Command {
    /// Runs a script of SQL statements: INSERTs as jobs, a SELECT prints.
    Run(run::RunArguments),
    /// Runs the cases of test files (YAML) in many ways.
    Test(test::TestArguments),
}

fn main() -> ExitCode {
    let code = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Test(arguments) => test::test(&arguments),
    };
    ExitCode::from(code)
}
