//! Compares layouts of keyed state in RocksDB, and settings of RocksDB, and prints Markdown tables.
//!
//! A bundle of rows draws keys, reads what is kept for them in one lookup, changes it and writes it back in one batch, with nothing of
//! the operators' own in between: what is timed is the lower tier, for bundles of keys that are all cold. State is filled before. CPU is that
//! of the whole process, with what RocksDB does in the background. `--help` lists the options.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Int64Array, RecordBatch, StringArray,
    UInt64Array,
};
use arrow::compute;
use arrow::compute::kernels::numeric::add;
use arrow::datatypes::{DataType, UInt64Type};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use arrow::row::{RowConverter, SortField};
use volley::Error;
use volley::state::{
    CompactionStyle, EncodedUnits, KEY_HASH_COLUMN, NoTimes, RocksDbOptions, RocksDbStateBackend,
    StateBackend, StateSnapshot, UnitCodec, UnitStore, UnitWrite,
};
use volley::types::ProcessingTime;

type Result<T> = std::result::Result<T, Error>;

const HELP: &str = "\
state_layouts [options]
  --keys N         keys of the state, 4,000,000
  --rows N         rows drawn in each run, 2,000,000
  --bundles A,B    rows of a bundle; 1024,8192,65536
  --tables T,U     of points, lists, settings; all
  --directory DIR  where RocksDB has its files; the temporary directory of the system";

struct Arguments {
    keys: u64,
    rows: u64,
    bundles: Vec<usize>,
    tables: Vec<String>,
    directory: std::path::PathBuf,
}

fn arguments() -> std::result::Result<Arguments, String> {
    let mut result = Arguments {
        keys: 4_000_000,
        rows: 2_000_000,
        bundles: vec![1 << 10, 8 << 10, 64 << 10],
        tables: ["points", "lists", "settings"].map(String::from).to_vec(),
        directory: std::env::temp_dir(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(HELP)?;
        let number = |text: &str| {
            text.replace(',', "")
                .parse::<u64>()
                .map_err(|_| HELP.to_string())
        };
        match word.as_str() {
            "--keys" => result.keys = number(&value)?.max(1),
            "--rows" => result.rows = number(&value)?,
            "--bundles" => {
                let numbers = value
                    .split(',')
                    .map(|part| part.parse().map_err(|_| HELP.to_string()));
                result.bundles = numbers.collect::<std::result::Result<_, _>>()?;
            }
            "--tables" => result.tables = value.split(',').map(String::from).collect(),
            "--directory" => result.directory = value.into(),
            _ => return Err(HELP.to_string()),
        }
    }
    Ok(result)
}

// --- keys and rows --------------------------------------------------------------------------------------------------------

fn hash_of(key: u64) -> u64 {
    let mixed = key.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
}

/// Random numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Access {
    Uniform,
    /// The k-th key in proportion to 1/k.
    Zipf,
}

impl Access {
    fn name(self) -> &'static str {
        match self {
            Access::Uniform => "uniform",
            Access::Zipf => "Zipf",
        }
    }

    fn draw(self, keys: u64, random: &mut Random) -> u64 {
        match self {
            Access::Uniform => random.next() % keys,
            Access::Zipf => ((keys as f64).powf(random.fraction()) as u64 - 1).min(keys - 1),
        }
    }

    /// The keys of a bundle, by ascending hash, each once.
    fn bundle(self, keys: u64, rows: usize, random: &mut Random) -> Vec<u64> {
        let mut bundle: Vec<u64> = (0..rows).map(|_| self.draw(keys, random)).collect();
        bundle.sort_unstable_by_key(|key| hash_of(*key));
        bundle.dedup();
        bundle
    }
}

/// A row for each key, sorted by hash: the key, a text, a count and a sum.
fn rows_of(keys: &[u64]) -> Result<RecordBatch> {
    let hashes = UInt64Array::from_iter_values(keys.iter().map(|key| hash_of(*key)));
    let ids = Int64Array::from_iter_values(keys.iter().map(|key| *key as i64));
    let texts = StringArray::from_iter_values(
        keys.iter()
            .map(|key| format!("channel-{:06}", key % 1_000_000)),
    );
    let counts = Int64Array::from_iter_values(keys.iter().map(|key| (*key % 100) as i64));
    let sums = Decimal128Array::from_iter_values(keys.iter().map(|key| i128::from(*key) * 17));
    Ok(RecordBatch::try_from_iter([
        (KEY_HASH_COLUMN, Arc::new(hashes) as ArrayRef),
        ("id", Arc::new(ids)),
        ("text", Arc::new(texts)),
        ("count", Arc::new(counts)),
        ("sum", Arc::new(sums)),
    ])?)
}

