//! Which groups have changed since somebody asked last: a bit a group, set a batch at a time, and nothing where nobody asks.

use super::frozen::set_in;
use crate::state::Groups;

/// See the file.
#[derive(Default)]
pub(super) struct ChangeMarks {
    is_on: bool,
    bits: Vec<u64>,
    /// The hashes of changed groups that have no number any more.
    renumbered: Vec<u64>,
}

impl ChangeMarks {
    pub(super) fn start(&mut self) {
        self.is_on = true;
    }

    /// Marks groups, of `all` that there are.
    pub(super) fn mark(&mut self, groups: &[u32], all: usize) {
        if !self.is_on {
            return;
        }
        if self.bits.len() * 64 < all {
            self.bits.resize(all.div_ceil(64).next_power_of_two(), 0);
        }
        for group in groups {
            self.bits[*group as usize / 64] |= 1 << (*group % 64);
        }
    }

    /// Only the groups `kept` stay, given ascending, and are numbered anew; `hashes` are those of all keys under the old numbers.
    pub(super) fn keep(&mut self, kept: &[u32], hashes: &[u64]) {
        if self.bits.is_empty() {
            return;
        }
        let mut bits = vec![0; kept.len().div_ceil(64)];
        for (new, old) in kept.iter().enumerate() {
            if self.take_one(*old) {
                bits[new / 64] |= 1 << (new % 64);
            }
        }
        let lost = self.take_groups();
        self.renumbered.extend(Groups::Ids(&lost).gather(hashes));
        self.bits = bits;
    }

    /// Whether a group is marked. It is not from now on.
    pub(super) fn take_one(&mut self, group: u32) -> bool {
        let Some(word) = self.bits.get_mut(group as usize / 64) else {
            return false;
        };
        let bit = 1 << (group % 64);
        let is_marked = *word & bit != 0;
        *word &= !bit;
        is_marked
    }

    /// A bit for each group, set for those that are marked, and the hashes of marked ones that have no number here any more. No group is
    /// marked then.
    pub(super) fn take_bits(&mut self) -> (Vec<u64>, Vec<u64>) {
        (
            std::mem::take(&mut self.bits),
            std::mem::take(&mut self.renumbered),
        )
    }

    /// Those of some hashes that were told of groups without a number. They are forgotten.
    pub(super) fn take_lost(&mut self, among: impl Fn(u64) -> bool) -> Vec<u64> {
        self.renumbered
            .extract_if(.., |hash| among(*hash))
            .collect()
    }

    /// The marked groups, ascending, and the hashes of those that have no number here any more. No group is marked then.
    pub(super) fn take(&mut self) -> (Vec<u32>, Vec<u64>) {
        (self.take_groups(), std::mem::take(&mut self.renumbered))
    }

    fn take_groups(&mut self) -> Vec<u32> {
        let groups = set_in(&self.bits);
        self.bits.fill(0);
        groups
    }

    pub(super) fn size_bytes(&self) -> usize {
        (self.bits.capacity() + self.renumbered.capacity()) * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_taken_once_and_survive_new_numbers() {
        let mut marks = ChangeMarks::default();
        marks.mark(&[1], 2);
        assert_eq!(marks.take(), (vec![], vec![]), "nobody asked");
        marks.start();
        marks.mark(&[70, 3, 3], 71);
        marks.mark(&[0], 200);
        assert_eq!(marks.take(), (vec![0, 3, 70], vec![]));
        assert_eq!(marks.take(), (vec![], vec![]));
        marks.mark(&[1, 2], 3);
        marks.keep(&[0, 2], &[100, 101, 102]);
        marks.mark(&[0], 2);
        assert_eq!(marks.take(), (vec![0, 1], vec![101]));
    }
}
