//! Which groups have changed since somebody asked last: a bit a group, set a batch at a time, and nothing where nobody asks.

use crate::state::Groups;

/// See the file.
#[derive(Default)]
pub(super) struct ChangeMarks {
    is_on: bool,
    bits: Vec<u64>,
    /// The hashes of changed groups that have another number since, or none.
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

    /// The groups get other numbers; `hashes` are those of their keys under the old ones.
    pub(super) fn renumber(&mut self, hashes: &[u64]) {
        let groups = self.take_groups();
        let hashes = Groups::Ids(&groups).gather(hashes);
        self.renumbered.extend(hashes);
        self.bits = Vec::new();
    }

    /// The marked groups, ascending, and the hashes of those that have no number here any more. No group is marked then.
    pub(super) fn take(&mut self) -> (Vec<u32>, Vec<u64>) {
        (self.take_groups(), std::mem::take(&mut self.renumbered))
    }

    fn take_groups(&mut self) -> Vec<u32> {
        let mut groups = Vec::new();
        for (word, bits) in self.bits.iter_mut().enumerate() {
            let mut rest = std::mem::take(bits);
            while rest != 0 {
                groups.push(word as u32 * 64 + rest.trailing_zeros());
                rest &= rest - 1;
            }
        }
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
        marks.mark(&[1], 2);
        marks.renumber(&[100, 101]);
        marks.mark(&[0], 1);
        assert_eq!(marks.take(), (vec![0], vec![101]));
    }
}
