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

    /// All key groups in order, in so few parts that each is worth a pass, and so many that a part of large state is small.
    pub fn parts(max_parallelism: u16) -> impl Iterator<Item = KeyGroupRange> {
        const MOST: u16 = 64;
        let max_parallelism = max_parallelism.max(1);
        let parts = max_parallelism.min(MOST) as usize;
        (0..parts).map(move |part| KeyGroupRange::of_subtask(part, parts, max_parallelism))
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
