//! Writes the checkpoints and savepoints of this version: each job reads a part of its input, with two incremental checkpoints, and dies
//! when the second one is complete, before its sinks have committed it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use volley::blobs::LocalBlobs;
use volley::checkpoint::{
    CheckpointReader, CheckpointStorage, MANIFEST_VERSION, Manifest, StartedFrom, StorageOptions,
    savepoint,
};
use volley::connectors::FilesystemFactory;
use volley::runtime::{DeterministicStepper, ManualClock, StepperOptions};
use volley::stream::CheckpointId;
use volley::types::ProcessingTime;

use super::gate::{Gate, GatedFiles};
use super::{StoredJob, committed, copy, directories, inputs, kept, listing, prepare, run};

/// The scripts, by name.
pub(super) fn jobs() -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/stored_state/jobs");
    let files = fs::read_dir(directory).unwrap();
    let script = |path: PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_string();
        (name, fs::read_to_string(path).unwrap())
    };
    let mut jobs: Vec<_> = files.map(|file| script(file.unwrap().path())).collect();
    jobs.sort();
    jobs
}

/// How many rows of each table have been read at each checkpoint.
const ROWS_READ: [usize; 2] = [45, 53];

/// Writes the directory that `VOLLEY_WRITE_STATE` names, or with `1` that of this version. Gives its name.
pub(super) fn write_if_asked() -> Option<String> {
    let asked = std::env::var("VOLLEY_WRITE_STATE").ok()?;
    let name = match asked.as_str() {
        "1" => format!("v{MANIFEST_VERSION}"),
        name => name.to_string(),
    };
    let version = kept().join(&name);
    assert!(
        !version.exists(),
        "testdata/state/{name} is there and is kept for ever: later versions must restore it. \
         VOLLEY_WRITE_STATE=NAME writes another directory beside it."
    );
    let work = std::env::temp_dir().join("volley-state").join(&name);
    let _ = fs::remove_dir_all(&work);
    for (job, script) in jobs() {
        write_job(&work.join(&job), &script);
    }
    copy(&work, &version);
    // Nothing may be found where it was written.
    fs::remove_dir_all(&work).unwrap();
    for job in directories(&version) {
        StoredJob::open(&job).check();
    }
    Some(name)
}

impl StoredJob {
    fn check(&self) {
        for kind in ["checkpoints", "savepoints"] {
            self.restore(&self.snapshot(kind), &[]);
        }
    }
}

fn write_job(directory: &Path, script: &str) {
    inputs::write(&directory.join("input"), script);
    fs::write(directory.join("job.sql"), script).unwrap();
    write_expected(directory, script);
    let newest = write_checkpoints(directory, script);
    let reader = CheckpointReader::open(newest.to_str().unwrap(), None).unwrap();
    remove_unnamed(&directory.join("checkpoints"), reader.manifest());
    fs::write(directory.join("state.txt"), listing::listed(&reader)).unwrap();
}

/// What the job commits where nothing stops it.
fn write_expected(directory: &Path, script: &str) {
    let undisturbed = directory.with_extension("undisturbed");
    copy(&directory.join("input"), &undisturbed.join("input"));
    run(&prepare(
        script,
        &undisturbed,
        Arc::new(FilesystemFactory),
        &[],
    ));
    let expected = directory.join("expected");
    fs::create_dir_all(&expected).unwrap();
    for (table, rows) in committed(&undisturbed.join("output")) {
        assert!(!rows.is_empty(), "{table} has no rows");
        let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
        fs::write(expected.join(format!("{table}.txt")), text).unwrap();
    }
    fs::remove_dir_all(undisturbed).unwrap();
}

/// Gives the directory of the last checkpoint.
fn write_checkpoints(directory: &Path, script: &str) -> PathBuf {
    let gate = Gate::default();
    let options = [("execution.checkpointing.incremental", "true")];
    let job = prepare(
        script,
        directory,
        Arc::new(GatedFiles(gate.clone())),
        &options,
    );
    let graph = job.graph(None).unwrap();
    let (facts, max_parallelism) = (graph.facts.clone(), graph.max_parallelism);
    let operators = facts.operators.iter();
    let storage = StorageOptions {
        job: graph.name.clone(),
        run: "run".to_string(),
        max_parallelism,
        retained: 1,
        incremental: true,
        operators: operators
            .map(|operator| (operator.uid.clone(), operator.clone()))
            .collect(),
        owned_from: CheckpointId(0),
        writer: "stored".to_string(),
    };
    let checkpoints = directory.join("checkpoints");
    let blobs = LocalBlobs::new(&checkpoints);
    let mut storage = CheckpointStorage::open(&blobs, storage, StartedFrom::Nothing).unwrap();
    let clock = ManualClock::default();
    clock.set(ProcessingTime(1_704_067_200_000));
    let stepping = StepperOptions {
        batch_rows: 5,
        ..StepperOptions::default()
    };
    let mut stepper = DeterministicStepper::new(graph, stepping, clock, None).unwrap();
    for (number, rows) in ROWS_READ.into_iter().enumerate() {
        gate.open(rows);
        stepper.advance_processing_time(1_500).unwrap();
        let written = stepper.store_checkpoint(&blobs, &mut storage).unwrap();
        let written = written.expect("the job goes on");
        if number + 1 < ROWS_READ.len() {
            stepper
                .notify_checkpoint_complete(written.checkpoint)
                .unwrap();
        }
    }
    drop(stepper);
    let newest = directories(&checkpoints).pop().unwrap();
    let reader = CheckpointReader::open(newest.to_str().unwrap(), None).unwrap();
    let mut operators = reader.manifest().operators.values();
    assert!(
        operators.any(|operator| operator.segments.len() > 1),
        "no operator has several segments"
    );
    let savepoints = directory.join("savepoints");
    let state = reader.read_all().unwrap();
    savepoint::write(
        &state,
        max_parallelism,
        &facts,
        savepoints.to_str().unwrap(),
    )
    .unwrap();
    newest
}

/// Files that were merged for the next checkpoint, which does not come, go.
fn remove_unnamed(checkpoints: &Path, manifest: &Manifest) {
    for directory in directories(checkpoints) {
        let name = directory.file_name().unwrap().to_str().unwrap();
        for path in fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            let file = format!("{name}/{}", path.file_name().unwrap().to_str().unwrap());
            let is_named = manifest.files.contains_key(&file);
            if !is_named && !file.ends_with("manifest.json") {
                fs::remove_file(path).unwrap();
            }
        }
        let _ = fs::remove_dir(&directory);
    }
}
