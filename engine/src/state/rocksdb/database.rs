//! The database of one run: how it is set up, its column families, its clock, its errors.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, BoundColumnFamily, CompactionDecision,
    DBCompactionStyle, DBCompressionType, DBWithThreadMode, DataBlockIndexType, LogLevel,
    MultiThreaded, Options, WriteBatch, WriteOptions,
};

use super::directory::LocalDirectory;
use super::memory::{SharedMemory, transfer_bytes};
use super::options::{CompactionStyle, RocksDbOptions};
use super::store::is_expired;
use crate::error::{Error, Result};
use crate::types::ProcessingTime;

/// RocksDB of a run. Its fields are dropped in this order: the files go when the database is closed.
pub(super) struct Database {
    db: DBWithThreadMode<MultiThreaded>,
    /// The options of families of values, which must outlive the database.
    values: Options,
    /// The same of families of times.
    times: Options,
    directory: LocalDirectory,
    memory: Arc<SharedMemory>,
    /// The latest time that any call told, for the compactions.
    clock: Arc<AtomicI64>,
    families: AtomicU64,
}

/// What a column family holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FamilyKind {
    /// Values by hash, read key by key.
    Values,
    /// Times of keys, read in order.
    Times,
}

impl Database {
    /// An empty one.
    pub(super) fn open(options: RocksDbOptions) -> Result<Self> {
        let directory = LocalDirectory::create(&options.local_directory)?;
        let path = directory.path().join("db");
        let memory = SharedMemory::of(&options);
        let clock = Arc::new(AtomicI64::new(i64::MIN));
        let db = DBWithThreadMode::open(&database_options(&options, &memory), &path)
            .map_err(|error| failed(directory.path(), "open", &error))?;
        Ok(Database {
            db,
            values: family_options(FamilyKind::Values, &options, &memory, &clock),
            times: family_options(FamilyKind::Times, &options, &memory, &clock),
            directory,
            memory,
            clock,
            families: AtomicU64::new(0),
        })
    }

    /// The directory of the run.
    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// What it shares with others.
    pub(super) fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// RocksDB itself.
    pub(super) fn db(&self) -> &DBWithThreadMode<MultiThreaded> {
        &self.db
    }

    /// Makes an empty column family and gives its name, which begins with `name`.
    pub(super) fn create_family(&self, name: &str, kind: FamilyKind) -> Result<String> {
        let number = self.families.fetch_add(1, Ordering::Relaxed);
        let name = format!("{name}-{number}");
        let options = match kind {
            FamilyKind::Values => &self.values,
            FamilyKind::Times => &self.times,
        };
        let made = self.db.create_cf(&name, options);
        made.map_err(|error| self.failed("make room in", &error))?;
        Ok(name)
    }

    /// The column family of a name that [`Database::create_family`] gave.
    pub(super) fn family(&self, name: &str) -> Result<Arc<BoundColumnFamily<'_>>> {
        let family = self.db.cf_handle(name);
        family.ok_or_else(|| Error::internal(format!("the column family {name} is gone")))
    }

    /// Drops a column family with all that is in it.
    pub(super) fn drop_family(&self, name: &str) {
        // Its files go with the directory at the latest.
        let _ = self.db.drop_cf(name);
    }

    /// Writes a batch, without a log.
    pub(super) fn write(&self, batch: WriteBatch) -> Result<()> {
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        options.set_memtable_insert_hint_per_batch(true);
        let written = self.db.write_opt(batch, &options);
        written.map_err(|error| self.failed("write to", &error))
    }

    /// Tells what time it is, for the compactions.
    pub(super) fn advance_clock(&self, now: ProcessingTime) {
        self.clock.fetch_max(now.millis(), Ordering::Relaxed);
    }

    /// The latest time that was told.
    pub(super) fn now(&self) -> i64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// What an error of RocksDB means to whoever runs the job.
    pub(super) fn failed(&self, what: &str, error: &rocksdb::Error) -> Error {
        failed(self.directory.path(), what, error)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RocksDB in {}", self.directory.path().display())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.db.cancel_all_background_work(true);
    }
}

