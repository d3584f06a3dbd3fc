//! A compute thread: steps its tasks from the sinks back to the sources, and sleeps when nothing moves.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender as ReportSender;
use std::time::Duration;

use super::channel::Parker;
use super::coordinator::{Report, Shared};
use super::task::{Step, StepEnvironment, Task};
use crate::error::{Error, Result};
use crate::stream::CheckpointId;

/// One compute thread.
pub(super) struct Worker {
    pub(super) tasks: Vec<Task>,
    pub(super) shared: Arc<Shared>,
    pub(super) parker: Arc<Parker>,
    pub(super) reports: ReportSender<Report>,
    pub(super) notified: CheckpointId,
}

impl Worker {
    pub(super) fn run(mut self) -> Vec<Task> {
        let report = match caught(|| self.turn()) {
            Ok(()) => Report::ThreadEnded,
            Err(error) => Report::Failed(error),
        };
        // The coordinator may be gone already; then another thread has told it of a failure first.
        let _ = self.reports.send(report);
        self.tasks
    }

    fn turn(&mut self) -> Result<()> {
        const LONGEST_SLEEP: Duration = Duration::from_millis(500);
        while !self.shared.cancel.load(Ordering::Relaxed) && !self.shared.stop.is_aborted() {
            // Read before the completed checkpoint: who sees that the job has stopped commits what belongs to the savepoint.
            let is_suspended = self.shared.stop.is_suspended();
            self.notify()?;
            if is_suspended {
                return Ok(());
            }
            let env = self.environment();
            let (mut progressed, mut finished, mut until) = (false, 0, None::<i64>);
            for task in self.tasks.iter_mut().rev() {
                match task.step(&env)? {
                    Step::Progress => progressed = true,
                    Step::Finished => finished += 1,
                    Step::Idle { until: time } => {
                        until = time
                            .map(|time| time.millis())
                            .into_iter()
                            .chain(until)
                            .min()
                    }
                }
                while let Some(report) = task.reports.pop_front() {
                    progressed = true;
                    let _ = self.reports.send(Report::Task(report));
                }
            }
            if finished == self.tasks.len() {
                return Ok(());
            }
            if !progressed {
                let wait = until.map_or(LONGEST_SLEEP, |time| {
                    Duration::from_millis((time - env.now.millis()).max(1) as u64)
                });
                self.parker.park(wait.min(LONGEST_SLEEP));
            }
        }
        Ok(())
    }

    fn environment(&self) -> StepEnvironment {
        let options = &self.shared.options;
        // How to stop is known before the checkpoint is asked for that it begins with.
        let checkpoint = CheckpointId(self.shared.requested.load(Ordering::SeqCst));
        StepEnvironment {
            now: self.shared.clock.now(),
            batch_rows: options.batch_rows,
            batch_bytes: options.batch_bytes,
            checkpoint,
            overtakes_from: self.shared.overtakes_from(),
            stop: self.shared.stop.mode(),
        }
    }

    fn notify(&mut self) -> Result<()> {
        let completed = CheckpointId(self.shared.completed.load(Ordering::Relaxed));
        if completed > self.notified {
            self.notified = completed;
            self.tasks
                .iter_mut()
                .try_for_each(|task| task.notify_checkpoint_complete(completed))?;
        }
        Ok(())
    }
}

/// Runs what may panic; a panic is an error like any other.
pub(super) fn caught<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let message = panic_message(&*panic);
        Err(Error::internal(format!("a task panicked: {message}")))
    })
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}
