//! Marks where mini-batch bundles end.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope};

/// Thins out watermarks to one an interval, at which bundles are flushed. Output: all input columns.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MiniBatchAssignerNode {
    /// `table.exec.mini-batch.allow-latency`, milliseconds.
    pub interval_ms: u64,
    /// Whether intervals are of event time; else of processing time.
    pub is_event_time: bool,
}

impl MiniBatchAssignerNode {
    pub(crate) fn attributes(&self, _: &Scope) -> Attributes {
        let mode = if self.is_event_time {
            "RowTime"
        } else {
            "ProcTime"
        };
        vec![
            ("interval", format!("{}ms", self.interval_ms)),
            ("mode", mode.to_string()),
        ]
    }
}
