//! `retail-data DIRECTORY`: writes the till log and the price list of the retail job.

use std::path::PathBuf;
use std::process::ExitCode;

use retail_data::{Settings, TillLog};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(directory), None) = (arguments.next().map(PathBuf::from), arguments.next()) else {
        eprintln!("usage: retail-data DIRECTORY");
        return ExitCode::from(2);
    };
    match TillLog::generate(Settings::default()).write(&directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("retail-data: cannot write {}: {error}", directory.display());
            ExitCode::from(4)
        }
    }
}
