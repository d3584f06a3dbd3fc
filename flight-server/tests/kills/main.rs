//! Real kills: the `volley` binary runs a real job and is killed with SIGKILL at random moments, again and again.
//!
//! In the end the committed files are those of a run that nobody disturbed: nothing twice, nothing missing. The same where the disk is full,
//! and where a file of the newest checkpoint lacks its last byte. `VOLLEY_SOAK_SECONDS` goes on with jobs of other sizes for so long.

#![allow(clippy::unwrap_used, reason = "tests may unwrap")]
#![cfg(unix)]

mod disk;
mod job;

use std::time::{Duration, Instant};

use job::{Job, difference, manifests, write_input};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// How long an undisturbed run of the input must take, so that there is something to kill.
const LEAST_SECONDS: f64 = 3.0;

/// An input that takes a while, and what comes of it undisturbed.
struct Calibrated {
    directory: tempfile::TempDir,
    batch_rows: usize,
    expected: Vec<String>,
}

impl Calibrated {
    fn input(&self) -> std::path::PathBuf {
        self.directory.path().join("input")
    }

    fn job(&self, name: &str) -> Job {
        Job::new(
            &self.directory.path().join(name),
            &self.input(),
            self.batch_rows,
        )
    }

    /// Makes the input longer until a run takes so long.
    fn new(seed: u64, least_seconds: f64) -> Self {
        let mut calibrated = Calibrated {
            directory: tempfile::tempdir().unwrap(),
            batch_rows: 64,
            expected: Vec::new(),
        };
        let mut rows = 2_000;
        loop {
            write_input(&calibrated.input(), 8, rows, seed);
            let job = calibrated.job("undisturbed");
            let begun = Instant::now();
            let (code, output) = job.start().finish();
            assert_eq!(code, Some(0), "{output}");
            let seconds = begun.elapsed().as_secs_f64();
            calibrated.expected = job.committed();
            if seconds >= least_seconds {
                eprintln!("kills: {} rows take {seconds:.1} s undisturbed", 8 * rows);
                return calibrated;
            }
            std::fs::remove_dir_all(&job.directory).unwrap();
            let factor = (least_seconds * 1.3 / seconds.max(0.3)).clamp(1.3, 8.0);
            rows = (rows as f64 * factor) as usize;
        }
    }
}

/// Kills a job until it has ended in spite of it. How often.
fn killed_to_the_end(job: &Job, expected: &[String], random: &mut SmallRng) -> usize {
    let mut kills = 0;
    loop {
        // Sometimes before the first checkpoint of the process, sometimes a few checkpoints later.
        let most = match random.random_range(0..4) {
            0 => job.interval_ms,
            _ => job.interval_ms * 4,
        };
        let time = Duration::from_millis(random.random_range(0..most));
        if !job.start().kill_after(time) {
            break;
        }
        kills += 1;
        let committed = job.committed();
        let too_many: Vec<String> = difference(expected, &committed)
            .into_iter()
            .filter(|line| line.contains("too many"))
            .collect();
        assert!(too_many.is_empty(), "after kill {kills}: {too_many:#?}");
        assert!(kills < 2_000, "the job makes no progress");
    }
    let differences = difference(expected, &job.committed());
    assert!(
        differences.is_empty(),
        "after {kills} kills: {differences:#?}"
    );
    kills
}

#[test]
fn a_job_that_is_killed_again_and_again_writes_each_row_once() {
    let seed = 1;
    let calibrated = Calibrated::new(seed, LEAST_SECONDS);
    let mut random = SmallRng::seed_from_u64(seed);
    let mut kills = 0;
    let mut runs = 0;
    // At least twenty kills, in as many jobs as it takes.
    while kills < 20 {
        runs += 1;
        let job = calibrated.job(&format!("killed-{runs}"));
        kills += killed_to_the_end(&job, &calibrated.expected, &mut random);
    }
    eprintln!("kills: {kills} in {runs} runs, all rows once");
}

#[test]
fn a_checkpoint_that_lacks_a_byte_is_named_and_the_one_before_is_used() {
    let calibrated = Calibrated::new(2, 4.0);
    let mut job = calibrated.job("truncated");
    job.interval_ms = 300;
    let mut running = Some(job.start());
    let patience = Instant::now() + Duration::from_secs(180);
    // Longer each time: on a busy machine a process may take a second to start.
    let mut life = Duration::from_millis(700);
    while manifests(&job.checkpoints()).len() < 2 {
        assert!(Instant::now() < patience, "no second checkpoint comes");
        if !running.take().unwrap().kill_after(life) {
            panic!("the job ended before its second checkpoint");
        }
        life += Duration::from_millis(200);
        running = Some(job.start());
    }
    assert!(running.unwrap().kill_after(Duration::ZERO));
    let kept = manifests(&job.checkpoints());
    let newest = kept.last().unwrap().clone();
    let damaged = disk::truncate_largest(newest.parent().unwrap());
    eprintln!("kills: {} lacks its last byte", damaged.display());
    let (code, output) = job.start().finish();
    assert_eq!(code, Some(0), "{output}");
    let name = damaged.file_name().unwrap().to_string_lossy().to_string();
    assert!(
        output.contains(&name) && output.contains("the one before it is used"),
        "says nothing of {name}: {output}"
    );
    // What the newest checkpoint had committed was taken back: nothing twice, nothing missing.
    let differences = difference(&calibrated.expected, &job.committed());
    assert!(differences.is_empty(), "{differences:#?}\n{output}");
}

#[test]
fn a_full_disk_ends_the_job_with_a_clear_error_and_loses_nothing() {
    let calibrated = Calibrated::new(3, 4.0);
    let mut job = calibrated.job("full");
    job.interval_ms = 300;
    let full = disk::FullDisk::over(&mut job);
    eprintln!("kills: full disk by {}", full.how());
    let (code, output) = job.start().finish();
    assert_eq!(code, Some(4), "a full disk is something outside: {output}");
    assert!(
        output.contains("cannot write")
            || output.contains("No space")
            || output.contains("too large"),
        "{output}"
    );
    full.give_room(&mut job);
    let (code, output) = job.start().finish();
    assert_eq!(code, Some(0), "{output}");
    let differences = difference(&calibrated.expected, &job.committed());
    assert!(differences.is_empty(), "{differences:#?}");
}

/// Where `VOLLEY_SOAK_SECONDS` is set: jobs of other sizes, killed for so long.
#[test]
fn soak() {
    let Ok(seconds) = std::env::var("VOLLEY_SOAK_SECONDS") else {
        return;
    };
    let seconds: u64 = seconds.parse().expect("VOLLEY_SOAK_SECONDS is a number");
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut seed = u64::from(rand::random::<u32>());
    let mut kills = 0;
    while Instant::now() < end {
        let mut random = SmallRng::seed_from_u64(seed);
        eprintln!("soak: seed {seed}");
        let mut calibrated = Calibrated::new(seed, random.random_range(4.0..20.0));
        calibrated.batch_rows = random.random_range(1..2_000);
        let mut job = calibrated.job("soak");
        job.interval_ms = random.random_range(50..2_000);
        job.retained = random.random_range(1..=3);
        kills += killed_to_the_end(&job, &calibrated.expected, &mut random);
        eprintln!("soak: {kills} kills so far, all rows once");
        seed += 1;
    }
}
