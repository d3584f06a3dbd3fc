//! What a checkpoint on disk consists of: one JSON file, written last, that names every other file and all that is in it.
//!
//! The file carries its own checksum (see `sealed`). Fields that this build does not know are passed over.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::change::KeySpan;
use super::facts::ColumnTexts;
use super::sealed::{ManifestFault, NO_CHECKSUM, opened, sealed};
use crate::error::{Error, Result};
use crate::stream::CheckpointId;

/// The name of the file in the checkpoint's directory.
pub(super) const MANIFEST: &str = "manifest.json";

/// The version of the layout that this build writes and reads.
pub const VERSION: u64 = 2;

/// The manifest of a checkpoint; `chk-<id>/manifest.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Of this file; see `sealed`.
    checksum: String,
    /// The version of this layout: 2.
    pub version: u64,
    /// Which checkpoint.
    pub checkpoint: CheckpointId,
    /// The job's name.
    pub job: String,
    /// The run of it that wrote the checkpoint; empty where that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub run: String,
    /// `pipeline.max-parallelism`: the number of key groups, which a restore must keep.
    pub max_parallelism: u16,
    /// The lengths of the files in which the pieces lie, by path below the directory of all checkpoints.
    pub files: BTreeMap<String, u64>,
    /// The operators by stable id.
    pub operators: BTreeMap<String, OperatorManifest>,
}

/// The state of one operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorManifest {
    /// Its name, for people.
    #[serde(default)]
    pub name: String,
    /// What the columns that it reads hold, by their names.
    #[serde(default, skip_serializing_if = "ColumnTexts::is_empty")]
    pub columns: ColumnTexts,
    /// Its operator-scope tables.
    #[serde(default)]
    pub tables: BTreeMap<String, Piece>,
    /// Its keyed state, oldest first: a later segment replaces earlier ones key by key.
    #[serde(default)]
    pub segments: Vec<Segment>,
}

/// Rows of some keys, which replace what earlier segments hold of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The latest checkpoint that it is of.
    pub checkpoint: CheckpointId,
    /// The spans of keys for which it holds everything; the others it speaks for are those that its buckets have rows of or say are gone.
    #[serde(default)]
    pub whole: Vec<KeySpan>,
    /// Its length over all pieces.
    pub bytes: u64,
    /// Its pieces, in the order of keys; nothing where it has no bucket.
    pub buckets: Vec<Bucket>,
}

/// The part of a segment in one span of keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    /// Which keys.
    #[serde(flatten)]
    pub span: KeySpan,
    /// The hashes of the keys, beyond the segment's spans, for which nothing is kept any more: ascending, 8 bytes each, little-endian.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<Piece>,
    /// The rows by table.
    pub tables: BTreeMap<String, Piece>,
}

/// A run of bytes in a file: an Arrow IPC stream, or hashes of keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The file, by its path below the directory of all checkpoints.
    pub file: String,
    /// Where it begins.
    pub offset: u64,
    /// Its length.
    pub bytes: u64,
    /// xxh3-64 of it, in hexadecimal.
    pub checksum: String,
    /// Rows, or hashes, in it.
    pub rows: u64,
}

impl Piece {
    /// Where it ends.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }
}

impl Segment {
    /// Whether nothing below it counts.
    pub fn is_base(&self) -> bool {
        self.whole.contains(&KeySpan::ALL)
    }

    /// Whether it says anything of any key.
    pub(super) fn speaks(&self) -> bool {
        !self.whole.is_empty() || !self.buckets.is_empty()
    }

    /// Rows of all tables.
    pub fn rows(&self) -> u64 {
        let tables = self
            .buckets
            .iter()
            .flat_map(|bucket| bucket.tables.values());
        tables.map(|piece| piece.rows).sum()
    }

    pub(super) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.buckets.iter().flat_map(Bucket::pieces)
    }

    /// The bytes of what it tells of keys as a whole.
    pub(super) fn base_bytes(&self) -> u64 {
        if self.is_base() {
            return self.bytes;
        }
        let is_whole = |bucket: &&Bucket| self.whole.iter().any(|span| span.covers(bucket.span));
        let buckets = self.buckets.iter().filter(is_whole);
        let pieces = buckets.flat_map(Bucket::pieces);
        pieces.map(|piece| piece.bytes).sum()
    }
}

impl Bucket {
    fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.gone.iter().chain(self.tables.values())
    }
}

impl OperatorManifest {
    pub(super) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        let segments = self.segments.iter().flat_map(Segment::pieces);
        self.tables.values().chain(segments)
    }
}

impl Manifest {
    pub(super) fn new(
        checkpoint: CheckpointId,
        job: &str,
        max_parallelism: u16,
        operators: BTreeMap<String, OperatorManifest>,
    ) -> Self {
        Manifest {
            checksum: NO_CHECKSUM.to_string(),
            version: VERSION,
            checkpoint,
            job: job.to_string(),
            run: String::new(),
            max_parallelism,
            files: BTreeMap::new(),
            operators,
        }
    }

