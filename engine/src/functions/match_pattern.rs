//! What MATCH_RECOGNIZE looks for: the pattern, where it goes on behind a match, and the values that conditions and measures
//! ask of the rows of a match. Shared by plans and operators.

use serde::{Deserialize, Serialize};

use super::AggregateCall;

/// A sequence of variables, each standing for rows that follow each other without a gap.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MatchPattern {
    /// The variables in the order of the pattern.
    pub steps: Vec<PatternStep>,
    /// Where to go on behind a match.
    pub after_match: AfterMatch,
    /// A match is shorter than so many milliseconds.
    pub within_ms: Option<i64>,
}

/// A variable with its quantifier.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PatternStep {
    /// Its name.
    pub variable: String,
    /// The fewest rows.
    pub least: u32,
    /// The most rows; `None`: any number.
    pub most: Option<u32>,
    /// Whether a row that may belong to it does, rather than to what follows.
    pub greedy: bool,
}

/// AFTER MATCH SKIP …; variables are positions in the pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AfterMatch {
    /// Matches do not overlap.
    PastLastRow,
    /// Every row may begin a match.
    ToNextRow,
    /// Go on at the first row of a variable.
    ToFirst(usize),
    /// Go on at the last row of a variable.
    ToLast(usize),
}

/// A value of the rows of a match, a column for conditions and measures. `variable`: the rows of this position of the pattern; `None`:
/// all rows. In a condition the row in question counts as one of its variable.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Navigation {
    /// A column of the row so many rows behind the first; NULL where there is none.
    First {
        /// Whose rows.
        variable: Option<usize>,
        /// Input column.
        column: usize,
        /// How many rows behind.
        offset: usize,
    },
    /// A column of the row so many rows before the last; NULL where there is none.
    Last {
        /// Whose rows.
        variable: Option<usize>,
        /// Input column.
        column: usize,
        /// How many rows before.
        offset: usize,
    },
    /// An aggregate over input columns.
    Aggregate {
        /// Whose rows.
        variable: Option<usize>,
        /// The aggregate.
        call: AggregateCall,
    },
}

impl Navigation {
    /// The input columns that it reads.
    pub fn columns(&self) -> Vec<usize> {
        match self {
            Navigation::First { column, .. } | Navigation::Last { column, .. } => vec![*column],
            Navigation::Aggregate { call, .. } => {
                call.arguments.iter().copied().chain(call.filter).collect()
            }
        }
    }

    /// The same over other columns: column `i` becomes `moved(i)`.
    pub fn map_columns(&self, moved: &dyn Fn(usize) -> usize) -> Navigation {
        let mut navigation = self.clone();
        match &mut navigation {
            Navigation::First { column, .. } | Navigation::Last { column, .. } => {
                *column = moved(*column)
            }
            Navigation::Aggregate { call, .. } => {
                call.arguments
                    .iter_mut()
                    .for_each(|column| *column = moved(*column));
                call.filter = call.filter.map(moved);
            }
        }
        navigation
    }
}
