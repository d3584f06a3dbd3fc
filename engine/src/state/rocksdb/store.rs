//! The values of one operator instance: a column family, read and written a bundle at a time.
//!
//! A value begins with when it may be forgotten: a byte 0 for never, or a byte 1 and the time.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rocksdb::{ReadOptions, WriteBatch};

use super::database::{Database, FamilyKind};
use super::due_index::DueIndex;
use crate::error::{Error, Result};
use crate::state::{UnitStore, UnitStoreMetrics, UnitWrite};
use crate::types::ProcessingTime;

/// Keys of one lookup: the blocks of what it finds are held in the cache until it is done.
const LOOKUP_KEYS: usize = 256;
/// Bytes of one batch of writes, which is in memory twice while it is written.
const BATCH_BYTES: usize = 1 << 20;
/// Read ahead where all values are read.
const SCAN_READ_BYTES: usize = 256 << 10;
/// How many calls share one question to RocksDB for how much it holds.
const CALLS_A_SIZE: u64 = 16;

/// The end of values that are not forgotten.
const NEVER: u8 = 0;
/// The time follows.
const AT: u8 = 1;

/// See the module.
pub(super) struct RocksDbUnitStore {
    database: Arc<Database>,
    family: String,
    due: DueIndex,
    /// Whether anything was ever written.
    is_used: bool,
    metrics: Arc<UnitStoreMetrics>,
    calls: u64,
}

impl RocksDbUnitStore {
    /// An empty one.
    pub(super) fn new(database: Arc<Database>, name: &str) -> Result<Self> {
        Ok(RocksDbUnitStore {
            family: database.create_family(name, FamilyKind::Values)?,
            due: DueIndex::new(database.clone(), name),
            database,
            is_used: false,
            metrics: Arc::default(),
            calls: 0,
        })
    }

    fn lookup(
        &self,
        hashes: &[u64],
        now: ProcessingTime,
        values: &mut Vec<Option<Vec<u8>>>,
    ) -> Result<()> {
        let family = self.database.family(&self.family)?;
        let keys: Vec<[u8; 8]> = hashes.iter().map(|hash| hash.to_be_bytes()).collect();
        let options = ReadOptions::default();
        let db = self.database.db();
        for found in db.batched_multi_get_cf_opt(&family, &keys, true, &options) {
            let found = found.map_err(|error| self.database.failed("read", &error))?;
            let value = match &found {
                None => None,
                Some(found) => live_value(found, now.millis())?.map(<[u8]>::to_vec),
            };
            values.push(value);
        }
        Ok(())
    }

    fn has_no_value(&self) -> Result<bool> {
        let family = self.database.family(&self.family)?;
        let options = ReadOptions::default();
        let mut values = self.database.db().raw_iterator_cf_opt(&family, options);
        values.seek_to_first();
        Ok(!values.valid())
    }

    /// Looks from time to time how much there is.
    fn measure(&mut self) {
        self.calls += 1;
        if self.calls % CALLS_A_SIZE != 1 {
            return;
        }
        let size = |property| {
            let family = self.database.family(&self.family).ok()?;
            self.database
                .db()
                .property_int_value_cf(&family, property)
                .ok()?
        };
        let files = size(rocksdb::properties::LIVE_SST_FILES_SIZE).unwrap_or(0);
        let buffers = size(rocksdb::properties::SIZE_ALL_MEM_TABLES).unwrap_or(0);
        self.metrics
            .stored_bytes
            .store(files + buffers, Ordering::Relaxed);
    }
}

/// Writes `value` with its expiry in front.
fn frame(value: &[u8], expiry: i64, framed: &mut Vec<u8>) {
    framed.clear();
    match expiry {
        i64::MAX => framed.push(NEVER),
        at => {
            framed.push(AT);
            framed.extend(at.to_le_bytes());
        }
    }
    framed.extend(value);
}

/// When a value may be forgotten, and the value; `None` where it is damaged.
fn unframe(framed: &[u8]) -> Option<(i64, &[u8])> {
    match framed.split_first()? {
        (&NEVER, value) => Some((i64::MAX, value)),
        (&AT, rest) => {
            let (expiry, value) = rest.split_first_chunk::<8>()?;
            Some((i64::from_le_bytes(*expiry), value))
        }
        _ => None,
    }
}

/// Whether a value as it is stored may be forgotten.
pub(super) fn is_expired(framed: &[u8], now: i64) -> bool {
    unframe(framed).is_some_and(|(expiry, _)| expiry <= now)
}

/// The value, unless it is forgotten.
fn live_value(framed: &[u8], now: i64) -> Result<Option<&[u8]>> {
    let (expiry, value) = unframe(framed)
        .ok_or_else(|| Error::external("a value of keyed state on the local disk is damaged"))?;
    Ok((expiry > now).then_some(value))
}

