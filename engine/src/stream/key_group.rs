//! Key groups: the units in which keyed state is dealt to subtasks, so that a job can be rescaled.

use serde::{Deserialize, Serialize};

/// One of `pipeline.max-parallelism` shares of the key space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyGroup(pub u16);

impl KeyGroup {
    /// The key group of a key with this hash. The upper half of the hash decides, so that hash tables, which use the lower
    /// half, stay even within a group.
    #[inline]
    pub fn of_hash(hash: u64, max_parallelism: u16) -> KeyGroup {
        KeyGroup((((hash >> 32) * max_parallelism as u64) >> 32) as u16)
    }

    /// The least hash that belongs to the group.
    pub fn least_hash(self, max_parallelism: u16) -> u64 {
        ((self.0 as u64) << 32).div_ceil(max_parallelism as u64) << 32
    }

    /// The subtask that owns the group, as Flink deals them.
    #[inline]
    pub fn subtask(self, parallelism: usize, max_parallelism: u16) -> usize {
        self.0 as usize * parallelism / max_parallelism as usize
    }
}

/// The key groups of one subtask: `first ..= last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyGroupRange {
    /// The first group.
    pub first: KeyGroup,
    /// The last group.
    pub last: KeyGroup,
}

impl KeyGroupRange {
    /// The groups of subtask `index` of `parallelism`.
    pub fn of_subtask(index: usize, parallelism: usize, max_parallelism: u16) -> Self {
        let max = max_parallelism as usize;
        let first = (index * max).div_ceil(parallelism);
        let last = ((index + 1) * max - 1) / parallelism;
        KeyGroupRange {
            first: KeyGroup(first as u16),
            last: KeyGroup(last as u16),
        }
    }

    /// All groups.
    pub fn all(max_parallelism: u16) -> Self {
        KeyGroupRange::of_subtask(0, 1, max_parallelism.max(1))
    }

    /// The groups in up to so many ranges of about the same length.
    pub fn pieces(&self, count: usize) -> Vec<KeyGroupRange> {
        let (first, last) = (self.first.0 as usize, self.last.0 as usize);
        let groups = last + 1 - first;
        let count = count.clamp(1, groups.max(1));
        let bound = |piece: usize| first + piece * groups / count;
        let ranges = (0..count).map(|piece| KeyGroupRange {
            first: KeyGroup(bound(piece) as u16),
            last: KeyGroup((bound(piece + 1) - 1) as u16),
        });
        ranges.collect()
    }

    /// Whether the group is among them.
    pub fn contains(&self, group: KeyGroup) -> bool {
        self.first <= group && group <= self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_hash_is_the_first_of_its_group() {
        for max in [1u16, 3, 128, 32768] {
            for group in 0..max {
                let hash = KeyGroup(group).least_hash(max);
                assert_eq!(KeyGroup::of_hash(hash, max), KeyGroup(group));
                let before = hash
                    .checked_sub(1)
                    .map(|hash| KeyGroup::of_hash(hash, max).0 + 1);
                assert_eq!(before.unwrap_or(0), group);
            }
        }
    }

    #[test]
    fn pieces_are_the_range() {
        let range = KeyGroupRange::of_subtask(1, 3, 128);
        for count in [1, 2, 7, 1000] {
            let pieces = range.pieces(count);
            assert_eq!(pieces.first().unwrap().first, range.first);
            assert_eq!(pieces.last().unwrap().last, range.last);
            let follow = |pair: &[KeyGroupRange]| pair[0].last.0 + 1 == pair[1].first.0;
            assert!(pieces.windows(2).all(follow), "{pieces:?}");
        }
    }

    #[test]
    fn ranges_cover_every_group_once_and_agree_with_subtask() {
        for max in [1u16, 2, 7, 128, 32768] {
            for parallelism in 1..=(max as usize).min(9) {
                for group in 0..max {
                    let owner = KeyGroup(group).subtask(parallelism, max);
                    for index in 0..parallelism {
                        let range = KeyGroupRange::of_subtask(index, parallelism, max);
                        assert_eq!(range.contains(KeyGroup(group)), index == owner);
                    }
                }
            }
        }
    }
}
