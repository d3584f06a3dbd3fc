//! When an operator looks for state whose time is over: twice a time to live, so that memory follows what is remembered.

use crate::state::TimeToLive;
use crate::types::ProcessingTime;

/// The clock of such looks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sweep {
    every_ms: Option<i64>,
    next: i64,
}

impl Sweep {
    /// Never where state never expires.
    pub(super) fn new(time_to_live: TimeToLive) -> Self {
        let ttl_ms = time_to_live.expiry(ProcessingTime(0));
        Sweep {
            every_ms: time_to_live.is_enabled().then_some((ttl_ms / 2).max(1)),
            next: i64::MIN,
        }
    }

    /// Whether to look now; the next time is half a time to live later.
    pub(super) fn is_due(&mut self, now: ProcessingTime) -> bool {
        let Some(every_ms) = self.every_ms else {
            return false;
        };
        let due = now.millis() >= self.next;
        if due {
            self.next = now.millis().saturating_add(every_ms);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_time_to_live_lies_between_two_looks() {
        let mut sweep = Sweep::new(TimeToLive::of_millis(1000));
        assert!(sweep.is_due(ProcessingTime(0)));
        assert!(!sweep.is_due(ProcessingTime(499)));
        assert!(sweep.is_due(ProcessingTime(500)));
        assert!(!Sweep::new(TimeToLive::NEVER).is_due(ProcessingTime(i64::MAX)));
    }
}
