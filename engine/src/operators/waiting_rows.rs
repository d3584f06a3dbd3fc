//! How many rows a join holds back until both its inputs have come far enough, and which input keeps them waiting.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use crate::types::EventTime;

/// So many rows wait before anybody is told.
const MANY: i64 = 10_000;

/// Shared by the instances of one operator with two inputs.
#[derive(Debug)]
pub struct WaitingRows {
    rows: AtomicI64,
    inputs: OnceLock<[String; 2]>,
    /// How far each input has come, in milliseconds.
    watermarks: [AtomicI64; 2],
    told: AtomicBool,
}

impl Default for WaitingRows {
    fn default() -> Self {
        WaitingRows {
            rows: AtomicI64::new(0),
            inputs: OnceLock::new(),
            watermarks: [AtomicI64::new(i64::MIN), AtomicI64::new(i64::MIN)],
            told: AtomicBool::new(false),
        }
    }
}

impl WaitingRows {
    /// Names the tables behind the inputs.
    pub(crate) fn name_inputs(&self, names: &[String; 2]) {
        self.inputs.get_or_init(|| names.clone());
    }

    /// So many more rows wait, or fewer.
    pub(crate) fn add(&self, rows: i64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// How far each input has come.
    pub(crate) fn set_watermarks(&self, watermarks: [EventTime; 2]) {
        for (known, watermark) in self.watermarks.iter().zip(watermarks) {
            known.store(watermark.millis(), Ordering::Relaxed);
        }
    }

    /// Number of rows that wait.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed).max(0) as u64
    }

    /// A warning, once, where many rows wait for one input that is behind the other.
    pub fn warning(&self, operator: &str) -> Option<String> {
        let rows = self.rows.load(Ordering::Relaxed);
        let names = self.inputs.get()?;
        let [left, right] = [0, 1].map(|input: usize| {
            let watermark = self.watermarks[input].load(Ordering::Relaxed);
            EventTime(watermark)
        });
        if rows < MANY || left == right || self.told.swap(true, Ordering::Relaxed) {
            return None;
        }
        let input = usize::from(right < left);
        let side = ["left", "right"][input];
        let holds = match left.min(right) {
            EventTime::MIN => "has no watermark yet".to_string(),
            watermark => format!("holds the watermark at {watermark}"),
        };
        Some(format!(
            "warning: {operator} has buffered {rows} rows: its {side} input \"{}\" {holds}, \"{}\" has come to {}\n  hint: rows are joined when both \
             inputs have come to their time; where an input may be silent, set 'table.exec.source.idle-timeout'",
            names[input],
            names[1 - input],
            left.max(right),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_input_that_is_behind_is_named_once() {
        let waiting = WaitingRows::default();
        waiting.name_inputs(&["orders".to_string(), "prices".to_string()]);
        waiting.set_watermarks([EventTime(60_000), EventTime(9_999)]);
        waiting.add(9_999);
        assert_eq!(waiting.warning("TemporalJoin"), None, "not many");
        waiting.add(1);
        let text = waiting.warning("TemporalJoin").unwrap();
        assert!(
            text.starts_with(
                "warning: TemporalJoin has buffered 10000 rows: its right input \"prices\" holds the watermark at \
                 1970-01-01 00:00:09.999, \"orders\" has come to 1970-01-01 00:01:00.000"
            ),
            "{text}"
        );
        assert_eq!(waiting.warning("TemporalJoin"), None, "once");
    }
}
