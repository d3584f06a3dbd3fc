//! One run with faults: what happens between any two steps is drawn from a seed.
//!
//! A *turn* steps every task once, in an order of its own, and before each step something may happen: rows arrive, the clock moves, a
//! checkpoint begins, a call of the checkpoint store is made, one task hears that a checkpoint is complete, or the process dies, also in the
//! middle of a call of a reader or a sink. A dead process leaves the world as it is and a new one restores the newest complete
//! checkpoint, at another parallelism, and may die while it does. When nothing moves, more rows arrive, then the input ends.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

use super::output::{Output, compare};
use super::spilling::SimulatedBackend;
use super::vault::{Vault, Written};
use super::world::{DEATH, DyingReader, Launch, World};
use crate::checkpoint::SnapshotReader;
use crate::error::{Error, Result};
use crate::operators::Output as OperatorOutput;
use crate::runtime::{Clock, DeterministicStepper, StepperOptions};
use crate::state::{CHANNELS_TABLE, HashMapStateBackend};
use crate::stream::{CheckpointId, KeyGroup, KeyGroupRange};
use crate::types::{EventTime, ProcessingTime};
use crate::watermark::{SourceWatermarksState, SplitWatermark};

/// What a run without faults gave.
pub(super) struct Expected {
    /// When nothing moved any more, before the input ended.
    pub(super) at_rest: Output,
    /// In the end.
    pub(super) end: Output,
}

/// How often what happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Happened {
    /// Steps of tasks.
    pub steps: u64,
    /// Processes that died, without those that died during a restore.
    pub deaths: u64,
    /// Processes that died while they restored.
    pub deaths_during_restore: u64,
    /// Restores that succeeded.
    pub restores: u64,
    /// Restores at another parallelism than that of the process before.
    pub rescales: u64,
    /// Checkpoints that completed.
    pub checkpoints: u64,
    /// Checkpoints that the store did not take.
    pub failed_checkpoints: u64,
    /// Complete checkpoints that were damaged afterwards, so that the one before was restored.
    pub damaged: u64,
    /// Retained checkpoints that were restored in the end.
    pub retained: u64,
    /// Restores of checkpoints that hold what their barrier had overtaken.
    pub overtaken: u64,
    /// Rows of the expected output.
    pub rows: u64,
}

/// Why a run is no good.
pub(super) struct Fault(pub(super) String);

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault(error.to_string())
    }
}

/// How probable things are before each step; drawn once, so that seeds differ.
struct Weights {
    event: f64,
    death: f64,
    checkpoint: f64,
    arrival: f64,
}

/// A run under way.
pub(super) struct Run<'w> {
    world: &'w World<'w>,
    expected: &'w Expected,
    random: SmallRng,
    /// When checkpoints are damaged: drawn apart, so that all else goes as it would.
    damage: SmallRng,
    weights: Weights,
    /// Whether snapshots hold what changed alone, and whether all state is taken out after every batch.
    incremental: bool,
    spills: bool,
    /// Whether barriers overtake.
    unaligned: bool,
    /// How probably each task of the process makes no step in an uneven turn, so that rows pile up before it: where barriers overtake.
    lags: Vec<f64>,
    vault: Vault,
    job: Option<DeterministicStepper>,
    parallelism: usize,
    deaths_left: u32,
    /// Checkpoints that are complete, with the tasks that have not heard of it.
    news: VecDeque<(CheckpointId, Vec<usize>)>,
    released: usize,
    closed: bool,
    /// The final checkpoint is begun.
    ends: bool,
    idle_turns: u32,
    pub(super) happened: Happened,
    pub(super) events: Vec<String>,
    quiet_steps: u64,
}

/// So many checkpoints a run has, but for the last one.
const MOST_CHECKPOINTS: u64 = 30;
/// Every task makes a step in this part of all turns: while rows arrive, and when all have. (What the clock sends must come through, too.)
const EVEN_TURNS: [f64; 2] = [0.2, 0.6];

/// See [`Run::lags`].
const LAGS: [f64; 5] = [0.0, 0.0, 0.5, 0.9, 0.98];

/// More steps than any run of so few rows takes.
const MOST_STEPS: u64 = 400_000;

