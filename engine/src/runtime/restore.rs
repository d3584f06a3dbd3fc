//! What a job starts from: nothing, a checkpoint that was named, its own newest one.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::committed_since::CommittedSince;
use super::expected_operators::expected_operators;
use super::graph::JobGraph;
use super::restore_until::UntilCancelled;
use crate::checkpoint::savepoint::SavepointReader;
use crate::checkpoint::upgrade::{MigratingReader, UpgradeReport, plan_upgrade};
use crate::checkpoint::{
    CheckpointReader, Damage, Newest, Recovered, SnapshotReader, Verified, newest_whole,
};
use crate::config::SessionConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::operators::COMMITTABLES;
use crate::stream::CheckpointId;

/// `execution.state-recovery.*`, and `--resume`.
#[derive(Debug, Clone, Default)]
pub struct RestoreOptions {
    /// `execution.state-recovery.path`.
    pub path: Option<String>,
    /// `execution.state-recovery.claim-mode`.
    pub claim_mode: ClaimMode,
    /// `execution.state-recovery.ignore-unclaimed-state`.
    pub ignore_unclaimed_state: bool,
    /// Whether to go on from the newest complete checkpoint in `execution.checkpointing.dir`, where there is one; it goes before
    /// `path`, and earlier checkpoints there are the job's own.
    pub resume: bool,
}

/// Whose the checkpoint is that a job was started from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClaimMode {
    /// The user's: it is never deleted, and no new checkpoint refers to its files.
    #[default]
    NoClaim,
    /// The job's: it is deleted when newer ones have taken its place.
    Claim,
}

impl RestoreOptions {
    /// The options of a session.
    pub fn from_config(config: &SessionConfig) -> Self {
        let key = |name: &str| format!("execution.state-recovery.{name}");
        let claim_mode = config.get(&key("claim-mode"));
        RestoreOptions {
            path: config.get(&key("path")).map(str::to_string),
            claim_mode: match claim_mode.map(str::to_ascii_uppercase).as_deref() {
                Some("CLAIM") => ClaimMode::Claim,
                _ => ClaimMode::NoClaim,
            },
            ignore_unclaimed_state: config.boolean(&key("ignore-unclaimed-state")),
            resume: false,
        }
    }
}

/// A checkpoint or savepoint that was opened.
pub(super) struct OpenSnapshot {
    pub(super) path: String,
    pub(super) reader: Arc<dyn SnapshotReader>,
    /// The same, where it is a checkpoint that a job may take over.
    pub(super) checkpoint: Option<Arc<CheckpointReader>>,
}

impl OpenSnapshot {
    /// Opens the checkpoint or savepoint at a path: its directory, or a directory of checkpoints. Errors: what is named itself is damaged.
    pub(super) fn newest_at(path: &str, max_parallelism: u16) -> Result<Newest<Self>> {
        if let Some(savepoint) = SavepointReader::open(path)? {
            return Ok(Newest::only(OpenSnapshot::savepoint(path, savepoint)));
        }
        let newest = CheckpointReader::newest_at(path, max_parallelism)?;
        Ok(newest.map(OpenSnapshot::checkpoint))
    }

    /// The checkpoint or savepoint whose directory a path is, or what is wrong with it.
    fn verified(path: &str, max_parallelism: u16) -> Result<Verified<Self>> {
        if let Some(savepoint) = SavepointReader::verified(path)? {
            return Ok(savepoint.map(|savepoint| OpenSnapshot::savepoint(path, savepoint)));
        }
        Ok(match CheckpointReader::at(path, Some(max_parallelism))? {
            Some(checkpoint) => checkpoint.map(OpenSnapshot::checkpoint),
            None => Err(Damage::missing(path)),
        })
    }

    fn savepoint(path: &str, savepoint: SavepointReader) -> Self {
        OpenSnapshot {
            path: path.to_string(),
            reader: Arc::new(savepoint),
            checkpoint: None,
        }
    }

    fn checkpoint(checkpoint: CheckpointReader) -> Self {
        let checkpoint = Arc::new(checkpoint);
        OpenSnapshot {
            path: checkpoint.location().to_string(),
            reader: checkpoint.clone(),
            checkpoint: Some(checkpoint),
        }
    }

