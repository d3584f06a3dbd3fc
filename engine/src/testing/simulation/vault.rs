//! The checkpoints of a simulated world, as the engine itself keeps them in a store of blobs: what is left of a job that is killed.
//!
//! Writing is a number of calls of the store, any of which may fail, tear, or be the last of the process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use super::blobs::{BlobFault, Planned, SimulatedBlobs};
use crate::blobs::BlobStore;
use crate::checkpoint::{
    CheckpointContents, CheckpointReader, CheckpointStorage, Manifest, Piece, SnapshotReader,
    StartedFrom, StorageOptions,
};
use crate::error::{Error, Result};
use crate::operators::COMMITTABLES;
use crate::runtime::{CommittedSince, DeterministicStepper};
use crate::stream::CheckpointId;
use crate::testing::test_connector::CommittedMark;

/// How far the writing has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Written {
    /// More happens before, or nothing is being written.
    NotYet,
    /// It may be restored from now on.
    Complete(CheckpointId),
    /// It failed, and the job was told why.
    Failed(String),
    /// The process died in the middle of it.
    Died(CheckpointId),
}

/// A complete checkpoint, and what sinks had committed when it was complete.
pub(super) type Kept = (Arc<dyn SnapshotReader>, CommittedMark);

/// A checkpoint that is to be written, behind so many other events.
struct Waiting {
    contents: CheckpointContents,
    events: u32,
    is_final: bool,
}

/// See the module.
pub(super) struct Vault {
    blobs: SimulatedBlobs,
    retained: usize,
    incremental: bool,
    /// Of the process that runs.
    storage: Option<CheckpointStorage>,
    processes: u64,
    waiting: Option<Waiting>,
    marks: BTreeMap<u64, CommittedMark>,
    /// The checkpoints that were said to be complete.
    complete: BTreeSet<u64>,
}

impl Vault {
    /// Keeps so many complete checkpoints.
    pub(super) fn new(retained: usize, incremental: bool) -> Self {
        Vault {
            blobs: SimulatedBlobs::default(),
            retained,
            incremental,
            storage: None,
            processes: 0,
            waiting: None,
            marks: BTreeMap::new(),
            complete: BTreeSet::new(),
        }
    }

    /// Whether a checkpoint is being written.
    pub(super) fn is_writing(&self) -> bool {
        self.waiting.is_some()
    }

    /// A process starts: opens the store, and says what it restores. `dies`: with a call of the store behind so many.
    pub(super) fn start(&mut self, dies: Option<u32>) -> Result<Option<Arc<dyn SnapshotReader>>> {
        self.blobs.revive();
        if let Some(behind) = dies {
            self.blobs.plan(Planned {
                behind,
                fault: BlobFault::Refused,
                dies: true,
            });
        }
        let blobs: Arc<dyn BlobStore> = Arc::new(self.blobs.clone());
        let newest = CheckpointReader::latest(blobs, None)?;
        let mut since = CommittedSince::default();
        for passed in &newest.passed_over {
            since.add(passed.damage.salvage(COMMITTABLES)?);
        }
        // Where all that is there is torn, and nobody was told that it is complete, whoever starts the job starts it with nothing.
        let newest = match self.complete.is_empty() {
            true => newest.snapshot,
            false => newest.whole("in the simulated store")?,
        };
        let newest = newest.map(Arc::new);
        let started_from = match &newest {
            Some(reader) => StartedFrom::Claimed(reader.clone()),
            None => StartedFrom::Nothing,
        };
        self.processes += 1;
        let options = StorageOptions {
            job: "simulated".to_string(),
            run: "run".to_string(),
            max_parallelism: 128,
            retained: self.retained,
            incremental: self.incremental,
            operators: BTreeMap::new(),
            owned_from: CheckpointId(0),
            writer: format!("process-{}", self.processes),
        };
        self.storage = Some(CheckpointStorage::open(&self.blobs, options, started_from)?);
        Ok(newest.map(|reader| since.beside(reader)))
    }

    /// Between two processes: a byte of the newest complete checkpoint changes, but for what says what its sinks commit. Gives which, where
    /// there is an older one to go back to.
    pub(super) fn damage_newest(&mut self, random: &mut SmallRng) -> Result<Option<CheckpointId>> {
        self.blobs.revive();
        let blobs: Arc<dyn BlobStore> = Arc::new(self.blobs.clone());
        let mut whole = Vec::new();
        for id in self.marks.keys().rev() {
            whole.extend(CheckpointReader::named(blobs.clone(), CheckpointId(*id), None).ok());
        }
        let [newest, _, ..] = &whole[..] else {
            return Ok(None);
        };
        let id = newest.checkpoint();
        let own = format!("chk-{id}/");
        let pieces: Vec<&Piece> = pieces_but_committables(newest.manifest())
            .filter(|piece| piece.file.starts_with(&own) && piece.bytes > 0)
            .collect();
        let Some(piece) = pieces.choose(random) else {
            return Ok(None);
        };
        let mut bytes = self.blobs.get(&piece.file)?.unwrap_or_default().to_vec();
        bytes[(piece.offset + random.random_range(0..piece.bytes)) as usize] ^= 1;
        self.blobs.put(&piece.file, bytes.into())?;
        self.marks.remove(&id.0);
        self.complete.remove(&id.0);
        Ok(Some(id))
    }

    /// The process runs from now on: nothing that was planned for its start comes.
    pub(super) fn started(&mut self, job: &mut DeterministicStepper) {
        self.blobs.revive();
        if let Some(storage) = &self.storage {
            job.count_from(storage.last());
        }
    }

