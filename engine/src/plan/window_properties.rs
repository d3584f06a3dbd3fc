//! Which columns of a relation carry the bounds of which window.
//!
//! Window aggregation, Top-N, deduplication and joins are recognised by these columns, however far above the window
//! function they stand.

use crate::window::{WindowColumn, WindowSpec};

/// The window columns of a node's output. A bound may be there several times, or not at all where it was projected away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WindowProperties {
    pub(crate) window: WindowSpec,
    pub(crate) starts: Vec<usize>,
    pub(crate) ends: Vec<usize>,
    pub(crate) times: Vec<usize>,
    /// Columns by which the rows fell into their windows; event-time order for deduplication.
    pub(crate) time_columns: Vec<usize>,
}

impl WindowProperties {
    /// Which window column this is.
    pub(crate) fn of(&self, column: usize) -> Option<WindowColumn> {
        if self.starts.contains(&column) {
            Some(WindowColumn::Start)
        } else if self.ends.contains(&column) {
            Some(WindowColumn::End)
        } else if self.times.contains(&column) {
            Some(WindowColumn::Time)
        } else {
            None
        }
    }

    /// The properties where column `i` becomes the columns `moved(i)`.
    pub(crate) fn map(&self, moved: &dyn Fn(usize) -> Vec<usize>) -> WindowProperties {
        let all = |columns: &[usize]| columns.iter().flat_map(|column| moved(*column)).collect();
        WindowProperties {
            window: self.window.clone(),
            starts: all(&self.starts),
            ends: all(&self.ends),
            times: all(&self.times),
            time_columns: all(&self.time_columns),
        }
    }

    /// What holds for rows of both: the same window in the same columns.
    pub(crate) fn intersection(&self, other: &WindowProperties) -> Option<WindowProperties> {
        let both = |left: &[usize], right: &[usize]| {
            left.iter()
                .copied()
                .filter(|column| right.contains(column))
                .collect()
        };
        (self.window == other.window).then(|| WindowProperties {
            window: self.window.clone(),
            starts: both(&self.starts, &other.starts),
            ends: both(&self.ends, &other.ends),
            times: both(&self.times, &other.times),
            time_columns: both(&self.time_columns, &other.time_columns),
        })
    }

    /// The columns of either side of a join, whose windows are equal.
    pub(crate) fn union(&self, other: &WindowProperties) -> WindowProperties {
        let all = |left: &[usize], right: &[usize]| [left, right].concat();
        WindowProperties {
            window: self.window.clone(),
            starts: all(&self.starts, &other.starts),
            ends: all(&self.ends, &other.ends),
            times: all(&self.times, &other.times),
            time_columns: all(&self.time_columns, &other.time_columns),
        }
    }
}
