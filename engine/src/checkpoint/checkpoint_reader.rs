//! Reads a checkpoint back: checks every byte that it consists of first, then gives out state operator by operator and key group
//! by key group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use rayon::prelude::*;
use xxhash_rust::xxh3::Xxh3;

use super::change::KeySpan;
use super::damage::{Damage, Remains, Verified};
use super::manifest::{MANIFEST, Manifest, OperatorManifest, Piece, Segment};
use super::newest::{Newest, newest_whole};
use super::sealed::ManifestFault;
use super::segment::{DataSource, SegmentsReader};
use super::{JobSnapshot, OperatorFacts, PlanFacts, RowCount, SnapshotReader, TableFacts};
use crate::blobs::{BlobInfo, BlobStore, open_blobs};
use crate::error::{Error, Result};
use crate::state::{StateSnapshot, TableScope, holds_job_rows};
use crate::stream::{CheckpointId, KeyGroup, KeyGroupRange};

/// Bytes of one request while a checkpoint is verified.
const READ_BYTES: u64 = 8 << 20;
/// From this size on the files of a checkpoint are verified side by side.
const SEVERAL_FROM_BYTES: u64 = 128 << 20;

/// A complete checkpoint of which every piece had the length and checksum of the manifest when it was opened.
#[derive(Debug)]
pub struct CheckpointReader {
    source: DataSource,
    manifest: Manifest,
    location: String,
}

/// The directory of checkpoints and the number in a path `<directory>/chk-<id>`.
pub(super) fn split_path(path: &str) -> Option<(&str, u64)> {
    let path = path.trim_end_matches('/');
    let (directory, name) = match path.rsplit_once('/') {
        Some(("", name)) => ("/", name),
        Some(parts) => parts,
        None => (".", path),
    };
    Some((directory, checkpoint_number(name)?))
}

/// The number in `chk-<number>`.
pub(super) fn checkpoint_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("chk-")?;
    let number = digits.parse().ok()?;
    (format!("{number}") == digits).then_some(number)
}

/// The checkpoints of a store that have a manifest, newest first.
pub(super) fn complete_checkpoints(blobs: &dyn BlobStore) -> Result<Vec<u64>> {
    Ok(numbers(&blobs.list("")?, |name| name == MANIFEST))
}

/// The numbers of the checkpoints that have a file of such a name, newest first.
fn numbers(blobs: &[BlobInfo], is_meant: impl Fn(&str) -> bool) -> Vec<u64> {
    let number = |path: &str| {
        let (directory, name) = path.split_once('/')?;
        is_meant(name).then(|| checkpoint_number(directory))?
    };
    let found: BTreeSet<u64> = blobs.iter().filter_map(|blob| number(&blob.path)).collect();
    found.into_iter().rev().collect()
}

/// What lies in a directory of checkpoints, newest first.
pub(super) struct Stock {
    /// Those that have a manifest, or a directory in its place: they were complete.
    pub(super) complete: Vec<u64>,
    /// Those that have files but no manifest: they were not complete, or have lost it.
    pub(super) without_manifest: Vec<u64>,
}

impl Stock {
    pub(super) fn of(blobs: &dyn BlobStore) -> Result<Self> {
        let all = blobs.list("")?;
        let with_manifest = numbers(&all, |name| name == MANIFEST);
        let is_complete = |id: &u64| {
            with_manifest.contains(id) || blobs.is_directory(&format!("chk-{id}/{MANIFEST}"))
        };
        let there = numbers(&all, |_| true);
        let (complete, without_manifest) = there.into_iter().partition(is_complete);
        Ok(Stock {
            complete,
            without_manifest,
        })
    }
}

impl CheckpointReader {
    /// Opens a checkpoint, for a job with `max_parallelism` key groups where that is known, and verifies it. `path` (local, or any URL of an object store) is its
    /// directory `chk-<id>`, or the directory above for the newest one that is whole.
    pub fn open(path: &str, max_parallelism: impl Into<Option<u16>>) -> Result<Self> {
        let found = Self::newest_at(path, max_parallelism)?;
        found.whole(&format!("in {path}"))?.ok_or_else(|| {
            Error::user(format!("there is no complete checkpoint or savepoint in {path}"))
                .hint("a checkpoint is a directory chk-N with a manifest.json, or the newest of those in a directory; a savepoint is a directory with a savepoint.json")
        })
    }

    /// As [`CheckpointReader::open`], with those that were passed over. Errors: what is named itself is damaged.
    pub fn newest_at(path: &str, max_parallelism: impl Into<Option<u16>>) -> Result<Newest<Self>> {
        let max_parallelism = max_parallelism.into();
        match Self::at(path, max_parallelism)? {
            Some(named) => Ok(Newest::only(named.map_err(Damage::into_error)?)),
            None => Self::latest(open_blobs(path)?, max_parallelism),
        }
    }

