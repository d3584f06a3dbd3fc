//! Collects the reports of all tasks until a checkpoint is complete.
//!
//! A task that has ended takes part in every later checkpoint with its last state, so a checkpoint can complete while parts
//! of the job have already read all their input.

use std::collections::{BTreeMap, BTreeSet};

use super::JobSnapshot;
use crate::planted::{Bug, is_planted};
use crate::state::StateSnapshot;
use crate::stream::CheckpointId;

/// The operators' states of one task, by stable id.
type TaskState = Vec<(String, StateSnapshot)>;

/// See the module.
#[derive(Debug)]
pub struct CheckpointCoordinator {
    last: CheckpointId,
    running: BTreeSet<usize>,
    ended: BTreeMap<usize, TaskState>,
    pending: Option<Pending>,
}

#[derive(Debug)]
struct Pending {
    checkpoint: CheckpointId,
    missing: BTreeSet<usize>,
    received: BTreeMap<usize, TaskState>,
}

impl CheckpointCoordinator {
    /// A coordinator of `tasks` tasks; checkpoints count on from `last`.
    pub fn new(tasks: usize, last: CheckpointId) -> Self {
        CheckpointCoordinator {
            last,
            running: (0..tasks).collect(),
            ended: BTreeMap::new(),
            pending: None,
        }
    }

    /// Starts a checkpoint: the sources must now send its barrier. `None` while another one runs or when every task has ended.
    pub fn trigger(&mut self) -> Option<CheckpointId> {
        if self.pending.is_some() || self.running.is_empty() {
            return None;
        }
        self.last = CheckpointId(self.last.0 + 1);
        self.pending = Some(Pending {
            checkpoint: self.last,
            missing: self.running.clone(),
            received: BTreeMap::new(),
        });
        Some(self.last)
    }

    /// Whether a checkpoint runs.
    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// A task has passed the barrier. Gives the snapshot when it was the last one.
    pub fn acknowledge(
        &mut self,
        task: usize,
        checkpoint: CheckpointId,
        state: TaskState,
    ) -> Option<JobSnapshot> {
        let pending = self
            .pending
            .as_mut()
            .filter(|pending| pending.checkpoint == checkpoint)?;
        assert!(
            pending.missing.remove(&task),
            "task {task} passed the barrier of checkpoint {checkpoint} twice"
        );
        pending.received.insert(task, state);
        self.complete()
    }

    /// A task has ended with this state. Gives the snapshot of a running checkpoint when only this task was missing.
    pub fn task_ended(&mut self, task: usize, state: TaskState) -> Option<JobSnapshot> {
        self.running.remove(&task);
        self.ended.insert(task, state);
        if let Some(pending) = &mut self.pending {
            pending.missing.remove(&task);
        }
        self.complete()
    }

    /// Whether every task has ended.
    pub fn all_ended(&self) -> bool {
        self.running.is_empty()
    }

    /// The last checkpoint of a job whose tasks have all ended: a restore from it commits what the sinks had prepared at their
    /// end, once more, and reads nothing again.
    pub fn final_snapshot(&mut self) -> Option<JobSnapshot> {
        if !self.all_ended() {
            return None;
        }
        self.last = CheckpointId(self.last.0 + 1);
        let states = self.ended.values().flatten().cloned();
        Some(JobSnapshot {
            checkpoint: self.last,
            operators: merged(states),
        })
    }

    fn complete(&mut self) -> Option<JobSnapshot> {
        if !self.pending.as_ref()?.missing.is_empty() {
            return None;
        }
        let Pending {
            checkpoint,
            mut received,
            ..
        } = self.pending.take()?;
        let ended = (!is_planted(Bug::EndedTaskForgotten)).then_some(&self.ended);
        for (task, state) in ended.into_iter().flatten() {
            received.entry(*task).or_insert_with(|| state.clone());
        }
        Some(JobSnapshot {
            checkpoint,
            operators: merged(received.into_values().flatten()),
        })
    }
}

/// The states of all subtasks by operator.
fn merged(
    states: impl Iterator<Item = (String, StateSnapshot)>,
) -> BTreeMap<String, StateSnapshot> {
    let mut operators: BTreeMap<String, StateSnapshot> = BTreeMap::new();
    for (uid, state) in states {
        operators.entry(uid).or_default().merge(state);
    }
    operators
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completes_when_all_have_passed_or_ended() {
        let mut coordinator = CheckpointCoordinator::new(2, CheckpointId(4));
        let id = coordinator.trigger().unwrap();
        assert_eq!(id, CheckpointId(5));
        assert!(coordinator.trigger().is_none(), "one at a time");
        assert!(
            coordinator
                .acknowledge(0, id, vec![("a".into(), StateSnapshot::default())])
                .is_none()
        );
        let snapshot = coordinator
            .task_ended(1, vec![("b".into(), StateSnapshot::default())])
            .unwrap();
        assert_eq!(snapshot.operators.keys().collect::<Vec<_>>(), ["a", "b"]);
        let id = coordinator.trigger().unwrap();
        let snapshot = coordinator.acknowledge(0, id, vec![]).unwrap();
        assert!(
            snapshot.operators.contains_key("b"),
            "the ended task keeps taking part"
        );
        coordinator.task_ended(0, vec![]);
        assert!(coordinator.all_ended() && coordinator.trigger().is_none());
        let last = coordinator.final_snapshot().unwrap();
        assert!(last.checkpoint > id && last.operators.contains_key("b"));
    }
}
