//! What a row does to the table it belongs to, and the side array that says so for a whole batch.

use std::fmt;

use arrow::array::{Array, BooleanArray, UInt32Array};
use arrow::buffer::ScalarBuffer;
use serde::{Deserialize, Serialize};

/// The change that a row makes, with Flink's byte values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum RowKind {
    /// `+I`: a new row.
    Insert = 0,
    /// `-U`: the row before an update.
    UpdateBefore = 1,
    /// `+U`: the row after an update.
    UpdateAfter = 2,
    /// `-D`: the row is gone.
    Delete = 3,
}

impl RowKind {
    /// All four, in the order of their byte values.
    pub const ALL: [RowKind; 4] = [
        RowKind::Insert,
        RowKind::UpdateBefore,
        RowKind::UpdateAfter,
        RowKind::Delete,
    ];

    /// The kind of a byte value; `None` above 3.
    pub fn from_byte(byte: u8) -> Option<RowKind> {
        Self::ALL.get(byte as usize).copied()
    }

    /// Flink's two-character form: `+I`, `-U`, `+U`, `-D`.
    pub fn symbol(self) -> &'static str {
        ["+I", "-U", "+U", "-D"][self as usize]
    }

    /// The kind written as `+I`, `-U`, `+U` or `-D`.
    pub fn from_symbol(symbol: &str) -> Option<RowKind> {
        Self::ALL.into_iter().find(|kind| kind.symbol() == symbol)
    }

    /// Whether the row adds to its table (`+I`, `+U`) rather than takes from it.
    pub fn is_accumulate(self) -> bool {
        matches!(self, RowKind::Insert | RowKind::UpdateAfter)
    }

    /// +1 for `+I` and `+U`, -1 for `-U` and `-D`.
    pub fn weight(self) -> i64 {
        if self.is_accumulate() { 1 } else { -1 }
    }
}

impl fmt::Display for RowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.symbol())
    }
}

/// The kinds of the rows of a batch. Absent (the default) means that all are inserts, which costs nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RowKinds(Option<ScalarBuffer<u8>>);

impl RowKinds {
    /// All rows are `+I`.
    pub const INSERT_ONLY: RowKinds = RowKinds(None);

    /// The given kinds; stays absent where all of them are `+I`.
    pub fn new(kinds: &[RowKind]) -> Self {
        if kinds.iter().all(|kind| *kind == RowKind::Insert) {
            return RowKinds(None);
        }
        RowKinds(Some(kinds.iter().map(|kind| *kind as u8).collect()))
    }

    /// From Flink's byte values; bytes above 3 break a law of ours.
    pub fn from_bytes(bytes: ScalarBuffer<u8>) -> Self {
        debug_assert!(
            bytes.iter().all(|byte| *byte <= 3),
            "a row kind is a byte from 0 to 3"
        );
        RowKinds(Some(bytes))
    }

    /// Whether all rows are known to be inserts because no array is there.
    pub fn is_insert_only(&self) -> bool {
        self.0.is_none()
    }

    /// The byte values, `None` where all rows are inserts.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }

    /// The kind of one row.
    pub fn get(&self, row: usize) -> RowKind {
        match &self.0 {
            None => RowKind::Insert,
            Some(bytes) => RowKind::ALL[bytes[row] as usize],
        }
    }

    /// The kinds of rows `offset .. offset + length`, without a copy.
    pub fn slice(&self, offset: usize, length: usize) -> RowKinds {
        RowKinds(self.0.as_ref().map(|bytes| bytes.slice(offset, length)))
    }

    /// The kinds of the rows that `mask` keeps (NULL counts as false).
    pub fn filter(&self, mask: &BooleanArray) -> RowKinds {
        RowKinds(self.0.as_ref().map(|bytes| {
            bytes
                .iter()
                .enumerate()
                .filter(|(row, _)| mask.is_valid(*row) && mask.value(*row))
                .map(|(_, kind)| *kind)
                .collect()
        }))
    }

    /// The kinds of the rows at `indices`, in that order.
    pub fn take(&self, indices: &UInt32Array) -> RowKinds {
        RowKinds(self.0.as_ref().map(|bytes| {
            indices
                .values()
                .iter()
                .map(|row| bytes[*row as usize])
                .collect()
        }))
    }

    /// The kinds of several batches one after the other; `lengths` are their row counts.
    pub fn concat(parts: &[(&RowKinds, usize)]) -> RowKinds {
        if parts.iter().all(|(kinds, _)| kinds.is_insert_only()) {
            return RowKinds(None);
        }
        let mut bytes = Vec::with_capacity(parts.iter().map(|(_, length)| length).sum());
        for (kinds, length) in parts {
            match kinds.bytes() {
                Some(kinds) => bytes.extend_from_slice(kinds),
                None => bytes.resize(bytes.len() + length, RowKind::Insert as u8),
            }
        }
        RowKinds(Some(bytes.into()))
    }
}