/// The options of column families. RocksDB does not keep the filter in them alive: they must outlive the database.
fn family_options(
    kind: FamilyKind,
    settings: &RocksDbOptions,
    memory: &SharedMemory,
    clock: &Arc<AtomicI64>,
) -> Options {
    let mut options = Options::default();
    set_sizes(&mut options, settings, memory);
    options.set_block_based_table_factory(&table_options(settings, memory, kind));
    options.set_compression_per_level(&compression());
    options.set_compaction_style(match settings.compaction_style {
        CompactionStyle::Level => DBCompactionStyle::Level,
        CompactionStyle::Universal => DBCompactionStyle::Universal,
    });
    options.set_level_compaction_dynamic_level_bytes(true);
    if kind == FamilyKind::Values {
        options.set_optimize_filters_for_hits(settings.filters_for_hits_only);
        // Lookups of keys that are not in the write buffer need not search it.
        options.set_memtable_whole_key_filtering(true);
        options.set_memtable_prefix_bloom_ratio(0.02);
        let clock = clock.clone();
        options.set_compaction_filter("expiry", move |_level, _key, value| {
            match is_expired(value, clock.load(Ordering::Relaxed)) {
                true => CompactionDecision::Remove,
                false => CompactionDecision::Keep,
            }
        });
    }
    options
}

fn failed(directory: &Path, what: &str, error: &rocksdb::Error) -> Error {
    Error::resource(format!(
        "cannot {what} the state in {}: {error}",
        directory.display()
    ))
    .hint("make room on that disk, or set state.backend.rocksdb.localdir to another; a restart begins with the latest checkpoint")
}

fn database_options(options: &RocksDbOptions, memory: &SharedMemory) -> Options {
    let mut result = Options::default();
    result.create_if_missing(true);
    result.set_error_if_exists(true);
    result.set_write_buffer_manager(memory.write_buffers());
    result.set_max_background_jobs(i32::try_from(options.threads.max(2)).unwrap_or(2));
    result.set_max_subcompactions(1);
    let transfer = transfer_bytes(options.memory_bytes);
    result.set_compaction_readahead_size(transfer);
    result.set_writable_file_max_buffer_size(transfer as u64);
    // Below the usual limit of 1024 open files of a process.
    result.set_max_open_files(512);
    result.set_log_level(LogLevel::Error);
    result.set_keep_log_file_num(1);
    result.set_max_log_file_size(1 << 20);
    result.set_stats_dump_period_sec(0);
    result.set_stats_persist_period_sec(0);
    set_sizes(&mut result, options, memory);
    result
}

/// Sizes that follow from the memory, so that a small budget makes small buffers and files.
fn set_sizes(result: &mut Options, options: &RocksDbOptions, memory: &SharedMemory) {
    let buffer = (memory.write_buffer_bytes() / 2).clamp(64 << 10, 64 << 20);
    let file = (options.memory_bytes / 16).clamp(1 << 20, 64 << 20) as u64;
    result.set_write_buffer_size(buffer);
    result.set_max_write_buffer_number(2);
    result.set_target_file_size_base(file);
    // Deeper levels have bigger files, so that few are open whatever the size of the state.
    result.set_target_file_size_multiplier(2);
    result.set_max_bytes_for_level_base((file * 4).max(buffer as u64 * 4));
}

fn table_options(
    options: &RocksDbOptions,
    memory: &SharedMemory,
    kind: FamilyKind,
) -> BlockBasedOptions {
    let mut table = BlockBasedOptions::default();
    table.set_block_cache(memory.cache());
    table.set_block_size(options.block_bytes);
    table.set_format_version(6);
    // In parts, so that a big file does not need all of its index and filter at once.
    table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
    table.set_cache_index_and_filter_blocks(true);
    table.set_cache_index_and_filter_blocks_with_high_priority(true);
    table.set_pin_l0_filter_and_index_blocks_in_cache(true);
    if kind == FamilyKind::Times {
        return table;
    }
    if let Some(bits) = options.bloom_bits_per_key {
        table.set_bloom_filter(bits, false);
        table.set_whole_key_filtering(true);
        table.set_partition_filters(true);
        table.set_optimize_filters_for_memory(true);
    }
    if options.block_hash_index {
        table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
        table.set_data_block_hash_ratio(0.75);
    }
    table
}

/// The newest files are soon merged again; what lies deeper is compressed.
fn compression() -> [DBCompressionType; 7] {
    let mut levels = [DBCompressionType::Lz4; 7];
    levels[0] = DBCompressionType::None;
    levels
}
