//! Runs the queries of `benches/nexmark` through the `volley` binary into `blackhole` and prints what each costs.
//!
//! The unit is CPU seconds (user and system, whole process) of a million events, less those of the same job with a single
//! event; beside it stand Apache Flink's figures and the ratio. `--help` lists the options.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use volley_benches::process::{self, Cost};

/// Each query with Flink 2.2.1's CPU seconds of a million events, state in memory and in RocksDB (2.7 GB of managed memory); see
/// docs/performance.md for how they were measured.
const QUERIES: &[(&str, Option<f64>, Option<f64>)] = &[
    ("q0", Some(1.7), None),
    ("q1", Some(1.9), None),
    ("q2", Some(1.9), None),
    ("q3", Some(2.0), Some(2.0)),
    ("q4", Some(8.9), Some(20.7)),
    ("q5", Some(6.2), Some(16.0)),
    ("q7", Some(16.2), Some(30.3)),
    ("q8", Some(3.1), Some(4.4)),
    ("q9", Some(15.0), Some(39.1)),
    ("q11", Some(7.7), Some(33.8)),
    ("q12", Some(3.0), Some(5.1)),
    ("q14", Some(1.6), None),
    ("q15", Some(8.4), Some(8.9)),
    ("q16", Some(63.0), Some(87.0)),
    ("q17", Some(3.7), Some(5.5)),
    ("q18", Some(6.1), Some(10.7)),
    ("q19", Some(7.7), Some(14.7)),
    ("q20", Some(10.5), Some(24.8)),
    ("q21", Some(6.6), None),
    ("q22", Some(3.3), None),
    ("q23", None, None),
];

/// The queries whose results are updated: run with mini-batch off and on.
const UPDATING: &[&str] = &[
    "q3", "q4", "q7", "q9", "q15", "q16", "q17", "q18", "q19", "q20", "q23",
];

/// Mini-batch as Flink's figures were measured with it.
const MINI_BATCH: &[&str] = &[
    "table.exec.mini-batch.enabled=true",
    "table.exec.mini-batch.allow-latency=2 s",
    "table.exec.mini-batch.size=50000",
];

const HELP: &str = "\
nexmark --volley PATH [options]
  --volley PATH        the binary (release build)
  --events N           events of all kinds, 10,000,000
  --queries q0,q5      all by default
  --parallelism 1,2    each in turn; 1,2
  --tables wide,narrow wide: one table of all events, as in the original; narrow: one for each kind; wide
  --mini-batch off,on  of the updating queries (on: 2 s, 50,000 rows); off,on
  --backend NAME       hashmap, or rocksdb: state.backend.type, and which of Flink's figures stand beside; hashmap
  --memory SIZE        state.backend.memory, with rocksdb; 2700 mb, which Flink had
  --runs N             the best of N runs counts; 3";

struct Options {
    volley: PathBuf,
    events: u64,
    queries: Vec<String>,
    parallelism: Vec<usize>,
    tables: Vec<String>,
    mini_batch: Vec<bool>,
    rocksdb: bool,
    memory: String,
    runs: usize,
}