    /// The state in the form in which the operators of a graph ask for it, and what becomes of it. Errors: state would be lost, and
    /// the job's options do not allow it.
    pub(super) fn upgraded(self, graph: &JobGraph) -> Result<(Self, UpgradeReport)> {
        let expected = expected_operators(graph)?;
        let report = plan_upgrade(&*self.reader, &expected)?;
        report.refuse_losses(graph.allow_dropped_state)?;
        if report.is_unchanged() {
            return Ok((self, report));
        }
        let reader = MigratingReader::new(self.reader, &report, &expected);
        let upgraded = OpenSnapshot {
            path: self.path,
            reader: Arc::new(reader),
            // Its files hold the state in another form, so no checkpoint can go on from them.
            checkpoint: None,
        };
        Ok((upgraded, report))
    }

    /// The same, which gives no more state once the job is cancelled.
    pub(super) fn until(self, cancel: Arc<AtomicBool>) -> Self {
        OpenSnapshot {
            reader: Arc::new(UntilCancelled::new(self.reader, cancel)),
            ..self
        }
    }

    /// Its number and place.
    pub(super) fn origin(&self) -> Origin {
        Origin {
            checkpoint: self.reader.checkpoint(),
            path: self.path.clone(),
        }
    }
}

/// Where the state of a job came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The number of the checkpoint.
    pub checkpoint: CheckpointId,
    /// Where it is.
    pub path: String,
}

impl Origin {
    /// Whether it was found in a directory that was named, and not named itself.
    pub(super) fn is_below(&self, path: &str) -> bool {
        self.path.trim_end_matches('/') != path.trim_end_matches('/')
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "checkpoint {} ({})", self.checkpoint, self.path)
    }
}

/// A checkpoint in whose place an older one is restored.
pub(super) struct Unreadable {
    pub(super) checkpoint: CheckpointId,
    pub(super) error: Error,
    /// How much of what sinks have committed with it can still be told.
    pub(super) committed: Recovered,
}

/// What is restored, and instead of what.
pub(super) type Found = (Option<OpenSnapshot>, Vec<Unreadable>);

/// What lies at the path that a job is told to start from.
pub(super) fn named_snapshot(path: &str, max_parallelism: u16) -> Result<Found> {
    let newest = patiently(&mut std::thread::sleep, || {
        OpenSnapshot::newest_at(path, max_parallelism)
    })?;
    let found = restored_instead(newest, path)?;
    if found.0.is_some() {
        return Ok(found);
    }
    Err(Error::user(format!("there is no complete checkpoint or savepoint in {path}")).hint(
        "a checkpoint is a directory chk-N with a manifest.json, or the newest of those in a directory; a savepoint is a directory with a savepoint.json",
    ))
}

/// The newest of these checkpoints and savepoints of a job that is whole.
pub(super) fn newest_readable(
    candidates: Vec<(CheckpointId, String)>,
    max_parallelism: u16,
) -> Result<Found> {
    let open = |path: &str| OpenSnapshot::verified(path, max_parallelism);
    let newest = newest_of(candidates, &mut std::thread::sleep, open)?;
    restored_instead(newest, "of the job")
}

fn newest_of<S>(
    mut candidates: Vec<(CheckpointId, String)>,
    pause: &mut dyn FnMut(Duration),
    open: impl Fn(&str) -> Result<Verified<S>>,
) -> Result<Newest<S>> {
    candidates.sort();
    let mut paths: Vec<String> = Vec::new();
    let newest_first = candidates.into_iter().rev().map(|(checkpoint, path)| {
        paths.push(path);
        checkpoint
    });
    let newest_first: Vec<CheckpointId> = newest_first.collect();
    let mut paths = paths.iter();
    newest_whole(newest_first, |checkpoint| {
        let path = paths.next().map_or("", String::as_str);
        let opened = patiently(pause, || open(path));
        opened.map_err(|error| {
            error
                .context(format!("while reading checkpoint {checkpoint}, which no older one may replace: it is not known to be damaged"))
                .hint("once it can be read the job goes on from it; to give it up all the same, name an older one in 'execution.state-recovery.path': \
                       what was committed since comes a second time then")
        })
    })
}

/// How long is waited before a store that failed is asked again.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1_500),
];

