//! Checkpoints in a store of blobs: data files first, the manifest last and only where there is none yet, what nobody names
//! any more removed afterwards.
//!
//! `chk-<id>/manifest.json` names every file and every piece that a checkpoint consists of and is all that a restore needs. An incremental
//! checkpoint writes what changed and names files of earlier checkpoints for the rest; any other one stands by itself. A directory without
//! a manifest is the rest of a checkpoint that did not complete.
//! Nothing here keeps the store: the calls are the same for the same contents, in the same order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;

use super::change::{Change, KeySpan};
use super::checkpoint_reader::{CheckpointReader, Stock, checkpoint_number};
use super::contents::{ChangeSource, CheckpointContents, OperatorContents};
use super::data_file::{DataWriter, FileSizes};
use super::manifest::{MANIFEST, Manifest, OperatorManifest, Piece, Segment};
use super::merge::{self, MergePlan, Merged};
use super::owner::Owner;
use super::sealed::ManifestFault;
use super::segment::{SegmentWriter, write_change};
use super::{JobSnapshot, OperatorFacts, SnapshotReader};
use crate::blobs::{BlobInfo, BlobStore, open_blobs};
use crate::error::{Error, Result};
use crate::state::TableScope;
use crate::stream::{CheckpointId, KeyGroupRange};

/// How the checkpoints of a job are kept.
#[derive(Debug, Clone)]
pub struct StorageOptions {
    /// The job's name.
    pub job: String,
    /// The run of it; nobody else writes there meanwhile.
    pub run: String,
    /// `pipeline.max-parallelism`.
    pub max_parallelism: u16,
    /// `execution.checkpointing.num-retained`; at least one.
    pub retained: usize,
    /// `execution.checkpointing.incremental`.
    pub incremental: bool,
    /// What a manifest tells of operators, by stable id.
    pub operators: BTreeMap<String, OperatorFacts>,
    /// Checkpoints in the directory from this one on are the job's own and go when newer ones have taken their place; those before it are
    /// somebody else's, and stay.
    pub owned_from: CheckpointId,
    /// Part of the names of data files: no two writers have the same, so that neither writes over a file of the other.
    pub writer: String,
}

/// What the state of a job began from.
#[derive(Clone)]
pub enum StartedFrom {
    /// Nothing.
    Nothing,
    /// A checkpoint of the same directory, which goes over to the job: new ones may refer to its files, and it is removed when its time
    /// has come.
    Claimed(Arc<CheckpointReader>),
    /// A checkpoint or savepoint that stays as it is: what is needed of it is copied into the first checkpoint.
    Copied(Arc<dyn SnapshotReader>),
}

/// A checkpoint that is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenCheckpoint {
    /// Which.
    pub checkpoint: CheckpointId,
    /// Its directory.
    pub location: String,
    /// Bytes that were written for it.
    pub bytes: u64,
    /// Bytes that it consists of.
    pub full_bytes: u64,
}

/// Writes the checkpoints of one job below a directory; see the module.
pub struct CheckpointStorage {
    options: StorageOptions,
    sizes: FileSizes,
    /// The state as of the last durable checkpoint, with what was merged since.
    operators: BTreeMap<String, OperatorManifest>,
    /// What the first checkpoint has to copy.
    base: Option<Arc<dyn SnapshotReader>>,
    /// The lengths of all files that count.
    lengths: BTreeMap<String, u64>,
    /// The complete checkpoints that are this job's, with the files they name.
    history: BTreeMap<u64, BTreeSet<String>>,
    /// Those that may or may not be whole, because a write failed or a byte is wrong: they go as soon as there is a newer one.
    suspect: BTreeMap<u64, BTreeSet<String>>,
    /// Directories in which files may lie that nobody names.
    unclean: BTreeSet<u64>,
    /// What half-written checkpoints have left.
    remains: Remains,
    last: CheckpointId,
    /// A checkpoint of another directory, or a savepoint, that the job has taken over.
    elsewhere: Option<Arc<dyn SnapshotReader>>,
    /// Counts sets of files, whose names must differ.
    sets: u64,
    merging: bool,
    warnings: Vec<String>,
}

/// Files and directories that were there before and that no manifest names.
#[derive(Default)]
struct Remains {
    files: Vec<String>,
    directories: Vec<u64>,
}

impl std::fmt::Debug for CheckpointStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckpointStorage")
            .field("options", &self.options)
            .field("history", &self.history.keys())
            .finish()
    }
}

