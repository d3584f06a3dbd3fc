//! What a restore will do, told before it does it.

use std::fmt;

use super::table_change::{Incompatible, TableChange};
use crate::checkpoint::RowCount;
use crate::error::{Error, Result};
use crate::stream::CheckpointId;

/// What becomes of saved state when a job restores it.
#[derive(Debug, Clone)]
pub struct UpgradeReport {
    /// The checkpoint that the state is of.
    pub checkpoint: CheckpointId,
    /// The job that wrote it, where that is known.
    pub job: Option<String>,
    /// Operator by operator: those of the job, then those that it no longer has.
    pub operators: Vec<OperatorUpgrade>,
}

/// What becomes of the state of one operator.
#[derive(Debug, Clone)]
pub struct OperatorUpgrade {
    /// The stable id.
    pub uid: String,
    /// What people call it.
    pub name: String,
    /// What becomes of it.
    pub fate: Fate,
    /// How many rows of state are saved.
    pub rows: RowCount,
    /// How many bytes they take in the files of the snapshot.
    pub bytes: u64,
    /// How its tables change.
    pub changes: Vec<TableChange>,
}

/// What becomes of the state of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// It goes on as it was.
    Kept,
    /// It goes on with other columns.
    Changed,
    /// The job does not have the operator any more.
    Dropped,
    /// The job has the operator, and its state cannot be what it asks for: it is dropped, and the operator starts empty.
    Incompatible(Incompatible),
    /// Nothing of it was saved.
    StartsEmpty,
}

impl Fate {
    fn word(&self) -> &'static str {
        match self {
            Fate::Kept => "kept",
            Fate::Changed => "changed shape",
            Fate::Dropped => "dropped",
            Fate::Incompatible(_) => "incompatible",
            Fate::StartsEmpty => "starts empty",
        }
    }

    fn loses(&self) -> bool {
        matches!(self, Fate::Dropped | Fate::Incompatible(_))
    }
}

impl UpgradeReport {
    /// Whether the state goes back to where it came from, as it was.
    pub fn is_unchanged(&self) -> bool {
        self.operators
            .iter()
            .all(|operator| operator.fate == Fate::Kept)
    }

    /// The operators whose state is lost.
    pub fn dropped(&self) -> impl Iterator<Item = &OperatorUpgrade> {
        self.operators
            .iter()
            .filter(|operator| operator.fate.loses())
    }

    /// These, and those that lose an aggregate or begin one that cannot be right.
    fn losing(&self) -> impl Iterator<Item = &OperatorUpgrade> {
        self.operators.iter().filter(|operator| {
            operator.fate.loses()
                || operator.dropped_aggregates().next().is_some()
                || operator.wrong_aggregates().next().is_some()
        })
    }

    fn begins_wrong(&self) -> bool {
        let mut operators = self.operators.iter();
        operators.any(|operator| operator.wrong_aggregates().next().is_some())
    }

    /// Refuses a restore that loses state, unless that is allowed.
    pub fn refuse_losses(&self, allowed: bool) -> Result<()> {
        let lost: Vec<String> = self
            .losing()
            .map(|operator| {
                let dropped = operator.dropped_aggregates();
                let dropped = dropped.map(|name| format!("\n    {name} is dropped"));
                let wrong = operator.wrong_aggregates();
                let wrong = wrong.map(|name| format!("\n    {name} is new, and {NEVER_SEEN}"));
                let aggregates: String = dropped.chain(wrong).collect();
                format!("\n  {}{aggregates}", operator.line())
            })
            .collect();
        if allowed || lost.is_empty() {
            return Ok(());
        }
        Err(Error::user(format!(
            "checkpoint {} holds state that this job cannot take up:{}",
            self.checkpoint,
            lost.concat()
        ))
        .hint(
            "restore with the statements that wrote it; or let the state go with --allow-dropped-state, or \
             SET 'execution.state-recovery.ignore-unclaimed-state' = 'true'",
        ))
    }
}

impl OperatorUpgrade {
    fn dropped_aggregates(&self) -> impl Iterator<Item = &str> {
        let changes = self.changes.iter();
        changes.flat_map(|change| change.dropped_aggregates.iter().map(String::as_str))
    }

    fn wrong_aggregates(&self) -> impl Iterator<Item = &str> {
        let changes = self.changes.iter().filter(|change| change.takes_back);
        changes.flat_map(|change| change.new_aggregates.iter().map(String::as_str))
    }

    fn line(&self) -> String {
        let mut line = format!("{:<14} {} [{}]", self.fate.word(), self.name, self.uid);
        if self.fate != Fate::StartsEmpty {
            line.push_str(&format!(
                ": {}, {} of files",
                self.rows,
                in_bytes(self.bytes)
            ));
        }
        if let Fate::Incompatible(why) = &self.fate {
            line.push_str(&format!("; {why}"));
        }
        line
    }
}

impl fmt::Display for UpgradeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Restoring checkpoint {}", self.checkpoint)?;
        if let Some(job) = &self.job {
            write!(f, " of the job '{job}'")?;
        }
        writeln!(f, ":")?;
        for operator in &self.operators {
            writeln!(f, "  {}", operator.line())?;
            for change in &operator.changes {
                write_change(f, change)?;
            }
        }
        if self.losing().next().is_some() {
            writeln!(
                f,
                "Some of the state is lost{}: a restore is refused unless --allow-dropped-state allows it.",
                if self.begins_wrong() {
                    " or cannot be right"
                } else {
                    ""
                }
            )?;
        }
        Ok(())
    }
}

/// What a new aggregate is worth whose rows can be taken back.
const NEVER_SEEN: &str = "rows that it has not seen come can be taken back from it: of groups that exist it may stay wrong, below 0 too";

fn write_change(f: &mut fmt::Formatter<'_>, change: &TableChange) -> fmt::Result {
    let table = &change.table;
    for name in &change.new_aggregates {
        let then = match change.takes_back {
            false => "so groups that exist have NULL or 0 until their next row",
            true => NEVER_SEEN,
        };
        writeln!(
            f,
            "    {table}: new {name}: counts from now on; what was before is not in it, {then}"
        )?;
    }
    for name in &change.dropped_aggregates {
        writeln!(
            f,
            "    {table}: dropped {name}: nobody asks for it any more"
        )?;
    }
    for (name, from, to) in &change.widened {
        writeln!(f, "    {table}: {name} is widened from {from} to {to}")?;
    }
    for name in &change.added {
        writeln!(
            f,
            "    {table}: new column {name}: NULL in the rows that are kept"
        )?;
    }
    for name in &change.removed {
        writeln!(f, "    {table}: column {name} is not read any more")?;
    }
    Ok(())
}

/// `12 B`, `3.4 kB`.
fn in_bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (mut value, mut unit) = (bytes as f64 / 1000.0, 0);
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}