impl UnitStore for RocksDbUnitStore {
    fn get(
        &mut self,
        hashes: &[u64],
        now: ProcessingTime,
        values: &mut Vec<Option<Vec<u8>>>,
    ) -> Result<()> {
        debug_assert!(hashes.is_sorted(), "keys are asked for by ascending hash");
        values.clear();
        self.database.advance_clock(now);
        for hashes in hashes.chunks(LOOKUP_KEYS) {
            self.lookup(hashes, now, values)?;
        }
        self.metrics.count_gets(values);
        Ok(())
    }

    fn write(&mut self, writes: &[UnitWrite]) -> Result<()> {
        let due = |write: &UnitWrite| (write.due, write.hash);
        let mut batch = WriteBatch::default();
        let times: Vec<(i64, u64)> = writes
            .iter()
            .map(due)
            .filter(|(due, _)| *due != i64::MAX)
            .collect();
        self.due.add(&times, &mut batch)?;
        let family = self.database.family(&self.family)?;
        let mut framed = Vec::new();
        for write in writes {
            let Some(value) = write.value else {
                continue;
            };
            frame(value, write.expiry, &mut framed);
            batch.put_cf(&family, write.hash.to_be_bytes(), &framed);
            if batch.size_in_bytes() > BATCH_BYTES {
                self.database.write(std::mem::take(&mut batch))?;
            }
        }
        self.database.write(batch)?;
        drop(family);
        self.is_used |= writes.iter().any(|write| write.value.is_some());
        self.metrics.count_writes(writes);
        self.measure();
        Ok(())
    }

    fn remove(&mut self, hashes: &[u64]) -> Result<()> {
        let family = self.database.family(&self.family)?;
        for hashes in hashes.chunks(BATCH_BYTES / 16) {
            let mut batch = WriteBatch::default();
            for hash in hashes {
                batch.delete_cf(&family, hash.to_be_bytes());
            }
            self.database.write(batch)?;
        }
        self.metrics
            .removes
            .fetch_add(hashes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn earliest_due(&self) -> Option<i64> {
        self.due.earliest()
    }

    fn take_due(&mut self, time: i64, limit: usize) -> Result<Vec<u64>> {
        self.due.take(time, limit)
    }

    fn forget_due(&mut self, keys: &[(u64, i64)]) -> Result<()> {
        let noted = keys.iter().filter(|(_, due)| *due != i64::MAX);
        let entries: Vec<(i64, u64)> = noted.map(|(hash, due)| (*due, *hash)).collect();
        self.due.forget(&entries)
    }

    fn is_empty(&self) -> bool {
        !self.is_used || self.has_no_value().unwrap_or(false)
    }

    fn for_range(
        &self,
        hashes: RangeInclusive<u64>,
        call: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let now = self.database.now();
        let family = self.database.family(&self.family)?;
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        options.set_readahead_size(SCAN_READ_BYTES);
        if let Some(end) = hashes.end().checked_add(1) {
            options.set_iterate_upper_bound(end.to_be_bytes().to_vec());
        }
        let mut values = self.database.db().raw_iterator_cf_opt(&family, options);
        values.seek(hashes.start().to_be_bytes());
        while let Some((key, framed)) = values.item() {
            let hash = key.first_chunk::<8>().map(|hash| u64::from_be_bytes(*hash));
            if let (Some(hash), Some(value)) = (hash, live_value(framed, now)?) {
                call(hash, value)?;
            }
            values.next();
        }
        values
            .status()
            .map_err(|error| self.database.failed("read", &error))
    }

    fn memory_bytes(&self) -> usize {
        // What RocksDB holds is part of the memory that all instances share.
        0
    }

    fn metrics(&self) -> Arc<UnitStoreMetrics> {
        self.metrics.clone()
    }
}

impl Drop for RocksDbUnitStore {
    fn drop(&mut self) {
        self.database.drop_family(&self.family);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_says_when_it_is_forgotten() {
        let mut framed = Vec::new();
        frame(b"value", 1000, &mut framed);
        assert_eq!(live_value(&framed, 999).unwrap(), Some(&b"value"[..]));
        assert_eq!(live_value(&framed, 1000).unwrap(), None);
        assert!(is_expired(&framed, 1000) && !is_expired(&framed, 999));
        frame(b"", i64::MAX, &mut framed);
        assert_eq!(live_value(&framed, i64::MAX - 1).unwrap(), Some(&b""[..]));
        assert_eq!(framed.len(), 1);
    }

    #[test]
    fn damaged_values_are_errors() {
        assert!(live_value(&[], 0).is_err());
        assert!(live_value(&[AT, 1, 2], 0).is_err());
        assert!(live_value(&[9, 1], 0).is_err());
    }
}