/// Adds one to the counts of some rows; `first` is the place of the column `id`.
fn counted(rows: &RecordBatch, first: usize, which: &Int64Array) -> Result<RecordBatch> {
    let mut columns = rows.columns().to_vec();
    columns[first + 2] = add(&columns[first + 2], which)?;
    Ok(RecordBatch::try_new(rows.schema(), columns)?)
}

fn all_of(rows: usize) -> Int64Array {
    Int64Array::from_iter_values(std::iter::repeat_n(1, rows))
}

fn state(rows: RecordBatch) -> StateSnapshot {
    let mut snapshot = StateSnapshot::default();
    snapshot.insert_keyed("t", vec![rows]);
    snapshot
}

fn write_of(hash: u64, value: &[u8]) -> UnitWrite<'_> {
    UnitWrite {
        hash,
        value: Some(value),
        expiry: i64::MAX,
        due: i64::MAX,
    }
}

fn found<'a>(hashes: &[u64], values: &'a [Option<Vec<u8>>]) -> Vec<(u64, &'a [u8])> {
    let pairs = std::iter::zip(hashes, values);
    pairs
        .filter_map(|(hash, value)| Some((*hash, value.as_deref()?)))
        .collect()
}

// --- layouts --------------------------------------------------------------------------------------------------------------

/// How what is kept for keys becomes values.
trait Layout {
    fn name(&self) -> String;

    /// Writes the first state of keys.
    fn fill(&mut self, store: &mut dyn UnitStore, keys: &[u64]) -> Result<()>;

    /// Reads what is kept for keys, changes it and writes it back.
    fn change(&mut self, store: &mut dyn UnitStore, keys: &[u64]) -> Result<()>;
}

fn read(store: &mut dyn UnitStore, hashes: &[u64]) -> Result<Vec<Option<Vec<u8>>>> {
    let mut values = Vec::new();
    store.get(hashes, ProcessingTime(0), &mut values)?;
    Ok(values)
}

/// One packed tuple a key.
#[derive(Default)]
struct Tuples {
    codec: UnitCodec,
    units: EncodedUnits,
}

impl Tuples {
    fn write(&mut self, store: &mut dyn UnitStore, rows: RecordBatch) -> Result<()> {
        self.codec.encode(&state(rows), &NoTimes, &mut self.units)?;
        store.write(&self.units.writes())
    }

    fn read(&self, store: &mut dyn UnitStore, hashes: &[u64]) -> Result<RecordBatch> {
        let values = read(store, hashes)?;
        let snapshot = self.codec.decode(found(hashes, &values))?;
        Ok(snapshot.batches("t")[0].clone())
    }
}

impl Layout for Tuples {
    fn name(&self) -> String {
        "packed tuple a key".to_string()
    }

    fn fill(&mut self, store: &mut dyn UnitStore, keys: &[u64]) -> Result<()> {
        self.write(store, rows_of(keys)?)
    }

    fn change(&mut self, store: &mut dyn UnitStore, keys: &[u64]) -> Result<()> {
        let hashes: Vec<u64> = keys.iter().map(|key| hash_of(*key)).collect();
        let rows = self.read(store, &hashes)?;
        let rows = counted(&rows, 1, &all_of(rows.num_rows()))?;
        self.write(store, rows)
    }
}

/// All keys with the same upper bits of the hash in one value, rewritten whole.
struct Pages {
    /// As many upper bits.
    bits: u32,
    tuples: Tuples,
}

impl Pages {
    fn new(keys: u64) -> Self {
        Pages {
            bits: (keys / 64).max(2).ilog2(),
            tuples: Tuples::default(),
        }
    }

    fn page(&self, hash: u64) -> u64 {
        hash >> (64 - self.bits)
    }