/// Runs the job without faults.
pub(super) fn expect(world: &World) -> Result<Expected, Fault> {
    let launch = Launch {
        parallelism: 1,
        stepper: StepperOptions::default(),
        incremental: false,
        backend: Arc::new(HashMapStateBackend),
    };
    let mut job = world.launch(&launch, None)?;
    // Rows of several tables arrive together, as they come.
    world.bench.release(world.workload.steps.len());
    job.run_until_idle()?;
    let at_rest = match world.workload.directory {
        None => world.written().map_err(Fault)?,
        Some(_) => Output::default(),
    };
    run_to_end(world, &mut job)?;
    let end = world.committed().map_err(Fault)?;
    Ok(Expected { at_rest, end })
}

pub(super) fn run_to_end(world: &World, job: &mut DeterministicStepper) -> Result<(), Fault> {
    world.bench.close();
    job.run_until_idle()?;
    if !job.is_finished() {
        return Err(Fault(
            "the input has ended, but the job does not come to its end".to_string(),
        ));
    }
    Ok(job.commit_end()?)
}

impl<'w> Run<'w> {
    pub(super) fn new(
        world: &'w World<'w>,
        expected: &'w Expected,
        seed: u64,
        unaligned: bool,
    ) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let weights = Weights {
            event: *[0.05, 0.2, 0.5].choose(&mut random).unwrap_or(&0.2),
            death: *[0.005, 0.02, 0.05].choose(&mut random).unwrap_or(&0.02),
            checkpoint: *[0.1, 0.3, 0.8].choose(&mut random).unwrap_or(&0.3),
            arrival: *[0.05, 0.2, 0.6].choose(&mut random).unwrap_or(&0.2),
        };
        // There must be rows on their way while a checkpoint is taken.
        let weights = match unaligned {
            true => Weights {
                event: weights.event.max(0.2),
                checkpoint: 0.8,
                arrival: 0.6,
                ..weights
            },
            false => weights,
        };
        let incremental = random.random_bool(0.5);
        let rows = expected.end.values().map(Vec::len).sum::<usize>() as u64;
        Run {
            deaths_left: random.random_range(1..=5),
            vault: Vault::new(random.random_range(1..=3), incremental),
            incremental,
            spills: random.random_bool(0.5),
            parallelism: 0,
            unaligned,
            lags: Vec::new(),
            world,
            expected,
            damage: SmallRng::seed_from_u64(!seed),
            random,
            weights,
            job: None,
            news: VecDeque::new(),
            released: world.workload.preloaded,
            closed: false,
            ends: false,
            idle_turns: 0,
            happened: Happened {
                rows,
                ..Happened::default()
            },
            events: Vec::new(),
            quiet_steps: 0,
        }
    }

    /// Runs to the end, compares, and restores every retained checkpoint.
    pub(super) fn run(&mut self) -> Result<(), Fault> {
        self.world.bench.release(self.released);
        loop {
            if self.happened.steps > MOST_STEPS {
                return Err(Fault("the job does not come to its end".to_string()));
            }
            if self.job.is_none() {
                self.start()?;
            } else if self.turn()? {
                break;
            }
        }
        self.job = None;
        self.note("the job has ended");
        let committed = self.world.committed().map_err(Fault)?;
        compare(&self.expected.end, &committed, "in the end").map_err(Fault)?;
        self.restore_retained()
    }

    fn note(&mut self, event: impl Into<String>) {
        if self.quiet_steps > 0 {
            self.events.push(format!("{} steps", self.quiet_steps));
            self.quiet_steps = 0;
        }
        self.events.push(event.into());
    }

    fn launch_options(&mut self) -> Launch {
        let most = self.world.workload.most_parallel;
        let mut parallelism = self.random.random_range(1..=most);
        let mut unaligned_after = None;
        if self.unaligned {
            unaligned_after = [0, 0, 200].choose(&mut self.random).copied();
            parallelism = match self.world.workload.late {
                true => most.min(2),
                false => parallelism.max(most.min(2)),
            };
        }
        let random = &mut self.random;
        Launch {
            parallelism,
            incremental: self.incremental,
            backend: Arc::new(SimulatedBackend::new(self.spills)),
            stepper: StepperOptions {
                batch_rows: *[1, 2, 3, 7, 8192].choose(random).unwrap_or(&7),
                queue_bytes: *[1, 300, 8 << 20].choose(random).unwrap_or(&300),
                output_bytes: *[0, OperatorOutput::LIMIT_BYTES]
                    .choose(random)
                    .unwrap_or(&0),
                unaligned_after,
                ..StepperOptions::default()
            },
        }
    }

    /// A process starts, from the newest complete checkpoint where there is one.
    fn start(&mut self) -> Result<(), Fault> {
        self.world.bench.revive();
        self.damage()?;
        let launch = self.launch_options();
        let dies = self.deaths_left > 0 && self.random.random_bool(0.2);
        let with_store = dies && self.random.random_bool(0.3);
        let snapshot = match self
            .vault
            .start(with_store.then(|| self.random.random_range(0..12)))
        {
            Ok(snapshot) => snapshot,
            Err(_) if self.vault.has_died() => {
                self.note("a process dies while it opens the store");
                self.happened.deaths_during_restore += 1;
                self.deaths_left -= 1;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if snapshot.is_none() && !self.world.bench.start_over() {
            return Err(Fault(
                "a sink committed rows before any checkpoint was complete".to_string(),
            ));
        }
        let (reads, calls) = match dies {
            _ if with_store => (u32::MAX, None),
            false => (u32::MAX, None),
            true if self.random.random_bool(0.5) => (self.random.random_range(0..6), None),
            true => (u32::MAX, Some(self.random.random_range(0..8))),
        };
        if let Some(calls) = calls {
            self.world.bench.die_in(calls);
        }
        let from = snapshot.as_ref().map_or_else(
            || "nothing".to_string(),
            |snapshot| format!("checkpoint {}", snapshot.checkpoint()),
        );
        self.note(format!(
            "a process starts from {from}: parallelism {}, batches of {}, channels of {} bytes{}{}",
            launch.parallelism,
            launch.stepper.batch_rows,
            launch.stepper.queue_bytes,
            if self.spills {
                ", no room for state"
            } else {
                ""
            },
            if self.incremental {
                ", snapshots of changes"
            } else {
                ""
            },
        ));
        let reader = snapshot
            .as_deref()
            .map(|snapshot| DyingReader::new(snapshot, reads));
        let reader = reader.as_ref().map(|reader| reader as &dyn SnapshotReader);
        match self.world.launch(&launch, reader) {
            Ok(job) => self.started(job, &launch, snapshot.as_deref()),
            Err(error) if dies && (error.to_string().contains(DEATH) || self.vault.has_died()) => {
                self.note(format!("it dies while it starts: {error}"));
                self.happened.deaths_during_restore += 1;
                self.deaths_left -= 1;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Now and then the newest checkpoint is no longer what was written when a process starts.
    fn damage(&mut self) -> Result<(), Fault> {
        const MOST: u64 = 3;
        if self.happened.damaged == MOST || !self.damage.random_bool(0.4) {
            return Ok(());
        }
        if let Some(checkpoint) = self.vault.damage_newest(&mut self.damage)? {
            self.happened.damaged += 1;
            self.note(format!("a byte of checkpoint {checkpoint} has changed"));
        }
        Ok(())
    }

    fn started(
        &mut self,
        mut job: DeterministicStepper,
        launch: &Launch,
        snapshot: Option<&dyn SnapshotReader>,
    ) -> Result<(), Fault> {
        if let Some(snapshot) = snapshot {
            self.happened.restores += 1;
            self.happened.overtaken += u64::from(holds_overtaken(snapshot)?);
            self.happened.rescales += u64::from(launch.parallelism != self.parallelism);
            check_watermarks(snapshot, &job)?;
        }
        self.vault.started(&mut job);
        if self.unaligned {
            let lag = |_| *LAGS.choose(&mut self.random).unwrap_or(&0.0);
            self.lags = (0..job.task_count()).map(lag).collect();
        }
        self.parallelism = launch.parallelism;
        self.ends = false;
        self.idle_turns = 0;
        self.job = Some(job);
        Ok(())
    }

    /// The process dies.
    fn die(&mut self, how: &str) {
        self.note(format!("the process dies {how}"));
        self.job = None;
        self.news.clear();
        self.vault.die();
        self.happened.deaths += 1;
        self.deaths_left = self.deaths_left.saturating_sub(1);
    }

    /// What a call of the job came to; `None` where the process died in it.
    fn alive<T>(&mut self, result: Result<T>) -> Result<Option<T>, Fault> {
        // A sink operator may mean to try a failed commit again; a dead one cannot.
        if self.world.bench.has_died() {
            self.die("in the middle of a call");
            return Ok(None);
        }
        Ok(Some(result?))
    }

    /// Every task makes a step, but for those that lag. Whether the job has ended and committed everything.
    fn turn(&mut self) -> Result<bool, Fault> {
        let tasks = self
            .job
            .as_ref()
            .map_or(0, DeterministicStepper::task_count);
        let mut order: Vec<usize> = (0..tasks).collect();
        order.shuffle(&mut self.random);
        let (mut moved, arrived) = (false, self.released);
        let even = EVEN_TURNS[usize::from(self.has_all_arrived())];
        let is_even = self.lags.is_empty() || self.random.random_bool(even);
        for index in order {
            if !is_even && self.random.random_bool(self.lags[index]) {
                continue;
            }
            if self.random.random_bool(self.weights.event) && !self.event()? {
                return Ok(false);
            }
            let Some(job) = &mut self.job else {
                return Ok(false);
            };
            let step = job.step_task(index);
            let Some(stepped) = self.alive(step)? else {
                return Ok(false);
            };
            moved |= stepped;
            self.happened.steps += 1;
            self.quiet_steps += 1;
            self.take_completed()?;
        }
        // What arrived behind the last look of a task still has to be looked at.
        match moved || self.released > arrived || !is_even {
            true => {
                self.idle_turns = 0;
                Ok(false)
            }
            false => self.at_rest(),
        }
    }

    fn take_completed(&mut self) -> Result<(), Fault> {
        let Some(job) = &mut self.job else {
            return Ok(());
        };
        if let Some(id) = self.vault.begin(job, &mut self.random) {
            self.note(format!(
                "every task has passed the barrier of checkpoint {id}"
            ));
        }
        Ok(())
    }

    /// Something happens. Whether the process still lives.
    fn event(&mut self) -> Result<bool, Fault> {
        if self.deaths_left > 0 && self.random.random_bool(self.weights.death) {
            if self.random.random_bool(0.5) {
                self.die("between two steps");
                return Ok(false);
            }
            let calls = self.random.random_range(0..6);
            self.world.bench.die_in(calls);
        }
        match self.random.random_range(0..6) {
            0 => self.arrive(),
            1 => self.trigger(),
            2 => {
                let ms = *[1, 200, 1_000].choose(&mut self.random).unwrap_or(&1);
                self.pass_time(ms);
            }
            3 => return self.tell(),
            _ => self.write()?,
        }
        Ok(self.job.is_some())
    }

    fn arrive(&mut self) {
        let all = self.world.workload.steps.len();
        if self.released == all || !self.random.random_bool(self.weights.arrival) {
            return;
        }
        self.released += self.random.random_range(1..=8).min(all - self.released);
        self.world.bench.release(self.released);
        self.note(format!("{} of {all} steps have arrived", self.released));
    }

    fn pass_time(&mut self, ms: i64) {
        let now = self.world.clock.now();
        if let Some(job) = &mut self.job {
            job.set_time(ProcessingTime(now.millis() + ms));
        }
    }

    fn has_all_arrived(&self) -> bool {
        self.released == self.world.workload.steps.len()
    }

    fn trigger(&mut self) {
        // With one upon the other many tasks would never come to rest.
        let taken = self.happened.checkpoints + self.happened.failed_checkpoints;
        let may = !self.vault.is_writing() && !self.ends && taken < MOST_CHECKPOINTS;
        let probability = match self.unaligned && self.has_all_arrived() {
            true => self.weights.checkpoint / 8.0,
            false => self.weights.checkpoint,
        };
        if !may || !self.random.random_bool(probability) {
            return;
        }
        if self.job.as_mut().is_some_and(|job| job.begin_checkpoint()) {
            self.note("a checkpoint begins");
        }
    }

    /// The checkpoint that waits to be written comes nearer to it, or is written.
    fn write(&mut self) -> Result<(), Fault> {
        let Some(job) = &mut self.job else {
            return Ok(());
        };
        let (bench, may_die) = (&self.world.bench, self.deaths_left > 0);
        let random = &mut self.random;
        match self.vault.advance(job, || bench.mark(), may_die, random)? {
            Written::NotYet => {}
            Written::Failed(why) => {
                self.happened.failed_checkpoints += 1;
                self.note(format!("a checkpoint cannot be written: {why}"));
            }
            Written::Died(id) => self.die(&format!("while it writes checkpoint {id}")),
            Written::Complete(id) => {
                self.happened.checkpoints += 1;
                self.note(format!("checkpoint {id} is complete"));
                let tasks = self
                    .job
                    .as_ref()
                    .map_or(0, DeterministicStepper::task_count);
                let mut tasks: Vec<usize> = (0..tasks).collect();
                tasks.shuffle(&mut self.random);
                let id = if self.ends {
                    CheckpointId(u64::MAX)
                } else {
                    id
                };
                self.news.push_back((id, tasks));
            }
        }
        Ok(())
    }

    /// One task hears of a complete checkpoint. Whether the process still lives.
    fn tell(&mut self) -> Result<bool, Fault> {
        let Some((checkpoint, tasks)) = self.news.front_mut() else {
            return Ok(true);
        };
        let checkpoint = *checkpoint;
        let Some(task) = tasks.pop() else {
            self.news.pop_front();
            return Ok(true);
        };
        let told = self
            .job
            .as_mut()
            .map_or(Ok(()), |job| job.notify_task(task, checkpoint));
        Ok(self.alive(told)?.is_some())
    }

    /// Nothing moves: more happens. Whether the job has ended and committed everything.
    fn at_rest(&mut self) -> Result<bool, Fault> {
        self.idle_turns += 1;
        if self.idle_turns > 2_000 {
            return Err(Fault("the job is stuck".to_string()));
        }
        let all = self.world.workload.steps.len();
        if self.released < all {
            self.released += self.random.random_range(1..=8).min(all - self.released);
            self.world.bench.release(self.released);
            self.note(format!(
                "at rest: {} of {all} steps have arrived",
                self.released
            ));
            return Ok(false);
        }
        if !self.closed {
            return self.close();
        }
        if self
            .job
            .as_ref()
            .is_some_and(DeterministicStepper::is_finished)
        {
            return self.end();
        }
        // A timer, or a channel that opens with the next event.
        let next = self.job.as_ref().and_then(DeterministicStepper::next_timer);
        if let (Some(next), Some(job)) = (next, &mut self.job) {
            job.set_time(next);
        }
        self.event()?;
        Ok(false)
    }

    /// All rows are there and nothing moves.
    fn close(&mut self) -> Result<bool, Fault> {
        if self.world.workload.compared_at_rest {
            let written = self.world.written().map_err(Fault)?;
            let when = "when nothing moves, before the input ends";
            compare(&self.expected.at_rest, &written, when).map_err(Fault)?;
        }
        // Sometimes more happens first.
        if self.random.random_bool(0.6) {
            self.note("the input ends");
            self.closed = true;
            self.world.bench.close();
        } else {
            self.event()?;
        }
        Ok(false)
    }

    /// Every task has ended: the final checkpoint, then the last commits. Whether they are done.
    fn end(&mut self) -> Result<bool, Fault> {
        if self.deaths_left > 0 && self.random.random_bool(0.1) {
            self.die("at the end");
            return Ok(false);
        }
        if self.vault.is_writing() {
            self.write()?;
            return Ok(false);
        }
        if !self.ends {
            self.news.clear();
            let Some(job) = &mut self.job else {
                return Ok(false);
            };
            if let Some(id) = self.vault.begin_final(job, &mut self.random) {
                self.note(format!("the final checkpoint {id} begins"));
            }
            self.ends = true;
            return Ok(false);
        }
        if !self.tell()? {
            return Ok(false);
        }
        Ok(self.news.is_empty())
    }

    /// From each retained checkpoint the job goes on to the same end.
    fn restore_retained(&mut self) -> Result<(), Fault> {
        if self.world.workload.directory.is_some() {
            return Ok(());
        }
        for (snapshot, mark) in self.vault.kept()? {
            let launch = self.launch_options();
            self.note(format!(
                "retained checkpoint {} is restored at parallelism {}",
                snapshot.checkpoint(),
                launch.parallelism
            ));
            self.world.bench.revive();
            self.world.bench.rewind(&mark);
            let mut job = self.world.launch(&launch, Some(&*snapshot))?;
            self.happened.overtaken += u64::from(holds_overtaken(&*snapshot)?);
            check_watermarks(&*snapshot, &job)?;
            run_to_end(self.world, &mut job)?;
            let committed = self.world.committed().map_err(Fault)?;
            let when = format!("from checkpoint {} on", snapshot.checkpoint());
            compare(&self.expected.end, &committed, &when).map_err(Fault)?;
            self.happened.retained += 1;
        }
        Ok(())
    }
}

/// `pipeline.max-parallelism` of the jobs of the pool.
const DEFAULT_KEY_GROUPS: u16 = 128;

/// Whether something was on its way into an operator.
fn holds_overtaken(snapshot: &dyn SnapshotReader) -> Result<bool, Fault> {
    for uid in snapshot.operators() {
        let state = snapshot.read(&uid, NO_GROUPS, DEFAULT_KEY_GROUPS)?;
        if !state.batches(CHANNELS_TABLE).is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// One group, for who reads no keyed state.
const NO_GROUPS: KeyGroupRange = KeyGroupRange {
    first: KeyGroup(0),
    last: KeyGroup(0),
};

/// No operator starts behind the time that the snapshot says, and no split of a source.
fn check_watermarks(
    snapshot: &dyn SnapshotReader,
    job: &DeterministicStepper,
) -> Result<(), Fault> {
    check_operators(snapshot, job)?;
    check_splits(snapshot, job)
}

/// The generator of every split goes on where it was, and an idle split is still idle.
fn check_splits(snapshot: &dyn SnapshotReader, job: &DeterministicStepper) -> Result<(), Fault> {
    #[derive(serde::Deserialize)]
    struct Source {
        watermarks: SourceWatermarksState,
    }
    let mut restored: BTreeMap<String, BTreeMap<String, SplitWatermark>> = BTreeMap::new();
    for (uid, state) in job.split_watermarks() {
        restored.entry(uid).or_default().extend(state.splits);
    }
    for (uid, splits) in restored {
        let state = snapshot.read(&uid, NO_GROUPS, DEFAULT_KEY_GROUPS)?;
        let saved: Vec<Source> = state.json("source")?;
        let saved = saved.into_iter().flat_map(|saved| saved.watermarks.splits);
        for (split, saved) in saved {
            if let Some(now) = splits.get(&split).filter(|now| **now != saved) {
                return Err(Fault(format!(
                    "split {split} of {uid} was saved as {saved:?} and begins with {now:?}"
                )));
            }
        }
    }
    Ok(())
}

/// No operator starts behind the time that the snapshot says of the slowest of its instances.
fn check_operators(snapshot: &dyn SnapshotReader, job: &DeterministicStepper) -> Result<(), Fault> {
    #[derive(serde::Deserialize)]
    struct Time {
        watermark: EventTime,
    }
    let mut least: BTreeMap<String, EventTime> = BTreeMap::new();
    for (uid, watermark) in job.watermarks() {
        let of_operator = least.entry(uid).or_insert(watermark);
        *of_operator = watermark.min(*of_operator);
    }
    for (uid, watermark) in least {
        let state = snapshot.read(&uid, NO_GROUPS, DEFAULT_KEY_GROUPS)?;
        let times: Vec<Time> = state.json("$time")?;
        let Some(saved) = times.iter().map(|time| time.watermark).min() else {
            continue;
        };
        if watermark < saved {
            return Err(Fault(format!(
                "the watermark of {uid} went back from {saved} to {watermark} across a restore"
            )));
        }
    }
    Ok(())
}
