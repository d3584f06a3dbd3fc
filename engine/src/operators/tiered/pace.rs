//! How many keys are copied for a snapshot between two batches: enough that what rows find near the processor is not driven out time and
//! again, few enough that rows hardly wait.

use arrow::array::RecordBatch;

use crate::state::StateSnapshot;

/// What a key takes as long as nothing is known.
const KEY_BYTES: usize = 256;
/// Never more keys at once.
const MOST_KEYS: usize = 256 << 10;

/// See the file.
#[derive(Debug)]
pub(super) struct Pace {
    /// Bytes that are copied at once, about.
    bytes: usize,
    keys: usize,
}

impl Pace {
    pub(super) fn new(bytes: usize) -> Self {
        Pace {
            bytes,
            keys: (bytes / KEY_BYTES).clamp(1, MOST_KEYS),
        }
    }

    /// How many keys next.
    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    /// Learns from a piece how large keys are.
    pub(super) fn copied(&mut self, piece: &StateSnapshot) {
        let rows = piece.keyed_rows();
        let batches = piece.tables.values().flat_map(|table| &table.batches);
        let bytes: usize = batches.map(RecordBatch::get_array_memory_size).sum();
        if rows > 0 && bytes > 0 {
            self.keys = (self.bytes * rows / bytes).clamp(1, MOST_KEYS);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, StringArray, UInt64Array};

    use super::*;
    use crate::state::KEY_HASH_COLUMN;

    fn piece(keys: u64, text: usize) -> StateSnapshot {
        let hashes: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..keys));
        let text = vec!["x".repeat(text); keys as usize];
        let text: ArrayRef = Arc::new(StringArray::from(text));
        let batch = RecordBatch::try_from_iter([(KEY_HASH_COLUMN, hashes), ("t", text)]);
        let mut snapshot = StateSnapshot::default();
        snapshot.insert_keyed("t", vec![batch.unwrap()]);
        snapshot
    }

    #[test]
    fn large_keys_are_copied_a_few_at_a_time_and_small_ones_many() {
        let mut pace = Pace::new(1 << 20);
        assert_eq!(pace.keys(), 4 << 10);
        // Arrays may hold more room than they use.
        let about = |keys: usize, pace: &Pace| (keys / 2..=keys).contains(&pace.keys());
        pace.copied(&piece(1000, 100));
        assert!(about((1 << 20) / 100, &pace));
        pace.copied(&StateSnapshot::default());
        assert!(about((1 << 20) / 100, &pace));
        pace.copied(&piece(10, 100_000));
        assert!(about(10, &pace), "{pace:?}");
        pace.copied(&piece(10, 10_000_000));
        assert_eq!(pace.keys(), 1);
    }
}
