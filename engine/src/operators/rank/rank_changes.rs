//! What changes in the result of a Top-N: as it happens, or the net of a bundle.

use hashbrown::HashMap;
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use crate::types::RowKind;

/// No row.
pub(super) const NONE: u32 = u32::MAX;

/// One row that goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) kind: RowKind,
    /// The id of the row in the slab.
    pub(super) row: u32,
    pub(super) rank: u64,
    /// The input row that caused it.
    pub(super) cause: u32,
}

/// Collects changes.
pub(super) struct RankChanges {
    update_before: bool,
    changes: Vec<Change>,
    net: Option<NetChanges>,
}

/// The places of a result that a bundle touched, each with the rows before and after it.
#[derive(Default)]
struct NetChanges {
    places: Vec<NetPlace>,
    by_rank: HashMap<(u32, u64), usize, Xxh3DefaultBuilder>,
    by_row: HashMap<u32, usize, Xxh3DefaultBuilder>,
}

struct NetPlace {
    before: u32,
    after: u32,
    rank: u64,
}

impl RankChanges {
    pub(super) fn new(update_before: bool, is_net: bool) -> Self {
        RankChanges {
            update_before,
            changes: Vec::new(),
            net: is_net.then(NetChanges::default),
        }
    }

    /// How many changes wait.
    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    /// The changes so far; of a bundle, once it has ended.
    pub(super) fn take(&mut self) -> Vec<Change> {
        if let Some(net) = &mut self.net {
            for place in std::mem::take(net).places {
                if place.before != place.after {
                    self.write(place.before, place.after, place.rank, 0);
                }
            }
        }
        std::mem::take(&mut self.changes)
    }

    /// The row of a rank of a partition is now another one; [`NONE`]: there was or is none.
    pub(super) fn rank(&mut self, partition: u32, rank: u64, old: u32, new: u32, cause: u32) {
        match &mut self.net {
            Some(net) => net.rank(partition, rank, old, new),
            None => self.write(old, new, rank, cause),
        }
    }

    /// A row moves up: it takes this rank, and those down to its old one shift. `shifted` are the ranks that change, with the old
    /// and the new row of each; the last one is where the row was. It is taken back before it is given anew.
    pub(super) fn moves_up(
        &mut self,
        partition: u32,
        shifted: &[(u64, u32, u32)],
        start: u64,
        cause: u32,
    ) {
        let within = |rank: u64| rank >= start;
        if self.net.is_some() {
            for (rank, old, new) in shifted.iter().filter(|(rank, ..)| within(*rank)) {
                self.rank(partition, *rank, *old, *new, cause);
            }
            return;
        }
        let last = shifted.len() - 1;
        let mut push = |kind, row, rank| {
            if within(rank) && (self.update_before || kind == RowKind::UpdateAfter) {
                self.changes.push(Change {
                    kind,
                    row,
                    rank,
                    cause,
                });
            }
        };
        for (at, (rank, old, new)) in shifted.iter().enumerate() {
            if at < last {
                push(RowKind::UpdateBefore, *old, *rank);
            }
            if at == 0 {
                let (rank, old, _) = shifted[last];
                push(RowKind::UpdateBefore, old, rank);
            }
            push(RowKind::UpdateAfter, *new, *rank);
        }
    }

    /// A row leaves the result.
    pub(super) fn leave(&mut self, row: u32, cause: u32) {
        match &mut self.net {
            Some(net) => net.row(row, NONE),
            None => self.write(row, NONE, 0, cause),
        }
    }

    /// A row comes into the result.
    pub(super) fn enter(&mut self, row: u32, cause: u32) {
        match &mut self.net {
            Some(net) => net.enter(row),
            None => self.write(NONE, row, 0, cause),
        }
    }

    /// A row takes the place of another.
    pub(super) fn replace(&mut self, old: u32, new: u32, cause: u32) {
        match &mut self.net {
            Some(net) => net.row(old, new),
            None => self.write(old, new, 0, cause),
        }
    }

    fn write(&mut self, old: u32, new: u32, rank: u64, cause: u32) {
        let mut push = |kind, row| {
            self.changes.push(Change {
                kind,
                row,
                rank,
                cause,
            })
        };
        match (old, new) {
            (NONE, NONE) => {}
            (NONE, new) => push(RowKind::Insert, new),
            (old, NONE) => push(RowKind::Delete, old),
            (old, new) => {
                if self.update_before {
                    push(RowKind::UpdateBefore, old);
                }
                push(RowKind::UpdateAfter, new);
            }
        }
    }
}

impl NetChanges {
    fn push(&mut self, before: u32, after: u32, rank: u64) -> usize {
        self.places.push(NetPlace {
            before,
            after,
            rank,
        });
        self.places.len() - 1
    }

    fn rank(&mut self, partition: u32, rank: u64, old: u32, new: u32) {
        match self.by_rank.get(&(partition, rank)).copied() {
            Some(place) => self.places[place].after = new,
            None => {
                let place = self.push(old, new, rank);
                self.by_rank.insert((partition, rank), place);
            }
        }
    }

    /// `old`, which is in the result, leaves it or is replaced.
    fn row(&mut self, old: u32, new: u32) {
        let known = self.by_row.get(&old).copied();
        let place = match known.filter(|place| self.places[*place].after == old) {
            Some(place) => {
                self.places[place].after = new;
                place
            }
            None => self.push(old, new, 0),
        };
        self.by_row.insert(old, place);
        if new != NONE {
            self.by_row.insert(new, place);
        }
    }

    /// A row that left comes back to its place, if that is free.
    fn enter(&mut self, row: u32) {
        let known = self.by_row.get(&row).copied();
        let is_free = |place: &usize| {
            let place = &self.places[*place];
            place.before == row && place.after == NONE
        };
        let place = match known.filter(is_free) {
            Some(place) => {
                self.places[place].after = row;
                place
            }
            None => self.push(NONE, row, 0),
        };
        self.by_row.insert(row, place);
    }
}
