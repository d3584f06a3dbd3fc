//! How much snapshots have told, and when all is told anew instead of what changed: so that what lies in files does not outweigh by far what
//! it stands for, and nobody need read those files to merge them.

/// How many rows of changes may be told for each row of all.
pub const MOST_CHANGES: u64 = 2;

/// More state than this in memory is not copied at once, for the copy takes as much again.
const MOST_BYTES: usize = 1 << 30;

/// Counts rows of keyed tables and keys that are gone; see the file.
#[derive(Debug)]
pub(super) struct Volume {
    most_changes: u64,
    /// Of the last snapshot of all, or what was restored.
    whole: u64,
    /// Of all snapshots of changes since.
    changes: u64,
    /// Of the last one of these.
    last: u64,
    /// Whether the snapshot that was begun last is of all.
    is_whole: bool,
}

impl Volume {
    /// Nothing was told. `most_changes`: [`MOST_CHANGES`], or fewer in tests.
    pub(super) fn new(most_changes: u64) -> Self {
        Volume {
            most_changes,
            whole: 0,
            changes: 0,
            last: 0,
            is_whole: false,
        }
    }

    /// What was restored stands already.
    pub(super) fn restored(&mut self, rows: usize) {
        self.whole += rows as u64;
    }

    /// Whether all should be told, if the next changes are as many as the last ones. `state_bytes` is what all takes in memory.
    pub(super) fn asks_for_all(&self, state_bytes: usize) -> bool {
        state_bytes <= MOST_BYTES && self.changes + self.last > self.most_changes * self.whole
    }

    /// A snapshot begins: of all, or of changes, where the first ones are all that there is.
    pub(super) fn begin(&mut self, is_whole: bool) {
        self.is_whole = is_whole || (self.whole == 0 && self.changes == 0);
        self.last = 0;
        if self.is_whole {
            (self.whole, self.changes) = (0, 0);
        }
    }

    /// The snapshot has these rows as well, and keys that are gone.
    pub(super) fn add(&mut self, rows: usize, gone: usize) {
        if self.is_whole {
            self.whole += rows as u64;
        } else {
            let told = (rows + gone) as u64;
            self.changes += told;
            self.last += told;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(volume: &mut Volume, is_whole: bool, rows: usize) {
        volume.begin(is_whole);
        volume.add(rows, 0);
    }

    #[test]
    fn all_is_told_once_changes_would_outweigh_it_twice() {
        let mut volume = Volume::new(MOST_CHANGES);
        assert!(!volume.asks_for_all(0));
        told(&mut volume, false, 0);
        told(&mut volume, false, 100);
        for rows in [60, 70, 40] {
            assert!(!volume.asks_for_all(0));
            told(&mut volume, false, rows);
        }
        assert!(volume.asks_for_all(0), "170 and 40");
        assert!(!volume.asks_for_all(MOST_BYTES + 1));
        told(&mut volume, true, 120);
        assert!(!volume.asks_for_all(0));
    }

    #[test]
    fn what_was_restored_is_all_that_was_told() {
        let mut volume = Volume::new(MOST_CHANGES);
        volume.restored(10);
        told(&mut volume, false, 10);
        assert!(!volume.asks_for_all(0));
        told(&mut volume, false, 10);
        assert!(volume.asks_for_all(0), "20 and 10");
    }
}