    /// The rows with their page in front.
    fn paged(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let hashes = rows.column(0).as_primitive::<UInt64Type>();
        let pages =
            UInt64Array::from_iter_values(hashes.values().iter().map(|hash| self.page(*hash)));
        let schema = rows.schema();
        let names = schema
            .fields()
            .iter()
            .map(|field| match field.name().as_str() {
                KEY_HASH_COLUMN => "hash",
                name => name,
            });
        let columns = std::iter::zip(names, rows.columns().iter().cloned());
        let page: (&str, ArrayRef) = (KEY_HASH_COLUMN, Arc::new(pages));
        Ok(RecordBatch::try_from_iter(
            std::iter::once(page).chain(columns),
        )?)
    }
}

impl Layout for Pages {
    fn name(&self) -> String {
        "pages of 64 keys".to_string()
    }

    fn fill(&mut self, store: &mut dyn UnitStore, keys: &[u64]) -> Result<()> {
        let rows = self.paged(&rows_of(keys)?)?;
        self.tuples.write(store, rows)
    }

    fn change(&mut self, store: &mut dyn UnitStore, keys: &[u64]) -> Result<()> {
        let hashes: Vec<u64> = keys.iter().map(|key| hash_of(*key)).collect();
        let mut pages: Vec<u64> = hashes.iter().map(|hash| self.page(*hash)).collect();
        pages.dedup();
        let rows = self.tuples.read(store, &pages)?;
        let of_rows = rows.column(1).as_primitive::<UInt64Type>().values();
        let is_changed: BooleanArray = of_rows
            .iter()
            .map(|hash| Some(hashes.binary_search(hash).is_ok()))
            .collect();
        let which = compute::cast(&is_changed, &DataType::Int64)?;
        let rows = counted(&rows, 2, which.as_primitive())?;
        self.tuples.write(store, rows)
    }
}

/// One row of arrow-row a key.
struct ArrowRows {
    converter: RowConverter,
    columns: RecordBatch,
}

impl ArrowRows {
    fn new() -> Result<Self> {
        let columns = rows_of(&[])?;
        let fields = columns.columns()[1..]
            .iter()
            .map(|column| SortField::new(column.data_type().clone()));
        Ok(ArrowRows {
            converter: RowConverter::new(fields.collect())?,
            columns,
        })
    }

    fn write(&mut self, store: &mut dyn UnitStore, rows: &RecordBatch) -> Result<()> {
        let hashes = rows.column(0).as_primitive::<UInt64Type>().values();
        let encoded = self.converter.convert_columns(&rows.columns()[1..])?;
        let pairs = std::iter::zip(hashes, encoded.iter());
        let values: Vec<(u64, arrow::row::Row)> = pairs.map(|(hash, row)| (*hash, row)).collect();
        let writes: Vec<UnitWrite> = values
            .iter()
            .map(|(hash, row)| write_of(*hash, row.as_ref()))
            .collect();
        store.write(&writes)
    }
}

impl Layout for ArrowRows {
    fn name(&self) -> String {
        "arrow-row a key".to_string()
    }

    fn fill(&mut self, store: &mut dyn UnitStore, keys: &[u64]) -> Result<()> {
        self.write(store, &rows_of(keys)?)
    }

    fn change(&mut self, store: &mut dyn UnitStore, keys: &[u64]) -> Result<()> {
        let hashes: Vec<u64> = keys.iter().map(|key| hash_of(*key)).collect();
        let values = read(store, &hashes)?;
        let parser = self.converter.parser();
        let rows = values.iter().flatten().map(|value| parser.parse(value));
        let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from(hashes))];
        columns.extend(self.converter.convert_rows(rows)?);
        let rows = RecordBatch::try_new(self.columns.schema(), columns)?;
        let rows = counted(&rows, 1, &all_of(rows.num_rows()))?;
        self.write(store, &rows)
    }
}

/// A stream of Arrow IPC a key.
struct Ipc;

impl Ipc {
    fn write(store: &mut dyn UnitStore, rows: &RecordBatch) -> Result<()> {
        let hashes = rows.column(0).as_primitive::<UInt64Type>().values();
        let mut values = Vec::with_capacity(hashes.len());
        for row in 0..rows.num_rows() {
            let mut stream = StreamWriter::try_new(Vec::new(), rows.schema_ref())?;
            stream.write(&rows.slice(row, 1))?;
            values.push(stream.into_inner()?);
        }
        let pairs = std::iter::zip(hashes, &values);
        let writes: Vec<UnitWrite> = pairs.map(|(hash, value)| write_of(*hash, value)).collect();
        store.write(&writes)
    }
}

