//! Tells event time from a column of the rows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope};
use crate::expr::Expression;

/// Makes a column the event-time attribute and emits watermarks. Columns pass unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WatermarkAssignerNode {
    /// The event-time column of the input.
    pub column: usize,
    /// The watermark of a row, over the input.
    pub expression: Expression,
    /// The table, for messages.
    pub table: String,
    /// The name of the event-time column, for messages.
    pub column_name: String,
    /// `table.exec.source.idle-timeout` in milliseconds; 0: never. The table's own option wins.
    pub session_idle_timeout_ms: u64,
    /// The table's `scan.watermark.*` options.
    pub options: BTreeMap<String, String>,
    /// Whether an expression of the plan reads CURRENT_WATERMARK, so that no watermark step may be left out.
    pub keeps_all_steps: bool,
}

impl WatermarkAssignerNode {
    pub(crate) fn attributes(&self, _: &Scope) -> Attributes {
        vec![
            ("rowtime", self.column_name.clone()),
            ("watermark", self.expression.to_string()),
        ]
    }
}
