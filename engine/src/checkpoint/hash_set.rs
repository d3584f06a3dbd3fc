//! A set of keys that lie in the order of their hashes, but for collisions: whoever adds or looks up the keys of a bucket stays in the part of
//! the table that is for them, however large the set is. Many keys at a time: first the slot is read where each would begin, so that the reads,
//! which wait for memory, run beside each other, and only then is anything decided.

use arrow::buffer::{BooleanBuffer, Buffer};

use super::change::KeySpan;

/// Stands for no key; whether the key of this hash is there is noted apart.
const EMPTY: u64 = 0;
/// Least number of slots.
const LEAST_SLOTS: usize = 64;
/// Keys that are looked at together; a word of a mask.
const BLOCK: usize = 64;

/// See the module.
#[derive(Debug)]
pub(super) struct HashSetInOrder {
    /// The hash of the lowest key that there may be.
    first: u64,
    /// Hashes that there may be, 2^32 to each upper half.
    width: u128,
    /// Slots a hash, in parts of 2^64.
    scale: u64,
    slots: Vec<u64>,
    keys: usize,
    holds_empty: bool,
}

impl HashSetInOrder {
    /// No keys; those that are added lie in `bounds`.
    pub(super) fn new(bounds: KeySpan) -> Self {
        HashSetInOrder {
            first: (bounds.first as u64) << 32,
            width: (bounds.width() as u128) << 32,
            scale: 0,
            slots: Vec::new(),
            keys: 0,
            holds_empty: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys == 0 && !self.holds_empty
    }

    /// For each key whether it is there; any, also outside of the bounds.
    pub(super) fn contains_each(&self, hashes: &[u64]) -> BooleanBuffer {
        let words: Vec<u64> = hashes
            .chunks(BLOCK)
            .map(|block| {
                let firsts = self.firsts(block);
                let keys = block.iter().zip(firsts).enumerate();
                keys.fold(0, |word, (at, (hash, first))| {
                    let holds = match first {
                        _ if *hash == EMPTY => self.holds_empty,
                        first if first == *hash => true,
                        EMPTY => false,
                        _ => self.is_behind(*hash),
                    };
                    word | u64::from(holds) << at
                })
            })
            .collect();
        BooleanBuffer::new(Buffer::from_vec(words), 0, hashes.len())
    }

    /// What is in the slots where keys would begin; [`EMPTY`] where there is none.
    #[inline]
    fn firsts(&self, block: &[u64]) -> [u64; BLOCK] {
        let mut firsts = [EMPTY; BLOCK];
        for (first, hash) in firsts.iter_mut().zip(block) {
            let slot = self.first_slot(*hash);
            *first = self.slots.get(slot).copied().unwrap_or(EMPTY);
        }
        firsts
    }

    /// Whether a key is there whose first slot another one has.
    fn is_behind(&self, hash: u64) -> bool {
        let is_within = (hash.wrapping_sub(self.first) as u128) < self.width;
        is_within && self.slots[self.slot(hash)] == hash
    }

    pub(super) fn add(&mut self, hashes: &[u64]) {
        self.reserve(hashes.len());
        for block in hashes.chunks(BLOCK) {
            let firsts = self.firsts(block);
            for (hash, first) in block.iter().zip(firsts) {
                match *hash {
                    EMPTY => self.holds_empty = true,
                    hash if hash == first => {}
                    hash => self.add_one(hash),
                }
            }
        }
    }

    #[inline]
    fn add_one(&mut self, hash: u64) {
        let slot = self.slot(hash);
        self.keys += usize::from(self.slots[slot] == EMPTY);
        self.slots[slot] = hash;
    }

    #[inline]
    fn first_slot(&self, hash: u64) -> usize {
        let offset = hash.wrapping_sub(self.first);
        ((offset as u128 * self.scale as u128) >> 64) as usize
    }

    /// Where a key is, or would be.
    #[inline]
    fn slot(&self, hash: u64) -> usize {
        let mut slot = self.first_slot(hash);
        while self.slots[slot] != hash && self.slots[slot] != EMPTY {
            slot += 1;
            if slot == self.slots.len() {
                slot = 0;
            }
        }
        slot
    }

    /// Makes room; two thirds of the slots are used at most.
    fn reserve(&mut self, more: usize) {
        let keys = self.keys + more;
        if 2 * self.slots.len() >= 3 * keys && !self.slots.is_empty() {
            return;
        }
        let length = (2 * keys).max(LEAST_SLOTS);
        let before = std::mem::replace(&mut self.slots, vec![EMPTY; length]);
        self.scale = (((length as u128) << 64) / self.width).min(u64::MAX as u128) as u64;
        for hash in before.into_iter().filter(|hash| *hash != EMPTY) {
            let slot = self.slot(hash);
            self.slots[slot] = hash;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_agrees_with_a_set_wherever_the_keys_lie() {
        let narrow = KeySpan {
            first: 77,
            last: 78,
        };
        let high = KeySpan {
            first: u32::MAX,
            last: u32::MAX,
        };
        for bounds in [KeySpan::ALL, narrow, high] {
            let first = (bounds.first as u64) << 32;
            let mask = match bounds == KeySpan::ALL {
                true => u64::MAX,
                false => u32::MAX as u64,
            };
            let mut set = HashSetInOrder::new(bounds);
            let mut twin = BTreeSet::new();
            assert!(set.is_empty() && set.contains_each(&[first, 0]).count_set_bits() == 0);
            for round in 0..40u64 {
                let hashes = (0..round * 7).map(|number| match number % 5 {
                    // The ends, many neighbours, and any.
                    0 => first,
                    1 => first | mask,
                    2 => first + number,
                    _ => first | (number * round).wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask,
                });
                let hashes: Vec<u64> = hashes.collect();
                set.add(&hashes);
                twin.extend(hashes);
                let probes = twin
                    .iter()
                    .flat_map(|hash| [*hash, hash ^ 1, hash ^ 1 << 40]);
                let probes: Vec<u64> = probes.collect();
                let found = set.contains_each(&probes);
                for (probe, found) in probes.iter().zip(&found) {
                    assert_eq!(found, twin.contains(probe), "{probe:x}");
                }
            }
        }
    }
}