impl Layout for Ipc {
    fn name(&self) -> String {
        "Arrow IPC a key".to_string()
    }

    fn fill(&mut self, store: &mut dyn UnitStore, keys: &[u64]) -> Result<()> {
        Ipc::write(store, &rows_of(keys)?)
    }

    fn change(&mut self, store: &mut dyn UnitStore, keys: &[u64]) -> Result<()> {
        let hashes: Vec<u64> = keys.iter().map(|key| hash_of(*key)).collect();
        let values = read(store, &hashes)?;
        let mut batches = Vec::with_capacity(values.len());
        for value in values.iter().flatten() {
            for batch in StreamReader::try_new(value.as_slice(), None)? {
                batches.push(batch?);
            }
        }
        let rows = compute::concat_batches(batches[0].schema_ref(), &batches)?;
        Ipc::write(store, &counted(&rows, 1, &all_of(rows.num_rows()))?)
    }
}

/// So many rows of a key in one value, to which a row is added.
struct ListValue {
    rows_a_key: usize,
    tuples: Tuples,
}

impl Layout for ListValue {
    fn name(&self) -> String {
        format!("{} rows a key, one value", self.rows_a_key)
    }

    fn fill(&mut self, store: &mut dyn UnitStore, keys: &[u64]) -> Result<()> {
        let keys: Vec<u64> = keys
            .iter()
            .flat_map(|key| std::iter::repeat_n(*key, self.rows_a_key))
            .collect();
        self.tuples.write(store, rows_of(&keys)?)
    }

    fn change(&mut self, store: &mut dyn UnitStore, keys: &[u64]) -> Result<()> {
        let hashes: Vec<u64> = keys.iter().map(|key| hash_of(*key)).collect();
        let old = self.tuples.read(store, &hashes)?;
        let both = compute::concat_batches(old.schema_ref(), [&old, &rows_of(keys)?])?;
        self.tuples.write(store, both)
    }
}

/// The same in blocks under the upper bits of the hash and a number: what is there is read, and a block of one row is added.
struct ListBlocks {
    rows_a_key: usize,
    tuples: Tuples,
    /// The next block's number.
    next: u64,
}

/// Bits of a key in the store that number the blocks.
const BLOCK_BITS: u32 = 20;

impl ListBlocks {
    fn block(hash: u64, number: u64) -> u64 {
        (hash >> BLOCK_BITS << BLOCK_BITS) | number
    }

    fn numbered(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let hashes = rows.column(0).as_primitive::<UInt64Type>().values();
        let number = self.next % (1 << BLOCK_BITS);
        let blocks = hashes.iter().map(|hash| ListBlocks::block(*hash, number));
        let mut columns = rows.columns().to_vec();
        columns[0] = Arc::new(UInt64Array::from_iter_values(blocks));
        Ok(RecordBatch::try_new(rows.schema(), columns)?)
    }
}

impl Layout for ListBlocks {
    fn name(&self) -> String {
        format!("{} rows a key, blocks", self.rows_a_key)
    }

    fn fill(&mut self, store: &mut dyn UnitStore, keys: &[u64]) -> Result<()> {
        let keys: Vec<u64> = keys
            .iter()
            .flat_map(|key| std::iter::repeat_n(*key, self.rows_a_key))
            .collect();
        let rows = self.numbered(&rows_of(&keys)?)?;
        self.tuples.write(store, rows)
    }

    fn change(&mut self, store: &mut dyn UnitStore, keys: &[u64]) -> Result<()> {
        let mut blocks: Vec<(u64, Vec<u8>)> = Vec::new();
        for key in keys {
            let first = ListBlocks::block(hash_of(*key), 0);
            let mut call = |hash, value: &[u8]| {
                blocks.push((hash, value.to_vec()));
                Ok(())
            };
            store.for_range(first..=first + ((1 << BLOCK_BITS) - 1), &mut call)?;
        }
        self.tuples
            .codec
            .decode(blocks.iter().map(|(hash, value)| (*hash, value.as_slice())))?;
        self.next += 1;
        let rows = self.numbered(&rows_of(keys)?)?;
        self.tuples.write(store, rows)
    }
}

