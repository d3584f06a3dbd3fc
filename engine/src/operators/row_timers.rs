//! Rows that wait for a time: by time, then in order of arrival. A row may also leave before its time.
//!
//! The queue is a heap. What leaves early stays in it as an entry that no longer counts, until such entries are the greater part.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// In the column of places: the row does not wait.
const NOT_WAITING: u64 = u64::MAX;

/// See the module. Rows are the ids of a slab.
#[derive(Default)]
pub(super) struct RowTimers {
    heap: BinaryHeap<Reverse<(i64, u64, u32)>>,
    /// The place of each row in the order of arrival, by id.
    places: Vec<u64>,
    next_place: u64,
    /// How many entries are of rows that have left.
    left: usize,
}

impl RowTimers {
    /// Adds a row behind those that came before.
    pub(super) fn push(&mut self, time: i64, row: u32) {
        if self.places.len() <= row as usize {
            self.places.resize(row as usize + 1, NOT_WAITING);
        }
        self.places[row as usize] = self.next_place;
        self.heap.push(Reverse((time, self.next_place, row)));
        self.next_place += 1;
    }

    /// The time of the first row.
    pub(super) fn first_time(&self) -> Option<i64> {
        self.heap.peek().map(|Reverse((time, _, _))| *time)
    }

    /// Takes the first row out if its time is not after `last`; gives its time, too.
    pub(super) fn pop_until(&mut self, last: i64) -> Option<(i64, u32)> {
        if self.first_time()? > last {
            return None;
        }
        let Reverse((time, _, row)) = self.heap.pop()?;
        self.drop_left();
        Some((time, row))
    }

    /// The place of a row in the order of arrival: holds until its id is used again.
    pub(super) fn place(&self, row: u32) -> u64 {
        self.places[row as usize]
    }

    /// Takes rows out that wait.
    pub(super) fn remove(&mut self, rows: &[u32]) {
        for row in rows {
            self.places[*row as usize] = NOT_WAITING;
        }
        self.left += rows.len();
        if self.left * 2 > self.heap.len() {
            let places = &self.places;
            self.heap
                .retain(|Reverse((_, place, row))| places[*row as usize] == *place);
            self.left = 0;
        }
        self.drop_left();
    }

    /// The first entry is always of a row that waits.
    fn drop_left(&mut self) {
        while let Some(Reverse((_, place, row))) = self.heap.peek()
            && self.places[*row as usize] != *place
        {
            self.heap.pop();
            self.left -= 1;
        }
    }

    /// Bytes held.
    pub(super) fn size_bytes(&self) -> usize {
        self.heap.capacity() * size_of::<(i64, u64, u32)>() + self.places.capacity() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest(timers: &mut RowTimers) -> Vec<(i64, u32)> {
        std::iter::from_fn(|| timers.pop_until(i64::MAX)).collect()
    }

    #[test]
    fn rows_come_by_time_and_arrival_without_those_that_left() {
        let mut timers = RowTimers::default();
        for (time, row) in [(5, 0), (3, 1), (5, 2), (1, 3), (5, 4)] {
            timers.push(time, row);
        }
        timers.remove(&[3, 2]);
        assert_eq!(timers.first_time(), Some(3));
        assert_eq!(timers.pop_until(2), None);
        // Its id is used again.
        timers.push(4, 3);
        timers.push(5, 2);
        assert_eq!(rest(&mut timers), [(3, 1), (4, 3), (5, 0), (5, 4), (5, 2)]);
        assert_eq!(timers.first_time(), None);
    }

    #[test]
    fn entries_of_rows_that_left_are_dropped() {
        let mut timers = RowTimers::default();
        (0..1000).for_each(|row| timers.push(i64::from(row), row));
        timers.remove(&(1..900).collect::<Vec<u32>>());
        assert!(timers.heap.len() < 250);
        assert_eq!(rest(&mut timers).len(), 101);
    }
}