    /// The checkpoint whose directory `path` is, or what is wrong with it; `None` where it is another directory.
    pub fn at(path: &str, max_parallelism: Option<u16>) -> Result<Option<Verified<Self>>> {
        if let Some((directory, id)) = split_path(path) {
            let blobs = open_blobs(directory)?;
            return Self::verified(blobs, &format!("chk-{id}/"), max_parallelism).map(Some);
        }
        let blobs = open_blobs(path)?;
        match blobs.get(MANIFEST)? {
            Some(_) => Self::verified(blobs, "", max_parallelism).map(Some),
            None => Ok(None),
        }
    }

    /// One checkpoint of a directory of checkpoints.
    pub fn named(
        blobs: Arc<dyn BlobStore>,
        checkpoint: CheckpointId,
        max_parallelism: Option<u16>,
    ) -> Result<Self> {
        let directory = format!("chk-{checkpoint}/");
        Self::verified(blobs, &directory, max_parallelism)?.map_err(Damage::into_error)
    }

    /// The newest checkpoint of a directory of checkpoints that is complete and undamaged.
    pub fn latest(blobs: Arc<dyn BlobStore>, max_parallelism: Option<u16>) -> Result<Newest<Self>> {
        let complete = Stock::of(&*blobs)?.complete;
        newest_whole(complete.into_iter().map(CheckpointId), |id| {
            Self::verified(blobs.clone(), &format!("chk-{id}/"), max_parallelism)
        })
    }

    /// Errors: the store cannot be asked, or the checkpoint is not for this job.
    pub(crate) fn verified(
        blobs: Arc<dyn BlobStore>,
        directory: &str,
        max_parallelism: Option<u16>,
    ) -> Result<Verified<Self>> {
        let path = format!("{directory}{MANIFEST}");
        let root = blobs.location();
        let location = format!(
            "{}/{}",
            root.trim_end_matches('/'),
            directory.trim_end_matches('/')
        );
        let file = format!("{}/{path}", blobs.location());
        if blobs.is_directory(&path) {
            let damage = format!("{file} is damaged: it is a directory");
            return Ok(Err(Damage::of_checkpoint(damage)));
        }
        let Some(text) = blobs.get(&path)? else {
            let missing = format!("{file} is not there: the checkpoint is not complete");
            return Ok(Err(Damage::of_checkpoint(missing)));
        };
        let mut source = DataSource {
            blobs,
            own: directory.to_string(),
            moved_to: directory.to_string(),
        };
        let manifest = match Manifest::from_json(&text) {
            Ok(manifest) => manifest,
            Err(ManifestFault::Damaged(what)) => {
                let damage = Damage::of_checkpoint(format!("{file} is damaged: it {what}"));
                let left = Remains::of_damaged_manifest(source, &text);
                return Ok(Err(damage.with_remains(left)));
            }
            Err(ManifestFault::OtherVersion(version)) => {
                return Err(Manifest::other_version(version, &file));
            }
        };
        check_max_parallelism(&manifest, &file, max_parallelism)?;
        source.own = format!("chk-{}/", manifest.checkpoint);
        if let Some(damage) = verify(&source, &manifest)? {
            let left = Remains::of_manifest(source, &manifest);
            return Ok(Err(damage.with_remains(left)));
        }
        Ok(Ok(CheckpointReader {
            source,
            manifest,
            location: location.trim_end_matches('/').to_string(),
        }))
    }

    /// Where it lies.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Whether its directory still has the name that it was written under, so that later checkpoints can refer to its files.
    pub fn is_in_place(&self) -> bool {
        self.source.own == self.source.moved_to
    }

    /// What its files say.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// All of it, in memory.
    pub fn read_all(&self) -> Result<JobSnapshot> {
        let max_parallelism = self.manifest.max_parallelism;
        let all = KeyGroupRange {
            first: KeyGroup(0),
            last: KeyGroup(max_parallelism.saturating_sub(1)),
        };
        let mut operators = BTreeMap::new();
        for uid in self.operators() {
            let state = self.read(&uid, all, max_parallelism)?;
            operators.insert(uid, state);
        }
        Ok(JobSnapshot {
            checkpoint: self.manifest.checkpoint,
            operators,
        })
    }