/// What lies in a directory of checkpoints, oldest first.
#[derive(Debug, Default)]
pub struct PresentCheckpoints {
    /// The complete ones with their own directories.
    pub complete: Vec<(CheckpointId, String)>,
    /// Those without a manifest.
    pub without_manifest: Vec<CheckpointId>,
}

impl PresentCheckpoints {
    /// The highest number; 0 where there is nothing.
    pub fn highest(&self) -> CheckpointId {
        let complete = self.complete.iter().map(|(id, _)| *id);
        let all = complete.chain(self.without_manifest.iter().copied());
        all.max().unwrap_or(CheckpointId(0))
    }
}

impl CheckpointStorage {
    /// Storage in `blobs`. Looks at what is there, and changes nothing: what half-written checkpoints have left goes before the first one is written,
    /// when the directory is this run's.
    pub fn open(
        blobs: &dyn BlobStore,
        options: StorageOptions,
        started_from: StartedFrom,
    ) -> Result<Self> {
        let mut storage = CheckpointStorage {
            options,
            sizes: FileSizes::default(),
            operators: BTreeMap::new(),
            base: None,
            lengths: BTreeMap::new(),
            history: BTreeMap::new(),
            suspect: BTreeMap::new(),
            unclean: BTreeSet::new(),
            remains: Remains::default(),
            last: CheckpointId(0),
            elsewhere: None,
            sets: 0,
            merging: false,
            warnings: Vec::new(),
        };
        let (mut restored, mut claimed) = (None, None);
        match started_from {
            StartedFrom::Nothing => {}
            StartedFrom::Claimed(reader) => {
                claimed = Some(reader.checkpoint());
                restored = claimed;
                storage.last = reader.checkpoint();
                storage.operators = reader.manifest().operators.clone();
                storage.lengths = reader.manifest().files.clone();
            }
            StartedFrom::Copied(reader) => {
                restored = Some(reader.checkpoint());
                storage.last = reader.checkpoint();
                storage.base = Some(reader);
            }
        }
        storage.take_stock(blobs, restored, claimed)?;
        Ok(storage)
    }

    /// The number from which checkpoints count on: no checkpoint in the directory has a higher one.
    pub fn last(&self) -> CheckpointId {
        self.last
    }

    /// Takes over a checkpoint of another directory or a savepoint: it is removed once the job has as many of its own as it keeps.
    pub fn claim_elsewhere(&mut self, checkpoint: Arc<dyn SnapshotReader>) {
        self.elsewhere = Some(checkpoint);
    }

    /// What lies in a directory.
    pub fn present(directory: &str) -> Result<PresentCheckpoints> {
        let blobs = open_blobs(directory)?;
        let stock = Stock::of(&*blobs)?;
        let complete = stock.complete.into_iter().rev();
        let without_manifest = stock.without_manifest.into_iter().rev();
        Ok(PresentCheckpoints {
            complete: complete
                .map(|id| (CheckpointId(id), location(&*blobs, id)))
                .collect(),
            without_manifest: without_manifest.map(CheckpointId).collect(),
        })
    }

    /// The job and the run that wrote the checkpoint in a directory; `None` where its manifest does not say so, is damaged or gone.
    pub fn author(directory: &str) -> Result<Option<(String, String)>> {
        let blobs = open_blobs(directory)?;
        if blobs.is_directory(MANIFEST) {
            return Ok(None);
        }
        let manifest = blobs.get(MANIFEST)?;
        let manifest = manifest.and_then(|text| Manifest::from_json(&text).ok());
        Ok(manifest.and_then(|manifest| manifest.author()))
    }

    /// Smaller files, parts and buckets, for tests.
    #[cfg(test)]
    pub(super) fn with_sizes(mut self, sizes: FileSizes) -> Self {
        self.sizes = sizes;
        self
    }

    /// Reads all of a checkpoint into memory: `path` is its directory, or a directory of checkpoints of which the newest whole one is taken.
    pub fn read(path: &str, max_parallelism: impl Into<Option<u16>>) -> Result<JobSnapshot> {
        CheckpointReader::open(path, max_parallelism)?.read_all()
    }

