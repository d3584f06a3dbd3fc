//! Which keys are at hand, and when each was used last.

use hashbrown::HashMap;

use crate::operators::KeySet;
use crate::operators::nohash::BuildNoHash;

/// How many ages of keys are told apart where some must go.
const AGES: usize = 1024;

/// Keys at hand. Until the first eviction all are, and nobody looks.
#[derive(Debug, Default)]
pub(super) struct Residents {
    known: Option<HashMap<u64, Resident, BuildNoHash>>,
    now: u32,
}

#[derive(Debug, Clone, Copy)]
struct Resident {
    /// The turn at which it was used last.
    used: u32,
    /// Whether the lower tier holds an old value of it.
    below: bool,
}

impl Residents {
    /// Whether keys at hand are told from others.
    pub(super) fn are_known(&self) -> bool {
        self.known.is_some()
    }

    /// Begins to tell them; `keys` are all at hand.
    pub(super) fn know(&mut self, keys: Vec<u64>) {
        let resident = Resident {
            used: 0,
            below: false,
        };
        self.known = Some(keys.into_iter().map(|hash| (hash, resident)).collect());
    }

    /// Keys that came to hand otherwise than through [`Residents::touch`].
    pub(super) fn add(&mut self, keys: &[u64]) {
        let used = self.now;
        let Some(known) = &mut self.known else {
            return;
        };
        for hash in keys {
            known
                .entry(*hash)
                .or_insert(Resident { used, below: false });
        }
    }

    /// Notes that keys are used now; gives those that were not at hand, each once, ascending. They count as at hand from now on.
    pub(super) fn touch(&mut self, keys: &[u64]) -> Vec<u64> {
        self.now += 1;
        let used = self.now;
        let mut missing = Vec::new();
        let Some(known) = &mut self.known else {
            return missing;
        };
        for hash in keys {
            known
                .entry(*hash)
                .and_modify(|resident| resident.used = used)
                .or_insert_with(|| {
                    missing.push(*hash);
                    Resident { used, below: false }
                });
        }
        missing.sort_unstable();
        missing
    }

    /// Notes that the lower tier holds a value of a key at hand.
    pub(super) fn is_below(&mut self, hash: u64) {
        if let Some(resident) = self.known.as_mut().and_then(|known| known.get_mut(&hash)) {
            resident.below = true;
        }
    }

    /// Number of keys at hand.
    pub(super) fn len(&self) -> usize {
        self.known.as_ref().map_or(0, HashMap::len)
    }

    /// Whether a key is at hand.
    pub(super) fn contains(&self, hash: u64) -> bool {
        self.known
            .as_ref()
            .is_none_or(|known| known.contains_key(&hash))
    }

    /// The `count` keys that were used longest ago, in no order: about, where turns are many, and without a copy of all keys.
    pub(super) fn coldest(&self, count: usize) -> Vec<u64> {
        let Some(known) = &self.known else {
            return Vec::new();
        };
        let first = known.values().map(|resident| resident.used).min();
        let first = first.unwrap_or(self.now);
        let turns = u64::from(self.now - first) + 1;
        let age = |resident: &Resident| {
            (u64::from(resident.used - first) * AGES as u64 / turns.max(AGES as u64)) as usize
        };
        let mut keys_of = [0; AGES];
        known
            .values()
            .for_each(|resident| keys_of[age(resident)] += 1);
        let mut left = count;
        for keys in &mut keys_of {
            *keys = left.min(*keys);
            left -= *keys;
        }
        let mut coldest = Vec::with_capacity(count.min(known.len()));
        for (hash, resident) in known {
            let room = &mut keys_of[age(resident)];
            if *room > 0 {
                *room -= 1;
                coldest.push(*hash);
            }
        }
        coldest
    }

    /// Keys are no longer at hand; whether the lower tier holds an old value is told for each.
    pub(super) fn remove(&mut self, keys: &KeySet, mut call: impl FnMut(u64, bool)) {
        let Some(known) = &mut self.known else {
            return;
        };
        for hash in keys {
            if let Some(resident) = known.remove(hash) {
                call(*hash, resident.below);
            }
        }
        if known.capacity() > 2 * known.len() {
            known.shrink_to(known.len());
        }
    }

    /// Bytes by which the table grows with the next keys, if so many cannot come without.
    pub(super) fn growth_bytes(&self, keys: usize) -> usize {
        let known = self.known.as_ref();
        let full = known.filter(|known| known.len() + keys > known.capacity());
        full.map_or(0, HashMap::allocation_size)
    }

    /// Bytes held.
    pub(super) fn size_bytes(&self) -> usize {
        self.known.as_ref().map_or(0, HashMap::allocation_size)
    }
}
