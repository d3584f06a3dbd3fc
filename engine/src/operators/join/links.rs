//! The rows of each key as lists through columns indexed by row id: a row joins and leaves its list in constant time.

/// No row, or no end of a list.
pub(in crate::operators) const NONE: u32 = u32::MAX;

/// Doubly linked lists, one a group, in order of arrival.
#[derive(Debug, Default)]
pub(in crate::operators) struct Links {
    heads: Vec<u32>,
    tails: Vec<u32>,
    next: Vec<u32>,
    previous: Vec<u32>,
    groups: Vec<u32>,
}

impl Links {
    /// Makes room for ids and groups below these numbers.
    pub(in crate::operators) fn reserve(&mut self, ids: usize, groups: usize) {
        if self.next.len() < ids {
            self.next.resize(ids, NONE);
            self.previous.resize(ids, NONE);
            self.groups.resize(ids, NONE);
        }
        if self.heads.len() < groups {
            self.heads.resize(groups, NONE);
            self.tails.resize(groups, NONE);
        }
    }

    /// The first row of a group; `NONE` where there is none, or no such group.
    #[inline]
    pub(in crate::operators) fn first(&self, group: u32) -> u32 {
        self.heads.get(group as usize).copied().unwrap_or(NONE)
    }

    /// The row behind another one of its group.
    #[inline]
    pub(in crate::operators) fn next(&self, id: u32) -> u32 {
        self.next[id as usize]
    }

    /// Whether a group has no rows.
    pub(in crate::operators) fn is_empty(&self, group: u32) -> bool {
        self.first(group) == NONE
    }

    /// Adds a row at the end of a group's list.
    #[inline]
    pub(in crate::operators) fn link(&mut self, id: u32, group: u32) {
        let tail = std::mem::replace(&mut self.tails[group as usize], id);
        if tail == NONE {
            self.heads[group as usize] = id;
        } else {
            self.next[tail as usize] = id;
        }
        self.next[id as usize] = NONE;
        self.previous[id as usize] = tail;
        self.groups[id as usize] = group;
    }

    /// Takes a row out of its list.
    pub(in crate::operators) fn unlink(&mut self, id: u32) {
        let (previous, next) = (self.previous[id as usize], self.next[id as usize]);
        let group = self.groups[id as usize] as usize;
        if previous == NONE {
            self.heads[group] = next;
        } else {
            self.next[previous as usize] = next;
        }
        if next == NONE {
            self.tails[group] = previous;
        } else {
            self.previous[next as usize] = previous;
        }
    }

    /// The rows of a group in order.
    pub(in crate::operators) fn rows(&self, group: u32) -> impl Iterator<Item = u32> {
        let known = |id: &u32| *id != NONE;
        let first = Some(self.first(group)).filter(known);
        std::iter::successors(first, move |id| Some(self.next(*id)).filter(known))
    }

    /// Bytes held.
    pub(super) fn size_bytes(&self) -> usize {
        let by_row = self.next.capacity() + self.previous.capacity() + self.groups.capacity();
        (by_row + self.heads.capacity() + self.tails.capacity()) * size_of::<u32>()
    }

    /// Gives groups other numbers: that of `live[new]` becomes `new`; all others have no rows.
    pub(in crate::operators) fn renumber(&mut self, live: &[u32]) {
        let moved = |column: &[u32]| -> Vec<u32> {
            let of = |old: &u32| column.get(*old as usize).copied().unwrap_or(NONE);
            live.iter().map(of).collect()
        };
        self.heads = moved(&self.heads);
        self.tails = moved(&self.tails);
        for new in 0..live.len() as u32 {
            let mut id = self.first(new);
            while id != NONE {
                self.groups[id as usize] = new;
                id = self.next(id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_leave_from_everywhere_and_keep_their_order() {
        let mut links = Links::default();
        links.reserve(6, 2);
        for id in [3, 0, 5, 1] {
            links.link(id, 1);
        }
        links.link(2, 0);
        links.unlink(0);
        assert_eq!(links.rows(1).collect::<Vec<_>>(), [3, 5, 1]);
        links.unlink(3);
        links.unlink(1);
        links.link(4, 1);
        assert_eq!(links.rows(1).collect::<Vec<_>>(), [5, 4]);
        links.renumber(&[1]);
        assert_eq!(links.rows(0).collect::<Vec<_>>(), [5, 4]);
        links.unlink(5);
        links.unlink(4);
        assert!(links.is_empty(0) && links.is_empty(9));
    }
}