    /// Warnings since they were asked for last: files that could not be removed.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Writes a checkpoint and makes it the newest. After an error the caller keeps the contents and hands them in again with the next one.
    pub fn write(
        &mut self,
        blobs: &dyn BlobStore,
        contents: &CheckpointContents,
    ) -> Result<WrittenCheckpoint> {
        let checkpoint = contents.checkpoint;
        self.unclean.insert(checkpoint.0);
        self.last = self.last.max(checkpoint);
        self.remove_remains(blobs);
        let written = self.write_files(blobs, contents).and_then(|set| {
            self.refuse_successor(blobs)?;
            let bytes = commit(blobs, checkpoint, &set.manifest, &set.files)?;
            // Whoever has taken the directory meanwhile may not have seen it: nothing that belongs to it may be committed.
            self.refuse_successor(blobs)?;
            Ok((set, bytes))
        });
        let result = match written {
            Ok((set, manifest_bytes)) => {
                let new: u64 = set.files.values().sum();
                let full_bytes = set.manifest.full_bytes() + manifest_bytes;
                let files = set.manifest.files;
                self.history
                    .insert(checkpoint.0, files.keys().cloned().collect());
                self.lengths.extend(files);
                self.operators = set.manifest.operators;
                self.base = None;
                self.retire(blobs);
                Ok(WrittenCheckpoint {
                    checkpoint,
                    location: location(blobs, checkpoint.0),
                    bytes: new + manifest_bytes,
                    full_bytes,
                })
            }
            Err(error) => Err(error.context(format!("while writing checkpoint {checkpoint}"))),
        };
        self.clean(blobs);
        result
    }

    /// The next merge that is due, of an incremental job; one at a time.
    pub fn next_merge(&mut self) -> Option<MergePlan> {
        if self.merging || !self.options.incremental {
            return None;
        }
        let newest = *self.history.last_key_value()?.0;
        let due = self.operators.iter().find_map(|(uid, operator)| {
            let run = merge::due(&operator.segments)?;
            Some((uid.clone(), operator.segments[run].to_vec()))
        });
        let (uid, segments) = due?;
        self.merging = true;
        Some(MergePlan {
            uid,
            segments,
            prefix: self.next_set(newest),
            sizes: self.sizes,
        })
    }

    /// Takes up a merge: the next checkpoint names its files. A failed one is tried again later.
    pub fn install(&mut self, blobs: &dyn BlobStore, merged: Result<Merged>) {
        self.merging = false;
        self.unclean
            .extend(self.history.last_key_value().map(|(id, _)| *id));
        match merged {
            Ok(merged) => self.lay_in(merged),
            Err(error) => self.warnings.push(format!(
                "segments of checkpoints could not be merged: {error}"
            )),
        }
        self.clean(blobs);
    }

    fn lay_in(&mut self, merged: Merged) {
        self.unclean
            .extend(merged.files.keys().filter_map(|file| directory_of(file)));
        let Some(operator) = self.operators.get_mut(&merged.plan.uid) else {
            return;
        };
        let run = &merged.plan.segments;
        let mut windows = operator.segments.windows(run.len());
        // Gone, where all state has been given anew in the meantime.
        if let Some(at) = windows.position(|window| window == run) {
            // That it speaks for keys of which nothing is kept says nothing where nothing lies below.
            let counts = at > 0 && merged.segment.speaks() || !merged.segment.buckets.is_empty();
            let new = counts.then_some(merged.segment);
            operator.segments.splice(at..at + run.len(), new);
            self.lengths.extend(merged.files);
        }
    }

    /// Removes the checkpoints of this job but the `kept` newest, unless another run has taken the directory.
    pub fn discard(&mut self, blobs: &dyn BlobStore, kept: usize) {
        let owner = self.owner();
        if !matches!(owner.successor(blobs), Ok(None)) {
            return;
        }
        self.remove_remains(blobs);
        self.operators.clear();
        self.remove_all_but(blobs, kept);
        self.clean(blobs);
        if kept == 0
            && let Err(error) = owner.leave(blobs)
        {
            let stays = format!("the directory still names this run: {error}");
            self.warnings.push(stays);
        }
    }

    /// Errors: another run has taken the directory.
    fn refuse_successor(&self, blobs: &dyn BlobStore) -> Result<()> {
        match self.owner().successor(blobs)? {
            None => Ok(()),
            Some(other) => Err(other.supersedes(&blobs.location())),
        }
    }

    fn owner(&self) -> Owner {
        Owner {
            job: self.options.job.clone(),
            run: self.options.run.clone(),
        }
    }
}

