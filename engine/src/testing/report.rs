//! What a run of test files came to: for people, for exit codes, and as JUnit XML for machines.

use std::fmt;
use std::path::{Path, PathBuf};

use super::case::Certainty;
use super::ways::Way;
use crate::error::{Error, Result};

/// The outcomes of all cases in all ways.
#[derive(Debug, Clone, Default)]
pub struct TestReport {
    /// One a case, variant and way, in the order in which they ran.
    pub outcomes: Vec<CaseOutcome>,
    /// Where random cuts came from; `--seed` repeats them.
    pub seed: u64,
}

/// What one case came to in one way.
#[derive(Debug, Clone)]
pub struct CaseOutcome {
    /// The file.
    pub file: PathBuf,
    /// The line at which the case begins.
    pub line: usize,
    /// Its name, with what was varied.
    pub name: String,
    /// The way.
    pub way: Way,
    /// For people.
    pub why: Option<String>,
    /// How sure the expected result is.
    pub certainty: Option<Certainty>,
    /// What it came to.
    pub status: CaseStatus,
}

/// What one case came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CaseStatus {
    /// As expected.
    Passed,
    /// Not as expected, and how.
    Failed(String),
    /// Not run, and why.
    Skipped(String),
}

impl TestReport {
    /// How many passed.
    pub fn passed(&self) -> usize {
        self.count(|status| matches!(status, CaseStatus::Passed))
    }

    /// How many failed.
    pub fn failed(&self) -> usize {
        self.count(|status| matches!(status, CaseStatus::Failed(_)))
    }

    /// How many could not be run.
    pub fn skipped(&self) -> usize {
        self.count(|status| matches!(status, CaseStatus::Skipped(_)))
    }

    fn count(&self, is: impl Fn(&CaseStatus) -> bool) -> usize {
        self.outcomes
            .iter()
            .filter(|outcome| is(&outcome.status))
            .count()
    }

    /// 0 where nothing failed, 1 otherwise.
    pub fn exit_code(&self) -> i32 {
        i32::from(self.failed() > 0)
    }

    /// Writes the report as JUnit XML: a suite a file, a case a case, variant and way.
    pub fn write_junit(&self, path: &Path) -> Result<()> {
        std::fs::write(path, self.junit())
            .map_err(|error| Error::external(format!("cannot write {}: {error}", path.display())))
    }

    fn junit(&self) -> String {
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        xml += &format!(
            "<testsuites tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n",
            self.outcomes.len(),
            self.failed(),
            self.skipped()
        );
        for suite in self.outcomes.chunk_by(|a, b| a.file == b.file) {
            xml += &suite_xml(suite);
        }
        xml + "</testsuites>\n"
    }
}

fn suite_xml(outcomes: &[CaseOutcome]) -> String {
    let file = escape(&outcomes[0].file.display().to_string());
    let part = TestReport {
        outcomes: outcomes.to_vec(),
        seed: 0,
    };
    let mut xml = format!(
        "  <testsuite name=\"{file}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">\n",
        outcomes.len(),
        part.failed(),
        part.skipped()
    );
    for outcome in outcomes {
        let name = escape(&format!("{} ({})", outcome.name, outcome.way.name()));
        let case = format!(
            "    <testcase name=\"{name}\" classname=\"{file}\" line=\"{}\"",
            outcome.line
        );
        xml += &match &outcome.status {
            CaseStatus::Passed => format!("{case}/>\n"),
            CaseStatus::Failed(message) => {
                let first = escape(message.lines().next().unwrap_or_default());
                let all = escape(message);
                format!(
                    "{case}>\n      <failure message=\"{first}\">{all}</failure>\n    </testcase>\n"
                )
            }
            CaseStatus::Skipped(reason) => {
                let reason = escape(reason);
                format!("{case}>\n      <skipped message=\"{reason}\"/>\n    </testcase>\n")
            }
        };
    }
    xml + "  </testsuite>\n"
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            // XML 1.0 has no way to write other control characters.
            c if c.is_control() && !matches!(c, '\n' | '\t' | '\r') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Failures at full length, each once with the ways in which it came, then the counts.
impl fmt::Display for TestReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let same_case = |a: &CaseOutcome, b: &CaseOutcome| a.file == b.file && a.name == b.name;
        for outcomes in self.outcomes.chunk_by(same_case) {
            write_failures(f, outcomes)?;
        }
        let mut skipped: Vec<(&str, usize)> = Vec::new();
        for outcome in &self.outcomes {
            if let CaseStatus::Skipped(reason) = &outcome.status {
                match skipped.iter_mut().find(|(other, _)| other == reason) {
                    Some((_, count)) => *count += 1,
                    None => skipped.push((reason, 1)),
                }
            }
        }
        for (reason, count) in skipped {
            writeln!(f, "skipped {count}: {reason}")?;
        }
        write!(
            f,
            "{} passed, {} failed, {} skipped (seed {})",
            self.passed(),
            self.failed(),
            self.skipped(),
            self.seed
        )
    }
}

