//! The `volley` binary: runs SQL scripts, speaks to the jobs that run, and tests scripts.

mod display;
mod endpoint;
mod jobs;
mod progress;
mod protocol;
mod run;
mod state;
mod test;

use std::ffi::{c_int, c_long};
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

/// Makes the allocator keep memory that was freed for what is allocated next. State lies in large blocks that are folded and
/// rewritten all the time; giving each back to the system and taking it again cleared cost more than half of a join's time. The
/// environment variable MIMALLOC_PURGE_DELAY (milliseconds) goes before.
fn keep_freed_memory() {
    /// `mi_option_purge_delay` of mimalloc's `mi_option_t`.
    const PURGE_DELAY: c_int = 15;
    unsafe extern "C" {
        fn mi_option_set_default(option: c_int, value: c_long);
    }
    // SAFETY: a function of the allocator that is linked in, with its C signature; it may be called at any time, and no
    // other thread runs yet.
    unsafe { mi_option_set_default(PURGE_DELAY, -1) }
}

fn main() -> ExitCode {
    keep_freed_memory();
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
