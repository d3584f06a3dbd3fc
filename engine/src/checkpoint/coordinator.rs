//! Collects the reports of all tasks until a checkpoint is complete, and keeps what no durable checkpoint holds yet.
//!
//! Tasks report what changed since they reported last, so nothing that they said may be lost when a checkpoint fails: it stays in
//! the task's queue, or is given back, and goes into the next checkpoint in order.
//! A task that has ended takes part in every later checkpoint with its last state, so a checkpoint can complete while parts
//! of the job have already read all their input.

use std::collections::{BTreeSet, VecDeque};

use super::change::KeySpan;
use super::contents::{CheckpointContents, TaskContents, TaskState};
use crate::planted::{Bug, is_planted};
use crate::state::{StateSnapshot, TableScope};
use crate::stream::CheckpointId;

/// See the module.
#[derive(Debug)]
pub struct CheckpointCoordinator {
    last: CheckpointId,
    tasks: Vec<TaskQueue>,
    running: BTreeSet<usize>,
    pending: Option<Pending>,
}

/// What a task said that is not durable.
#[derive(Debug)]
struct TaskQueue {
    span: KeySpan,
    /// Oldest first; without a checkpoint: the last state of the task.
    reports: VecDeque<(Option<CheckpointId>, TaskState)>,
    /// What is said again in every checkpoint after the task's end.
    ended: Option<TaskState>,
}

#[derive(Debug)]
struct Pending {
    checkpoint: CheckpointId,
    missing: BTreeSet<usize>,
    aborted: bool,
}

impl CheckpointCoordinator {
    /// A coordinator of tasks whose operators own these keys; checkpoints count on from `last`.
    pub fn new(tasks: &[KeySpan], last: CheckpointId) -> Self {
        let queue = |span: &KeySpan| TaskQueue {
            span: *span,
            reports: VecDeque::new(),
            ended: None,
        };
        CheckpointCoordinator {
            last,
            running: (0..tasks.len()).collect(),
            tasks: tasks.iter().map(queue).collect(),
            pending: None,
        }
    }

    /// Counts on from `last`, where that is higher.
    pub fn count_from(&mut self, last: CheckpointId) {
        self.last = self.last.max(last);
    }

    /// Starts a checkpoint: the sources must now send its barrier. `None` while the barrier of another one is under way, aborted or
    /// not, or when every task has ended.
    pub fn trigger(&mut self) -> Option<CheckpointId> {
        if self.pending.is_some() || self.running.is_empty() {
            return None;
        }
        self.last = CheckpointId(self.last.0 + 1);
        self.pending = Some(Pending {
            checkpoint: self.last,
            missing: self.running.clone(),
            aborted: false,
        });
        Some(self.last)
    }

    /// Whether the barrier of a checkpoint is under way.
    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Gives up the checkpoint whose barrier is under way: it will not complete, and what tasks report for it goes into the next one.
    pub fn abort(&mut self) {
        if let Some(pending) = &mut self.pending {
            pending.aborted = true;
        }
    }

    /// A task has passed the barrier. Gives what is to be written when it was the last one.
    pub fn acknowledge(
        &mut self,
        task: usize,
        checkpoint: CheckpointId,
        state: TaskState,
    ) -> Option<CheckpointContents> {
        self.tasks[task]
            .reports
            .push_back((Some(checkpoint), state));
        let pending = self
            .pending
            .as_mut()
            .filter(|pending| pending.checkpoint == checkpoint)?;
        assert!(
            pending.missing.remove(&task),
            "task {task} passed the barrier of checkpoint {checkpoint} twice"
        );
        self.complete()
    }

    /// A task has ended with this state. Gives what is to be written when a running checkpoint missed only this task.
    pub fn task_ended(&mut self, task: usize, state: TaskState) -> Option<CheckpointContents> {
        self.running.remove(&task);
        self.tasks[task].ended = Some(repeatable(&state));
        self.tasks[task].reports.push_back((None, state));
        if let Some(pending) = &mut self.pending {
            pending.missing.remove(&task);
        }
        self.complete()
    }

    /// Whether every task has ended.
    pub fn all_ended(&self) -> bool {
        self.running.is_empty()
    }

