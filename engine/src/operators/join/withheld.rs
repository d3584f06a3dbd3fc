//! What the rows of one side owe the output of a mini-batch bundle: rows without a partner that come (or, of a semi join, go) once
//! the other side's changes are through, unless a new partner makes that void.

use hashbrown::HashMap;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use crate::types::RowKind;

/// See the module; by id of the row.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    order: Vec<u32>,
    due: HashMap<u32, (u32, RowKind), Xxh3DefaultBuilder>,
}

impl Withheld {
    /// Owes `copies` more of a row.
    pub(super) fn add(&mut self, id: u32, copies: u32, kind: RowKind) {
        let due = self.due.entry(id).or_insert_with(|| {
            self.order.push(id);
            (0, kind)
        });
        due.0 += copies;
    }

    /// How many copies of a row are due.
    pub(super) fn count(&self, id: u32) -> u32 {
        self.due.get(&id).map_or(0, |due| due.0)
    }

    /// Nothing is due of a row any more; says how many copies were.
    pub(super) fn void(&mut self, id: u32) -> u32 {
        self.due.remove(&id).map_or(0, |due| due.0)
    }

    /// One copy less is due, if any is.
    pub(super) fn void_one(&mut self, id: u32) -> bool {
        let Some(due) = self.due.get_mut(&id) else {
            return false;
        };
        due.0 -= 1;
        if due.0 == 0 {
            self.due.remove(&id);
        }
        true
    }

    /// All that is due, in order.
    pub(super) fn take(&mut self) -> Vec<(u32, u32, RowKind)> {
        let due = self.order.drain(..).filter_map(|id| {
            let (copies, kind) = self.due.remove(&id)?;
            Some((id, copies, kind))
        });
        due.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_void_is_not_due() {
        let mut withheld = Withheld::default();
        withheld.add(7, 2, RowKind::Insert);
        withheld.add(3, 1, RowKind::Insert);
        withheld.add(7, 1, RowKind::Insert);
        assert!(withheld.void_one(7) && withheld.void_one(3) && !withheld.void_one(3));
        assert_eq!(withheld.take(), [(7, 2, RowKind::Insert)]);
        withheld.add(7, 2, RowKind::Delete);
        assert_eq!((withheld.count(7), withheld.void(7)), (2, 2));
        assert!(withheld.take().is_empty());
    }
}
