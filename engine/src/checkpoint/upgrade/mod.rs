//! Restoring the state of one plan into another: what is kept, what changes its shape, what is dropped, what starts empty.
//!
//! Operators are matched by their ids, which say what the state speaks about; the columns of their tables by name. [`plan_upgrade`] compares
//! before a row is read, and [`UpgradeReport`] tells people; [`MigratingReader`] then gives every operator its state in the form in
//! which it asks for it.

mod migration;
mod report;
mod table_change;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::AsArray;
use arrow::datatypes::SchemaRef;

use super::{ColumnTexts, PlanFacts, RowCount, SnapshotReader, TableFacts};
use crate::error::Result;
use crate::state::{StateSnapshot, TableScope, holds_job_rows};
use crate::stream::{CheckpointId, KeyGroup, KeyGroupRange};

pub(super) use migration::converted;
pub use report::{Fate, OperatorUpgrade, UpgradeReport};
pub use table_change::{Incompatible, TableChange};

/// An operator of the job that restores.
#[derive(Debug, Clone)]
pub struct ExpectedOperator {
    /// The stable id of its state.
    pub uid: String,
    /// What people call it.
    pub name: String,
    /// Whether it keeps anything that a restore brings back.
    pub is_stateful: bool,
    /// The tables whose columns it asks for, in its own form.
    pub tables: BTreeMap<String, SchemaRef>,
    /// What the columns that it reads hold, by their names.
    pub columns: ColumnTexts,
}

/// Compares what was saved with the operators of a job.
pub fn plan_upgrade(
    reader: &dyn SnapshotReader,
    expected: &[ExpectedOperator],
) -> Result<UpgradeReport> {
    let saved: BTreeSet<String> = reader.operators().into_iter().collect();
    let mut operators = Vec::new();
    for operator in expected {
        if saved.contains(&operator.uid) {
            operators.extend(restored(reader, operator)?);
        } else if operator.is_stateful {
            operators.push(OperatorUpgrade {
                uid: operator.uid.clone(),
                name: operator.name.clone(),
                fate: Fate::StartsEmpty,
                rows: RowCount::default(),
                bytes: 0,
                changes: Vec::new(),
            });
        }
    }
    let facts = reader.plan_facts();
    for uid in saved {
        if expected.iter().any(|operator| operator.uid == uid) || !reader.has_rows(&uid)? {
            continue;
        }
        let tables = reader.tables(&uid)?;
        if owes_nothing(reader, &uid, &tables)? {
            continue;
        }
        let known = facts.as_ref().and_then(|facts| facts.operator(&uid));
        let (rows, bytes) = sizes(&tables);
        operators.push(OperatorUpgrade {
            name: known.map_or_else(|| uid.clone(), |known| known.description.clone()),
            uid,
            fate: Fate::Dropped,
            rows,
            bytes,
            changes: Vec::new(),
        });
    }
    Ok(UpgradeReport {
        checkpoint: reader.checkpoint(),
        job: facts.map(|facts| facts.job),
        operators,
    })
}

/// What becomes of the state of an operator that is still there; nothing is said of one that has kept nothing.
fn restored(
    reader: &dyn SnapshotReader,
    operator: &ExpectedOperator,
) -> Result<Option<OperatorUpgrade>> {
    let tables = reader.tables(&operator.uid)?;
    if !operator.is_stateful && !reader.has_rows(&operator.uid)? {
        return Ok(None);
    }
    let facts = reader.plan_facts().unwrap_or_default();
    let known = facts.operator(&operator.uid).map(|facts| &facts.columns);
    let (mut changes, mut fate) = (Vec::new(), Fate::Kept);
    for table in &tables {
        let (Some(saved), Some(asked)) = (&table.schema, operator.tables.get(&table.name)) else {
            continue;
        };
        let change = TableChange::between(&table.name, saved, asked)
            .and_then(|change| change.holding(asked, known, &operator.columns));
        match change {
            Ok(change) if change.is_none() => {}
            Ok(change) => {
                fate = if fate == Fate::Kept {
                    Fate::Changed
                } else {
                    fate
                };
                changes.push(change);
            }
            Err(_) if table.rows.is_none() => {}
            Err(incompatible) => fate = Fate::Incompatible(incompatible),
        }
    }
    let (rows, bytes) = sizes(&tables);
    Ok(Some(OperatorUpgrade {
        uid: operator.uid.clone(),
        name: operator.name.clone(),
        fate,
        rows,
        bytes,
        changes,
    }))
}

