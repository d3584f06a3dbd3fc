//! A place in a SQL text.

use serde::{Deserialize, Serialize};

/// Line and column in a SQL text, both counted from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SqlPosition {
    /// The line, from 1.
    pub line: u64,
    /// The column in characters, from 1.
    pub column: u64,
}

impl SqlPosition {
    /// The first character of a text.
    pub const START: SqlPosition = SqlPosition { line: 1, column: 1 };

    /// This position inside a text that itself begins at `start` of a larger text, as a position in the larger text.
    pub fn after(self, start: SqlPosition) -> SqlPosition {
        let column = if self.line == 1 {
            start.column + self.column - 1
        } else {
            self.column
        };
        SqlPosition {
            line: start.line + self.line - 1,
            column,
        }
    }
}
