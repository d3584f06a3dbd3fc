//! Adds window_start, window_end and window_time to rows.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, columns, window};
use crate::window::WindowSpec;

/// Evaluates a window function by itself. TUMBLE, HOP and CUMULATE give a row for each window of each row at once and drop
/// no late rows; SESSION holds rows by its partition columns and gives them when their session closes.
/// Output: all input columns, window_start, window_end, window_time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WindowTableFunctionNode {
    /// Which windows.
    pub window: WindowSpec,
    /// The input column that tells the time.
    pub time_column: usize,
    /// SESSION: the columns of PARTITION BY.
    pub partition_by: Vec<usize>,
}

impl WindowTableFunctionNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let input = scope.input();
        let time = format!("time_col=[{}]", input.fields[self.time_column].name);
        let how = match &self.partition_by[..] {
            [] => time,
            keys => format!("{time}, partition keys=[{}]", columns(input, keys)),
        };
        vec![("window", window(&self.window, &how))]
    }
}
