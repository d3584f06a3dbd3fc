//! The kinds of joins.

use serde::{Deserialize, Serialize};

/// The kinds of joins. SEMI and ANTI come from IN, EXISTS and their negations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum JoinKind {
    /// Only pairs.
    Inner,
    /// Pairs, and left rows without one.
    Left,
    /// Pairs, and right rows without one.
    Right,
    /// Pairs, and rows of either side without one.
    Full,
    /// Left rows with a pair.
    Semi,
    /// Left rows without one.
    Anti,
}

impl JoinKind {
    /// Whether left rows without a pair are emitted with NULLs for the right columns.
    pub fn keeps_left(self) -> bool {
        matches!(self, JoinKind::Left | JoinKind::Full)
    }

    /// Whether right rows without a pair are emitted with NULLs for the left columns.
    pub fn keeps_right(self) -> bool {
        matches!(self, JoinKind::Right | JoinKind::Full)
    }

    /// Whether only left columns are emitted: SEMI and ANTI.
    pub fn is_left_only(self) -> bool {
        matches!(self, JoinKind::Semi | JoinKind::Anti)
    }
}