    pub(super) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.operators.values().flat_map(OperatorManifest::pieces)
    }

    /// The job and the run that wrote the checkpoint, where that is known.
    pub fn author(&self) -> Option<(String, String)> {
        (!self.run.is_empty()).then(|| (self.job.clone(), self.run.clone()))
    }

    /// Bytes of all pieces.
    pub fn full_bytes(&self) -> u64 {
        self.pieces().map(|piece| piece.bytes).sum()
    }

    pub(super) fn to_json(&self) -> Result<Vec<u8>> {
        sealed(self)
    }

    /// The manifest that [`Manifest::to_json`] wrote; else what is wrong with it.
    pub(super) fn from_json(text: &[u8]) -> Result<Self, ManifestFault> {
        opened(text, VERSION)
    }

    /// That the file belongs to another build.
    pub(super) fn other_version(version: u64, file: &str) -> Error {
        Error::user(format!(
            "{file} has layout version {version}; this build reads version {VERSION}"
        ))
        .hint("restore it with the version of Volley that wrote it, or take a savepoint there")
    }
}

/// The operator-scope tables that the text of a damaged manifest still names, by operator and table.
///
/// It is read line by line, as [`Manifest::to_json`] writes it: what stands four columns in is an operator, what stands eight columns in
/// a table of one.
pub(super) fn pieces_in_damaged(text: &[u8]) -> BTreeMap<(String, String), Piece> {
    let mut pieces = BTreeMap::new();
    let (mut uid, mut at) = (None, 0);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let opens = |indent: usize| opened_name(line, indent);
        if let Some(name) = opens(4) {
            uid = Some(name);
        } else if let (Some(uid), Some(table)) = (&uid, opens(8)) {
            let value = &text[at + line.iter().position(|byte| *byte == b'{').unwrap_or(0)..];
            let mut values = serde_json::Deserializer::from_slice(value).into_iter();
            if let Some(Ok(piece)) = values.next() {
                pieces.insert((uid.clone(), table), piece);
            }
        }
        at += line.len();
    }
    pieces
}

/// `name` in a line `"name": {` that begins behind so many spaces.
fn opened_name(line: &[u8], indent: usize) -> Option<String> {
    let line = std::str::from_utf8(line).ok()?;
    let spaces = line.len() - line.trim_start_matches(' ').len();
    let name = line.trim().strip_suffix(": {")?;
    (spaces == indent).then(|| serde_json::from_str(name).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::sealed::seal;

    #[test]
    fn a_manifest_is_read_back_and_no_byte_of_it_may_change() {
        let piece = Piece {
            file: "chk-7/data-x-0".into(),
            offset: 3,
            bytes: 5,
            checksum: "00".into(),
            rows: 1,
        };
        let operator = OperatorManifest {
            name: "Sum".into(),
            columns: BTreeMap::new(),
            tables: BTreeMap::from([("$time".to_string(), piece)]),
            segments: vec![],
        };
        let operators = BTreeMap::from([("a".to_string(), operator)]);
        let manifest = Manifest::new(CheckpointId(7), "job", 128, operators);
        let text = manifest.to_json().unwrap();
        let read = Manifest::from_json(&text).unwrap();
        assert_eq!(read.operators, manifest.operators);
        let table = || ("a".to_string(), "$time".to_string());
        let piece = manifest.operators["a"].tables["$time"].clone();
        let named = BTreeMap::from([(table(), piece)]);
        assert_eq!(pieces_in_damaged(&text), named);
        assert_eq!(pieces_in_damaged(&text[..text.len() - 1]), named);
        for at in 0..text.len() {
            let mut changed = text.clone();
            changed[at] ^= 1;
            let fault = Manifest::from_json(&changed).unwrap_err();
            assert!(
                matches!(fault, ManifestFault::Damaged(_)),
                "byte {at}: {fault:?}"
            );
            let left = pieces_in_damaged(&changed);
            assert!(left.len() <= 1, "byte {at}: {left:?}");
            assert!(Manifest::from_json(&text[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn fields_of_later_builds_are_passed_over_and_other_versions_refused() {
        let manifest = Manifest::new(CheckpointId(1), "job", 128, BTreeMap::new());
        let mut value = serde_json::to_value(&manifest).unwrap();
        value["later"] = serde_json::json!([1, 2]);
        let mut text = serde_json::to_vec_pretty(&value).unwrap();
        seal(&mut text).unwrap();
        assert!(Manifest::from_json(&text).is_ok());
        let fault = Manifest::from_json(b"{\"version\": 1}").unwrap_err();
        assert!(matches!(fault, ManifestFault::OtherVersion(1)), "{fault:?}");
        let error = Manifest::other_version(1, "chk-1/manifest.json").to_string();
        assert!(error.contains("layout version 1"), "{error}");
    }
}