// --- runs -----------------------------------------------------------------------------------------------------------------

/// What a run is about.
struct Run {
    options: RocksDbOptions,
    keys: u64,
    rows: u64,
    bundle: usize,
    access: Access,
}

struct Measured {
    cpu_micros_a_row: f64,
    wall_micros_a_row: f64,
    stored_bytes: u64,
    cache_bytes: usize,
    resident_bytes: f64,
}

/// User and system time of the process, in seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace();
    let ticks: f64 = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<f64>().ok())
        .sum();
    ticks / 100.0
}

/// What the process has in memory now.
fn resident_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) * 1024.0
}

fn measure(layout: &mut dyn Layout, run: &Run) -> Result<Measured> {
    let backend = RocksDbStateBackend::open(run.options.clone())?;
    let mut store = backend
        .unit_store("bench")?
        .ok_or_else(|| Error::internal("no store"))?;
    let mut keys: Vec<u64> = (0..run.keys).collect();
    keys.sort_unstable_by_key(|key| hash_of(*key));
    // Cut by the first bits of the hash, so that no page is cut.
    let piece_of = |key: &u64| hash_of(*key) >> 60;
    for piece in keys.chunk_by(|a, b| piece_of(a) == piece_of(b)) {
        layout.fill(store.as_mut(), piece)?;
    }
    let mut random = Random(42);
    let (cpu, wall) = (cpu_seconds(), Instant::now());
    let mut done = 0;
    while done < run.rows {
        let bundle = run.access.bundle(run.keys, run.bundle, &mut random);
        layout.change(store.as_mut(), &bundle)?;
        done += run.bundle as u64;
    }
    let wall = wall.elapsed().as_secs_f64();
    for _ in 0..64 {
        store.write(&[])?;
    }
    Ok(Measured {
        cpu_micros_a_row: (cpu_seconds() - cpu) * 1e6 / done as f64,
        wall_micros_a_row: wall * 1e6 / done as f64,
        stored_bytes: store
            .metrics()
            .stored_bytes
            .load(std::sync::atomic::Ordering::Relaxed),
        cache_bytes: backend.cache_bytes(),
        resident_bytes: resident_bytes(),
    })
}

/// About what a key takes as a packed tuple.
const TUPLE_BYTES: u64 = 52;

fn options(arguments: &Arguments, state_bytes: u64, times: u64) -> RocksDbOptions {
    RocksDbOptions {
        local_directory: arguments.directory.clone(),
        memory_bytes: (state_bytes / times) as usize,
        hot_ratio: 0.0,
        ..RocksDbOptions::default()
    }
}

#[allow(clippy::print_stdout, reason = "a program's output")]
fn print_row(cells: &[String]) {
    println!("| {} |", cells.join(" | "));
}

fn head(cells: &[&str]) {
    print_row(
        &cells
            .iter()
            .map(|cell| (*cell).to_string())
            .collect::<Vec<_>>(),
    );
    print_row(&cells.iter().map(|_| "---".to_string()).collect::<Vec<_>>());
}

fn result_cells(measured: &Measured) -> Vec<String> {
    let megabytes = |bytes: f64| format!("{:.1}", bytes / (1 << 20) as f64);
    vec![
        format!("{:.2}", measured.cpu_micros_a_row),
        format!("{:.2}", measured.wall_micros_a_row),
        megabytes(measured.stored_bytes as f64),
        megabytes(measured.cache_bytes as f64),
        megabytes(measured.resident_bytes),
    ]
}

const RESULTS: [&str; 5] = [
    "CPU µs a row",
    "wall µs a row",
    "stored MB",
    "cache MB",
    "resident MB",
];

fn points(arguments: &Arguments) -> Result<()> {
    head(
        &[
            &["layout", "access", "bundle", "state : cache"][..],
            &RESULTS,
        ]
        .concat(),
    );
    let state_bytes = arguments.keys * TUPLE_BYTES;
    for times in [1, 10] {
        for access in [Access::Uniform, Access::Zipf] {
            for bundle in &arguments.bundles {
                let mut layouts: Vec<Box<dyn Layout>> = vec![
                    Box::new(Tuples::default()),
                    Box::new(Pages::new(arguments.keys)),
                    Box::new(ArrowRows::new()?),
                    Box::new(Ipc),
                ];
                for layout in &mut layouts {
                    let run = Run {
                        options: options(arguments, state_bytes, times),
                        keys: arguments.keys,
                        rows: arguments.rows,
                        bundle: *bundle,
                        access,
                    };
                    let measured = measure(layout.as_mut(), &run)?;
                    let cells = [
                        layout.name(),
                        access.name().into(),
                        bundle.to_string(),
                        format!("{times} : 1"),
                    ];
                    print_row(&[&cells[..], &result_cells(&measured)].concat());
                }
            }
        }
    }
    Ok(())
}

