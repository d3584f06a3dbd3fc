//! Runs the steps of one case in one way on a stepped job: releases records, takes checkpoints, kills and restores.
//!
//! The job comes to rest before a record of another table or partition arrives, so the order of arrival is the case's in
//! every way. After a kill the records behind the restored checkpoint are released again in that same order.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::case::{Step, mistake};
use super::test_connector::{TestBench, WrittenRow};
use super::ways::{Cuts, WaySettings};
use crate::error::{Error, Result};

/// A job that runs only when told to, on one thread, with a manual clock.
pub(super) trait SteppedJob {
    /// All that a restore needs.
    type Snapshot;

    /// Steps every task until nothing can move.
    fn run_until_idle(&mut self) -> Result<()>;

    /// Moves the clock, fires what is due, and comes to rest.
    fn advance_processing_time(&mut self, ms: i64) -> Result<()>;

    /// Takes a checkpoint, completes it and commits the sinks; `None` when the job has ended.
    fn checkpoint(&mut self) -> Result<Option<Self::Snapshot>>;

    /// Whether all tasks have ended.
    fn is_finished(&self) -> bool;

    /// Lets the sinks of a job that has ended commit what they hold.
    fn commit_end(&mut self) -> Result<()>;

    /// Counters by Flink's names, summed over operators and subtasks.
    fn metrics(&self) -> BTreeMap<String, u64>;
}

/// Starts the job of a case.
pub(super) trait Launcher {
    /// What it starts.
    type Job: SteppedJob;

    /// Starts the job, from a snapshot where there is one. The clock goes on where it was.
    fn launch(
        &self,
        plan: &JobPlan,
        snapshot: Option<&<Self::Job as SteppedJob>::Snapshot>,
    ) -> Result<Self::Job>;
}

/// What steps can change about a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct JobPlan {
    /// Over the session's.
    pub(super) parallelism: Option<usize>,
    /// Over the case's.
    pub(super) query: Option<String>,
}

/// What an `output` step saw.
pub(super) struct SeenOutput {
    /// The step, from 0.
    pub(super) step: usize,
    /// The rows since the one before.
    pub(super) rows: Vec<WrittenRow>,
}

/// The run of a case under way.
pub(super) struct Execution<'a, L: Launcher> {
    launcher: &'a L,
    bench: Arc<TestBench>,
    steps: &'a [Step],
    settings: WaySettings,
    output_sink: Option<&'a str>,
    random: SmallRng,
    plan: JobPlan,
    job: L::Job,
    completed: Option<Completed<<L::Job as SteppedJob>::Snapshot>>,
    released: usize,
    /// Counters of the runs before the last restore, as of the checkpoint that it took up.
    counted: BTreeMap<String, u64>,
    crashed: bool,
    outputs: Vec<SeenOutput>,
}

/// The last completed checkpoint.
struct Completed<S> {
    snapshot: S,
    released: usize,
    counted: BTreeMap<String, u64>,
}

/// What a run came to.
pub(super) struct Outcome {
    /// Counters by name.
    pub(super) metrics: BTreeMap<String, u64>,
    /// What the `output` steps saw.
    pub(super) outputs: Vec<SeenOutput>,
}

impl<'a, L: Launcher> Execution<'a, L> {
    /// Starts the job. `output_sink` is the sink that `output` steps look at; `seed` decides random cuts.
    pub(super) fn start(
        launcher: &'a L,
        bench: Arc<TestBench>,
        steps: &'a [Step],
        settings: WaySettings,
        output_sink: Option<&'a str>,
        seed: u64,
    ) -> Result<Self> {
        let mut random = SmallRng::seed_from_u64(seed);
        if settings.cuts == Cuts::Random {
            bench.cut_behind((0..steps.len()).filter(|_| random.random_bool(0.3)));
        }
        let plan = JobPlan {
            parallelism: settings.parallelism,
            query: None,
        };
        Ok(Execution {
            job: launcher.launch(&plan, None)?,
            launcher,
            bench,
            steps,
            settings,
            output_sink,
            random,
            plan,
            completed: None,
            released: 0,
            counted: BTreeMap::new(),
            crashed: false,
            outputs: Vec::new(),
        })
    }

    /// Takes all steps, and the end of the input where `ends`.
    pub(super) fn run(mut self, ends: bool) -> Result<Outcome> {
        self.job.run_until_idle()?;
        let mut next = 0;
        while next < self.steps.len() {
            next = self.step(next)?;
        }
        if self.crashed {
            return Err(mistake("a crash must be followed by a restore"));
        }
        self.let_go()?;
        if ends {
            self.bench.close();
            self.job.run_until_idle()?;
            if !self.job.is_finished() {
                return Err(Error::internal(
                    "the input has ended, but the job does not come to its end",
                ));
            }
            self.job.commit_end()?;
        }
        Ok(Outcome {
            metrics: self.metrics(),
            outputs: self.outputs,
        })
    }

