//! What checkpoints cost beside the least that they could: writing a change beside writing the same batches as Arrow IPC, and restoring
//! beside reading and checksumming the same bytes. Prints Markdown tables.
//!
//! The operator is the running total (COUNT and SUM by one BIGINT), as `benches/state/checkpoints.py` runs it. CPU is that of the one
//! thread that does everything. Both sides of a pair come in turns, with the files in the page cache. `--help` lists the options.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_long};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::ipc::writer::StreamWriter;
use volley::Error;
use volley::blobs::{BlobStore, open_blobs};
use volley::checkpoint::{
    CheckpointCoordinator, CheckpointReader, CheckpointStorage, KeySpan, SnapshotReader,
    StartedFrom, StorageOptions,
};
use volley::functions::AggregateCall;
use volley::operators::{
    Context, Flow, GroupAggregateOperator, GroupAggregateSpec, InputIndex, Operator, Output,
    Subtask, TierOptions, tiered,
};
use volley::runtime::{read_ahead, readers};
use volley::state::{HashMapStateBackend, StateSnapshot, TimeToLive};
use volley::stream::{ChangelogBatch, CheckpointId, KeyHashes};
use volley::types::{Field, LogicalType, Schema};
use xxhash_rust::xxh3::Xxh3;

/// As in the `volley` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Result<T> = std::result::Result<T, Error>;

const HELP: &str = "\
checkpoint_costs changes [options]
  --keys N         keys of the state, 4,000,000
  --changed A,B    keys that change between two checkpoints; 10000,100000,1000000
  --pairs N        of each size, 9; a pair has as many checkpoints as make a million keys, of which those do not count that tell all anew
  --directory DIR  where checkpoints are written; the temporary directory of the system
checkpoint_costs restore PATH [--pairs N] [--cache warm|cold]
  PATH             a checkpoint of a running total, or the directory above it
  --cache          cold: the files come from the disk each time (Linux); warm";

/// The operator's stable id.
const UID: &str = "total";

/// Rows of a batch.
const ROWS: usize = 8192;

struct Arguments {
    restore: Option<PathBuf>,
    keys: i64,
    changed: Vec<i64>,
    pairs: usize,
    directory: PathBuf,
    is_cold: bool,
}

fn arguments() -> std::result::Result<Arguments, String> {
    let mut result = Arguments {
        restore: None,
        keys: 4_000_000,
        changed: vec![10_000, 100_000, 1_000_000],
        pairs: 9,
        directory: std::env::temp_dir(),
        is_cold: false,
    };
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        Some("changes") => {}
        Some("restore") => result.restore = Some(words.next().ok_or(HELP)?.into()),
        _ => return Err(HELP.to_string()),
    }
    while let Some(word) = words.next() {
        let value = words.next().ok_or(HELP)?;
        let number = |text: &str| text.parse::<i64>().map_err(|_| HELP.to_string());
        match word.as_str() {
            "--keys" => result.keys = number(&value)?.max(1),
            "--changed" => {
                let numbers = value.split(',').map(number);
                result.changed = numbers.collect::<std::result::Result<_, _>>()?;
            }
            "--pairs" => result.pairs = number(&value)?.max(1) as usize,
            "--directory" => result.directory = value.into(),
            "--cache" => result.is_cold = value == "cold",
            _ => return Err(HELP.to_string()),
        }
    }
    Ok(result)
}

/// As in the `volley` binary.
fn keep_freed_memory() {
    const PURGE_DELAY: c_int = 15;
    unsafe extern "C" {
        fn mi_option_set_default(option: c_int, value: c_long);
    }
    // SAFETY: a function of the allocator that is linked in, with its C signature; no other thread runs yet.
    unsafe { mi_option_set_default(PURGE_DELAY, -1) }
}

fn main() -> ExitCode {
    keep_freed_memory();
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let arguments = &arguments;
    let done = match &arguments.restore {
        Some(path) => restore_all(path, arguments),
        None => write_all(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

// --- the operator ---------------------------------------------------------------------------------------------------------

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("k", LogicalType::BIGINT),
        Field::new("v", LogicalType::BIGINT),
    ])
}

fn call(function: &str, arguments: Vec<usize>) -> AggregateCall {
    AggregateCall {
        function: function.to_string(),
        argument_types: vec![LogicalType::BIGINT; arguments.len()],
        arguments,
        distinct: false,
        filter: None,
        logical_type: LogicalType::BIGINT,
        name: function.to_string(),
    }
}

