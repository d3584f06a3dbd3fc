//! The same job moved by smaller steps, for who decides what happens between any two of them: one task by one element, one task's
//! notification, the barrier of a checkpoint without waiting for it.

use super::DeterministicStepper;
use crate::error::Result;
use crate::runtime::clock::Clock;
use crate::runtime::task::{Step, Task};
use crate::stream::CheckpointId;
use crate::types::{EventTime, ProcessingTime};
use crate::watermark::SourceWatermarksState;

impl DeterministicStepper {
    /// How many tasks there are.
    pub fn task_count(&self) -> usize {
        self.tasks.len()
    }

    /// Moves one task by one element of its input. Whether it moved.
    pub fn step_task(&mut self, index: usize) -> Result<bool> {
        let env = self.environment();
        let before = self.tasks[index].is_finished();
        let step = self.tasks[index].step(&env)?;
        self.take_reports(index);
        Ok(step == Step::Progress || step == Step::Finished && !before)
    }

    /// Whether a barrier is on its way.
    pub fn is_checkpoint_pending(&self) -> bool {
        self.coordinator.is_pending()
    }

    /// Tells one task that a checkpoint is complete.
    pub fn notify_task(&mut self, index: usize, checkpoint: CheckpointId) -> Result<()> {
        self.tasks[index].notify_checkpoint_complete(checkpoint)
    }

    /// Moves the clock and nothing else.
    pub fn set_time(&mut self, now: ProcessingTime) {
        self.clock.set(now.max(self.clock.now()));
    }

    /// When a timer is due next.
    pub fn next_timer(&self) -> Option<ProcessingTime> {
        self.tasks.iter().filter_map(Task::next_time).min()
    }

    /// The event time of every operator instance, by the operator's stable id.
    pub fn watermarks(&self) -> Vec<(String, EventTime)> {
        self.tasks.iter().flat_map(Task::watermarks).collect()
    }

    /// The times of the splits of every source instance, by the source's stable id.
    pub(crate) fn split_watermarks(&self) -> Vec<(String, SourceWatermarksState)> {
        self.tasks
            .iter()
            .filter_map(Task::split_watermarks)
            .collect()
    }
}