fn lists(arguments: &Arguments) -> Result<()> {
    head(
        &[
            &["layout", "access", "bundle", "state : cache"][..],
            &RESULTS,
        ]
        .concat(),
    );
    let state_bytes = arguments.keys * TUPLE_BYTES;
    for times in [1, 10] {
        for access in [Access::Uniform, Access::Zipf] {
            for rows_a_key in [1, 10, 100] {
                let mut layouts: Vec<Box<dyn Layout>> = vec![
                    Box::new(ListValue {
                        rows_a_key,
                        tuples: Tuples::default(),
                    }),
                    Box::new(ListBlocks {
                        rows_a_key,
                        tuples: Tuples::default(),
                        next: 0,
                    }),
                ];
                for layout in &mut layouts {
                    let run = Run {
                        options: options(arguments, state_bytes, times),
                        keys: (arguments.keys / rows_a_key as u64).max(1),
                        rows: arguments.rows / 10,
                        bundle: 8192.min(arguments.rows as usize / 10 + 1),
                        access,
                    };
                    let measured = measure(layout.as_mut(), &run)?;
                    let cells = [
                        layout.name(),
                        access.name().into(),
                        run.bundle.to_string(),
                        format!("{times} : 1"),
                    ];
                    print_row(&[&cells[..], &result_cells(&measured)].concat());
                }
            }
        }
    }
    Ok(())
}

/// One setting away from the default, each.
fn settings(arguments: &Arguments) -> Result<()> {
    type Change = fn(&mut RocksDbOptions);
    let changes: [(&str, Change); 8] = [
        ("default", |_| {}),
        ("blocks of 8 KB", |options| options.block_bytes = 8 << 10),
        ("blocks of 16 KB", |options| options.block_bytes = 16 << 10),
        ("no filters", |options| options.bloom_bits_per_key = None),
        ("no filters at the last level", |options| {
            options.filters_for_hits_only = true
        }),
        ("no hash index in blocks", |options| {
            options.block_hash_index = false
        }),
        ("write buffers a quarter", |options| {
            options.write_buffer_ratio = 0.25
        }),
        ("universal compaction", |options| {
            options.compaction_style = CompactionStyle::Universal
        }),
    ];
    head(
        &[
            &["setting", "access", "bundle", "state : cache"][..],
            &RESULTS,
        ]
        .concat(),
    );
    let state_bytes = arguments.keys * TUPLE_BYTES;
    for times in [1, 10] {
        for access in [Access::Uniform, Access::Zipf] {
            for (name, change) in changes {
                let mut options = options(arguments, state_bytes, times);
                change(&mut options);
                let run = Run {
                    options,
                    keys: arguments.keys,
                    rows: arguments.rows,
                    bundle: 8192.min(arguments.rows as usize + 1),
                    access,
                };
                let measured = measure(&mut Tuples::default(), &run)?;
                let cells = [
                    name.into(),
                    access.name().into(),
                    run.bundle.to_string(),
                    format!("{times} : 1"),
                ];
                print_row(&[&cells[..], &result_cells(&measured)].concat());
            }
        }
    }
    Ok(())
}

#[allow(clippy::print_stdout, reason = "a program's output")]
fn run(arguments: &Arguments) -> Result<()> {
    for table in &arguments.tables {
        println!(
            "\n**{table}**: {} keys, {} rows\n",
            arguments.keys, arguments.rows
        );
        match table.as_str() {
            "points" => points(arguments)?,
            "lists" => lists(arguments)?,
            "settings" => settings(arguments)?,
            other => return Err(Error::user(format!("no table '{other}'")).hint(HELP)),
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let done = arguments().and_then(|arguments| run(&arguments).map_err(|error| error.to_string()));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
