//! When a silent split stops holding back the watermark.

use std::time::Duration;

use crate::types::ProcessingTime;

/// Counts the processing time since the last row. Without a timeout it never runs out.
#[derive(Debug, Clone)]
pub struct IdlenessTimer {
    timeout_ms: Option<i64>,
    last_row: Option<ProcessingTime>,
}

impl IdlenessTimer {
    /// A timer that starts at the first look at the clock. `None` and zero: never idle.
    pub fn new(timeout: Option<Duration>) -> Self {
        let timeout_ms = timeout
            .filter(|timeout| !timeout.is_zero())
            .map(|timeout| timeout.as_millis().clamp(1, i64::MAX as u128) as i64);
        IdlenessTimer {
            timeout_ms,
            last_row: None,
        }
    }

    /// A row came.
    pub fn on_row(&mut self, now: ProcessingTime) {
        self.last_row = Some(now);
    }

    /// Whether the timeout has passed without a row.
    pub fn is_idle(&mut self, now: ProcessingTime) -> bool {
        self.last_row.get_or_insert(now);
        self.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// When it will have passed, once the timer runs.
    pub fn deadline(&self) -> Option<ProcessingTime> {
        let since = self.last_row?.millis();
        self.timeout_ms
            .map(|timeout| ProcessingTime(since.saturating_add(timeout)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timer_starts_at_the_first_look_and_restarts_at_a_row() {
        let mut timer = IdlenessTimer::new(Some(Duration::from_millis(10)));
        assert_eq!(timer.deadline(), None);
        assert!(!timer.is_idle(ProcessingTime(100)));
        assert!(!timer.is_idle(ProcessingTime(109)));
        assert!(timer.is_idle(ProcessingTime(110)));
        timer.on_row(ProcessingTime(111));
        assert_eq!(timer.deadline(), Some(ProcessingTime(121)));
    }

    #[test]
    fn without_a_timeout_nothing_is_idle() {
        for timeout in [None, Some(Duration::ZERO)] {
            let mut timer = IdlenessTimer::new(timeout);
            assert!(!timer.is_idle(ProcessingTime(0)));
            assert!(!timer.is_idle(ProcessingTime(i64::MAX)));
        }
    }
}