    /// Whether the process died with a call of the store.
    pub(super) fn has_died(&self) -> bool {
        self.blobs.has_died()
    }

    /// Begins to write the checkpoint whose barrier every task has passed, where there is one.
    pub(super) fn begin(
        &mut self,
        job: &mut DeterministicStepper,
        random: &mut SmallRng,
    ) -> Option<CheckpointId> {
        let contents = job.completed_contents()?;
        let events = match random.random_range(0..4) {
            0 => 0,
            1 => random.random_range(10..30),
            _ => random.random_range(1..8),
        };
        Some(self.wait(contents, events, false))
    }

    /// Begins to write the checkpoint at the end of the job.
    pub(super) fn begin_final(
        &mut self,
        job: &mut DeterministicStepper,
        random: &mut SmallRng,
    ) -> Option<CheckpointId> {
        let contents = job.final_contents()?;
        Some(self.wait(contents, random.random_range(0..4), true))
    }

    fn wait(&mut self, contents: CheckpointContents, events: u32, is_final: bool) -> CheckpointId {
        let checkpoint = contents.checkpoint;
        self.waiting = Some(Waiting {
            contents,
            events,
            is_final,
        });
        checkpoint
    }

    /// Another event has passed: writes when its time has come. A final checkpoint fails only where the process may die with it.
    pub(super) fn advance(
        &mut self,
        job: &mut DeterministicStepper,
        mark: impl Fn() -> CommittedMark,
        may_die: bool,
        random: &mut SmallRng,
    ) -> Result<Written> {
        match &mut self.waiting {
            None => return Ok(Written::NotYet),
            Some(waiting) if waiting.events > 0 => {
                waiting.events -= 1;
                return Ok(Written::NotYet);
            }
            Some(_) => {}
        }
        let (Some(waiting), Some(storage)) = (self.waiting.take(), &mut self.storage) else {
            return Ok(Written::NotYet);
        };
        let faulty = random.random_bool(0.3) && (may_die || !waiting.is_final);
        self.blobs.revive();
        if faulty {
            let faults = [BlobFault::Refused, BlobFault::AnswerLost, BlobFault::Torn];
            self.blobs.plan(Planned {
                // A small checkpoint takes three calls; the rest clears up.
                behind: match random.random_bool(0.7) {
                    true => random.random_range(0..3),
                    false => random.random_range(3..12),
                },
                fault: *faults.choose(random).unwrap_or(&BlobFault::Refused),
                dies: waiting.is_final || may_die && random.random_bool(0.5),
            });
        }
        let checkpoint = waiting.contents.checkpoint;
        // A checkpoint whose last answer was lost is complete all the same.
        self.marks.insert(checkpoint.0, mark());
        let written = storage.write(&self.blobs, &waiting.contents);
        let has_died = self.blobs.has_died();
        let written = match written {
            _ if has_died => Written::Died(checkpoint),
            Ok(_) => {
                self.merge(random);
                self.complete.insert(checkpoint.0);
                match self.blobs.has_died() {
                    true => Written::Died(checkpoint),
                    false => Written::Complete(checkpoint),
                }
            }
            Err(error) if faulty => {
                job.give_back(waiting.contents);
                Written::Failed(error.to_string())
            }
            Err(error) => return Err(error),
        };
        self.blobs.revive();
        Ok(written)
    }

    /// Merges segments, as the engine does in the background; that may be late.
    fn merge(&mut self, random: &mut SmallRng) {
        let Some(storage) = &mut self.storage else {
            return;
        };
        while random.random_bool(0.7) {
            let Some(plan) = storage.next_merge() else {
                return;
            };
            let merged = plan.run(&self.blobs, &|| false);
            storage.install(&self.blobs, merged);
        }
    }

    /// The process dies.
    pub(super) fn die(&mut self) {
        self.waiting = None;
        self.storage = None;
    }

    /// The complete checkpoints that are kept, newest first.
    pub(super) fn kept(&mut self) -> Result<Vec<Kept>> {
        self.blobs.revive();
        let blobs: Arc<dyn BlobStore> = Arc::new(self.blobs.clone());
        let mut kept = Vec::new();
        for (id, mark) in self.marks.iter().rev() {
            let manifest = format!("chk-{id}/manifest.json");
            if self.blobs.get(&manifest)?.is_none() {
                continue;
            }
            match CheckpointReader::named(blobs.clone(), CheckpointId(*id), None) {
                Ok(reader) => {
                    kept.push((Arc::new(reader) as Arc<dyn SnapshotReader>, mark.clone()))
                }
                // Torn.
                Err(_) if !self.complete.contains(id) => {}
                Err(error) => return Err(error),
            }
        }
        if kept.is_empty() {
            return Err(Error::internal("no checkpoint is left at the end"));
        }
        Ok(kept)
    }
}

fn pieces_but_committables(manifest: &Manifest) -> impl Iterator<Item = &Piece> {
    manifest.operators.values().flat_map(|operator| {
        let tables = operator.tables.iter();
        let tables = tables.filter(|(name, _)| *name != COMMITTABLES);
        let buckets = operator
            .segments
            .iter()
            .flat_map(|segment| &segment.buckets);
        let keyed = buckets.flat_map(|bucket| bucket.gone.iter().chain(bucket.tables.values()));
        tables.map(|(_, piece)| piece).chain(keyed)
    })
}