/// What lies in the store before the manifest.
struct FileSet {
    manifest: Manifest,
    /// The files that were written for it.
    files: BTreeMap<String, u64>,
}

impl CheckpointStorage {
    /// A beginning of file names that was not used before.
    fn next_set(&mut self, checkpoint: u64) -> String {
        self.sets += 1;
        format!(
            "chk-{checkpoint}/data-{}-{}",
            self.options.writer, self.sets
        )
    }

    fn write_files(
        &mut self,
        blobs: &dyn BlobStore,
        contents: &CheckpointContents,
    ) -> Result<FileSet> {
        let checkpoint = contents.checkpoint;
        let mut data = DataWriter::new(blobs, self.next_set(checkpoint.0), self.sizes);
        // Changes that are merged at once lie in files of their own, which go afterwards.
        let mut staged = DataWriter::new(blobs, self.next_set(checkpoint.0), self.sizes);
        let mut operators = BTreeMap::new();
        for (uid, operator) in contents.operators() {
            let stages = !self.options.incremental && operator.builds_on_earlier();
            let keyed = if stages { &mut staged } else { &mut data };
            let segments = self.write_keyed(keyed, checkpoint, &uid, &operator)?;
            let known = self.options.operators.get(&uid).cloned();
            let known = known.unwrap_or_default();
            let written = OperatorManifest {
                name: known.name,
                columns: known.columns,
                tables: write_tables(&mut data, operator.tables)?,
                segments,
            };
            operators.insert(uid, written);
        }
        let mut files = data.finish()?;
        files.extend(staged.finish()?);
        if !self.options.incremental {
            for operator in operators.values_mut() {
                self.stand_alone(blobs, checkpoint, operator, &mut files)?;
            }
        }
        let (job, max) = (&self.options.job, self.options.max_parallelism);
        let mut manifest = Manifest::new(checkpoint, job, max, operators);
        manifest.run = self.options.run.clone();
        let named: BTreeSet<String> = manifest.pieces().map(|piece| piece.file.clone()).collect();
        for file in named {
            let length = files.get(&file).or_else(|| self.lengths.get(&file));
            let length = *length.ok_or_else(|| {
                Error::internal(format!(
                    "nothing is known of {file}, which a checkpoint names"
                ))
            })?;
            manifest.files.insert(file, length);
        }
        files.retain(|file, _| manifest.files.contains_key(file));
        Ok(FileSet { manifest, files })
    }

    /// The segments of an operator, with what it said since the last checkpoint.
    fn write_keyed(
        &self,
        data: &mut DataWriter<'_>,
        checkpoint: CheckpointId,
        uid: &str,
        operator: &OperatorContents,
    ) -> Result<Vec<Segment>> {
        let mut segments = Segments::default();
        if operator.builds_on_earlier() {
            let before = self.operators.get(uid);
            segments.earlier = before.map_or(Vec::new(), |before| before.segments.clone());
            segments.earlier.extend(self.copy_base(data, uid)?);
        }
        for change in grouped(&operator.changes, data.sizes.bucket_bytes) {
            segments.add(data, checkpoint, change?)?;
        }
        let all = [segments.earlier, segments.new].concat();
        Ok(merge::without_replaced(all))
    }

    /// What the state of an operator began from, where that is not the job's.
    fn copy_base(&self, data: &mut DataWriter<'_>, uid: &str) -> Result<Option<Segment>> {
        let Some(reader) = &self.base else {
            return Ok(None);
        };
        let max = self.options.max_parallelism;
        let shares = usize::from(max.clamp(1, 32));
        let mut copy = SegmentWriter::new(reader.checkpoint(), &[KeySpan::ALL]);
        for index in 0..shares {
            let range = KeyGroupRange::of_subtask(index, shares, max);
            let state = reader.read(uid, range, max)?;
            let keyed = state
                .tables
                .into_iter()
                .filter(|(_, table)| table.scope == TableScope::Keyed);
            let tables = keyed.map(|(name, table)| (name, table.batches)).collect();
            copy.bucket(data, KeySpan::of_key_groups(range, max), &[], &tables)?;
        }
        let segment = copy.finish();
        Ok((!segment.buckets.is_empty()).then_some(segment))
    }