/// One line of the table.
struct Setting<'a> {
    tables: &'a str,
    query: &'a str,
    parallelism: usize,
    mini_batch: bool,
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
        queries: QUERIES.iter().map(|(name, ..)| name.to_string()).collect(),
        parallelism: vec![1, 2],
        tables: vec!["wide".to_string()],
        mini_batch: vec![false, true],
        rocksdb: false,
        memory: "2700 mb".to_string(),
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
            "--mini-batch" => {
                options.mini_batch = list(value)
                    .iter()
                    .map(|text| match text.as_str() {
                        "on" => Ok(true),
                        "off" => Ok(false),
                        other => Err(format!("{name}: '{other}' is neither on nor off")),
                    })
                    .collect::<Result<_, _>>()?;
            }
            "--backend" => {
                options.rocksdb = match value.as_str() {
                    "hashmap" => false,
                    "rocksdb" => true,
                    other => {
                        return Err(format!("{name}: '{other}' is neither hashmap nor rocksdb"));
                    }
                }
            }
            "--memory" => options.memory = value.clone(),
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
    let state = match options.rocksdb {
        true => format!("RocksDB with {}", options.memory),
        false => "memory".to_string(),
    };
    println!(
        "{} events, best of {} runs, state in {state}, CPU seconds per million events",
        options.events, options.runs
    );
    println!(
        "| query | tables | parallelism | mini-batch | events/s | CPU s / million | peak MB | Flink | times fewer |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut failed = Vec::new();
    for tables in &options.tables {
        for query in &options.queries {
            let (_, in_memory, on_disk) = QUERIES
                .iter()
                .find(|(name, ..)| name == query)
                .ok_or_else(|| format!("there is no query {query}"))?;
            let flink = if options.rocksdb { on_disk } else { in_memory };
            for setting in settings(options, tables, query) {
                if let Err(message) = print_line(options, &setting, *flink) {
                    failed.push(message);
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

/// How a query is run.
fn settings<'a>(options: &Options, tables: &'a str, query: &'a str) -> Vec<Setting<'a>> {
    let mini_batch = match UPDATING.contains(&query) {
        true => options.mini_batch.clone(),
        false => vec![false],
    };
    let mut settings = Vec::new();
    for parallelism in &options.parallelism {
        settings.extend(mini_batch.iter().map(|mini_batch| Setting {
            tables,
            query,
            parallelism: *parallelism,
            mini_batch: *mini_batch,
        }));
    }
    settings
}

/// Measures and prints a line; what failed is told in words too.
fn print_line(options: &Options, setting: &Setting, flink: Option<f64>) -> Result<(), String> {
    let Setting {
        tables,
        query,
        parallelism,
        mini_batch,
    } = setting;
    let mini_batch = if *mini_batch { "on" } else { "off" };
    let line = format!("| {query} | {tables} | {parallelism} | {mini_batch} |");
    let known = flink.map_or("–".to_string(), |flink| flink.to_string());
    let cost = measure(options, setting).map_err(|message| {
        println!("{line} failed | | | {known} | |");
        format!("{line} {message}")
    })?;
    let per_million = cost.cpu_seconds / (options.events as f64 / 1e6);
    let times = flink.map_or("–".to_string(), |flink| {
        format!("{:.1}", flink / per_million)
    });
    println!(
        "{line} {:.0} | {per_million:.3} | {:.0} | {known} | {times} |",
        options.events as f64 / cost.wall_seconds,
        cost.peak_bytes as f64 / 1e6,
    );
    Ok(())
}

/// The best run, less the start: what the job costs with one event.
fn measure(options: &Options, setting: &Setting) -> Result<Cost, String> {
    let start = best(options, setting, 1)?;
    let whole = best(options, setting, options.events)?;
    Ok(Cost {
        cpu_seconds: (whole.cpu_seconds - start.cpu_seconds).max(0.0),
        wall_seconds: (whole.wall_seconds - start.wall_seconds).max(1e-6),
        peak_bytes: whole.peak_bytes,
    })
}

fn best(options: &Options, setting: &Setting, events: u64) -> Result<Cost, String> {
    let Setting {
        tables,
        query,
        parallelism,
        mini_batch,
    } = setting;
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
        for option in MINI_BATCH.iter().filter(|_| *mini_batch) {
            command.args(["-D", option]);
        }
        if options.rocksdb {
            command.args(["-D", "state.backend.type=rocksdb"]);
            command.args(["-D", &format!("state.backend.memory={}", options.memory)]);
        }
        let cost = process::run(&mut command).map_err(|error| error.to_string())?;
        best = Some(match best {
            Some(best) if best.cpu_seconds <= cost.cpu_seconds => best,
            _ => cost,
        });
    }
    fs::remove_file(&file).map_err(|error| error.to_string())?;
    Ok(best.expect("at least one run"))
}