    /// Whether some task has ended.
    pub fn some_ended(&self) -> bool {
        self.running.len() < self.tasks.len()
    }

    /// The last checkpoint of a job whose tasks have all ended: a restore from it commits what the sinks had prepared at their
    /// end, once more, and reads nothing again.
    pub fn final_contents(&mut self) -> Option<CheckpointContents> {
        if !self.all_ended() {
            return None;
        }
        self.last = CheckpointId(self.last.0 + 1);
        Some(self.take(self.last))
    }

    /// A checkpoint could not be written: what it held goes into the next one.
    pub fn give_back(&mut self, contents: CheckpointContents) {
        for task in contents.tasks {
            if task.repeated || is_planted(Bug::FailedChangesLost) {
                continue;
            }
            let queue = &mut self.tasks[task.task].reports;
            task.reports
                .into_iter()
                .rev()
                .for_each(|report| queue.push_front(report));
            forget_replaced(queue, contents.checkpoint);
        }
    }

    fn complete(&mut self) -> Option<CheckpointContents> {
        if !self.pending.as_ref()?.missing.is_empty() {
            return None;
        }
        let pending = self.pending.take()?;
        (!pending.aborted).then(|| self.take(pending.checkpoint))
    }

    fn take(&mut self, checkpoint: CheckpointId) -> CheckpointContents {
        let tasks = self.tasks.iter_mut().enumerate();
        CheckpointContents {
            checkpoint,
            tasks: tasks
                .map(|(task, queue)| queue.take(task, checkpoint))
                .collect(),
        }
    }
}

impl TaskQueue {
    /// What the task had said when it passed the barrier; all of it, where it ended before.
    fn take(&mut self, task: usize, checkpoint: CheckpointId) -> TaskContents {
        let at_barrier = |(of, _): &(Option<CheckpointId>, TaskState)| *of == Some(checkpoint);
        let count = match self.reports.iter().position(at_barrier) {
            Some(position) => position + 1,
            None => self.reports.len(),
        };
        let mut reports: Vec<_> = self.reports.drain(..count).collect();
        let repeated = reports.is_empty();
        if let (true, Some(state)) = (
            repeated && !is_planted(Bug::EndedTaskForgotten),
            &self.ended,
        ) {
            reports.push((None, state.clone()));
        }
        TaskContents {
            task,
            span: self.span,
            reports,
            repeated,
        }
    }
}

/// What a task that has ended says in later checkpoints: all that it keeps, or, where that is durable by then, that nothing changed.
fn repeatable(state: &TaskState) -> TaskState {
    let again = |snapshot: &StateSnapshot| {
        if snapshot.gone.is_none() {
            return snapshot.clone();
        }
        let mut tables = snapshot.tables.clone();
        tables.retain(|_, table| table.scope == TableScope::Operator);
        StateSnapshot {
            tables,
            gone: Some(Vec::new()),
            ..StateSnapshot::default()
        }
    };
    state
        .iter()
        .map(|(uid, snapshot)| (uid.clone(), again(snapshot)))
        .collect()
}

