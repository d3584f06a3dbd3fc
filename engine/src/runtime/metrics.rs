//! Counters of a running job, by operator, and the few numbers of its progress line.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::operators::OperatorMetrics;
use crate::types::EventTime;

/// The counters of all operators of a job.
#[derive(Debug, Default)]
pub struct JobMetrics {
    operators: Vec<(String, Arc<OperatorMetrics>)>,
    sources: Vec<Arc<SourceMetrics>>,
    checkpoints: AtomicU64,
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
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
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
        self.operators().flat_map(of_operator).collect()
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
            checkpoints: self.checkpoints.load(Ordering::Relaxed),
        }
    }
}
