//! Counters of a running job, by operator, and the few numbers of its progress line.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::status::JobStatus;
use crate::operators::{LatestTimes, OperatorMetrics};
use crate::types::EventTime;

/// The counters of all operators of a job.
#[derive(Default)]
pub struct JobMetrics {
    operators: Vec<(String, Arc<OperatorMetrics>)>,
    sources: Vec<Arc<SourceMetrics>>,
    checkpoints: Arc<CheckpointMetrics>,
    warnings: Mutex<Vec<String>>,
    status: Option<Arc<JobStatus>>,
}

/// The counters of a job's checkpoints, over all its attempts.
#[derive(Debug, Default)]
pub struct CheckpointMetrics {
    /// `numberOfCompletedCheckpoints`.
    pub number_completed: AtomicU64,
    /// `numberOfFailedCheckpoints`.
    pub number_failed: AtomicU64,
    /// `lastCheckpointDuration`, in milliseconds: from the trigger until it was durable.
    pub last_duration_ms: AtomicU64,
    /// `lastCheckpointSize`: bytes written for the last one.
    pub last_bytes: AtomicU64,
    /// `lastCheckpointFullSize`: bytes that the last one consists of.
    pub last_full_bytes: AtomicU64,
    /// How long the latest ones took, from the trigger until they were durable.
    pub durations: LatestTimes,
}

impl CheckpointMetrics {
    pub(crate) fn completed(&self, duration: Duration, bytes: u64, full_bytes: u64) {
        let millis = duration.as_millis() as u64;
        self.last_duration_ms.store(millis, Ordering::Relaxed);
        self.last_bytes.store(bytes, Ordering::Relaxed);
        self.last_full_bytes.store(full_bytes, Ordering::Relaxed);
        self.durations.record(duration.as_nanos() as u64);
    }

    /// The counters by Flink's names, and percentiles of the latest durations.
    fn report(&self) -> BTreeMap<String, f64> {
        let counters = [
            ("numberOfCompletedCheckpoints", &self.number_completed),
            ("numberOfFailedCheckpoints", &self.number_failed),
            ("lastCheckpointDuration", &self.last_duration_ms),
            ("lastCheckpointSize", &self.last_bytes),
            ("lastCheckpointFullSize", &self.last_full_bytes),
        ];
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        let counters = counters.map(|(name, counter)| (name.to_string(), value(counter)));
        let durations = percentiles("checkpointDurationMs", self.durations.all());
        counters.into_iter().chain(durations).collect()
    }

    pub(crate) fn failed(&self) {
        self.number_failed.fetch_add(1, Ordering::Relaxed);
    }
}

/// The counters of one subtask of a source.
#[derive(Debug)]
pub(crate) struct SourceMetrics {
    pub(crate) records: AtomicU64,
    pub(crate) watermark: AtomicI64,
}

/// How far a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Rows read by the sources.
    pub rows: u64,
    /// The lowest watermark of a source.
    pub watermark: EventTime,
    /// Late rows dropped.
    pub late_rows: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
}

impl JobMetrics {
    /// Counters for a new operator, shared by its subtasks under one name.
    pub(crate) fn operator(&mut self, name: &str) -> Arc<OperatorMetrics> {
        let metrics = Arc::new(OperatorMetrics::default());
        self.operators.push((name.to_string(), metrics.clone()));
        metrics
    }

    /// Counters for a new source subtask.
    pub(crate) fn source(&mut self) -> Arc<SourceMetrics> {
        let metrics = Arc::new(SourceMetrics {
            records: AtomicU64::new(0),
            watermark: AtomicI64::new(i64::MIN),
        });
        self.sources.push(metrics.clone());
        metrics
    }

    pub(crate) fn count_checkpoint(&self) {
        let completed = &self.checkpoints.number_completed;
        completed.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters of the job's checkpoints.
    pub fn checkpoints(&self) -> &CheckpointMetrics {
        &self.checkpoints
    }

    /// The longest time for which one operator instance stood still to give its state, in nanoseconds.
    pub fn longest_sync_pause_ns(&self) -> u64 {
        let longest = |(_, metrics): (&str, &OperatorMetrics)| {
            metrics.longest_snapshot_ns.load(Ordering::Relaxed)
        };
        self.operators().map(longest).max().unwrap_or(0)
    }

    /// All numbers by name, Flink's where it has one: sums over the operators, checkpoints, restarts, and as `checkpointSyncDurationMs` how
    /// long an operator instance stood still to give its state (percentiles of the latest barriers, all operators together).
    pub fn report(&self) -> BTreeMap<String, f64> {
        let of_operator = |(_, metrics): (&str, &OperatorMetrics)| metrics.snapshot_times.all();
        let pauses = self.operators().flat_map(of_operator).collect();
        let counters = self.totals().into_iter().chain(self.recovery());
        let counters = counters.map(|(name, value)| (name, value as f64));
        counters
            .chain(self.checkpoints.report())
            .chain(percentiles("checkpointSyncDurationMs", pauses))
            .collect()
    }

    pub(crate) fn warn(&self, warning: String) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.push(warning);
    }

    /// Counts for an attempt of this job: its checkpoints go on counting.
    pub(super) fn watch(&mut self, status: Arc<JobStatus>) {
        self.checkpoints = status.checkpoints().clone();
        self.status = Some(status);
    }

    /// How the job has been restarted, by Flink's metric names: `numRestarts` (and `fullRestarts`, the same), `uptime` and
    /// `downtime` in milliseconds. Empty where nothing restarts it.
    pub fn recovery(&self) -> BTreeMap<String, u64> {
        let Some(status) = &self.status else {
            return BTreeMap::new();
        };
        let overview = status.overview();
        BTreeMap::from([
            ("numRestarts".to_string(), overview.restarts),
            ("fullRestarts".to_string(), overview.restarts),
            ("uptime".to_string(), overview.uptime),
            ("downtime".to_string(), overview.downtime),
        ])
    }

