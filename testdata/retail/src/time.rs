//! Points in time: seconds since 1970 UTC, written as `2026-08-15 02:14:29`.

use chrono::DateTime;

/// A second.
pub(crate) type Seconds = i64;

pub(crate) const MINUTE: Seconds = 60;
pub(crate) const HOUR: Seconds = 60 * MINUTE;
pub(crate) const DAY: Seconds = 24 * HOUR;

/// The upload day begins: 2026-08-15 00:00:00 UTC.
pub(crate) const UPLOAD_DAY: Seconds = 1_786_752_000;

/// `2026-08-15 02:14:29`.
pub(crate) fn text(time: Seconds) -> String {
    formatted(time, "%Y-%m-%d %H:%M:%S")
}

/// `20260815`.
pub(crate) fn compact_date(time: Seconds) -> String {
    formatted(time, "%Y%m%d")
}

fn formatted(time: Seconds, pattern: &str) -> String {
    DateTime::from_timestamp(time, 0)
        .map_or_else(String::new, |time| time.format(pattern).to_string())
}
