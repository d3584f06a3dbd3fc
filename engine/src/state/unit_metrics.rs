//! Counters of a lower tier, which others read while it works.

use std::sync::atomic::{AtomicU64, Ordering};

use super::UnitWrite;

/// What a store did since it was made, and what it and the operator above it hold.
#[derive(Debug, Default)]
pub struct UnitStoreMetrics {
    /// Keys that were asked for.
    pub gets: AtomicU64,
    /// Those of them that were there.
    pub hits: AtomicU64,
    /// Bytes of their values.
    pub read_bytes: AtomicU64,
    /// Values that were written.
    pub writes: AtomicU64,
    /// Their bytes.
    pub written_bytes: AtomicU64,
    /// Keys that were removed.
    pub removes: AtomicU64,
    /// Bytes that the store holds now, on disk and in write buffers; told from time to time.
    pub stored_bytes: AtomicU64,
    /// Bytes that the operator holds in memory above the store; told by whoever holds both.
    pub hot_bytes: AtomicU64,
}

impl UnitStoreMetrics {
    /// Counts a lookup by what it found.
    pub(super) fn count_gets(&self, values: &[Option<Vec<u8>>]) {
        let found = values.iter().flatten();
        let bytes: usize = found.clone().map(Vec::len).sum();
        self.gets.fetch_add(values.len() as u64, Ordering::Relaxed);
        self.hits.fetch_add(found.count() as u64, Ordering::Relaxed);
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts a batch of writes.
    pub(super) fn count_writes(&self, writes: &[UnitWrite]) {
        let values = writes.iter().filter_map(|write| write.value);
        let bytes: usize = values.clone().map(<[u8]>::len).sum();
        self.writes
            .fetch_add(values.count() as u64, Ordering::Relaxed);
        self.written_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