    /// The counters by operator, in the order of the graph.
    pub fn operators(&self) -> impl Iterator<Item = (&str, &OperatorMetrics)> {
        self.operators
            .iter()
            .map(|(name, metrics)| (name.as_str(), &**metrics))
    }

    /// What somebody should know who watches the job, each once.
    pub fn new_warnings(&self) -> Vec<String> {
        let of_operator = |(name, metrics): (&str, &OperatorMetrics)| {
            let said = metrics.take_warnings().into_iter();
            let said = said.map(|warning| format!("warning: {name}: {warning}"));
            said.chain(metrics.waiting.warning(name))
                .collect::<Vec<_>>()
        };
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let own = std::mem::take(&mut *warnings).into_iter();
        let own = own.map(|warning| format!("warning: {warning}"));
        own.chain(self.operators().flat_map(of_operator)).collect()
    }

    /// The sums over all operators, by Flink's metric names.
    pub fn totals(&self) -> BTreeMap<String, u64> {
        let sum = |counter: fn(&OperatorMetrics) -> &AtomicU64| {
            self.operators
                .iter()
                .map(|(_, metrics)| counter(metrics).load(Ordering::Relaxed))
                .sum()
        };
        BTreeMap::from([
            (
                "numRecordsIn".to_string(),
                sum(|metrics| &metrics.records_in),
            ),
            (
                "numRecordsOut".to_string(),
                sum(|metrics| &metrics.records_out),
            ),
            (
                "numLateRecordsDropped".to_string(),
                sum(|metrics| &metrics.late_records_dropped),
            ),
            (
                "numNullRowTimeRecordsDropped".to_string(),
                sum(|metrics| &metrics.null_row_time_records_dropped),
            ),
        ])
    }

    /// The numbers of the progress line.
    pub fn progress(&self) -> Progress {
        let rows = self
            .sources
            .iter()
            .map(|source| source.records.load(Ordering::Relaxed))
            .sum();
        let watermark = self
            .sources
            .iter()
            .map(|source| source.watermark.load(Ordering::Relaxed))
            .min()
            .unwrap_or(i64::MIN);
        let late_rows = self
            .operators
            .iter()
            .map(|(_, metrics)| metrics.late_records_dropped.load(Ordering::Relaxed))
            .sum();
        Progress {
            rows,
            watermark: EventTime(watermark),
            late_rows,
            checkpoints: self.checkpoints.number_completed.load(Ordering::Relaxed),
        }
    }
}

/// `name.count`, and in milliseconds `name.p50`, `.p99` and `.max` of durations in nanoseconds; nothing of none.
fn percentiles(name: &str, mut nanos: Vec<u64>) -> BTreeMap<String, f64> {
    nanos.sort_unstable();
    let Some(last) = nanos.len().checked_sub(1) else {
        return BTreeMap::new();
    };
    // The lowest value that so many percent do not exceed.
    let at = |percent: usize| {
        let rank = (nanos.len() * percent).div_ceil(100).max(1);
        nanos[rank - 1] as f64 / 1e6
    };
    BTreeMap::from([
        (format!("{name}.count"), nanos.len() as f64),
        (format!("{name}.p50"), at(50)),
        (format!("{name}.p99"), at(99)),
        (format!("{name}.max"), nanos[last] as f64 / 1e6),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock::ManualClock;
    use crate::runtime::status::JobId;

    #[test]
    fn percentiles_are_values_that_so_many_do_not_exceed() {
        let hundred = percentiles("x", (1..=100).map(|ms| ms * 1_000_000).rev().collect());
        let values = ["x.count", "x.p50", "x.p99", "x.max"].map(|name| hundred[name]);
        assert_eq!(values, [100.0, 50.0, 99.0, 100.0]);
        let one = percentiles("x", vec![1_500_000]);
        assert_eq!([one["x.p50"], one["x.p99"], one["x.max"]], [1.5; 3]);
        assert!(percentiles("x", Vec::new()).is_empty());
    }

    #[test]
    fn the_report_has_checkpoints_and_pauses() {
        let mut metrics = JobMetrics::default();
        metrics.operator("a").snapshot_times.record(2_000_000);
        metrics.operator("b").snapshot_times.record(1_000_000);
        metrics
            .checkpoints
            .completed(Duration::from_millis(30), 5, 7);
        metrics.count_checkpoint();
        let report = metrics.report();
        assert_eq!(report["numberOfCompletedCheckpoints"], 1.0);
        assert_eq!(report["lastCheckpointFullSize"], 7.0);
        assert_eq!(report["checkpointDurationMs.max"], 30.0);
        assert_eq!(report["checkpointSyncDurationMs.count"], 2.0);
        assert_eq!(report["checkpointSyncDurationMs.max"], 2.0);
    }

    #[test]
    fn checkpoints_count_over_attempts_rows_do_not() {
        let clock = Arc::new(ManualClock::default());
        let status = Arc::new(JobStatus::new(JobId(1), "job", clock));
        let reports = [1.0, 2.0].map(|attempt| {
            let mut metrics = JobMetrics::default();
            metrics.operator("a").records_in.store(5, Ordering::Relaxed);
            metrics.watch(status.clone());
            metrics.count_checkpoint();
            (attempt, metrics.report())
        });
        for (attempt, report) in reports {
            assert_eq!(report["numberOfCompletedCheckpoints"], attempt);
            assert_eq!(report["numRecordsIn"], 5.0);
        }
    }
}