    /// Merges the segments of an operator into one of this checkpoint, unless they are few and all of it.
    fn stand_alone(
        &mut self,
        blobs: &dyn BlobStore,
        checkpoint: CheckpointId,
        operator: &mut OperatorManifest,
        files: &mut BTreeMap<String, u64>,
    ) -> Result<()> {
        let is_own = |segment: &Segment| {
            let mut pieces = segment.pieces();
            pieces.all(|piece| directory_of(&piece.file) == Some(checkpoint.0))
        };
        let own = operator.segments.iter().all(is_own);
        if own && operator.segments.len() <= merge::MOST_SEGMENTS {
            return Ok(());
        }
        let prefix = self.next_set(checkpoint.0);
        let (segment, written) =
            merge::merge(blobs, &operator.segments, &prefix, self.sizes, &|| false)?;
        operator.segments = match segment.buckets.is_empty() {
            true => Vec::new(),
            false => vec![segment],
        };
        files.extend(written);
        Ok(())
    }

    /// What is in the store already: which checkpoints are this job's, and what nobody names.
    fn take_stock(
        &mut self,
        blobs: &dyn BlobStore,
        restored: Option<CheckpointId>,
        claimed: Option<CheckpointId>,
    ) -> Result<()> {
        let mut named = BTreeSet::new();
        let mut found: BTreeMap<u64, Vec<BlobInfo>> = BTreeMap::new();
        for blob in blobs.list("")? {
            if let Some(id) = directory_of(&blob.path) {
                found.entry(id).or_default().push(blob);
            }
        }
        let (mut may_clean, newest) = (true, found.keys().next_back().copied());
        self.last = self.last.max(CheckpointId(newest.unwrap_or(0)));
        for (id, blobs_of) in &found {
            let path = format!("chk-{id}/{MANIFEST}");
            if !blobs_of.iter().any(|blob| blob.path == path) {
                continue;
            }
            let text = blobs.get(&path)?.unwrap_or_default();
            let (files, own) = match Manifest::from_json(&text) {
                Ok(manifest) => {
                    let own = self.is_own(&manifest, claimed);
                    (manifest.files.into_keys().collect(), own)
                }
                // Kept as it is until a newer one takes its place.
                Err(ManifestFault::Damaged(_)) => {
                    let files = blobs_of.iter().map(|blob| blob.path.clone());
                    (files.filter(|path| is_data_file(path)).collect(), true)
                }
                Err(ManifestFault::OtherVersion(_)) => {
                    may_clean = false;
                    (BTreeSet::new(), false)
                }
            };
            named.extend(files.iter().cloned());
            let id = CheckpointId(*id);
            if !own || id < self.options.owned_from && Some(id) != claimed {
                continue;
            }
            // Had it been whole, it would have been restored.
            let is_doubtful = restored.is_some_and(|restored| id > restored);
            let kept = match is_doubtful {
                true => &mut self.suspect,
                false => &mut self.history,
            };
            kept.insert(id.0, files);
        }
        if may_clean {
            self.remains.directories = found.keys().copied().collect();
            let files = found.into_values().flatten().map(|blob| blob.path);
            let unnamed = files.filter(|path| is_data_file(path) && !named.contains(path));
            self.remains.files = unnamed.collect();
        }
        Ok(())
    }

    /// Removes them, once, unless another run has taken the directory: they may be what it writes just now. What cannot be removed stays.
    fn remove_remains(&mut self, blobs: &dyn BlobStore) {
        if !matches!(self.owner().successor(blobs), Ok(None)) {
            return;
        }
        let remains = std::mem::take(&mut self.remains);
        let directories = remains.directories.iter();
        let cleared = directories.map(|id| blobs.clear_unfinished(&format!("chk-{id}")));
        let removed = remains.files.iter().map(|file| blobs.delete(file));
        let failed = cleared.chain(removed).filter_map(Result::err);
        let warnings =
            failed.map(|error| format!("a file of a half-written checkpoint stays: {error}"));
        self.warnings.extend(warnings);
    }

    /// Whether a checkpoint is of this job, and of this run unless the job goes on from others that it has there.
    fn is_own(&self, manifest: &Manifest, claimed: Option<CheckpointId>) -> bool {
        let of_any_run = self.options.owned_from == CheckpointId(0)
            || manifest.run.is_empty()
            || Some(manifest.checkpoint) == claimed;
        manifest.job == self.options.job && (of_any_run || manifest.run == self.options.run)
    }

    fn retire(&mut self, blobs: &dyn BlobStore) {
        let retained = self.options.retained.max(1);
        self.remove_all_but(blobs, retained);
        if self.history.len() < retained {
            return;
        }
        if let Some(Err(error)) = self.elsewhere.take().map(|checkpoint| checkpoint.remove()) {
            self.warnings
                .push(format!("a checkpoint that was taken over stays: {error}"));
        }
    }

