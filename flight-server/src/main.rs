//! The `volley` binary: runs SQL scripts, speaks to the jobs that run, and tests scripts.

mod allocator;
mod display;
mod endpoint;
mod jobs;
mod progress;
mod protocol;
mod run;
mod state;
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
(a file, a network) failed, 5 out of resources, 70 a fault of Volley, 130 stopped by Ctrl-C or volley cancel.";

#[derive(Subcommand)]
enum Command {
    /// Runs a script of SQL statements: INSERTs as jobs, a SELECT prints.
    Run(run::RunArguments),
    /// Lists the jobs that run on this machine.
    List,
    /// Has a running job write a savepoint and go on; prints where it is.
    Savepoint(jobs::SavepointArguments),
    /// Stops a running job with a savepoint, from which it can go on later; prints where it is.
    Stop(jobs::StopArguments),
    /// Stops a running job without a savepoint: what no checkpoint has committed stays invisible.
    Cancel(jobs::JobArgument),
    /// Looks into savepoints and checkpoints: lists, shows and compares the state of operators.
    State(state::StateArguments),
    /// Runs the cases of test files (YAML) in many ways.
    Test(test::TestArguments),
}

fn main() -> ExitCode {
    allocator::keep_freed_memory();
    let code = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::List => jobs::list(),
        Command::Savepoint(arguments) => jobs::savepoint(&arguments),
        Command::Stop(arguments) => jobs::stop(&arguments),
        Command::Cancel(job) => jobs::cancel(&job),
        Command::State(arguments) => state::state(&arguments),
        Command::Test(arguments) => test::test(&arguments),
    };
    ExitCode::from(code)
}
