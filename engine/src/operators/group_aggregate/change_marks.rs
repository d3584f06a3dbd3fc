//! Which groups have changed since somebody asked last, and which the open bundle touches: a byte a group for both, so that a row reads one place.

use super::frozen::set_in;
use crate::state::Groups;

/// The group has changed.
const CHANGED: u8 = 1;
/// The group is touched by the open bundle.
const TOUCHED: u8 = 2;

/// See the file.
#[derive(Default)]
pub(super) struct ChangeMarks {
    /// Whether somebody asks for changes.
    is_on: bool,
    marks: Vec<u8>,
    /// The hashes of changed groups that have no number any more.
    renumbered: Vec<u64>,
}

impl ChangeMarks {
    pub(super) fn start(&mut self) {
        self.is_on = true;
    }

    /// Marks changed groups, of `all` that there are.
    pub(super) fn mark(&mut self, groups: &[u32], all: usize) {
        if !self.is_on {
            return;
        }
        self.reach(all);
        for group in groups {
            self.marks[*group as usize] |= CHANGED;
        }
    }

    /// Marks groups that a bundle touches, and so changes; adds to `touched` those that it did not touch yet, each once.
    pub(super) fn touch(&mut self, groups: &[u32], all: usize, touched: &mut Vec<u32>) {
        self.reach(all);
        let both = if self.is_on {
            TOUCHED | CHANGED
        } else {
            TOUCHED
        };
        for group in groups {
            let mark = &mut self.marks[*group as usize];
            if *mark & TOUCHED == 0 {
                *mark |= both;
                touched.push(*group);
            }
        }
    }

    /// The bundle that touched these groups is closed.
    pub(super) fn release(&mut self, touched: &[u32]) {
        for group in touched {
            self.marks[*group as usize] &= !TOUCHED;
        }
    }

    fn reach(&mut self, all: usize) {
        if self.marks.len() < all {
            self.marks.resize(all, 0);
        }
    }

    /// Only the groups `kept` stay, given ascending, and are numbered anew; `hashes` are those of all keys under the old numbers. No bundle
    /// is open.
    pub(super) fn keep(&mut self, kept: &[u32], hashes: &[u64]) {
        if self.marks.is_empty() {
            return;
        }
        let new = kept
            .iter()
            .map(|old| u8::from(self.take_one(*old)) * CHANGED);
        let marks = new.collect();
        let lost = self.take_groups();
        self.renumbered.extend(Groups::Ids(&lost).gather(hashes));
        self.marks = marks;
    }

    /// Whether a group has changed. It has not from now on.
    pub(super) fn take_one(&mut self, group: u32) -> bool {
        let Some(mark) = self.marks.get_mut(group as usize) else {
            return false;
        };
        let has_changed = *mark & CHANGED != 0;
        *mark &= !CHANGED;
        has_changed
    }

    /// A bit for each group, set for those that have changed, and the hashes of such that have no number here any more. None has changed then.
    pub(super) fn take_bits(&mut self) -> (Vec<u64>, Vec<u64>) {
        (self.take_marked(), std::mem::take(&mut self.renumbered))
    }

    /// Those of some hashes that were told of groups without a number. They are forgotten.
    pub(super) fn take_lost(&mut self, among: impl Fn(u64) -> bool) -> Vec<u64> {
        self.renumbered
            .extract_if(.., |hash| among(*hash))
            .collect()
    }

    /// The groups that have changed, ascending, and the hashes of those that have no number here any more. None has changed then.
    pub(super) fn take(&mut self) -> (Vec<u32>, Vec<u64>) {
        (self.take_groups(), std::mem::take(&mut self.renumbered))
    }

    fn take_groups(&mut self) -> Vec<u32> {
        set_in(&self.take_marked())
    }

    fn take_marked(&mut self) -> Vec<u64> {
        if !self.is_on {
            return Vec::new();
        }
        // The last eight may be fewer.
        self.marks.resize(self.marks.len().next_multiple_of(8), 0);
        let (eights, _) = self.marks.as_chunks_mut::<8>();
        let words = eights.chunks_mut(8).map(|eights| {
            let bits = eights.iter_mut().map(take_changed);
            bits.rev().fold(0, |word, bits| word << 8 | bits)
        });
        words.collect()
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.marks.capacity() + self.renumbered.capacity() * 8
    }
}

/// A bit for each of eight marks: whether the group has changed. None has from now on.
#[inline]
fn take_changed(marks: &mut [u8; 8]) -> u64 {
    let all = u64::from_le_bytes(*marks);
    let changed = all & (u64::MAX / 255 * u64::from(CHANGED));
    *marks = (all ^ changed).to_le_bytes();
    // The lowest bit of the n-th byte comes to the n-th bit of the highest byte.
    changed.wrapping_mul(0x0102_0408_1020_4080) >> 56
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

    #[test]
    fn every_group_has_its_bit() {
        let mut marks = ChangeMarks::default();
        marks.start();
        for groups in [1, 7, 8, 63, 64, 65, 200] {
            for group in 0..groups {
                marks.mark(&[group], groups as usize);
                assert_eq!(marks.take().0, [group]);
            }
            let all: Vec<u32> = (0..groups).collect();
            marks.mark(&all, groups as usize);
            assert_eq!(marks.take().0, all);
        }
    }

    #[test]
    fn a_bundle_touches_each_group_once_and_all_have_changed() {
        let mut marks = ChangeMarks::default();
        marks.start();
        let mut touched = vec![9];
        marks.touch(&[3, 1, 3], 4, &mut touched);
        marks.touch(&[1, 5], 6, &mut touched);
        assert_eq!(touched, [9, 3, 1, 5]);
        marks.release(&touched[1..]);
        assert_eq!(marks.take().0, [1, 3, 5]);
        touched.clear();
        marks.touch(&[5, 5], 6, &mut touched);
        assert_eq!(touched, [5], "another bundle");
    }
}