    /// Takes step `at` and those that go with it, and says which is next.
    fn step(&mut self, at: usize) -> Result<usize> {
        let steps = self.steps;
        let is_restore = matches!(
            steps[at],
            Step::KillAndRestore | Step::RestoreWithParallelism(_) | Step::RestoreWithQuery(_)
        );
        if self.crashed && !is_restore {
            return Err(mistake("a crash must be followed by a restore"));
        }
        match &steps[at] {
            Step::Record { .. } => return self.arrive(at),
            Step::Idle { .. } => {
                self.release(at + 1)?;
                self.kill_where_the_way_does()?;
            }
            Step::AdvanceProcessingTime { ms } => {
                self.job.advance_processing_time(*ms)?;
                self.released = at + 1;
                self.kill_where_the_way_does()?;
            }
            Step::Checkpoint { crash_after_commit } => {
                self.released = at + 1;
                self.checkpoint()?;
                self.crashed = *crash_after_commit;
            }
            Step::Barrier { table, partition } => {
                self.released = at + 1;
                if self.bench.hold_back(table, *partition) {
                    self.checkpoint()?;
                    self.let_go()?;
                }
            }
            Step::KillAndRestore => self.restore()?,
            Step::RestoreWithParallelism(parallelism) => {
                self.plan.parallelism = Some(*parallelism);
                self.restore()?;
            }
            Step::RestoreWithQuery(query) => {
                self.plan.query = Some(query.clone());
                self.restore()?;
            }
            Step::Output { .. } => {
                let rows = self.output_sink.map(|sink| self.bench.take_output(sink));
                self.outputs.push(SeenOutput {
                    step: at,
                    rows: rows.unwrap_or_default(),
                });
            }
        }
        Ok(at + 1)
    }

    /// Releases the records from `at` on that make one arrival in this way.
    fn arrive(&mut self, at: usize) -> Result<usize> {
        let run = run_at(self.steps, at, self.steps.len());
        let end = match self.settings.cuts {
            Cuts::Rows => at + 1,
            Cuts::Random => self.random.random_range(run.start..run.end) + 1,
            Cuts::Runs if self.settings.kills => at + 1,
            Cuts::Runs => run.end,
        };
        self.release(end)?;
        self.kill_where_the_way_does()?;
        Ok(end)
    }

    fn release(&mut self, steps: usize) -> Result<()> {
        self.released = steps;
        self.bench.release(steps);
        self.job.run_until_idle()
    }

    fn kill_where_the_way_does(&mut self) -> Result<()> {
        if !self.settings.kills {
            return Ok(());
        }
        if self.job.is_finished() {
            return Ok(());
        }
        self.checkpoint()?;
        self.restore()
    }

    /// Lets arrive what waited behind barriers.
    fn let_go(&mut self) -> Result<()> {
        self.bench.let_go();
        self.job.run_until_idle()
    }

    fn checkpoint(&mut self) -> Result<()> {
        if let Some(snapshot) = self.job.checkpoint()? {
            self.complete(snapshot);
        }
        Ok(())
    }

    fn complete(&mut self, snapshot: <L::Job as SteppedJob>::Snapshot) {
        self.completed = Some(Completed {
            snapshot,
            released: self.released,
            counted: self.metrics(),
        });
    }

    /// Stops without warning, takes up the last completed checkpoint and lets arrive again what came after it.
    fn restore(&mut self) -> Result<()> {
        let arrived = self.released;
        self.crashed = false;
        let snapshot = match &self.completed {
            Some(completed) => {
                self.released = completed.released;
                self.counted = completed.counted.clone();
                Some(&completed.snapshot)
            }
            None => {
                self.released = 0;
                self.counted.clear();
                self.bench.discard_all();
                None
            }
        };
        self.bench.let_go();
        self.bench.release(self.released);
        self.job = self.launcher.launch(&self.plan, snapshot)?;
        self.job.advance_processing_time(0)?;
        while self.released < arrived {
            let at = self.released;
            match &self.steps[at] {
                Step::Record { .. } => self.release(run_at(self.steps, at, arrived).end)?,
                Step::Idle { .. } => self.release(at + 1)?,
                _ => self.released = at + 1,
            }
        }
        Ok(())
    }

    fn metrics(&self) -> BTreeMap<String, u64> {
        let mut metrics = self.counted.clone();
        for (name, value) in self.job.metrics() {
            *metrics.entry(name).or_default() += value;
        }
        metrics
    }
}

/// The records of one table and partition that follow each other from step `at` on, before step `end`.
fn run_at(steps: &[Step], at: usize, end: usize) -> Range<usize> {
    let place = |step: &Step| match step {
        Step::Record {
            table, partition, ..
        } => Some((table.clone(), *partition)),
        _ => None,
    };
    let first = place(&steps[at]);
    let length = steps[at..end]
        .iter()
        .take_while(|step| first.is_some() && place(step) == first)
        .count();
    at..at + length.max(1)
}

#[cfg(test)]
mod tests;
