//! One join with a backlog in its channels: an unaligned checkpoint of it completes, an aligned one waits, and a restore gives the same.

use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::output::compare;
use super::run::{expect, run_to_end};
use super::templates::TEMPLATES;
use super::workload::Workload;
use super::world::{Launch, World};
use crate::checkpoint::JobSnapshot;
use crate::runtime::{DeterministicStepper, StepperOptions};
use crate::state::{CHANNELS_TABLE, HashMapStateBackend, StateSnapshot};

fn join(seed: u64) -> Workload {
    let template = TEMPLATES.iter().find(|template| template.name == "join");
    let mut random = SmallRng::seed_from_u64(seed);
    template.unwrap().workload(&mut random)
}

fn launch(parallelism: usize, queue_bytes: usize, unaligned: bool) -> Launch {
    Launch {
        parallelism,
        stepper: StepperOptions {
            batch_rows: 1,
            queue_bytes,
            output_bytes: 0,
            unaligned_after: unaligned.then_some(0),
            ..StepperOptions::default()
        },
        incremental: false,
        backend: Arc::new(HashMapStateBackend),
    }
}

/// The sources have run far ahead of the join.
fn with_backlog(world: &World, launch: &Launch) -> DeterministicStepper {
    let mut job = world.launch(launch, None).unwrap();
    world.bench.release(world.workload.steps.len());
    for _ in 0..20 {
        // Both sources have two instances.
        step(&mut job, 4);
    }
    job
}

fn step(job: &mut DeterministicStepper, tasks: usize) {
    for task in 0..tasks {
        job.step_task(task).unwrap();
    }
}

/// In how many turns over all tasks a checkpoint completes, and what it holds.
fn checkpoint(job: &mut DeterministicStepper) -> (usize, JobSnapshot) {
    assert!(job.begin_checkpoint());
    for turn in 1..1000 {
        step(job, job.task_count());
        if let Some(contents) = job.completed_contents() {
            let mut snapshot = JobSnapshot::empty();
            contents.fold_into(&mut snapshot).unwrap();
            return (turn, snapshot);
        }
    }
    panic!("the checkpoint does not complete");
}

fn holds_channels(snapshot: &JobSnapshot) -> bool {
    let holds = |state: &StateSnapshot| !state.batches(CHANNELS_TABLE).is_empty();
    snapshot.operators.values().any(holds)
}

#[test]
fn an_unaligned_barrier_does_not_wait_for_the_backlog_of_a_join() {
    for queue_bytes in [1, 8 << 20] {
        let workload = join(1);
        let turns = [false, true].map(|unaligned| {
            let world = World::new(&workload).unwrap();
            let mut job = with_backlog(&world, &launch(2, queue_bytes, unaligned));
            let (turns, snapshot) = checkpoint(&mut job);
            assert_eq!(holds_channels(&snapshot), unaligned);
            turns
        });
        let [aligned, unaligned] = turns;
        assert!(unaligned <= 2 && aligned > unaligned, "{turns:?}");
    }
}

#[test]
fn a_join_goes_on_from_its_backlog_at_any_parallelism() {
    for seed in 0..40 {
        let workload = join(seed);
        let expected = expect(&World::new(&workload).unwrap());
        let expected = expected.map_err(|fault| fault.0).unwrap();
        let world = World::new(&workload).unwrap();
        let queue_bytes = [1, 300, 8 << 20][seed as usize % 3];
        let mut job = with_backlog(&world, &launch(2, queue_bytes, true));
        let (_, snapshot) = checkpoint(&mut job);
        assert!(holds_channels(&snapshot), "seed {seed}");
        job.notify_checkpoint_complete(snapshot.checkpoint).unwrap();
        let mark = world.bench.mark();
        drop(job);
        for parallelism in [2, 3, 1, 4] {
            world.bench.revive();
            world.bench.rewind(&mark);
            let launch = launch(parallelism, queue_bytes, true);
            let mut job = world.launch(&launch, Some(&snapshot)).unwrap();
            let ended = run_to_end(&world, &mut job);
            ended.map_err(|fault| fault.0).unwrap();
            let when = format!("seed {seed} at parallelism {parallelism}");
            let committed = world.committed().unwrap();
            compare(&expected.end, &committed, &when).unwrap();
        }
    }
}