/// Drops the state in front of a later report that holds everything, up to the report for `checkpoint`.
fn forget_replaced(
    queue: &mut VecDeque<(Option<CheckpointId>, TaskState)>,
    checkpoint: CheckpointId,
) {
    let mut whole: BTreeSet<String> = BTreeSet::new();
    let settled = |of: Option<CheckpointId>| of.is_some_and(|of| of <= checkpoint);
    let reports = queue.iter_mut().filter(|(of, _)| settled(*of));
    for (_, state) in reports.rev() {
        state.retain(|(uid, _)| !whole.contains(uid));
        let replaces = state.iter().filter(|(_, snapshot)| snapshot.gone.is_none());
        whole.extend(replaces.map(|(uid, _)| uid.clone()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, RecordBatch, UInt64Array};

    use super::super::JobSnapshot;
    use super::*;
    use crate::state::KEY_HASH_COLUMN;

    fn state(uid: &str, gone: Option<Vec<u64>>, keys: &[u64]) -> TaskState {
        let hashes: ArrayRef = Arc::new(UInt64Array::from(keys.to_vec()));
        let mut snapshot = StateSnapshot {
            gone,
            ..StateSnapshot::default()
        };
        let batch = RecordBatch::try_from_iter([(KEY_HASH_COLUMN, hashes)]).unwrap();
        snapshot.insert_keyed("t", vec![batch]);
        vec![(uid.to_string(), snapshot)]
    }

    fn fold(whole: &mut JobSnapshot, contents: &CheckpointContents) -> Vec<u64> {
        contents.fold_into(whole).unwrap();
        whole.operators["a"].key_hashes()
    }

    #[test]
    fn completes_when_all_have_passed_or_ended() {
        let mut coordinator = CheckpointCoordinator::new(&[KeySpan::ALL; 2], CheckpointId(4));
        let id = coordinator.trigger().unwrap();
        assert_eq!(id, CheckpointId(5));
        assert!(coordinator.trigger().is_none(), "one at a time");
        assert!(
            coordinator
                .acknowledge(0, id, vec![("a".into(), StateSnapshot::default())])
                .is_none()
        );
        let contents = coordinator
            .task_ended(1, vec![("b".into(), StateSnapshot::default())])
            .unwrap();
        let names = |contents: &CheckpointContents| -> Vec<String> {
            contents.operators().into_keys().collect()
        };
        assert_eq!(names(&contents), ["a", "b"]);
        let id = coordinator.trigger().unwrap();
        let contents = coordinator.acknowledge(0, id, vec![]).unwrap();
        assert_eq!(names(&contents), ["b"], "the ended task keeps taking part");
        coordinator.task_ended(0, vec![]);
        assert!(coordinator.all_ended() && coordinator.trigger().is_none());
        let last = coordinator.final_contents().unwrap();
        assert!(last.checkpoint > id && names(&last) == ["b"]);
    }

    #[test]
    fn what_was_reported_for_a_checkpoint_that_failed_goes_into_the_next_one() {
        let mut coordinator = CheckpointCoordinator::new(&[KeySpan::ALL], CheckpointId(0));
        let mut whole = JobSnapshot::empty();
        let id = coordinator.trigger().unwrap();
        let first = coordinator
            .acknowledge(0, id, state("a", None, &[1, 2, 3]))
            .unwrap();
        coordinator.give_back(first);
        let id = coordinator.trigger().unwrap();
        coordinator.abort();
        assert!(
            coordinator.trigger().is_none(),
            "its barrier is still under way"
        );
        let changed = state("a", Some(vec![2]), &[4]);
        assert!(coordinator.acknowledge(0, id, changed).is_none());
        let id = coordinator.trigger().unwrap();
        let third = coordinator
            .acknowledge(0, id, state("a", Some(vec![]), &[5]))
            .unwrap();
        assert_eq!(fold(&mut whole, &third), [1, 3, 4, 5]);
        let id = coordinator.trigger().unwrap();
        let fourth = coordinator
            .acknowledge(0, id, state("a", Some(vec![1]), &[]))
            .unwrap();
        assert_eq!(fold(&mut whole, &fourth), [3, 4, 5]);
    }

    #[test]
    fn what_a_task_says_behind_the_barrier_waits_for_the_next_checkpoint() {
        let spans = [KeySpan::ALL.share(0, 2), KeySpan::ALL.share(1, 2)];
        let mut coordinator = CheckpointCoordinator::new(&spans, CheckpointId(0));
        let mut whole = JobSnapshot::empty();
        let high = 1 << 63;
        let id = coordinator.trigger().unwrap();
        coordinator.acknowledge(0, id, state("a", None, &[1]));
        coordinator.task_ended(0, state("a", Some(vec![1]), &[2]));
        let contents = coordinator
            .acknowledge(1, id, state("a", None, &[high]))
            .unwrap();
        assert_eq!(fold(&mut whole, &contents), [1, high]);
        for key in [high + 1, high + 2] {
            // This instance gives everything, the one that has ended nothing new: its keys stand.
            let id = coordinator.trigger().unwrap();
            let contents = coordinator
                .acknowledge(1, id, state("a", None, &[key]))
                .unwrap();
            assert_eq!(fold(&mut whole, &contents), [2, key]);
        }
    }
}