    /// Manifests first: what has lost some of its files must not look whole.
    fn remove_all_but(&mut self, blobs: &dyn BlobStore, kept: usize) {
        let old: Vec<u64> = self.history.keys().rev().skip(kept).copied().collect();
        let mut files = BTreeSet::new();
        for id in old.into_iter().rev() {
            match blobs.delete(&format!("chk-{id}/{MANIFEST}")) {
                Ok(()) => files.extend(self.history.remove(&id).unwrap_or_default()),
                Err(error) => self
                    .warnings
                    .push(format!("an old checkpoint stays: {error}")),
            }
        }
        let newest = self.history.last_key_value().map(|(id, _)| *id);
        let doubtful: Vec<u64> = self.suspect.keys().copied().collect();
        for id in doubtful
            .into_iter()
            .filter(|id| Some(*id) < newest || kept == 0)
        {
            if blobs.delete(&format!("chk-{id}/{MANIFEST}")).is_ok() {
                files.extend(self.suspect.remove(&id).unwrap_or_default());
            }
        }
        let named: BTreeSet<String> = self.named().into_iter().map(str::to_string).collect();
        for file in files.iter().filter(|file| !named.contains(*file)) {
            if let Err(error) = blobs.delete(file) {
                self.warnings
                    .push(format!("a file of an old checkpoint stays: {error}"));
                self.unclean.extend(directory_of(file));
            }
        }
        self.lengths.retain(|file, _| named.contains(file));
    }

    /// All files that count.
    fn named(&self) -> BTreeSet<&str> {
        let current = self.operators.values().flat_map(OperatorManifest::pieces);
        let current = current.map(|piece| piece.file.as_str());
        let kept = self.history.values().chain(self.suspect.values());
        let kept = kept.flatten().map(String::as_str);
        current.chain(kept).collect()
    }

    /// Removes what was written for nothing. What cannot be removed now is tried again after the next checkpoint.
    fn clean(&mut self, blobs: &dyn BlobStore) {
        if self.merging {
            return;
        }
        for id in std::mem::take(&mut self.unclean) {
            if self.clean_directory(blobs, id).is_err() {
                self.unclean.insert(id);
            }
        }
    }

    fn clean_directory(&mut self, blobs: &dyn BlobStore, id: u64) -> Result<()> {
        let left = blobs.list(&format!("chk-{id}"))?;
        let manifest = format!("chk-{id}/{MANIFEST}");
        let is_known = self.history.contains_key(&id) || self.suspect.contains_key(&id);
        if !is_known && left.iter().any(|blob| blob.path == manifest) {
            // Written although the store said that it failed, by this writer or another one.
            let own = left
                .iter()
                .map(|blob| &blob.path)
                .filter(|path| self.is_mine(path));
            let own: BTreeSet<String> = own.cloned().collect();
            let text = blobs.get(&manifest)?.unwrap_or_default();
            let is_mine = match Manifest::from_json(&text) {
                Ok(manifest) => manifest.files.keys().any(|file| own.contains(file)),
                Err(_) => !own.is_empty(),
            };
            if is_mine {
                self.suspect.insert(id, own);
                return Ok(());
            }
        }
        let named = self.named();
        left.iter()
            .filter(|blob| self.is_mine(&blob.path) && !named.contains(blob.path.as_str()))
            .try_for_each(|blob| blobs.delete(&blob.path))
    }

    /// Whether this writer wrote a file, or took it over.
    fn is_mine(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        let own = format!("data-{}-", self.options.writer);
        is_data_file(path) && (name.starts_with(&own) || self.lengths.contains_key(path))
    }
}

/// The directory of a checkpoint, as a path or URL.
pub(super) fn location(blobs: &dyn BlobStore, checkpoint: u64) -> String {
    format!(
        "{}/chk-{checkpoint}",
        blobs.location().trim_end_matches('/')
    )
}

