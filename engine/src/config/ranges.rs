//! The bounds of session options: what has the form of an option and still is no value of it, whether anything uses the option or not.

use std::time::Duration;

use super::{parse_duration, parse_memory_bytes};
use crate::error::{Error, Result};

/// Which values an option may have.
#[derive(Debug, Clone, Copy)]
enum Range {
    /// From, to.
    Integers(i64, i64),
    /// From, to.
    Numbers(f64, f64),
    /// All that are greater.
    NumbersAbove(f64),
    /// At least so long.
    Times(Duration),
    /// From, to, in bytes.
    Sizes(usize, usize),
}

const MILLISECOND: Duration = Duration::from_millis(1);

/// The options whose values have bounds.
const RANGES: &[(&str, Range)] = &[
    ("parallelism.default", Range::Integers(1, 32768)),
    ("pipeline.max-parallelism", Range::Integers(1, 32768)),
    ("volley.batch.rows", Range::Integers(1, 1 << 20)),
    ("volley.batch.bytes", Range::Sizes(1, usize::MAX)),
    ("volley.exchange.queue-bytes", Range::Sizes(1, usize::MAX)),
    (
        "table.optimizer.distinct-agg.split.bucket-num",
        Range::Integers(1, i32::MAX as i64),
    ),
    (
        "table.exec.async-lookup.buffer-capacity",
        Range::Integers(1, i64::MAX),
    ),
    ("table.exec.async-lookup.timeout", Range::Times(MILLISECOND)),
    ("sink.committer.retries", Range::Integers(0, i64::MAX)),
    ("execution.checkpointing.timeout", Range::Times(MILLISECOND)),
    (
        "execution.checkpointing.num-retained",
        Range::Integers(1, i64::MAX),
    ),
    (
        "execution.checkpointing.tolerable-failed-checkpoints",
        Range::Integers(0, i64::MAX),
    ),
    ("state.backend.memory", Range::Sizes(1, usize::MAX)),
    (
        "state.backend.rocksdb.memory.write-buffer-ratio",
        Range::Numbers(0.0, 1.0),
    ),
    ("state.backend.rocksdb.thread.num", Range::Integers(1, 64)),
    (
        "state.backend.rocksdb.block.blocksize",
        Range::Sizes(1 << 10, 1 << 20),
    ),
    (
        "state.backend.rocksdb.bloom-filter.bits-per-key",
        Range::Numbers(1.0, 100.0),
    ),
    (
        "restart-strategy.fixed-delay.attempts",
        Range::Integers(0, i64::MAX),
    ),
    (
        "restart-strategy.failure-rate.max-failures-per-interval",
        Range::Integers(1, i64::MAX),
    ),
    (
        "restart-strategy.failure-rate.failure-rate-interval",
        Range::Times(MILLISECOND),
    ),
    (
        "restart-strategy.exponential-delay.initial-backoff",
        Range::Times(MILLISECOND),
    ),
    (
        "restart-strategy.exponential-delay.max-backoff",
        Range::Times(MILLISECOND),
    ),
    (
        "restart-strategy.exponential-delay.backoff-multiplier",
        Range::NumbersAbove(1.0),
    ),
    (
        "restart-strategy.exponential-delay.reset-backoff-threshold",
        Range::Times(MILLISECOND),
    ),
    (
        "restart-strategy.exponential-delay.jitter-factor",
        Range::Numbers(0.0, 1.0),
    ),
];

/// Checks a value that has the form of its option.
pub(super) fn check_range(key: &str, value: &str) -> Result<()> {
    let range = RANGES.iter().find(|(name, _)| *name == key);
    match range {
        Some((_, range)) if !range.holds(value) => Err(Error::user(format!(
            "'{value}' is no value for the option '{key}' of the session: it must be {}",
            range.text()
        ))),
        _ => Ok(()),
    }
}

impl Range {
    fn holds(self, value: &str) -> bool {
        let number = || value.parse::<f64>().ok();
        let held = match self {
            Range::Integers(least, most) => {
                let number = value.parse::<i64>().ok();
                number.map(|number| (least..=most).contains(&number))
            }
            Range::Numbers(least, most) => number().map(|number| (least..=most).contains(&number)),
            Range::NumbersAbove(bound) => number().map(|number| number > bound),
            Range::Times(least) => parse_duration(value).map(|time| time >= least),
            Range::Sizes(least, most) => {
                parse_memory_bytes(value).map(|bytes| (least..=most).contains(&bytes))
            }
        };
        held.unwrap_or(false)
    }

    fn text(self) -> String {
        match self {
            Range::Integers(least, i64::MAX) => format!("at least {least}"),
            Range::Integers(least, most) => format!("from {least} to {most}"),
            Range::Numbers(least, most) => format!("from {least} to {most}"),
            Range::NumbersAbove(bound) => format!("above {bound}"),
            Range::Times(least) => format!("at least {} ms", least.as_millis()),
            Range::Sizes(least, usize::MAX) => format!("at least {}", size(least)),
            Range::Sizes(least, most) => format!("from {} to {}", size(least), size(most)),
        }
    }
}

/// `4 kb`.
fn size(bytes: usize) -> String {
    match bytes {
        1 => "1 byte".to_string(),
        bytes if bytes.is_multiple_of(1 << 20) => format!("{} mb", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{} kb", bytes >> 10),
        bytes => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{SESSION_OPTIONS, SessionConfig};

    fn refused(key: &str, value: &str) -> String {
        let set = SessionConfig::default().set(key, value);
        set.unwrap_err().to_string()
    }

    #[test]
    fn values_out_of_bounds_are_refused_when_they_are_set() {
        for (key, value, bounds) in [
            ("parallelism.default", "0", "from 1 to 32768"),
            ("volley.batch.rows", "-5", "from 1 to 1048576"),
            ("pipeline.max-parallelism", "40000", "from 1 to 32768"),
            ("execution.checkpointing.timeout", "0 s", "at least 1 ms"),
            ("execution.checkpointing.timeout", "10 us", "at least 1 ms"),
            ("table.exec.async-lookup.timeout", "0", "at least 1 ms"),
            ("table.exec.async-lookup.buffer-capacity", "0", "at least 1"),
            ("sink.committer.retries", "-1", "at least 0"),
            ("volley.exchange.queue-bytes", "0 mb", "at least 1 byte"),
            ("state.backend.memory", "0", "at least 1 byte"),
            ("state.backend.rocksdb.thread.num", "0", "from 1 to 64"),
            (
                "state.backend.rocksdb.memory.write-buffer-ratio",
                "2",
                "from 0 to 1",
            ),
            (
                "state.backend.rocksdb.memory.write-buffer-ratio",
                "NaN",
                "from 0 to 1",
            ),
            (
                "state.backend.rocksdb.block.blocksize",
                "100",
                "from 1 kb to 1 mb",
            ),
            (
                "restart-strategy.exponential-delay.backoff-multiplier",
                "1",
                "above 1",
            ),
        ] {
            let error = refused(key, value);
            assert!(
                error.contains(&format!("'{key}'")) && error.contains(bounds),
                "{error}"
            );
        }
        let mut config = SessionConfig::default();
        config.set("parallelism.default", "2").unwrap();
        let timeout = "execution.checkpointing.timeout";
        config.set(timeout, "1 ms").unwrap();
    }

    #[test]
    fn bounds_are_of_options_that_there_are_and_hold_for_their_defaults() {
        for (key, range) in RANGES {
            let option = SESSION_OPTIONS.iter().find(|option| option.key == *key);
            let default = option.unwrap().default.unwrap();
            assert!(range.holds(default), "{key}");
        }
    }
}
