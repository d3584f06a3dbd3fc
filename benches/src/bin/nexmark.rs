//! Runs the queries of `benches/nexmark` through the `volley` binary into `blackhole` and prints what each costs.
//!
//! The unit is CPU seconds (user and system, whole process) of a million events, less those of the same job with a single
//! event; beside it stand Apache Flink's figures and the ratio. `--help` lists the options.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use volley_benches::process::{self, Cost};

/// Each query with Flink 2.2.1's CPU seconds of a million events, state in memory; see docs/performance.md for how they were measured.
const QUERIES: &[(&str, f64)] = &[
    ("q0", 1.7),
    ("q1", 1.9),
    ("q2", 1.9),
    ("q5", 6.2),
    ("q8", 3.1),
    ("q11", 7.7),
    ("q12", 3.0),
    ("q14", 1.6),
    ("q21", 6.6),
    ("q22", 3.3),
];

const HELP: &str = "\
nexmark --volley PATH [options]
  --volley PATH        the binary (release build)
  --events N           events of all kinds, 10,000,000
  --queries q0,q5      all by default
  --parallelism 1,2    each in turn; 1,2
  --tables wide,narrow wide: one table of all events, as in the original; narrow: one for each kind; wide
  --runs N             the best of N runs counts; 3";

struct Options {
    volley: PathBuf,
    events: u64,
    queries: Vec<String>,
    parallelism: Vec<usize>,
    tables: Vec<String>,
    runs: usize,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = parse(&arguments).and_then(|options| measure_all(&options));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let list = |text: &str| text.split(',').map(str::to_string).collect::<Vec<_>>();
    let mut options = Options {
        volley: PathBuf::new(),
        events: 10_000_000,
        queries: QUERIES.iter().map(|(name, _)| name.to_string()).collect(),
        parallelism: vec![1, 2],
        tables: vec!["wide".to_string()],
        runs: 3,
    };
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        if name == "--help" {
            return Err(HELP.to_string());
        }
        let value = arguments
            .next()
            .ok_or_else(|| format!("{name} needs a value\n{HELP}"))?;
        let number = |text: &str| {
            text.parse::<u64>()
                .map_err(|_| format!("{name}: '{text}' is no number"))
        };
        match name.as_str() {
            "--volley" => options.volley = PathBuf::from(value),
            "--events" => options.events = number(value)?,
            "--queries" => options.queries = list(value),
            "--parallelism" => {
                options.parallelism = list(value)
                    .iter()
                    .map(|text| number(text).map(|number| number as usize))
                    .collect::<Result<_, _>>()?;
            }
            "--tables" => options.tables = list(value),
            "--runs" => options.runs = number(value)? as usize,
            _ => return Err(format!("there is no option {name}\n{HELP}")),
        }
    }
    if options.volley.as_os_str().is_empty() {
        return Err(format!("--volley is missing\n{HELP}"));
    }
    Ok(options)
}

fn measure_all(options: &Options) -> Result<(), String> {
    println!(
        "{} events, best of {} runs, CPU seconds per million events",
        options.events, options.runs
    );
    println!(
        "| query | tables | parallelism | events/s | CPU s / million | peak MB | Flink | times fewer |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut failed = Vec::new();
    for tables in &options.tables {
        for query in &options.queries {
            let (_, flink) = QUERIES
                .iter()
                .find(|(name, _)| name == query)
                .ok_or_else(|| format!("there is no query {query}"))?;
            for parallelism in &options.parallelism {
                match measure(options, tables, query, *parallelism) {
                    Ok(cost) => {
                        let millions = options.events as f64 / 1e6;
                        let per_million = cost.cpu_seconds / millions;
                        println!(
                            "| {query} | {tables} | {parallelism} | {:.0} | {per_million:.3} | {:.0} | {flink} | {:.1} |",
                            options.events as f64 / cost.wall_seconds,
                            cost.peak_bytes as f64 / 1e6,
                            flink / per_million
                        );
                    }
                    Err(message) => {
                        println!("| {query} | {tables} | {parallelism} | failed | | | {flink} | |");
                        failed.push(format!(
                            "{query} ({tables}, parallelism {parallelism}): {message}"
                        ));
                    }
                }
            }
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(failed.join("\n"))
    }
}

/// The best run, less the start: what the job costs with one event.
fn measure(
    options: &Options,
    tables: &str,
    query: &str,
    parallelism: usize,
) -> Result<Cost, String> {
    let start = best(options, tables, query, parallelism, 1)?;
    let whole = best(options, tables, query, parallelism, options.events)?;
    Ok(Cost {
        cpu_seconds: (whole.cpu_seconds - start.cpu_seconds).max(0.0),
        wall_seconds: (whole.wall_seconds - start.wall_seconds).max(1e-6),
        peak_bytes: whole.peak_bytes,
    })
}

fn best(
    options: &Options,
    tables: &str,
    query: &str,
    parallelism: usize,
    events: u64,
) -> Result<Cost, String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("nexmark");
    let read = |name: String| {
        fs::read_to_string(directory.join(&name)).map_err(|error| format!("{name}: {error}"))
    };
    let script = read(format!("tables-{tables}.sql"))?
        .replace("{events}", &events.to_string())
        .replace("{splits}", &parallelism.to_string())
        + &read(format!("{query}.sql"))?;
    let file = std::env::temp_dir().join(format!("volley-nexmark-{}.sql", std::process::id()));
    fs::write(&file, script).map_err(|error| error.to_string())?;
    let mut best: Option<Cost> = None;
    for _ in 0..options.runs.max(1) {
        let mut command = Command::new(&options.volley);
        command
            .arg("run")
            .arg(&file)
            .args(["-D", &format!("parallelism.default={parallelism}")]);
        let cost = process::run(&mut command).map_err(|error| error.to_string())?;
        best = Some(match best {
            Some(best) if best.cpu_seconds <= cost.cpu_seconds => best,
            _ => cost,
        });
    }
    fs::remove_file(&file).map_err(|error| error.to_string())?;
    Ok(best.expect("at least one run"))
}
