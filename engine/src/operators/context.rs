//! What an operator is given: time, its place among the subtasks, counters.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::WaitingRows;
use crate::stream::KeyGroupRange;
use crate::types::{EventTime, ProcessingTime};

/// The surroundings of one operator instance during a call.
#[derive(Debug, Clone)]
pub struct Context {
    subtask: Subtask,
    watermark: EventTime,
    processing_time: ProcessingTime,
    awaits_answers: bool,
    metrics: Arc<OperatorMetrics>,
    /// The keys whose state changed though no row of theirs came; `None` where nobody asks.
    changed_keys: Option<Vec<u64>>,
}

/// Which of the parallel instances of an operator this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subtask {
    /// From 0.
    pub index: usize,
    /// How many there are.
    pub parallelism: usize,
    /// `pipeline.max-parallelism`: the number of key groups.
    pub max_parallelism: u16,
}

impl Subtask {
    /// The only instance, with 128 key groups.
    pub const SINGLE: Subtask = Subtask {
        index: 0,
        parallelism: 1,
        max_parallelism: 128,
    };

    /// The key groups that it owns.
    pub fn key_groups(&self) -> KeyGroupRange {
        KeyGroupRange::of_subtask(self.index, self.parallelism, self.max_parallelism)
    }
}

/// The latest of some durations, in nanoseconds.
#[derive(Debug, Default)]
pub struct LatestTimes(Mutex<VecDeque<u64>>);

impl LatestTimes {
    /// How many are kept.
    const KEPT: usize = 4096;

    /// Adds one.
    pub fn record(&self, nanos: u64) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if times.len() == Self::KEPT {
            times.pop_front();
        }
        times.push_back(nanos);
    }

    /// All that are kept, oldest first.
    pub fn all(&self) -> Vec<u64> {
        let times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        times.iter().copied().collect()
    }
}

/// Counters of one operator, shared by its instances; names are Flink's.
#[derive(Debug, Default)]
pub struct OperatorMetrics {
    /// `numRecordsIn`.
    pub records_in: AtomicU64,
    /// `numRecordsOut`.
    pub records_out: AtomicU64,
    /// `numLateRecordsDropped`.
    pub late_records_dropped: AtomicU64,
    /// `numNullRowTimeRecordsDropped`.
    pub null_row_time_records_dropped: AtomicU64,
    /// Rows that a join holds back.
    pub waiting: WaitingRows,
    /// The longest time that an instance took to give its state at a barrier, in nanoseconds.
    pub longest_snapshot_ns: AtomicU64,
    /// How long instances took for that lately.
    pub snapshot_times: LatestTimes,
    /// What went wrong and was got over, until somebody reads it.
    warnings: Mutex<Vec<String>>,
}

impl OperatorMetrics {
    /// Says something that whoever watches the job should know.
    pub fn warn(&self, warning: String) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.push(warning);
    }

    /// What was said since the last call.
    pub fn take_warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *warnings)
    }
}

impl Context {
    /// A context at the beginning of time.
    pub fn new(subtask: Subtask, metrics: Arc<OperatorMetrics>) -> Self {
        Context {
            subtask,
            watermark: EventTime::MIN,
            processing_time: ProcessingTime(0),
            awaits_answers: false,
            metrics,
            changed_keys: None,
        }
    }

    /// Notes that the state of the keys with these hashes changed, though no row of theirs has come: time made them act. An operator with
    /// keyed state must tell.
    #[inline]
    pub fn keys_changed(&mut self, hashes: &[u64]) {
        if let Some(changed) = &mut self.changed_keys {
            changed.extend_from_slice(hashes);
        }
    }

    /// Whether anybody asks for [`Context::keys_changed`].
    pub fn tracks_changed_keys(&self) -> bool {
        self.changed_keys.is_some()
    }

    /// Has changed keys noted from now on; called by who takes incremental snapshots.
    pub fn track_changed_keys(&mut self) {
        self.changed_keys.get_or_insert_default();
    }

    /// The noted keys since the last call.
    pub fn take_changed_keys(&mut self) -> Vec<u64> {
        self.changed_keys
            .as_mut()
            .map(std::mem::take)
            .unwrap_or_default()
    }

    /// Which instance this is.
    pub fn subtask(&self) -> Subtask {
        self.subtask
    }

    /// The operator's event time: the minimum over its inputs.
    pub fn watermark(&self) -> EventTime {
        self.watermark
    }

    /// Moves the operator's event time forward; called by the runtime, and by operators of time at a watermark step.
    pub fn advance_watermark(&mut self, watermark: EventTime) {
        assert!(
            watermark >= self.watermark,
            "watermark went back from {} to {watermark}",
            self.watermark
        );
        self.watermark = watermark;
    }

    /// The clock, read once a call.
    pub fn processing_time(&self) -> ProcessingTime {
        self.processing_time
    }

    /// Hands in the clock's reading; called by the runtime before each call.
    pub fn set_processing_time(&mut self, now: ProcessingTime) {
        self.processing_time = now;
    }

    /// Whether what is asked of the world outside is waited for at once, so that a run can be run again.
    pub fn awaits_answers(&self) -> bool {
        self.awaits_answers
    }

    /// Has answers waited for; called by the runtime where the clock stands still between two steps.
    pub fn await_answers(&mut self) {
        self.awaits_answers = true;
    }

    /// The operator's counters.
    pub fn metrics(&self) -> &OperatorMetrics {
        &self.metrics
    }
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}