    fn keyed_rows(&self, operator: &OperatorManifest) -> Result<bool> {
        let rows: u64 = operator.segments.iter().map(|segment| segment.rows()).sum();
        if operator.segments.len() < 2 || rows == 0 {
            return Ok(rows > 0);
        }
        // Later segments may have removed all rows of earlier ones.
        const SHARES: usize = 64;
        let mut reader = SegmentsReader::of(&self.source, &operator.segments);
        for index in 0..SHARES {
            if !reader
                .read(KeySpan::ALL.share(index, SHARES))?
                .tables
                .is_empty()
            {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl SnapshotReader for CheckpointReader {
    fn checkpoint(&self) -> CheckpointId {
        self.manifest.checkpoint
    }

    fn operators(&self) -> Vec<String> {
        self.manifest.operators.keys().cloned().collect()
    }

    fn has_rows(&self, uid: &str) -> Result<bool> {
        let Some(operator) = self.manifest.operators.get(uid) else {
            return Ok(false);
        };
        let own = |(name, piece): (&String, &Piece)| holds_job_rows(name) && piece.rows > 0;
        Ok(operator.tables.iter().any(own) || self.keyed_rows(operator)?)
    }

    fn read(&self, uid: &str, range: KeyGroupRange, max_parallelism: u16) -> Result<StateSnapshot> {
        check_max_parallelism(&self.manifest, &self.location, Some(max_parallelism))?;
        let mut state = StateSnapshot::default();
        let Some(operator) = self.manifest.operators.get(uid) else {
            return Ok(state);
        };
        let span = KeySpan::of_key_groups(range, max_parallelism);
        let mut segments = SegmentsReader::of(&self.source, &operator.segments);
        for (name, batches) in segments.read(span)?.tables {
            state.insert_keyed(&name, batches);
        }
        for (name, piece) in &operator.tables {
            state.insert_operator(name, self.source.table(piece)?);
        }
        Ok(state)
    }

    fn bytes(&self) -> u64 {
        self.manifest.files.values().sum()
    }

    /// With those of its files that no other checkpoint of its directory names.
    fn remove(&self) -> Result<()> {
        let blobs = &*self.source.blobs;
        let own = self.manifest.checkpoint.0;
        let mut named = BTreeSet::new();
        for id in complete_checkpoints(blobs)?
            .into_iter()
            .filter(|id| *id != own)
        {
            let text = blobs
                .get(&format!("chk-{id}/{MANIFEST}"))?
                .unwrap_or_default();
            match Manifest::from_json(&text) {
                Ok(other) => named.extend(other.files.into_keys()),
                // What it names is not known.
                Err(_) => return Ok(()),
            }
        }
        blobs.delete(&format!("{}{MANIFEST}", self.source.moved_to))?;
        let files = self
            .manifest
            .files
            .keys()
            .filter(|file| !named.contains(*file));
        files
            .into_iter()
            .try_for_each(|file| blobs.delete(&self.source.path(file)))
    }

    fn plan_facts(&self) -> Option<PlanFacts> {
        let operators = self.manifest.operators.iter();
        let operators = operators.map(|(uid, operator)| OperatorFacts {
            uid: uid.clone(),
            name: operator.name.clone(),
            description: operator.name.clone(),
            columns: operator.columns.clone(),
        });
        Some(PlanFacts {
            job: self.manifest.job.clone(),
            operators: operators.collect(),
            ..PlanFacts::default()
        })
    }

    fn max_parallelism(&self) -> Option<u16> {
        Some(self.manifest.max_parallelism)
    }

    /// Of keyed tables bytes are those of all segments, and so are rows where a later segment may replace some of them: there are at
    /// most so many.
    fn tables(&self, uid: &str) -> Result<Vec<TableFacts>> {
        let Some(operator) = self.manifest.operators.get(uid) else {
            return Ok(Vec::new());
        };
        let mut facts: BTreeMap<&String, TableFacts> = BTreeMap::new();
        let own = operator.tables.iter();
        let own = own.map(|table| (TableScope::Operator, false, table));
        let last = operator.segments.iter().rposition(Segment::speaks);
        let segments = operator.segments.iter().enumerate();
        let keyed = segments.flat_map(|(number, segment)| {
            let tables = segment.buckets.iter().flat_map(|bucket| &bucket.tables);
            tables.map(move |table| (TableScope::Keyed, Some(number) < last, table))
        });
        for (scope, replaced, (name, piece)) in own.chain(keyed) {
            let fact = facts.entry(name).or_insert_with(|| TableFacts {
                name: name.clone(),
                scope,
                schema: None,
                rows: RowCount::default(),
                bytes: 0,
            });
            if fact.schema.is_none() {
                let batches = self.source.table(piece)?;
                fact.schema = batches.first().map(|batch| batch.schema());
            }
            fact.rows += RowCount {
                rows: piece.rows,
                at_most: replaced && piece.rows > 0,
            };
            fact.bytes += piece.bytes;
        }
        Ok(facts.into_values().collect())
    }
}

fn check_max_parallelism(
    manifest: &Manifest,
    file: &str,
    max_parallelism: Option<u16>,
) -> Result<()> {
    let Some(max_parallelism) = max_parallelism.filter(|max| *max != manifest.max_parallelism)
    else {
        return Ok(());
    };
    let written = manifest.max_parallelism;
    Err(Error::user(format!(
        "the checkpoint {file} was written with pipeline.max-parallelism {written}, the job has {max_parallelism}"
    ))
    .hint(format!("SET 'pipeline.max-parallelism' = '{written}'")))
}

/// Reads all that a checkpoint names, once.
fn verify(source: &DataSource, manifest: &Manifest) -> Result<Option<Damage>> {
    let mut pieces: BTreeMap<&str, Vec<&Piece>> = BTreeMap::new();
    for piece in manifest.pieces() {
        pieces.entry(&piece.file).or_default().push(piece);
    }
    let there = lengths(source, manifest)?;
    for (file, bytes) in &manifest.files {
        let path = source.path(file);
        let name = format!("{}/{path}", source.blobs.location());
        let damage = match there.get(&path) {
            None => Some(format!("{name} is not there")),
            Some(length) if length != bytes => Some(format!(
                "{name} is damaged: it has {length} bytes, not {bytes}"
            )),
            Some(_) => None,
        };
        if damage.is_some() {
            return Ok(damage.map(Damage::of_checkpoint));
        }
    }
    let damage = |(file, pieces): (&str, Vec<&Piece>)| -> Option<Result<Damage>> {
        damaged_piece(source, manifest, file, pieces).transpose()
    };
    // Several at once only where it takes long: a small checkpoint is read in one order each time.
    let damage = match manifest.files.values().sum::<u64>() < SEVERAL_FROM_BYTES {
        true => pieces.into_iter().find_map(damage),
        false => pieces.into_par_iter().find_map_first(damage),
    };
    damage.transpose()
}

/// What is wrong with a file of which these pieces are used.
fn damaged_piece(
    source: &DataSource,
    manifest: &Manifest,
    file: &str,
    mut pieces: Vec<&Piece>,
) -> Result<Option<Damage>> {
    pieces.sort_unstable_by_key(|piece| piece.offset);
    let path = source.path(file);
    let length = manifest.files.get(file).copied().unwrap_or(0);
    let damaged = first_damaged(&*source.blobs, &path, length, &pieces)?;
    Ok(damaged.map(|piece| {
        Damage::of_checkpoint(format!(
            "{}/{path} is damaged: its bytes {} to {} are not those that were written",
            source.blobs.location(),
            piece.offset,
            piece.end()
        ))
    }))
}

/// The lengths of the files in the directories that a checkpoint refers to.
fn lengths(source: &DataSource, manifest: &Manifest) -> Result<BTreeMap<String, u64>> {
    let paths: Vec<String> = manifest
        .files
        .keys()
        .map(|file| source.path(file))
        .collect();
    let directories: BTreeSet<&str> = paths
        .iter()
        .map(|path| path.rsplit_once('/').map_or("", |(directory, _)| directory))
        .collect();
    let mut lengths = BTreeMap::new();
    for directory in directories {
        for blob in source.blobs.list(directory)? {
            lengths.insert(blob.path, blob.bytes);
        }
    }
    Ok(lengths)
}

/// The first of the pieces, in order of their offsets, whose bytes are not those that were written.
fn first_damaged<'a>(
    blobs: &dyn BlobStore,
    path: &str,
    length: u64,
    pieces: &[&'a Piece],
) -> Result<Option<&'a Piece>> {
    let (mut start, mut read) = (0u64, Bytes::new());
    for piece in pieces {
        let mut checksum = Xxh3::new();
        let mut at = piece.offset;
        while at < piece.end() {
            if at < start || at >= start + read.len() as u64 {
                let wanted = length.saturating_sub(at).min(READ_BYTES);
                if wanted == 0 {
                    return Ok(Some(piece));
                }
                (start, read) = (at, blobs.get_range(path, at, wanted)?);
                if read.is_empty() {
                    return Ok(Some(piece));
                }
            }
            let from = (at - start) as usize;
            let to = (piece.end() - start).min(read.len() as u64) as usize;
            checksum.update(&read[from..to]);
            at = start + to as u64;
        }
        if format!("{:016x}", checksum.digest()) != piece.checksum {
            return Ok(Some(piece));
        }
    }
    Ok(None)
}
