//! Which kinds of rows an edge of a plan may carry.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::RowKind;

/// A set of row kinds. Printed as `EXPLAIN CHANGELOG_MODE` does: `I`, `I,UA`, `I,UB,UA,D`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChangelogMode(u8);

impl ChangelogMode {
    /// Only `+I`.
    pub const INSERT_ONLY: ChangelogMode = ChangelogMode(0b0001);
    /// All four kinds: every update is a pair, every removal a full row.
    pub const RETRACT: ChangelogMode = ChangelogMode(0b1111);
    /// `+I`, `+U` and `-D`: updates by key, no row before the update.
    pub const UPSERT: ChangelogMode = ChangelogMode(0b1101);

    /// The set of the given kinds.
    pub fn of(kinds: &[RowKind]) -> Self {
        ChangelogMode(kinds.iter().fold(0, |set, kind| set | 1 << *kind as u8))
    }

    /// Whether rows of this kind may come.
    pub fn contains(self, kind: RowKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Whether nothing but `+I` may come.
    pub fn is_insert_only(self) -> bool {
        self == Self::INSERT_ONLY
    }

    /// The kinds of both.
    pub fn union(self, other: ChangelogMode) -> Self {
        ChangelogMode(self.0 | other.0)
    }

    /// The same without one kind.
    pub fn without(self, kind: RowKind) -> Self {
        ChangelogMode(self.0 & !(1 << kind as u8))
    }
}

impl fmt::Display for ChangelogMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (RowKind::Insert, "I"),
            (RowKind::UpdateBefore, "UB"),
            (RowKind::UpdateAfter, "UA"),
            (RowKind::Delete, "D"),
        ];
        let present: Vec<&str> = names
            .into_iter()
            .filter(|(kind, _)| self.contains(*kind))
            .map(|(_, name)| name)
            .collect();
        f.write_str(&present.join(","))
    }
}
