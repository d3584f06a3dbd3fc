//! The inputs of stored jobs, from a seed.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use volley::environment::{ExecutionResult, TableEnvironment};

/// How many rows each table has.
const ROWS: usize = 90;

/// 2024-01-01 00:00:00.
const BEGINNING_MS: i64 = 1_704_067_200_000;

/// Writes those inputs below a directory that the text of a job names.
pub(super) fn write(directory: &Path, job: &str) {
    fs::create_dir_all(directory).unwrap();
    let put = |name: &str, text: String| {
        if job.contains(&format!("input/{name}'")) {
            fs::write(directory.join(name), text).unwrap();
        }
    };
    put("events.csv", events(false));
    put("others.csv", others());
    put("changes.csv", changes());
    put("upserts.csv", upserts());
    put("versions.csv", versions());
    put(
        "dimension.csv",
        "a,Anna\nb,Berta\nc,Cleo\nc,Clara\nf,-\n".to_string(),
    );
    put("events.json", json(&events(true)));
    if job.contains("input/events.parquet'") {
        parquet(directory, &events(true));
    }
}

fn random(table: &str) -> SmallRng {
    let seed = table
        .bytes()
        .fold(7, |seed, byte| seed * 31 + u64::from(byte));
    SmallRng::seed_from_u64(seed)
}

fn key(random: &mut SmallRng) -> &'static str {
    ["a", "b", "c", "d", "e", "f"].choose(random).unwrap()
}

fn key_or_null(random: &mut SmallRng) -> &'static str {
    match random.random_bool(0.07) {
        true => "-",
        false => key(random),
    }
}

fn number_or_null(random: &mut SmallRng, end: i64) -> String {
    match random.random_bool(0.07) {
        true => "-".to_string(),
        false => random.random_range(0..end).to_string(),
    }
}

fn time(millis: i64) -> String {
    let time = chrono::DateTime::from_timestamp_millis(BEGINNING_MS + millis).unwrap();
    time.format("%Y-%m-%d %H:%M:%S%.3f").to_string()
}

/// id, k, g, v, amount, ts: up to two seconds out of order; `late`: now and then by much more. No two have the same time.
fn events(late: bool) -> String {
    let (mut random, mut text) = (random("events"), String::new());
    for id in 0..ROWS as i64 {
        let back = match late && random.random_bool(0.08) {
            true => random.random_range(5_000..40_000),
            false => random.random_range(0..1_900),
        };
        let at = (60_000 + id * 1_300 - back) / 200 * 200 + id % 200;
        writeln!(
            text,
            "{id},{},{},{},{}.{:02},{}",
            key_or_null(&mut random),
            random.random_range(0..4),
            number_or_null(&mut random, 50),
            random.random_range(0..100),
            random.random_range(0..100),
            time(at),
        )
        .unwrap();
    }
    text
}

/// id, k, v, ts: up to four seconds out of order.
fn others() -> String {
    let (mut random, mut text) = (random("others"), String::new());
    for id in 0..ROWS as i64 {
        let at = (60_000 + id * 1_350 - random.random_range(0..3_900)) / 200 * 200 + id % 200;
        let (k, v) = (key_or_null(&mut random), number_or_null(&mut random, 12));
        writeln!(text, "{},{k},{v},{}", 1_000 + id, time(at)).unwrap();
    }
    text
}

/// id, k, v: inserted, updated and deleted whole.
fn changes() -> String {
    let (mut random, mut text) = (random("changes"), String::new());
    let mut there: Vec<String> = Vec::new();
    let mut rows = 0;
    while rows < ROWS {
        if there.is_empty() || random.random_bool(0.55) {
            let id = random.random_range(0..10);
            let row = format!("{id},{},{}", key(&mut random), random.random_range(0..50));
            writeln!(text, "+I,{row}").unwrap();
            there.push(row);
            rows += 1;
            continue;
        }
        let old = there.swap_remove(random.random_range(0..there.len()));
        if random.random_bool(0.4) {
            writeln!(text, "-D,{old}").unwrap();
            rows += 1;
            continue;
        }
        let id = old.split(',').next().unwrap();
        let new = format!("{id},{},{}", key(&mut random), random.random_range(0..50));
        writeln!(text, "-U,{old}\n+U,{new}").unwrap();
        there.push(new);
        rows += 2;
    }
    text
}

/// id, k, v: by id; also deletes of ids that are not there, and the same row again.
fn upserts() -> String {
    let (mut random, mut text) = (random("upserts"), String::new());
    for _ in 0..ROWS {
        let kind = match random.random_range(0..6) {
            0 => "-D",
            1 => "+I",
            _ => "+U",
        };
        let (id, v) = (random.random_range(0..15), random.random_range(0..30));
        writeln!(text, "{kind},{id},{},{v}", key(&mut random)).unwrap();
    }
    text
}

/// k, rate, ts: a row a key, with its versions.
fn versions() -> String {
    let (mut random, mut text) = (random("versions"), String::new());
    let mut current: std::collections::BTreeMap<&str, String> = Default::default();
    for tick in 0..ROWS as i64 * 2 / 3 {
        let k = key(&mut random);
        let at = 55_000 + tick * 2_000 + random.random_range(0..900);
        let new = format!("{k},{},{}", random.random_range(0..100), time(at));
        match current.insert(k, new.clone()) {
            None => writeln!(text, "+I,{new}").unwrap(),
            Some(old) => writeln!(text, "-U,{old}\n+U,{new}").unwrap(),
        }
    }
    text
}

/// Events as lines of JSON.
fn json(events: &str) -> String {
    let mut text = String::new();
    for event in events.lines() {
        let cells: Vec<&str> = event.split(',').collect();
        let or_null = |cell: &str, quote: &str| match cell {
            "-" => "null".to_string(),
            cell => format!("{quote}{cell}{quote}"),
        };
        let (k, v) = (or_null(cells[1], "\""), or_null(cells[3], ""));
        let (id, g, ts) = (cells[0], cells[2], cells[5]);
        writeln!(text, r#"{{"id":{id},"k":{k},"g":{g},"v":{v},"ts":"{ts}"}}"#).unwrap();
    }
    text
}

/// Events as a Parquet file, which a job writes.
fn parquet(directory: &Path, events: &str) {
    let (from, to) = (directory.join("events.txt"), directory.join("parts"));
    fs::write(&from, events).unwrap();
    let table = |name: &str, path: &Path, format: &str| {
        format!(
            "CREATE TABLE {name} (id BIGINT, k STRING, g INT, v INT, amount DECIMAL(10, 2), ts TIMESTAMP(3)) \
             WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = {format})",
            path.display()
        )
    };
    let mut environment = TableEnvironment::default();
    for statement in [
        table("f", &from, "'csv', 'csv.null-literal' = '-'"),
        table("t", &to, "'parquet'"),
    ] {
        environment.execute(&statement).unwrap();
    }
    let ExecutionResult::Job(job) = environment
        .execute("INSERT INTO t SELECT * FROM f")
        .unwrap()
    else {
        panic!("an INSERT is a job");
    };
    job.deploy(None).unwrap().run(&mut |_, _| {}).unwrap();
    let mut parts = fs::read_dir(&to)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    fs::rename(parts.next().unwrap(), directory.join("events.parquet")).unwrap();
    fs::remove_dir_all(to).unwrap();
    fs::remove_file(from).unwrap();
}