/// Asks a store again that fails for a reason that may pass.
fn patiently<T>(pause: &mut dyn FnMut(Duration), mut ask: impl FnMut() -> Result<T>) -> Result<T> {
    for time in PAUSES {
        match ask() {
            Err(error) if matches!(error.kind(), ErrorKind::External | ErrorKind::Resource) => {
                pause(time)
            }
            answer => return answer,
        }
    }
    ask()
}

/// The snapshot with what its damaged successors have committed since, which sinks take back. Errors: none is whole.
fn restored_instead(newest: Newest<OpenSnapshot>, place: &str) -> Result<Found> {
    let mut since = CommittedSince::default();
    let mut unreadable = Vec::new();
    for passed in &newest.passed_over {
        let salvaged = patiently(&mut std::thread::sleep, || {
            passed.damage.salvage(COMMITTABLES)
        })?;
        unreadable.push(Unreadable {
            checkpoint: passed.checkpoint,
            error: Error::external(passed.damage.to_string()),
            committed: salvaged.recovered(),
        });
        since.add(salvaged);
    }
    let snapshot = newest.whole(place)?.map(|snapshot| OpenSnapshot {
        reader: since.beside(snapshot.reader),
        ..snapshot
    });
    Ok((snapshot, unreadable))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blobs::BlobStore;
    use crate::checkpoint::tests::faulty_blobs::{Fault, FaultyBlobs};
    use crate::checkpoint::tests::store_of_two;

    /// The newest of the checkpoints 1 and 2 of a store, and how long was waited for it.
    fn newest_in(blobs: Arc<dyn BlobStore>) -> (Result<Newest<CheckpointReader>>, Vec<Duration>) {
        let candidates = [1, 2].map(|id| (CheckpointId(id), format!("chk-{id}/")));
        let mut pauses = Vec::new();
        let newest = newest_of(
            candidates.to_vec(),
            &mut |time| pauses.push(time),
            |directory| CheckpointReader::verified(blobs.clone(), directory, Some(128)),
        );
        (newest, pauses)
    }

    fn failing(blobs: &Arc<dyn BlobStore>, from: u64, stops: bool) -> Arc<dyn BlobStore> {
        let blobs = blobs.clone();
        Arc::new(FaultyBlobs::new(blobs, from, Fault::Refused, stops))
    }

    #[test]
    fn a_store_that_fails_once_is_asked_again() {
        let (newest, pauses) = newest_in(failing(&store_of_two(), 1, false));
        assert_eq!(newest.unwrap().snapshot.unwrap().checkpoint().0, 2);
        assert_eq!(pauses, PAUSES[..1]);
    }

    #[test]
    fn where_a_store_does_not_answer_no_older_checkpoint_is_taken() {
        for from in 0..4 {
            let (newest, pauses) = newest_in(failing(&store_of_two(), from, true));
            let error = newest.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::External);
            let text = error.to_string();
            assert!(text.contains("the store failed at call"), "{text}");
            assert!(text.contains("while reading checkpoint 2"), "{text}");
            assert_eq!(pauses, PAUSES);
        }
    }

    #[test]
    fn a_damaged_checkpoint_is_passed_over_at_once() {
        let blobs = store_of_two();
        let path = "chk-2/manifest.json";
        let whole = blobs.get(path).unwrap().unwrap();
        blobs.put(path, whole.slice(..whole.len() - 1)).unwrap();
        let (newest, pauses) = newest_in(blobs.clone());
        let newest = newest.unwrap();
        assert_eq!(newest.snapshot.unwrap().checkpoint().0, 1);
        assert_eq!(newest.passed_over[0].checkpoint.0, 2);
        assert_eq!(pauses, []);
        // The one before is not taken in its place for any other reason.
        let (newest, _) = newest_in(failing(&blobs, 1, true));
        let text = newest.unwrap_err().to_string();
        assert!(text.contains("while reading checkpoint 1"), "{text}");
    }

    #[test]
    fn a_checkpoint_of_another_version_is_nothing_to_pass_over() {
        let blobs = store_of_two();
        let text = bytes::Bytes::from_static(b"{\"version\": 1}");
        blobs.put("chk-2/manifest.json", text).unwrap();
        let (newest, pauses) = newest_in(blobs);
        assert_eq!(newest.unwrap_err().kind(), ErrorKind::User);
        assert_eq!(pauses, []);
    }
}
