//! The line that shows how a job gets on: rows per second, event time, late rows. Quiet unless a person looks.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use volley::runtime::{JobOutcome, Progress};
use volley::types::EventTime;

/// A line on standard error that is written over itself.
pub(crate) struct ProgressLine {
    enabled: bool,
    start: Instant,
    shown: Option<(Instant, u64)>,
    latest: Option<Progress>,
}

impl ProgressLine {
    /// `auto` (on a terminal), `always` or `never`.
    pub(crate) fn new(mode: &str) -> Self {
        let enabled = match mode {
            "always" => true,
            "never" => false,
            _ => std::io::stderr().is_terminal(),
        };
        ProgressLine {
            enabled,
            start: Instant::now(),
            shown: None,
            latest: None,
        }
    }

    /// Shows the newest numbers, a few times a second.
    pub(crate) fn show(&mut self, progress: &Progress) {
        const INTERVAL: Duration = Duration::from_millis(250);
        self.latest = Some(*progress);
        let (since, rows_before) = self.shown.unwrap_or((self.start, 0));
        if !self.enabled || since.elapsed() < INTERVAL {
            return;
        }
        // A job that was restarted counts anew.
        let rate = progress.rows.saturating_sub(rows_before) as f64 / since.elapsed().as_secs_f64();
        self.shown = Some((Instant::now(), progress.rows));
        let text = format!(
            "{} rows | {} rows/s | watermark {} | {} late",
            grouped(progress.rows),
            grouped(rate as u64),
            watermark(progress.watermark),
            grouped(progress.late_rows)
        );
        let _ = write!(std::io::stderr(), "\r\x1b[2K{text}");
        let _ = std::io::stderr().flush();
    }

    /// Whether a person looks.
    pub(crate) fn is_shown(&self) -> bool {
        self.enabled
    }

    /// Takes the line away.
    pub(crate) fn clear(&self) {
        if self.shown.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }

    /// Something that must be known, also off a terminal.
    pub(crate) fn note(&self, text: &str) {
        let _ = writeln!(std::io::stderr(), "{text}");
    }

    /// One last line that stays.
    pub(crate) fn summary(&self, outcome: JobOutcome) {
        let Some(progress) = self.latest.filter(|_| self.enabled) else {
            return;
        };
        let seconds = self.start.elapsed().as_secs_f64();
        let verb = if outcome == JobOutcome::Finished {
            "finished"
        } else {
            "stopped"
        };
        let rate = progress.rows as f64 / seconds.max(0.001);
        let _ = writeln!(
            std::io::stderr(),
            "{verb}: {} rows in {seconds:.2} s ({} rows/s), {} late rows",
            grouped(progress.rows),
            grouped(rate as u64),
            grouped(progress.late_rows)
        );
    }
}

fn watermark(watermark: EventTime) -> String {
    if watermark == EventTime::MIN {
        "-".to_string()
    } else {
        watermark.to_string()
    }
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let groups = digits.as_bytes()[first..]
        .chunks(3)
        .map(|group| String::from_utf8_lossy(group).into_owned());
    let head = (first > 0).then(|| digits[..first].to_string());
    head.into_iter().chain(groups).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!(
            [grouped(0), grouped(999), grouped(1000), grouped(1234567)],
            ["0", "999", "1,000", "1,234,567"]
        );
    }
}
