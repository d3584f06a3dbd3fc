//! The times at which cold keys act, in order: `time | hash`, both so that bytes sort as numbers do.
//!
//! The column family is made when the first time is noted; most operators note none.

use std::sync::Arc;

use rocksdb::{ReadOptions, WriteBatch};

use super::database::{Database, FamilyKind};
use crate::error::Result;

/// See the module.
pub(super) struct DueIndex {
    database: Arc<Database>,
    name: String,
    /// The name of the column family, once there is one.
    family: Option<String>,
    /// The first of all.
    first: Option<(i64, u64)>,
    /// Nothing lies before, but what was removed: a search need not begin earlier.
    floor: [u8; 16],
}

/// Bytes that sort as (time, hash) does.
fn key(time: i64, hash: u64) -> [u8; 16] {
    let time = (time as u64) ^ (1 << 63);
    ((u128::from(time) << 64) | u128::from(hash)).to_be_bytes()
}

/// What [`key`] was made of; `None` where it was not.
fn time_and_hash(key: &[u8]) -> Option<(i64, u64)> {
    let key = u128::from_be_bytes(key.try_into().ok()?);
    let time = ((key >> 64) as u64) ^ (1 << 63);
    Some((time as i64, key as u64))
}

impl DueIndex {
    /// An empty one.
    pub(super) fn new(database: Arc<Database>, name: &str) -> Self {
        DueIndex {
            database,
            name: name.to_string(),
            family: None,
            first: None,
            floor: [0; 16],
        }
    }

    /// The earliest time.
    pub(super) fn earliest(&self) -> Option<i64> {
        self.first.map(|(time, _)| time)
    }

    /// Notes times of keys: adds to `batch`, which is to be written.
    pub(super) fn add(&mut self, entries: &[(i64, u64)], batch: &mut WriteBatch) -> Result<()> {
        let Some(earliest) = entries.iter().min() else {
            return Ok(());
        };
        if self.family.is_none() {
            let name = format!("{}-times", self.name);
            self.family = Some(self.database.create_family(&name, FamilyKind::Times)?);
        }
        if let Some(name) = &self.family {
            let family = self.database.family(name)?;
            for (time, hash) in entries {
                batch.put_cf(&family, key(*time, *hash), []);
            }
        }
        self.first = Some(self.first.map_or(*earliest, |first| first.min(*earliest)));
        self.floor = self.floor.min(key(earliest.0, earliest.1));
        Ok(())
    }

    /// Takes up to `limit` keys whose time is up to `time`, by time.
    pub(super) fn take(&mut self, time: i64, limit: usize) -> Result<Vec<u64>> {
        if self.earliest().is_none_or(|earliest| earliest > time) {
            return Ok(Vec::new());
        }
        let mut taken = Vec::new();
        self.first = None;
        self.search(|found| {
            let more = taken.len() < limit && found.0 <= time;
            if more {
                taken.push(found);
            }
            more
        })?;
        self.remove(&taken)?;
        Ok(taken.into_iter().map(|(_, hash)| hash).collect())
    }

    /// Removes entries; those that are not there are no error.
    pub(super) fn forget(&mut self, entries: &[(i64, u64)]) -> Result<()> {
        self.remove(entries)?;
        if self.first.is_some_and(|first| entries.contains(&first)) {
            self.first = None;
            self.search(|_| false)?;
        }
        Ok(())
    }

    fn remove(&self, entries: &[(i64, u64)]) -> Result<()> {
        let Some(name) = self.family.as_ref().filter(|_| !entries.is_empty()) else {
            return Ok(());
        };
        let family = self.database.family(name)?;
        let mut batch = WriteBatch::default();
        for (time, hash) in entries {
            batch.delete_cf(&family, key(*time, *hash));
        }
        self.database.write(batch)
    }

    /// Calls with every entry, in order, until `goes_on` says no; that one is then the first.
    fn search(&mut self, mut goes_on: impl FnMut((i64, u64)) -> bool) -> Result<()> {
        let Some(name) = &self.family else {
            return Ok(());
        };
        let family = self.database.family(name)?;
        let mut options = ReadOptions::default();
        options.set_iterate_lower_bound(self.floor.to_vec());
        let mut entries = self.database.db().raw_iterator_cf_opt(&family, options);
        entries.seek(self.floor);
        while let Some(found) = entries.key().and_then(time_and_hash) {
            if !goes_on(found) {
                self.first = Some(found);
                self.floor = key(found.0, found.1);
                break;
            }
            entries.next();
        }
        entries
            .status()
            .map_err(|error| self.database.failed("read", &error))
    }
}

impl Drop for DueIndex {
    fn drop(&mut self) {
        if let Some(name) = &self.family {
            self.database.drop_family(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_sort_as_times_and_hashes_do() {
        let mut entries = [
            (i64::MIN, 3),
            (-1, u64::MAX),
            (0, 0),
            (0, 1 << 63),
            (7, 1),
            (i64::MAX - 1, 2),
        ];
        entries.reverse();
        entries.sort_by_key(|(time, hash)| key(*time, *hash));
        assert!(entries.is_sorted());
        assert_eq!(time_and_hash(&key(-5, 9)), Some((-5, 9)));
        assert_eq!(time_and_hash(&[0; 15]), None);
    }
}