/// Puts the manifest, if all files are where they should be. Gives its length.
fn commit(
    blobs: &dyn BlobStore,
    checkpoint: CheckpointId,
    manifest: &Manifest,
    files: &BTreeMap<String, u64>,
) -> Result<u64> {
    let directory = format!("chk-{checkpoint}");
    let there = blobs.list(&directory)?;
    let lengths: BTreeMap<&str, u64> = there
        .iter()
        .map(|blob| (blob.path.as_str(), blob.bytes))
        .collect();
    for (file, bytes) in files {
        if lengths.get(file.as_str()) != Some(bytes) {
            return Err(Error::external(format!(
                "{}/{file} is gone or has another length than was written",
                blobs.location()
            ))
            .hint("does another job keep its checkpoints in the same directory? Give each job its own"));
        }
    }
    let path = format!("{directory}/{MANIFEST}");
    let text = Bytes::from(manifest.to_json()?);
    let created = blobs.create(&path, text.clone());
    if let Ok(true) = created {
        return Ok(text.len() as u64);
    }
    // It may have been written although the store's answer was lost.
    let found = blobs.get(&path);
    match (created, found) {
        (_, Ok(Some(found))) if found == text => Ok(text.len() as u64),
        (Err(error), _) => Err(error),
        (Ok(_), _) => Err(Error::external(format!(
            "checkpoint {checkpoint} in {} has been written by another job or another run of this one",
            blobs.location()
        ))
        .hint("stop the other one, or give each job its own 'execution.checkpointing.dir'")),
    }
}

/// The segments of an operator while a checkpoint is written.
#[derive(Default)]
struct Segments {
    earlier: Vec<Segment>,
    /// Of this checkpoint.
    new: Vec<Segment>,
}

impl Segments {
    fn add(
        &mut self,
        data: &mut DataWriter<'_>,
        checkpoint: CheckpointId,
        mut change: Change,
    ) -> Result<()> {
        let bounds = change.bounds();
        if change.replaces_all() {
            self.earlier.clear();
            self.new.clear();
        }
        let is_first = self.earlier.is_empty() && self.new.is_empty();
        // Pieces in the order of keys are buckets of one segment.
        let mut before = self.new.last_mut().filter(|before| {
            let last = before.buckets.last().map(|bucket| bucket.span.last);
            change.whole.is_empty() && last < Some(bounds.first) && last.is_some()
        });
        if is_first || before.as_ref().is_some_and(|before| before.is_base()) {
            // Nothing stands below it.
            change.gone.clear();
        }
        if is_first {
            change.whole = vec![KeySpan::ALL];
        }
        let segment = write_change(data, checkpoint, &change, bounds)?;
        if let Some(before) = &mut before {
            before.bytes += segment.bytes;
            before.buckets.extend(segment.buckets);
        } else if !segment.buckets.is_empty() || !is_first && !segment.whole.is_empty() {
            self.new.push(segment);
        }
        Ok(())
    }
}

fn write_tables(
    data: &mut DataWriter<'_>,
    tables: BTreeMap<String, Vec<RecordBatch>>,
) -> Result<BTreeMap<String, Piece>> {
    let mut pieces = BTreeMap::new();
    for (name, batches) in tables {
        if !batches.is_empty() {
            let piece = data.table(&batches)?;
            pieces.insert(name, piece);
        }
    }
    Ok(pieces)
}

/// The changes, neighbours together as long as they stay small; the others one at a time in memory.
fn grouped(changes: &[ChangeSource], most: usize) -> impl Iterator<Item = Result<Change>> {
    let mut sources = changes.iter();
    let mut next: Option<Change> = None;
    std::iter::from_fn(move || {
        let mut together = next.take();
        for source in sources.by_ref() {
            let change = match source.load() {
                Ok(change) => change,
                Err(error) => return Some(Err(error)),
            };
            let Some(before) = &mut together else {
                together = Some(change);
                continue;
            };
            // What says only that nothing stands is no neighbour: pieces in the order of keys follow it.
            let clears = before.replaces_all() && before.tables.is_empty();
            let is_large = before.size_bytes() + change.size_bytes() > most;
            if (is_large || clears) && !change.replaces_all() {
                next = Some(change);
                break;
            }
            if let Err(error) = before.then(change) {
                return Some(Err(error));
            }
        }
        together.map(Ok)
    })
}

/// The checkpoint in whose directory a file lies.
fn directory_of(path: &str) -> Option<u64> {
    checkpoint_number(path.split_once('/')?.0)
}

/// Whether a file is data of a checkpoint, by its name.
fn is_data_file(path: &str) -> bool {
    path.split_once('/').is_some_and(|(directory, name)| {
        checkpoint_number(directory).is_some() && name.starts_with("data-") && !name.contains('/')
    })
}
