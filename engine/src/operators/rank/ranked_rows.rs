//! The rows of one partition in their order, with their ranks.
//!
//! A list of sorted chunks: a small Top-N is one chunk, found by binary search and shifted in place; in a big one a change touches
//! one chunk and a rank is a sum of chunk lengths.

/// A chunk is split when it has more entries.
const CHUNK: usize = 1024;

/// A row with its key; entries of equal key are ordered by `tie`, which no two have in common.
#[derive(Debug, Clone)]
pub(super) struct RankedRow<K> {
    pub(super) key: K,
    pub(super) tie: u64,
    /// The id of the row in the slab.
    pub(super) row: u32,
}

/// See the module. Positions count from 0.
#[derive(Debug)]
pub(super) struct RankedRows<K> {
    first: Vec<RankedRow<K>>,
    more: Vec<Vec<RankedRow<K>>>,
    len: usize,
}

impl<K> Default for RankedRows<K> {
    fn default() -> Self {
        RankedRows {
            first: Vec::new(),
            more: Vec::new(),
            len: 0,
        }
    }
}

impl<K: Ord + Clone> RankedRows<K> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn last(&self) -> Option<&RankedRow<K>> {
        self.more.last().unwrap_or(&self.first).last()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &RankedRow<K>> {
        self.first.iter().chain(self.more.iter().flatten())
    }

    /// The id of the row at a position.
    pub(super) fn row(&self, position: usize) -> u32 {
        let (chunk, offset) = self.locate(position);
        self.chunk(chunk)[offset].row
    }

    /// The position of an entry, or where it would be.
    pub(super) fn position(&self, key: &K, tie: u64) -> usize {
        let (chunk, offset) = self.find(key, tie);
        self.before(chunk) + offset
    }

    /// Adds an entry and says where.
    pub(super) fn insert(&mut self, entry: RankedRow<K>) -> usize {
        let (chunk, offset) = self.find(&entry.key, entry.tie);
        let position = self.before(chunk) + offset;
        let entries = self.chunk_mut(chunk);
        entries.insert(offset, entry);
        if entries.len() > CHUNK {
            let half = entries.split_off(CHUNK / 2);
            self.more.insert(chunk, half);
        }
        self.len += 1;
        position
    }

    /// Takes the entry at a position out.
    pub(super) fn remove(&mut self, position: usize) -> RankedRow<K> {
        let (chunk, offset) = self.locate(position);
        let entries = self.chunk_mut(chunk);
        let entry = entries.remove(offset);
        if entries.capacity() > 64 && entries.len() * 4 < entries.capacity() {
            entries.shrink_to_fit();
        }
        if entries.is_empty() && !self.more.is_empty() {
            let next = self.more.remove(chunk.saturating_sub(1));
            if chunk == 0 {
                self.first = next;
            }
        }
        self.len -= 1;
        entry
    }

    /// Puts another row in the place of one.
    pub(super) fn replace_row(&mut self, position: usize, row: u32) {
        let (chunk, offset) = self.locate(position);
        self.chunk_mut(chunk)[offset].row = row;
    }

    fn chunk(&self, chunk: usize) -> &Vec<RankedRow<K>> {
        if chunk == 0 {
            &self.first
        } else {
            &self.more[chunk - 1]
        }
    }

    fn chunk_mut(&mut self, chunk: usize) -> &mut Vec<RankedRow<K>> {
        if chunk == 0 {
            &mut self.first
        } else {
            &mut self.more[chunk - 1]
        }
    }

    /// The number of entries in the chunks before one.
    fn before(&self, chunk: usize) -> usize {
        if chunk == 0 {
            return 0;
        }
        let between = self.more[..chunk - 1].iter().map(Vec::len);
        self.first.len() + between.sum::<usize>()
    }

    fn locate(&self, position: usize) -> (usize, usize) {
        assert!(position < self.len, "a position is below the length");
        let (mut chunk, mut offset) = (0, position);
        while offset >= self.chunk(chunk).len() {
            offset -= self.chunk(chunk).len();
            chunk += 1;
        }
        (chunk, offset)
    }

    fn find(&self, key: &K, tie: u64) -> (usize, usize) {
        let is_before = |entry: &RankedRow<K>| (&entry.key, entry.tie) < (key, tie);
        let ends_before = |entries: &Vec<RankedRow<K>>| entries.last().is_some_and(is_before);
        let chunk = if self.more.is_empty() || !ends_before(&self.first) {
            0
        } else {
            let passed = self.more.partition_point(ends_before);
            (passed + 1).min(self.more.len())
        };
        (chunk, self.chunk(chunk).partition_point(is_before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_agrees_with_a_sorted_vector() {
        let mut rows = RankedRows::default();
        let mut twin: Vec<(u64, u64)> = Vec::new();
        let mut state = 7u64;
        let mut next = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        for tie in 0..30_000u64 {
            if next(5) < 3 || twin.is_empty() {
                let key = next(500);
                let row = tie as u32;
                let expected = twin.partition_point(|entry| *entry < (key, tie));
                twin.insert(expected, (key, tie));
                assert_eq!(rows.insert(RankedRow { key, tie, row }), expected);
            } else {
                let position = next(twin.len() as u64) as usize;
                let (key, tie) = twin.remove(position);
                assert_eq!(rows.position(&key, tie), position);
                assert_eq!(rows.row(position), tie as u32);
                assert_eq!(rows.remove(position).tie, tie);
            }
            assert_eq!(rows.len(), twin.len());
        }
        let all: Vec<(u64, u64)> = rows.iter().map(|entry| (entry.key, entry.tie)).collect();
        assert_eq!(all, twin);
        while rows.len() > 0 {
            rows.remove(rows.len() / 2);
        }
        assert!(rows.last().is_none());
    }
}
