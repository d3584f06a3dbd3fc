//! What a checkpoint adds to the keyed state of an operator: the rows of some keys, in place of all that was kept for them before.
//!
//! A change speaks for whole spans of keys (a subtask that gave all its state), for single keys (one that gave what changed: those that
//! it has rows of and those that it says are gone), or both. Changes are laid over each other key by key; [`StateSnapshot::apply`] is the definition.

use std::collections::BTreeMap;

use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute;
use serde::{Deserialize, Serialize};

use super::hash_set::HashSetInOrder;
use crate::error::Result;
use crate::state::{StateSnapshot, StateTable, TableScope, key_hashes_of};
use crate::stream::KeyGroupRange;

/// The batches of keyed tables by name.
pub(super) type KeyedTables = BTreeMap<String, Vec<RecordBatch>>;

/// Keys by the upper half of their hash, `first ..= last`. Key groups are such spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySpan {
    /// The lowest upper half.
    pub first: u32,
    /// The highest.
    pub last: u32,
}

impl KeySpan {
    /// All keys.
    pub const ALL: KeySpan = KeySpan {
        first: 0,
        last: u32::MAX,
    };

    /// The keys of some of `max_parallelism` key groups.
    pub fn of_key_groups(range: KeyGroupRange, max_parallelism: u16) -> KeySpan {
        let start = |group: u64| (group << 32).div_ceil(max_parallelism.max(1) as u64);
        let end = start(range.last.0 as u64 + 1) - 1;
        KeySpan {
            first: start(range.first.0 as u64) as u32,
            last: end.min(u32::MAX as u64) as u32,
        }
    }

    /// The `index`th of `count` spans of about the same width; see [`KeySpan::shares`].
    pub(super) fn share(self, index: usize, count: usize) -> KeySpan {
        self.shares(count).span(index)
    }

    /// `count` spans of about the same width; no more than there are values.
    pub(super) fn shares(self, count: usize) -> Shares {
        Shares {
            of: self,
            count,
            scale: ((count as u128) << 32).div_euclid(self.width() as u128) as u64,
        }
    }

    /// How many values there are.
    pub(super) fn width(self) -> u64 {
        self.last as u64 - self.first as u64 + 1
    }

    pub(super) fn contains(self, hash: u64) -> bool {
        let upper = (hash >> 32) as u32;
        self.first <= upper && upper <= self.last
    }

    pub(super) fn overlaps(self, other: KeySpan) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// The narrowest span that covers both.
    pub(super) fn hull(self, other: KeySpan) -> KeySpan {
        KeySpan {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
        }
    }

    pub(super) fn covers(self, other: KeySpan) -> bool {
        self.first <= other.first && other.last <= self.last
    }
}

/// Spans of about the same width that together are one; see [`KeySpan::shares`].
pub(super) struct Shares {
    of: KeySpan,
    count: usize,
    /// How many spans a value is wide, in parts of 2^32, rounded down.
    scale: u64,
}

impl Shares {
    /// How many spans there are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The number of the span in which a hash lies.
    #[inline]
    pub(super) fn number_of(&self, hash: u64) -> usize {
        let offset = (hash >> 32) - u64::from(self.of.first);
        // Below the number of spans times 2^32.
        ((offset * self.scale) >> 32) as usize
    }

    pub(super) fn span(&self, number: usize) -> KeySpan {
        // The first value whose product is that many times 2^32.
        let start = |number: usize| {
            let offset = ((number as u128) << 32).div_ceil(u128::from(self.scale));
            u64::from(self.of.first) + offset as u64
        };
        let last = match number + 1 == self.count {
            true => self.of.last,
            false => (start(number + 1) - 1) as u32,
        };
        KeySpan {
            first: start(number) as u32,
            last,
        }
    }
}

/// Spans as few as say the same, in order.
pub(super) fn joined(mut spans: Vec<KeySpan>) -> Vec<KeySpan> {
    spans.sort_unstable_by_key(|span| span.first);
    let mut result: Vec<KeySpan> = Vec::new();
    for span in spans {
        match result.last_mut() {
            Some(last) if span.first as u64 <= last.last as u64 + 1 => {
                last.last = last.last.max(span.last)
            }
            _ => result.push(span),
        }
    }
    result
}

/// Some keys.
#[derive(Debug)]
pub(super) struct Keys {
    /// All keys of these spans.
    pub(super) spans: Vec<KeySpan>,
    /// And these.
    hashes: HashSetInOrder,
}

