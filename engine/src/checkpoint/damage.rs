//! What is wrong with a snapshot whose files are not what was written, and what can still be read of it.
//!
//! *Damaged* is a snapshot of which a file is missing, has another length or checksum than was written, or cannot be parsed: trying again
//! does not help. Whatever else goes wrong while it is read is an error, and may pass.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;

use super::data_file::{decode_table, piece_bytes};
use super::manifest::{Manifest, Piece, pieces_in_damaged};
use super::segment::DataSource;
use crate::error::{Error, Result};

/// A snapshot that was read and compared with what was written, or what is wrong with it.
pub type Verified<S> = Result<S, Damage>;

/// What is wrong with a snapshot, and with which file.
#[derive(Debug)]
pub struct Damage {
    what: String,
    hint: &'static str,
    left: Left,
}

/// What can still be read.
#[derive(Debug)]
enum Left {
    /// Nothing that anybody could miss: a savepoint's sinks commit with the next checkpoint.
    NotNeeded,
    Unknown,
    Some(Remains),
}

impl Damage {
    pub(super) fn of_checkpoint(what: String) -> Self {
        Damage {
            what,
            hint: "restore an older checkpoint: name the directory above for the newest one that is whole",
            left: Left::Unknown,
        }
    }

    pub(super) fn of_savepoint(what: String) -> Self {
        Damage {
            what,
            hint: "restore another savepoint or a checkpoint",
            left: Left::NotNeeded,
        }
    }

    /// There is nothing at a path where something was written.
    pub fn missing(path: &str) -> Self {
        Damage::of_savepoint(format!(
            "there is no checkpoint or savepoint at {path} any more"
        ))
    }

    pub(super) fn with_remains(mut self, remains: Remains) -> Self {
        self.left = Left::Some(remains);
        self
    }

    /// As an error, for whoever has nothing else to restore.
    pub fn into_error(self) -> Error {
        Error::external(self.what).hint(self.hint)
    }

    /// What is left of a table of a checkpoint that is not keyed, by operator. Errors: the store cannot be asked.
    pub fn salvage(&self, table: &str) -> Result<Salvaged> {
        let nothing = |is_complete| Salvaged {
            rows: BTreeMap::new(),
            is_complete,
        };
        match &self.left {
            Left::NotNeeded => Ok(nothing(true)),
            Left::Unknown => Ok(nothing(false)),
            Left::Some(remains) => remains.salvage(table),
        }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

/// What could be read of a table of a damaged snapshot.
#[derive(Debug)]
pub struct Salvaged {
    /// The rows by operator: each run of bytes had the checksum with which it was written.
    pub rows: BTreeMap<String, Vec<RecordBatch>>,
    /// Whether that is all there was.
    pub is_complete: bool,
}

/// How much of a table of a damaged snapshot could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovered {
    /// All of it.
    Everything,
    /// Some of it; whether there was more nobody can tell.
    Something,
    /// Nothing, where there may have been something.
    Nothing,
}

impl Salvaged {
    /// How much it is.
    pub fn recovered(&self) -> Recovered {
        match (self.is_complete, self.rows.is_empty()) {
            (true, _) => Recovered::Everything,
            (false, false) => Recovered::Something,
            (false, true) => Recovered::Nothing,
        }
    }
}

/// The pieces that a damaged checkpoint names, as far as it can be told.
#[derive(Debug)]
pub(super) struct Remains {
    source: DataSource,
    /// By operator and table.
    tables: BTreeMap<(String, String), Piece>,
    knows_all: bool,
}

impl Remains {
    pub(super) fn of_manifest(source: DataSource, manifest: &Manifest) -> Self {
        let operators = manifest.operators.iter();
        let tables = operators.flat_map(|(uid, operator)| {
            let tables = operator.tables.iter();
            tables.map(move |(name, piece)| ((uid.clone(), name.clone()), piece.clone()))
        });
        Remains {
            source,
            tables: tables.collect(),
            knows_all: true,
        }
    }

    /// Pieces have checksums of their own, so what is found in a damaged text is what was written, or nothing.
    pub(super) fn of_damaged_manifest(source: DataSource, text: &[u8]) -> Self {
        Remains {
            source,
            tables: pieces_in_damaged(text),
            knows_all: false,
        }
    }

    fn salvage(&self, table: &str) -> Result<Salvaged> {
        let mut salvaged = Salvaged {
            rows: BTreeMap::new(),
            is_complete: self.knows_all,
        };
        for ((uid, _), piece) in self.tables.iter().filter(|((_, name), _)| name == table) {
            match self.rows(piece)? {
                Some(rows) => drop(salvaged.rows.insert(uid.clone(), rows)),
                None => salvaged.is_complete = false,
            }
        }
        Ok(salvaged)
    }

    fn rows(&self, piece: &Piece) -> Result<Option<Vec<RecordBatch>>> {
        let (blobs, path) = (&*self.source.blobs, self.source.path(&piece.file));
        let directory = path.rsplit_once('/').map_or("", |(directory, _)| directory);
        let there = blobs.list(directory)?;
        let reaches = there
            .iter()
            .any(|blob| blob.path == path && piece.end() <= blob.bytes);
        if !reaches {
            return Ok(None);
        }
        let bytes = piece_bytes(blobs, &path, piece)?;
        Ok(bytes.and_then(|bytes| decode_table(bytes).ok()))
    }
}