fn write_failures(f: &mut fmt::Formatter<'_>, outcomes: &[CaseOutcome]) -> fmt::Result {
    let mut shown: Vec<(&str, Vec<&str>)> = Vec::new();
    for outcome in outcomes {
        if let CaseStatus::Failed(message) = &outcome.status {
            match shown.iter_mut().find(|(other, _)| other == message) {
                Some((_, ways)) => ways.push(outcome.way.name()),
                None => shown.push((message, vec![outcome.way.name()])),
            }
        }
    }
    let first = &outcomes[0];
    for (message, ways) in shown {
        let place = format!("{}:{}", first.file.display(), first.line);
        writeln!(f, "FAILED {place} {} ({})", first.name, ways.join(", "))?;
        for line in message.lines() {
            writeln!(f, "  {line}")?;
        }
        if let Some(why) = first.why.as_deref().filter(|why| !why.is_empty()) {
            writeln!(f, "  why: {why}")?;
        }
        if let Some(certainty) = first.certainty {
            let certainty = match certainty {
                Certainty::Certain => "certain",
                Certainty::Likely => "likely",
                Certainty::Check => "to be checked with a real Flink",
            };
            writeln!(f, "  the expected result is {certainty}")?;
        }
        writeln!(f)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, way: Way, status: CaseStatus) -> CaseOutcome {
        CaseOutcome {
            file: "cases/a.yaml".into(),
            line: 7,
            name: name.into(),
            way,
            why: Some("because".into()),
            certainty: Some(Certainty::Likely),
            status,
        }
    }

    fn report() -> TestReport {
        let failed = || CaseStatus::Failed("a < b\nline 2".into());
        TestReport {
            outcomes: vec![
                outcome("one", Way::Base, CaseStatus::Passed),
                outcome("one", Way::Rocksdb, CaseStatus::Skipped("not here".into())),
                outcome("two", Way::Base, failed()),
                outcome("two", Way::Kill, failed()),
            ],
            seed: 5,
        }
    }

    #[test]
    fn a_failure_is_shown_once_with_its_ways() {
        let text = report().to_string();
        assert_eq!(text.matches("a < b").count(), 1);
        for part in [
            "a.yaml:7 two (base, kill)",
            "why: because",
            "is likely",
            "skipped 1: not here",
        ] {
            assert!(text.contains(part), "{part} is missing in: {text}");
        }
        assert!(text.ends_with("1 passed, 2 failed, 1 skipped (seed 5)"));
        assert_eq!(report().exit_code(), 1);
        assert_eq!(TestReport::default().exit_code(), 0);
    }

    #[test]
    fn junit_is_escaped_xml() {
        let xml = report().junit();
        for part in [
            "tests=\"4\" failures=\"2\" skipped=\"1\"",
            "<testcase name=\"two (kill)\" classname=\"cases/a.yaml\" line=\"7\">",
            "<failure message=\"a &lt; b\">a &lt; b\nline 2</failure>",
        ] {
            assert!(xml.contains(part), "{part} is missing in: {xml}");
        }
    }
}
