//! What the tasks gave for one checkpoint, before it is written.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;

use super::JobSnapshot;
use super::change::{Change, KeySpan};
use crate::error::Result;
use crate::state::{StatePart, StateSnapshot, TableScope};
use crate::stream::CheckpointId;

/// The operators' states of one task, by stable id.
pub type TaskState = Vec<(String, StateSnapshot)>;

/// The reports of all tasks that a checkpoint consists of, those of failed checkpoints before it included.
#[derive(Debug, Clone)]
pub struct CheckpointContents {
    /// Which checkpoint.
    pub checkpoint: CheckpointId,
    pub(super) tasks: Vec<TaskContents>,
}

/// What one task has to say since the last durable checkpoint, oldest first.
#[derive(Debug, Clone)]
pub(super) struct TaskContents {
    pub(super) task: usize,
    /// The keys that its operators own.
    pub(super) span: KeySpan,
    pub(super) reports: Vec<(Option<CheckpointId>, TaskState)>,
    /// Said in an earlier checkpoint already, by a task that has ended.
    pub(super) repeated: bool,
}

/// The same of one operator over all tasks.
#[derive(Debug, Default)]
pub(super) struct OperatorContents {
    /// The operator-scope tables, whole.
    pub(super) tables: BTreeMap<String, Vec<RecordBatch>>,
    /// What became of its keyed state, oldest first.
    pub(super) changes: Vec<ChangeSource>,
}

/// A change in memory, or on the local disk.
#[derive(Debug)]
pub(super) enum ChangeSource {
    Held(Change),
    Part(StatePart),
}

impl ChangeSource {
    pub(super) fn load(&self) -> Result<Change> {
        match self {
            ChangeSource::Held(change) => Ok(change.clone()),
            ChangeSource::Part(part) => Ok(Change {
                // Pieces that come in the order of keys lie in narrow spans.
                within: None,
                ..Change::of_snapshot(&part.read()?, KeySpan::ALL)
            }),
        }
    }
}

impl OperatorContents {
    /// Whether earlier state still stands below the changes.
    pub(super) fn builds_on_earlier(&self) -> bool {
        match self.changes.first() {
            Some(ChangeSource::Held(change)) => !change.replaces_all(),
            Some(ChangeSource::Part(_)) | None => true,
        }
    }
}

impl CheckpointContents {
    /// By operator.
    pub(super) fn operators(&self) -> BTreeMap<String, OperatorContents> {
        let mut sequences: BTreeMap<&str, Vec<Sequence<'_>>> = BTreeMap::new();
        for task in &self.tasks {
            let mut own: BTreeMap<&str, Vec<&StateSnapshot>> = BTreeMap::new();
            for (uid, snapshot) in task.reports.iter().flat_map(|(_, state)| state) {
                let snapshots = own.entry(uid).or_default();
                if snapshot.gone.is_none() {
                    snapshots.clear();
                }
                snapshots.push(snapshot);
            }
            for (uid, snapshots) in own {
                let span = task.span;
                let sequence = Sequence { span, snapshots };
                sequences.entry(uid).or_default().push(sequence);
            }
        }
        let operator = |(uid, tasks): (&str, Vec<Sequence<'_>>)| (uid.to_string(), collect(&tasks));
        sequences.into_iter().map(operator).collect()
    }

    /// Lays it over the snapshot of the checkpoint before.
    pub fn fold_into(&self, whole: &mut JobSnapshot) -> Result<()> {
        whole.checkpoint = self.checkpoint;
        let mut before = std::mem::take(&mut whole.operators);
        for (uid, contents) in self.operators() {
            let mut state = before.remove(&uid).unwrap_or_default();
            for change in contents.changes {
                change.load()?.apply_to(&mut state)?;
            }
            state
                .tables
                .retain(|_, table| table.scope == TableScope::Keyed);
            for (name, batches) in contents.tables {
                state.insert_operator(&name, batches);
            }
            whole.operators.insert(uid, state);
        }
        Ok(())
    }
}

/// What one instance of an operator said.
struct Sequence<'a> {
    span: KeySpan,
    snapshots: Vec<&'a StateSnapshot>,
}

fn collect(tasks: &[Sequence<'_>]) -> OperatorContents {
    let mut contents = OperatorContents::default();
    for snapshot in tasks.iter().filter_map(|task| task.snapshots.last()) {
        for (name, table) in &snapshot.tables {
            if table.scope == TableScope::Operator {
                let batches = contents.tables.entry(name.clone()).or_default();
                batches.extend(table.batches.iter().cloned());
            }
        }
    }
    let begins_whole = |task: &Sequence<'_>| {
        let first = task.snapshots.first();
        first.is_some_and(|first| first.gone.is_none())
    };
    let whole = tasks.iter().all(begins_whole);
    let rounds = tasks.iter().map(|task| task.snapshots.len()).max();
    for round in 0..rounds.unwrap_or(0) {
        let snapshots = tasks
            .iter()
            .filter_map(|task| Some((task.span, *task.snapshots.get(round)?)));
        add_round(&mut contents.changes, snapshots, whole && round == 0);
    }
    contents
}

/// What all instances said at one time: they own different keys, so the order among them is all the same.
fn add_round<'a>(
    changes: &mut Vec<ChangeSource>,
    snapshots: impl Iterator<Item = (KeySpan, &'a StateSnapshot)>,
    whole: bool,
) {
    let (mut reset, mut parts, mut together) = (Vec::new(), Vec::new(), Change::default());
    for (span, snapshot) in snapshots {
        let mut change = Change::of_snapshot(snapshot, span);
        if snapshot.gone.is_none() && !snapshot.parts.is_empty() {
            // Everything, in pieces: nothing of what was before stands, and the last piece replaces the others key by key.
            reset.extend(std::mem::take(&mut change.whole));
        }
        parts.extend(snapshot.parts.iter().cloned().map(ChangeSource::Part));
        together.beside(change);
    }
    if whole {
        let first = match reset.is_empty() {
            true => &mut together.whole,
            false => &mut reset,
        };
        *first = vec![KeySpan::ALL];
    }
    if !reset.is_empty() {
        let nothing = Change {
            whole: reset,
            ..Change::default()
        };
        changes.push(ChangeSource::Held(nothing));
    }
    changes.extend(parts);
    if !together.is_empty() {
        changes.push(ChangeSource::Held(together));
    }
}