/// Rows, as far as they are known without reading them, and bytes.
fn sizes(tables: &[TableFacts]) -> (RowCount, u64) {
    let (mut rows, mut bytes) = (RowCount::default(), 0);
    for table in tables.iter().filter(|table| holds_job_rows(&table.name)) {
        rows += table.rows;
        bytes += table.bytes;
    }
    (rows, bytes)
}

/// Whether all that an operator kept are empty lists: a sink with nothing left to commit.
fn owes_nothing(reader: &dyn SnapshotReader, uid: &str, tables: &[TableFacts]) -> Result<bool> {
    let mut own = tables
        .iter()
        .filter(|table| holds_job_rows(&table.name) && !table.rows.is_none());
    if !own.all(|table| table.scope == TableScope::Operator) {
        return Ok(false);
    }
    let first = KeyGroupRange {
        first: KeyGroup(0),
        last: KeyGroup(0),
    };
    let max_parallelism = reader.max_parallelism().unwrap_or(1);
    let state = reader.read(uid, first, max_parallelism)?;
    let batches = state
        .tables
        .iter()
        .filter(|(name, _)| holds_job_rows(name))
        .flat_map(|(_, table)| &table.batches);
    Ok(batches.into_iter().all(|batch| {
        let documents = batch
            .column_by_name("json")
            .and_then(|column| column.as_string_opt::<i32>());
        documents.is_some_and(|documents| {
            let mut texts = documents.iter().flatten();
            texts.all(|text| matches!(text, "[]" | "{}" | "null"))
        })
    }))
}

/// Gives the state of one plan to the operators of another.
pub struct MigratingReader<R> {
    inner: R,
    tables: BTreeMap<String, BTreeMap<String, SchemaRef>>,
    dropped: BTreeSet<String>,
}

impl<R: SnapshotReader> MigratingReader<R> {
    /// A reader as `report` says, for these operators.
    pub fn new(inner: R, report: &UpgradeReport, expected: &[ExpectedOperator]) -> Self {
        let tables = expected.iter();
        let tables = tables.map(|operator| (operator.uid.clone(), operator.tables.clone()));
        MigratingReader {
            inner,
            tables: tables.collect(),
            dropped: report
                .dropped()
                .map(|operator| operator.uid.clone())
                .collect(),
        }
    }
}

impl<R: SnapshotReader> SnapshotReader for MigratingReader<R> {
    fn checkpoint(&self) -> CheckpointId {
        self.inner.checkpoint()
    }

    fn operators(&self) -> Vec<String> {
        let mut operators = self.inner.operators();
        operators.retain(|uid| !self.dropped.contains(uid));
        operators
    }

    fn has_rows(&self, uid: &str) -> Result<bool> {
        Ok(!self.dropped.contains(uid) && self.inner.has_rows(uid)?)
    }

    fn read(&self, uid: &str, range: KeyGroupRange, max_parallelism: u16) -> Result<StateSnapshot> {
        if self.dropped.contains(uid) {
            return Ok(StateSnapshot::default());
        }
        let mut state = self.inner.read(uid, range, max_parallelism)?;
        for (name, asked) in self.tables.get(uid).into_iter().flatten() {
            if let Some(table) = state.tables.get_mut(name) {
                let batches = std::mem::take(&mut table.batches).into_iter();
                table.batches = batches
                    .filter(|batch| batch.num_rows() > 0)
                    .map(|batch| migration::migrated(name, batch, asked))
                    .collect::<Result<_>>()?;
            }
        }
        Ok(state)
    }

    fn remove(&self) -> Result<()> {
        self.inner.remove()
    }

    fn plan_facts(&self) -> Option<PlanFacts> {
        self.inner.plan_facts()
    }

    fn max_parallelism(&self) -> Option<u16> {
        self.inner.max_parallelism()
    }

    fn tables(&self, uid: &str) -> Result<Vec<TableFacts>> {
        if self.dropped.contains(uid) {
            return Ok(Vec::new());
        }
        let asked = self.tables.get(uid);
        let mut facts = self.inner.tables(uid)?;
        for table in &mut facts {
            if let Some(schema) = asked.and_then(|tables| tables.get(&table.name)) {
                table.schema = table.schema.as_ref().map(|_| schema.clone());
            }
        }
        Ok(facts)
    }
}
