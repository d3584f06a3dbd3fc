//! A cache of the keys that were asked for, in front of any table.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use hashbrown::HashMap;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use super::{
    AsyncSupport, LookupFunction, LookupRequest, LookupRows, LookupSource, PartialCacheOptions,
};
use crate::error::Result;
use crate::types::ProcessingTime;

/// The table behind a cache that all subtasks share. `key_types` are the Arrow types of the key columns.
pub fn with_partial_cache(
    source: Arc<dyn LookupSource>,
    key_types: &[DataType],
    options: PartialCacheOptions,
) -> Result<Arc<dyn LookupSource>> {
    let fields = key_types.iter().cloned().map(SortField::new).collect();
    Ok(Arc::new(CachedSource {
        source,
        converter: Arc::new(RowConverter::new(fields)?),
        cache: Arc::new(Mutex::new(Cache::new(options))),
    }))
}

struct CachedSource {
    source: Arc<dyn LookupSource>,
    converter: Arc<RowConverter>,
    cache: Arc<Mutex<Cache>>,
}

impl LookupSource for CachedSource {
    fn function(&self) -> Result<Box<dyn LookupFunction>> {
        Ok(Box::new(CachedFunction {
            function: self.source.function()?,
            converter: self.converter.clone(),
            cache: self.cache.clone(),
        }))
    }

    fn async_support(&self) -> AsyncSupport {
        self.source.async_support()
    }
}

struct CachedFunction {
    function: Box<dyn LookupFunction>,
    converter: Arc<RowConverter>,
    cache: Arc<Mutex<Cache>>,
}

type Key = Box<[u8]>;

impl LookupFunction for CachedFunction {
    fn lookup(&mut self, request: &LookupRequest) -> Result<LookupRows> {
        let keys = self.converter.convert_columns(request.keys)?;
        let mut answers: HashMap<Key, RecordBatch, Xxh3DefaultBuilder> = HashMap::default();
        let mut missing: HashMap<Key, u32, Xxh3DefaultBuilder> = HashMap::default();
        {
            let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            for (index, key) in keys.iter().enumerate() {
                let key: Key = key.data().into();
                if answers.contains_key(&key) || missing.contains_key(&key) {
                    continue;
                }
                match cache.get(&key, request.now) {
                    Some(rows) => drop(answers.insert(key, rows)),
                    None => drop(missing.insert(key, index as u32)),
                }
            }
        }
        if !missing.is_empty() {
            let mut missing: Vec<(Key, u32)> = missing.into_iter().collect();
            missing.sort_unstable_by_key(|(_, index)| *index);
            let indices: Vec<u32> = missing.iter().map(|(_, index)| *index).collect();
            let asked = self.ask(request, &indices)?;
            let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
            for ((key, _), rows) in missing.into_iter().zip(asked) {
                cache.put(key.clone(), rows.clone(), request.now);
                answers.insert(key, rows);
            }
        }
        let (mut of, mut parts) = (Vec::new(), Vec::new());
        for (index, key) in keys.iter().enumerate() {
            let rows = &answers[key.data()];
            of.resize(of.len() + rows.num_rows(), index as u32);
            parts.push(rows);
        }
        let rows = match parts.first() {
            Some(first) => compute::concat_batches(&first.schema(), parts.iter().copied())?,
            None => self.function.lookup(request)?.rows,
        };
        Ok(LookupRows { rows, of })
    }
}

impl CachedFunction {
    /// The rows of the keys at some indices, a batch each.
    fn ask(&mut self, request: &LookupRequest, indices: &[u32]) -> Result<Vec<RecordBatch>> {
        let at = UInt32Array::from(indices.to_vec());
        let keys: Vec<ArrayRef> = request
            .keys
            .iter()
            .map(|key| compute::take(key, &at, None))
            .collect::<Result<_, _>>()?;
        let request = LookupRequest {
            keys: &keys,
            now: request.now,
        };
        let LookupRows { rows, of } = self.function.lookup(&request)?;
        let range = |index: u32| {
            let first = of.partition_point(|known| *known < index);
            (first, of.partition_point(|known| *known <= index) - first)
        };
        // Copies: a slice would keep the rows of all other keys alive.
        let copy = |index: u32| {
            let (first, length) = range(index);
            let of_key = UInt32Array::from_iter_values(first as u32..(first + length) as u32);
            Ok(compute::take_record_batch(&rows, &of_key)?)
        };
        (0..at.len() as u32).map(copy).collect()
    }
}

/// What is remembered.
struct Cache {
    options: PartialCacheOptions,
    entries: HashMap<Key, Entry, Xxh3DefaultBuilder>,
    /// Keys by when they were asked for last.
    by_access: BTreeMap<u64, Key>,
    accesses: u64,
    rows: usize,
}

struct Entry {
    rows: RecordBatch,
    written: ProcessingTime,
    accessed: ProcessingTime,
    access: u64,
}

impl Cache {
    fn new(options: PartialCacheOptions) -> Self {
        Cache {
            options,
            entries: HashMap::default(),
            by_access: BTreeMap::new(),
            accesses: 0,
            rows: 0,
        }
    }

    fn get(&mut self, key: &[u8], now: ProcessingTime) -> Option<RecordBatch> {
        let is_over = |since: ProcessingTime, after: Option<Duration>| {
            after.is_some_and(|after| now.millis() - since.millis() >= after.as_millis() as i64)
        };
        let entry = self.entries.get_mut(key)?;
        if is_over(entry.written, self.options.expire_after_write)
            || is_over(entry.accessed, self.options.expire_after_access)
        {
            let access = entry.access;
            self.forget(access);
            return None;
        }
        self.accesses += 1;
        let key = self.by_access.remove(&entry.access)?;
        entry.accessed = now;
        entry.access = self.accesses;
        self.by_access.insert(self.accesses, key);
        Some(entry.rows.clone())
    }

    fn put(&mut self, key: Key, rows: RecordBatch, now: ProcessingTime) {
        if rows.num_rows() == 0 && !self.options.cache_missing_key {
            return;
        }
        if let Some(access) = self.entries.get(&key).map(|entry| entry.access) {
            self.forget(access);
        }
        self.accesses += 1;
        self.rows += rows.num_rows().max(1);
        self.by_access.insert(self.accesses, key.clone());
        self.entries.insert(
            key,
            Entry {
                rows,
                written: now,
                accessed: now,
                access: self.accesses,
            },
        );
        while let (Some(max_rows), Some((first, _))) =
            (self.options.max_rows, self.by_access.first_key_value())
            && self.rows > max_rows
        {
            self.forget(*first);
        }
    }

    fn forget(&mut self, access: u64) {
        let key = self.by_access.remove(&access);
        let entry = key.and_then(|key| self.entries.remove(&key));
        self.rows -= entry.map_or(0, |entry| entry.rows.num_rows().max(1));
    }
}
