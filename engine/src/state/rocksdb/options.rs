//! What can be said about RocksDB.

use std::path::PathBuf;

/// The settings of a database. Those that Flink has keep its names and defaults, unless it says otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct RocksDbOptions {
    /// Where directories of runs are made. Default: the temporary directory of the system. Key: `state.backend.rocksdb.localdir`.
    pub local_directory: PathBuf,
    /// Memory for all keyed state of the process, in bytes. Default 1 GB. Key: `state.backend.memory`.
    pub memory_bytes: usize,
    /// How much of what is dealt out of it (four fifths, of a small one less) operators hold in their own structures; RocksDB has the rest. Default 0.5.
    pub hot_ratio: f64,
    /// How much of RocksDB's memory buffers writes, at most. Default 0.5. Key: `state.backend.rocksdb.memory.write-buffer-ratio`.
    pub write_buffer_ratio: f64,
    /// Threads that flush and compact. Default 2. Key: `state.backend.rocksdb.thread.num`.
    pub threads: usize,
    /// Bytes of a block before compression. Default 4 KB. Key: `state.backend.rocksdb.block.blocksize`.
    pub block_bytes: usize,
    /// Bits a key of the filters that tell which files do not have a key; `None`: no filters. Default 10; Flink has none by default. Keys:
    /// `state.backend.rocksdb.use-bloom-filter`, `….bloom-filter.bits-per-key`.
    pub bloom_bits_per_key: Option<f64>,
    /// How files are merged. Default: by level. Key: `state.backend.rocksdb.compaction.style`.
    pub compaction_style: CompactionStyle,
    /// Whether blocks have a hash index of their keys beside the sorted one. Default: yes. Not an option of SQL.
    pub block_hash_index: bool,
    /// Whether the last level has no filters, which pays where keys that are asked for are mostly there. Default: no. Not an option of SQL.
    pub filters_for_hits_only: bool,
}

/// How RocksDB merges files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionStyle {
    /// Levels, each ten times the one above: least space and reads.
    Level,
    /// Sorted runs of like size: least writes, up to twice the space.
    Universal,
}

impl Default for RocksDbOptions {
    fn default() -> Self {
        RocksDbOptions {
            local_directory: std::env::temp_dir(),
            memory_bytes: 1 << 30,
            hot_ratio: 0.5,
            write_buffer_ratio: 0.5,
            threads: 2,
            block_bytes: 4 << 10,
            bloom_bits_per_key: Some(10.0),
            compaction_style: CompactionStyle::Level,
            block_hash_index: true,
            filters_for_hits_only: false,
        }
    }
}
