//! The only place that reads a clock: processing time is handed to everything else.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::types::ProcessingTime;

/// Tells the processing time.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> ProcessingTime;
}

/// The machine's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place that reads the system clock"
    )]
    fn now(&self) -> ProcessingTime {
        ProcessingTime(chrono::Utc::now().timestamp_millis())
    }
}

/// A clock that moves only when told to; it starts at 2024-01-01 00:00:00 UTC.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// Where it starts: 2024-01-01 00:00:00 UTC.
    pub const START: ProcessingTime = ProcessingTime(1_704_067_200_000);

    /// Moves it forward.
    pub fn advance_ms(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets it.
    pub fn set(&self, now: ProcessingTime) {
        self.0.store(now.millis(), Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        ManualClock(Arc::new(AtomicI64::new(Self::START.millis())))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> ProcessingTime {
        ProcessingTime(self.0.load(Ordering::SeqCst))
    }
}