impl Keys {
    /// None; single keys that are added lie in `bounds`.
    pub(super) fn within(bounds: KeySpan) -> Self {
        Keys {
            spans: Vec::new(),
            hashes: HashSetInOrder::new(bounds),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spans.is_empty() && self.hashes.is_empty()
    }

    /// For each of some keys whether it is none of these.
    pub(super) fn others(&self, hashes: &[u64]) -> BooleanBuffer {
        let others = !&self.hashes.contains_each(hashes);
        if self.spans.is_empty() {
            return others;
        }
        let outside = |hash: u64| !self.spans.iter().any(|span| span.contains(hash));
        &others & &BooleanBuffer::collect_bool(hashes.len(), |row| outside(hashes[row]))
    }

    pub(super) fn add(&mut self, hashes: &[u64]) {
        self.hashes.add(hashes);
    }
}

/// See the module. It speaks for the keys that it has rows of, for those that are gone, and for whole spans.
#[derive(Debug, Clone, Default)]
pub(super) struct Change {
    /// All keys of these spans: what has no row here is gone.
    pub(super) whole: Vec<KeySpan>,
    /// These, if they have no row here; in no order.
    pub(super) gone: Vec<u64>,
    pub(super) tables: KeyedTables,
    /// The keys of the instances that tell it, where they are known.
    pub(super) within: Option<KeySpan>,
}

impl Change {
    /// The keyed tables of a snapshot without its parts. `span` is what its instance owns.
    pub(super) fn of_snapshot(snapshot: &StateSnapshot, span: KeySpan) -> Change {
        let (whole, gone) = match &snapshot.gone {
            None => (vec![span], Vec::new()),
            Some(gone) => (Vec::new(), gone.clone()),
        };
        let keyed = |(name, table): (&String, &StateTable)| {
            let holds = table.scope == TableScope::Keyed && !table.batches.is_empty();
            holds.then(|| (name.clone(), table.batches.clone()))
        };
        Change {
            whole,
            gone,
            tables: snapshot.tables.iter().filter_map(keyed).collect(),
            within: Some(span),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        let mut batches = self.tables.values().flatten();
        self.whole.is_empty() && self.gone.is_empty() && batches.all(|batch| batch.num_rows() == 0)
    }

    /// Whether nothing of before it stands.
    pub(super) fn replaces_all(&self) -> bool {
        self.whole.contains(&KeySpan::ALL)
    }

    /// The keys that it speaks for, where those are not all.
    fn keys(&self) -> Keys {
        let mut keys = Keys {
            spans: self.whole.clone(),
            ..Keys::within(self.bounds_of_keys())
        };
        keys.add(&self.gone);
        let batches = self.tables.values().flatten();
        batches.for_each(|batch| keys.add(key_hashes_of(batch)));
        keys
    }

    /// A span in which all keys lie that it speaks for or has rows of.
    pub(super) fn bounds(&self) -> KeySpan {
        if !self.whole.is_empty() {
            return KeySpan::ALL;
        }
        match self.within {
            // They lie anywhere, which need not be looked at.
            Some(KeySpan::ALL) => KeySpan::ALL,
            _ => self.bounds_of_keys(),
        }
    }

    /// A span in which all keys lie that it has rows of, or that are gone.
    fn bounds_of_keys(&self) -> KeySpan {
        let rows = self.tables.values().flatten().flat_map(key_hashes_of);
        let (mut first, mut last) = (u32::MAX, 0);
        for hash in rows.chain(&self.gone) {
            let upper = (hash >> 32) as u32;
            (first, last) = (first.min(upper), last.max(upper));
        }
        match first <= last {
            true => KeySpan { first, last },
            false => KeySpan::ALL,
        }
    }

    /// Adds what another instance says at the same time, for other keys.
    pub(super) fn beside(&mut self, other: Change) {
        self.within = match (self.within, other.within) {
            (_, within) if self.is_empty() => within,
            (Some(mine), Some(others)) => Some(mine.hull(others)),
            _ => None,
        };
        self.whole = joined([std::mem::take(&mut self.whole), other.whole].concat());
        self.gone.extend(other.gone);
        for (name, batches) in other.tables {
            self.tables.entry(name).or_default().extend(batches);
        }
    }

    /// Lays a later change over this one.
    pub(super) fn then(&mut self, later: Change) -> Result<()> {
        self.tables = match later.replaces_all() {
            true => KeyedTables::new(),
            false => without(std::mem::take(&mut self.tables), &later.keys())?,
        };
        self.beside(later);
        Ok(())
    }

    /// Lays the change over all that is kept.
    pub(super) fn apply_to(self, whole: &mut StateSnapshot) -> Result<()> {
        let mut before = KeyedTables::new();
        for (name, table) in std::mem::take(&mut whole.tables) {
            match table.scope {
                TableScope::Keyed => drop(before.insert(name, table.batches)),
                TableScope::Operator => drop(whole.tables.insert(name, table)),
            }
        }
        let mut state = Change {
            tables: before,
            ..Change::default()
        };
        state.then(self)?;
        for (name, batches) in state.tables {
            whole.insert_keyed(&name, batches);
        }
        Ok(())
    }

    /// About how many bytes it takes as Arrow IPC.
    pub(super) fn size_bytes(&self) -> usize {
        let rows: usize = self.tables.values().flatten().map(batch_bytes).sum();
        rows + self.gone.len() * 8
    }
}

fn without(tables: KeyedTables, replaced: &Keys) -> Result<KeyedTables> {
    let mut kept = KeyedTables::new();
    for (name, batches) in tables {
        let batches = batches
            .iter()
            .map(|batch| retain_rows(batch, replaced.others(key_hashes_of(batch))))
            .collect::<Result<Vec<_>>>()?;
        let batches: Vec<_> = batches
            .into_iter()
            .filter(|batch| batch.num_rows() > 0)
            .collect();
        if !batches.is_empty() {
            kept.insert(name, batches);
        }
    }
    Ok(kept)
}

/// The rows of a keyed batch whose key is kept.
pub(super) fn retain(batch: &RecordBatch, keep: impl Fn(u64) -> bool) -> Result<RecordBatch> {
    let hashes = key_hashes_of(batch);
    retain_rows(
        batch,
        BooleanBuffer::collect_bool(hashes.len(), |row| keep(hashes[row])),
    )
}

/// The rows of a batch that a mask has.
pub(super) fn retain_rows(batch: &RecordBatch, mask: BooleanBuffer) -> Result<RecordBatch> {
    let count = mask.count_set_bits();
    if count == mask.len() {
        return Ok(batch.clone());
    }
    if count == 0 {
        return Ok(batch.slice(0, 0));
    }
    Ok(compute::filter_record_batch(
        batch,
        &BooleanArray::new(mask, None),
    )?)
}

fn batch_bytes(batch: &RecordBatch) -> usize {
    let column = |column: &arrow::array::ArrayRef| {
        let sliced = column.to_data().get_slice_memory_size();
        sliced.unwrap_or_else(|_| column.get_array_memory_size())
    };
    batch.columns().iter().map(column).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::KeyGroup;

    #[test]
    fn a_span_holds_the_keys_of_its_groups() {
        for max in [1u16, 7, 128, 32768] {
            for parallelism in [1usize, 2, 3] {
                let parallelism = parallelism.min(max as usize);
                for index in 0..parallelism {
                    let range = KeyGroupRange::of_subtask(index, parallelism, max);
                    let span = KeySpan::of_key_groups(range, max);
                    let edges = [span.first, span.last, span.first / 2, span.last / 3];
                    for upper in edges {
                        for upper in [upper.wrapping_sub(1), upper, upper.wrapping_add(1)] {
                            let hash = (upper as u64) << 32 | 5;
                            let inside = range.contains(KeyGroup::of_hash(hash, max));
                            assert_eq!(span.contains(hash), inside, "{max} {index} {upper}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn shares_cover_all_keys_once() {
        for count in [1, 2, 3, 1000] {
            let shares: Vec<_> = (0..count).map(|at| KeySpan::ALL.share(at, count)).collect();
            assert_eq!(joined(shares.clone()), [KeySpan::ALL]);
            assert!(shares.windows(2).all(|two| !two[0].overlaps(two[1])));
        }
        let narrow = KeySpan {
            first: 1000,
            last: 5000,
        };
        for span in [KeySpan::ALL, narrow] {
            for count in [1, 2, 3, 1000, 4001] {
                let shares = span.shares(count);
                let spans: Vec<_> = (0..count).map(|number| shares.span(number)).collect();
                assert_eq!(joined(spans.clone()), [span]);
                for (number, share) in spans.into_iter().enumerate() {
                    for upper in [share.first, share.last] {
                        assert_eq!(shares.number_of((upper as u64) << 32), number);
                    }
                }
            }
        }
    }
}