/// A running total as a job with incremental checkpoints has it, and what it is called with.
struct Total {
    operator: Box<dyn Operator>,
    context: Context,
    out: Output,
}

impl Total {
    fn new() -> Result<Self> {
        let spec = GroupAggregateSpec {
            keys: vec![0],
            aggregates: vec![call("COUNT", vec![]), call("SUM", vec![1])],
            input: schema(),
            merges_partials: false,
            insert_only: true,
            update_before: true,
            mini_batch_rows: Some(50_000),
            ttl: TimeToLive::NEVER,
        };
        let operator = GroupAggregateOperator::new(spec, Arc::new(HashMapStateBackend))?;
        let options = TierOptions {
            store: None,
            memory: None,
            incremental: true,
            most_changes: volley::operators::MOST_CHANGES,
            copied_bytes: volley::runtime::COPIED_BYTES,
            backend: Arc::new(HashMapStateBackend),
            name: UID.to_string(),
        };
        Ok(Total {
            operator: tiered(Box::new(operator), options),
            context: Context::new(Subtask::SINGLE, Arc::default()),
            out: Output::new(false),
        })
    }

    /// Adds a row of each of these keys.
    fn add(&mut self, keys: &[i64]) -> Result<()> {
        for keys in keys.chunks(ROWS) {
            let values = keys.iter().map(|key| key % 1000);
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from_iter_values(keys.iter().copied())),
                Arc::new(Int64Array::from_iter_values(values)),
            ];
            let rows = RecordBatch::try_new(schema().to_arrow(), columns)?;
            let batch = ChangelogBatch {
                hashes: Some(KeyHashes::of(&rows, &[0])?),
                ..ChangelogBatch::insert_only(rows)
            };
            let (operator, context) = (&mut self.operator, &mut self.context);
            let flow = operator.process_batch(context, InputIndex::FIRST, batch, &mut self.out)?;
            self.drain(flow)?;
        }
        let (operator, context) = (&mut self.operator, &mut self.context);
        let flow = operator.flush_bundle(context, &mut self.out)?;
        self.drain(flow)
    }

    /// Drops what comes out until the call is complete.
    fn drain(&mut self, mut flow: Flow) -> Result<()> {
        loop {
            while self.out.pop().is_some() {}
            if flow == Flow::Done {
                return Ok(());
            }
            flow = self.operator.resume(&mut self.context, &mut self.out)?;
        }
    }
}

// --- time -----------------------------------------------------------------------------------------------------------------

/// Time on a processor of the main thread, in seconds. Exact to a tick of the scheduler (a few milliseconds); where many short times are
/// summed up, that evens out.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let own = stat.split_whitespace().next();
    let nanos = own.and_then(|text| text.parse::<f64>().ok());
    nanos.unwrap_or(0.0) / 1e9
}

