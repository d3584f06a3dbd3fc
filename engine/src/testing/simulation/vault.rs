//! The checkpoints of a simulated world: written call by call while the job goes on, complete with the last call, and all that is left
//! of a job that is killed.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::Rng;
use rand::rngs::SmallRng;

use crate::checkpoint::{CheckpointContents, JobSnapshot, SnapshotReader};
use crate::error::Result;
use crate::runtime::DeterministicStepper;
use crate::stream::CheckpointId;
use crate::testing::test_connector::CommittedMark;

/// What becomes of a checkpoint that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Completes,
    /// The store refuses a write: nobody is told, the job goes on.
    Fails,
}

/// How far the writing has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// More calls follow, or nothing is being written.
    NotYet,
    /// It may be restored from now on.
    Complete(CheckpointId),
    /// It failed.
    Failed(CheckpointId),
}

/// A complete checkpoint, and what sinks had committed when it was complete.
pub(super) type Kept = (Arc<dyn SnapshotReader>, CommittedMark);

/// See the module.
pub(super) struct Vault {
    retained: usize,
    /// Everything as of the last snapshot that was taken, whether its checkpoint was written or not: later ones may hold changes only.
    whole: Option<JobSnapshot>,
    writing: Option<(Arc<JobSnapshot>, u32, Fate)>,
    kept: VecDeque<(Arc<JobSnapshot>, CommittedMark)>,
}

impl Vault {
    /// Keeps so many complete checkpoints.
    pub(super) fn new(retained: usize) -> Self {
        Vault {
            retained,
            whole: None,
            writing: None,
            kept: VecDeque::new(),
        }
    }

    /// Whether a checkpoint is being written.
    pub(super) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// A process starts: what it restores.
    pub(super) fn start(&mut self) -> Option<Arc<dyn SnapshotReader>> {
        let newest = self.kept.back();
        self.whole = newest.map(|(snapshot, _)| (**snapshot).clone());
        newest.map(|(snapshot, _)| snapshot.clone() as Arc<dyn SnapshotReader>)
    }

    /// Begins to write the checkpoint whose barrier every task has passed, where there is one.
    pub(super) fn begin(
        &mut self,
        job: &mut DeterministicStepper,
        random: &mut SmallRng,
    ) -> Result<Option<CheckpointId>> {
        match job.completed_contents() {
            Some(contents) => self.begin_contents(&contents, true, random).map(Some),
            None => Ok(None),
        }
    }

    /// Begins to write the checkpoint at the end of the job.
    pub(super) fn begin_final(
        &mut self,
        job: &mut DeterministicStepper,
        random: &mut SmallRng,
    ) -> Result<Option<CheckpointId>> {
        match job.final_contents() {
            Some(contents) => self.begin_contents(&contents, false, random).map(Some),
            None => Ok(None),
        }
    }

    fn begin_contents(
        &mut self,
        contents: &CheckpointContents,
        may_fail: bool,
        random: &mut SmallRng,
    ) -> Result<CheckpointId> {
        let checkpoint = contents.checkpoint;
        let mut whole = self.whole.take().unwrap_or_else(JobSnapshot::empty);
        contents.fold_into(&mut whole)?;
        self.whole = Some(whole.clone());
        let fate = match may_fail && random.random_bool(0.15) {
            true => Fate::Fails,
            false => Fate::Completes,
        };
        let calls = match random.random_range(0..4) {
            0 => 0,
            1 => random.random_range(20..60),
            _ => random.random_range(1..8),
        };
        self.writing = Some((Arc::new(whole), calls, fate));
        Ok(checkpoint)
    }

    /// Makes the next call of what is being written.
    pub(super) fn advance(&mut self, mark: impl FnOnce() -> CommittedMark) -> Written {
        let Some((snapshot, calls, fate)) = &mut self.writing else {
            return Written::NotYet;
        };
        if *calls > 0 {
            *calls -= 1;
            return Written::NotYet;
        }
        let (snapshot, fate) = (snapshot.clone(), *fate);
        self.writing = None;
        let id = snapshot.checkpoint;
        if fate == Fate::Fails {
            return Written::Failed(id);
        }
        self.kept.push_back((snapshot, mark()));
        while self.kept.len() > self.retained {
            self.kept.pop_front();
        }
        Written::Complete(id)
    }

    /// The process dies: what is not complete is gone.
    pub(super) fn die(&mut self) {
        self.writing = None;
        self.whole = None;
    }

    /// The complete checkpoints that are kept, newest first.
    pub(super) fn kept(&self) -> Vec<Kept> {
        let newest_first = self.kept.iter().rev();
        let kept = newest_first.map(|(snapshot, mark)| {
            let reader = snapshot.clone() as Arc<dyn SnapshotReader>;
            (reader, mark.clone())
        });
        kept.collect()
    }
}
