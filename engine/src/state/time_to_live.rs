//! How long state is remembered: Flink's time to live, in processing time, refreshed by writes.

use crate::types::ProcessingTime;

/// `table.exec.state.ttl` of one state. What was last written `ttl` or longer ago is never returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeToLive {
    ttl_ms: i64,
}

impl TimeToLive {
    /// State that is never forgotten.
    pub const NEVER: TimeToLive = TimeToLive { ttl_ms: 0 };

    /// For so many milliseconds; 0: for ever.
    pub fn of_millis(ttl_ms: u64) -> Self {
        TimeToLive {
            ttl_ms: i64::try_from(ttl_ms).unwrap_or(i64::MAX),
        }
    }

    /// Whether state ever expires.
    pub fn is_enabled(self) -> bool {
        self.ttl_ms > 0
    }

    /// The time from which on state written now is gone, in milliseconds; `i64::MAX`: never.
    pub fn expiry(self, now: ProcessingTime) -> i64 {
        if self.is_enabled() {
            now.millis().saturating_add(self.ttl_ms)
        } else {
            i64::MAX
        }
    }

    /// Whether state with this expiry is gone.
    pub fn is_expired(expiry: i64, now: ProcessingTime) -> bool {
        expiry <= now.millis()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_gone_when_its_time_is_over() {
        let hour = TimeToLive::of_millis(3_600_000);
        let expiry = hour.expiry(ProcessingTime(1000));
        assert!(!TimeToLive::is_expired(expiry, ProcessingTime(3_600_999)));
        assert!(TimeToLive::is_expired(expiry, ProcessingTime(3_601_000)));
        let never = TimeToLive::NEVER.expiry(ProcessingTime(1000));
        assert!(!TimeToLive::is_expired(never, ProcessingTime(i64::MAX - 1)));
    }
}
