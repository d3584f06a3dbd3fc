//! The immutable description of a window, shared by plans and operators.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A windowing of a table, as written in SQL.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WindowSpec {
    /// Which windows.
    pub kind: WindowKind,
    /// Shifts the alignment, in milliseconds; may be negative. 0 for SESSION.
    pub offset_ms: i64,
    /// The clock.
    pub time: WindowTime,
}

/// The kinds of windows with their sizes in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WindowKind {
    /// Fixed windows side by side.
    Tumble {
        /// Length.
        size_ms: i64,
    },
    /// Windows that overlap (slide < size) or leave gaps (slide > size, legacy only).
    Hop {
        /// Distance between starts.
        slide_ms: i64,
        /// Length.
        size_ms: i64,
    },
    /// Windows that grow by steps from a common start to the maximum size.
    Cumulate {
        /// Growth.
        step_ms: i64,
        /// Length of the last.
        max_size_ms: i64,
    },
    /// Per key: rows at most `gap_ms` apart.
    Session {
        /// The pause that ends a session.
        gap_ms: i64,
    },
}

/// The clock by which rows fall into windows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WindowTime {
    /// Event time of a TIMESTAMP column: window bounds are in its wall clock.
    EventTimestamp,
    /// Event time of a TIMESTAMP_LTZ column: window bounds are wall clock in this time zone (an IANA name or an offset).
    EventInstant {
        /// `table.local-time-zone`.
        time_zone: String,
    },
    /// Processing time; window bounds are wall clock in this time zone.
    Processing {
        /// `table.local-time-zone`.
        time_zone: String,
    },
}

impl WindowTime {
    /// Whether windows fire by watermark.
    pub fn is_event_time(&self) -> bool {
        !matches!(self, WindowTime::Processing { .. })
    }

    /// The time zone of the window bounds; `None` where the column itself is wall clock.
    pub fn time_zone(&self) -> Option<&str> {
        match self {
            WindowTime::EventTimestamp => None,
            WindowTime::EventInstant { time_zone } | WindowTime::Processing { time_zone } => {
                Some(time_zone)
            }
        }
    }
}

impl fmt::Display for WindowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WindowKind::Tumble { size_ms } => write!(f, "TUMBLE(size=[{}])", interval(*size_ms)),
            WindowKind::Hop { slide_ms, size_ms } => write!(
                f,
                "HOP(size=[{}], slide=[{}])",
                interval(*size_ms),
                interval(*slide_ms)
            ),
            WindowKind::Cumulate {
                step_ms,
                max_size_ms,
            } => write!(
                f,
                "CUMULATE(max_size=[{}], step=[{}])",
                interval(*max_size_ms),
                interval(*step_ms)
            ),
            WindowKind::Session { gap_ms } => write!(f, "SESSION(gap=[{}])", interval(*gap_ms)),
        }
    }
}

/// A length of time as EXPLAIN and messages show it: `15 min`, `20 s`, `1.5 s` as `1500 ms`.
fn interval(ms: i64) -> String {
    [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "min"),
        (1_000, "s"),
    ]
    .into_iter()
    .find(|(unit, _)| ms != 0 && ms % unit == 0)
    .map_or(format!("{ms} ms"), |(unit, name)| {
        format!("{} {name}", ms / unit)
    })
}
