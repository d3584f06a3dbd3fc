//! How a table wants its watermarks: the `scan.watermark.*` options and the session's idle timeout.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::parse_duration;
use crate::error::{Error, Result};

const EMIT_STRATEGY: &str = "scan.watermark.emit.strategy";
const EMIT_ON_EVENT_GAP: &str = "scan.watermark.emit.on-event.gap";
const IDLE_TIMEOUT: &str = "scan.watermark.idle-timeout";
const ALIGNMENT: &str = "scan.watermark.alignment.";

/// How watermarks of a table are emitted and when its splits go idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatermarkStrategy {
    /// A split's watermark moves only at every n-th row of the split; 1: at every row.
    pub event_gap: u64,
    /// How long a split may be silent in processing time; `None`: for ever.
    pub idle_timeout: Option<Duration>,
}

impl Default for WatermarkStrategy {
    fn default() -> Self {
        WatermarkStrategy {
            event_gap: 1,
            idle_timeout: None,
        }
    }
}

impl WatermarkStrategy {
    /// Reads a table's options. `session_idle_timeout` is `table.exec.source.idle-timeout`; zero means never. Watermark
    /// alignment is refused.
    pub fn from_options(
        table: &str,
        options: &BTreeMap<String, String>,
        session_idle_timeout: Duration,
    ) -> Result<Self> {
        if let Some(key) = options.keys().find(|key| key.starts_with(ALIGNMENT)) {
            return Err(Error::unsupported(format!(
                "table \"{table}\": watermark alignment ('{key}')"
            ))
            .hint("remove the 'scan.watermark.alignment.*' options; splits are read as fast as they come"));
        }
        let idle_timeout = match options.get(IDLE_TIMEOUT) {
            Some(text) => {
                parse_duration(text).ok_or_else(|| malformed(table, IDLE_TIMEOUT, text))?
            }
            None => session_idle_timeout,
        };
        Ok(WatermarkStrategy {
            event_gap: event_gap(table, options)?,
            idle_timeout: Some(idle_timeout).filter(|timeout| !timeout.is_zero()),
        })
    }
}

fn event_gap(table: &str, options: &BTreeMap<String, String>) -> Result<u64> {
    let on_event = match options.get(EMIT_STRATEGY).map(String::as_str) {
        None | Some("on-periodic") => false,
        Some("on-event") => true,
        Some(other) => return Err(malformed(table, EMIT_STRATEGY, other)),
    };
    let gap = match options.get(EMIT_ON_EVENT_GAP) {
        None => 1,
        Some(text) => text
            .parse()
            .ok()
            .filter(|gap| *gap >= 1)
            .ok_or_else(|| malformed(table, EMIT_ON_EVENT_GAP, text))?,
    };
    Ok(if on_event { gap } else { 1 })
}

fn malformed(table: &str, key: &str, value: &str) -> Error {
    let hint = match key {
        EMIT_STRATEGY => "use 'on-periodic' or 'on-event'",
        EMIT_ON_EVENT_GAP => "use a whole number, at least 1",
        _ => "use a duration such as '30 s'",
    };
    Error::user(format!(
        "table \"{table}\": '{value}' is no value for the option '{key}'"
    ))
    .hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strategy(options: &[(&str, &str)]) -> Result<WatermarkStrategy> {
        let options = options
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect();
        WatermarkStrategy::from_options("t", &options, Duration::from_secs(7))
    }

    #[test]
    fn a_tables_idle_timeout_wins_over_the_sessions_and_zero_means_never() {
        assert_eq!(
            strategy(&[]).unwrap().idle_timeout,
            Some(Duration::from_secs(7))
        );
        assert_eq!(
            strategy(&[(IDLE_TIMEOUT, "3 s")]).unwrap().idle_timeout,
            Some(Duration::from_secs(3))
        );
        assert_eq!(
            strategy(&[(IDLE_TIMEOUT, "0 s")]).unwrap().idle_timeout,
            None
        );
    }

    #[test]
    fn the_gap_counts_only_on_event() {
        let gap = (EMIT_ON_EVENT_GAP, "5");
        assert_eq!(strategy(&[gap]).unwrap().event_gap, 1);
        assert_eq!(
            strategy(&[gap, (EMIT_STRATEGY, "on-event")])
                .unwrap()
                .event_gap,
            5
        );
        assert!(strategy(&[(EMIT_ON_EVENT_GAP, "0")]).is_err());
    }

    #[test]
    fn alignment_is_refused_by_name() {
        let error = strategy(&[("scan.watermark.alignment.group", "g")]).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("'scan.watermark.alignment.group'"),
            "{error}"
        );
    }
}
