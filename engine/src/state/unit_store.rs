//! The lower tier of keyed state: bytes under the hash of a key, in memory or on disk.
//!
//! What an operator cannot keep in memory lies here, one value for all that it keeps for the keys of one hash (see `operators/keyed_state.rs`).
//! It is asked once a bundle, for many keys at once.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::UnitStoreMetrics;
use crate::error::Result;
use crate::types::ProcessingTime;

/// A value to be written.
#[derive(Debug, Clone, Copy)]
pub struct UnitWrite<'a> {
    /// The hash of the key.
    pub hash: u64,
    /// The value; `None` leaves what is there and only notes when the key acts.
    pub value: Option<&'a [u8]>,
    /// When the value may be forgotten, in milliseconds of processing time; `i64::MAX`: never.
    pub expiry: i64,
    /// When the key acts next without a row of it; `i64::MAX`: never.
    pub due: i64,
}

/// The lower tier of one operator instance. Values belong to this process and this run alone: checkpoints do not refer to them.
pub trait UnitStore: Send {
    /// The values of keys, by ascending hash, in `values` in the same order; `None` where there is none, or it is forgotten by `now`.
    fn get(
        &mut self,
        hashes: &[u64],
        now: ProcessingTime,
        values: &mut Vec<Option<Vec<u8>>>,
    ) -> Result<()>;

    /// Writes values, by ascending hash.
    fn write(&mut self, writes: &[UnitWrite]) -> Result<()>;

    /// Removes the values of keys, by ascending hash; those that are not there are no error. A time that was noted for one stays until it is
    /// taken or forgotten.
    fn remove(&mut self, hashes: &[u64]) -> Result<()>;

    /// The earliest time at which a key acts; `None` where none does.
    fn earliest_due(&self) -> Option<i64>;

    /// Up to `limit` of the keys that act up to `time`, those that act first before others. They are not due any more: the caller has them
    /// act.
    fn take_due(&mut self, time: i64, limit: usize) -> Result<Vec<u64>>;

    /// Notes that keys that were read are not due any more, given when they were.
    fn forget_due(&mut self, keys: &[(u64, i64)]) -> Result<()>;

    /// Whether there is no value; values that are forgotten may count.
    fn is_empty(&self) -> bool;

    /// Calls with every key and its value, by ascending hash, but those that are forgotten by the latest time that a lookup told.
    fn for_each(&self, call: &mut dyn FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        self.for_range(0..=u64::MAX, call)
    }

    /// The same for some hashes only: a walk over all values can be cut into steps, and begins where the last step ended.
    fn for_range(
        &self,
        hashes: RangeInclusive<u64>,
        call: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()>;

    /// Bytes of main memory held for this instance alone.
    fn memory_bytes(&self) -> usize;

    /// What it did and what it holds.
    fn metrics(&self) -> Arc<UnitStoreMetrics>;
}

/// A lower tier in memory: what others are compared with.
#[derive(Debug, Default)]
pub struct MemoryUnitStore {
    values: BTreeMap<u64, (Vec<u8>, i64)>,
    due: BTreeSet<(i64, u64)>,
    now: Option<ProcessingTime>,
    metrics: Arc<UnitStoreMetrics>,
}

impl UnitStore for MemoryUnitStore {
    fn get(
        &mut self,
        hashes: &[u64],
        now: ProcessingTime,
        values: &mut Vec<Option<Vec<u8>>>,
    ) -> Result<()> {
        values.clear();
        values.extend(hashes.iter().map(|hash| {
            let (value, expiry) = self.values.get(hash)?;
            (*expiry > now.millis()).then(|| value.clone())
        }));
        self.now = self.now.max(Some(now));
        self.metrics.count_gets(values);
        Ok(())
    }

    fn write(&mut self, writes: &[UnitWrite]) -> Result<()> {
        for write in writes {
            if let Some(value) = write.value {
                self.values
                    .insert(write.hash, (value.to_vec(), write.expiry));
            }
            if write.due != i64::MAX {
                self.due.insert((write.due, write.hash));
            }
        }
        self.metrics.count_writes(writes);
        Ok(())
    }

    fn remove(&mut self, hashes: &[u64]) -> Result<()> {
        for hash in hashes {
            self.values.remove(hash);
        }
        self.metrics
            .removes
            .fetch_add(hashes.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn earliest_due(&self) -> Option<i64> {
        self.due.first().map(|(due, _)| *due)
    }

    fn take_due(&mut self, time: i64, limit: usize) -> Result<Vec<u64>> {
        let mut taken = Vec::new();
        while taken.len() < limit && self.earliest_due().is_some_and(|due| due <= time) {
            let (_, hash) = self.due.pop_first().expect("there is one");
            taken.push(hash);
        }
        Ok(taken)
    }

    fn forget_due(&mut self, keys: &[(u64, i64)]) -> Result<()> {
        for (hash, due) in keys {
            self.due.remove(&(*due, *hash));
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    fn for_range(
        &self,
        hashes: RangeInclusive<u64>,
        call: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let is_live = |expiry: i64| self.now.is_none_or(|now| expiry > now.millis());
        let live = self
            .values
            .range(hashes)
            .filter(|(_, (_, expiry))| is_live(*expiry));
        live.into_iter()
            .try_for_each(|(hash, (value, _))| call(*hash, value))
    }

    fn memory_bytes(&self) -> usize {
        self.values
            .values()
            .map(|(value, _)| value.len() + 64)
            .sum()
    }

    fn metrics(&self) -> Arc<UnitStoreMetrics> {
        self.metrics.clone()
    }
}