/// What a call took, in seconds of this thread's CPU and of the clock.
fn timed<T>(call: impl FnOnce() -> Result<T>) -> Result<(T, f64, f64)> {
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    let result = call()?;
    Ok((result, cpu_seconds() - cpu, wall.elapsed().as_secs_f64()))
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_unstable_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The median of ratios and their spread.
fn spread(ratios: &[f64]) -> String {
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    format!("{:.2} ({least:.2} to {most:.2})", median(ratios.to_vec()))
}

#[allow(clippy::print_stdout, reason = "a program's output")]
fn print_row(cells: &[&str]) {
    println!("| {} |", cells.join(" | "));
}

fn print_head(cells: &[&str]) {
    print_row(cells);
    print_row(&vec!["---"; cells.len()]);
}

// --- writing what changed -------------------------------------------------------------------------------------------------

/// The whole path of a checkpoint behind the operator: collected, written, committed, merged.
struct Checkpoints {
    blobs: Arc<dyn BlobStore>,
    coordinator: CheckpointCoordinator,
    storage: CheckpointStorage,
}

/// What came of one.
struct Taken {
    /// The batches that the operator gave.
    snapshot: StateSnapshot,
    bytes: u64,
    snapshot_cpu: f64,
    /// The longest time that rows wait at once.
    pause: f64,
    write_cpu: f64,
    merge_cpu: f64,
}

impl Checkpoints {
    fn open(directory: &Path) -> Result<Self> {
        let blobs = open_blobs(&directory.to_string_lossy())?;
        let options = StorageOptions {
            job: "bench".to_string(),
            run: "run".to_string(),
            max_parallelism: Subtask::SINGLE.max_parallelism,
            retained: 1,
            incremental: true,
            operators: BTreeMap::new(),
            owned_from: CheckpointId(0),
            writer: "bench".to_string(),
        };
        Ok(Checkpoints {
            storage: CheckpointStorage::open(&*blobs, options, StartedFrom::Nothing)?,
            blobs,
            coordinator: CheckpointCoordinator::new(&[KeySpan::ALL], CheckpointId(0)),
        })
    }

    fn take(&mut self, total: &mut Total) -> Result<Taken> {
        let checkpoint = self.coordinator.trigger();
        let checkpoint = checkpoint.ok_or_else(|| Error::internal("a checkpoint runs"))?;
        let Total {
            operator, context, ..
        } = total;
        let ((snapshot, pause), snapshot_cpu, _) = timed(|| {
            let begun = Instant::now();
            let mut snapshot = operator.snapshot_state(context, checkpoint)?;
            let mut pause = begun.elapsed();
            loop {
                let begun = Instant::now();
                let piece = operator.continue_snapshot(context)?;
                pause = pause.max(begun.elapsed());
                match piece {
                    Some(piece) => snapshot.add_piece(piece),
                    None => return Ok((snapshot, pause.as_secs_f64())),
                }
            }
        })?;
        let kept = snapshot.clone();
        let (written, write_cpu, _) = timed(|| {
            let state = vec![(UID.to_string(), snapshot)];
            let contents = self.coordinator.acknowledge(0, checkpoint, state);
            let contents = contents.ok_or_else(|| Error::internal("a task is missing"))?;
            self.storage.write(&*self.blobs, &contents)
        })?;
        let ((), merge_cpu, _) = timed(|| {
            while let Some(plan) = self.storage.next_merge() {
                let merged = plan.run(&*self.blobs, &|| false);
                self.storage.install(&*self.blobs, merged);
            }
            Ok(())
        })?;
        Ok(Taken {
            snapshot: kept,
            bytes: written.bytes,
            snapshot_cpu,
            pause,
            write_cpu,
            merge_cpu,
        })
    }
}

/// Writes the tables of a snapshot as Arrow IPC streams, durably, a file a table; gives the bytes.
fn write_ipc(snapshot: &StateSnapshot, directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for (name, table) in &snapshot.tables {
        let Some(first) = table.batches.first() else {
            continue;
        };
        let mut stream = StreamWriter::try_new(Vec::new(), &first.schema())?;
        for batch in &table.batches {
            stream.write(batch)?;
        }
        let stream = stream.into_inner()?;
        let mut file = File::create(directory.join(format!("{name}.arrow")))?;
        file.write_all(&stream)?;
        file.sync_all()?;
        bytes += stream.len() as u64;
    }
    Ok(bytes)
}

fn write_all(arguments: &Arguments) -> Result<()> {
    print_head(&[
        "keys changed",
        "of",
        "longest pause, ms",
        "bytes a key",
        "snapshot, CPU ns / byte",
        "and write",
        "and merge",
        "Arrow IPC, CPU ns / byte",
        "ratio of snapshot and write",
        "ratio with merges and with all told anew, all pairs together",
    ]);
    for changed in &arguments.changed {
        write_changes(arguments, (*changed).min(arguments.keys))?;
    }
    Ok(())
}

/// So many keys, spread over all of them, other ones each time.
fn changed_keys(all: i64, changed: i64, round: i64) -> Vec<i64> {
    let step = (all / changed).max(1);
    (0..changed)
        .map(|index| (index * step + round) % all)
        .collect()
}

fn write_changes(arguments: &Arguments, changed: i64) -> Result<()> {
    let directory = tempfile::tempdir_in(&arguments.directory)?;
    let ipc = directory.path().join("ipc");
    std::fs::create_dir(&ipc)?;
    let mut total = Total::new()?;
    let mut checkpoints = Checkpoints::open(&directory.path().join("checkpoints"))?;
    total.add(&(0..arguments.keys).collect::<Vec<_>>())?;
    checkpoints.take(&mut total)?;
    let (mut sums, mut pauses, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    // What checkpoints took that told all keys, in the place of changes.
    let mut anew = Vec::new();
    let rounds = (1_000_000 / changed).max(1);
    for pair in 0..arguments.pairs as i64 {
        let mut sum = Sum::default();
        for round in pair * rounds..(pair + 1) * rounds {
            total.add(&changed_keys(arguments.keys, changed, round))?;
            let taken = checkpoints.take(&mut total)?;
            pauses.push(taken.pause * 1e3);
            if taken.snapshot.gone.is_none() {
                anew.push(taken.snapshot_cpu + taken.write_cpu + taken.merge_cpu);
                continue;
            }
            let (bytes, cpu, _) = timed(|| write_ipc(&taken.snapshot, &ipc))?;
            sum.add(&taken, bytes, cpu);
        }
        if sum.checkpoints > 0.0 {
            ratios.push((sum.snapshot_cpu + sum.write_cpu) / sum.ipc_cpu);
            sums.push(sum);
        }
    }
    // Nanoseconds a byte of the change as Arrow IPC, which is the same on both sides.
    let per_byte = |cpu: fn(&Sum) -> f64| {
        let nanos = sums.iter().map(|sum| cpu(sum) * 1e9 / sum.ipc_bytes);
        format!("{:.2}", median(nanos.collect()))
    };
    let all: fn(&Sum) -> f64 = |sum| sum.snapshot_cpu + sum.write_cpu + sum.merge_cpu;
    let sum = |of: fn(&Sum) -> f64| sums.iter().map(of).sum::<f64>();
    let checkpoints = sum(|sum| sum.checkpoints);
    // As IPC all checkpoints would be changes.
    let ipc_cpu = sum(|sum| sum.ipc_cpu) / checkpoints * (checkpoints + anew.len() as f64);
    let together = (sum(all) + anew.iter().sum::<f64>()) / ipc_cpu;
    let bytes = sum(|sum| sum.bytes);
    let keys = changed as f64 * checkpoints;
    let longest = pauses.iter().copied().fold(0.0, f64::max);
    print_row(&[
        &changed.to_string(),
        &arguments.keys.to_string(),
        &format!("{:.2} (at most {longest:.2})", median(pauses)),
        &format!("{:.1}", bytes / keys),
        &per_byte(|sum| sum.snapshot_cpu),
        &per_byte(|sum| sum.snapshot_cpu + sum.write_cpu),
        &per_byte(all),
        &per_byte(|sum| sum.ipc_cpu),
        &spread(&ratios),
        &format!("{together:.2}"),
    ]);
    Ok(())
}

/// What the checkpoints of a pair took together.
#[derive(Default)]
struct Sum {
    checkpoints: f64,
    bytes: f64,
    snapshot_cpu: f64,
    write_cpu: f64,
    merge_cpu: f64,
    ipc_bytes: f64,
    ipc_cpu: f64,
}

impl Sum {
    fn add(&mut self, taken: &Taken, ipc_bytes: u64, ipc_cpu: f64) {
        self.checkpoints += 1.0;
        self.bytes += taken.bytes as f64;
        self.snapshot_cpu += taken.snapshot_cpu;
        self.write_cpu += taken.write_cpu;
        self.merge_cpu += taken.merge_cpu;
        self.ipc_bytes += ipc_bytes as f64;
        self.ipc_cpu += ipc_cpu;
    }
}

// --- restoring ------------------------------------------------------------------------------------------------------------

/// The bytes and the checksum of files, each by xxh3-64.
fn read_and_checksum(files: &[PathBuf]) -> Result<(u64, u64)> {
    let mut buffer = vec![0; 8 << 20];
    let (mut bytes, mut sums) = (0, 0);
    for path in files {
        let (mut file, mut hasher) = (File::open(path)?, Xxh3::new());
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
            bytes += read as u64;
        }
        sums ^= hasher.digest();
    }
    Ok((bytes, sums))
}

/// Has the system forget what it keeps of files in memory.
#[cfg(target_os = "linux")]
fn leave_cache(files: &[PathBuf]) -> Result<()> {
    use std::os::fd::AsRawFd;
    const DONT_NEED: i32 = 4;
    unsafe extern "C" {
        fn posix_fadvise(file: i32, offset: i64, length: i64, advice: i32) -> i32;
    }
    for path in files {
        let file = File::open(path)?;
        file.sync_all()?;
        // SAFETY: a function of the C library with its signature, and a file that is open.
        unsafe { posix_fadvise(file.as_raw_fd(), 0, 0, DONT_NEED) };
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn leave_cache(_: &[PathBuf]) -> Result<()> {
    Err(Error::user("only Linux is told to forget files"))
}

/// As a task restores: verified, then piece by piece where the operator can.
fn restore(path: &Path) -> Result<(usize, Total)> {
    let reader = CheckpointReader::open(&path.to_string_lossy(), None)?;
    let uid = aggregate_of(&reader)?;
    let mut total = Total::new()?;
    let max_parallelism = reader.manifest().max_parallelism;
    let subtask = Subtask {
        max_parallelism,
        ..Subtask::SINGLE
    };
    let mut rows = 0;
    let pieces = subtask.key_groups().pieces(total.operator.restore_pieces());
    let count = pieces.len();
    let read = |groups| reader.read(&uid, groups, max_parallelism);
    read_ahead(
        pieces,
        readers(reader.bytes()),
        read,
        |number, mut state| {
            state.first_of = if number == 0 { count } else { 0 };
            let tables = state.tables.values().flat_map(|table| &table.batches);
            rows += tables.map(RecordBatch::num_rows).sum::<usize>();
            total.operator.restore_state(&mut total.context, state)
        },
    )?;
    Ok((rows, total))
}

/// The operator of the checkpoint that has keyed state.
fn aggregate_of(reader: &CheckpointReader) -> Result<String> {
    let mut operators = reader.manifest().operators.iter();
    let keyed = operators.find(|(_, operator)| !operator.segments.is_empty());
    keyed.map(|(uid, _)| uid.clone()).ok_or_else(|| {
        Error::user("the checkpoint has no keyed state")
            .hint("give one of a running total with COUNT(*) and SUM over one BIGINT")
    })
}

fn restore_all(path: &Path, arguments: &Arguments) -> Result<()> {
    let reader = CheckpointReader::open(&path.to_string_lossy(), None)?;
    let location = PathBuf::from(reader.location());
    let root = location.parent().unwrap_or(Path::new("."));
    let files = reader.manifest().files.keys().map(|file| root.join(file));
    let files: Vec<PathBuf> = files.collect();
    drop(reader);
    let (mut read, mut restored, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bytes, mut rows) = (0, 0);
    // The first pair brings the files into the page cache.
    for pair in 0..=arguments.pairs {
        if arguments.is_cold {
            leave_cache(&files)?;
        }
        let ((length, _), read_cpu, read_wall) = timed(|| read_and_checksum(&files))?;
        if arguments.is_cold {
            leave_cache(&files)?;
        }
        let ((count, total), cpu, wall) = timed(|| restore(path))?;
        drop(total);
        (bytes, rows) = (length, count);
        if pair > 0 {
            read.push((read_cpu, read_wall));
            restored.push((cpu, wall));
            ratios.push(wall / read_wall);
        }
    }
    let cells = |times: &[(f64, f64)], bytes: u64| {
        let wall = median(times.iter().map(|(_, wall)| *wall).collect());
        let cpu = median(times.iter().map(|(cpu, _)| *cpu).collect());
        (
            format!("{cpu:.3}"),
            format!("{wall:.3}"),
            format!("{:.0}", bytes as f64 / wall / 1e6),
        )
    };
    let (read_cpu, read_wall, read_rate) = cells(&read, bytes);
    let (cpu, wall, rate) = cells(&restored, bytes);
    print_head(&[
        "",
        "files",
        "MB",
        "rows",
        "CPU s",
        "wall s",
        "MB/s",
        "times as long",
    ]);
    let (count, length) = (
        files.len().to_string(),
        format!("{:.1}", bytes as f64 / 1e6),
    );
    print_row(&[
        "read and checksum",
        &count,
        &length,
        "",
        &read_cpu,
        &read_wall,
        &read_rate,
        "1",
    ]);
    let rows = rows.to_string();
    print_row(&[
        "restore",
        &count,
        &length,
        &rows,
        &cpu,
        &wall,
        &rate,
        &spread(&ratios),
    ]);
    Ok(())
}
