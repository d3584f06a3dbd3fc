//! The deterministic simulation: a job that dies again and again must give what it gives when it never dies.
//!
//! Everything is drawn from one seed: the job and its rows (`templates`, `rows`), the order in which tasks step, batch cuts, checkpoints, how
//! their writing goes (`vault`), deaths at any moment, restarts at other parallelisms (`run`). The same seed gives the same run. What
//! must hold: what sinks committed in the end is what they commit in a run without faults, nothing twice and nothing missing; what
//! they were given when nothing moves is the same too; nothing is committed before a checkpoint is complete; no watermark goes
//! back across a restore; from every retained checkpoint the job goes on to the same end.

mod blobs;
mod output;
mod rows;
mod run;
mod spilling;
mod templates;
#[cfg(test)]
mod unaligned;
mod vault;
mod workload;
mod world;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rand::SeedableRng;
use rand::rngs::SmallRng;

pub use run::Happened;
use run::{Fault, Run, expect};
use templates::TEMPLATES;
pub use workload::{Compared, Workload};
use world::World;

use crate::error::Result;

/// How a simulation goes.
#[derive(Debug, Clone, Copy, Default)]
pub struct SimulationOptions {
    /// Gives the events of a run that held, too.
    pub verbose: bool,
    /// Has the barriers of checkpoints overtake. Jobs in which rows may be late then keep their parallelism, for rows that are on their
    /// way when a job is rescaled come without watermarks; the others have at least two subtasks, since with one some plans are others.
    pub unaligned: bool,
}

/// A run that held.
#[derive(Debug, Clone)]
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// The name of its workload.
    pub workload: String,
    /// What happened, in numbers.
    pub happened: Happened,
    /// What happened, where it was asked for.
    pub events: Vec<String>,
}

/// A run that did not hold.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Its seed; the same seed fails again.
    pub seed: u64,
    /// The name of its workload.
    pub workload: String,
    /// The job and its rows.
    pub script: String,
    /// What happened, in order.
    pub events: Vec<String>,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} fails ({})", self.seed, self.workload)?;
        writeln!(f, "\n{}", self.script)?;
        for event in &self.events {
            writeln!(f, "  {event}")?;
        }
        writeln!(f, "\n{}", self.message)?;
        write!(f, "./dev simulate --seed {} runs it again", self.seed)
    }
}

/// The workload of a seed, from the pool.
pub fn pool_workload(seed: u64) -> Workload {
    let mut random = SmallRng::seed_from_u64(seed ^ 0x5EED);
    let template = &TEMPLATES[seed as usize % TEMPLATES.len()];
    template.workload(&mut random)
}

/// How many jobs the pool has; as many seeds in a row have one of each.
pub fn pool_size() -> usize {
    TEMPLATES.len()
}

/// Runs the simulation of a seed.
pub fn simulate(seed: u64, options: &SimulationOptions) -> Result<Report, Box<Failure>> {
    simulate_workload(&pool_workload(seed), seed, options)
}

/// Runs a workload with the faults of a seed.
pub fn simulate_workload(
    workload: &Workload,
    seed: u64,
    options: &SimulationOptions,
) -> Result<Report, Box<Failure>> {
    let mut events = Vec::new();
    let attempt = AssertUnwindSafe(|| attempt(workload, seed, options, &mut events));
    let result = catch_unwind(attempt).unwrap_or_else(|panic| Err(Fault(panic_text(&panic))));
    match result {
        Ok(happened) => Ok(Report {
            seed,
            workload: workload.name.clone(),
            happened,
            events: if options.verbose { events } else { Vec::new() },
        }),
        Err(fault) => Err(Box::new(Failure {
            seed,
            workload: workload.name.clone(),
            script: workload.to_string(),
            events,
            message: fault.0,
        })),
    }
}

/// The names of the exec nodes of a workload's plan at parallelism 2.
pub fn nodes_of(workload: &Workload) -> Result<Vec<String>> {
    let world = World::new(workload)?;
    let (plan, _) = world.plan(2)?;
    let names = plan.nodes.iter().map(|node| node.kind.name().to_string());
    Ok(names.collect())
}

fn attempt(
    workload: &Workload,
    seed: u64,
    options: &SimulationOptions,
    events: &mut Vec<String>,
) -> std::result::Result<Happened, Fault> {
    let expected = {
        let world = World::new(workload)?;
        expect(&world).map_err(|fault| Fault(format!("without faults: {}", fault.0)))?
    };
    let world = World::new(workload)?;
    let mut run = Run::new(&world, &expected, seed, options.unaligned);
    // The events are wanted also where a law of the engine panics.
    let result = catch_unwind(AssertUnwindSafe(|| run.run()));
    *events = std::mem::take(&mut run.events);
    result.unwrap_or_else(|panic| Err(Fault(panic_text(&panic))))?;
    Ok(run.happened)
}

fn panic_text(panic: &Box<dyn std::any::Any + Send>) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", text.unwrap_or("without a message"))
}
