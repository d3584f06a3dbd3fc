//! One budget for the keyed state of a process, and its parts.
//!
//! Of `state.backend.memory` operators hold two fifths in their own structures, RocksDB two in one cache that all databases of the process
//! share; the last, at least 4 MB or a third, is for what nobody counts: what is held twice while tables grow, and the gaps of the allocators. Write buffers are counted in that cache and take half of it at most; what they do not need holds blocks. Indexes and filters
//! lie in the cache, too, before blocks of rows, so that there is no memory of RocksDB that grows with the state beside it.
//! Outside of the budget are the buffers of running compactions, bounded by the threads and by [`transfer_bytes`] a file.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use rocksdb::{Cache, LruCacheOptions, WriteBufferManager};

use super::options::RocksDbOptions;
use crate::state::MemoryBudget;

/// Read ahead from each file that is compacted, and written to one at once, with so much memory for state.
pub(super) fn transfer_bytes(memory_bytes: usize) -> usize {
    (memory_bytes / 512).clamp(32 << 10, 256 << 10)
}

/// What is dealt out of so much memory: four fifths; of little memory less, down to two thirds, for buffers do not shrink with it.
fn counted_bytes(memory_bytes: usize) -> usize {
    const BUFFERS: usize = 4 << 20;
    memory_bytes - (memory_bytes / 5).max(BUFFERS.min(memory_bytes / 3))
}

/// Less than this cannot hold a write buffer and the blocks of a lookup.
const LEAST_CACHE_BYTES: usize = 1 << 20;

/// What all databases of the process with the same options share.
pub(super) struct SharedMemory {
    key: (usize, u64, u64),
    operators: Arc<MemoryBudget>,
    cache: Cache,
    write_buffers: WriteBufferManager,
}

/// Those in use. A process has one, unless jobs run in it with different options.
static IN_USE: Mutex<Vec<Weak<SharedMemory>>> = Mutex::new(Vec::new());

impl SharedMemory {
    /// That of the options, made where no database of these is open.
    pub(super) fn of(options: &RocksDbOptions) -> Arc<Self> {
        let key = (
            options.memory_bytes,
            options.hot_ratio.to_bits(),
            options.write_buffer_ratio.to_bits(),
        );
        let mut in_use = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        in_use.retain(|memory| memory.strong_count() > 0);
        let found = in_use
            .iter()
            .filter_map(Weak::upgrade)
            .find(|memory| memory.key == key);
        found.unwrap_or_else(|| {
            let memory = Arc::new(SharedMemory::new(key, options));
            in_use.push(Arc::downgrade(&memory));
            memory
        })
    }

    fn new(key: (usize, u64, u64), options: &RocksDbOptions) -> Self {
        let counted_bytes = counted_bytes(options.memory_bytes);
        let hot_bytes = part(counted_bytes, options.hot_ratio);
        let cache_bytes = (counted_bytes - hot_bytes).max(LEAST_CACHE_BYTES);
        let mut cache = LruCacheOptions::default();
        cache.set_capacity(cache_bytes);
        // A few threads ask; every shard needs room for the blocks in use.
        cache.set_num_shard_bits(if cache_bytes < 64 << 20 { 1 } else { 4 });
        let cache = Cache::new_lru_cache_opts(&cache);
        let write_buffers = WriteBufferManager::new_write_buffer_manager_with_cache(
            part(cache_bytes, options.write_buffer_ratio),
            false,
            cache.clone(),
        );
        SharedMemory {
            key,
            operators: Arc::new(MemoryBudget::new(hot_bytes)),
            cache,
            write_buffers,
        }
    }

    /// The part of the operators.
    pub(super) fn operators(&self) -> Arc<MemoryBudget> {
        self.operators.clone()
    }

    /// The cache.
    pub(super) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// What counts the write buffers.
    pub(super) fn write_buffers(&self) -> &WriteBufferManager {
        &self.write_buffers
    }

    /// What the write buffers may take together.
    pub(super) fn write_buffer_bytes(&self) -> usize {
        self.write_buffers.get_buffer_size()
    }

    /// What is in use of the cache.
    pub(super) fn cache_bytes(&self) -> usize {
        self.cache.get_usage()
    }
}

/// A part of some bytes.
fn part(bytes: usize, ratio: f64) -> usize {
    (bytes as f64 * ratio.clamp(0.0, 1.0)) as usize
}
