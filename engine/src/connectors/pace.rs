//! How many rows of a generator are due by the clock.

use crate::types::ProcessingTime;

/// A rate in rows a second, measured from the first time it is asked. `None`: everything is due at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    rate_per_second: Option<u64>,
    started: Option<(u64, ProcessingTime)>,
}

impl Pace {
    pub(super) fn new(rate_per_second: Option<u64>) -> Self {
        Pace {
            rate_per_second,
            started: None,
        }
    }

    /// One past the last row number that is due, where `next` is the next to give.
    pub(super) fn limit(&mut self, next: u64, now: ProcessingTime) -> u64 {
        let Some(rate) = self.rate_per_second else {
            return u64::MAX;
        };
        let (first, since) = *self.started.get_or_insert((next, now));
        let elapsed_ms = (now.millis() - since.millis()).max(0) as u128;
        let due = (elapsed_ms * rate as u128 / 1000).min(u64::MAX as u128) as u64;
        first.saturating_add(due).saturating_add(1)
    }

    /// When row `number` is due.
    pub(super) fn due(&self, number: u64) -> Option<ProcessingTime> {
        let ((first, since), rate) = (self.started?, self.rate_per_second?);
        let elapsed_ms = (number.saturating_sub(first) as u128 * 1000).div_ceil(rate as u128);
        let elapsed_ms = elapsed_ms.min(i64::MAX as u128) as i64;
        Some(ProcessingTime(since.millis().saturating_add(elapsed_ms)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_due_exactly_when_the_limit_passes_it() {
        let mut pace = Pace::new(Some(300));
        let start = ProcessingTime(1_000);
        assert_eq!(pace.limit(7, start), 8);
        for number in 8..2_000 {
            let due = pace.due(number).unwrap();
            assert!(pace.limit(7, due) > number);
            assert!(pace.limit(7, ProcessingTime(due.millis() - 1)) <= number);
        }
    }
}
