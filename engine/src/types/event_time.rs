//! Points in event time and in processing time, which must not be mixed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A point in event time, in milliseconds since 1970-01-01 00:00:00 (of the time attribute's own clock: wall clock for
/// TIMESTAMP, UTC for TIMESTAMP_LTZ). A watermark `W` says: no more rows with a time ≤ `W`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct EventTime(pub i64);

impl EventTime {
    /// Before any watermark was seen.
    pub const MIN: EventTime = EventTime(i64::MIN);
    /// The watermark at the end of bounded input: it closes every window.
    pub const MAX: EventTime = EventTime(i64::MAX);

    /// Milliseconds since the epoch.
    pub fn millis(self) -> i64 {
        self.0
    }
}

impl fmt::Display for EventTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            EventTime::MIN => write!(f, "none"),
            EventTime::MAX => write!(f, "end of input"),
            EventTime(millis) => match chrono::DateTime::from_timestamp_millis(millis) {
                Some(time) => write!(f, "{}", time.format("%Y-%m-%d %H:%M:%S%.3f")),
                None => write!(f, "{millis} ms"),
            },
        }
    }
}

/// A point in processing time: wall clock, in milliseconds since 1970-01-01 00:00:00 UTC. Always handed in by the
/// runtime's clock, never read from the system by an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProcessingTime(pub i64);

impl ProcessingTime {
    /// Milliseconds since the epoch, UTC.
    pub fn millis(self) -> i64 {
        self.0
    }
}
